"""Interim: the reader of gateways behind the interface of readers."""

from collections.abc import AsyncIterator

from holdfast._async.content_file import LARGEST_WINDOW, AsyncBlobRanges
from holdfast._async.reads.interface import AsyncRanges
from holdfast._async.reads.reader import AsyncReader, Known
from holdfast._async.runtime import run_blocking
from holdfast._async.session import AsyncSession
from holdfast.calls import Call
from holdfast.content.reference import Reference
from holdfast.errors import UnprovenError
from holdfast.files.blob import Blob
from holdfast.files.sinks import MemorySink, RangeSink, SpoolSink
from holdfast.records import Entry


class AsyncGatewayReader(AsyncReader):
    """Interim."""

    async def open(self, reference: Reference, call: Call) -> AsyncRanges:
        """Interim."""
        try:
            known = await self.probe(reference, call, MemorySink())
        except UnprovenError:
            blob = await self._fetch_whole(reference, call.asked_wait)
            return AsyncBlobRanges(blob)
        return _AsyncGatewayRanges(self._session, self, known)

    def entries(self, reference: Reference, call: Call) -> AsyncIterator[Entry]:
        """Interim."""
        raise NotImplementedError

    async def _fetch_whole(self, reference: Reference, asked_wait: float) -> Blob:
        sink = SpoolSink()
        fetched = 0

        def renew(done: int, _: int | None) -> None:
            nonlocal fetched
            if done >= fetched + LARGEST_WINDOW:
                fetched = done
                call.renew()

        async with self._session.call("open", str(reference)) as call:
            call.asked_wait = asked_wait
            try:
                await self.read(reference, sink, call, progress=renew, verify=True)
                await run_blocking(sink.commit)
                return sink.blob(type="", name=None)
            finally:
                await run_blocking(sink.discard)


class _AsyncGatewayRanges:
    """Interim."""

    def __init__(self, session: AsyncSession, reader: AsyncReader, known: Known) -> None:
        self._session = session
        self._reader = reader
        self._known = known
        self.size = known.size

    async def read(self, start: int, stop: int) -> bytes | bytearray:
        """Return the bytes from `start` up to `stop`."""
        sink = RangeSink(stop - start)
        async with self._session.call("open", str(self._known.reference)) as call:
            await self._reader.read_part(self._known, start, stop, call, sink)
        return sink.data
