# WARNING: this file is generated from src/holdfast/_async/reads/strategies/body.py
# by scripts/generate_sync.py. Change the original instead.
"""The plain body, and the few blocks that say how it is cut into pieces.

A file that is one raw block needs none: the hash of the body is enough.
"""

from functools import partial
from typing import Any

from holdfast._sync.reads.batches import in_batches
from holdfast._sync.reads.peer import GatewayPeer
from holdfast._sync.reads.refusals import RefusedError
from holdfast._sync.reads.strategies.interface import Transfer
from holdfast._sync.reads.streams import Stream, Verified, closing_on_error, flat
from holdfast._sync.runtime import Worker, run_blocking
from holdfast.content.codecs import is_one_block
from holdfast.content.proof import block_proof
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.body_parts import BodyCutter, BodyPart
from holdfast.content.unixfs.layouts import LayoutProof
from holdfast.content.unixfs.leaf_check import is_leaf
from holdfast.errors import NetworkError
from holdfast.files.background import HASH_THREADS, Turns
from holdfast.protocol.gateway import PARTIAL
from holdfast.protocol.http import Reply


class Body:
    """Ask for the plain content, and verify it piece by piece with blocks of the file."""

    def may_work(self, peer: GatewayPeer) -> bool:
        """Return whether the gateway serves plain content, or only the size is wanted.

        For the size, the blocks of the file are enough.
        """
        return not peer.refusals.is_trustless or peer.state.stop == 0

    def begin(self, peer: GatewayPeer) -> Transfer:
        """Request the plain content that is still missing."""
        if not peer.state.is_fresh:
            return _begin_part(peer)
        response = peer.open_plain()
        with closing_on_error(response):
            cid = peer.target()
            if is_one_block(cid):
                proof = block_proof(peer.state.reference, cid)
                return Stream(peer, proof, response).begin()
            length = Reply(response.status, response.headers).length
            proof = BodyProof(cid, length=length)
            return BodyStream(peer, proof, response).begin()


def _begin_part(peer: GatewayPeer) -> Transfer:
    """Ask for a range of the body, or for the rest of it."""
    proof = _part_proof(peer)
    if proof.is_complete:
        return Nothing(peer, proof)
    start = proof.position
    stop = None if peer.state.stop is None else proof.end
    response = peer.open_plain(start, stop)
    with closing_on_error(response):
        reply = Reply(response.status, response.headers)
        # A server without support for ranges sends more than was requested, before and after it.
        skip, most = peer.gateway.skipped(reply, start), proof.end - start
        batches = in_batches(response, skip=skip, most=most)
        return BodyStream(peer, proof, response, batches).begin()


def _part_proof(peer: GatewayPeer) -> BodyProof:
    """Return the proof for a part of the body, fed with the blocks at its two ends."""
    state = peer.state
    cid = peer.target()
    if is_one_block(cid):
        raise RefusedError(f"{cid} is one block, and can only be verified whole", cid=str(cid))
    proof = BodyProof(cid, state.position, state.stop)
    while (need := proof.need) is not None:
        proof.feed_block(peer.block(need))
        state.learn_size(proof.size)
    while (need := proof.need_at_end) is not None:
        proof.feed_end(peer.block(need))
    return proof


class Nothing:
    """A part of a file that is complete before anything is requested."""

    def __init__(self, peer: GatewayPeer, proof: BodyProof) -> None:
        self._state = peer.state
        self._size = proof.size

    def finish(self) -> None:
        """Confirm that all is verified."""
        self._state.output.take([], verified=True)
        self._state.output.report(self._size)
        self._state.learn_size(self._size)

    def close(self) -> None:
        """Do nothing: no reply is open."""


