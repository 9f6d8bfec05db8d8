"""Going on with a download that was interrupted: its bytes on disk are verified again."""

from holdfast._async.reads.peer import AsyncPeer
from holdfast._async.reads.refusals import RefusedError
from holdfast._async.runtime import run_blocking
from holdfast.content.budgets import BATCH_SIZE
from holdfast.content.proof import is_raw
from holdfast.content.unixfs.body import BodyProof
from holdfast.errors import VerificationError


async def recover(peer: AsyncPeer) -> None:
    """Verify what an earlier download left, and go on behind the bytes that are right.

    A gateway that refuses the blocks for it leaves the bytes to the next gateway.
    """
    sink = peer.state.output.sink
    verified = position = 0
    cid = await peer.blocks.target() if peer.verify else None
    if cid is not None and not is_raw(cid):
        proof = BodyProof(cid)
        try:
            while chunk := await run_blocking(sink.read_saved, position, BATCH_SIZE):
                position += len(chunk)
                await run_blocking(proof.update, chunk)
                while (need := proof.need) is not None:
                    block = await peer.blocks.for_body(proof, need)
                    await run_blocking(proof.feed_block, block)
        except RefusedError as refusal:
            if not proof.position:
                raise peer.refusals.as_told(refusal) from None
        except VerificationError:
            pass  # the bytes that were verified before it are right
        verified = proof.position
    await run_blocking(peer.state.output.restart, verified)
