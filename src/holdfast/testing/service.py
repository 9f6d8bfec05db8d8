"""A scripted server that plays a small pinning service and its gateway, in memory.

It keeps one raw block for each pin, so it takes content of up to 1 MiB: enough for a first look and
for the tests of an application.
"""

import secrets
import threading
from types import TracebackType
from typing import Any, Self

from holdfast.config import ClientConfig
from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError
from holdfast.protocol import json_text
from holdfast.protocol.pinning import SERVICE_NAMES
from holdfast.testing.server import Recorded, Scripted, ScriptedServer

MAX_CONTENT = 1 << 20
WELCOME = {"message": "Congratulations! You are communicating with the Pinata API!"}


class ScriptedService:
    """A pinning service on this machine, for as long as the ``with`` block lasts.

    Attributes:
        token: The token that it takes.
        url: Its address: of the pinning API, and with ``/ipfs`` of the gateway.
        config: A configuration for a client that talks to it.
        requests: What came so far.
    """

    def __init__(self) -> None:
        self.token = secrets.token_hex(16)
        self._pins: dict[CID, tuple[bytes, str]] = {}
        self._lock = threading.Lock()
        self._server = ScriptedServer(self._answer)

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._server.url

    @property
    def requests(self) -> list[Recorded]:
        """What came so far, in order."""
        return self._server.requests

    @property
    def config(self) -> ClientConfig:
        """The configuration for a client that talks to this service."""
        return ClientConfig(
            provider="pinning",
            provider_token=self.token,
            pin_api_url=self.url,
            gateway_url=self.url,
        )

    def close(self) -> None:
        """Stop, and forget everything."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _answer(self, request: Recorded) -> Scripted:
        if request.target.startswith("/ipfs/"):
            return self._serve(request.target.removeprefix("/ipfs/"))
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return _refusal(401, "INVALID_CREDENTIALS", "Invalid/expired credentials")
        return self._call(request)

    def _call(self, request: Recorded) -> Scripted:
        match request.method, request.target.split("/")[1:]:
            case "GET", ["data", "testAuthentication"]:
                return Scripted(body=WELCOME)
            case "POST", ["pinning", "pinJSONToIPFS"]:
                content = request.json()[SERVICE_NAMES.content]
                return self._pin(json_text.to_text(content).encode(), "application/json")
            case "POST", ["pinning", "pinFileToIPFS"]:
                return self._pin(_file_of(request), "application/octet-stream")
            case "DELETE", ["pinning", "unpin", cid]:
                return self._unpin(cid)
            case _:
                return _refusal(404, "NOT_FOUND", "There is no such endpoint")

    def _pin(self, content: bytes, media_type: str) -> Scripted:
        if len(content) > MAX_CONTENT:
            return _refusal(413, "TOO_LARGE", f"This service takes {MAX_CONTENT} bytes at most")
        cid = CID.of_raw(content)
        with self._lock:
            self._pins[cid] = content, media_type
        return Scripted(body={"IpfsHash": str(cid), "PinSize": len(content)})

    def _unpin(self, cid: str) -> Scripted:
        try:
            with self._lock:
                found = self._pins.pop(CID.parse(cid), None)
        except InvalidCIDError:
            found = None
        if found is None:
            details = f"The current user has not pinned the cid: {cid}"
            return _refusal(400, "CURRENT_USER_HAS_NOT_PINNED_CID", details)
        return Scripted(body=b"OK", headers={"Content-Type": "text/plain"})

    def _serve(self, cid: str) -> Scripted:
        try:
            with self._lock:
                found = self._pins.get(CID.parse(cid.partition("?")[0]))
        except InvalidCIDError:
            found = None
        if found is None:
            return Scripted(status=404, body=b"no such content")
        content, media_type = found
        return Scripted(body=content, headers={"Content-Type": media_type})


def _refusal(status: int, reason: str, details: str) -> Scripted:
    body: dict[str, Any] = {"error": {"reason": reason, "details": details}}
    return Scripted(status=status, body=body)


def _file_of(request: Recorded) -> bytes:
    """The bytes of the form's part called ``file``."""
    boundary = request.headers["content-type"].partition("boundary=")[2].encode()
    for part in request.body.split(b"--" + boundary):
        head, _, content = part.partition(b"\r\n\r\n")
        if b'name="file"' in head:
            return content.removesuffix(b"\r\n")
    return b""
