"""The pinning API of the spec: its requests, and how their replies are read."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlencode

from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.errors import NotFoundError, PermissionDeniedError
from holdfast.hints import advise
from holdfast.protocol import json_text, pin_api
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.multipart import FileForm, FormFile, OnSent
from holdfast.protocol.pin_api import JSON_TYPE, OTHER, Exchange, KeyValues, PagedList, ServiceAPI
from holdfast.protocol.status_errors import PINNING_ERRORS
from holdfast.records import Added, Pin, PinFilter, PinInfo, PinState, Usage, merged_keyvalues

# The service's names for the members of its bodies. The spec writes the first one ``pinContent``.
CONTENT: Final = b"pinataContent"
METADATA: Final = "pinataMetadata"
OPTIONS: Final = "pinataOptions"
NO_SCOPES: Final = b"NO_SCOPES_FOUND"  # the older calls' error for keys that are made for v3
V3_KEY: Final = "the key may be for the service's v3 API: use {}"

JOBS: Final = 100  # of one CID, of which the newest are asked for
DONE: Final = "backfilled"  # of the older API; in v3 such a job still waits
QUEUED: Final = frozenset({"prechecking", DONE})
FAILURES: Final[Mapping[str, str]] = {
    "expired": "it did not find the content in time; check that a node or gateway serves it",
    "over_free_limit": "it is larger than the plan of the account allows",
    "over_max_size": "it is larger than the provider accepts",
    "invalid_object": "the content under the CID is not valid",
    "bad_host_node": "it cannot reach the node that has the content",
}
"""The states of jobs that have failed, and what they mean."""


class PinList(PagedList):
    """Pins in pages by offset: the cursor is the offset, as text."""

    compares_names = False

    def request(self, count: int, cursor: str | None) -> Request:
        """Return the request for `count` pins from `cursor` on."""
        query = {"status": "pinned", "includeCount": "false", "pageLimit": str(count)}
        query["pageOffset"] = (cursor or "0").removeprefix(OTHER)
        query |= _filters(self.pin_filter, self.cid_at(cursor))
        path = f"/data/pinList?{urlencode(query)}"
        return self.api.request("GET", path, max_reply=pin_api.MAX_PAGE)

    def read(self, reply: Reply, count: int, cursor: str | None) -> tuple[list[Pin], str | None]:
        """Return the pins of a page, and the cursor of the next unless fewer came than `count`.

        The next page begins with the last pin of this one, which shows whether it has moved.
        """
        value = self.api.read_json(reply)
        with self.api.reading(reply, "the provider's reply is not a list of pins (rows)"):
            pins = [_read_pin(row) for row in value["rows"]]
        if not pins and cursor is None and pin_api.other_version(self.pin_filter.cid) is not None:
            return pins, f"{OTHER}0"
        if len(pins) < count:
            return pins, None
        return pins, _moved(cursor or "0", len(pins) - 1)

    def before(self, cursor: str) -> str | None:
        """Return the cursor of `PAGE_LIMIT` pins that end at `cursor`; None at the start."""
        before = _moved(cursor, 1 - pin_api.PAGE_LIMIT)
        return None if before == cursor else before


def _moved(cursor: str, count: int) -> str:
    """Return a cursor that is `count` pins later, or earlier, but not before the start."""
    kind = OTHER if cursor.startswith(OTHER) else ""
    return f"{kind}{max(0, int(cursor.removeprefix(kind)) + count)}"


def _filters(pin_filter: PinFilter, cid: str | None) -> dict[str, str]:
    """Return the service's parameters for the pins that are `pin_filter`."""
    query: dict[str, str] = {}
    if pin_filter.name:
        query["metadata[name]"] = pin_filter.name
    if cid is not None:
        query["cid"] = cid
    if pin_filter.keyvalues:
        conditions = {
            key: {"value": value, "op": "eq"} for key, value in pin_filter.keyvalues.items()
        }
        query["metadata[keyvalues]"] = json_text.to_text(conditions)
    if pin_filter.since is not None:
        query["pinStart"] = pin_api.iso_time(pin_filter.since)
    if pin_filter.until is not None:
        query["pinEnd"] = pin_api.iso_time(pin_filter.until)
    return query


def _read_pin(row: dict[str, Any]) -> Pin:
    """Return the pin of a row of `pinList`; raise a built-in error for anything else."""
    metadata = row.get("metadata") or {}
    return pin_api.read_file(row, row["ipfs_pin_hash"], metadata, row["date_pinned"])


