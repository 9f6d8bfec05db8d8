# WARNING: this file is generated from src/holdfast/_async/providers/http.py
# by scripts/generate_sync.py. Change the original instead.
"""The base classes of providers that write through an HTTP API and read through gateways."""

from abc import abstractmethod
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, ContextManager, Self, TypeVar  # noqa: UP035
from urllib.parse import urlsplit

from holdfast._sync.pin_waiting import PinStream
from holdfast._sync.providers.base import BaseProvider, Content
from holdfast._sync.reads.gateway_reader import gateway_urls, read_gateways
from holdfast._sync.reads.reader import Reader
from holdfast._sync.reads.state import GatewayPeer, Output, ReadState, RefusedError
from holdfast._sync.session import Session, open_session
from holdfast.calls import Call, Clock
from holdfast.config import ClientConfig
from holdfast.config.fields import fields_bound_to
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.disk.copy_journal import Place
from holdfast.errors import NetworkError, NotFoundError, ProviderError
from holdfast.protocol.daemon_api import PinLines
from holdfast.protocol.gateway import NOT_CACHED, Gateway, WitnessGateway
from holdfast.protocol.host_privacy import WORLD, privacy
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.pin_api import Exchange, PinPages
from holdfast.protocol.retrying import retry_reason
from holdfast.records import Pin, PinFilter, Usage
from holdfast.sinks.sinks import MemorySink
from holdfast.sources.archive_sources import ArchiveSource, BuiltArchive
from holdfast.sources.folder_source import FolderSource
from holdfast.sources.sources import Source, no_progress

if TYPE_CHECKING:
    from holdfast._sync.transport import Response

T = TypeVar("T")


class HTTPProvider(BaseProvider):
    """Sends requests through a session, and reads through gateways, which never see the token."""

    shared_fields: ClassVar[tuple[str, ...]] = fields_bound_to("connections")

    def __init__(self, config: ClientConfig, *, session: Session | None = None) -> None:
        self._config = config  # `make_reader` may need it
        self._session = session or open_session(config)
        self._session.provider = self.title
        super().__init__(config, reader=self.make_reader(config))

    def make_reader(self, config: ClientConfig) -> Reader:
        """Return the reader for `config`; here, one of its gateways."""
        return read_gateways(self._session, config)

    def call(
        self, operation: str, cid: str | None = None, *, total: bool = True
    ) -> ContextManager[Call]:
        """Make a call within the limits that all calls of a client share.

        After closing, the transport refuses every request with ClientClosedError.
        """
        return self._session.call(operation, cid, total=total)

    def run(self, exchange: Exchange[T], call: Call, **options: Any) -> T:
        """Send the requests of `exchange`, with `options` of `fetch`, and return its result."""
        try:
            request = next(exchange)
            while True:
                request = exchange.send(self.fetch(request, call, **options))
        except StopIteration as end:
            result: T = end.value
            return result

    def fetch(self, request: Request, call: Call) -> Reply:
        """Send `request`, again if that may help, and return the complete reply."""
        return self._session.fetch(request, call)

    def url(self, cid: str) -> str:
        """Return the address of `cid` at the first gateway."""
        return Gateway(gateway_urls(self.config)[0]).url(Reference.parse(cid))

    def gateway_block(self, cid: CID, gateway: str) -> bytes:
        """Return a block that a gateway has itself. Only the first of ours gets its token."""
        token = self.config.gateway_token if gateway == gateway_urls(self.config)[0] else None
        with self.call("block", str(cid)) as call:
            state = ReadState(Reference(str(cid), cid), Output(MemorySink()), call)
            at = WitnessGateway(gateway, token)
            peer = GatewayPeer(self._session, at, state, call.deadline, verify=True)
            backoff = self._session.backoff()
            while True:
                try:
                    return peer.find(cid)
                except RefusedError as refusal:
                    if refusal.reason is None or refusal.reason.status not in NOT_CACHED:
                        raise
                    raise NotFoundError(f"{at.peer} does not have {cid}") from None
                except (NetworkError, ProviderError) as error:
                    why = retry_reason(error)
                    if why is None or not self._session.wait(backoff, call, why):
                        raise

    def where(self) -> str:
        """Return the address of the API, or of the first gateway, without a path."""
        parts = urlsplit(self.config.api_url or gateway_urls(self.config)[0])
        return f"{parts.scheme}://{parts.netloc}"

    def place(self) -> Place:
        """Return the place of the account at the API."""
        return self.place_at(self.config.api_url)

    def is_on_network(self) -> bool:
        """Return whether a gateway of the provider has a public address."""
        urls = self.config.gateway_url
        return urls is None or any(privacy(urlsplit(url).hostname) == WORLD for url in urls)

    def copy_with(self, config: ClientConfig) -> Self:
        """Return a copy with `config` over the same connections and limits."""
        return type(self)(config, session=self._session.with_config(config))

    def release(self) -> None:
        """Close the connections."""
        self._session.transport.close()


