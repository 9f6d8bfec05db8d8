"""Stream one body: receive it from a gateway, verify it with a proof, write it to the output.

::

    begin     receive the first batch, which is a whole block or all of the body, and verify it
    finish    write its verified bytes, then stream the rest:
              while one batch arrives, those before it are verified and written

The stream in this file is for a proof that verifies all bytes at the end. The strategies that get
verified bytes earlier extend it.
"""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from holdfast._async.reads.state import AsyncPeer
from holdfast._async.runtime import AsyncWorker, AsyncWriter, compute, now, run_blocking
from holdfast.content.blocks import MAX_BLOCK
from holdfast.content.budgets import BATCH_SIZE, LINGER, SMALL_BATCH
from holdfast.content.cid import CID
from holdfast.content.proof import Proof
from holdfast.errors import NetworkError
from holdfast.protocol.http import Reply

if TYPE_CHECKING:
    from holdfast._async.transport import AsyncResponse


FREED_BLOCK: Final = 8 << 20  # twice as much is kept then, more than all batches of one body


async def in_batches(
    response: "AsyncResponse", *, skip: int = 0, most: int | None = None, first: int = MAX_BLOCK
) -> "AsyncIterator[list[bytes]]":
    """Yield the body in batches, without its first `skip` bytes, and `most` bytes in all.

    The first batch has `first` bytes, unless the body is smaller. Each of the others has
    `BATCH_SIZE` bytes, or those of one second. If the body breaks off, the received bytes are
    yielded before the error is raised.
    """
    limit, patience = first, float("inf")
    if not first:
        limit, patience = BATCH_SIZE, LINGER
    batch: list[bytes] = []
    size = 0
    begun = now()
    failure: NetworkError | None = None
    try:
        async for chunk in response.chunks():
            if skip >= len(chunk):
                skip -= len(chunk)
                continue
            part = chunk[skip : None if most is None else skip + most]
            skip = 0
            most = None if most is None else most - len(part)
            _append(batch, part)
            size += len(part)
            if most == 0:
                break
            if size >= limit or now() - begun >= patience:
                yield batch
                batch, size, limit, patience, begun = [], 0, BATCH_SIZE, LINGER, now()
    except NetworkError as error:
        failure = error
    if batch:
        yield batch
    if failure is not None:
        raise failure


def _append(batch: list[Any], chunk: bytes) -> None:
    """Add `chunk`. Small ones are joined: a million of them would take more memory than bytes."""
    if len(chunk) >= SMALL_BATCH:
        batch.append(chunk)
    elif batch and isinstance(batch[-1], bytearray) and len(batch[-1]) < SMALL_BATCH:
        batch[-1] += chunk
    else:
        batch.append(bytearray(chunk))


def total(pieces: list[Any]) -> int:
    """Return the number of bytes in all `pieces`."""
    return sum(map(len, pieces))


def reuse_freed_memory() -> None:
    """Let the memory of one batch be used for the next ones, before a large body is received.

    The C library of Linux gives freed memory back to the system, and gets it again page by page, if
    it is more than twice the largest block that was freed before. So free a large block, which was
    never written to, once.
    """
    bytearray(FREED_BLOCK)


P = TypeVar("P", bound=Proof)
Q = TypeVar("Q", bound=Proof)


class Verified(NamedTuple):
    """The result of feeding a proof.

    Attributes:
        pieces: The bytes that may be written.
        need: The block without which no more bytes can be verified.
        has_more: Whether the proof can return more bytes without further input.
        progress: For an archive, a number that grows with each needed byte.
    """

    pieces: list[Any]
    need: CID | None = None
    has_more: bool = False
    progress: int | None = None


def flat(results: list[list[Verified]]) -> list[Verified]:
    """Return the results of several jobs in one list."""
    return [*chain.from_iterable(results)]


@asynccontextmanager
async def closing_on_error(response: "AsyncResponse") -> AsyncIterator[None]:
    """Close `response` if the block fails."""
    try:
        yield
    except BaseException:
        await response.aclose()
        raise


