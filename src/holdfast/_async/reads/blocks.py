"""Sources of verified blocks, which feed walks. Every reader is built on one.

A walk says which blocks are needed, verifies them, and enforces the limits on depth, width and
sizes. A source only supplies the blocks: one by one, or from an archive (CAR) while it arrives.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from holdfast._async.reads.state import fetch_together
from holdfast._async.reads.streams import in_batches, total
from holdfast._async.runtime import compute, now, run_blocking
from holdfast.calls import Call, Deadline, note_gateway
from holdfast.content.blocks import BLOCK_COST, BlockCache, check_block, inline_block, missing_block
from holdfast.content.budgets import BLOCKS_AT_ONCE, MAX_CACHED, MAX_UNRELATED
from holdfast.content.car import Block, CarReader
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.content.unixfs.root_nodes import RootInfo, RootsWalk
from holdfast.content.unixfs.walks import Item, PathWalk, Walk, feed_known
from holdfast.errors import (
    ClientError,
    NetworkError,
    RequestTimeoutError,
    UnprovenError,
    VerificationError,
)
from holdfast.single_line import short

if TYPE_CHECKING:
    from holdfast._async.transport import AsyncResponse


LOOK_AHEAD: Final = MAX_CACHED // 2  # bytes of blocks that stay in the cache until they are needed


class AsyncBlocks(ABC):
    """A source of verified blocks. A subclass has `advance`, which feeds walks, and `block`."""

    @abstractmethod
    async def advance(
        self, walk: Walk[Any, Item], cache: BlockCache, take: Callable[[list[Item]], object]
    ) -> None:
        """Feed `walk` some of the blocks that it needs, and pass the items in them to `take`.

        `take` may write to a disk, and is called on a worker thread. `cache` may keep blocks until
        they are needed.
        """

    def continue_in(self, call: Call) -> None:  # noqa: B027 - for sources whose requests need it
        """Make the next requests within `call`."""

    async def find(self, reference: Reference, call: Call) -> CID:
        """Return the CID that `reference` leads to; `NotFoundError` if a name is not there."""
        return reference.target or (await self._walk_path(reference, call)).end()

    async def follow(self, reference: Reference, call: Call) -> tuple[CID, Sequence[str]]:
        """Return the CID that `reference` leads to, and the names of a value inside its block."""
        walk = await self._walk_path(reference, call)
        return (walk.target, walk.inside) if walk.target and walk.inside else (walk.end(), ())

    async def _walk_path(self, reference: Reference, call: Call) -> PathWalk:
        walk = PathWalk(reference.cid, reference.path)
        cache = BlockCache(MAX_CACHED)
        while walk.need is not None:
            await self.advance(walk, cache, ignore)
            check_time(call.deadline, reference)
        return walk

    @abstractmethod
    async def block(self, cid: CID) -> bytes:
        """Return the block of `cid`."""

    async def root_infos(
        self, roots: Sequence[CID], cache: BlockCache, reference: Reference, call: Call
    ) -> list[RootInfo]:
        """Return what each of `roots` is, from their blocks."""
        walk = RootsWalk(roots)
        infos: list[RootInfo] = []
        while walk.need is not None:
            await self.advance(walk, cache, infos.extend)
            check_time(call.deadline, reference)
        return infos

    async def media_type(self, cid: CID) -> str:  # noqa: ARG002 - for sources that know it
        """Return the media type of the file at `cid` if the source knows it, else ""."""
        return ""


class AsyncFetchedBlocks(AsyncBlocks):
    """Blocks that `get` fetches one by one, several at the same time.

    Attributes:
        is_verified: Whether `get` compares each block with its CID. Otherwise `advance` does.
        at_once: How many blocks are fetched at the same time.
    """

    is_verified: bool = False
    at_once: ClassVar[int] = BLOCKS_AT_ONCE

    @abstractmethod
    async def get(self, cid: CID, /) -> bytes:
        """Return the block of `cid`, which is not an identity CID; raise an error if that fails."""

    async def block(self, cid: CID) -> bytes:
        """Return the block of `cid`."""
        block = inline_block(cid)
        if block is None:
            block = await self.get(cid)
            if not self.is_verified:
                check_block(cid, block)
        return block

    async def advance(
        self, walk: Walk[Any, Item], cache: BlockCache, take: Callable[[list[Item]], object]
    ) -> None:
        """Fetch the needed block and some that are needed next; feed all that are available."""
        need = walk.need
        if need is None:
            return
        fetched: dict[CID, bytes] = {}
        if cache.get(need) is None:
            following = walk.needed_next(self.at_once - 1)
            ahead = (cid for cid in following if cache.get(cid) is None)
            await fetch_together(self.get, need, ahead, fetched.__setitem__)

        def feed() -> None:
            for cid, block in fetched.items():
                try:
                    if not self.is_verified:
                        check_block(cid, block)
                except VerificationError:
                    if cid == need:
                        raise
                else:
                    cache.put(cid, block)
            # It may be too large to be kept together with the others.
            first = fetched[need] if need in fetched else cache.get(need)
            if first is not None:
                take(feed_known(walk, first, cache))

        await run_blocking(feed)


class AsyncGetBlock(Protocol):
    """A function that returns blocks."""

    async def __call__(self, cid: CID, /) -> bytes:
        """Return the block of `cid`; raise a `ClientError` if that fails."""


class AsyncGivenBlocks(AsyncFetchedBlocks):
    """The blocks that a function returns."""

    def __init__(self, get_block: AsyncGetBlock, *, verified: bool) -> None:
        self._get_block = get_block
        self.is_verified = verified

    async def get(self, cid: CID, /) -> bytes:
        """Return the block of `cid`."""
        return await self._get_block(cid)


class PassedError(UnprovenError):
    """The archive has probably sent a block before, and will not send it again."""


@dataclass(eq=False, repr=False)
class AsyncArchiveFeed(AsyncFetchedBlocks):
    """Verified blocks from the archive in `response`.

    Blocks that are not needed at once are cached, the latest ones. An archive must not send many
    more bytes than are needed, nor nothing that is needed for `patience` seconds.

    Args:
        response: The archive.
        patience: How many seconds it may send nothing that is needed.
        has_repeats: Whether it has a block as often as there are links to it. If not, a block that
            is not among the next `LOOK_AHEAD` bytes is a `PassedError`: fetch it alone.
        host: The gateway that sends it; "" for another peer.
        is_alone: Whether no other gateway can send the blocks. Otherwise a whole block must arrive
            within `patience`.
        on_failure: Called with the error when it has failed.

    Attributes:
        is_over: Whether it has failed, and gives no further block.
    """

    is_verified = True
    at_once = 1  # its blocks come in their order

    response: "AsyncResponse"
    patience: float | None
    has_repeats: bool = True
    host: str = ""
    is_alone: bool = True
    on_failure: Callable[[ClientError], object] | None = None
    is_over: bool = False
    _reader: CarReader = field(default_factory=CarReader)
    _arrived: deque[Block] = field(default_factory=deque)
    _used: int = 0
    _unused: int = 0
    _between: int = 0  # bytes that were received, less those of blocks
    _passed: set[CID] = field(default_factory=set)
    _progress_at: float = field(default_factory=now)

    def __post_init__(self) -> None:
        self._batches = in_batches(self.response, first=0)
        self._cached = BlockCache(MAX_CACHED)
        self._look_ahead = float("inf") if self.has_repeats else LOOK_AHEAD

    async def get(self, cid: CID, /) -> bytes:
        """Return the block of `cid`; raise an error if the archive does not have it."""
        try:
            block = self._cached.get(cid)
            block = await self._next(cid) if block is None else block
        except PassedError:
            raise
        except (NetworkError, VerificationError) as error:
            self.is_over = True
            if self.on_failure is not None:
                self.on_failure(error)
            raise
        note_gateway(self.host)
        return block

    async def aclose(self) -> None:
        """Close the reply."""
        self._reader.close()
        await self.response.aclose()

    async def _next(self, cid: CID) -> bytes:
        """Return the block of `cid`, which is still to come."""
        passed = 0
        while cid not in self._passed:
            if not self._arrived:
                await self._receive(cid)
            arrived_cid, block = self._arrived.popleft()
            self._cached.put(arrived_cid, block)
            self._count(block, needed=arrived_cid == cid)
            if arrived_cid == cid:
                return block
            passed += len(block) + BLOCK_COST
            if passed > self._look_ahead:
                self._passed.add(cid)
        raise PassedError(f"CAR: block {cid} was sent before, or not at all", cid=str(cid))

    async def _receive(self, cid: CID) -> None:
        """Wait for more blocks; raise an error if there are none, or not in time."""
        while not self._arrived:
            chunks: list[bytes] = await anext(self._batches, [])
            if not chunks:
                raise missing_block(cid)
            self._between += total(chunks)
            await compute(total(chunks), self._parse, chunks)
            if self._between > MAX_UNRELATED:
                raise UnprovenError("CAR: too many bytes that are not blocks")
            self._check_progress(cid)

    def _parse(self, chunks: list[bytes]) -> None:
        for chunk in chunks:
            for cid, block in self._reader.update(chunk):
                self._arrived.append((cid, block))
                self._between -= len(block) + BLOCK_COST

    def _count(self, block: bytes, *, needed: bool) -> None:
        if needed:
            self._used += len(block) + BLOCK_COST
            self._progress_at = now()
            return
        self._unused += len(block) + BLOCK_COST
        if self._unused > self._used + MAX_UNRELATED:
            raise UnprovenError("CAR: too many blocks that are not needed, or in a different order")

    def _check_progress(self, cid: CID) -> None:
        """Raise an error if nothing that is needed has arrived for too long."""
        if self._arrived or (self.is_alone and self._reader.arriving()[0] == cid):
            self._progress_at = now()
        elif self.patience is not None and now() - self._progress_at > self.patience:
            raise RequestTimeoutError(f"the archive sent nothing of {cid} in time", sent=True)


def check_time(deadline: Deadline, reference: Reference | CID) -> None:
    """Raise `RequestTimeoutError` if the time is over."""
    if deadline.has_passed:
        raise RequestTimeoutError(f"{short(str(reference))} could not be read in time")


def ignore(_items: object) -> None:
    """Do nothing with the items of a walk."""
