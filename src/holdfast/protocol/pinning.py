"""The pinning API of the spec: its requests, and how their replies are read."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote, urlencode

from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.errors import InvalidCIDError, NotFoundError
from holdfast.hints import advise
from holdfast.protocol import json_text
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.multipart import FileForm, FormFile
from holdfast.protocol.pin_api import (
    MAX_PAGE,
    OTHER,
    PAGE_LIMIT,
    Exchange,
    PinPages,
    fits,
    iso_time,
    other_version,
    read_file,
    read_id,
)
from holdfast.protocol.status_errors import PINNING_ERRORS, failure, provider_error
from holdfast.records import Added, Pin, PinFilter, PinInfo, PinState, merged_keyvalues

# The service's names for the members of its bodies. The spec writes the first one ``pinContent``.
CONTENT: Final = b"pinataContent"
METADATA: Final = "pinataMetadata"
OPTIONS: Final = "pinataOptions"
JSON_TYPE: Final = {"Content-Type": "application/json"}
FORBIDDEN: Final = 403
NO_SCOPES: Final = b"NO_SCOPES_FOUND"  # the older calls' error for keys that are made for v3
V3_KEY: Final = "the key may be for the service's v3 API: use {}"


@dataclass(frozen=True, slots=True)
class PinningAPI:
    """The API at `base_url`: a `PinAPI`.

    Attributes:
        base_url: The address of the API.
        token: The credential.
        cid_version: The version of new CIDs.
        group: The id of the group to which uploads are added; None for none.
        without_scopes: What to do where the key lacks the scopes of the older calls.
    """

    base_url: str
    token: Secret
    cid_version: int
    group: str | None = None
    without_scopes: str = V3_KEY
    # The same for all requests.
    _credential: dict[str, Secret] = field(init=False, repr=False, compare=False)
    _options: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        credential = {"Authorization": self.token.prefixed("Bearer ")}
        object.__setattr__(self, "_credential", credential)
        options = {"cidVersion": self.cid_version} | ({"groupId": self.group} if self.group else {})
        object.__setattr__(self, "_options", json_text.to_text(options))

    def add_json(self, text: bytes, info: PinInfo) -> Exchange[Added]:
        """Pin the JSON `text`, which goes into the body as it is."""
        about = f'"{METADATA}":{_metadata(info)},"{OPTIONS}":{self._options}'.encode()
        reply = yield self.request(
            "POST",
            "/pinning/pinJSONToIPFS",
            headers=JSON_TYPE,
            body=b'{"%b":%b,%b}' % (CONTENT, text, about),
        )
        added = self._read_added(reply)
        return (yield from self._known(added, info, reply)) if added.duplicate else added

    def add_files(
        self, files: Iterable[FormFile], info: PinInfo, on_sent: Callable[[int], None]
    ) -> Exchange[Added]:
        """Pin a file, or several as a directory.

        The service names the pin as the file. So metadata is sent only with key-values.
        """
        fields = {OPTIONS: self._options}
        if info.keyvalues:
            fields[METADATA] = _metadata(info)
        form = FileForm(files, fields=fields)
        reply = yield self.request("POST", "/pinning/pinFileToIPFS", **form.sending(on_sent))
        added = self._read_added(reply)
        return (yield from self._known(added, info, reply)) if added.duplicate else added

    def _known(self, added: Added, info: PinInfo, reply: Reply) -> Exchange[Added]:
        """Give a pin that existed what the user gave: the service may keep what it has.

        If the reply to an earlier attempt was lost, that attempt may have made the pin.
        """
        if info.is_explicit:
            yield from self._change(added.cid, info.name if info.given else None, info.keyvalues)
        return replace(added, duplicate=None) if reply.reply_lost else added

    def _change(
        self, cid: str, name: str | None, keyvalues: Mapping[str, Any] | None
    ) -> Exchange[None]:
        """Change the metadata of a pin. The service adds key-values; null removes one."""
        body = {
            "ipfsPinHash": str(cid),
            **({} if name is None else {"name": name}),
            **({"keyvalues": dict(keyvalues)} if keyvalues else {}),
        }
        text = json_text.to_text(body).encode()
        path = "/pinning/hashMetadata"
        self._check((yield self.request("PUT", path, headers=JSON_TYPE, body=text)))

    def update(
        self, cid: str, name: str | None, keyvalues: Mapping[str, Any] | None
    ) -> Exchange[Pin]:
        """Change the name, the key-values or both of the pin of `cid`."""
        yield from self._change(cid, name, keyvalues)
        found = yield from self._find_pin(cid)
        if found is None:
            raise NotFoundError(f"The current user has not pinned the cid: {cid}")
        return _changed(found, name, keyvalues)

    def pin(self, cid: str, info: PinInfo) -> Exchange[Pin]:
        """Pin content that exists elsewhere, unless it is pinned already."""
        found = yield from self._find_pin(cid)
        if found is None:
            metadata = f'"{METADATA}":{_metadata(info)}' if info.is_explicit else None
            return (yield from start_job(self, cid, metadata, info))
        if not info.is_explicit:
            return found
        name = info.name if info.given else None
        yield from self._change(found.cid, name, info.keyvalues)
        return _changed(found, name, info.keyvalues)

    def check_pin(self, pin: Pin) -> Exchange[Pin]:
        """Return a pin by `pin` as it is now."""
        state = yield from look_at_job(self, pin)
        if state is not None:
            return replace(pin, state=state)
        found = yield from self._find_pin(pin.cid)
        return pin if found is None else found

    def _find_pin(self, cid: str) -> Exchange[Pin | None]:
        found = yield from self.pages(PinFilter(cid=cid), limit=1).read_all()
        return found[0] if found else None

    def unpin(self, cid: str) -> Exchange[None]:
        """Remove the pin of `cid`.

        If the reply to an earlier attempt was lost, the pin may be gone already: then "not pinned"
        is success.
        """
        reply = yield self.request("DELETE", f"/pinning/unpin/{quote(cid, safe='')}")
        if not (reply.reply_lost and PINNING_ERRORS.says_not_pinned(reply)):
            self._check(reply)

    def check_credentials(self) -> Exchange[None]:
        """Return if the service accepts the token; raise an error if not, or if another replied."""
        reply = yield self.request("GET", "/data/testAuthentication")
        value = self.read_json(reply)
        if not (isinstance(value, dict) and isinstance(value.get("message"), str)):
            raise failure(
                "the reply is not the pinning API's: no message; "
                "check pin_api_url, and whether a proxy or login page is in between",
                reply,
                secret=self.token,
            )

    def pages(self, wanted: PinFilter, *, limit: int | None) -> PinPages:
        """Return a new list of at most `limit` pins, newest first."""
        return PinPages(PinList(self, wanted), limit)

    def _read_added(self, reply: Reply) -> Added:
        value = self.read_json(reply)
        found = value if isinstance(value, dict) else {}
        text, pin_id = found.get("IpfsHash"), found.get("ID")
        text = text if isinstance(text, str) else ""
        try:
            cid = Reference(text, CID.parse(text))  # so that it is parsed only once
        except InvalidCIDError:
            raise failure(
                "the provider's reply holds no CID (IpfsHash)", reply, secret=self.token
            ) from None
        # The service sends isDuplicate only where it is true.
        return Added(
            cid=cid,
            duplicate=found.get("isDuplicate") is True,
            pin_id=pin_id if isinstance(pin_id, str) else None,
        )

    def _check(self, reply: Reply) -> None:
        """Raise the error of a failed call."""
        if not reply.ok:
            error = provider_error(reply, secret=self.token, table=PINNING_ERRORS)
            if reply.status == FORBIDDEN and NO_SCOPES in reply.body:
                words = self.without_scopes
                note, option = words.format('provider="pinata"'), words.format("--provider pinata")
                advise(error, note, option)
            raise error

    def read_json(self, reply: Reply) -> Any:
        """Return the JSON value of a successful reply, or None; raise the error of another."""
        self._check(reply)
        return json_text.value_of(reply.body)

    def request(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **more: Any
    ) -> Request:
        """Return a request to `path` with the token."""
        fields: dict[str, str | Secret] = {**(headers or {}), **self._credential}
        return Request(method, self.base_url + path, fields, **more)


def _changed(pin: Pin, name: str | None, keyvalues: Mapping[str, Any] | None) -> Pin:
    """Return `pin` after a change, which the service's list may not show yet."""
    after = merged_keyvalues(pin.keyvalues, keyvalues or {})
    return replace(pin, name=pin.name if name is None else name, keyvalues=after)


