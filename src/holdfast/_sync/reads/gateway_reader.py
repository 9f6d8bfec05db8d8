# WARNING: this file is generated from src/holdfast/_async/reads/gateway_reader.py
# by scripts/generate_sync.py. Change the original instead.
"""Reads through HTTP gateways, none of which is trusted: files, parts of files, directories."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from holdfast._sync.reads.attempt import fill
from holdfast._sync.reads.blob_ranges import BlobRanges
from holdfast._sync.reads.block_reader import BlockReader
from holdfast._sync.reads.gateway_blocks import GatewayBlocks
from holdfast._sync.reads.hedging import run_race
from holdfast._sync.reads.interface import LARGEST_RANGE, Ranges
from holdfast._sync.reads.output import Output
from holdfast._sync.reads.rounds import Rounds
from holdfast._sync.reads.state import KnownFile, ReadState
from holdfast._sync.runtime import run_blocking
from holdfast._sync.session import Session
from holdfast.calls import Call
from holdfast.content.blocks import check_provable
from holdfast.content.reference import Reference
from holdfast.content.unixfs.file_nodes import check_codec
from holdfast.errors import UnprovenError
from holdfast.files.sinks import MemorySink, RangeSink, Sink, SpoolSink
from holdfast.files.sources import Progress
from holdfast.protocol.gateway import Gateways
from holdfast.records import Entry


class GatewayReader:
    """Fills sinks with verified content from any of its gateways.

    Args:
        session: Sends the requests.
        gateways: The gateways, in order.
        verify: Whether `read` verifies; `open` and `entries` always do.
        max_unverified: The largest size of a body that is verified only at its end.
        hedge_after: The seconds after which the next gateway is asked as well.
    """

    def __init__(
        self,
        session: Session,
        gateways: Gateways,
        *,
        verify: bool,
        max_unverified: int,
        hedge_after: float | None = None,
    ) -> None:
        self._session = session
        self._gateways = gateways
        self._verify = verify
        self._hedge_after = hedge_after
        self._max_unverified = max_unverified

    def read(
        self, reference: Reference, sink: Sink, call: Call, *, progress: Progress | None = None
    ) -> str:
        """Fill `sink` with a file; return the media type that the gateway reports.

        If all gateways fail, raise the most serious failure, with the others as its notes.
        """
        state = ReadState(
            reference, Output(sink, progress), call, max_unverified=self._max_unverified
        )
        self._fill(state, verify=self._verify)
        return state.found.media_type

    def open(self, reference: Reference, call: Call) -> Ranges:
        """Return a file whose parts are read and verified on demand.

        A file that can only be verified as a whole is downloaded now: a single block, or a file
        whose blocks no gateway serves.
        """
        state = ReadState(reference, Output(MemorySink()), call, stop=0)
        try:
            self._fill(state, verify=True)
        except UnprovenError:
            can_be_cut = False
        else:
            can_be_cut = state.found.size is not None
        if not can_be_cut:
            return self._open_whole(reference, call)
        return GatewayRanges(self, reference, state.found)

    def entries(self, reference: Reference, call: Call) -> Iterator[Entry]:
        """Yield the entries of a directory, in the order of its blocks; each block is verified."""
        blocks = GatewayBlocks(self._session, self._gateways, reference, call)
        return BlockReader(blocks.get, verified=True).entries(reference, call)

    def read_part(
        self, reference: Reference, found: KnownFile, start: int, stop: int
    ) -> bytes | bytearray:
        """Return a part of a file that `open` has found, within a time limit of its own."""
        sink = RangeSink(stop - start)
        with self._session.call("open", str(reference)) as call:
            state = ReadState(reference, Output(sink), call, start, stop, found=replace(found))
            self._fill(state, verify=True)
        return sink.data

    def _open_whole(self, reference: Reference, call: Call) -> BlobRanges:
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
        state = ReadState(reference, Output(sink, renew), call, max_unverified=self._max_unverified)
        try:
            self._fill(state, verify=True)
            run_blocking(sink.commit)
            return BlobRanges(sink.blob(type="", name=None))
        finally:
            run_blocking(sink.discard)

    def _fill(self, state: ReadState, *, verify: bool) -> None:
        """Read everything that `state` wants, or raise the most serious failure."""
        if verify and state.found.cid is not None:
            # Do not request content that cannot be verified.
            check_provable(state.found.cid)
            check_codec(state.found.cid)
        attempt = partial(fill, self._session, state, verify=verify)
        rounds = Rounds(self._session, self._gateways, state, attempt)
        output, delay = state.output, self._hedge_after
        if delay is not None and len(rounds.gateways) > 1 and not output.sink.saved_size:
            done = run_race(self._session, rounds, state, verify=verify, delay=delay)
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


class GatewayRanges:
    """A file at gateways that is open for reading."""

    def __init__(self, reader: GatewayReader, reference: Reference, found: KnownFile) -> None:
        self._reader = reader
        self._reference = reference
        self._found = found
        self.size = found.size or 0

    def read(self, start: int, stop: int) -> bytes | bytearray:
        """Return the bytes from `start` up to `stop`."""
        return self._reader.read_part(self._reference, self._found, start, stop)
