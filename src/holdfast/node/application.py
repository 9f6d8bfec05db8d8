"""The node as an ASGI application: its APIs, the gateway and the page, within limits."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.errors import ClientError
from holdfast.node.api_calls import ApiCalls, QueryRunner
from holdfast.node.gateway.cached_repository import CachedRepository
from holdfast.node.gateway.serving import GatewayRoute
from holdfast.node.http_server.refusals import DefaultHeaders, Refusal, refusal_of
from holdfast.node.http_server.request_parser import MAX_HEAD, MAX_HEADERS
from holdfast.node.http_server.streamed_replies import Resources, sending_in_pieces
from holdfast.node.memory import Cache
from holdfast.node.page import Page
from holdfast.node.pinning_api import PinningCalls
from holdfast.node.psa_api import PSACalls
from holdfast.node.service import Service, quietly
from holdfast.node.settings import NodeSettings
from holdfast.node.v3_api import V3Calls
from holdfast.repository import Repository

# The scheme and host of a target in absolute form (RFC 9112, section 3.2.2).
ABSOLUTE: Final = re.compile(
    rb"https?://(\[[0-9a-f:.]+\]|[^][/?#%\\]+)(:[0-9]*)?(?=/|\Z)", re.IGNORECASE
)


def create_app(repository: Repository, settings: NodeSettings) -> "NodeApplication":
    """Return the application over `repository`, which the caller closes."""
    resources = Resources()
    calls = ApiCalls(settings, resources.memory)
    service = Service(repository, settings)
    v3 = V3Calls(service, calls, settings)
    reader = CachedRepository(repository, Cache(settings.cache_bytes))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        beside = asyncio.create_task(v3.run_beside())
        resuming = asyncio.create_task(run_in_threadpool(quietly, service.requests.resume))
        yield
        await resuming
        beside.cancel()
        with suppress(asyncio.CancelledError):
            await beside
        for close in (v3.close, service.close, resources.close):
            await run_in_threadpool(close)

    app = _LeanStarlette(
        routes=[
            *PinningCalls(service, calls, settings).routes(),
            *v3.routes(),
            *PSACalls(service, calls).routes(),
            GatewayRoute(lambda address, _: (reader, address)),
            *Page(reader).routes(),
        ],
        exception_handlers={
            **dict.fromkeys((Refusal, OSError, ClientError), _refused),
            HTTPException: _not_found,
        },
        lifespan=lifespan,
    )
    app.state.resources = resources
    return NodeApplication(app, resources, calls.queries)


class _LeanStarlette(Starlette):
    """Starlette without its reply to unexpected errors, which the node's HTTP server has too."""

    def build_middleware_stack(self) -> ASGIApp:
        """Return the application with its handlers of errors."""
        return ExceptionMiddleware(self.router, handlers=self.exception_handlers)


class NodeApplication:
    """The outermost application: limits heads and replies, and adds default headers."""

    def __init__(self, app: ASGIApp, resources: Resources, queries: QueryRunner) -> None:
        self._app = DefaultHeaders(app)
        self._resources = resources
        # Running queries are ended, because a node that stops waits for its requests.
        self.prepare_to_stop: Callable[[], None] = queries.end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = _with_plain_target(scope)
        refusal = _refusal_of(scope)
        app = self._app if refusal is None else DefaultHeaders(refusal.json_reply())
        await app(scope, receive, sending_in_pieces(self._resources, scope, send))


def _with_plain_target(scope: Scope) -> Scope:
    """Return `scope` with a plain path: no scheme and host, and one slash at its start.

    Some clients send a target in absolute form, or more than one slash. No reply can repeat a path
    that a browser would take for the address of another host.
    """
    raw: bytes = scope["raw_path"]
    absolute = ABSOLUTE.match(raw)
    if absolute is not None:
        raw = raw[absolute.end() :] or b"/"
    if raw.startswith(b"//"):
        raw = b"/" + raw.lstrip(b"/")
    if raw == scope["raw_path"]:
        return scope
    return {**scope, "path": unquote(raw.decode("latin-1")), "raw_path": raw}


def _refusal_of(scope: Scope) -> Refusal | None:
    """Return the refusal of a head that is too large, or whose path can be read in two ways.

    The parser of requests accepts a large head that arrives at once.
    """
    headers = scope["headers"]
    raw_path: bytes = scope["raw_path"]
    size = sum(len(name) + len(value) for name, value in headers)
    if len(headers) > MAX_HEADERS or size + len(raw_path) > MAX_HEAD:
        text = f"A request may have at most {MAX_HEADERS} headers and a head of {MAX_HEAD} bytes"
        return Refusal(431, text, {"Connection": "close"})
    if b"%2f" in raw_path.lower():
        # Whoever looks at the path before it is decoded would see other parts than we do.
        return Refusal(404, "No address of the node has an encoded slash (%2F)")
    return None


async def _not_found(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    texts = {404: "There is nothing at this address", 405: "This address has no such method"}
    return JSONResponse({"error": texts.get(status, "The request cannot be served")}, status)


async def _refused(_: Request, error: Exception) -> Response:
    return refusal_of(error).json_reply()
