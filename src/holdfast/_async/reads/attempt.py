"""One gateway's attempt at a read, by one strategy after another.

::

    BODY       the plain body, and beside it the few blocks that tell how it is cut
    BLOCK      a file that is one raw block: that block
    ARCHIVE    a CAR, which brings all blocks
    WALK       block after block
    LAYOUTS    the plain body alone, imported anew in all known layouts

A gateway may give no plain content at all: then only BLOCK, ARCHIVE and WALK are tried. What is
verified stays in the reading, also when the attempt fails: the next one goes on behind it.
"""

import enum
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from holdfast._async.reads.batches import ARCHIVE_BATCH, BATCH_SIZE, in_batches, walk_on
from holdfast._async.reads.peer import BLOCKS_AT_ONCE, AsyncPeer, RefusedError
from holdfast._async.reads.state import ReadState
from holdfast._async.reads.transfer import AsyncTransfer
from holdfast._async.runtime import run_blocking
from holdfast._async.session import AsyncSession
from holdfast.calls import Deadline
from holdfast.content.cid import CID
from holdfast.content.proof import NoProof, Proof, block_proof, is_raw
from holdfast.content.unixfs.archive import ArchiveProof
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.file_nodes import check_codec
from holdfast.content.unixfs.layouts import LayoutProof
from holdfast.content.unixfs.walks import FileWalk, PathWalk
from holdfast.errors import UnprovenError, VerificationError
from holdfast.protocol.gateway import CAR_TYPE, RAW_TYPE, Gateway
from holdfast.protocol.http import Reply

if TYPE_CHECKING:
    from holdfast._async.transport import AsyncResponse


class Strategy(enum.Enum):
    """How the content is asked for and verified."""

    PLAIN = enum.auto()  # the plain body, not verified: verify=False
    BODY = enum.auto()
    BLOCK = enum.auto()
    ARCHIVE = enum.auto()
    WALK = enum.auto()
    LAYOUTS = enum.auto()


TRUSTLESS = (Strategy.BLOCK, Strategy.ARCHIVE, Strategy.WALK)
VERIFIED = (Strategy.BODY, *TRUSTLESS, Strategy.LAYOUTS)
UNVERIFIED = (Strategy.PLAIN, *TRUSTLESS)


@asynccontextmanager
async def _closing_on_error(response: "AsyncResponse") -> AsyncIterator[None]:
    """Close `response` if what is done within fails."""
    try:
        yield
    except BaseException:
        await response.aclose()
        raise


