"""Reporting the progress of a check, which looks at each block several times."""

from typing import Final

from holdfast.files.sources import Progress

LOOKS: Final = 3  # at each block: in the second copy, in the database, and below the pins


class CheckProgress:
    """Calls `progress` with the number of blocks that are done, and of all, if it is known.

    A step is one look at one block, and `total` is the number of steps. Without `progress` nothing
    is called.
    """

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._done = self._found = 0
        self.total: int | None = None

    def advance(self, count: int) -> None:
        """Report `count` more steps. Blocks that others add meanwhile do not count."""
        self._done += count
        if self._progress is not None:
            total = self._done if self.total is None else self.total
            done = min(self._done, total) // LOOKS
            self._progress(done, None if self.total is None else total // LOOKS)

    def found(self, done: int, _: int | None) -> None:
        """Report the progress of `find_live`, which counts from the first block."""
        self.advance(done - self._found)
        self._found = done

    def finish(self) -> None:
        """Report that everything is done."""
        self.total = self._done if self.total is None else self.total
        self.advance(self.total - self._done)
