"""Read private files: ``/files/CID`` with the signature of an access link."""

import threading
from http import HTTPStatus
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from holdfast.node.gateway.addresses import PREFIX as PUBLIC_PREFIX
from holdfast.node.gateway.cached_repository import CachedRepository
from holdfast.node.gateway.serving import GatewayRoute
from holdfast.node.http_server.refusals import Refusal
from holdfast.node.memory import Cache
from holdfast.node.v3_api.link_endpoints import check_link
from holdfast.node.v3_api.networks import Networks
from holdfast.node.v3_api.signatures import Signer

PREFIX: Final = "/files"
CACHE: Final = 8 << 20  # bytes; its own, because the public gateway must not find a private block
NOT_CACHED: Final = b"private, no-store"  # by others than the node


class PrivateGateway:
    """The gateway over the private store. A link opens the file that it names, in all formats."""

    def __init__(self, networks: Networks, signer: Signer) -> None:
        self._networks = networks
        self._signer = signer
        self._lock = threading.Lock()
        self._route: GatewayRoute | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            route = await run_in_threadpool(self._open, Request(scope))
        except Refusal as refusal:
            await refusal.text_reply()(scope, receive, send)
            return

        async def send_privately(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [each for each in message["headers"] if each[0].lower() != b"cache-control"]
                message = {**message, "headers": [*kept, (b"cache-control", NOT_CACHED)]}
            await send(message)

        path = PUBLIC_PREFIX + scope["path"].removeprefix(PREFIX)
        raw = PUBLIC_PREFIX.encode() + scope["raw_path"].removeprefix(PREFIX.encode())
        await route.handle({**scope, "path": path, "raw_path": raw}, receive, send_privately)

    def _open(self, request: Request) -> GatewayRoute:
        """Return the gateway; raise a `Refusal` unless the link is valid, and the file is here."""
        repository = self._networks.private.repository
        if request.method != "OPTIONS":
            # The path that is served below: `request.url` is made from the header Host too.
            cid = check_link(self._signer, request.scope["path"], request.query_params)
            if repository.find_pin(cid) is None:
                raise Refusal(HTTPStatus.NOT_FOUND, f"there is no private file {cid}")
        with self._lock:
            if self._route is None:
                self._route = GatewayRoute(CachedRepository(repository, Cache(CACHE)))
            return self._route