def _metadata(info: PinInfo) -> str:
    name = json_text.to_text(info.name)
    if not info.keyvalues:
        return f'{{"name":{name}}}'
    return f'{{"name":{name},"keyvalues":{json_text.to_text(dict(info.keyvalues))}}}'


@dataclass(frozen=True, slots=True)
class PinList:
    """The pins that are `wanted`, in pages by offset: the cursor is the offset, as text.

    The service knows a pin by the text of its CID. If it has none under the text that was given, it
    is asked for the other version of the CID, which names the same content.
    """

    api: "PinningAPI"
    wanted: PinFilter

    @property
    def token(self) -> Secret:
        """The credential, to be removed from error messages."""
        return self.api.token

    def request(self, count: int, cursor: str | None) -> Request:
        """Return the request for `count` pins from `cursor` on."""
        query = {"status": "pinned", "includeCount": "false", "pageLimit": str(count)}
        query["pageOffset"] = (cursor or "0").removeprefix(OTHER)
        query |= _filters(self.wanted)
        if cursor is not None and cursor.startswith(OTHER):
            query["cid"] = other_version(self.wanted.cid) or ""
        return self.api.request("GET", f"/data/pinList?{urlencode(query)}", max_reply=MAX_PAGE)

    def read(self, reply: Reply, count: int, cursor: str | None) -> tuple[list[Pin], str | None]:
        """Return the pins of a page, and the cursor of the next unless fewer came than `count`.

        The next page begins with the last pin of this one, which shows whether it has moved.
        """
        value = self.api.read_json(reply)
        rows = value.get("rows") if isinstance(value, dict) else None
        try:
            pins = [_read_pin(row) for row in rows]  # type: ignore[union-attr]
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise failure(
                "the provider's reply is not a list of pins (rows)", reply, secret=self.token
            ) from None
        if not pins and cursor is None and other_version(self.wanted.cid) is not None:
            return pins, f"{OTHER}0"
        if len(pins) < count:
            return pins, None
        return pins, _moved(cursor or "0", len(pins) - 1)

    def before(self, cursor: str) -> str | None:
        """Return the cursor of `PAGE_LIMIT` pins that end at `cursor`; None at the start."""
        before = _moved(cursor, 1 - PAGE_LIMIT)
        return None if before == cursor else before

    def matches(self, pin: Pin) -> bool:
        """Return whether `pin` is wanted: services differ in how exact their filters are."""
        return fits(pin, self.wanted)


