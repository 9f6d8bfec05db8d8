"""The pinning HTTP API: its six requests, and how their replies are read."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError, ProviderError, SerializationError
from holdfast.protocol import json_text
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.multipart import FileForm
from holdfast.protocol.status_errors import failure, provider_error


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
MAX_PINS: Final = 10**6  # pins in one list
MAX_ROWS: Final = 2 * MAX_PINS  # rows in one list, those included that came twice
MAX_LIST_BYTES: Final = 1 << 30  # bytes of all pages of one list


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

    def pages(self, limit: int | None) -> "PinPages":
        """Return the state of a new list of at most `limit` pins."""
        return PinPages(self, limit)

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


class PinPages:
    """A list of pins that comes page by page: what to ask for next, and which rows are new.

    A pin that is made meanwhile moves others to the next page, so rows may come twice. A provider
    that gives no new row, or more than anybody has, would keep us asking for ever: a
    `ProviderError`.
    """

    def __init__(self, api: PinningAPI, limit: int | None) -> None:
        self._api = api
        self._limit = limit
        self._seen: set[str] = set()
        self._rows = 0
        self._bytes = 0
        self._is_last = False

    @property
    def wanted(self) -> int:
        """How many rows to ask for next; 0 when the list is complete."""
        if self._is_last:
            return 0
        left = PAGE_LIMIT if self._limit is None else self._limit - len(self._seen)
        return min(PAGE_LIMIT, left)

    def request(self, name: str | None) -> Request:
        """Return the request for the next page."""
        return self._api.list_pins(name=name, limit=self.wanted, offset=self._rows)

    def read(self, reply: Reply) -> list[dict[str, Any]]:
        """Return the rows of a page that are new, each as the fields of a `Pin`."""
        rows = self._api.read_pins(reply)
        wanted = self.wanted
        new = {row["id"]: row for row in rows if row["id"] not in self._seen}
        self._rows += len(rows)
        self._bytes += len(reply.body)
        self._is_last = len(rows) < wanted
        words = None
        if rows and not new:
            words = "the provider sent the same pins again in place of the next page: try again"
        elif len(self._seen) + len(new) > MAX_PINS:
            words = (
                f"the provider lists more than {MAX_PINS:,} pins: set a limit, or filter by name"
            )
        elif self._rows > MAX_ROWS:
            words = f"the provider repeats pins in its list: {MAX_ROWS:,} rows did not end it"
        elif self._bytes > MAX_LIST_BYTES:
            words = f"the provider's list of pins is longer than {MAX_LIST_BYTES:,} bytes"
        if words is not None:
            raise failure(words, reply, secret=self._api.token)
        kept = list(new.values())[:wanted] if self._limit is not None else list(new.values())
        self._seen.update(row["id"] for row in kept)
        return kept


def _pin_fields(row: dict[str, Any]) -> dict[str, Any]:
    """A row of `pinList` in our names; whatever a built-in error says, it is no such row."""
    about = row.get("metadata") or {}
    CID.parse(row["ipfs_pin_hash"])
    return {
        "id": _pin_id(row["id"]),
        "cid": row["ipfs_pin_hash"],
        "name": str(about.get("name") or ""),
        "keyvalues": dict(about.get("keyvalues") or {}),
        "size": int(row["size"]),
        "files": int(row.get("number_of_files") or 1),
        "type": str(row.get("mime_type") or ""),
        "created": _milliseconds(row["date_pinned"]),
    }


def _pin_id(value: Any) -> str:
    """Return the id of a row as text; pins without one could not be told apart."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise TypeError("a pin has an id")
    return str(value)


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
