"""Replies that are streams of JSON objects, one in a line (NDJSON), such as lists of pins."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Final, Generic, TypeVar

from holdfast.config.secret import Secret
from holdfast.errors import ProviderError, SerializationError
from holdfast.protocol import json_text
from holdfast.protocol.http import Reply
from holdfast.protocol.pin_api import ListSize
from holdfast.protocol.status_errors import failure, one_line

Row = TypeVar("Row")

MAX_LINE: Final = 1 << 20  # bytes
ENDLESS: Final = (
    "the provider's list of pins does not end after {:,} rows: set a limit, or filter by name"
)
UNFRAMED: Final = (
    "the provider's list of pins may be cut off: its reply has neither a length nor chunks, which "
    "would show its end; check that no proxy changes replies"
)


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


def check_stream(reply: Reply, token: Secret | None) -> None:
    """Raise ProviderError if an error came after the body, which is then not complete."""
    if reply.stream_error:
        words = f"the provider stopped before the end of its reply: {one_line(reply.stream_error)}"
        raise failure(words, reply, secret=token)


class PinLines(ABC, Generic[Row]):
    """Reads a list that comes in pieces. A list that is too long is a `ProviderError`."""

    max_line: ClassVar[int] = MAX_LINE

    def __init__(self, token: Secret | None) -> None:
        self._token = token
        self._lines = JSONLines(self.max_line)
        self._size = ListSize(ENDLESS)

    def feed(self, piece: bytes) -> Iterator[Row]:
        """Yield the pins that `piece` completes."""
        self._count(rows=0, size=len(piece))
        try:
            for value in self._lines.feed(piece):
                self._count(rows=1, size=0)
                yield self.read(value)
        except SerializationError:
            raise self.wrong_api(Reply(200, {})) from None

    def _count(self, *, rows: int, size: int) -> None:
        if words := self._size.add(rows=rows, size=size):
            raise failure(words, Reply(200, {}), secret=self._token)

    def finish(self, reply: Reply) -> None:
        """Raise ProviderError unless the list is complete; `reply` has no body.

        A list that only the end of the connection ends may be cut off anywhere.
        """
        check_stream(reply, self._token)
        if not reply.is_framed:
            raise failure(UNFRAMED, reply, secret=self._token)
        try:
            self._lines.finish()
        except SerializationError:
            raise self.cut_off(reply) from None

    @abstractmethod
    def read(self, value: dict[str, Any]) -> Row:
        """Return the pin of a line; raise ProviderError if it has none."""

    @abstractmethod
    def wrong_api(self, reply: Reply) -> ProviderError:
        """Return the error for a list that is not that of the API."""

    @abstractmethod
    def cut_off(self, reply: Reply) -> ProviderError:
        """Return the error for a list that is not complete."""
