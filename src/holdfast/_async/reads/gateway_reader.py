"""Reads through HTTP gateways, none of which is trusted: files, parts of files, directories."""

from dataclasses import replace
from functools import partial
from typing import ClassVar

from holdfast._async.reads.archive_feed import AsyncArchiveFeed
from holdfast._async.reads.attempt import fill
from holdfast._async.reads.blocks import AsyncBlocks
from holdfast._async.reads.gateway_blocks import AsyncGatewayBlocks
from holdfast._async.reads.peer import AsyncBegun, AsyncGatewayPeer
from holdfast._async.reads.reader import LARGEST_RANGE, AsyncRanges, AsyncReader
from holdfast._async.reads.rounds import AsyncRounds
from holdfast._async.reads.small_block import AsyncSmallBlocks
from holdfast._async.reads.state import KnownFile, Output, ReadState
from holdfast._async.runtime import now, run_blocking
from holdfast._async.session import AsyncSession
from holdfast.calls import Call
from holdfast.content.blocks import check_provable
from holdfast.content.codecs import require_codec
from holdfast.content.reference import Reference
from holdfast.errors import NetworkError, ProviderError, UnprovenError
from holdfast.files.blob import Blob
from holdfast.files.block_cache import DiskBlockCache
from holdfast.files.sinks import MemorySink, RangeSink, Sink, SpoolSink
from holdfast.files.sources import Progress
from holdfast.protocol.gateway import CAR_TYPE, ArchiveScope, Gateways
from holdfast.protocol.http import Reply


