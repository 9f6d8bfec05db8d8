# WARNING: this file is generated from src/holdfast/_async/providers/http.py
# by scripts/generate_sync.py. Change the original instead.
"""The base class of providers that write through an HTTP API and read through gateways."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, ContextManager, Self, TypeVar  # noqa: UP035

from holdfast._sync.providers.base import BaseProvider
from holdfast._sync.reads.gateway_reader import GatewayReader
from holdfast._sync.session import Session
from holdfast.calls import Call
from holdfast.config import ClientConfig
from holdfast.config.fields import fields_bound_to
from holdfast.config.locations import cache_folder
from holdfast.content.reference import Reference
from holdfast.files.block_cache import DiskBlockCache
from holdfast.protocol.gateway import Gateway, Gateways
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.pin_api import Exchange
from holdfast.registry import SERVICE, usual_gateways

if TYPE_CHECKING:
    from holdfast._sync.transport import Transport

T = TypeVar("T")


class HTTPProvider(BaseProvider):
    """Sends requests through a session, and reads through gateways, which never see the token."""

    shared_fields: ClassVar[tuple[str, ...]] = fields_bound_to("connections")
    shared_by = "the connections, which are shared"

    def __init__(self, config: ClientConfig, *, session: Session | None = None) -> None:
        self._session = session or Session(_open_transport(config), config)
        first, *others = config.gateway_urls or usual_gateways(SERVICE)
        self._first_gateway = Gateway(first, config.gateway_token)
        gateways = [self._first_gateway, *map(Gateway, others)]
        super().__init__(config, reader=self._read_from(gateways, config))

    def _read_from(self, gateways: Iterable[Gateway], config: ClientConfig) -> GatewayReader:
        """Return a reader of `gateways` with the limits of `config`."""
        return GatewayReader(
            self._session,
            Gateways(gateways, self._session.avoided),
            verify=config.verify,
            max_unverified=config.max_unverified_bytes,
            hedge_after=config.hedge_after,
            cache=_open_cache(config),
        )

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
        return self._first_gateway.url(Reference.parse(cid))

    def copy_with(self, config: ClientConfig) -> Self:
        """Return a copy with `config` over the same connections and limits."""
        return type(self)(config, session=self._session.with_config(config))

    def release(self) -> None:
        """Close the connections."""
        self._session.transport.close()


def _open_cache(config: ClientConfig) -> DiskBlockCache | None:
    folder = cache_folder(config.cache_path) if config.cache_bytes else None
    return None if folder is None else DiskBlockCache(folder, config.cache_bytes)


def _open_transport(config: ClientConfig) -> "Transport":
    # Imported here, so that the provider can be imported where its HTTP library is not installed.
    from holdfast._sync.transport import Transport  # noqa: PLC0415

    return Transport(config)
