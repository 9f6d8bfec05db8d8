"""The calls that sign addresses: to upload without a token, and to read private content.

The signature of a link covers a CID and the names after it, and so the content there and all below
it. ``X-Depth`` says how many names that are; without it, the signature covers all of the CID.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from holdfast.content.cid import CID
from holdfast.disk.folders import Folder
from holdfast.errors import ClientError, ConfigError
from holdfast.node.api_calls import BodyReader
from holdfast.node.client_values import read_name
from holdfast.node.gateway.addresses import Address, quoted
from holdfast.node.gateway.cached_repository import CachedRepository
from holdfast.node.gateway.serving import GatewayRoute
from holdfast.node.http_server.refusals import Refusal, bad_request, refusal_of
from holdfast.node.memory import Cache
from holdfast.node.service import PRIVATE, Service
from holdfast.node.v3_uploads import LATEST, base_url, data_reply, read_network, unwrapped

# Signatures of the addresses that the node gives out, with a key that is in the store.

KEY_FILE: Final = "holdfast.links.key"
KEY_SIZE: Final = 32


class Signer:
    """Signs texts, and checks signatures. The key is made when it is first needed."""

    def __init__(self, root: Path) -> None:
        self._folder = Folder(root)
        self._lock = threading.Lock()
        self._key: bytes | None = None

    def sign(self, *parts: str) -> str:
        """Return the signature of `parts`. Other parts never have the same one."""
        text = json.dumps(parts, separators=(",", ":"))
        return hmac.new(self._read_key(), text.encode(), hashlib.sha256).hexdigest()

    def is_valid(self, signature: str, *parts: str) -> bool:
        """Return whether `sign` made the signature of `parts`."""
        encoded = signature.encode("utf-8", "replace")
        return hmac.compare_digest(encoded, self.sign(*parts).encode())

    def seal(self, purpose: str, value: Any) -> str:
        """Return `value` as text for an address, signed. Anybody can read it."""
        text = json.dumps(value, separators=(",", ":")).encode()
        token = base64.urlsafe_b64encode(text).decode().rstrip("=")
        return f"{token}.{self.sign(purpose, token)}"

    def unseal(self, purpose: str, sealed: str) -> Any:
        """Return what `seal` was given; raise a `Refusal` if it did not make `sealed`."""
        token, _, signature = sealed.rpartition(".")
        if not token.isascii() or not self.is_valid(signature, purpose, token):
            raise Refusal(403, "The signature of the address is not valid")
        return json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))

    def _read_key(self) -> bytes:
        with self._lock:
            if self._key is None:
                self._key = self._folder.read(KEY_FILE, KEY_SIZE + 1) or self._make_key()
            if len(self._key) != KEY_SIZE:
                path = self._folder.path / KEY_FILE
                self._key = None
                raise ConfigError(
                    f"{path} contains no key: remove it, which makes all links invalid"
                )
            return self._key

    def _make_key(self) -> bytes:
        """Make the key under a temporary name, so that under its own name it is complete."""
        temporary = f"{KEY_FILE}.{secrets.token_hex(8)}"
        descriptor = self._folder.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(KEY_SIZE))
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another process was faster: its key counts
                (self._folder.path / KEY_FILE).hardlink_to(self._folder.path / temporary)
        finally:
            self._folder.remove(temporary)
        self._folder.sync()
        return self._folder.read(KEY_FILE, KEY_SIZE + 1) or b""


# Read private files and folders: ``/files/CID/path`` with the signature of an access link.

CACHE: Final = 8 << 20  # bytes; its own, because the public gateway must not find a private block
# The address of each reply is a credential. No cache keeps the reply, and no other host gets the
# address as a referrer: pages load nothing from elsewhere, because a page can set a policy of its
# own for referrers.
HEADERS: Final = {
    "Cache-Control": "private, no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "sandbox; default-src 'self' data: 'unsafe-inline'",
}


class PrivateContent:
    """The private store, for those who have a link. A link opens what it names, in all formats."""

    def __init__(self, service: Service, signer: Signer) -> None:
        self._service = service
        self._signer = signer

    @cached_property
    def _cached(self) -> CachedRepository:
        return CachedRepository(self._service.private.repository, Cache(CACHE))

    def route(self) -> GatewayRoute:
        """Return the route of ``/files/…``."""
        return GatewayRoute(self._open, PLACE, HEADERS)

    def _open(self, address: Address, query: QueryParams) -> tuple[CachedRepository, Address]:
        """Raise a `Refusal` unless the link is valid for `address`, and its root is pinned."""
        try:
            address = check_link(self._signer, address, query)
            pin = self._cached.repository.find_pin(address.cid)
        except ClientError as error:
            raise refusal_of(error) from None
        if pin is None:
            raise Refusal(404, f"there is no private file {address.cid}")
        return self._cached, address


PLACE: Final = "/files"  # of private content, below the root path of the node
UPLOAD: Final = "upload"
LINK: Final = "link"
ALGORITHM: Final = "PINATA1"
MAX_ADDRESS: Final = 16 << 10  # characters; the head of a request may have 32 KiB
MAX_TYPES: Final = 100
DEPTH: Final = re.compile(r"[0-9]{1,5}")
NOT_IN_URL: Final = re.compile(r"[\x00-\x1f\x7f#]")  # the signature could not follow such a path


class LinkEndpoints:
    """The calls that sign addresses."""

    def __init__(self, signer: Signer, bodies: BodyReader) -> None:
        self._signer = signer
        self._bodies = bodies

    async def sign(self, request: Request) -> Response:
        """Sign an address to upload to; with an `url` in the body, one to read a private file."""
        body = await self._bodies.json_object(request)
        if "url" in body:
            return await self._link(request, body)
        token = await run_in_threadpool(self._signer.seal, UPLOAD, _read_grant(body))
        address = f"{base_url(request)}/v3/files/signed/{token}"
        if len(address) > MAX_ADDRESS:
            raise bad_request("The key-values and types are too long for an address")
        return data_reply(address)

    async def download_link(self, request: Request) -> Response:
        """Sign an address to read a private file."""
        return await self._link(request, await self._bodies.json_object(request))

    async def _link(self, request: Request, body: Mapping[str, Any]) -> Response:
        root = quote(request.scope.get("root_path", ""))
        url, address = _private_address(body.get("url"), root)
        if body.get("method", "GET") != "GET":
            raise bad_request("method must be GET")
        date, expires = str(_whole_number(body, "date")), str(_whole_number(body, "expires"))
        text = _signed_text(address.cid, address.names, date, expires)
        signature = await run_in_threadpool(self._signer.sign, LINK, *text)
        query = _link_query(date, expires, signature, len(address.names))
        return data_reply(f"{url}{'&' if '?' in url else '?'}{query}")


def check_link(signer: Signer, address: Address, query: QueryParams) -> Address:
    """Return `address` with the query for links below it; raise a `Refusal` unless it is signed."""
    date, expires = query.get("X-Date", ""), query.get("X-Expires", "")
    signature, depth = query.get("X-Signature", ""), query.get("X-Depth", "0")
    names = address.names[: int(depth) if DEPTH.fullmatch(depth) else 0]
    text = _signed_text(address.cid, names, date, expires)
    if query.get("X-Method") != "GET" or not signer.is_valid(signature, LINK, *text):
        raise Refusal(403, "a private file is read through an access link, and this is not one")
    if time.time() >= int(date) + int(expires):
        raise Refusal(403, "the access link has expired")
    own_query = _link_query(date, expires, signature, len(names))
    return replace(address, query=f"?{own_query}", top=len(names))


def _signed_text(cid: CID, names: tuple[str, ...], date: str, expires: str) -> tuple[str, ...]:
    """Return what the signature of a link is for."""
    return str(cid), "/".join(map(quoted, names)), date, expires


def _link_query(date: str, expires: str, signature: str, depth: int) -> str:
    query = {
        "X-Algorithm": ALGORITHM,
        "X-Date": date,
        "X-Expires": expires,
        "X-Method": "GET",
        **({"X-Depth": str(depth)} if depth else {}),
        "X-Signature": signature,
    }
    return urlencode(query)


def open_grant(signer: Signer, token: str) -> dict[str, Any]:
    """Return what a signed address allows; raise a `Refusal` unless it is valid now."""
    grant: dict[str, Any] = signer.unseal(UPLOAD, token)
    if time.time() >= grant["until"]:
        raise Refusal(403, "The signed address has expired")
    return grant


def _private_address(url: Any, root: str) -> tuple[str, Address]:
    """Return the URL of private content, and the address in its path.

    The path begins with `root`, or with another root path that a proxy in front of the node has.
    """
    wrong = bad_request("url must be the address of a private file, …/files/CID")
    if not isinstance(url, str) or len(url) > MAX_ADDRESS or NOT_IN_URL.search(url):
        raise wrong
    try:
        path = urlsplit(url).path
    except ValueError:
        raise wrong from None
    if not path.startswith(f"{root}{PLACE}/"):
        root = path.partition(f"{PLACE}/")[0]
    return url, Address.parse(path.encode("utf-8", "replace"), PLACE, unquote(root))


def _read_grant(body: Mapping[str, Any]) -> dict[str, Any]:
    grant: dict[str, Any] = {
        "until": _whole_number(body, "date") + _whole_number(body, "expires"),
        "network": read_network(body.get("network", PRIVATE)),
    }
    if body.get("group_id") is not None:
        grant["group_id"] = str(body["group_id"])[:100]
    if body.get("filename") is not None:
        grant["name"] = read_name(body["filename"])
    if body.get("keyvalues") is not None:
        grant["keyvalues"] = unwrapped(body["keyvalues"])
    if body.get("max_file_size") is not None:
        grant["max_file_size"] = _whole_number(body, "max_file_size")
    if body.get("allow_mime_types") is not None:
        types = body["allow_mime_types"]
        if (
            not isinstance(types, list)
            or len(types) > MAX_TYPES
            or not all(isinstance(text, str) and len(text) <= 100 for text in types)
        ):
            raise bad_request(f"allow_mime_types must be a list of at most {MAX_TYPES} types")
        grant["allow_mime_types"] = [text.lower() for text in types]
    return grant


def _whole_number(body: Mapping[str, Any], name: str) -> int:
    """Return a whole number from the body."""
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LATEST:
        raise bad_request(f"{name} must be a whole number")
    return value
