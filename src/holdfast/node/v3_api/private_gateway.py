"""Read private files and folders: ``/files/CID/path`` with the signature of an access link."""

import threading
from http import HTTPStatus
from typing import Final

from starlette.datastructures import QueryParams

from holdfast.errors import ClientError
from holdfast.node.gateway.addresses import Address
from holdfast.node.gateway.cached_repository import CachedRepository
from holdfast.node.gateway.serving import GatewayRoute
from holdfast.node.http_server.refusals import Refusal, store_refusal
from holdfast.node.memory import Cache
from holdfast.node.v3_api.link_endpoints import PLACE, check_link
from holdfast.node.v3_api.networks import Networks
from holdfast.node.v3_api.signatures import Signer

CACHE: Final = 8 << 20  # bytes; its own, because the public gateway must not find a private block
# The address of each reply is a credential. No cache keeps the reply, and no other host gets the
# address as a referrer: pages load nothing from elsewhere, because a page can set a policy of its
# own for referrers.
HEADERS: Final = {
    "Cache-Control": "private, no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "sandbox; default-src 'self' data: 'unsafe-inline'",
}


class PrivateContent:
    """The private store, for those who have a link. A link opens what it names, in all formats."""

    def __init__(self, networks: Networks, signer: Signer) -> None:
        self._networks = networks
        self._signer = signer
        self._lock = threading.Lock()
        self._cached: CachedRepository | None = None

    def route(self) -> GatewayRoute:
        """Return the route of ``/files/…``."""
        return GatewayRoute(self._open, PLACE, HEADERS)

    def _open(self, address: Address, query: QueryParams) -> tuple[CachedRepository, Address]:
        """Raise a `Refusal` unless the link is valid for `address`, and its root is pinned."""
        try:
            address = check_link(self._signer, address, query)
            repository = self._networks.private.repository
            pin = repository.find_pin(address.cid)
        except ClientError as error:
            raise store_refusal(error) from None
        if pin is None:
            raise Refusal(HTTPStatus.NOT_FOUND, f"there is no private file {address.cid}")
        with self._lock:
            if self._cached is None:
                self._cached = CachedRepository(repository, Cache(CACHE))
            return self._cached, address
