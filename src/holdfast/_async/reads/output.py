"""The output of one read: which bytes are in the sink, and which of those are verified."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.content.proof import joined
from holdfast.files.sinks import Sink
from holdfast.files.sources import Progress


@dataclass
class Output:
    """A sink, and how far it is filled.

    Attributes:
        sink: Where the bytes go.
        progress: The user's callback, if there is one.
        written: How many bytes are in the sink, verified or not yet verified.
        furthest: The largest number of bytes that were ever verified. Only more is progress.
        failure: The error of the sink. Nothing is written after it: bytes may be missing.
    """

    sink: Sink
    progress: Progress | None = None
    written: int = 0
    furthest: int = 0
    failure: OSError | None = None
    _reported: int = -1

    def take(self, pieces: Sequence[Any], *, verified: bool) -> None:
        """Write `pieces`. If `verified`, all bytes in the sink are verified then."""
        if self.failure is not None:
            raise self.failure
        try:
            for piece in joined(pieces):
                self.sink.write(piece)
                self.written += len(piece)
        except OSError as error:
            self.failure = error
            raise
        if verified:
            self.confirm()

    def confirm(self) -> None:
        """Mark all bytes in the sink as verified."""
        self.sink.verified = self.written
        self.furthest = max(self.furthest, self.written)

    def restart(self, size: int = 0) -> None:
        """Remove all but the first `size` bytes, which are verified."""
        if self.failure is not None:
            raise self.failure
        self.sink.restart(size)
        self.written = size
        self.confirm()

    def report(self, total: int | None) -> None:
        """Call the progress callback if bytes were written since its last call."""
        if self.progress is not None and self.written != self._reported:
            self._reported = self.written
            self.progress(self.written, total)