class PinningAPI(ServiceAPI):
    """The API at `base_url`: a `PinAPI`.

    Args:
        base_url: The address of the API.
        token: The credential.
        cid_version: The version of new CIDs.
        group: The id of the group to which uploads are added; None for none.
        without_scopes: What to do where the key lacks the scopes of the older calls.
    """

    errors = PINNING_ERRORS
    list_type: ClassVar[type[PagedList]] = PinList

    def __init__(
        self,
        base_url: str,
        token: Secret,
        cid_version: int,
        group: str | None = None,
        without_scopes: str = V3_KEY,
    ) -> None:
        super().__init__(base_url, token)
        options = {"cidVersion": cid_version} | ({"groupId": group} if group else {})
        self._options = json_text.to_text(options)
        self._without_scopes = without_scopes

    def add_json(self, text: bytes, info: PinInfo) -> Exchange[Added]:
        """Pin the JSON `text`, which goes into the body as it is."""
        members = f'"{METADATA}":{_metadata(info)},"{OPTIONS}":{self._options}'.encode()
        body = b'{"%b":%b,%b}' % (CONTENT, text, members)
        reply = yield self.request("POST", "/pinning/pinJSONToIPFS", headers=JSON_TYPE, body=body)
        added = self._read_added(reply)
        return (yield from self._change_duplicate(added, info, reply)) if added.duplicate else added

    def add_files(
        self, files: Iterable[FormFile], info: PinInfo, on_sent: OnSent, *, whole: bool = False
    ) -> Exchange[Added]:
        """Pin a file, or several as a directory.

        The service names the pin as the file. So metadata is sent only with key-values. With
        `whole`, the files are small and in memory: they are sent at once.
        """
        fields = {OPTIONS: self._options}
        if info.keyvalues:
            fields[METADATA] = _metadata(info)
        sending = FileForm(files, fields=fields).sending(on_sent, whole=whole)
        reply = yield self.request("POST", "/pinning/pinFileToIPFS", **sending)
        added = self._read_added(reply)
        return (yield from self._change_duplicate(added, info, reply)) if added.duplicate else added

    def _change_duplicate(self, added: Added, info: PinInfo, reply: Reply) -> Exchange[Added]:
        """Give a pin that existed what the user gave: the service may keep what it has.

        If the reply to an earlier attempt was lost, that attempt may have made the pin.
        """
        if info.is_explicit:
            yield from self._change(added.cid, info.name if info.given else None, info.keyvalues)
        return replace(added, duplicate=None) if reply.reply_lost else added

    def _change(self, cid: str, name: str | None, keyvalues: KeyValues | None) -> Exchange[None]:
        """Change the metadata of a pin. The service adds key-values; null removes one."""
        changes = dict(keyvalues or {}) or None
        body = pin_api.members(ipfsPinHash=str(cid), name=name, keyvalues=changes)
        self.check((yield self.request("PUT", "/pinning/hashMetadata", json=body)))

    def update(self, cid: str, name: str | None, keyvalues: KeyValues | None) -> Exchange[Pin]:
        """Change the name, the key-values or both of the pin of `cid`."""
        yield from self._change(cid, name, keyvalues)
        pins = yield from self.find(cid)
        if not pins:
            raise NotFoundError(f"The current user has not pinned the cid: {cid}")
        return _changed(pins[0], name, keyvalues)

    def pin(self, cid: str, info: PinInfo) -> Exchange[Pin]:
        """Pin content that exists elsewhere, unless it is pinned already."""
        pins = yield from self.find(cid)
        if not pins:
            metadata = f',"{METADATA}":{_metadata(info)}' if info.is_explicit else ""
            body = f'{{"hashToPin":{json_text.to_text(cid)}{metadata}}}'.encode()
            reply = yield self.request("POST", "/pinning/pinByHash", headers=JSON_TYPE, body=body)
            return read_job(self, reply, self.read_json(reply), "ipfsHash", cid=cid, info=info)
        if not info.is_explicit:
            return pins[0]
        name = info.name if info.given else None
        yield from self._change(pins[0].cid, name, info.keyvalues)
        return _changed(pins[0], name, info.keyvalues)

    def check_pin(self, pin: Pin) -> Exchange[Pin]:
        """Return a pin by `pin` as it is now."""
        query = urlencode({"ipfs_pin_hash": pin.cid, "sort": "DESC", "limit": str(JOBS)})
        reply = yield self.request("GET", f"/pinning/pinJobs?{query}")
        state = find_job(self, reply, self.read_json(reply), "rows", pin)
        if state is not None and state != DONE:
            return replace(pin, state=state_of(self, reply, state, pin.cid))
        pins = yield from self.find(pin.cid)
        return pins[0] if pins else pin

    def unpin(self, cid: str) -> Exchange[None]:
        """Remove the pin of `cid`.

        If the reply to an earlier attempt was lost, the pin may be gone already: then "not pinned"
        is success.
        """
        reply = yield self.request("DELETE", f"/pinning/unpin/{quote(cid, safe='')}")
        if not (reply.reply_lost and PINNING_ERRORS.says_not_pinned(reply)):
            self.check(reply)

    def check_credentials(self) -> Exchange[None]:
        """Return if the service accepts the token; raise an error if not, or if another replied."""
        reply = yield self.request("GET", "/data/testAuthentication")
        value = self.read_json(reply)
        if not (isinstance(value, dict) and isinstance(value.get("message"), str)):
            words = (
                "the reply is not from the pinning API: no message; "
                "check pin_api_url, and whether a proxy or login page is in between"
            )
            raise self.failure(words, reply)

    def usage(self) -> Exchange[Usage]:
        """Return the number of pins, and the bytes of their blocks."""
        reply = yield self.request("GET", "/data/userPinnedDataTotal")
        value = self.read_json(reply)
        with self.reading(reply, "the provider's reply holds no totals (pin_count)"):
            return Usage(pins=int(value["pin_count"]), bytes=int(value["pin_size_total"]))

    def _read_added(self, reply: Reply) -> Added:
        value = self.read_json(reply)
        members = value if isinstance(value, dict) else {}
        pin_id = members.get("ID")
        try:  # not `reading`, which takes longer: every document that is stored comes here
            text = members["IpfsHash"]
            cid = Reference(text, CID.parse(text))  # so that it is parsed only once
        except pin_api.MALFORMED:
            words = "the provider's reply holds no CID (IpfsHash)"
            raise self.failure(words, reply) from None
        # The service sends isDuplicate only where it is true.
        return Added(
            cid=cid,
            duplicate=members.get("isDuplicate") is True,
            pin_id=pin_id if isinstance(pin_id, str) else None,
        )

    def check(self, reply: Reply) -> None:
        """Raise the error of a failed call."""
        try:
            super().check(reply)
        except PermissionDeniedError as error:
            if NO_SCOPES in reply.body:
                words = self._without_scopes
                note, option = words.format('provider="pinata"'), words.format("--provider pinata")
                advise(error, note, option)
            raise