class ServiceProvider(HTTPProvider):
    """Finds, changes and removes pins. `_api` builds the requests, and reads the replies.

    `PinStream` limits the time of a list, `ListSize` its length.
    """

    _api: Any  # a `PinAPI`, or one with more

    def unpin(self, cid: str, call: Call, /) -> None:
        """Unpin `cid`."""
        self.run(self._api.unpin(cid), call)

    def check_credentials(self, call: Call, /) -> None:
        """Return if the service accepts the token."""
        self.run(self._api.check_credentials(), call)

    def update_pin(self, cid: str, *, name: str | None, keyvalues: Mapping[str, Any] | None) -> Pin:
        """Change the name, the key-values or both of the pin of `cid`."""
        with self.call("update", cid) as call:
            pin: Pin = self.run(self._api.update(cid, name, keyvalues), call)
            return pin

    def list_pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        """Return what is pinned, in the order in which the service sends it."""
        return self.find_pins(PinFilter(name=name), limit=limit).read_all()

    def find_pins(self, pin_filter: PinFilter, *, limit: int | None = None) -> PinStream:
        """Yield the pins that match `pin_filter`, in the order in which the service sends them."""
        find = partial(self.stream_pins, pin_filter, limit)
        return PinStream(find, total=self.config.timeouts.total)

    def stream_pins(self, pin_filter: PinFilter, limit: int | None, clock: Clock) -> Generator[Pin]:
        """Yield at most `limit` pins that match `pin_filter`, page by page, all by `clock`."""
        pages: PinPages = self._api.pages(pin_filter, limit=limit)
        while pages.next_count:
            with self.list_call(clock) as call:
                page = pages.read(self.fetch(pages.request(), call))
            for pin in page:
                yield pin

    def usage(self) -> Usage:
        """Return what the API says of the number of pins and of bytes."""
        with self.call("usage") as call:
            usage: Usage = self.run(self._api.usage(), call)
            return usage

    def list_call(self, clock: Clock, cid: str | None = None) -> ContextManager[Call]:
        """Make a call for a part of a list. Nothing is held while the caller works on a pin."""
        return self._session.call("pins", cid, clock=clock)


class DaemonProvider(ServiceProvider):
    """Stores content at Kubo or IPFS Cluster, under the CID that we compute. `_api` is a DaemonAPI.

    Their lists of pins come as one stream, in no order.
    """

    takes: tuple[type, ...] = (Source, FolderSource, ArchiveSource)

    def build_archive(self, content: Content) -> BuiltArchive:
        """Return the archive of `content`, which begins with its root: so it is hashed first."""
        root = (self.import_content(content, None, no_progress)).cid
        return BuiltArchive(content, self.profile, root)

    def usage(self) -> Usage:
        """Return what the API says of bytes, and the number of pins in its list."""
        usage = super().usage()
        rows = self.stream_rows(PinFilter(), Clock(self.config.timeouts.total))
        return replace(usage, pins=len([1 for _ in rows]))

    @abstractmethod
    def open_list(self, pin_filter: PinFilter, call: Call) -> "Response | None":
        """Return the reply with all pins, whose body is not read yet; None if there are none."""

    def stream_rows(self, pin_filter: PinFilter, clock: Clock) -> Generator[Any]:
        """Yield what the API says of the pin with the CID that is wanted, else of all pins."""
        if pin_filter.cid is not None:
            with self.list_call(clock, pin_filter.cid) as call:
                row = self.run(self._api.find(pin_filter.cid), call)
            if row is not None:
                yield row
            return
        with self.list_call(clock) as call:
            response = self.open_list(pin_filter, call)
        if response is None:
            return
        lines: PinLines[Any] = PinLines(self._api)
        with closing(response):
            for piece in response.chunks():
                for row in lines.feed(piece):
                    yield row
            error = response.stream_error
            for row in lines.finish(Reply(response.status, response.headers, stream_error=error)):
                yield row
