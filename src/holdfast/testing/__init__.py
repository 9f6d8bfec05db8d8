"""Tools for your own tests: a real node, servers with faults on request, and tests of providers.

With pytest, the fixtures `holdfast_node`, `holdfast_client` and `holdfast_async_client` exist as
soon as Holdfast is installed; see `holdfast.testing.plugin`.

Example:
    >>> from holdfast import Client
    >>> from holdfast.testing import running_node
    >>> with running_node() as node, Client.init(node.config) as client:
    ...     record = client.store({"hello": "world"})
    ...     client.retrieve(record.cid)
    {'hello': 'world'}
"""

from typing import TYPE_CHECKING

from holdfast.lazy import lazy_names

if TYPE_CHECKING:
    from holdfast.node.settings import NodeToken
    from holdfast.testing._async.provider_tests import AsyncProviderTests
    from holdfast.testing._sync.provider_tests import ProviderTests
    from holdfast.testing.faults import Part
    from holdfast.testing.running_nodes import RunningNode, running_node
    from holdfast.testing.scripted_server import (
        Recorded,
        Script,
        Scripted,
        ScriptedServer,
        forward_to,
    )

__all__ = [
    "AsyncProviderTests",
    "NodeToken",
    "Part",
    "ProviderTests",
    "Recorded",
    "RunningNode",
    "Script",
    "Scripted",
    "ScriptedServer",
    "forward_to",
    "running_node",
]

# pytest loads this package with the plugin in every run of any tests, the node needs the extra
# `node`, and the tests of providers need pytest.
if not TYPE_CHECKING:  # which knows the names from above
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "node.settings": "NodeToken",
            "testing._async.provider_tests": "AsyncProviderTests",
            "testing.faults": "Part",
            "testing.running_nodes": "RunningNode running_node",
            "testing.scripted_server": "Recorded Script Scripted ScriptedServer forward_to",
        },
        __all__,
    )
