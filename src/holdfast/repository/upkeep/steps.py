"""Reporting the progress of a check, which looks at each block several times."""

from holdfast.files.sources import Progress


class Steps:
    """Calls `progress` with the number of steps that are done, and of all steps if it is known.

    A step is one look at one block. Without `progress` it does nothing.
    """

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._done = self._found = 0
        self.total: int | None = None

    def advance(self, count: int) -> None:
        """Report `count` more steps. Blocks that others add meanwhile do not count."""
        self._done += count
        if self._progress is not None:
            done = self._done if self.total is None else min(self._done, self.total)
            self._progress(done, self.total)

    def found(self, done: int, _: int | None) -> None:
        """Report the progress of `find_live`, which counts from the first block."""
        self.advance(done - self._found)
        self._found = done

    def finish(self) -> None:
        """Report that everything is done."""
        self.total = self._done if self.total is None else self.total
        self.advance(self.total - self._done)
