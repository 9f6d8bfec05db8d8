# WARNING: this file is generated from src/holdfast/_async/attempt.py
# by scripts/generate_sync.py. Change the original instead.
"""One gateway's try at a reading. There are three ways to prove what it sends.

::

    BLOCKS     the plain body, and beside it the few blocks that tell how it is cut
    ARCHIVE    a CAR, which brings all blocks
    LAYOUTS    the plain body alone, imported anew in all known ways

What is proven stays in the reading, also when the try fails: the next one goes on behind it.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast._sync.batches import (
    BATCH_SIZE,
    SMALL_BATCH,
    Proven,
    in_batches,
    passed,
    prove,
    prove_block,
    total,
)
from holdfast._sync.peer import Peer, RefusedError
from holdfast._sync.reading import Reading
from holdfast._sync.runtime import Worker, Writer, run_blocking
from holdfast._sync.session import Session
from holdfast.content.blocks import MAX_BLOCK
from holdfast.content.cid import CID
from holdfast.content.proof import NoProof, Proof, block_proof, is_raw
from holdfast.content.unixfs.archive import ArchiveProof
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.layouts import LayoutProof
from holdfast.content.unixfs.walks import PathWalk, check_codec
from holdfast.errors import NetworkError, UnprovenError, VerificationError
from holdfast.events import Deadline
from holdfast.protocol.gateway import CAR_TYPE, PARTIAL, Gateway
from holdfast.protocol.http import Reply

if TYPE_CHECKING:
    from holdfast._sync.transport import Response


class Way(enum.Enum):
    """How a gateway's bytes are proven."""

    PLAIN = enum.auto()  # not at all: verify=False
    BLOCKS = enum.auto()
    ARCHIVE = enum.auto()
    LAYOUTS = enum.auto()


PROVEN_WAYS = (Way.BLOCKS, Way.ARCHIVE, Way.LAYOUTS)


@dataclass
class Transfer:
    """One body on its way, proven as far as it has come.

    Attributes:
        attempt: Whose it is.
        proof: What its bytes have to pass.
        pieces: What has passed of its beginning, to be written yet.
        ended: Whether that was all.
        failure: What ended it too early; what has passed by then is good all the same.
    """

    attempt: "Attempt"
    proof: Proof
    response: "Response | None" = None
    batches: "Iterator[list[bytes]] | None" = None
    pieces: list[Any] = field(default_factory=list)
    ended: bool = False
    failure: NetworkError | None = None

    @property
    def total(self) -> int | None:
        """The bytes of the whole file: proven, or else what the gateway says."""
        if self.proof.size is not None or self.response is None:
            return self.proof.size
        return Reply(self.response.status, self.response.headers).length

    def close(self) -> None:
        """Let go of the reply."""
        if self.response is not None:
            self.response.close()


