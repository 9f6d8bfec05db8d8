"""Queries over the pins: each ends in time, however much there is to look at."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.requests import Request

from holdfast.node.replies import Refusal, bad_request
from holdfast.repository.pin_queries import QueryStoppedError, Stopped

T = TypeVar("T")

QUERY_SECONDS = 5.0
AT_ONCE = 4  # worker threads that queries may take; the others are for everything else


class Queries:
    """Runs queries on worker threads of their own number.

    A query ends after `QUERY_SECONDS`, which count from its arrival; when its client leaves; and
    when the node stops.
    """

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(AT_ONCE)
        self._is_ended = False

    async def run(self, request: Request, query: Callable[[Stopped], T]) -> T:
        """Return what `query` returns; raise a `Refusal` where it ended early."""
        deadline = time.monotonic() + QUERY_SECONDS
        leaving = asyncio.ensure_future(_left(request))

        def stopped() -> bool:
            return self._is_ended or leaving.done() or time.monotonic() > deadline

        try:
            return await run_sync(query, stopped, limiter=self._limiter)
        except QueryStoppedError:
            if self._is_ended:
                raise Refusal(503, "The node is stopping") from None
            raise bad_request(
                f"The query was ended after {QUERY_SECONDS:g} seconds: ask for less, "
                "for example by cid, pinStart or pinEnd"
            ) from None
        finally:
            leaving.cancel()

    def end(self) -> None:
        """End the queries that run, and those to come. May be called from any thread."""
        self._is_ended = True


async def _left(request: Request) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
