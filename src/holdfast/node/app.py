"""The node as an ASGI application: the pinning API, the gateway, the page, and what guards them."""

import errno
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

from holdfast.node import gateway
from holdfast.node.calls import PinningCalls
from holdfast.node.page import Page
from holdfast.node.queries import Queries
from holdfast.node.replies import AddedHeaders, Refusal
from holdfast.node.settings import NodeSettings
from holdfast.repository import Repository

NOWHERE: Final = "*"  # a target that no route has


def create_app(repository: Repository, settings: NodeSettings) -> "Guard":
    """The application over `repository`, which stays the caller's to close."""
    calls = PinningCalls(repository, settings)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(calls.jobs.close)

    app = Starlette(
        routes=[*calls.routes(), *gateway.routes(repository), *Page(repository).routes()],
        exception_handlers={
            Refusal: _refused,
            HTTPException: _not_found,
            OSError: _disk_trouble,
        },
        lifespan=lifespan,
    )
    return Guard(app, calls.queries)


class Guard:
    """What stands before every request: the target made plain, and safe headers on every reply."""

    def __init__(self, app: ASGIApp, queries: Queries) -> None:
        self._app = AddedHeaders(app)
        self._queries = queries

    def begin_to_stop(self) -> None:
        """End the queries that run: the node is about to stop, and waits for its requests."""
        self._queries.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and not scope["path"].startswith("/"):
            scope = _with_plain_target(scope)
        await self._app(scope, receive, send)


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
    raise error
