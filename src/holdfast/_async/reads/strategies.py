"""The strategies: ways to ask one gateway for content and to verify it, tried in this order.

::

    cached walk   one request for each block that is not on disk: for parts, with `cache_bytes`
    body          the plain body, and the few blocks that say how it is cut into pieces
    raw block     the block itself, for a file that is one raw block
    archive       a CAR, which contains all blocks
    walk          one request for each block
    layouts       the plain body alone, imported again in all known layouts
    plain         the plain body, not verified: with verify=False, in place of body and layouts

Raw block and walk are for gateways that do not serve plain content. A strategy sends its request
and returns a transfer, whose beginning is verified if possible. It raises `UnprovenError` if
another strategy may work with the same gateway. When an attempt at a gateway fails, the verified
bytes stay in the output, and the next attempt continues after them.
"""

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from holdfast._async.reads.state import AsyncBegun, AsyncGatewayPeer, ReadState, RefusedError
from holdfast._async.reads.streams import AsyncStream, Verified, closing_on_error, flat, in_batches
from holdfast._async.runtime import AsyncWorker, run_blocking
from holdfast._async.session import AsyncSession
from holdfast.calls import Deadline
from holdfast.content.budgets import BATCH_SIZE, BLOCKS_AT_ONCE
from holdfast.content.codecs import is_one_block
from holdfast.content.proof import HashProof, NoProof
from holdfast.content.unixfs.archive import ArchiveProof
from holdfast.content.unixfs.body import BodyCutter, BodyPart, BodyProof
from holdfast.content.unixfs.file_nodes import is_leaf
from holdfast.content.unixfs.layouts import LayoutProof
from holdfast.content.unixfs.walks import FileWalk, feed_known
from holdfast.disk.background import HASH_THREADS, Turns
from holdfast.errors import MalformedError, NetworkError, UnprovenError, VerificationError
from holdfast.protocol.gateway import CAR_TYPE, PARTIAL, RAW_TYPE, Gateway
from holdfast.protocol.http import Reply

if TYPE_CHECKING:
    from holdfast._async.transport import AsyncResponse


class AsyncTransfer(Protocol):
    """Content that a gateway has begun to send. Its beginning is verified if that is possible."""

    async def finish(self) -> None:
        """Verify all of it, write it to the output, and close it."""

    async def aclose(self) -> None:
        """Close it unfinished."""


class AsyncStrategy(Protocol):
    """A way to ask a gateway for content and to verify it.

    It raises `UnprovenError` if another strategy may work with the same gateway.
    """

    def may_work(self, peer: AsyncGatewayPeer) -> bool:
        """Return whether the strategy is worth a try."""

    async def begin(self, peer: AsyncGatewayPeer) -> AsyncTransfer:
        """Send the request, and verify the beginning of the reply."""


class AsyncBody:
    """Ask for the plain content, and verify it piece by piece with blocks of the file."""

    def may_work(self, peer: AsyncGatewayPeer) -> bool:
        """Return whether the gateway serves plain content, or only the size is wanted.

        For the size, the blocks of the file are enough.
        """
        return not peer.is_trustless or peer.state.stop == 0

    async def begin(self, peer: AsyncGatewayPeer) -> AsyncTransfer:
        """Request the plain content that is still missing."""
        if peer.state.position or peer.state.stop is not None:  # not all of the file is missing
            return await _begin_part(peer)
        response = await peer.open_plain()
        async with closing_on_error(response):
            cid = await peer.target()
            if is_one_block(cid):
                block = HashProof(peer.state.reference, cid)
                return await AsyncStream(peer, block, response).begin()
            length = Reply(response.status, response.headers).length
            proof = BodyProof(cid, length=length)
            return await AsyncBodyStream(peer, proof, response).begin()


async def _begin_part(peer: AsyncGatewayPeer) -> AsyncTransfer:
    """Ask for a range of the body, or for the rest of it."""
    proof = await _part_proof(peer)
    if proof.is_complete:  # without a request: its blocks are known
        return await _begin_walk(peer)
    start = proof.position
    response = await peer.open_plain(start, None if peer.state.stop is None else proof.end)
    async with closing_on_error(response):
        reply = Reply(response.status, response.headers)
        # A server without support for ranges sends more than was requested, before and after it.
        skip, most = peer.gateway.skipped(reply, start), proof.end - start
        batches = in_batches(response, skip=skip, most=most)
        return await AsyncBodyStream(peer, proof, response, batches).begin()


