"""The IPFS Pinning Services API: its requests, and how their replies are read.

A service keeps requests: each pins one CID, has an id of its own, and is in one of four states. The
same CID may be in several of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import quote, urlencode

from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.errors import NotFoundError, ProviderError
from holdfast.protocol import pin_api
from holdfast.protocol.http import Reply, Request, authorization, read_size
from holdfast.protocol.pin_api import Exchange, KeyValues, PagedList, PinPages, ServiceAPI
from holdfast.protocol.status_errors import one_line
from holdfast.records import Pin, PinFilter, PinInfo, PinState, Usage, merged_keyvalues, value_text

MAX_ORIGINS: Final = 20  # the limit of the specification
NOT_THE_API: Final = (
    "the reply is not that of a pinning service (no {}); check that pin_api_url is the address of "
    "its Pinning Services API, and whether a proxy or login page is in between"
)
FAILED: Final = "failed"
STATES: Final[Mapping[str, PinState]] = {"queued": "queued", "pinned": "pinned"}
UNDER_WAY: Final = ("queued", "pinning", "pinned")
ALL: Final = (*UNDER_WAY, FAILED)  # the default of the API is the third alone
MAX_ID: Final = 1000  # characters of a requestid, which becomes a part of an address
UNORDERED: Final = "unordered"  # the cursor after a page that is not sorted by time
MAX_CURSOR: Final = 100  # characters of a time


class PSARow(NamedTuple):
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


class PSAList(PagedList):
    """Requests, newest first: the cursor is the time of the last one.

    The service filters by CID, state and time. Names and key-values are compared here: some
    services find whole names only, and nobody would notice the pins that they leave out.
    """

    api: "PSAAPI"
    statuses: tuple[str, ...] = UNDER_WAY

    def request(self, count: int, cursor: str | None) -> Request:
        """Return the request for `count` requests that were made before `cursor`."""
        if cursor == UNORDERED:
            raise ProviderError(
                "the provider's list is longer than a page and not sorted by time, so the rest "
                "cannot be asked for: filter by cid, or set a limit"
            )
        query = {"status": ",".join(self.statuses), "limit": str(count)}
        pin_filter = self.pin_filter
        if pin_filter.cid is not None:
            names = (pin_filter.cid, pin_api.other_version(pin_filter.cid))
            query["cid"] = ",".join(name for name in names if name is not None)
        if pin_filter.since is not None:
            query["after"] = pin_api.iso_time(pin_filter.since - 1)
        if cursor is not None:
            query["before"] = cursor
        elif pin_filter.until is not None:
            query["before"] = pin_api.iso_time(pin_filter.until + 1)
        path = f"/pins?{urlencode(query, safe=',')}"
        return self.api.request("GET", path, max_reply=pin_api.MAX_PAGE)

    def read(self, reply: Reply, count: int, _cursor: str | None) -> tuple[list[Pin], str | None]:
        """Return the pins of a page, and the cursor of the next page, if there may be one.

        A service may send fewer rows than it was asked for, and then say that there are more. Or it
        may give the number of rows of the page only.
        """
        value = self.api.read_object(reply, "results")
        words = "the provider's reply is not a list of pin requests (results)"
        with self.api.reading(reply, words):
            rows = [read_row(row) for row in value["results"]]
            total = value.get("count")
            has_more = len(rows) >= count or (isinstance(total, int) and total > len(rows))
        pins = [row.pin for row in rows if row.status in self.statuses or row.status not in ALL]
        return pins, _next_cursor(rows) if has_more and rows else None


class AllRequests(PSAList):
    """Also those that have failed."""

    statuses: tuple[str, ...] = ALL


def _next_cursor(rows: list[PSARow]) -> str:
    """Return the time before which the next page begins.

    That is the time of the last row, as the service wrote it. If another row has the same time,
    more of them may follow, so the next page begins with all of them.
    """
    times = [row.pin.created_ms or 0 for row in rows]
    if not all(row.created for row in rows) or times != sorted(times, reverse=True):
        return UNORDERED
    if len(rows) > 1 and rows[-2].created == rows[-1].created:
        return pin_api.iso_time(times[-1] + 1)
    return rows[-1].created


def read_row(row: dict[str, Any]) -> PSARow:
    """Return a request; raise a built-in error for anything else.

    A state that the specification does not have is read as ``pinning``.
    """
    content, info = row["pin"], row.get("info")
    facts = info if isinstance(info, dict) else {}
    CID.parse(content["cid"])
    status, request_id = row["status"], pin_api.read_id(row.get("requestid", row.get("requestId")))
    created = row.get("created") or ""
    if not isinstance(status, str) or len(request_id) > MAX_ID or request_id in {".", ".."}:
        raise TypeError("a status is a text, and an id is short and no step in a path")
    if not isinstance(created, str) or len(created) > MAX_CURSOR:
        raise TypeError("a time is a short text")
    pin = Pin(
        id=request_id,
        cid=content["cid"],
        name=str(content.get("name") or ""),
        keyvalues=dict(content.get("meta") or {}),
        size=read_size(str(facts.get("dag_size"))),
        created_ms=pin_api.read_time(created) if created else None,
        state=STATES.get(status, "pinning"),
    )
    return PSARow(pin, status, created, str(facts.get("status_details") or ""))


class PSAAPI(ServiceAPI):
    """The API at `base_url`, to which ``/pins`` is added.

    Args:
        base_url: The address.
        token: The credential.
        origins: Addresses that have the content of all new pins.
    """

    list_type: ClassVar[type[PagedList]] = PSAList

    def __init__(self, base_url: str, token: Secret, origins: tuple[str, ...] = ()) -> None:
        super().__init__(base_url, token)
        self._credential = authorization(token)
        self._origins = origins

    # Pins

    def pin(self, cid: str, info: PinInfo, origins: Sequence[str] = ()) -> Exchange[Pin]:
        """Pin content that exists elsewhere, unless there is a request for it.

        Such a request gets the name and the key-values that the user gave.
        """
        existing = yield from self._best(cid)
        if existing is None:
            body = self._body(cid, info.name, info.keyvalues, origins)
            return (yield from self._ask("/pins", body, cid))
        name = info.name if info.given else existing.name
        after = merged_keyvalues(existing.keyvalues, info.keyvalues)
        if (name, _texts(after)) == (existing.name, _texts(existing.keyvalues)):
            return existing
        return (yield from self._replace(existing, name, after))

    def update(self, cid: str, name: str | None, keyvalues: KeyValues | None) -> Exchange[Pin]:
        """Change the name, the key-values or both, by a request in place of the one there is."""
        existing = yield from self._best(cid)
        if existing is None:
            raise NotFoundError(f"{cid} is not pinned: pin it by its CID")
        after = merged_keyvalues(existing.keyvalues, keyvalues or {})
        return (yield from self._replace(existing, existing.name if name is None else name, after))

    def _replace(self, pin: Pin, name: str, keyvalues: Mapping[str, Any]) -> Exchange[Pin]:
        """Replace a request by one with this name and these key-values.

        IPFS Cluster has one request for each CID, and the CID is its id. There, a second request
        for the CID changes the first one. A replacement would unpin the content.
        """
        body = self._body(pin.cid, name, keyvalues, ())
        if pin.id != pin.cid:
            made = yield from self._ask(_path(pin.id), body, pin.cid)
            if made.id != pin.id:
                return made
        return (yield from self._ask("/pins", body, pin.cid))

    def _body(
        self, cid: str, name: str, keyvalues: KeyValues, origins: Sequence[str]
    ) -> dict[str, Any]:
        hints = list(dict.fromkeys((*self._origins, *origins)))[:MAX_ORIGINS]
        meta = _texts(keyvalues) or None
        return pin_api.members(cid=str(cid), name=name or None, meta=meta, origins=hints or None)

    def _ask(self, path: str, body: dict[str, Any], cid: str) -> Exchange[Pin]:
        """Send a request to pin `cid`, and return its pin."""
        reply = yield self.request("POST", path, json=body)
        row = self._read_row(reply)
        if CID.parse(row.pin.cid) != CID.parse(cid):
            words = f"the provider was asked to pin {cid}, and replied with another CID"
            raise self.failure(words, reply)
        pin = self._checked(row, reply)
        # Some services reply with less than was sent.
        keyvalues = pin.keyvalues or body.get("meta", {})
        return replace(pin, name=pin.name or body.get("name", ""), keyvalues=keyvalues)

    def check_pin(self, pin: Pin) -> Exchange[Pin]:
        """Return a pin by `pin` as it is now; raise ProviderError if it has failed or is gone."""
        reply = yield self.request("GET", _path(pin.id))
        if reply.status != pin_api.NOT_FOUND:
            return self._checked(self._read_row(reply), reply)
        newest = yield from self._best(pin.cid)
        if newest is None:
            raise NotFoundError(f"{pin.cid} was unpinned in the meantime")
        return newest

    def unpin(self, cid: str) -> Exchange[None]:
        """Delete every request for `cid`, also those that have failed."""
        pins = yield from PinPages(AllRequests(self, PinFilter(cid=cid)), None).read_all()
        if not pins:
            raise NotFoundError(f"{cid} is not pinned")
        for pin in pins:
            reply = yield self.request("DELETE", _path(pin.id))
            if reply.status != pin_api.NOT_FOUND:  # somebody else was faster, or the reply was lost
                self.check(reply)

    def _best(self, cid: str) -> Exchange[Pin | None]:
        """Return the newest request for `cid`, one that is pinned if there is any."""
        pins = yield from self.find(cid, limit=None)
        return next((pin for pin in pins if pin.state == "pinned"), pins[0] if pins else None)

    def _checked(self, row: "PSARow", reply: Reply) -> Pin:
        """Return the pin of a row; raise ProviderError if it has failed."""
        if row.status != FAILED:
            return row.pin
        why = self.token.scrub(one_line(row.details)) or "it gives no reason"
        words = f"the provider could not pin {row.pin.cid}: {why}"
        raise self.failure(words, reply, details=row.details or None)

    # Credentials

    def check_credentials(self) -> Exchange[None]:
        """Return if the service accepts the token; raise an error otherwise."""
        reply = yield self.request("GET", "/pins?limit=1")
        if not isinstance(self.read_object(reply, "results")["results"], list):
            raise self.failure(NOT_THE_API.format("results"), reply)

    def usage(self) -> Exchange[Usage]:
        """Return the number of pins."""
        reply = yield self.request("GET", "/pins?limit=1")
        count = self.read_object(reply, "count")["count"]
        with self.reading(reply, NOT_THE_API.format("count")):
            return Usage(pins=int(count))

    def read_object(self, reply: Reply, member: str) -> dict[str, Any]:
        """Return the JSON object of a successful reply, which has `member`."""
        value = self.read_json(reply)
        if not isinstance(value, dict) or member not in value:
            raise self.failure(NOT_THE_API.format(member), reply)
        return value

    def _read_row(self, reply: Reply) -> "PSARow":
        value = self.read_object(reply, "pin")
        words = "the provider's reply is not a pin request (requestid, status, pin.cid)"
        with self.reading(reply, words):
            return read_row(value)


def _path(request_id: str) -> str:
    return f"/pins/{quote(request_id, safe='')}"


def _texts(keyvalues: Mapping[str, Any]) -> dict[str, str]:
    """Return key-values as the API takes them: all values are texts."""
    return {key: value_text(value) for key, value in keyvalues.items()}
