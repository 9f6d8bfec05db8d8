"""The interface of pinning APIs (`PinAPI`): exchanges of requests and replies, and pages of pins.

An `Exchange` is a generator: it yields a request, is sent its reply, may yield another, and returns
the result. It never waits. The provider sends the requests, blocking or awaited.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Protocol, TypeAlias, TypeVar

from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.errors import ProviderError
from holdfast.protocol import json_text
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.multipart import FormFile, OnSent
from holdfast.protocol.status_errors import SPEC_ERRORS, ErrorTable, failure, provider_error
from holdfast.records import Added, Pin, PinFilter, PinInfo, value_text

MAX_PAGE: Final = 16 << 20  # bytes of one page of pins, with all metadata
OTHER: Final = "other "  # begins the cursor of a list under the other version of its CID
T = TypeVar("T")
Exchange: TypeAlias = Generator[Request, Reply, T]
KeyValues: TypeAlias = Mapping[str, Any]
PAGE_LIMIT: Final = 1000  # the pins of one page
MAX_PINS: Final = 10**6  # pins in one list
MAX_ROWS: Final = 2 * MAX_PINS  # rows in one list, with those that came twice
MAX_LIST_BYTES: Final = 1 << 30  # bytes of one list, of all its pages
JSON_TYPE: Final = {"Content-Type": "application/json"}
FORBIDDEN, NOT_FOUND = 403, 404
MALFORMED: Final = (AttributeError, LookupError, TypeError, ValueError, OverflowError)
"""The errors of code that reads rows with unexpected members."""


def other_version(text: str | None) -> str | None:
    """Return the CID with the other version number; None if it exists in one version only.

    Example:
        >>> other_version("QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH")
        'bafybeif7ztnhq65lumvvtr4ekcwd2ifwgm3awq4zfr3srh462rwyinlb4y'
        >>> other_version("bafkqaaa")
    """
    other = None if text is None else CID.parse(text).in_other_version()
    return None if other is None else str(other)


def members(**members: Any) -> dict[str, Any]:
    """Return the members of a JSON object, without those that are None."""
    return {name: value for name, value in members.items() if value is not None}


def as_texts(keyvalues: KeyValues) -> dict[str, str | None]:
    """Return key-values as services keep them: all values are texts; None removes one."""
    return {key: None if value is None else value_text(value) for key, value in keyvalues.items()}


def read_id(value: Any) -> str:
    """Return the id of a row as text; raise TypeError if it has none."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise TypeError("a pin has an id")
    return str(value)


def read_file(row: dict[str, Any], cid: str, metadata: dict[str, Any], created: str) -> Pin:
    """Return the pin of a file; raise a built-in error if the members of `row` are not its.

    `metadata` has its name and key-values.
    """
    CID.parse(cid)
    return Pin(
        id=read_id(row["id"]),
        cid=cid,
        name=str(metadata.get("name") or ""),
        keyvalues=dict(metadata.get("keyvalues") or {}),
        size=int(row["size"]),
        files=int(row.get("number_of_files") or 1),
        type=str(row.get("mime_type") or ""),
        created_ms=read_time(created),
    )


def read_time(text: str) -> int:
    """Return a time of the service in milliseconds; raise a built-in error for another text."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def iso_time(milliseconds: int) -> str:
    """Return a time as the service writes it."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class PinAPI(Protocol):
    """The requests of a pinning service, and the meaning of its replies."""

    def add_json(self, text: bytes, info: PinInfo) -> Exchange[Added]:
        """Pin the JSON `text`, which is sent as it is."""

    def add_files(
        self, files: Iterable[FormFile], info: PinInfo, on_sent: OnSent, *, whole: bool = False
    ) -> Exchange[Added]:
        """Pin a file, or several as a directory; call `on_sent` with the bytes sent so far.

        `files` can be iterated again. With `whole`, they are small and in memory: they are sent at
        once, and `on_sent` is not called.
        """

    def unpin(self, cid: str) -> Exchange[None]:
        """Remove the pin of `cid`; raise NotFoundError if it is not pinned."""

    def check_credentials(self) -> Exchange[None]:
        """Return if the service accepts the token; raise an error otherwise."""

    def pages(self, pin_filter: PinFilter, *, limit: int | None) -> "PinPages":
        """Return a new list of at most `limit` pins, newest first."""

    def update(self, cid: str, name: str | None, keyvalues: KeyValues | None) -> Exchange[Pin]:
        """Change the name, the key-values or both of the pin of `cid`."""

    def pin(self, cid: str, info: PinInfo) -> Exchange[Pin]:
        """Pin content that exists elsewhere; return the pin as soon as that is accepted."""

    def check_pin(self, pin: Pin) -> Exchange[Pin]:
        """Return a pin by `pin` as it is now; raise ProviderError if the service has failed."""


