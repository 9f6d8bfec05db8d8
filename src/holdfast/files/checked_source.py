"""An upload whose CID is computed while it is sent."""

from collections.abc import Iterator

from holdfast.content.profiles import Profile
from holdfast.content.unixfs.layouts import WriteCheck
from holdfast.files.background import Background
from holdfast.files.sources import Source


class CheckedSource:
    """A source whose bytes are also given to a check, on a thread beside the one that sends them.

    Every reading makes a new check: `check` is that of the last.
    """

    def __init__(self, source: Source, guess: Profile) -> None:
        self._source = source
        self._guess = guess
        self.check = WriteCheck(guess)
        self.size = source.size
        self.type = source.type

    @property
    def bytes_read(self) -> int:
        """How many bytes the last `chunks` gave so far."""
        return self._source.bytes_read

    @property
    def repeatable(self) -> bool:
        """Whether `chunks` can be had from the start."""
        return self._source.repeatable

    def chunks(self) -> Iterator[bytes]:
        """The bytes, in pieces. When the last is taken, the check has seen them all."""
        # Its own: an earlier reading may not be over yet.
        check = self.check = WriteCheck(self._guess)
        with Background() as background:
            for chunk in self._source.chunks():
                background.submit(check.update, chunk)
                yield chunk
            background.drain()