def _changed(pin: Pin, name: str | None, keyvalues: Mapping[str, Any] | None) -> Pin:
    """Return `pin` after a change, which the service's list may not show yet."""
    after = merged_keyvalues(pin.keyvalues, keyvalues or {})
    return replace(pin, name=pin.name if name is None else name, keyvalues=after)


def _metadata(info: PinInfo) -> str:
    name = json_text.to_text(info.name)
    if not info.keyvalues:
        return f'{{"name":{name}}}'
    return f'{{"name":{name},"keyvalues":{json_text.to_text(dict(info.keyvalues))}}}'


def read_job(
    api: ServiceAPI, reply: Reply, job: Any, member: str, *, cid: str, info: PinInfo
) -> Pin:
    """Return the pin to be of a job that was started; `member` is where the job has its CID."""
    with api.reading(reply, f"the provider's reply names no job for the CID (id, {member})"):
        if CID.parse(job[member]) != CID.parse(cid):
            raise ValueError("another CID")
        pin_id, status = pin_api.read_id(job["id"]), job.get("status")
    return Pin(
        id=pin_id,
        cid=job[member],
        name=info.name,
        keyvalues=info.keyvalues,
        size=None,
        state=state_of(api, reply, status, cid),
    )


def find_job(api: ServiceAPI, reply: Reply, value: Any, member: str, pin: Pin) -> Any:
    """Return the service's word for the state of the job of `pin`; None if it has no such job."""
    jobs = value.get(member) if isinstance(value, dict) else None
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise api.failure(f"the provider's reply is not a list of jobs ({member})", reply)
    return next((job.get("status", "") for job in jobs if str(job.get("id")) == pin.id), None)


def state_of(api: ServiceAPI, reply: Reply, status: Any, cid: str) -> PinState:
    """Return the state for the service's word; raise ProviderError if the job has failed."""
    word = status if isinstance(status, str) else ""
    if word in FAILURES:
        words = f"the provider could not pin {cid}: {FAILURES[word]}"
        raise api.failure(words, reply, details=word)
    return "queued" if word in QUEUED else "pinning"
