"""The pinning API of the spec: its requests, and how their replies are read."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.errors import InvalidCIDError, ProviderError, SerializationError
from holdfast.protocol import json_text
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.multipart import FileForm, FormFile
from holdfast.protocol.pin_api import Exchange, PinPages
from holdfast.protocol.status_errors import failure, provider_error
from holdfast.records import Added, Pin, PinInfo

# The service's names for the members of its bodies. The spec writes the first one ``pinContent``.
CONTENT: Final = "pinataContent"
METADATA: Final = "pinataMetadata"
OPTIONS: Final = "pinataOptions"
MAX_PAGE: Final = 16 << 20  # bytes of one page of pins, with all metadata


@dataclass(frozen=True, slots=True)
class PinningAPI:
    """The API at `base_url`: a `PinAPI`."""

    base_url: str
    token: Secret
    cid_version: int
    # The same for all requests.
    _credential: dict[str, Secret] = field(init=False, repr=False, compare=False)
    _options: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        credential = {"Authorization": self.token.prefixed("Bearer ")}
        object.__setattr__(self, "_credential", credential)
        object.__setattr__(self, "_options", json_text.to_text({"cidVersion": self.cid_version}))

    def add_json(self, text: str, info: PinInfo) -> Exchange[Added]:
        """Pin the JSON `text`, which goes into the body as it is."""
        about = _metadata(info)
        body = f'{{"{CONTENT}":{text},"{METADATA}":{about},"{OPTIONS}":{self._options}}}'
        reply = yield self.request(
            "POST",
            "/pinning/pinJSONToIPFS",
            headers={"Content-Type": "application/json"},
            body=body.encode(),
        )
        return self._read_added(reply)

    def add_files(
        self, files: Iterable[FormFile], info: PinInfo, on_sent: Callable[[int], None]
    ) -> Exchange[Added]:
        """Pin a file, or several as a directory; metadata is sent only for key-values."""
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
        return self._read_added(reply)

    def unpin(self, cid: str) -> Exchange[None]:
        """Remove the pin of `cid`.

        If the reply to an earlier attempt was lost, the pin may be gone already: then "not pinned"
        is success.
        """
        reply = yield self.request("DELETE", f"/pinning/unpin/{quote(cid, safe='')}")
        try:
            self._check(reply)
        except ProviderError as error:
            if not (reply.reply_lost and _says_not_pinned(reply, error)):
                raise

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

    def pages(self, *, name: str | None, limit: int | None) -> PinPages:
        """Return a new list of at most `limit` pins, newest first."""
        return PinPages(PinList(self, name), limit)

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
            raise provider_error(reply, secret=self.token)

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


@dataclass(frozen=True, slots=True)
class PinList:
    """The pins whose name holds `name`, in pages by offset: the cursor is the offset, as text."""

    api: PinningAPI
    name: str | None

    @property
    def token(self) -> Secret:
        """The credential, to be removed from error messages."""
        return self.api.token

    def request(self, count: int, cursor: str | None) -> Request:
        """Return the request for `count` pins from `cursor` on."""
        query = {"status": "pinned", "includeCount": "false"}
        query |= {"pageLimit": str(count), "pageOffset": cursor or "0"}
        if self.name:
            query["metadata[name]"] = self.name
        return self.api.request("GET", f"/data/pinList?{urlencode(query)}", max_reply=MAX_PAGE)

    def read(self, reply: Reply, count: int, cursor: str | None) -> tuple[list[Pin], str | None]:
        """Return the pins of a page, and the cursor of the next unless fewer came than `count`."""
        value = self.api.read_json(reply)
        rows = value.get("rows") if isinstance(value, dict) else None
        try:
            pins = [_read_pin(row) for row in rows]  # type: ignore[union-attr]
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise failure(
                "the provider's reply is not a list of pins (rows)", reply, secret=self.token
            ) from None
        return pins, None if len(pins) < count else str(int(cursor or 0) + len(pins))


def _metadata(info: PinInfo) -> str:
    keyvalues = {"keyvalues": dict(info.keyvalues)} if info.keyvalues else {}
    return json_text.to_text({"name": info.name, **keyvalues})


def _read_pin(row: dict[str, Any]) -> Pin:
    """Return the pin of a row of `pinList`; raise a built-in error for anything else."""
    about = row.get("metadata") or {}
    CID.parse(row["ipfs_pin_hash"])
    return Pin(
        id=_pin_id(row["id"]),
        cid=row["ipfs_pin_hash"],
        name=str(about.get("name") or ""),
        keyvalues=dict(about.get("keyvalues") or {}),
        size=int(row["size"]),
        files=int(row.get("number_of_files") or 1),
        type=str(row.get("mime_type") or ""),
        created=_milliseconds(row["date_pinned"]),
    )


def _pin_id(value: Any) -> str:
    """Return the id of a row as text; raise TypeError if it has none."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise TypeError("a pin has an id")
    return str(value)


def _milliseconds(text: str) -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _says_not_pinned(reply: Reply, error: ProviderError) -> bool:
    """Return whether the service says that there is no such pin: by its code, or in older words."""
    return reply.status in {400, 404} and (
        b"CURRENT_USER_HAS_NOT_PINNED_CID" in reply.body or "not pinned" in str(error)
    )