class ServiceAPI:
    """What the APIs of pinning services share: requests with the token, errors and lists.

    Args:
        base_url: The address of the API.
        token: The credential.
    """

    errors: ClassVar[ErrorTable] = SPEC_ERRORS
    list_type: "ClassVar[type[PagedList]]"

    def __init__(self, base_url: str, token: Secret) -> None:
        self.base_url = base_url
        self.token = token
        self._credential = {"Authorization": token.prefixed("Bearer ")}  # the same for all requests

    def request(
        self,
        method: str,
        path: str,
        *,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        **more: Any,
    ) -> Request:
        """Return a request to `path` with the token, and with the JSON value `json` if any."""
        if json is not None:
            headers, more["body"] = JSON_TYPE, json_text.to_text(json).encode()
        fields: dict[str, str | Secret] = {**(headers or {}), **self._credential}
        url = base_url or self.base_url
        # A sum would be a plain string, and show the query of a `SignedURL`.
        return Request(method, url + path if path else url, fields, **more)

    def check(self, reply: Reply) -> None:
        """Raise the error of a failed call."""
        if not reply.ok:
            raise provider_error(reply, secret=self.token, table=self.errors)

    def read_json(self, reply: Reply) -> Any:
        """Return the JSON value of a successful reply, or None; raise the error of another."""
        self.check(reply)
        return json_text.value_of(reply.body)

    @contextmanager
    def reading(self, reply: Reply, words: str) -> Iterator[None]:
        """Raise the ProviderError `words` in place of the error of code that reads `reply`."""
        try:
            yield
        except MALFORMED:
            raise self.failure(words, reply) from None

    def pages(self, pin_filter: PinFilter, *, limit: int | None) -> "PinPages":
        """Return a new list of at most `limit` pins, newest first."""
        return PinPages(self.list_type(self, pin_filter), limit)

    def find(self, cid: str, *, limit: int | None = 1) -> Exchange[list[Pin]]:
        """Return the pins of `cid`, newest first."""
        return self.pages(PinFilter(cid=cid), limit=limit).read_all()

    def failure(self, words: str, reply: Reply, *, details: str | None = None) -> ProviderError:
        """Return the error `words` with the facts of `reply`."""
        return failure(words, reply, details=details, secret=self.token)


class PagedList(ABC):
    """One list of pins at a service, newest first, of which pages can be requested.

    The service may know a pin by the text of its CID only. After `OTHER`, a cursor is for the pins
    under the other version of the CID, which names the same content.
    """

    compares_names: ClassVar[bool] = True  # False where the service does it
    api: ServiceAPI

    def __init__(self, api: Any, pin_filter: PinFilter) -> None:
        self.api = api
        self.pin_filter = pin_filter

    @abstractmethod
    def request(self, count: int, cursor: str | None) -> Request:
        """Return the request for `count` pins from `cursor` on; None is the start."""

    @abstractmethod
    def read(self, reply: Reply, count: int, cursor: str | None) -> tuple[list[Pin], str | None]:
        """Return the pins of a page, and the cursor of the next page, if there is one.

        Where pages move when pins are made or removed, the next page begins with the last pin of
        this one.
        """

    def before(self, _cursor: str) -> str | None:
        """Return the cursor of `PAGE_LIMIT` pins that end there; None if pages do not move."""
        return None

    def matches(self, pin: Pin) -> bool:
        """Return whether `pin` is wanted: services differ in how exact their filters are."""
        pin_filter = self.pin_filter
        return (
            (not self.compares_names or (pin_filter.name or "").casefold() in pin.name.casefold())
            and (pin_filter.cid is None or CID.parse(pin.cid) == CID.parse(pin_filter.cid))
            and (not pin_filter.keyvalues or pin_filter.fits(pin.keyvalues))
            and (pin_filter.since is None or pin_filter.since <= (pin.created_ms or 0))
            and (pin_filter.until is None or (pin.created_ms or 0) <= pin_filter.until)
        )

    def cid_at(self, cursor: str | None) -> str | None:
        """Return the CID to ask for at `cursor`."""
        is_other = (cursor or "").startswith(OTHER)
        return (other_version(self.pin_filter.cid) or "") if is_other else self.pin_filter.cid


