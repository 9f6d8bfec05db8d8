"""Reading the body of a request, within its limits of size and patience."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

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
    """The body as JSON, numbers in the spelling that they came in."""
    body = b"".join(
        [piece async for piece in pieces(request, limit=limit, idle_seconds=idle_seconds)]
    )
    return parse_json(body)


class Number(str):
    """A number as it was written: to read and write it anew might change it."""

    __slots__ = ()


def parse_json(text: bytes) -> Any:
    """The value of `text`, with `Number` for numbers; a `Refusal` where it is not JSON."""
    try:
        return json.loads(
            text.decode("utf-8-sig"),
            parse_float=Number,
            parse_int=Number,
            parse_constant=_refuse_constant,
        )
    except RecursionError:
        raise bad_request("The JSON is nested too deeply") from None
    except ValueError as error:
        raise bad_request(f"The body is not JSON: {error}") from None


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def write_json(value: Any) -> str:
    """`value` as compact JSON, as the service stores it; numbers as they came."""
    try:
        text = "".join(_tokens(value))
        text.encode()
    except RecursionError:
        raise bad_request("The JSON is nested too deeply") from None
    except UnicodeEncodeError:
        raise bad_request("The JSON holds text with a lone surrogate") from None
    return text


def _tokens(value: Any) -> list[str]:
    match value:
        case Number():
            return [str(value)]
        case dict():
            out = ["{"]
            for key, member in value.items():
                out += ["," if len(out) > 1 else "", json.dumps(key, ensure_ascii=False), ":"]
                out += _tokens(member)
            return [*out, "}"]
        case list():
            out = ["["]
            for member in value:
                out += ["," if len(out) > 1 else "", *_tokens(member)]
            return [*out, "]"]
        case _:
            return [json.dumps(value, ensure_ascii=False)]


def plain(value: Any) -> Any:
    """`value` with ordinary numbers, for settings rather than content."""
    return json.loads(write_json(value))
