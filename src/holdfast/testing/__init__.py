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
    from holdfast.node.settings import NodeToken as NodeToken
    from holdfast.testing._async.provider_tests import AsyncProviderTests as AsyncProviderTests
    from holdfast.testing._sync.provider_tests import ProviderTests as ProviderTests
    from holdfast.testing.faults import Part as Part
    from holdfast.testing.running_nodes import RunningNode as RunningNode
    from holdfast.testing.running_nodes import running_node as running_node
    from holdfast.testing.scripted_server import Recorded as Recorded
    from holdfast.testing.scripted_server import Script as Script
    from holdfast.testing.scripted_server import Scripted as Scripted
    from holdfast.testing.scripted_server import ScriptedServer as ScriptedServer
    from holdfast.testing.scripted_server import forward_to as forward_to

# pytest loads this package with the plugin in every run of any tests, the node needs the extra
# `node`, and the tests of providers need pytest.
if not TYPE_CHECKING:  # which knows the names from above
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "node.settings": "NodeToken",
            "testing._async.provider_tests": "AsyncProviderTests",
            "testing.faults": "Part",
            "testing.running_nodes": "RunningNode running_node",
            "testing.scripted_server": "Recorded Script Scripted ScriptedServer forward_to",
        },
    )
