"""A source whose CID is computed while it is sent."""

from collections.abc import Iterator

from holdfast.content.profiles import Profile
from holdfast.content.unixfs.layouts import WriteCheck
from holdfast.files.background import Background
from holdfast.files.sources import Source


class CheckedSource:
    """A source that gives its bytes to a `WriteCheck` too, on a thread of its own.

    Each call of `chunks` makes a new check; `check` is the newest.
    """

    def __init__(self, source: Source, guess: Profile) -> None:
        self._source = source
        self._guess = guess
        self.check = WriteCheck(guess)
        self.size = source.size
        self.type = source.type

    @property
    def bytes_read(self) -> int:
        """How many bytes the last `chunks` has given so far."""
        return self._source.bytes_read

    @property
    def repeatable(self) -> bool:
        """Whether `chunks` can start from the beginning."""
        return self._source.repeatable

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes in pieces. At the end the check has seen all of them."""
        # A local name: an earlier call of `chunks` may still be running.
        check = self.check = WriteCheck(self._guess)
        with Background() as background:
            for chunk in self._source.chunks():
                background.submit(check.update, chunk)
                yield chunk
            background.drain()