class AsyncStream(Generic[P]):
    """A body that is verified as a whole, at its end.

    Attributes:
        peer: The gateway that sends it.
        proof: Verifies its bytes.
        reply: The head of the gateway's reply.
        budget: Limits its bytes and its time.
        threads: How many threads verify it.
    """

    threads: ClassVar[int] = 1

    def __init__(
        self,
        peer: AsyncPeer,
        proof: P,
        response: "AsyncResponse",
        batches: "AsyncIterator[list[bytes]] | None" = None,
    ) -> None:
        self.peer = peer
        self.proof = proof
        self.reply = Reply(response.status, response.headers)
        self.budget = peer.new_budget()
        self._response = response
        self._batches = in_batches(response) if batches is None else batches
        self._pieces: list[Any] = []  # bytes of the beginning that may be written
        self._ended = False
        self._failure: NetworkError | None = None  # why the body broke off

    @property
    def total(self) -> int | None:
        """The size of the whole file: verified, or else as the gateway reports it."""
        return self.reply.length if self.proof.size is None else self.proof.size

    async def begin(self) -> "AsyncStream[Any]":
        """Receive and verify the beginning of the body: as much as a block may have, or all.

        Return the stream to finish.
        """
        await self._prepare()
        await self._receive_first()
        await self._check_begun()
        return self

    async def begin_again(self, proof: Q, received: list[bytes]) -> "AsyncStream[Q]":
        """Continue with another `proof`, which verifies the body at its end.

        `received` are the bytes received so far. None of them may be verified yet.
        """
        stream = AsyncStream(self.peer, proof, self._response, self._batches)
        stream.budget = self.budget
        stream._ended, stream._failure = self._ended, self._failure
        stream._set_limit()
        await stream._absorb(received)
        await stream._check_begun()
        return stream

    async def finish(self) -> None:
        """Write the verified bytes of the beginning, then stream the rest."""
        output = self.peer.state.output
        async with aclosing(self):
            if not self._ended:
                await self._stream_rest()
                output.confirm()
            elif total(self._pieces) <= SMALL_BATCH:
                output.take(self._pieces, verified=True)
            else:
                await run_blocking(output.take, self._pieces, verified=True)
            output.report(self.total)
            self.peer.state.learn_size(self.proof.size)

    async def aclose(self) -> None:
        """Close the reply."""
        await self._response.aclose()

    # The beginning

    async def _prepare(self) -> None:
        """Announce the size to the sink and set the limit, before the body is received."""
        state = self.peer.state
        if state.output.written:
            await run_blocking(state.output.restart)
        if self.reply.length is not None:
            state.output.sink.expect(self.reply.length, is_claim=self.peer.verify)
        self._set_limit()

    def _set_limit(self) -> None:
        self.budget.set_limit(self.peer.state.unverified_limit(), self.reply.length)

    async def _receive_first(self) -> None:
        chunks: list[bytes] = await anext(self._batches, [])
        self.budget.receive(total(chunks))
        await self._absorb(chunks)
        if total(chunks) < MAX_BLOCK:
            await self._see_end()

    async def _absorb(self, chunks: list[bytes]) -> None:
        """Feed bytes of the beginning to the proof."""
        self._pieces += await compute(total(chunks), self.proof.update_all, chunks)

    async def _see_end(self) -> None:
        """Find out whether a short body is complete or broke off."""
        try:
            self._ended = not await anext(self._batches, [])
        except NetworkError as error:
            self._failure = error

    async def _check_begun(self) -> None:
        """Raise an error if the body has ended and was wrong, or cannot continue."""
        if self._ended:
            await self._check_end()
        elif self._failure is not None:
            raise self._failure
        elif self.peer.is_racing:
            self._check_race()

    def _check_race(self) -> None:
        """Raise RefusedError: this body is verified at its end, which is too late for a race."""
        raise self.peer.refusal()

    # The rest

    async def _stream_rest(self) -> None:
        state = self.peer.state
        self.budget.restart_clock()
        reuse_freed_memory()
        verified = self.proof.incremental
        await run_blocking(state.output.take, self._pieces, verified=verified)
        self._pieces = []
        async with AsyncWriter() as writer, AsyncWorker(self.threads) as prover:
            failure = self._failure
            try:
                if failure is None:
                    await self._stream_batches(prover, writer)
            except NetworkError as error:
                failure = error
            # Bytes that were verified before a failure stay: the next attempt continues after them.
            await self._write(flat(await prover.drain()), prover, writer, go_on=failure is None)
            await writer.drain()
        if self._is_satisfied():
            return
        if failure is not None:
            raise failure
        await self._check_end()

    async def _stream_batches(self, prover: AsyncWorker, writer: AsyncWriter) -> None:
        """Receive batches, and have each of them verified and written."""
        async for chunks in self._batches:
            if self._is_satisfied():
                return
            self.budget.receive(total(chunks))
            await self._write(await self._submit(chunks, prover), prover, writer)
            self.peer.state.output.report(self.total)
            self._check_progress()
        await self._write(await self._submit_rest(prover), prover, writer)
        self._ended = True

    async def _write(
        self,
        results: list[Verified],
        prover: AsyncWorker,
        writer: AsyncWriter,
        *,
        go_on: bool = True,
    ) -> None:
        """Write the verified bytes, and feed the proof the blocks that it needs.

        Without `go_on`, feed nothing and write only the `results`.
        """
        state, proof = self.peer.state, self.proof
        pending = deque(results)
        while pending:
            result = pending.popleft()
            state.learn_size(proof.size)
            if result.pieces:
                await writer.submit(state.output.take, result.pieces, verified=proof.incremental)
            self.budget.note_progress(result.progress)
            if pending or not go_on or (result.need is None and not result.has_more):
                continue
            # First the queued jobs: while a block is missing, the proof only stores bytes.
            pending += flat(await prover.drain())
            if not pending:
                self.budget.check_time()
                await self._feed(result, prover)
                pending += flat(await prover.drain())

    # Steps that subclasses override

    async def _submit(self, chunks: list[bytes], prover: AsyncWorker) -> list[Verified]:
        """Start to verify `chunks`; return the results that are ready."""
        return flat(await prover.submit(self._verify, chunks))

    async def _submit_rest(self, prover: AsyncWorker) -> list[Verified]:  # noqa: ARG002
        """Start to verify the bytes that `_submit` has held back; return the results."""
        return []

    def _verify(self, chunks: list[bytes]) -> list[Verified]:
        proof = self.proof
        pieces = proof.update_all(chunks)
        return [Verified(pieces, proof.need, proof.has_more, proof.progress)]

    async def _feed(self, result: Verified, prover: AsyncWorker) -> None:
        """Feed the proof the blocks that it needs. A proof of the whole body needs none."""

    def _is_satisfied(self) -> bool:
        """Return whether everything is verified, even if the body continues or broke off."""
        return False

    def _check_progress(self) -> None:
        """Raise an error if no needed bytes were received for too long."""

    async def _check_end(self) -> None:
        """Raise an error if the body has ended too early, or does not match the CID."""
        self.proof.finish()