class AsyncAttempt:
    """Fills a reading from one gateway; in a race with others, its beginning at first."""

    def __init__(
        self,
        session: AsyncSession,
        gateway: Gateway,
        reading: ReadState,
        deadline: Deadline,
        *,
        verify: bool,
        racing: bool = False,
    ) -> None:
        self._peer = AsyncPeer(session, gateway, reading, deadline)
        self._verify = verify
        self._racing = racing
        self._imported = False
        self.gateway = gateway

    @property
    def reading(self) -> ReadState:
        """What it is to fill."""
        return self._peer.reading

    def leads(self, transfer: AsyncTransfer) -> bool:
        """Whether `transfer` is its own."""
        return transfer.peer is self._peer

    def take_over(self, reading: ReadState) -> None:
        """Go on for `reading`, after a race that this attempt has won."""
        own, self._peer.reading = self.reading, reading
        reading.cid = own.cid
        reading.size = own.size
        reading.media_type = own.media_type
        reading.blocks.put_all(own.blocks)

    async def fill(self, *, may_restart: bool = True) -> None:
        """Get all that is still to come, by one strategy or another.

        What is verified is given up for a strategy that must begin anew only if it `may_restart`.
        """
        reading = self.reading
        if reading.sink.kept and not reading.written:
            await self._recover()
        obstacle: UnprovenError | None = None
        for strategy in VERIFIED if self._verify else UNVERIFIED:
            if not self._may_work(strategy, may_restart=may_restart):
                continue
            try:
                if strategy is Strategy.WALK:
                    await self._walk()
                else:
                    # In one expression: a variable would keep its memory for the next strategy.
                    await (await self.begin(strategy)).finish()
            except UnprovenError as error:
                # Without its frames, which hold the sink and all that is in it.
                latest = self._peer.as_refusal(error.with_traceback(None))
                if obstacle is None or self._peer.tells_less(obstacle, latest):
                    obstacle = latest
            else:
                self._peer.confirm_trustless()
                return
            await self.set_back()
        if obstacle is not None:
            raise self._peer.told(obstacle)

    def _may_work(self, strategy: Strategy, *, may_restart: bool) -> bool:
        """Whether `strategy` may lead somewhere."""
        reading = self.reading
        is_trustless = self._peer.is_trustless
        is_block = reading.cid is not None and is_raw(reading.cid)
        match strategy:
            case Strategy.PLAIN:
                return not is_trustless
            case Strategy.BODY:
                # Where no bytes are wanted, but the size of the file, its blocks are enough.
                return not is_trustless or reading.stop == 0
            case Strategy.BLOCK:
                return is_trustless and is_block and reading.stop is None
            case Strategy.ARCHIVE:
                # A raw block can only be verified as a whole: a part of it has no archive.
                return (self._verify or is_trustless) and (reading.stop is None or not is_block)
            case Strategy.WALK:
                return is_trustless and (reading.stop is None or not is_block)
            case Strategy.LAYOUTS:
                may = reading.is_tree and not self._imported and not is_trustless
                return may and (may_restart or not reading.written)

    async def begin(self, strategy: Strategy) -> AsyncTransfer:
        """Ask for the body, and verify its beginning; of a small one, all."""
        if strategy is Strategy.ARCHIVE:
            return await self._begin_archive()
        if strategy is Strategy.BLOCK:
            return await self._begin_block()
        if strategy is Strategy.BODY and not self.reading.is_fresh:
            return await self._begin_part()
        response = await self._peer.open_plain(self.gateway.content(self.reading.reference))
        async with _closing_on_error(response):
            reply = Reply(response.status, response.headers)
            self.reading.media_type = reply.headers.get("content-type", "")
            proof = await self._whole_proof(strategy, reply.length)
            transfer = AsyncTransfer(self._peer, proof, response, in_batches(response))
            await self._lead(transfer, reply)
            return transfer

    async def _begin_archive(self) -> AsyncTransfer:
        reading = self.reading
        reference, start, stop = reading.reference, reading.position, reading.stop
        proof = ArchiveProof(reference.cid, reference.path, start, stop)
        request = self.gateway.archive(reference, start, stop)
        response = await self._peer.open_or_refuse(request)
        async with _closing_on_error(response):
            self._peer.check_type(Reply(response.status, response.headers), CAR_TYPE)
            batches = in_batches(response, first=0, size=ARCHIVE_BATCH)
            return AsyncTransfer(self._peer, proof, response, batches)

    async def _begin_block(self) -> AsyncTransfer:
        cid = self.reading.target
        response = await self._peer.open_or_refuse(self.gateway.block(cid))
        async with _closing_on_error(response):
            reply = Reply(response.status, response.headers)
            self._peer.check_type(reply, RAW_TYPE)
            may_verify = self._verify or cid.is_provable
            proof = block_proof(self.reading.reference, cid) if may_verify else NoProof()
            transfer = AsyncTransfer(self._peer, proof, response, in_batches(response))
            await self._lead(transfer, reply)
            return transfer

    async def _begin_part(self) -> AsyncTransfer:
        proof = await self._part_proof()
        if proof.is_complete:
            return AsyncTransfer(self._peer, proof, ended=True)  # there is nothing to ask for
        start = proof.position
        stop = None if self.reading.stop is None else proof.end
        request = self.gateway.content(self.reading.reference, start, stop)
        response = await self._peer.open_plain(request)
        async with _closing_on_error(response):
            reply = Reply(response.status, response.headers)
            self.reading.media_type = reply.headers.get("content-type", "")
            # A server that knows no ranges sends more than was asked for, before and behind.
            skip, most = self.gateway.skipped(reply, start), proof.end - start
            batches = in_batches(response, skip=skip, most=most)
            transfer = AsyncTransfer(self._peer, proof, response, batches)
            await self._lead(transfer, reply)
            return transfer

    async def _lead(self, transfer: AsyncTransfer, reply: Reply) -> None:
        if not transfer.proof.incremental:
            if self.reading.written:
                await run_blocking(self.reading.restart)
            self._limit(transfer, reply.length)
        elif reply.length is not None and reply.length > self.reading.max_unverified:
            await self._require_root(transfer.proof)
        try:
            await transfer.lead(racing=self._racing)
        finally:
            self._imported = self._imported or transfer.imported

    async def _require_root(self, proof: Proof) -> None:
        """Fetch the block that `proof` needs first, before anything of a very large body is read.

        Without that block the body could only be verified at its end, and it is too large for that.
        """
        if proof.need is not None:
            try:
                await self._peer.block(proof.need)
            except RefusedError:
                raise self.reading.unverified_limit().error from None

    def _limit(self, transfer: AsyncTransfer, length: int | None) -> None:
        """Limit a body that is verified only at its end, or not at all.

        A `length` that is beyond the limit is refused at once; a smaller one changes nothing. Where
        nothing is to be verified, the gateway is taken at its word, also for the length.
        """
        if length is not None:
            self.reading.sink.expect(length)
        if length is None or not isinstance(transfer.proof, NoProof):
            transfer.limit = self.reading.unverified_limit()
            transfer.limit.check(length or 0)

    async def set_back(self) -> None:
        """Forget what is written and not verified; an `OSError` where the sink has failed."""
        reading = self.reading
        if reading.written or reading.failure is not None:  # else what was kept stays kept
            await run_blocking(reading.restart, reading.sink.proven)

    async def _walk(self) -> None:
        """Fetch the file block after block, several at a time."""
        reading = self.reading
        walk = FileWalk(await self._target(), reading.position, reading.stop)
        while (need := walk.need) is not None:
            self._peer.check_time()
            block = await self._peer.block(need, walk.needed_next(BLOCKS_AT_ONCE - 1))
            pieces = await run_blocking(walk_on, walk, block, reading.blocks)
            reading.learn_size(walk.size)
            await run_blocking(reading.take, pieces, proven=True)
            reading.tell(walk.size)
        reading.confirm()
        reading.tell(walk.size)

    # Proofs

    async def _whole_proof(self, strategy: Strategy, length: int | None) -> Proof:
        """Return the proof for a plain body from its first byte on."""
        if strategy is Strategy.PLAIN:
            return NoProof()
        cid = await self._target()
        if is_raw(cid):
            return block_proof(self.reading.reference, cid)
        return LayoutProof(cid) if strategy is Strategy.LAYOUTS else BodyProof(cid, length=length)

    async def _part_proof(self) -> BodyProof:
        """Return the proof for a part of the body, fed with the blocks at its two ends."""
        cid = await self._target()
        if is_raw(cid):
            raise RefusedError(f"{cid} is one block, and can only be proven whole", cid=str(cid))
        proof = BodyProof(cid, self.reading.position, self.reading.stop)
        while (need := proof.need) is not None:
            proof.feed_block(await self._peer.block(need))
            self.reading.learn_size(proof.size)
        while (need := proof.need_at_end) is not None:
            proof.feed_end(await self._peer.block(need))
        return proof

    async def _target(self) -> CID:
        """Return the CID that the reference leads to, found through verified directories."""
        reading = self.reading
        if reading.cid is not None:
            return reading.cid
        walk = PathWalk(reading.reference.cid, reading.reference.path)
        while (need := walk.need) is not None:
            walk.feed(await self._peer.block(need))
        reading.cid = walk.end()
        check_codec(reading.cid)
        return reading.cid

    async def _recover(self) -> None:
        """Verify again what an earlier download left; go on behind what is right of it.

        A gateway that refuses the blocks for it leaves it to the next one.
        """
        sink = self.reading.sink
        proven = position = 0
        cid = await self._target() if self._verify else None
        if cid is not None and not is_raw(cid):
            proof = BodyProof(cid)
            try:
                while chunk := await run_blocking(sink.read_kept, position, BATCH_SIZE):
                    position += len(chunk)
                    await run_blocking(proof.update, chunk)
                    while (need := proof.need) is not None:
                        block = await self._peer.needed_block(proof, need)
                        await run_blocking(proof.feed_block, block)
            except RefusedError as refusal:
                if not proof.position:
                    raise self._peer.told(refusal) from None
            except VerificationError:
                pass  # what is verified up to there counts
            proven = proof.position
        await run_blocking(self.reading.restart, proven)