async def _part_proof(peer: AsyncGatewayPeer) -> BodyProof:
    """Return the proof for a part of the body, fed with the blocks at its two ends."""
    state = peer.state
    cid = await peer.target()
    if is_one_block(cid):
        raise RefusedError(f"{cid} is one block, and can only be verified as a whole", cid=str(cid))
    proof = BodyProof(cid, state.position, state.stop)
    while (need := proof.need) is not None:
        proof.feed_block(await peer.block(need))
        state.learn_size(proof.size)
    while (need := proof.need_at_end) is not None:
        proof.feed_end(await peer.block(need))
    return proof


class AsyncBodyStream(AsyncStream[BodyProof]):
    """A body that is verified piece by piece, with blocks that are fetched where they are needed.

    Several threads hash its leaves. Then they write what is verified, one after the other, in the
    order of the leaves.
    """

    threads = HASH_THREADS
    _cutter: BodyCutter | None = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._turns: Turns[Verified] = Turns()

    async def _prepare(self) -> None:
        """Fetch the root block of a very large body before anything of it is received.

        Without that block the body could only be verified at its end, and it is too large for that.
        """
        state, length, need = self.peer.state, self.reply.length, self.proof.need
        if length is not None and length > state.max_unverified and need is not None:
            try:
                await self.peer.block(need)
            except RefusedError:
                raise state.unverified_limit().error from None

    async def begin(self) -> AsyncStream[Any]:
        """Receive and verify the beginning; without the root block, begin an import of the body."""
        await self._prepare()
        await self._receive_first()
        if not await self._feed_needed():
            return await self._begin_import()
        await self._check_begun()
        return self

    async def _feed_needed(self) -> bool:
        """Feed the blocks that the beginning needs; return False if the root block is refused."""
        state, proof = self.peer.state, self.proof
        while (need := proof.need) is not None:
            try:
                block = await self.peer.block_for_body(proof, need)
            except RefusedError:
                # An import cannot win a race: it verifies nothing before the end.
                if self.peer.is_racing or need != state.file.cid:
                    raise
                return False
            self._pieces += await run_blocking(proof.feed_block, block)
            state.learn_size(proof.size)
        state.learn_size(proof.size)
        return True

    async def _begin_import(self) -> AsyncStream[LayoutProof]:
        """Import the whole body, from its start, in the known layouts."""
        self.peer.was_imported = True
        received = [bytes(view) for view in self.proof.unverified()]
        return await self.begin_again(LayoutProof(await self.peer.target()), received)

    async def _see_end(self) -> None:
        await super()._see_end()
        if self._failure is not None:
            self.proof.drop_guess()

    async def _check_begun(self) -> None:
        """Raise an error if the body was wrong, or broke off before anything was verified."""
        if self._ended:
            await self._check_end()
        elif self._failure is not None and not self._pieces:
            raise self._failure

    async def _submit(self, chunks: list[bytes], prover: AsyncWorker) -> list[Verified]:
        """Have the leaves in `chunks` verified side by side, and written in order."""
        if self._cutter is None:
            self._cutter = BodyCutter(self.proof)
        results: list[Verified] = []
        for parts in self._cutter.cut(chunks):
            results += await self._submit_parts(parts, prover)
        return results

    async def _submit_rest(self, prover: AsyncWorker) -> list[Verified]:
        rest = [] if self._cutter is None else self._cutter.rest()
        return await self._submit_parts(rest, prover) if rest else []

    async def _submit_parts(self, parts: list[BodyPart], prover: AsyncWorker) -> list[Verified]:
        job = self._turns.job(partial(_checked, parts), self._take)
        return flat(await prover.submit(job))

    def _take(self, checked: list[tuple[BodyPart, bool]]) -> Verified:
        """Feed the next parts to the proof, and write what is verified."""
        proof = self.proof
        pieces: list[Any] = []
        for (leaf, content), is_right in checked:
            if leaf is not None and is_right:
                pieces += proof.update_leaf(leaf, content)
            else:
                pieces += proof.update_all(content)
        return self._written(pieces)

    def _written(self, pieces: list[Any]) -> Verified:
        self.peer.state.output.take(pieces, verified=True)
        return Verified([], self.proof.need)

    async def _feed(self, result: Verified, prover: AsyncWorker) -> None:
        """Fetch the block that the proof needs, and feed it."""
        if result.need is not None:
            block = await self.peer.block_for_body(self.proof, result.need)
            await prover.submit(self._verify_block, block)

    def _verify_block(self, block: bytes) -> list[Verified]:
        return [self._written(self.proof.feed_block(block))]

    async def _check_end(self) -> None:
        proof, reply = self.proof, self.reply
        if reply.status != PARTIAL:
            await self._explain_end()
        if not proof.is_complete and (reply.status == PARTIAL or not reply.is_framed):
            # The body may be incomplete without being wrong: keep it, and request the rest.
            raise NetworkError(f"{self.peer.host} broke off", sent=True)
        proof.finish()

    async def _explain_end(self) -> None:
        """Feed the proof the blocks that show why a body ended too early.

        A node that declares other sizes than its children have raises `MalformedError` here.
        """
        while self.proof.ends_too_early() and (need := self.proof.need) is not None:
            try:
                block = await self.peer.block(need)
            except RefusedError:
                return
            await run_blocking(self.proof.feed_block, block)


