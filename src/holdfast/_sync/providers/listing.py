# WARNING: this file is generated from src/holdfast/_async/providers/listing.py
# by scripts/generate_sync.py. Change the original instead.
"""Lists of pins of a service: from pages, or from one reply with a pin in each line."""

from abc import ABC, abstractmethod
from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, ContextManager, TypeVar  # noqa: UP035 - a twin

from holdfast._sync.pin_stream import PinStream
from holdfast._sync.providers.http import HTTPProvider
from holdfast.calls import Call, Clock
from holdfast.protocol.http import Reply
from holdfast.protocol.pin_api import PinPages
from holdfast.protocol.pin_lines import PinLines
from holdfast.provider import Finding, Listing
from holdfast.records import Pin, PinFilter

if TYPE_CHECKING:
    from holdfast._sync.transport import Response

Row = TypeVar("Row")


class ListingProvider(HTTPProvider, Listing, Finding, ABC):
    """Lists pins as a stream. `PinStream` limits its time, `ListSize` its length."""

    def list_pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        """Return what is pinned, in the order in which the service sends it."""
        return self.find_pins(PinFilter(name=name), limit=limit).read_all()

    def find_pins(self, wanted: PinFilter, *, limit: int | None = None) -> PinStream:
        """Yield the pins that match `wanted`, in the order in which the service sends them."""
        find = partial(self.stream_pins, wanted, limit)
        return PinStream(find, total=self.config.timeouts.total)

    @abstractmethod
    def stream_pins(self, wanted: PinFilter, limit: int | None, clock: Clock) -> Generator[Pin]:
        """Yield at most `limit` pins that match `wanted`; all requests share the `clock`."""

    def list_call(self, clock: Clock, cid: str | None = None) -> ContextManager[Call]:
        """Make a call for a part of a list. Nothing is held while the caller works on a pin."""
        return self._session.call("pins", cid, clock=clock)

    def read_pages(self, pages: PinPages, clock: Clock) -> Generator[Pin]:
        """Yield the pins of all pages."""
        while pages.wanted:
            with self.list_call(clock) as call:
                page = pages.read(self.fetch(pages.request(), call))
            for pin in page:
                yield pin


def read_lines(response: "Response", lines: PinLines[Row]) -> Generator[Row]:
    """Yield the pins of a reply with one in each line, and close it."""
    try:
        for piece in response.chunks():
            for row in lines.feed(piece):
                yield row
        error = response.stream_error
        lines.finish(Reply(response.status, response.headers, stream_error=error))
    finally:
        response.close()
