"""What is wanted of a file, and what of it is there by now. It outlives every attempt to get it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.calls import Call
from holdfast.config.client_config import MAX_UNVERIFIED_BYTES
from holdfast.content.blocks import BlockCache
from holdfast.content.budgets import MAX_CACHED, SizeLimit, unverified_limit
from holdfast.content.cid import CID
from holdfast.content.proof import is_raw, joined
from holdfast.content.reference import Reference
from holdfast.files.sinks import Sink
from holdfast.files.sources import Progress


@dataclass
class ReadState:
    """A file, or a part of one, on its way into a sink.

    Attributes:
        start: Where in the file to begin.
        stop: Where in the file to end; None is its end.
        cid: What the reference leads to, once that is proven.
        size: The bytes of the whole file, once that is proven.
        blocks: The blocks that came beside the body, proven.
        written: How many bytes are in the sink. Those that are not proven will be, or go.
        furthest: How many bytes were proven at the most: less is no progress.
        failure: What the sink failed with. Then nothing more may be written: there is a hole.
        media_type: What the gateway calls it.
        max_unverified: How many bytes may come that are verified only at their end, where no
            verified block tells the size.
    """

    reference: Reference
    sink: Sink
    call: Call
    progress: Progress | None = None
    start: int = 0
    stop: int | None = None
    cid: CID | None = None
    size: int | None = None
    blocks: BlockCache = field(default_factory=lambda: BlockCache(MAX_CACHED))
    written: int = 0
    furthest: int = 0
    failure: OSError | None = None
    media_type: str = ""
    max_unverified: int = MAX_UNVERIFIED_BYTES
    _told: int = -1

    def __post_init__(self) -> None:
        if not self.reference.path:
            self.cid = self.reference.cid

    @property
    def target(self) -> CID:
        """The CID that the reference leads to, which must be verified by now."""
        if self.cid is None:
            raise ValueError("the path is not followed yet")
        return self.cid

    @property
    def position(self) -> int:
        """Where in the file the first byte stands that is still to come."""
        return self.start + self.written

    @property
    def is_fresh(self) -> bool:
        """Whether the whole file is wanted, and nothing of it is there."""
        return self.position == 0 and self.stop is None

    @property
    def is_tree(self) -> bool:
        """Whether a whole file is wanted that is known to be a tree of blocks."""
        whole = self.start == 0 and self.stop is None
        return whole and self.cid is not None and not is_raw(self.cid)

    def learn_size(self, size: int | None) -> None:
        """Note the verified size of the whole file; raise an error where the sink has no room."""
        if size is not None and size != self.size:
            self.sink.expect(size)
            self.size = size

    def unverified_limit(self) -> SizeLimit:
        """Return how many bytes a body may have that is verified only at its end."""
        return unverified_limit(self.reference, self.cid, self.size, self.max_unverified)

    def take(self, pieces: Sequence[Any], *, proven: bool) -> None:
        """Write `pieces`."""
        if self.failure is not None:
            raise self.failure
        try:
            for piece in joined(pieces):
                self.sink.write(piece)
                self.written += len(piece)
        except OSError as error:
            self.failure = error
            raise
        if proven:
            self.confirm()

    def confirm(self) -> None:
        """All that is written is proven."""
        self.sink.proven = self.written
        self.furthest = max(self.furthest, self.written)

    def restart(self, size: int = 0) -> None:
        """Forget all but the first `size` bytes, which are proven."""
        if self.failure is not None:
            raise self.failure
        self.sink.restart(size)
        self.written = size
        self.confirm()

    def tell(self, total: int | None) -> None:
        """Report the progress, if there is any."""
        if self.progress is not None and self.written != self._told:
            self._told = self.written
            self.progress(self.written, total)
