"""One body on its way from a gateway through its proof into a sink."""

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast._async.reads.batches import (
    SMALL_BATCH,
    Proven,
    passed,
    prove,
    prove_block,
    total,
)
from holdfast._async.reads.peer import AsyncPeer, RefusedError
from holdfast._async.runtime import AsyncWorker, AsyncWriter, now, run_blocking
from holdfast.content.blocks import MAX_BLOCK
from holdfast.content.budgets import SizeLimit
from holdfast.content.proof import NoProof, Proof
from holdfast.content.unixfs.archive import ArchiveProof
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.layouts import LayoutProof
from holdfast.errors import NetworkError
from holdfast.protocol.gateway import PARTIAL
from holdfast.protocol.http import Reply

if TYPE_CHECKING:
    from holdfast._async.transport import AsyncResponse


@dataclass
class AsyncTransfer:
    """A body, verified as far as it has come.

    Attributes:
        peer: The gateway that sends it, and what it is for.
        proof: What verifies its bytes.
        limit: How many bytes it may have, where they are verified only at the end.
        pieces: What may go on of its beginning, and is not written yet.
        ended: Whether that was all.
        failure: What ended it too early; what may go on by then is good all the same.
        imported: Whether the plain body is imported anew, for want of its root block.
    """

    peer: AsyncPeer
    proof: Proof
    response: "AsyncResponse | None" = None
    batches: "AsyncIterator[list[bytes]] | None" = None
    limit: SizeLimit | None = None
    pieces: list[Any] = field(default_factory=list)
    ended: bool = False
    failure: NetworkError | None = None
    imported: bool = False
    _received: int = 0
    _progress: int = -1
    _progress_at: float = field(default_factory=now)

    @property
    def total(self) -> int | None:
        """The bytes of the whole file: verified, or else what the gateway says."""
        if self.proof.size is not None or self.response is None or self._is_archive:
            return self.proof.size
        return Reply(self.response.status, self.response.headers).length

    @property
    def _is_archive(self) -> bool:
        return isinstance(self.proof, ArchiveProof)

    async def aclose(self) -> None:
        """Let go of the reply, and of what the proof holds."""
        if isinstance(self.proof, ArchiveProof):
            self.proof.close()
        if self.response is not None:
            await self.response.aclose()

    async def lead(self, *, racing: bool) -> None:
        """Verify the beginning of the body: as much as a block may have, or all.

        In a race (`racing`) a body that is verified only at its end is refused.
        """
        if self._is_archive:
            return  # its proof needs no block besides
        chunks = [] if self.batches is None else await anext(self.batches, [])
        self._receive(chunks)
        await self._absorb(chunks)
        if total(chunks) < MAX_BLOCK:
            await self._see_end()
        while (need := self.proof.need) is not None:
            try:
                block = await self.peer.needed_block(self.proof, need)
            except RefusedError:
                if racing or need != self.peer.reading.cid or not isinstance(self.proof, BodyProof):
                    raise
                # Not even the root: import anew what has come, and all that will. A race cannot
                # be won so, with nothing verified before the end.
                await self._import(self.proof)
            else:
                self.pieces += (await run_blocking(prove_block, self.proof, block)).pieces
                self.peer.reading.learn_size(self.proof.size)
        self.peer.reading.learn_size(self.proof.size)
        if self.ended:
            await self._check_end()
        elif self.failure is not None and not (self.pieces and self.proof.incremental):
            raise self.failure
        elif racing and not self.proof.incremental and not isinstance(self.proof, NoProof):
            raise self.peer.refusal()  # it will be verified at its end: too late for a race

    async def _import(self, proof: BodyProof) -> None:
        """Give up `proof` for one that needs no blocks, and verifies the body at its end."""
        reading = self.peer.reading
        held = [bytes(view) for view in proof.held()]
        self.proof = LayoutProof(reading.target)
        self.imported = True
        self.limit = reading.unverified_limit()
        if self.response is not None:
            self.limit.check(Reply(self.response.status, self.response.headers).length or 0)
        self.limit.check(self._received)
        await self._absorb(held)

    async def _absorb(self, chunks: list[bytes]) -> None:
        if total(chunks) <= SMALL_BATCH:
            self.pieces += passed(self.proof, chunks)
        else:
            self.pieces += await run_blocking(passed, self.proof, chunks)

    async def _see_end(self) -> None:
        """See whether a body that was short has ended, or broken off."""
        try:
            self.ended = self.batches is None or not await anext(self.batches, [])
        except NetworkError as error:
            self.failure = error
            if isinstance(self.proof, BodyProof):
                self.proof.drop_guess()

    async def finish(self) -> None:
        """Write what may go on of the beginning, then stream the rest."""
        reading = self.peer.reading
        try:
            if not self.ended:
                await self._stream_rest()
                reading.confirm()
            elif total(self.pieces) <= SMALL_BATCH:
                reading.take(self.pieces, proven=True)
            else:
                await run_blocking(reading.take, self.pieces, proven=True)
            reading.tell(self.total)
            reading.learn_size(self.proof.size)
        finally:
            await self.aclose()

    async def _stream_rest(self) -> None:
        """Stream the rest of the body.

        While one batch arrives, the one before it is verified and the one before that is written.
        """
        if self.batches is None:
            return
        reading, proof = self.peer.reading, self.proof
        self._progress_at = now()
        async with AsyncWriter() as writer, AsyncWorker() as prover:
            await writer.submit(reading.take, self.pieces, proven=proof.incremental)
            self.pieces = []
            failure = self.failure
            try:
                if failure is None:
                    await self._stream_batches(prover, writer)
            except NetworkError as error:
                failure = error
            # What was verified before a failure is good: the next attempt goes on behind it.
            await self._write(await prover.drain(), prover, writer, go_on=failure is None)
            await writer.drain()
        if isinstance(proof, ArchiveProof) and proof.is_complete and not self.ended:
            return  # no matter how it goes on or has broken off
        if failure is not None:
            raise failure
        await self._check_end()

    async def _stream_batches(self, prover: AsyncWorker, writer: AsyncWriter) -> None:
        if self.batches is None:
            return
        async for chunks in self.batches:
            if isinstance(self.proof, ArchiveProof) and self.proof.is_complete:
                return  # it goes on behind the file, for ever perhaps
            self._receive(chunks)
            results = await prover.submit(prove, self.proof, chunks)
            if self._is_archive:
                # Nothing waits in line: an archive may grow, and must make progress.
                results += await prover.drain()
            await self._write(results, prover, writer)
            self.peer.reading.tell(self.total)
            self._check_progress()
        self.ended = True

    async def _write(
        self, results: list[Proven], prover: AsyncWorker, writer: AsyncWriter, *, go_on: bool = True
    ) -> None:
        """Write what is verified, and feed the proof the blocks that it needs.

        Without `go_on`, no block is fetched, and nothing is written but the `results`.
        """
        reading, proof = self.peer.reading, self.proof
        pending = deque(results)
        while pending:
            result = pending.popleft()
            reading.learn_size(proof.size)
            await writer.submit(reading.take, result.pieces, proven=proof.incremental)
            if result.progress is not None and result.progress > self._progress:
                self._progress, self._progress_at = result.progress, now()
            if pending or not go_on or (result.need is None and not result.has_more):
                continue
            # What is in line comes first: where a block is needed, it could only take note.
            pending += await prover.drain()
            if pending:
                continue
            self.peer.check_time()
            if result.need is None:
                await prover.submit(prove, proof, [])
                self._progress_at = now()
                reading.tell(self.total)
            else:
                block = await self.peer.needed_block(proof, result.need)
                await prover.submit(prove_block, proof, block)
            pending += await prover.drain()

    def _receive(self, chunks: list[bytes]) -> None:
        """Count the next bytes of the body; raise an error where they are too many."""
        self.peer.check_time()
        self._received += total(chunks)
        if self.limit is not None:
            self.limit.check(self._received)

    def _check_progress(self) -> None:
        """Raise an error if an archive has brought nothing that is wanted for too long."""
        if isinstance(self.proof, ArchiveProof) and not self.proof.is_complete:
            self.peer.check_progress(self._progress_at)

    async def _check_end(self) -> None:
        """Raise an error where the body has ended too early, or was not what the CID names."""
        proof, response = self.proof, self.response
        await self.peer.explain_end(proof, response)
        if isinstance(proof, BodyProof) and not proof.is_complete and response is not None:
            reply = Reply(response.status, response.headers)
            if reply.status == PARTIAL or not reply.is_framed:
                # It did not claim that this was all: what came is good, and the rest is asked for.
                raise NetworkError(f"{self.peer.gateway.peer} broke off", sent=True)
        proof.finish()
