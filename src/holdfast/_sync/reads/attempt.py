# WARNING: this file is generated from src/holdfast/_async/reads/attempt.py
# by scripts/generate_sync.py. Change the original instead.
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
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast._sync.reads.batches import ARCHIVE_BATCH, BATCH_SIZE, in_batches, walk_on
from holdfast._sync.reads.peer import BLOCKS_AT_ONCE, Peer, RefusedError
from holdfast._sync.reads.state import ReadState
from holdfast._sync.reads.transfer import Transfer
from holdfast._sync.runtime import run_blocking
from holdfast._sync.session import Session
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
    from holdfast._sync.transport import Response


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


@contextmanager
def _closing_on_error(response: "Response") -> Iterator[None]:
    """Close `response` if what is done within fails."""
    try:
        yield
    except BaseException:
        response.close()
        raise


class Attempt:
    """Fills a reading from one gateway; in a race with others, its beginning at first."""

    def __init__(
        self,
        session: Session,
        gateway: Gateway,
        reading: ReadState,
        deadline: Deadline,
        *,
        verify: bool,
        racing: bool = False,
    ) -> None:
        self._peer = Peer(session, gateway, reading, deadline)
        self._verify = verify
        self._racing = racing
        self._imported = False
        self.gateway = gateway

    @property
    def reading(self) -> ReadState:
        """What it is to fill."""
        return self._peer.reading

    def leads(self, transfer: Transfer) -> bool:
        """Whether `transfer` is its own."""
        return transfer.peer is self._peer

    def take_over(self, reading: ReadState) -> None:
        """Go on for `reading`, after a race that this attempt has won."""
        own, self._peer.reading = self.reading, reading
        reading.cid = own.cid
        reading.size = own.size
        reading.media_type = own.media_type
        reading.blocks.put_all(own.blocks)

    def fill(self, *, may_restart: bool = True) -> None:
        """Get all that is still to come, by one strategy or another.

        What is verified is given up for a strategy that must begin anew only if it `may_restart`.
        """
        reading = self.reading
        if reading.sink.kept and not reading.written:
            self._recover()
        obstacle: UnprovenError | None = None
        for strategy in VERIFIED if self._verify else UNVERIFIED:
            if not self._may_work(strategy, may_restart=may_restart):
                continue
            try:
                if strategy is Strategy.WALK:
                    self._walk()
                else:
                    # In one expression: a variable would keep its memory for the next strategy.
                    (self.begin(strategy)).finish()
            except UnprovenError as error:
                # Without its frames, which hold the sink and all that is in it.
                latest = self._peer.as_refusal(error.with_traceback(None))
                if obstacle is None or self._peer.tells_less(obstacle, latest):
                    obstacle = latest
            else:
                self._peer.confirm_trustless()
                return
            self.set_back()
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

    def begin(self, strategy: Strategy) -> Transfer:
        """Ask for the body, and verify its beginning; of a small one, all."""
        if strategy is Strategy.ARCHIVE:
            return self._begin_archive()
        if strategy is Strategy.BLOCK:
            return self._begin_block()
        if strategy is Strategy.BODY and not self.reading.is_fresh:
            return self._begin_part()
        response = self._peer.open_plain(self.gateway.content(self.reading.reference))
        with _closing_on_error(response):
            reply = Reply(response.status, response.headers)
            self.reading.media_type = reply.headers.get("content-type", "")
            proof = self._whole_proof(strategy, reply.length)
            transfer = Transfer(self._peer, proof, response, in_batches(response))
            self._lead(transfer, reply)
            return transfer

    def _begin_archive(self) -> Transfer:
        reading = self.reading
        reference, start, stop = reading.reference, reading.position, reading.stop
        proof = ArchiveProof(reference.cid, reference.path, start, stop)
        request = self.gateway.archive(reference, start, stop)
        response = self._peer.open_or_refuse(request)
        with _closing_on_error(response):
            self._peer.check_type(Reply(response.status, response.headers), CAR_TYPE)
            batches = in_batches(response, first=0, size=ARCHIVE_BATCH)
            return Transfer(self._peer, proof, response, batches)

    def _begin_block(self) -> Transfer:
        cid = self.reading.target
        response = self._peer.open_or_refuse(self.gateway.block(cid))
        with _closing_on_error(response):
            reply = Reply(response.status, response.headers)
            self._peer.check_type(reply, RAW_TYPE)
            may_verify = self._verify or cid.is_provable
            proof = block_proof(self.reading.reference, cid) if may_verify else NoProof()
            transfer = Transfer(self._peer, proof, response, in_batches(response))
            self._lead(transfer, reply)
            return transfer

    def _begin_part(self) -> Transfer:
        proof = self._part_proof()
        if proof.is_complete:
            return Transfer(self._peer, proof, ended=True)  # there is nothing to ask for
        start = proof.position
        stop = None if self.reading.stop is None else proof.end
        request = self.gateway.content(self.reading.reference, start, stop)
        response = self._peer.open_plain(request)
        with _closing_on_error(response):
            reply = Reply(response.status, response.headers)
            self.reading.media_type = reply.headers.get("content-type", "")
            # A server that knows no ranges sends more than was asked for, before and behind.
            skip, most = self.gateway.skipped(reply, start), proof.end - start
            batches = in_batches(response, skip=skip, most=most)
            transfer = Transfer(self._peer, proof, response, batches)
            self._lead(transfer, reply)
            return transfer

    def _lead(self, transfer: Transfer, reply: Reply) -> None:
        if not transfer.proof.incremental:
            if self.reading.written:
                run_blocking(self.reading.restart)
            self._limit(transfer, reply.length)
        elif reply.length is not None and reply.length > self.reading.max_unverified:
            self._require_root(transfer.proof)
        try:
            transfer.lead(racing=self._racing)
        finally:
            self._imported = self._imported or transfer.imported

    def _require_root(self, proof: Proof) -> None:
        """Fetch the block that `proof` needs first, before anything of a very large body is read.

        Without that block the body could only be verified at its end, and it is too large for that.
        """
        if proof.need is not None:
            try:
                self._peer.block(proof.need)
            except RefusedError:
                raise self.reading.unverified_limit().error from None

    def _limit(self, transfer: Transfer, length: int | None) -> None:
        """Limit a body that is verified only at its end, or not at all.

        A `length` that is beyond the limit is refused at once; a smaller one changes nothing. Where
        nothing is to be verified, the gateway is taken at its word, also for the length.
        """
        if length is not None:
            self.reading.sink.expect(length)
        if length is None or not isinstance(transfer.proof, NoProof):
            transfer.limit = self.reading.unverified_limit()
            transfer.limit.check(length or 0)

    def set_back(self) -> None:
        """Forget what is written and not verified; an `OSError` where the sink has failed."""
        reading = self.reading
        if reading.written or reading.failure is not None:  # else what was kept stays kept
            run_blocking(reading.restart, reading.sink.proven)

    def _walk(self) -> None:
        """Fetch the file block after block, several at a time."""
        reading = self.reading
        walk = FileWalk(self._target(), reading.position, reading.stop)
        while (need := walk.need) is not None:
            self._peer.check_time()
            block = self._peer.block(need, walk.needed_next(BLOCKS_AT_ONCE - 1))
            pieces = run_blocking(walk_on, walk, block, reading.blocks)
            reading.learn_size(walk.size)
            run_blocking(reading.take, pieces, proven=True)
            reading.tell(walk.size)
        reading.confirm()
        reading.tell(walk.size)

    # Proofs

    def _whole_proof(self, strategy: Strategy, length: int | None) -> Proof:
        """Return the proof for a plain body from its first byte on."""
        if strategy is Strategy.PLAIN:
            return NoProof()
        cid = self._target()
        if is_raw(cid):
            return block_proof(self.reading.reference, cid)
        return LayoutProof(cid) if strategy is Strategy.LAYOUTS else BodyProof(cid, length=length)

    def _part_proof(self) -> BodyProof:
        """Return the proof for a part of the body, fed with the blocks at its two ends."""
        cid = self._target()
        if is_raw(cid):
            raise RefusedError(f"{cid} is one block, and can only be proven whole", cid=str(cid))
        proof = BodyProof(cid, self.reading.position, self.reading.stop)
        while (need := proof.need) is not None:
            proof.feed_block(self._peer.block(need))
            self.reading.learn_size(proof.size)
        while (need := proof.need_at_end) is not None:
            proof.feed_end(self._peer.block(need))
        return proof

    def _target(self) -> CID:
        """Return the CID that the reference leads to, found through verified directories."""
        reading = self.reading
        if reading.cid is not None:
            return reading.cid
        walk = PathWalk(reading.reference.cid, reading.reference.path)
        while (need := walk.need) is not None:
            walk.feed(self._peer.block(need))
        reading.cid = walk.end()
        check_codec(reading.cid)
        return reading.cid

    def _recover(self) -> None:
        """Verify again what an earlier download left; go on behind what is right of it.

        A gateway that refuses the blocks for it leaves it to the next one.
        """
        sink = self.reading.sink
        proven = position = 0
        cid = self._target() if self._verify else None
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
                pass  # what is verified up to there counts
            proven = proof.position
        run_blocking(self.reading.restart, proven)
