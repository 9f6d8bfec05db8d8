"""The file block by block, several at a time.

For a gateway without plain content and CARs, and for parts of files if blocks are kept on disk.
"""

from holdfast._async.reads.peer import AsyncGatewayPeer
from holdfast._async.reads.refusals import RefusedError
from holdfast._async.reads.strategies.interface import AsyncTransfer
from holdfast._async.runtime import run_blocking
from holdfast.content.budgets import BLOCKS_AT_ONCE
from holdfast.content.codecs import is_one_block
from holdfast.content.unixfs.walks import FileWalk, feed_known
from holdfast.errors import MalformedError


class AsyncWalk:
    """Fetch every block of the file."""

    def may_work(self, peer: AsyncGatewayPeer) -> bool:
        """Return whether the gateway serves no plain content; not for a part of one raw block."""
        state = peer.state
        return peer.refusals.is_trustless and (state.stop is None or not state.is_block)

    async def begin(self, peer: AsyncGatewayPeer) -> AsyncTransfer:
        """Follow the path; the blocks of the file itself are fetched by `finish`."""
        state = peer.state
        return AsyncWalking(peer, FileWalk(await peer.target(), state.position, state.stop))


class AsyncCachedWalk:
    """Fetch the blocks of a part of a file that are not in the cache on disk."""

    def may_work(self, peer: AsyncGatewayPeer) -> bool:
        """Return whether a part is wanted, and blocks are kept."""
        return peer.state.is_cached_part

    async def begin(self, peer: AsyncGatewayPeer) -> AsyncTransfer:
        """Follow the path. A file of one block is fetched now: it may be too large for a block."""
        cid = await peer.target()
        if is_one_block(cid):
            try:
                await peer.block(cid)
            except MalformedError as error:
                raise RefusedError(error.message, cid=str(cid)) from None
        return AsyncWalking(peer, FileWalk(cid, peer.state.position, peer.state.stop))


class AsyncWalking:
    """A file that is fetched block by block."""

    def __init__(self, peer: AsyncGatewayPeer, walk: FileWalk) -> None:
        self._peer = peer
        self._walk = walk

    async def finish(self) -> None:
        """Fetch, verify and write all blocks."""
        walk, state, output = self._walk, self._peer.state, self._peer.state.output
        budget = self._peer.new_budget()
        while (need := walk.need) is not None:
            budget.check_time()
            block = await self._peer.block(need, walk.needed_next(BLOCKS_AT_ONCE - 1))
            pieces = await run_blocking(feed_known, walk, block, state.found.blocks)
            state.learn_size(walk.size)
            await run_blocking(output.take, pieces, verified=True)
            output.report(walk.size)
        output.confirm()
        output.report(walk.size)

    async def aclose(self) -> None:
        """Do nothing: no reply is open."""
