"""An archive (CAR) of all blocks of the file, verified block by block."""

from typing import TYPE_CHECKING

from holdfast._async.reads.batches import in_batches
from holdfast._async.reads.peer import AsyncGatewayPeer
from holdfast._async.reads.strategies.interface import AsyncTransfer
from holdfast._async.reads.streams import AsyncStream, Verified, closing_on_error, flat
from holdfast._async.runtime import AsyncWorker
from holdfast.content.unixfs.archive import ArchiveProof
from holdfast.protocol.gateway import CAR_TYPE

if TYPE_CHECKING:
    from holdfast._async.transport import AsyncResponse


class AsyncArchive:
    """Ask for an archive, and walk through the file as its blocks arrive."""

    def may_work(self, peer: AsyncGatewayPeer) -> bool:
        """Return whether an archive can contain what is wanted.

        A raw block can only be verified as a whole, so a part of it has no archive.
        """
        state = peer.state
        may = peer.verify or peer.refusals.is_trustless
        return may and (state.stop is None or not state.is_block)

    async def begin(self, peer: AsyncGatewayPeer) -> AsyncTransfer:
        """Ask for the archive."""
        state = peer.state
        reference, start, stop = state.reference, state.position, state.stop
        proof = ArchiveProof(reference.cid, reference.path, start, stop)
        request = peer.gateway.archive(reference, start, stop)
        response = await peer.open_or_refuse(request)
        async with closing_on_error(response):
            stream = AsyncArchiveStream(peer, proof, response)
            peer.refusals.check_type(stream.reply, CAR_TYPE)
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
