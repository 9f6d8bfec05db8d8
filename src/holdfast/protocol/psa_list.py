"""The list of requests of a pinning service: its filters, its pages by time, and its rows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.errors import ProviderError
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.pin_list import MAX_PAGE, fits, iso_time, other_version, read_id, read_time
from holdfast.protocol.status_errors import failure
from holdfast.records import Pin, PinFilter, PinState

if TYPE_CHECKING:
    from holdfast.protocol.psa import PSAAPI

FAILED: Final = "failed"
UNDER_WAY: Final = ("queued", "pinning", "pinned")
ALL: Final = (*UNDER_WAY, FAILED)  # the default of the API is the third alone
MAX_ID: Final = 1000  # characters of a requestid, which becomes a part of an address
UNORDERED: Final = "unordered"  # the cursor after a page that is not sorted by time
MAX_CURSOR: Final = 100  # characters of a time


@dataclass(frozen=True, slots=True)
class PSARow:
    """A request as a service sends it.

    Attributes:
        pin: The pin; that of a failed request has no meaningful state.
        status: The word of the service.
        created: When it was made, in the words of the service.
        details: What the service says about the status, or "".
    """

    pin: Pin
    status: str
    created: str
    details: str


@dataclass(frozen=True, slots=True)
class PSAList:
    """The requests that are `wanted`, newest first: the cursor is the time of the last one.

    The service filters by CID, state and time. Names and key-values are compared here: some
    services find whole names only, and nobody would notice the pins that they leave out.
    """

    api: "PSAAPI"
    wanted: PinFilter
    statuses: tuple[str, ...]

    @property
    def token(self) -> Secret:
        """The credential, to be removed from error messages."""
        return self.api.token

    def request(self, count: int, cursor: str | None) -> Request:
        """Return the request for `count` requests that were made before `cursor`."""
        if cursor == UNORDERED:
            raise ProviderError(
                "the provider's list is longer than a page and not sorted by time, so the rest "
                "cannot be asked for: filter by cid, or set a limit"
            )
        query = {"status": ",".join(self.statuses), "limit": str(count)}
        wanted = self.wanted
        if wanted.cid is not None:
            names = (wanted.cid, other_version(wanted.cid))
            query["cid"] = ",".join(name for name in names if name is not None)
        if wanted.since is not None:
            query["after"] = iso_time(wanted.since - 1)
        if cursor is not None:
            query["before"] = cursor
        elif wanted.until is not None:
            query["before"] = iso_time(wanted.until + 1)
        path = f"/pins?{urlencode(query, safe=',')}"
        return self.api.request("GET", path, max_reply=MAX_PAGE)

    def read(self, reply: Reply, count: int, _cursor: str | None) -> tuple[list[Pin], str | None]:
        """Return the pins of a page, and the cursor of the next page, if there may be one.

        A service may send fewer rows than it was asked for, and then say that there are more. Or it
        may give the number of rows of the page only.
        """
        value = self.api.read_object(reply, "results")
        try:
            rows = [read_row(row) for row in value["results"]]
            total = value.get("count")
            has_more = len(rows) >= count or (isinstance(total, int) and total > len(rows))
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            words = "the provider's reply is not a list of pin requests (results)"
            raise failure(words, reply, secret=self.token) from None
        pins = [row.pin for row in rows if row.status in self.statuses or row.status not in ALL]
        return pins, _next_cursor(rows) if has_more and rows else None

    def before(self, cursor: str) -> None:
        """Return None: pages by time do not change when requests are made or removed."""

    def matches(self, pin: Pin) -> bool:
        """Return whether `pin` is wanted."""
        name = (self.wanted.name or "").casefold()
        return name in pin.name.casefold() and fits(pin, self.wanted)


def _next_cursor(rows: list[PSARow]) -> str:
    """Return the time before which the next page begins.

    That is the time of the last row, as the service wrote it. If another row has the same time,
    more of them may follow, so the next page begins with all of them.
    """
    times = [row.pin.created or 0 for row in rows]
    if not all(row.created for row in rows) or times != sorted(times, reverse=True):
        return UNORDERED
    if len(rows) > 1 and rows[-2].created == rows[-1].created:
        return iso_time(times[-1] + 1)
    return rows[-1].created


def read_row(row: dict[str, Any]) -> PSARow:
    """Return a request; raise a built-in error for anything else.

    A state that the specification does not have is read as ``pinning``.
    """
    about, info = row["pin"], row.get("info")
    facts = info if isinstance(info, dict) else {}
    CID.parse(about["cid"])
    status, request_id = row["status"], read_id(row.get("requestid", row.get("requestId")))
    created = row.get("created") or ""
    if not isinstance(status, str) or len(request_id) > MAX_ID or request_id in {".", ".."}:
        raise TypeError("a status is a text, and an id is short and no step in a path")
    if not isinstance(created, str) or len(created) > MAX_CURSOR:
        raise TypeError("a time is a short text")
    state: PinState = "pinning"
    if status in {"queued", "pinned"}:
        state = status  # type: ignore[assignment]  # just compared
    pin = Pin(
        id=request_id,
        cid=about["cid"],
        name=str(about.get("name") or ""),
        keyvalues=dict(about.get("meta") or {}),
        size=_size(facts.get("dag_size")),
        created=read_time(created) if created else None,
        state=state,
    )
    return PSARow(pin, status, created, str(facts.get("status_details") or ""))


def _size(text: object) -> int | None:
    """Return the bytes of a pin, if the service says them."""
    digits = str(text)
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 19 else None
