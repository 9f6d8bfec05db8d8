# WARNING: this file is generated from src/holdfast/_async/reads/strategies/walk.py
# by scripts/generate_sync.py. Change the original instead.
"""The file block by block, several at a time.

For a gateway without plain content and CARs, and for parts of files if blocks are kept on disk.
"""

from holdfast._sync.reads.peer import GatewayPeer
from holdfast._sync.reads.refusals import RefusedError
from holdfast._sync.reads.strategies.interface import Transfer
from holdfast._sync.runtime import run_blocking
from holdfast.content.budgets import BLOCKS_AT_ONCE
from holdfast.content.codecs import is_one_block
from holdfast.content.unixfs.walks import FileWalk, feed_known
from holdfast.errors import MalformedError


class Walk:
    """Fetch every block of the file."""

    def may_work(self, peer: GatewayPeer) -> bool:
        """Return whether the gateway serves no plain content; not for a part of one raw block."""
        state = peer.state
        return peer.refusals.is_trustless and (state.stop is None or not state.is_block)

    def begin(self, peer: GatewayPeer) -> Transfer:
        """Follow the path; the blocks of the file itself are fetched by `finish`."""
        state = peer.state
        return Walking(peer, FileWalk(peer.target(), state.position, state.stop))


class CachedWalk:
    """Fetch the blocks of a part of a file that are not in the cache on disk."""

    def may_work(self, peer: GatewayPeer) -> bool:
        """Return whether a part is wanted, and blocks are kept."""
        return peer.state.is_cached_part

    def begin(self, peer: GatewayPeer) -> Transfer:
        """Follow the path. A file of one block is fetched now: it may be too large for a block."""
        cid = peer.target()
        if is_one_block(cid):
            try:
                peer.block(cid)
            except MalformedError as error:
                raise RefusedError(error.message, cid=str(cid)) from None
        return Walking(peer, FileWalk(cid, peer.state.position, peer.state.stop))


class Walking:
    """A file that is fetched block by block."""

    def __init__(self, peer: GatewayPeer, walk: FileWalk) -> None:
        self._peer = peer
        self._walk = walk

    def finish(self) -> None:
        """Fetch, verify and write all blocks."""
        walk, state, output = self._walk, self._peer.state, self._peer.state.output
        budget = self._peer.new_budget()
        while (need := walk.need) is not None:
            budget.check_time()
            block = self._peer.block(need, walk.needed_next(BLOCKS_AT_ONCE - 1))
            pieces = run_blocking(feed_known, walk, block, state.found.blocks)
            state.learn_size(walk.size)
            run_blocking(output.take, pieces, verified=True)
            output.report(walk.size)
        output.confirm()
        output.report(walk.size)

    def close(self) -> None:
        """Do nothing: no reply is open."""