def _checked(parts: list[BodyPart]) -> list[tuple[BodyPart, bool]]:
    """Return each part, and whether it was found to be its leaf."""
    return [(part, part.leaf is not None and is_leaf(part.leaf, part.content)) for part in parts]


class AsyncRawBlock:
    """Fetch the one block, and compare its hash with the CID."""

    def may_work(self, peer: AsyncGatewayPeer) -> bool:
        """Return whether the gateway serves no plain content, and a whole raw block is wanted."""
        return peer.is_trustless and peer.state.is_block and peer.state.stop is None

    async def begin(self, peer: AsyncGatewayPeer) -> AsyncTransfer:
        """Ask for the block."""
        cid = await peer.target()
        response = await peer.open_or_refuse(peer.gateway.block(cid))
        async with closing_on_error(response):
            peer.check_type(Reply(response.status, response.headers), RAW_TYPE)
            may_verify = peer.verify or cid.is_provable
            proof = HashProof(peer.state.reference, cid) if may_verify else NoProof()
            return await AsyncStream(peer, proof, response).begin()


class AsyncArchive:
    """Ask for an archive, and walk through the file as its blocks arrive."""

    def may_work(self, peer: AsyncGatewayPeer) -> bool:
        """Return whether an archive can contain what is wanted.

        A raw block can only be verified as a whole, so a part of it has no archive.
        """
        state = peer.state
        may = peer.verify or peer.is_trustless
        return may and (state.stop is None or not state.is_block)

    async def begin(self, peer: AsyncGatewayPeer) -> AsyncTransfer:
        """Ask for the archive."""
        state = peer.state
        reference, start, stop = state.reference, state.position, state.stop
        proof = ArchiveProof(reference.cid, reference.path, start, stop)
        response = await peer.open_or_refuse(peer.gateway.archive(reference, start, stop))
        async with closing_on_error(response):
            stream = AsyncArchiveStream(peer, proof, response)
            peer.check_type(stream.reply, CAR_TYPE)
            return stream


class AsyncArchiveStream(AsyncStream[ArchiveProof]):
    """An archive, which contains all blocks and may continue after the end of the file."""

    def __init__(
        self, peer: AsyncGatewayPeer, proof: ArchiveProof, response: "AsyncResponse"
    ) -> None:
        super().__init__(peer, proof, response, in_batches(response, first=0))

    @property
    def total(self) -> int | None:
        """The verified size of the whole file, if it is known. The reply has another length."""
        return self.proof.size

    async def aclose(self) -> None:
        """Close the reply, and release the blocks."""
        # A part of a file goes on as it began: for a raw block that may be by an archive only.
        if self.proof.is_complete and self.peer.state.stop is None:
            self.peer.state.file.cid = self.proof.cid
        self.proof.close()
        await super().aclose()

    async def _submit(self, chunks: list[bytes], prover: AsyncWorker) -> list[Verified]:
        # One job at a time: a small archive may contain a large file, and must make progress.
        results = await super()._submit(chunks, prover)
        return results + flat(await prover.drain())

    async def _feed(self, result: Verified, prover: AsyncWorker) -> None:  # noqa: ARG002
        """Have the proof return more bytes."""
        await prover.submit(self._verify, [])
        self.budget.restart_clock()
        self.peer.state.output.report(self.total)

    def _is_satisfied(self) -> bool:
        return self.proof.is_complete and not self._ended

    def _check_progress(self) -> None:
        if not self.proof.is_complete:
            self.budget.check_progress()


class AsyncWalk:
    """Fetch every block of the file."""

    def may_work(self, peer: AsyncGatewayPeer) -> bool:
        """Return whether the gateway serves no plain content; not for a part of one raw block."""
        state = peer.state
        return peer.is_trustless and (state.stop is None or not state.is_block)

    async def begin(self, peer: AsyncGatewayPeer) -> AsyncTransfer:
        """Follow the path; the blocks of the file itself are fetched by `finish`."""
        return await _begin_walk(peer)


async def _begin_walk(peer: AsyncGatewayPeer) -> AsyncTransfer:
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
        return await _begin_walk(peer)


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
            pieces = await run_blocking(feed_known, walk, block, state.file.blocks)
            state.learn_size(walk.size)
            await run_blocking(output.take, pieces, verified=True)
            output.report(walk.size)
        output.confirm()
        output.report(walk.size)

    async def aclose(self) -> None:
        """Do nothing: no reply is open."""


