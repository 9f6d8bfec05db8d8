"""The state of one read: what is wanted, what is known, how much of it is verified, and its end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from holdfast._async.runtime import run_blocking
from holdfast.calls import Call
from holdfast.config.client_config import MAX_UNVERIFIED_BYTES
from holdfast.content.blocks import BlockCache
from holdfast.content.budgets import MAX_CACHED, SizeLimit, unverified_limit
from holdfast.content.cid import CID
from holdfast.content.codecs import is_one_block
from holdfast.content.proof import joined
from holdfast.content.reference import Reference
from holdfast.disk.block_cache import DiskBlockCache
from holdfast.sinks.sinks import Sink
from holdfast.sources.sources import Progress

S = TypeVar("S", bound=Sink)


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
        self.sink.truncate(size)
        self.written = size
        self.confirm()

    def report(self, total: int | None) -> None:
        """Call the progress callback if bytes were written since its last call."""
        if self.progress is not None and self.written != self._reported:
            self._reported = self.written
            self.progress(self.written, total)


@dataclass
class KnownFile:
    """What is known of a file so far.

    Attributes:
        cid: The CID that the reference leads to, once it is verified.
        size: The bytes of the whole file, once they are verified.
        media_type: The media type that a gateway reports. It cannot be verified.
        blocks: Verified blocks that were fetched besides the body.
    """

    cid: CID | None = None
    size: int | None = None
    media_type: str = ""
    blocks: BlockCache = field(default_factory=lambda: BlockCache(MAX_CACHED))


@dataclass
class ReadState:
    """A file, or a part of one, that is read into an output.

    It lasts for the whole read. Each attempt continues where the one before it ended.

    Attributes:
        reference: What to read.
        output: Where the bytes go, and how many of them are verified.
        call: The operation of the client that the read belongs to.
        start: Where in the file to begin.
        stop: Where in the file to end; None is its end.
        max_unverified: The largest size of a body that is verified only at its end, if no verified
            block contains the size.
        cache: Keeps blocks on disk, if the configuration says so.
        found: What is known of the file so far.
    """

    reference: Reference
    output: Output
    call: Call
    start: int = 0
    stop: int | None = None
    max_unverified: int = MAX_UNVERIFIED_BYTES
    cache: DiskBlockCache | None = None
    found: KnownFile = field(default_factory=KnownFile)

    def __post_init__(self) -> None:
        self.found.cid = self.found.cid or self.reference.target

    @property
    def position(self) -> int:
        """The position in the file of the next byte to read."""
        return self.start + self.output.written

    @property
    def is_fresh(self) -> bool:
        """Whether the whole file is wanted, and nothing of it is written yet."""
        return self.position == 0 and self.stop is None

    @property
    def is_cached_part(self) -> bool:
        """Whether a part of a file is wanted, whose blocks are to be kept on disk."""
        return self.cache is not None and self.stop is not None

    @property
    def is_block(self) -> bool:
        """Whether the file is known to be one raw block."""
        return self.found.cid is not None and is_one_block(self.found.cid)

    @property
    def is_whole_tree(self) -> bool:
        """Whether a whole file is wanted that is known to be a tree of blocks."""
        is_whole = self.start == 0 and self.stop is None
        return is_whole and self.found.cid is not None and not is_one_block(self.found.cid)

    def learn_size(self, size: int | None) -> None:
        """Set the verified size of the whole file; raise an error if the sink cannot take it."""
        if size is not None and size != self.found.size:
            self.found.size = size
            self.output.sink.expect(size)

    def unverified_limit(self) -> SizeLimit:
        """Return the largest size of a body that is verified only at its end."""
        found = self.found
        return unverified_limit(self.reference, found.cid, found.size, self.max_unverified)

    def fork(self) -> "ReadState":
        """Return a state for one gateway in a race.

        It has its own `found`. The output is shared: only the winner may write to it.
        """
        return replace(self, found=replace(self.found, blocks=self.found.blocks.copy()))

    def adopt(self, fork: "ReadState") -> None:
        """Use the `found` of the winner of a race; the two states share it from now on."""
        blocks = self.found.blocks
        blocks.put_all(fork.found.blocks)
        fork.found.blocks = blocks
        self.found = fork.found


async def commit(sink: S) -> S:
    """Commit `sink`, which a reader has filled; return the sink that has the content.

    That is another one if finishes have to make the content. They run in several jobs, so that a
    cancelled call ends soon. The owner of `sink` discards it in any case.
    """
    if sink.finishes:
        steps = sink.finish()
        while await run_blocking(next, steps, None):
            pass
    final = sink.final or sink
    await on_disk(final, final.commit)
    if final is not sink:
        sink.verified = 0  # so that nothing of it is saved
    return final


async def on_disk(sink: Sink, step: Callable[[], None]) -> None:
    """Do a `step` of `sink`: on a worker thread, unless the sink is in memory."""
    if sink.is_in_memory:
        step()
    else:
        await run_blocking(step)