def _moved(cursor: str, count: int) -> str:
    """Return a cursor that is `count` pins later, or earlier, but not before the start."""
    kind = OTHER if cursor.startswith(OTHER) else ""
    return f"{kind}{max(0, int(cursor.removeprefix(kind)) + count)}"


def _filters(wanted: PinFilter) -> dict[str, str]:
    """Return the service's parameters for the pins that are `wanted`."""
    query: dict[str, str] = {}
    if wanted.name:
        query["metadata[name]"] = wanted.name
    if wanted.cid is not None:
        query["cid"] = wanted.cid
    if wanted.keyvalues:
        conditions = {key: {"value": value, "op": "eq"} for key, value in wanted.keyvalues.items()}
        query["metadata[keyvalues]"] = json_text.to_text(conditions)
    if wanted.since is not None:
        query["pinStart"] = iso_time(wanted.since)
    if wanted.until is not None:
        query["pinEnd"] = iso_time(wanted.until)
    return query


def _read_pin(row: dict[str, Any]) -> Pin:
    """Return the pin of a row of `pinList`; raise a built-in error for anything else."""
    return read_file(row, row["ipfs_pin_hash"], row.get("metadata") or {}, row["date_pinned"])


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


def start_job(api: "PinningAPI", cid: str, metadata: str | None, info: PinInfo) -> Exchange[Pin]:
    """Ask the service to pin `cid`; return the pin to be."""
    about = "" if metadata is None else f",{metadata}"
    reply = yield api.request(
        "POST",
        "/pinning/pinByHash",
        headers={"Content-Type": "application/json"},
        body=f'{{"hashToPin":{json_text.to_text(cid)}{about}}}'.encode(),
    )
    value = api.read_json(reply)
    try:
        if CID.parse(value["ipfsHash"]) != CID.parse(cid):
            raise ValueError("another CID")  # noqa: TRY301 - all are one error
        pin = Pin(
            id=read_id(value["id"]),
            cid=value["ipfsHash"],
            name=info.name,
            keyvalues=info.keyvalues,
            size=None,
            created=None,
            state="queued",
        )
    except (KeyError, TypeError, ValueError, InvalidCIDError):
        raise failure(
            "the provider's reply names no job for the CID (id, ipfsHash)", reply, secret=api.token
        ) from None
    return replace(pin, state=state_of(value.get("status"), pin, reply, api.token))


def look_at_job(api: "PinningAPI", pin: Pin) -> Exchange[PinState | None]:
    """Return the state of the job of `pin`; None if it is done, or not in the list."""
    query = urlencode({"ipfs_pin_hash": pin.cid, "sort": "DESC", "limit": str(JOBS)})
    reply = yield api.request("GET", f"/pinning/pinJobs?{query}")
    value = api.read_json(reply)
    rows = value.get("rows") if isinstance(value, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise failure("the provider's reply is not a list of jobs (rows)", reply, secret=api.token)
    for row in rows:
        if str(row.get("id")) == pin.id and row.get("status") != DONE:
            return state_of(row.get("status"), pin, reply, api.token)
    return None


def state_of(status: Any, pin: Pin, reply: Reply, token: Secret) -> PinState:
    """Return the state for the service's word; raise ProviderError if the job has failed."""
    word = status if isinstance(status, str) else ""
    if word in FAILURES:
        words = f"the provider could not pin {pin.cid}: {FAILURES[word]}"
        raise failure(words, reply, details=word, secret=token)
    return "queued" if word in QUEUED else "pinning"