class Attempt:
    """Fills a reading from one gateway; in a race with others, its beginning at first."""

    def __init__(
        self,
        session: Session,
        gateway: Gateway,
        reading: Reading,
        deadline: Deadline,
        *,
        racing: bool = False,
    ) -> None:
        self._peer = Peer(session, gateway, reading, deadline)
        self._racing = racing
        self._imported = False
        self.gateway = gateway

    @property
    def reading(self) -> Reading:
        """What it is to fill."""
        return self._peer.reading

    def take_over(self, reading: Reading) -> None:
        """It has won the race: what it has learnt and what it still gets is for `reading`."""
        own, self._peer.reading = self.reading, reading
        reading.cid = own.cid
        reading.media_type = own.media_type
        reading.blocks.put_all(own.blocks)

    def fill(self, *, verify: bool, may_restart: bool = True) -> None:
        """Get all that is still to come, in one way or another.

        What is proven is given up for a way that must begin anew only if it `may_restart`.
        """
        reading = self.reading
        if reading.sink.kept and not reading.written:
            self._recover(verify=verify)
        obstacle: UnprovenError | None = None
        for way in PROVEN_WAYS if verify else (Way.PLAIN,):
            if not self._is_open(way, may_restart=may_restart):
                continue
            try:
                self.finish(self.begin(way))
            except UnprovenError as error:
                if obstacle is None or isinstance(obstacle, RefusedError):
                    obstacle = error
            else:
                return
            self.set_back()
        if obstacle is not None:
            raise self._peer.told(obstacle)

    def _is_open(self, way: Way, *, may_restart: bool) -> bool:
        """Whether `way` may lead somewhere."""
        reading = self.reading
        if way is Way.ARCHIVE:
            # A part of one block cannot be proven but by all of it: who wants it gets the whole.
            return reading.stop is None or reading.cid is None or not is_raw(reading.cid)
        if way is Way.LAYOUTS:
            may = reading.is_tree and not self._imported
            return may and (may_restart or not reading.written)
        return True

    def begin(self, way: Way) -> Transfer:
        """Ask for the body, and prove its beginning; of a small one, all."""
        reading, gateway = self.reading, self.gateway
        reference, position = reading.reference, reading.position
        proof: Proof | None = None
        skipped_to: int | None = None
        if way is Way.ARCHIVE:
            proof = ArchiveProof(reference.cid, reference.path, position, reading.stop)
            request = gateway.archive(reference, position, reading.stop)
            response = self._peer.open_or_refuse(request)
        elif way is Way.BLOCKS and not reading.is_fresh:
            proof = self._range_proof()
            if proof.is_complete:
                return Transfer(self, proof, ended=True)  # there is nothing to ask for
            skipped_to = proof.position
            stop = None if reading.stop is None else proof.end
            response = self._peer.open(gateway.content(reference, skipped_to, stop))
        else:
            response = self._peer.open(gateway.content(reference))
        try:
            reply = Reply(response.status, response.headers)
            if way is Way.ARCHIVE:
                self._peer.check_type(reply, CAR_TYPE)
            else:
                reading.media_type = reply.headers.get("content-type", "")
            proof = proof or self._fresh_proof(way, reply.length)
            if reading.written and not proof.incremental:
                run_blocking(reading.restart)
            skip, most = 0, None
            if isinstance(proof, BodyProof) and skipped_to is not None:
                skip = gateway.skipped(reply, skipped_to)
                most = proof.end - skipped_to  # a server that knows no ranges sends more
            transfer = Transfer(self, proof, response, in_batches(response, skip, most))
            self._lead(transfer)
        except BaseException:
            response.close()
            raise
        return transfer

    def finish(self, transfer: Transfer) -> None:
        """Write what has passed of the body, and let the rest pass."""
        reading, proof = self.reading, transfer.proof
        try:
            if not transfer.ended:
                self._pour(transfer)
                self._peer.explain_end(transfer.proof, transfer.response)
                self._check_end(transfer)
                reading.confirm()
            elif total(transfer.pieces) <= SMALL_BATCH:
                reading.take(transfer.pieces, proven=True)
            else:
                run_blocking(reading.take, transfer.pieces, proven=True)
            reading.tell(transfer.total)
            reading.size = proof.size
        finally:
            transfer.close()

    def set_back(self) -> None:
        """Forget what is written and not proven; an `OSError` where the sink has failed."""
        reading = self.reading
        if reading.written or reading.failure is not None:  # else what was kept stays kept
            run_blocking(reading.restart, reading.sink.proven)

    # Proofs

    def _fresh_proof(self, way: Way, length: int | None) -> Proof:
        """The proof for a plain body from its first byte on."""
        if way is Way.PLAIN:
            return NoProof()
        cid = self._target()
        if is_raw(cid):
            return block_proof(self.reading.reference, cid)
        return LayoutProof(cid) if way is Way.LAYOUTS else BodyProof(cid, length=length)

    def _range_proof(self) -> BodyProof:
        """The proof for a part of the body, with the blocks that tell where its pieces begin."""
        cid = self._target()
        if is_raw(cid):
            raise RefusedError(f"{cid} is one block, and can only be proven whole", cid=str(cid))
        proof = BodyProof(cid, self.reading.position, self.reading.stop)
        while (need := proof.need) is not None:
            proof.feed_block(self._peer.block(need))
        while (need := proof.need_at_end) is not None:
            proof.feed_end(self._peer.block(need))
        return proof

    def _target(self) -> CID:
        """The CID that the reference leads to, found through proven directories."""
        reading = self.reading
        if reading.cid is not None:
            return reading.cid
        walk = PathWalk(reading.reference.cid, reading.reference.path)
        while (need := walk.need) is not None:
            walk.feed(self._peer.block(need))
        reading.cid = walk.end()
        check_codec(reading.cid)
        return reading.cid

    def _recover(self, *, verify: bool) -> None:
        """Prove anew what an earlier download left; go on behind what is proven of it.

        A gateway that refuses the blocks for it leaves it to the next one.
        """
        sink = self.reading.sink
        proven = position = 0
        cid = self._target() if verify else None
        if cid is not None and not is_raw(cid):
            proof = BodyProof(cid)
            try:
                while chunk := run_blocking(sink.read_kept, position, BATCH_SIZE):
                    position += len(chunk)
                    run_blocking(proof.update, chunk)
                    while (need := proof.need) is not None:
                        block = self._peer.needed_block(proof, need)
                        run_blocking(proof.feed_block, block)
            except RefusedError as refusal:
                if not proof.position:
                    raise self._peer.told(refusal) from None
            except VerificationError:
                pass  # what is proven up to there counts
            proven = proof.position
        run_blocking(self.reading.restart, proven)

    # Bodies

    def _lead(self, transfer: Transfer) -> None:
        """Prove the beginning of the body: as much as a block may have, or all."""
        chunks = [] if transfer.batches is None else next(transfer.batches, [])
        _absorb(transfer, chunks)
        if total(chunks) < MAX_BLOCK:
            self._see_end(transfer)
        while (need := transfer.proof.need) is not None:
            try:
                block = self._peer.needed_block(transfer.proof, need)
            except RefusedError:
                proof = transfer.proof
                if self._racing or need != self.reading.cid or not isinstance(proof, BodyProof):
                    raise
                # Not even the root: import anew what has come, and all that will. A race cannot
                # be won so, with nothing proven before the end.
                held = [bytes(view) for view in proof.held()]
                transfer.proof = LayoutProof(need)
                self._imported = True
                _absorb(transfer, held)
            else:
                transfer.pieces += run_blocking(transfer.proof.feed_block, block)
        proof = transfer.proof
        if transfer.ended:
            self._peer.explain_end(transfer.proof, transfer.response)
            self._check_end(transfer)
        elif transfer.failure is not None and not (transfer.pieces and proof.incremental):
            raise transfer.failure
        elif self._racing and not proof.incremental and not isinstance(proof, NoProof):
            raise self._peer.refusal()  # it will be proven at its end: too late for a race

    def _see_end(self, transfer: Transfer) -> None:
        """See whether a body that was short has ended, or broken off."""
        try:
            transfer.ended = transfer.batches is None or not next(transfer.batches, [])
        except NetworkError as error:
            transfer.failure = error
            if isinstance(transfer.proof, BodyProof):
                transfer.proof.drop_guess()

    def _check_end(self, transfer: Transfer) -> None:
        """An error where the body has ended too early, or was not what the CID names."""
        proof, response = transfer.proof, transfer.response
        if isinstance(proof, BodyProof) and not proof.is_complete and response is not None:
            reply = Reply(response.status, response.headers)
            if reply.status == PARTIAL or not reply.is_framed:
                # It did not claim that this was all: what came is good, and the rest is asked for.
                raise NetworkError(f"{self.gateway.peer} broke off", sent=True)
        proof.finish()

    def _pour(self, transfer: Transfer) -> None:
        """Let the rest of the body pass.

        While one batch comes, the one before it is proven and the one before that is written.
        """
        reading, proof = self.reading, transfer.proof
        if transfer.batches is None:
            return
        with Writer() as writer, Worker() as prover:
            writer.submit(reading.take, transfer.pieces, proven=proof.incremental)
            transfer.pieces = []
            if transfer.failure is not None:
                writer.drain()
                raise transfer.failure
            for chunks in transfer.batches:
                proven = prover.submit(prove, proof, chunks)
                self._write(proven, transfer, prover, writer)
                reading.tell(transfer.total)
            self._write(prover.drain(), transfer, prover, writer)
            writer.drain()

    def _write(
        self,
        proven: list[Proven],
        transfer: Transfer,
        prover: Worker,
        writer: Writer,
    ) -> None:
        """Write what is proven, and feed the proof the blocks that it needs."""
        proof = transfer.proof
        while proven:
            pieces, need = proven.pop(0)
            writer.submit(self.reading.take, pieces, proven=proof.incremental)
            if need is not None:
                block = self._peer.needed_block(proof, need)
                # Nobody else looks at the proof from here on; of what came since the block was
                # needed it could only take note.
                prover.drain()
                prover.submit(prove_block, proof, block)
                proven = prover.drain()


def _absorb(transfer: Transfer, chunks: list[bytes]) -> None:
    if total(chunks) <= SMALL_BATCH:
        transfer.pieces += passed(transfer.proof, chunks)
    else:
        transfer.pieces += run_blocking(passed, transfer.proof, chunks)
