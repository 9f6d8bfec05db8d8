# WARNING: this file is generated from src/holdfast/_async/reads/gateway_reader.py
# by scripts/generate_sync.py. Change the original instead.
"""Interim: the reader of gateways behind the interface of readers."""

from collections.abc import Iterator

from holdfast._sync.content_file import LARGEST_WINDOW, BlobRanges
from holdfast._sync.reads.interface import Ranges
from holdfast._sync.reads.reader import Known, Reader
from holdfast._sync.runtime import run_blocking
from holdfast._sync.session import Session
from holdfast.calls import Call
from holdfast.content.reference import Reference
from holdfast.errors import UnprovenError
from holdfast.files.blob import Blob
from holdfast.files.sinks import MemorySink, RangeSink, SpoolSink
from holdfast.records import Entry


class GatewayReader(Reader):
    """Interim."""

    def open(self, reference: Reference, call: Call) -> Ranges:
        """Interim."""
        try:
            known = self.probe(reference, call, MemorySink())
        except UnprovenError:
            blob = self._fetch_whole(reference, call.asked_wait)
            return BlobRanges(blob)
        return _AsyncGatewayRanges(self._session, self, known)

    def entries(self, reference: Reference, call: Call) -> Iterator[Entry]:
        """Interim."""
        raise NotImplementedError

    def _fetch_whole(self, reference: Reference, asked_wait: float) -> Blob:
        sink = SpoolSink()
        fetched = 0

        def renew(done: int, _: int | None) -> None:
            nonlocal fetched
            if done >= fetched + LARGEST_WINDOW:
                fetched = done
                call.renew()

        with self._session.call("open", str(reference)) as call:
            call.asked_wait = asked_wait
            try:
                self.read(reference, sink, call, progress=renew, verify=True)
                run_blocking(sink.commit)
                return sink.blob(type="", name=None)
            finally:
                run_blocking(sink.discard)


class _AsyncGatewayRanges:
    """Interim."""

    def __init__(self, session: Session, reader: Reader, known: Known) -> None:
        self._session = session
        self._reader = reader
        self._known = known
        self.size = known.size

    def read(self, start: int, stop: int) -> bytes | bytearray:
        """Return the bytes from `start` up to `stop`."""
        sink = RangeSink(stop - start)
        with self._session.call("open", str(self._known.reference)) as call:
            self._reader.read_part(self._known, start, stop, call, sink)
        return sink.data
