# WARNING: this file is generated from src/holdfast/_async/reads/recovery.py
# by scripts/generate_sync.py. Change the original instead.
"""Going on with a download that was interrupted: its bytes on disk are verified again."""

from holdfast._sync.reads.peer import Peer
from holdfast._sync.reads.refusals import RefusedError
from holdfast._sync.runtime import run_blocking
from holdfast.content.budgets import BATCH_SIZE
from holdfast.content.proof import is_raw
from holdfast.content.unixfs.body import BodyProof
from holdfast.errors import VerificationError


def recover(peer: Peer) -> None:
    """Verify what an earlier download left, and go on behind the bytes that are right.

    A gateway that refuses the blocks for it leaves the bytes to the next gateway.
    """
    sink = peer.state.output.sink
    verified = position = 0
    cid = peer.blocks.target() if peer.verify else None
    if cid is not None and not is_raw(cid):
        proof = BodyProof(cid)
        try:
            while chunk := run_blocking(sink.read_saved, position, BATCH_SIZE):
                position += len(chunk)
                run_blocking(proof.update, chunk)
                while (need := proof.need) is not None:
                    block = peer.blocks.for_body(proof, need)
                    run_blocking(proof.feed_block, block)
        except RefusedError as refusal:
            if not proof.position:
                raise peer.refusals.as_told(refusal) from None
        except VerificationError:
            pass  # the bytes that were verified before it are right
        verified = proof.position
    run_blocking(peer.state.output.restart, verified)
