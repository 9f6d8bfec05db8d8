# WARNING: this file is generated from src/holdfast/_async/reads/attempt.py
# by scripts/generate_sync.py. Change the original instead.
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

from holdfast._sync.reads.peer import Begun, GatewayPeer, RefusedError
from holdfast._sync.reads.state import ReadState
from holdfast._sync.reads.strategies import (
    Archive,
    Body,
    CachedWalk,
    Layouts,
    Plain,
    RawBlock,
    Strategy,
    Walk,
)
from holdfast._sync.runtime import run_blocking
from holdfast._sync.session import Session
from holdfast.calls import Deadline
from holdfast.content.budgets import BATCH_SIZE
from holdfast.content.codecs import is_one_block
from holdfast.content.unixfs.body import BodyProof
from holdfast.errors import UnprovenError, VerificationError
from holdfast.protocol.gateway import Gateway

BODY = Body()
PLAIN = Plain()
TRUSTLESS = (RawBlock(), Archive(), Walk())
VERIFIED: tuple[Strategy, ...] = (CachedWalk(), BODY, *TRUSTLESS, Layouts())
UNVERIFIED: tuple[Strategy, ...] = (PLAIN, *TRUSTLESS)


def fill(
    session: Session,
    state: ReadState,
    gateway: Gateway,
    deadline: Deadline,
    *,
    verify: bool,
    is_last: bool,
    begun: Begun | None = None,
) -> None:
    """Read everything that `state` still lacks from `gateway`.

    If the gateway is the last one, a strategy may drop verified bytes and begin again. The first
    attempt of a read continues with what is `begun`, if the short path has begun something.
    """
    sent = None if begun is None else begun.take()
    if begun is not None and sent is not None:
        deadline = begun.deadline
    peer = GatewayPeer(
        session, gateway, state, deadline, verify=verify, may_restart=is_last, sent=sent
    )
    try:
        _try_strategies(peer)
    finally:
        peer.close()


def _try_strategies(peer: GatewayPeer) -> None:
    output = peer.state.output
    if output.sink.saved_size and not output.written:
        _recover(peer)
    for strategy in VERIFIED if peer.verify else UNVERIFIED:
        if not strategy.may_work(peer):
            continue
        try:
            # One expression: a variable would keep this transfer in memory during the next one.
            (strategy.begin(peer)).finish()
        except UnprovenError as error:
            # Without its traceback, whose frames hold the sink and all bytes in it.
            peer.refusals.add(error.with_traceback(None))
        else:
            peer.refusals.confirm_trustless()
            return
        drop_unverified(peer.state)
    peer.refusals.raise_worst()


def _recover(peer: GatewayPeer) -> None:
    """Verify what an earlier download left, and go on behind the bytes that are right.

    A gateway that refuses the blocks for it leaves the bytes to the next gateway.
    """
    sink = peer.state.output.sink
    verified = position = 0
    cid = peer.target() if peer.verify else None
    if cid is not None and not is_one_block(cid):
        proof = BodyProof(cid)
        try:
            while chunk := run_blocking(sink.read_saved, position, BATCH_SIZE):
                position += len(chunk)
                run_blocking(proof.update, chunk)
                while (need := proof.need) is not None:
                    block = peer.block_for_body(proof, need)
                    run_blocking(proof.feed_block, block)
        except RefusedError as refusal:
            if not proof.position:
                raise peer.refusals.as_told(refusal) from None
        except VerificationError:
            pass  # the bytes that were verified before it are right
        verified = proof.position
    run_blocking(peer.state.output.restart, verified)
    if verified:
        words = "download continues at byte %d"
        peer.state.call.tell("resume", words, verified, cid=str(cid), position=verified)


def drop_unverified(state: ReadState) -> None:
    """Remove the bytes that are not verified; raise an `OSError` if the sink has failed."""
    output = state.output
    # If nothing was written, the bytes that an earlier download saved stay.
    if output.written or output.failure is not None:
        run_blocking(output.restart, output.sink.verified)
