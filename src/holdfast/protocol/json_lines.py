"""A reply that is a stream of JSON objects, one in a line (NDJSON)."""

from collections.abc import Iterator
from typing import Any, Final

from holdfast.errors import SerializationError
from holdfast.protocol import json_text

MAX_LINE: Final = 1 << 20  # bytes


class JSONLines:
    r"""Reads objects from a body that comes in pieces; raises `SerializationError` for other text.

    Example:
        >>> lines = JSONLines()
        >>> list(lines.feed(b'{"a": 1}\n{"b"')), list(lines.feed(b": 2}\n"))
        ([{'a': 1}], [{'b': 2}])
        >>> lines.finish()
    """

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._rest = b""

    def feed(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """Yield the objects that `piece` completes."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > self._max_line:
            raise SerializationError("a line is too long")
        for line in lines:
            if line.strip():
                yield _object(line)

    def finish(self) -> None:
        """Raise `SerializationError` if the body ends within a line."""
        if self._rest.strip():
            raise SerializationError("the last line is cut off")


def _object(line: bytes) -> dict[str, Any]:
    value = json_text.from_text(line)
    if not isinstance(value, dict):
        raise SerializationError("a line is not a JSON object")
    return value