class AsyncLayouts:
    """Import the body again, and compare the CIDs of the known layouts with the wanted one."""

    def may_work(self, peer: AsyncGatewayPeer) -> bool:
        """Return whether a whole tree is wanted, and its body was not imported yet."""
        state = peer.state
        may = state.is_whole_tree and not peer.was_imported and not peer.is_trustless
        return may and (peer.may_restart or not state.output.written)

    async def begin(self, peer: AsyncGatewayPeer) -> AsyncTransfer:
        """Ask for the plain content."""
        response = await peer.open_plain()
        async with closing_on_error(response):
            proof = LayoutProof(await peer.target())
            return await AsyncStream(peer, proof, response).begin()


class AsyncPlain:
    """Return what the gateway sends, without verification."""

    def may_work(self, peer: AsyncGatewayPeer) -> bool:
        """Return whether the gateway serves plain content."""
        return not peer.is_trustless

    async def begin(self, peer: AsyncGatewayPeer) -> AsyncTransfer:
        """Ask for the plain content."""
        response = await peer.open_plain()
        async with closing_on_error(response):
            return await AsyncPlainStream(peer, NoProof(), response).begin()


class AsyncPlainStream(AsyncStream[NoProof]):
    """A body that nothing verifies."""

    def _set_limit(self) -> None:
        """Limit a body of unknown length. A length that the gateway declares is accepted."""
        if self.reply.length is None:
            super()._set_limit()

    def _check_race(self) -> None:
        """Do nothing: there is no verification to wait for."""


BODY = AsyncBody()
PLAIN = AsyncPlain()
TRUSTLESS = (AsyncRawBlock(), AsyncArchive(), AsyncWalk())
VERIFIED: tuple[AsyncStrategy, ...] = (AsyncCachedWalk(), BODY, *TRUSTLESS, AsyncLayouts())
UNVERIFIED: tuple[AsyncStrategy, ...] = (PLAIN, *TRUSTLESS)


async def fill(
    session: AsyncSession,
    state: ReadState,
    gateway: Gateway,
    deadline: Deadline,
    *,
    verify: bool,
    is_last: bool,
    begun: AsyncBegun | None = None,
) -> None:
    """Read everything that `state` still lacks from `gateway`.

    If the gateway is the last one, a strategy may drop verified bytes and begin again. The first
    attempt of a read continues with what is `begun`, if the short path has begun something.
    """
    sent = None if begun is None else begun.take()
    if begun is not None and sent is not None:
        deadline = begun.deadline
    peer = AsyncGatewayPeer(
        session, gateway, state, deadline, verify=verify, may_restart=is_last, sent=sent
    )
    async with aclosing(peer):
        await _try_strategies(peer)


async def _try_strategies(peer: AsyncGatewayPeer) -> None:
    output = peer.state.output
    if output.sink.saved_size and not output.written:
        await _recover(peer)
    for strategy in VERIFIED if peer.verify else UNVERIFIED:
        if not strategy.may_work(peer):
            continue
        try:
            # One expression: a variable would keep this transfer in memory during the next one.
            await (await strategy.begin(peer)).finish()
        except UnprovenError as error:
            # Without its traceback, whose frames hold the sink and all bytes in it.
            peer.note_refusal(error.with_traceback(None))
        else:
            peer.confirm_trustless()
            return
        await drop_unverified(peer.state)
    peer.raise_refusal()


async def _recover(peer: AsyncGatewayPeer) -> None:
    """Verify what an earlier download left, and go on behind the bytes that are right.

    A gateway that refuses the blocks for it leaves the bytes to the next gateway.
    """
    sink = peer.state.output.sink
    verified = position = 0
    cid = await peer.target() if peer.verify else None
    if cid is not None and not is_one_block(cid):
        proof = BodyProof(cid)
        try:
            while chunk := await run_blocking(sink.read_saved, position, BATCH_SIZE):
                position += len(chunk)
                await run_blocking(proof.update, chunk)
                while (need := proof.need) is not None:
                    block = await peer.block_for_body(proof, need)
                    await run_blocking(proof.feed_block, block)
        except RefusedError as refusal:
            if not proof.position:
                raise peer.as_told(refusal) from None
        except VerificationError:
            pass  # the bytes that were verified before it are right
        verified = proof.position
    await run_blocking(peer.state.output.restart, verified)
    if verified:
        words = "download continues at byte %d"
        peer.state.call.tell("resume", words, verified, cid=str(cid), position=verified)


async def drop_unverified(state: ReadState) -> None:
    """Remove the bytes that are not verified; raise an `OSError` if the sink has failed."""
    output = state.output
    # If nothing was written, the bytes that an earlier download saved stay.
    if output.written or output.failure is not None:
        await run_blocking(output.restart, output.sink.verified)
