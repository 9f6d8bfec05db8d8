"""The pinning API of the spec: its requests, and how their replies are read."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.errors import InvalidCIDError, NotFoundError, SerializationError
from holdfast.hints import advise
from holdfast.protocol import json_text, pin_jobs
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.multipart import FileForm, FormFile
from holdfast.protocol.pin_api import Exchange, PinPages
from holdfast.protocol.pin_list import PinList
from holdfast.protocol.status_errors import PINNING_ERRORS, failure, provider_error
from holdfast.records import Added, Pin, PinFilter, PinInfo, merged_keyvalues

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
        reply = yield self.request(
            "POST",
            "/pinning/pinFileToIPFS",
            headers={"Content-Type": form.content_type},
            body=form,
            on_sent=form.on_sent(on_sent),
        )
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
            return (yield from pin_jobs.start_job(self, cid, metadata, info))
        if not info.is_explicit:
            return found
        name = info.name if info.given else None
        yield from self._change(found.cid, name, info.keyvalues)
        return _changed(found, name, info.keyvalues)

    def check_pin(self, pin: Pin) -> Exchange[Pin]:
        """Return a pin by `pin` as it is now."""
        state = yield from pin_jobs.look_at_job(self, pin)
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
        try:
            return json_text.from_text(reply.body)
        except SerializationError:
            return None

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
