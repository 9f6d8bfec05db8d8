"""What the calls of all APIs share: tokens, bodies within limits, queries with a time limit."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from holdfast.errors import ClientError
from holdfast.node.client_values import parse_json, with_numbers
from holdfast.node.http_server.refusals import Refusal, bad_request, refusal_of
from holdfast.node.http_server.request_bodies import RequestBody
from holdfast.node.memory import HeldMemory, MemoryShare
from holdfast.node.settings import NodeSettings, NodeToken
from holdfast.repository.block_files import FILE_SIZE
from holdfast.repository.pins import QueryStoppedError, Stopped

# Check the credentials, the scopes and the rate limit of a request.

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


WINDOW_SECONDS = 60.0  # in which a token may send `rate_limit` requests


class Authorization:
    """Checks requests against the tokens and the rate limit of a node."""

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._windows: dict[str, tuple[float, int]] = {}

    def check(self, request: Request, scope: str | None) -> None:
        """Raise the service's `Refusal` unless the request may use an endpoint of `scope`."""
        token = self._token(request.headers)
        if token is None:
            raise Refusal(401, "Invalid/expired credentials", reason="INVALID_CREDENTIALS")
        self._count(token)
        if not token.allows(scope):
            text = "This key does not have the required scopes associated with it"
            raise Refusal(403, text, reason="NO_SCOPES_FOUND")

    def _token(self, headers: Mapping[str, str]) -> NodeToken | None:
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return next((t for t in self._settings.tokens if t.is_bearer(bearer.strip())), None)
        key = headers.get("pinata_api_key", "")
        secret = headers.get("pinata_secret_api_key", "")
        return next((t for t in self._settings.tokens if t.is_pair(key, secret)), None)

    def _count(self, token: NodeToken) -> None:
        limit = self._settings.rate_limit
        if limit is None:
            return
        now = time.monotonic()  # the clock of the system may be set back
        with self._lock:
            start, count = self._windows.get(token.token, (now, 0))
            if now - start >= WINDOW_SECONDS:
                start, count = now, 0
            self._windows[token.token] = start, count + 1
        if count >= limit:
            wait = start + WINDOW_SECONDS - now
            headers = {
                "Retry-After": str(max(1, int(wait))),
                "X-RateLimit-Limit": str(limit),
                "X-RateLimit-Remaining": "0",
                "X-RateLimit-Reset": str(int(time.time() + wait)),
            }
            raise Refusal(429, "Too many requests; try again later", headers, reason="RATE_LIMITED")


@dataclass(frozen=True, slots=True)
class AuthorizedEndpoint:
    """An endpoint for requests with a token for `scope`; without `authorization`, for all.

    A `Refusal`, and an error of the store, becomes the reply that `error_reply` returns for it.
    This is a class because Starlette would catch the errors of a function once more.
    """

    endpoint: Endpoint
    authorization: Authorization | None = None
    scope: str | None = None
    error_reply: Callable[[Refusal], Response] = Refusal.json_reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive, send)
        try:
            if self.authorization is not None:
                self.authorization.check(request, self.scope)
            reply = await self.endpoint(request)
        except (Refusal, ClientError, OSError) as error:
            reply = self.error_reply(refusal_of(error))
        await reply(scope, receive, send)


# Read the bodies of requests, and parse those that are JSON, within limits of memory.

INLINE_JSON: Final = FILE_SIZE - 1  # bytes of JSON up to which parsing is faster than a thread
LARGE_JSON: Final = 256 << 10  # bytes of JSON above which only one document is parsed at a time
SMALL_AT_ONCE: Final = 4  # documents up to `LARGE_JSON` that are parsed at a time
MAX_METADATA: Final = 1 << 20  # bytes of a JSON body that has metadata and no content

T = TypeVar("T")