class BodyStream(Stream[BodyProof]):
    """A body that is verified piece by piece, with blocks that are fetched where they are needed.

    Several threads hash its leaves. Then they write what is verified, one after the other, in the
    order of the leaves.
    """

    threads = HASH_THREADS
    _cutter: BodyCutter | None = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._turns: Turns[Verified] = Turns()

    def _prepare(self) -> None:
        """Fetch the root block of a very large body before anything of it is received.

        Without that block the body could only be verified at its end, and it is too large for that.
        """
        state, length, need = self.peer.state, self.reply.length, self.proof.need
        if length is not None and length > state.max_unverified and need is not None:
            try:
                self.peer.block(need)
            except RefusedError:
                raise state.unverified_limit().error from None

    def begin(self) -> Stream[Any]:
        """Receive and verify the beginning; without the root block, begin an import of the body."""
        self._prepare()
        self._receive_first()
        if not self._feed_needed():
            return self._begin_import()
        self._check_begun()
        return self

    def _feed_needed(self) -> bool:
        """Feed the blocks that the beginning needs; return False if the root block is refused."""
        state, proof = self.peer.state, self.proof
        while (need := proof.need) is not None:
            try:
                block = self.peer.block_for_body(proof, need)
            except RefusedError:
                # An import cannot win a race: it verifies nothing before the end.
                if self.peer.is_racing or need != state.found.cid:
                    raise
                return False
            self._pieces += run_blocking(proof.feed_block, block)
            state.learn_size(proof.size)
        state.learn_size(proof.size)
        return True

    def _begin_import(self) -> Stream[LayoutProof]:
        """Import the whole body, from its start, in the known layouts."""
        self.peer.was_imported = True
        held = [bytes(view) for view in self.proof.held()]
        return self.begin_again(LayoutProof(self.peer.target()), held)

    def _see_end(self) -> None:
        super()._see_end()
        if self._failure is not None:
            self.proof.drop_guess()

    def _check_begun(self) -> None:
        """Raise an error if the body was wrong, or broke off before anything was verified."""
        if self._ended:
            self._check_end()
        elif self._failure is not None and not self._pieces:
            raise self._failure

    def _submit(self, chunks: list[bytes], prover: Worker) -> list[Verified]:
        """Have the leaves in `chunks` verified side by side, and written in order."""
        if self._cutter is None:
            self._cutter = BodyCutter(self.proof)
        results: list[Verified] = []
        for parts in self._cutter.cut(chunks):
            results += self._submit_parts(parts, prover)
        return results

    def _submit_rest(self, prover: Worker) -> list[Verified]:
        rest = [] if self._cutter is None else self._cutter.rest()
        return self._submit_parts(rest, prover) if rest else []

    def _submit_parts(self, parts: list[BodyPart], prover: Worker) -> list[Verified]:
        job = self._turns.job(partial(_checked, parts), self._take)
        return flat(prover.submit(job))

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

    def _feed(self, result: Verified, prover: Worker) -> None:
        """Fetch the block that the proof needs, and feed it."""
        if result.need is not None:
            block = self.peer.block_for_body(self.proof, result.need)
            prover.submit(self._verify_block, block)

    def _verify_block(self, block: bytes) -> list[Verified]:
        return [self._written(self.proof.feed_block(block))]

    def _check_end(self) -> None:
        proof, reply = self.proof, self.reply
        if reply.status != PARTIAL:
            self._explain_end()
        if not proof.is_complete and (reply.status == PARTIAL or not reply.is_framed):
            # The body may be incomplete without being wrong: keep it, and request the rest.
            raise NetworkError(f"{self.peer.host} broke off", sent=True)
        proof.finish()

    def _explain_end(self) -> None:
        """Feed the proof the blocks that show why a body ended too early.

        A node that declares other sizes than its children have raises `MalformedError` here.
        """
        while self.proof.ends_too_early() and (need := self.proof.need) is not None:
            try:
                block = self.peer.block(need)
            except RefusedError:
                return
            run_blocking(self.proof.feed_block, block)


def _checked(parts: list[BodyPart]) -> list[tuple[BodyPart, bool]]:
    """Return each part, and whether it was found to be its leaf."""
    return [(part, part.leaf is not None and is_leaf(part.leaf, part.content)) for part in parts]
