"""The pinning HTTP API: its six requests, and how their replies are read."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError, ProviderError, SerializationError
from holdfast.protocol import json_text
from holdfast.protocol.failures import failure, provider_error
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.multipart import FileForm
from holdfast.secret import Secret


@dataclass(frozen=True, slots=True)
class FieldNames:
    """What the service calls the members of its bodies.

    The spec writes the first one ``pinContent``; a service with other names gets another value.
    """

    content: str = "pinataContent"
    metadata: str = "pinataMetadata"
    options: str = "pinataOptions"


SERVICE_NAMES: Final = FieldNames()
PAGE_LIMIT: Final = 1000  # the service gives no more pins at a time
MAX_PAGE: Final = 16 << 20  # bytes of such a page, notes and all


@dataclass(frozen=True, slots=True)
class PinningAPI:
    """Requests to the API at `base_url`, and the meaning of its replies."""

    base_url: str
    token: Secret
    cid_version: int
    names: FieldNames = field(default=SERVICE_NAMES)

    def pin_json(self, text: str, *, name: str) -> Request:
        """Pin the JSON `text`, which goes into the body to the letter."""
        names = self.names
        metadata = json_text.to_text({"name": name})
        body = (
            f'{{"{names.content}":{text},"{names.metadata}":{metadata},'
            f'"{names.options}":{self._options()}}}'
        )
        return self._request(
            "POST",
            "/pinning/pinJSONToIPFS",
            headers={"Content-Type": "application/json"},
            body=body.encode(),
        )

    def pin_file(self, form: FileForm, **more: Any) -> Request:
        """Pin the file in `form`, which `file_fields` go into."""
        return self._request(
            "POST",
            "/pinning/pinFileToIPFS",
            headers={"Content-Type": form.content_type},
            body=form,
            **more,
        )

    def file_fields(self) -> dict[str, str]:
        """The text fields that go along with a file."""
        return {self.names.options: self._options()}

    def unpin(self, cid: str) -> Request:
        """Remove the pin of `cid`."""
        return self._request("DELETE", f"/pinning/unpin/{quote(cid, safe='')}")

    def test_authentication(self) -> Request:
        """Ask whether the token is good."""
        return self._request("GET", "/data/testAuthentication")

    def list_pins(self, *, name: str | None, limit: int, offset: int) -> Request:
        """Ask for a page of what is pinned, newest first."""
        query = {"status": "pinned", "includeCount": "false"}
        query |= {"pageLimit": str(limit), "pageOffset": str(offset)}
        if name:
            query["metadata[name]"] = name
        return self._request("GET", f"/data/pinList?{urlencode(query)}", max_reply=MAX_PAGE)

    def read_pins(self, reply: Reply) -> list[dict[str, Any]]:
        """The pins of a page, each as the fields of a `Pin`."""
        value = self._read_json(reply)
        rows = value.get("rows") if isinstance(value, dict) else None
        try:
            return [_pin_fields(row) for row in rows]  # type: ignore[union-attr]
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise failure(
                "the provider's reply is no list of pins (rows)", reply, secret=self.token
            ) from None

    def read_cid(self, reply: Reply) -> str:
        """The CID of what was pinned."""
        value = self._read_json(reply)
        cid = value.get("IpfsHash") if isinstance(value, dict) else None
        try:
            CID.parse(cid if isinstance(cid, str) else "")
        except InvalidCIDError:
            raise failure(
                "the provider's reply holds no CID (IpfsHash)", reply, secret=self.token
            ) from None
        return str(cid)

    def read_unpinned(self, reply: Reply) -> None:
        """Nothing, unless the call failed.

        An unpin whose reply was lost may have worked: then the repeat must say "not pinned".
        """
        try:
            self.read_done(reply)
        except ProviderError as error:
            if not (reply.reply_lost and _says_not_pinned(reply, error)):
                raise

    def read_done(self, reply: Reply) -> None:
        """Nothing, unless the call failed."""
        if not reply.ok:
            raise provider_error(reply, secret=self.token)

    def read_authentication(self, reply: Reply) -> None:
        """Nothing, unless the call failed or something other than the API answered it."""
        value = self._read_json(reply)
        if not (isinstance(value, dict) and isinstance(value.get("message"), str)):
            raise failure(
                "the reply is not the pinning API's: no message; "
                "check pin_api_url, and whether a proxy or login page is in between",
                reply,
                secret=self.token,
            )

    def _read_json(self, reply: Reply) -> Any:
        self.read_done(reply)
        try:
            return json_text.from_text(reply.body)
        except SerializationError:
            return None

    def _options(self) -> str:
        return json_text.to_text({"cidVersion": self.cid_version})

    def _request(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **more: Any
    ) -> Request:
        credential = {"Authorization": self.token.prefixed("Bearer ")}
        return Request(method, self.base_url + path, {**(headers or {}), **credential}, **more)


def _pin_fields(row: dict[str, Any]) -> dict[str, Any]:
    """A row of `pinList` in our names; whatever a built-in error says, it is no such row."""
    about = row.get("metadata") or {}
    CID.parse(row["ipfs_pin_hash"])
    return {
        "id": str(row["id"]),
        "cid": row["ipfs_pin_hash"],
        "name": str(about.get("name") or ""),
        "keyvalues": dict(about.get("keyvalues") or {}),
        "size": int(row["size"]),
        "files": int(row.get("number_of_files") or 1),
        "type": str(row.get("mime_type") or ""),
        "created": _milliseconds(row["date_pinned"]),
    }


def _milliseconds(text: str) -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _says_not_pinned(reply: Reply, error: ProviderError) -> bool:
    """Whether the service says that there is no such pin: by its code, or in its older words."""
    return reply.status in {400, 404} and (
        b"CURRENT_USER_HAS_NOT_PINNED_CID" in reply.body or "not pinned" in str(error)
    )