class AsyncGatewayReader(AsyncReader):
    """Fills sinks with verified content from any of its gateways.

    Args:
        session: Sends the requests.
        gateways: The gateways, in order.
        verify: Whether `read` verifies; `open` and `entries` always do.
        max_unverified: The largest size of a body that is verified only at its end.
        hedge_after: The seconds after which the next gateway is asked as well.
        cache: Keeps the blocks of directories and of parts of files on disk.
    """

    is_remote: ClassVar[bool] = True

    def __init__(
        self,
        session: AsyncSession,
        gateways: Gateways,
        *,
        verify: bool,
        max_unverified: int,
        hedge_after: float | None = None,
        cache: DiskBlockCache | None = None,
    ) -> None:
        super().__init__()
        self._session = session
        self._cache = cache
        self._gateways = gateways
        self._verify = verify
        self._hedge_after = hedge_after
        self._is_race = hedge_after is not None and len(gateways) > 1
        self._max_unverified = max_unverified
        self._small_blocks = AsyncSmallBlocks(session, gateways, max_unverified)

    async def read(
        self,
        reference: Reference,
        sink: Sink,
        call: Call,
        *,
        progress: Progress | None = None,
        blocks: AsyncBlocks | None = None,
        verify: bool | None = None,
    ) -> str:
        """Fill `sink` with a file; return the media type that the gateway reports.

        If all gateways fail, raise the most serious failure, with the others as its notes.
        """
        if blocks is not None:
            return await super().read(reference, sink, call, progress=progress, blocks=blocks)
        verify = self._verify if verify is None else verify
        begun = None
        if verify and not self._is_race:
            begun = await self._small_blocks.read(reference, sink, call, progress)
        if isinstance(begun, str):
            return begun
        output = Output(sink, progress)
        state = ReadState(
            reference, output, call, max_unverified=self._max_unverified, cache=self._cache
        )
        await self._fill(state, verify=verify, begun=begun)
        return state.found.media_type

    async def open(self, reference: Reference, call: Call) -> AsyncRanges:
        """Return a file whose parts are read and verified on demand.

        A file that can only be verified as a whole is downloaded now: a single block, or a file
        whose blocks no gateway serves.
        """
        output = Output(MemorySink())
        state = ReadState(reference, output, call, stop=0, cache=self._cache)
        try:
            await self._fill(state, verify=True)
        except UnprovenError:
            size = None
        else:
            size = state.found.size
        # Outside of the handler: an error from here on must not have that one as its context.
        if size is None:
            return await self._open_whole(reference, call)
        read_part = partial(self._read_part, reference, state.found)
        return AsyncRanges(size, read_part, type=state.found.media_type)

    async def archive(
        self, reference: Reference, scope: ArchiveScope, call: Call
    ) -> AsyncArchiveFeed | None:
        """Return the blocks of the first archive that a gateway sends, or None."""
        state = ReadState(reference, Output(MemorySink()), call)
        for gateway in self._gateways.in_order(now()):
            peer = AsyncGatewayPeer(self._session, gateway, state, call.share(1), verify=True)
            try:
                response = await peer.open_or_refuse(gateway.archive(reference, scope=scope))
            except (NetworkError, ProviderError, UnprovenError) as error:
                self._gateways.note_failure(gateway, error, now())
                continue
            if Reply(response.status, response.headers).media_type == CAR_TYPE:
                return AsyncArchiveFeed(response, self._session.timeouts.read)
            await response.aclose()
        return None

    def blocks(self, reference: Reference, call: Call) -> AsyncGatewayBlocks:
        """Return the verified blocks below `reference`, each requested by its CID."""
        return AsyncGatewayBlocks(self._session, self._gateways, reference, call, self._cache)

    async def _read_part(
        self, reference: Reference, found: KnownFile, start: int, stop: int
    ) -> bytes | bytearray:
        """Return a part of a file that `open` has found, within a time limit of its own."""
        sink = RangeSink(stop - start)
        async with self._session.call("open", str(reference)) as call:
            state = ReadState(reference, Output(sink), call, start, stop, cache=self._cache)
            state.found = replace(found)
            await self._fill(state, verify=True)
        return sink.data

    async def _open_whole(self, reference: Reference, call: Call) -> AsyncRanges:
        """Download a file for `open`.

        Each part of it has the same time limit as a range that an open file reads.
        """
        sink = SpoolSink()
        fetched = 0

        def renew(done: int, _: int | None) -> None:
            nonlocal fetched
            if done >= fetched + LARGEST_RANGE:
                fetched = done
                call.renew()

        call.renew()
        try:
            media_type = await self.read(reference, sink, call, progress=renew, verify=True)
            await run_blocking(sink.commit)
            blob = sink.blob(type="", name=None)
            read_part = partial(run_blocking, partial(_read_blob, blob))
            return AsyncRanges(blob.size, read_part, type=media_type)
        finally:
            await run_blocking(sink.discard)

    async def _fill(
        self, state: ReadState, *, verify: bool, begun: AsyncBegun | None = None
    ) -> None:
        """Read everything that `state` wants, or raise the most serious failure."""
        if verify and state.found.cid is not None:
            # Do not request content that cannot be verified.
            check_provable(state.found.cid)
            require_codec(state.found.cid)
        attempt = partial(fill, self._session, state, verify=verify, begun=begun)
        rounds = AsyncRounds(self._session, self._gateways, state, attempt)
        if begun is not None:  # its gateway is the first, even if it is avoided by now
            rounds.gateways.sort(key=lambda each: each != begun.gateway)
        output, delay = state.output, self._hedge_after
        may_race = self._is_race and not state.is_cached_part and not output.sink.saved_size
        if delay is not None and may_race:
            done = await rounds.race(delay, verify=verify)
            # Gateways that refused the strategy of the race may support another.
            others = [each for each in rounds.gateways if each not in rounds.failures]
            done = done or await rounds.ask(others)
        else:
            done = await rounds.ask(rounds.gateways)
            if not done and output.sink.saved_size and not output.written:
                # No gateway has the blocks to verify the saved bytes: start without them.
                await run_blocking(output.restart)
                done = await rounds.ask(rounds.gateways)
        if not done:
            await rounds.ask_again()


def _read_blob(blob: Blob, start: int, stop: int) -> bytes:
    with blob.open() as file:
        file.seek(start)
        return file.read(stop - start)
