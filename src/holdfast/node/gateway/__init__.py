"""The gateway of the local node: serves the content of the repository under ``/ipfs/{cid}/path``.

It has two protocols: the path gateway serves files and directories, and the trustless gateway
serves blocks and archives that the client verifies itself. Each response format has its own file.
"""

from starlette.routing import BaseRoute

from holdfast.node.gateway.cached_repository import CachedRepository
from holdfast.node.gateway.serving import GatewayRoute

__all__ = ["routes"]


def routes(cached: CachedRepository) -> list[BaseRoute]:
    """Return the routes of ``/ipfs/…``. Close the repository only after the last request."""
    return [GatewayRoute(lambda address, _: (cached, address))]
