"""Run queries over the pins, each with a time limit."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.requests import Request

from holdfast.node.http_server.refusals import Refusal, bad_request
from holdfast.repository.pin_queries import QueryStoppedError, Stopped

T = TypeVar("T")

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
        disconnected = asyncio.ensure_future(_wait_for_disconnect(request))

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


async def _wait_for_disconnect(request: Request) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
