# WARNING: this file is generated from src/holdfast/_async/reads/gateway_reader.py
# by scripts/generate_sync.py. Change the original instead.
"""Reads through HTTP gateways, none of which is trusted: files, parts of files, directories."""

from dataclasses import replace
from functools import partial
from typing import ClassVar

from holdfast._sync.reads.archive_feed import ArchiveFeed
from holdfast._sync.reads.attempt import fill
from holdfast._sync.reads.blocks import Blocks
from holdfast._sync.reads.gateway_blocks import GatewayBlocks
from holdfast._sync.reads.peer import Begun, GatewayPeer
from holdfast._sync.reads.reader import LARGEST_RANGE, Ranges, Reader
from holdfast._sync.reads.rounds import Rounds
from holdfast._sync.reads.small_block import SmallBlocks
from holdfast._sync.reads.state import KnownFile, Output, ReadState
from holdfast._sync.runtime import now, run_blocking
from holdfast._sync.session import Session
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


class GatewayReader(Reader):
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
        session: Session,
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
        self._small_blocks = SmallBlocks(session, gateways, max_unverified)

    def read(
        self,
        reference: Reference,
        sink: Sink,
        call: Call,
        *,
        progress: Progress | None = None,
        blocks: Blocks | None = None,
        verify: bool | None = None,
    ) -> str:
        """Fill `sink` with a file; return the media type that the gateway reports.

        If all gateways fail, raise the most serious failure, with the others as its notes.
        """
        if blocks is not None:
            return super().read(reference, sink, call, progress=progress, blocks=blocks)
        verify = self._verify if verify is None else verify
        begun = None
        if verify and not self._is_race:
            begun = self._small_blocks.read(reference, sink, call, progress)
        if isinstance(begun, str):
            return begun
        output = Output(sink, progress)
        state = ReadState(
            reference, output, call, max_unverified=self._max_unverified, cache=self._cache
        )
        self._fill(state, verify=verify, begun=begun)
        return state.found.media_type

    def open(self, reference: Reference, call: Call) -> Ranges:
        """Return a file whose parts are read and verified on demand.

        A file that can only be verified as a whole is downloaded now: a single block, or a file
        whose blocks no gateway serves.
        """
        output = Output(MemorySink())
        state = ReadState(reference, output, call, stop=0, cache=self._cache)
        try:
            self._fill(state, verify=True)
        except UnprovenError:
            size = None
        else:
            size = state.found.size
        # Outside of the handler: an error from here on must not have that one as its context.
        if size is None:
            return self._open_whole(reference, call)
        read_part = partial(self._read_part, reference, state.found)
        return Ranges(size, read_part, type=state.found.media_type)

    def archive(self, reference: Reference, scope: ArchiveScope, call: Call) -> ArchiveFeed | None:
        """Return the blocks of the first archive that a gateway sends, or None."""
        state = ReadState(reference, Output(MemorySink()), call)
        for gateway in self._gateways.in_order(now()):
            peer = GatewayPeer(self._session, gateway, state, call.share(1), verify=True)
            try:
                response = peer.open_or_refuse(gateway.archive(reference, scope=scope))
            except (NetworkError, ProviderError, UnprovenError) as error:
                self._gateways.note_failure(gateway, error, now())
                continue
            if Reply(response.status, response.headers).media_type == CAR_TYPE:
                return ArchiveFeed(response, self._session.timeouts.read)
            response.close()
        return None

    def blocks(self, reference: Reference, call: Call) -> GatewayBlocks:
        """Return the verified blocks below `reference`, each requested by its CID."""
        return GatewayBlocks(self._session, self._gateways, reference, call, self._cache)

    def _read_part(
        self, reference: Reference, found: KnownFile, start: int, stop: int
    ) -> bytes | bytearray:
        """Return a part of a file that `open` has found, within a time limit of its own."""
        sink = RangeSink(stop - start)
        with self._session.call("open", str(reference)) as call:
            state = ReadState(reference, Output(sink), call, start, stop, cache=self._cache)
            state.found = replace(found)
            self._fill(state, verify=True)
        return sink.data

    def _open_whole(self, reference: Reference, call: Call) -> Ranges:
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
            media_type = self.read(reference, sink, call, progress=renew, verify=True)
            run_blocking(sink.commit)
            blob = sink.blob(type="", name=None)
            read_part = partial(run_blocking, partial(_read_blob, blob))
            return Ranges(blob.size, read_part, type=media_type)
        finally:
            run_blocking(sink.discard)

    def _fill(self, state: ReadState, *, verify: bool, begun: Begun | None = None) -> None:
        """Read everything that `state` wants, or raise the most serious failure."""
        if verify and state.found.cid is not None:
            # Do not request content that cannot be verified.
            check_provable(state.found.cid)
            require_codec(state.found.cid)
        attempt = partial(fill, self._session, state, verify=verify, begun=begun)
        rounds = Rounds(self._session, self._gateways, state, attempt)
        if begun is not None:  # its gateway is the first, even if it is avoided by now
            rounds.gateways.sort(key=lambda each: each != begun.gateway)
        output, delay = state.output, self._hedge_after
        may_race = self._is_race and not state.is_cached_part and not output.sink.saved_size
        if delay is not None and may_race:
            done = rounds.race(delay, verify=verify)
            # Gateways that refused the strategy of the race may support another.
            others = [each for each in rounds.gateways if each not in rounds.failures]
            done = done or rounds.ask(others)
        else:
            done = rounds.ask(rounds.gateways)
            if not done and output.sink.saved_size and not output.written:
                # No gateway has the blocks to verify the saved bytes: start without them.
                run_blocking(output.restart)
                done = rounds.ask(rounds.gateways)
        if not done:
            rounds.ask_again()


def _read_blob(blob: Blob, start: int, stop: int) -> bytes:
    with blob.open() as file:
        file.seek(start)
        return file.read(stop - start)