class ListSize:
    """Counts what a provider has sent of one list, which could be endless.

    Args:
        endless: The error message for too many rows, with their number.
    """

    def __init__(self, endless: str) -> None:
        self._endless = endless
        self._rows = 0
        self._bytes = 0

    def add(self, *, rows: int, size: int) -> str | None:
        """Count rows and bytes; return the error message if they are too many."""
        self._rows += rows
        self._bytes += size
        if self._rows > MAX_ROWS:
            return self._endless.format(MAX_ROWS)
        if self._bytes > MAX_LIST_BYTES:
            return f"the provider's list of pins is longer than {MAX_LIST_BYTES:,} bytes"
        return None


class PinPages:
    """The state of a list of pins that comes page by page.

    A pin that is made meanwhile moves others to the next page, so rows may come twice. A pin that
    is removed moves others to the page before: the next page then does not begin with a known pin,
    and the pages before it are read again. A provider that sends no new row, or too many, could
    make the list endless: that is a `ProviderError`.
    """

    def __init__(self, pins: PagedList, limit: int | None) -> None:
        self._list = pins
        self._limit = limit
        self._seen: set[str] = set()
        self._returned = 0
        self._size = ListSize("the provider repeats pins in its list, which has over {:,} rows")
        self._cursor: str | None = None
        self._is_last = False
        self._last: str | None = None  # the last pin of the page before
        self._is_back = False  # whether the next page is read again, because pins were removed
        self._may_move = True  # False if that has shown no pin that was not known

    @property
    def next_count(self) -> int:
        """How many pins to ask for next; 0 when the list is complete."""
        if self._is_last:
            return 0
        if self._limit is None:
            return PAGE_LIMIT
        left = self._limit - self._returned
        if not left:
            return 0
        # A service whose filters are inexact is asked for full pages.
        if self._is_back or self._returned < len(self._seen):
            return PAGE_LIMIT
        return min(PAGE_LIMIT, left + (self._cursor is not None))  # one is known

    def request(self) -> Request:
        """Return the request for the next page."""
        return self._list.request(self.next_count, self._cursor)

    def read(self, reply: Reply) -> list[Pin]:
        """Return the pins of a page that are new."""
        cursor = self._cursor
        pins, self._cursor = self._list.read(reply, self.next_count, cursor)
        new = {pin.id: pin for pin in pins if pin.id not in self._seen}
        rows = len(pins) or PAGE_LIMIT  # so that empty pages come to an end too
        too_long = self._size.add(rows=rows, size=len(reply.body))
        if words := self._objection(pins, new=len(new)) or too_long:
            raise failure(words, reply, secret=self._list.api.token)
        begins_known = bool(pins) and pins[0].id in self._seen
        if cursor is not None and self._may_move and not begins_known:  # pins were removed
            before = self._list.before(cursor)
            if before is not None:
                self._cursor, self._is_back = before, True
                return []
        self._may_move = bool(new) or not self._is_back
        self._is_back = False
        self._is_last = self._cursor is None
        self._last = pins[-1].id if pins else None
        self._seen.update(new)
        matching = [pin for pin in new.values() if self._list.matches(pin)]
        if self._limit is not None:
            matching = matching[: self._limit - self._returned]
        self._returned += len(matching)
        return matching

    def read_all(self) -> Exchange[list[Pin]]:
        """Return the pins of all pages."""
        pins: list[Pin] = []
        while self.next_count:
            pins += self.read((yield self.request()))
        return pins

    def _objection(self, pins: list[Pin], *, new: int) -> str | None:
        """Return the error message for the list so far, or None."""
        is_end = self._cursor is None and pins and pins[-1].id == self._last
        if pins and not (new or self._is_back or is_end):
            return "the provider sent the same pins again in place of the next page: try again"
        if len(self._seen) + new > MAX_PINS:
            return f"the provider lists more than {MAX_PINS:,} pins: set a limit, or filter by name"
        return None
