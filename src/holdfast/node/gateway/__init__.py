"""The gateway of the local node: what the repository holds, by ``/ipfs/{cid}/path`` over HTTP.

Two protocols share the addresses: the path gateway's, which hands out files and directories, and
the trustless gateway's, which hands out blocks and archives that the client proves by itself.
One response format stands in each file.
"""

from starlette.routing import BaseRoute

from holdfast.node.cached import CachedRepository
from holdfast.node.gateway.serving import GatewayRoute
from holdfast.repository import Repository

__all__ = ["routes"]


def routes(repository: Repository) -> list[BaseRoute]:
    """What serves ``/ipfs/…`` out of `repository`, which stays open for as long as they serve."""
    return [GatewayRoute(CachedRepository.of(repository))]
