"""How many bytes of a directory are verified, for the user's progress callback."""

from threading import Lock

from holdfast.files.sources import Progress


class Tally:
    """Counts bytes of several files at a time, and calls `progress` with their sum.

    The size of a directory is known only when all of it is there, so the total is None until then.

    Example:
        >>> tally = Tally(print)
        >>> tally.add(3)
        3 None
        >>> one = tally.of_file()
        >>> one(2, 10)
        5 None
        >>> tally.finish()
        5 5
    """

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._lock = Lock()
        self._done = 0

    def add(self, count: int) -> None:
        """Count bytes."""
        with self._lock:
            self._done += count
            if self._progress is not None and count > 0:
                self._progress(self._done, None)

    def of_file(self) -> Progress:
        """Return the progress function of one file."""
        before = 0

        def report(done: int, _: int | None) -> None:
            nonlocal before
            added, before = done - before, done
            self.add(added)

        return report

    def finish(self) -> None:
        """Report that all bytes are there."""
        if self._progress is not None:
            self._progress(self._done, self._done)
