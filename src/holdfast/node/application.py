"""The node as an ASGI application: its APIs, the gateway and the page, within limits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import unquote, urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.errors import ClientError
from holdfast.node import gateway
from holdfast.node.gateway.cached_repository import CachedRepository
from holdfast.node.http_server.default_headers import DefaultHeaders
from holdfast.node.http_server.refusals import Refusal, store_refusal
from holdfast.node.http_server.request_parser import MAX_HEAD, MAX_HEADERS
from holdfast.node.http_server.streamed_replies import Resources, sending_in_pieces
from holdfast.node.memory import Cache
from holdfast.node.page import Page
from holdfast.node.pinning_api.endpoints import PinningEndpoints
from holdfast.node.pinning_api.query_runner import QueryRunner
from holdfast.node.psa_api.endpoints import PSAEndpoints
from holdfast.node.settings import NodeSettings
from holdfast.node.v3_api.endpoints import V3Endpoints
from holdfast.repository import Repository

UNROUTED: Final = "*"  # a path that no route matches


def create_app(repository: Repository, settings: NodeSettings) -> "NodeApplication":
    """Return the application over `repository`, which the caller closes."""
    resources = Resources()
    api = PinningEndpoints(repository, settings, resources.memory)
    v3 = V3Endpoints(repository, settings, api)
    psa = PSAEndpoints(repository, settings, api)
    reader = CachedRepository(repository, Cache(settings.cache_bytes))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        beside = asyncio.create_task(v3.run_beside())
        resuming = asyncio.create_task(run_in_threadpool(psa.resume))
        yield
        await resuming
        beside.cancel()
        with suppress(asyncio.CancelledError):
            await beside
        await run_in_threadpool(api.jobs.close)
        await run_in_threadpool(v3.close)
        await run_in_threadpool(psa.close)
        await run_in_threadpool(resources.close)

    app = _LeanStarlette(
        routes=[
            *api.routes(),
            *v3.routes(),
            *psa.routes(),
            *gateway.routes(reader),
            *Page(reader).routes(),
        ],
        exception_handlers={
            Refusal: _refused,
            HTTPException: _not_found,
            OSError: _store_error,
            ClientError: _store_error,
        },
        lifespan=lifespan,
    )
    app.state.resources = resources
    return NodeApplication(app, resources, api.queries)


class _LeanStarlette(Starlette):
    """Starlette without its reply to unexpected errors, which the node's HTTP server has too."""

    def build_middleware_stack(self) -> ASGIApp:
        """Return the application with its handlers of errors."""
        return ExceptionMiddleware(self.router, handlers=self.exception_handlers)


class NodeApplication:
    """The outermost application: limits heads and replies, and adds default headers."""

    def __init__(self, app: ASGIApp, resources: Resources, queries: QueryRunner) -> None:
        self._app = DefaultHeaders(app)
        self._large_head = DefaultHeaders(_large_head)
        self._resources = resources
        self._queries = queries

    def prepare_to_stop(self) -> None:
        """End running queries, because a node that stops waits for its requests."""
        self._queries.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not scope["path"].startswith("/"):
            scope = _with_plain_target(scope)
        elif scope["raw_path"].startswith(b"//"):
            scope = _with_path(scope, scope["raw_path"].decode("latin-1"))
        app = self._large_head if _is_large(scope) else self._app
        await app(scope, receive, sending_in_pieces(self._resources, scope, send))


def _is_large(scope: Scope) -> bool:
    """Return whether the head is too large. The reader takes one that arrives at once."""
    headers = scope["headers"]
    size = sum(len(name) + len(value) for name, value in headers)
    return len(headers) > MAX_HEADERS or size + len(scope["raw_path"]) > MAX_HEAD


async def _large_head(scope: Scope, receive: Receive, send: Send) -> None:
    text = f"A request may have at most {MAX_HEADERS} headers and a head of {MAX_HEAD} bytes"
    reply = JSONResponse({"error": text}, 431, headers={"Connection": "close"})
    await reply(scope, receive, send)


def _with_plain_target(scope: Scope) -> Scope:
    """Return `scope` with a path for a target in absolute form (RFC 9112, section 3.2.2)."""
    try:
        parts = urlsplit(scope["raw_path"].decode("latin-1"))
    except ValueError:
        raw = UNROUTED
    else:
        raw = (parts.path or "/") if parts.scheme in {"http", "https"} else UNROUTED
    return _with_path(scope, raw)


def _with_path(scope: Scope, raw: str) -> Scope:
    """Return `scope` with a path; several slashes at its start count as one, as some clients need.

    No reply can then repeat a path that a browser would take for the address of another host.
    """
    if raw.startswith("//"):
        raw = "/" + raw.lstrip("/")
    return {**scope, "path": unquote(raw), "raw_path": raw.encode("latin-1")}


async def _refused(_: Request, error: Exception) -> Response:
    if isinstance(error, Refusal):
        return error.json_reply()
    raise error


async def _not_found(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    texts = {404: "There is nothing at this address", 405: "This address takes another method"}
    return JSONResponse({"error": texts.get(status, "The request cannot be served")}, status)


async def _store_error(_: Request, error: Exception) -> Response:
    return store_refusal(error).json_reply()