class BodyReader:
    """Reads bodies for all endpoints of a node, which share `memory`."""

    def __init__(self, memory: HeldMemory, *, idle_seconds: float) -> None:
        self.memory = memory
        self._idle_seconds = idle_seconds
        self._small = asyncio.Semaphore(SMALL_AT_ONCE)
        self._large = asyncio.Semaphore(1)

    @contextmanager
    def reading(self, request: Request, limit: int) -> Iterator[RequestBody]:
        """Yield the body of a request; at the end, give its memory back."""
        try:
            with MemoryShare(self.memory) as share:
                yield RequestBody(request, share, limit=limit, idle_seconds=self._idle_seconds)
        finally:
            self.memory.give_back()

    async def on_thread(self, body: RequestBody, text: bytes, use: Callable[[Any], T]) -> T:
        """Return `use` of the JSON `text` of a body, called on a worker thread.

        Parsed JSON takes up to 35 times the memory of its text, so few bodies are parsed at once.
        """
        async with body.acquire(self._large if len(text) > LARGE_JSON else self._small):
            return await run_in_threadpool(lambda: use(parse_json(text)))

    async def json_object(self, request: Request) -> dict[str, Any]:
        """Return the JSON object in the body of a request that has no content."""
        with self.reading(request, MAX_METADATA) as body:
            text = await body.read()
            if len(text) <= INLINE_JSON:
                value = with_numbers(parse_json(text))
            else:
                value = await self.on_thread(body, text, with_numbers)
        if not isinstance(value, dict):
            raise bad_request("The body must be a JSON object")
        return value


# Run queries over the pins, each with a time limit.


QUERY_SECONDS = 5.0
AT_ONCE = 4  # worker threads for queries, so that some are left for other requests


class QueryRunner:
    """Runs queries on a limited number of worker threads.

    A query ends `QUERY_SECONDS` after its arrival, when its client disconnects, and when the node
    stops.
    """

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(AT_ONCE)
        self._is_ended = False

    async def run(self, request: Request, query: Callable[[Stopped], T]) -> T:
        """Return the result of `query`; raise a `Refusal` if it was ended."""
        deadline = time.monotonic() + QUERY_SECONDS
        disconnected = asyncio.ensure_future(wait_for_disconnect(request.receive))

        def stopped() -> bool:
            return self._is_ended or disconnected.done() or time.monotonic() > deadline

        try:
            return await run_sync(query, stopped, limiter=self._limiter)
        except QueryStoppedError:
            if self._is_ended:
                raise Refusal(503, "The node is stopping") from None
            raise bad_request(
                f"The query was ended after {QUERY_SECONDS:g} seconds: narrow it, "
                "for example by cid, pinStart or pinEnd"
            ) from None
        finally:
            disconnected.cancel()

    def end(self) -> None:
        """End the running queries and all later ones. May be called from any thread."""
        self._is_ended = True


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


UPLOADS_AT_ONCE: Final = 8  # worker threads that parse uploads


class ApiCalls:
    """The resources that the calls of all APIs share.

    Attributes:
        authorization: The tokens and the rate limit.
        bodies: Reads bodies within limits of memory.
        queries: Runs queries within a limit of time.
        uploaders: The worker threads for uploads.
    """

    def __init__(self, settings: NodeSettings, memory: HeldMemory) -> None:
        self.authorization: Authorization = Authorization(settings)
        self.bodies: BodyReader = BodyReader(memory, idle_seconds=settings.idle_seconds)
        self.queries: QueryRunner = QueryRunner()
        self.uploaders: CapacityLimiter = CapacityLimiter(UPLOADS_AT_ONCE)

    def routes(
        self,
        table: Iterable[tuple[str, str, Endpoint, str | None]],
        error_reply: Callable[[Refusal], Response] = Refusal.json_reply,
    ) -> list[Route]:
        """Return the routes of a table of calls: method, path, endpoint, and the scope it needs."""
        tokens = self.authorization
        return [
            Route(path, AuthorizedEndpoint(endpoint, tokens, scope, error_reply), methods=[method])
            for method, path, endpoint, scope in table
        ]
