"""The node as an ASGI application: the pinning API, the gateway, the page, and what guards them."""

import errno
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import unquote, urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.errors import ClientError, VerificationError
from holdfast.node import gateway
from holdfast.node.cached import CachedRepository
from holdfast.node.calls import PinningCalls
from holdfast.node.connections import MAX_HEAD, MAX_HEADERS
from holdfast.node.memory import Cache
from holdfast.node.page import Page
from holdfast.node.queries import Queries
from holdfast.node.replies import AddedHeaders, Refusal
from holdfast.node.settings import NodeSettings
from holdfast.node.streaming import Resources, sending_in_pieces
from holdfast.repository import Repository

logger = logging.getLogger("holdfast.node")

NOWHERE: Final = "*"  # a target that no route has


def create_app(repository: Repository, settings: NodeSettings) -> "Guard":
    """The application over `repository`, which stays the caller's to close."""
    resources = Resources()
    calls = PinningCalls(repository, settings, resources.memory)
    reader = CachedRepository(repository, Cache(settings.cache_bytes))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(calls.jobs.close)

    app = Starlette(
        routes=[*calls.routes(), *gateway.routes(reader), *Page(reader).routes()],
        exception_handlers={
            Refusal: _refused,
            HTTPException: _not_found,
            OSError: _disk_trouble,
            ClientError: _store_trouble,
        },
        lifespan=lifespan,
    )
    app.state.resources = resources
    return Guard(app, resources, calls.queries)


class Guard:
    """What stands around every request: a plain target, a head and replies within limits."""

    def __init__(self, app: ASGIApp, resources: Resources, queries: Queries) -> None:
        self._app = AddedHeaders(app)
        self._large_head = AddedHeaders(_large_head)
        self._resources = resources
        self._queries = queries

    def begin_to_stop(self) -> None:
        """End the queries that run: the node is about to stop, and waits for its requests."""
        self._queries.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not scope["path"].startswith("/"):
            scope = _with_plain_target(scope)
        app = self._large_head if _is_large(scope) else self._app
        await app(scope, receive, sending_in_pieces(self._resources, scope, send))


def _is_large(scope: Scope) -> bool:
    """Whether the head is larger than it may be: one that came at once was not stopped before."""
    headers = scope["headers"]
    size = sum(len(name) + len(value) for name, value in headers)
    return len(headers) > MAX_HEADERS or size + len(scope["raw_path"]) > MAX_HEAD


async def _large_head(scope: Scope, receive: Receive, send: Send) -> None:
    text = f"A head has at most {MAX_HEADERS} headers and {MAX_HEAD} bytes"
    reply = JSONResponse({"error": text}, 431, headers={"Connection": "close"})
    await reply(scope, receive, send)


def _with_plain_target(scope: Scope) -> Scope:
    """A client that takes us for a proxy sends the whole address; see RFC 9112, 3.2.2."""
    try:
        parts = urlsplit(scope["raw_path"].decode("latin-1"))
    except ValueError:
        raw = NOWHERE
    else:
        raw = (parts.path or "/") if parts.scheme in {"http", "https"} else NOWHERE
    return {**scope, "path": unquote(raw), "raw_path": raw.encode("latin-1")}


async def _refused(_: Request, error: Exception) -> Response:
    if isinstance(error, Refusal):
        return error.response()
    raise error


async def _not_found(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    words = {404: "There is nothing at this address", 405: "This address takes another method"}
    return JSONResponse({"error": words.get(status, "The request cannot be served")}, status)


async def _disk_trouble(_: Request, error: Exception) -> Response:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return JSONResponse({"error": "The disk of the node is full"}, 507)
    if isinstance(error, OSError) and error.errno == errno.EROFS:
        return JSONResponse({"error": "The store of the node is read-only"}, 500)
    raise error


async def _store_trouble(_: Request, error: Exception) -> Response:
    """Answer for a store that cannot be used; what is wrong with it stands in the log."""
    logger.error("%s", error)
    if isinstance(error, VerificationError):
        text = "The store of the node is damaged: whoever runs it can run `holdfast check`"
        return JSONResponse({"error": text}, 500)
    return JSONResponse({"error": "The store of the node cannot be used now; try again"}, 503)
