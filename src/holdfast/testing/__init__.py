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

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.node.settings import NodeToken
    from holdfast.testing._async.provider_tests import AsyncProviderTests
    from holdfast.testing._sync.provider_tests import ProviderTests
    from holdfast.testing.fault_kinds import Part
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

# Imported on first use: pytest loads this package with the plugin in every run of any tests, the
# node needs the extra `node`, and the tests of providers need pytest.
_LAZY = {
    "AsyncProviderTests": "holdfast.testing._async.provider_tests",
    "NodeToken": "holdfast.node.settings",
    "Part": "holdfast.testing.fault_kinds",
    "ProviderTests": "holdfast.testing._sync.provider_tests",
    "Recorded": "holdfast.testing.scripted_server",
    "RunningNode": "holdfast.testing.running_nodes",
    "Script": "holdfast.testing.scripted_server",
    "Scripted": "holdfast.testing.scripted_server",
    "ScriptedServer": "holdfast.testing.scripted_server",
    "forward_to": "holdfast.testing.scripted_server",
    "running_node": "holdfast.testing.running_nodes",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
