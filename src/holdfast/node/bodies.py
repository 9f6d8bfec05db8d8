"""Reading the body of a request, within its limits of size and patience."""

import asyncio
import json
import math
import re
import secrets
from collections.abc import AsyncIterator
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from holdfast.node.replies import Refusal, bad_request

PIECE_SIZE = 1 << 20  # what goes to a worker thread at a time


async def pieces(request: Request, *, limit: int, idle_seconds: float) -> AsyncIterator[bytes]:
    """The body in pieces of about `PIECE_SIZE`; a `Refusal` where it is too large or too slow."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > 18 or int(declared) > limit):
        raise Refusal(413, f"The body is larger than the {limit} bytes that are allowed")
    total = 0
    piece = bytearray()
    stream = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(idle_seconds):
                chunk = await anext(stream, None)
        except TimeoutError:
            raise Refusal(408, "The body came too slowly") from None
        except ClientDisconnect:
            raise bad_request("The body ended early") from None
        if chunk is None:
            break
        total += len(chunk)
        if total > limit:
            raise Refusal(413, f"The body is larger than the {limit} bytes that are allowed")
        piece += chunk
        if len(piece) >= PIECE_SIZE:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


async def read_json(request: Request, *, limit: int, idle_seconds: float) -> Any:
    """The body as JSON, its fractions marked so that `write_json` spells them as they came."""
    body = b"".join(
        [piece async for piece in pieces(request, limit=limit, idle_seconds=idle_seconds)]
    )
    return await run_in_threadpool(parse_json, body)


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
