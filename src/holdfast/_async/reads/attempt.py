"""One attempt at a read: one gateway, asked by one strategy after another.

::

    cached walk   one request for each block that is not on disk: for parts, with `cache_bytes`
    body          the plain body, and the few blocks that say how it is cut into pieces
    raw block     the block itself, for a file that is one raw block
    archive       a CAR, which contains all blocks
    walk          one request for each block
    layouts       the plain body alone, imported again in all known layouts
    plain         the plain body, not verified: with verify=False, in place of body and layouts

Raw block and walk are for gateways that do not serve plain content. When an attempt fails, the
verified bytes stay in the output, and the next attempt continues after them.
"""

from holdfast._async.reads.peer import AsyncBegun, AsyncGatewayPeer, RefusedError
from holdfast._async.reads.state import ReadState
from holdfast._async.reads.strategies import (
    AsyncArchive,
    AsyncBody,
    AsyncCachedWalk,
    AsyncLayouts,
    AsyncPlain,
    AsyncRawBlock,
    AsyncStrategy,
    AsyncWalk,
)
from holdfast._async.runtime import run_blocking
from holdfast._async.session import AsyncSession
from holdfast.calls import Deadline
from holdfast.content.budgets import BATCH_SIZE
from holdfast.content.codecs import is_one_block
from holdfast.content.unixfs.body import BodyProof
from holdfast.errors import UnprovenError, VerificationError
from holdfast.protocol.gateway import Gateway

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
    try:
        await _try_strategies(peer)
    finally:
        await peer.aclose()


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
            peer.refusals.add(error.with_traceback(None))
        else:
            peer.refusals.confirm_trustless()
            return
        await drop_unverified(peer.state)
    peer.refusals.raise_worst()


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
                raise peer.refusals.as_told(refusal) from None
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
