"""Reading the body of a request, within its limits of size and patience."""

import asyncio
import json
import math
import re
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from starlette.requests import ClientDisconnect, Request

from holdfast.node.memory import MemoryShare
from holdfast.node.replies import Refusal, bad_request

PIECE_SIZE = 64 << 10  # what goes to a worker thread at a time
IDLE_BYTES = 1 << 10  # a body that brings fewer in the idle time stands still
PROGRESS_BYTES = 16 << 10  # a body that brings fewer than this ends first where memory is short


class Body:
    """The body of a request, read within limits of size, time and memory."""

    def __init__(
        self, request: Request, share: MemoryShare, *, limit: int, idle_seconds: float
    ) -> None:
        self._request = request
        self._share = share
        self._limit = limit
        self._idle_seconds = idle_seconds

    async def pieces(self, held: Callable[[], int] | None = None) -> AsyncIterator[bytes]:
        """Give the body in pieces of about `PIECE_SIZE`.

        `held` says how many bytes the caller holds of the pieces so far. Raise a `Refusal` where
        the body is too large, too slow, or where others need the memory.
        """
        declared = self._request.headers.get("content-length", "")
        if declared.isdecimal() and (len(declared) > 18 or int(declared) > self._limit):
            raise self._too_large()
        total = progress = 0
        piece = bytearray()
        async for chunk in self._chunks():
            total += len(chunk)
            progress += len(chunk)
            if total > self._limit:
                raise self._too_large()
            piece += chunk
            kept = 0 if held is None else held()
            self._share.hold(2 * len(piece) + kept, progress=progress >= PROGRESS_BYTES)
            if progress >= PROGRESS_BYTES:
                progress = 0
            if len(piece) >= PIECE_SIZE:
                self._check_share()
                yield bytes(piece)
                piece.clear()
        if piece:
            yield bytes(piece)

    async def _chunks(self) -> AsyncIterator[bytes]:
        """Give the body as it comes."""
        stream = aiter(self._request.stream())
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._idle_seconds
        received = 0
        while True:
            self._check_share()
            try:
                async with asyncio.timeout_at(deadline) as timer:
                    self._share.on_end = partial(timer.reschedule, 0)
                    chunk = await anext(stream, None)
            except TimeoutError:
                if not self._share.is_ended:
                    raise Refusal(408, "The body came too slowly") from None
            except ClientDisconnect:
                raise bad_request("The body ended early") from None
            finally:
                self._share.on_end = None
            self._check_share()
            if chunk is None:
                return
            received += len(chunk)
            yield chunk
            if received >= IDLE_BYTES:
                deadline = loop.time() + self._idle_seconds
                received = 0

    def _check_share(self) -> None:
        if self._share.is_ended:
            text = "The node has too many requests under way; try again later"
            raise Refusal(503, text, headers={"Connection": "close", "Retry-After": "5"})

    def _too_large(self) -> Refusal:
        return Refusal(413, f"The body is larger than the {self._limit} bytes that are allowed")

    async def whole(self) -> bytes:
        """Return the whole body."""
        pieces: list[bytes] = []
        held = 0

        def kept() -> int:
            return held

        async for piece in self.pieces(kept):
            pieces.append(piece)
            held += len(piece)
        return b"".join(pieces)

    @asynccontextmanager
    async def turn(self, places: asyncio.Semaphore) -> AsyncIterator[None]:
        """Wait for one of `places` and keep it; a `Refusal` where others need the memory first."""
        try:
            async with asyncio.timeout(None) as timer:
                self._share.on_end = partial(timer.reschedule, 0)
                self._check_share()
                await places.acquire()
        except TimeoutError:
            self._check_share()
            raise
        finally:
            self._share.on_end = None
        try:
            yield
        finally:
            places.release()


# To read and write a fraction anew might change its spelling, and with it the CID. It is kept as a
# string that nobody outside can have made up.
_MARK = secrets.token_hex(16)
_MARKED = re.compile(f'"{_MARK}:([^"]*)"')


def parse_json(text: bytes) -> Any:
    """The value of `text`; a `Refusal` where it is not JSON."""
    try:
        return json.loads(
            text.decode("utf-8-sig"),
            parse_float=lambda number: f"{_MARK}:{number}",
            parse_constant=_refuse_constant,
        )
    except RecursionError:
        raise bad_request("The JSON is nested too deeply") from None
    except ValueError as error:
        raise bad_request(f"The body is not JSON: {error}") from None


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def write_json(value: Any) -> str:
    """`value` as compact JSON, as the service stores it; fractions as they came."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        text.encode()
    except RecursionError:
        raise bad_request("The JSON is nested too deeply") from None
    except UnicodeEncodeError:
        raise bad_request("The JSON holds text with a lone surrogate") from None
    except ValueError as error:
        raise bad_request(f"The JSON cannot be stored: {error}") from None
    return _MARKED.sub(r"\1", text)


def plain(value: Any) -> Any:
    """`value` with ordinary fractions, for settings rather than content."""
    return json.loads(write_json(value), parse_float=_finite)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise bad_request("A number is too large")
    return number
