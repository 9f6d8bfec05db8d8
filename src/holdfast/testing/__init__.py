"""For tests of your own: a real node, and servers that reply, or fail, as they are told.

Example:
    >>> from holdfast import Client
    >>> from holdfast.testing import running_node
    >>> with running_node() as node, Client.init(node.config) as client:
    ...     record = client.store({"hello": "world"})
    ...     client.retrieve(record.cid)
    {'hello': 'world'}
"""

from typing import TYPE_CHECKING, Any

from holdfast.testing.server import Recorded, Scripted, ScriptedServer, forward_to

if TYPE_CHECKING:
    from holdfast.testing.node import RunningNode, running_node

__all__ = [
    "Recorded",
    "RunningNode",
    "Scripted",
    "ScriptedServer",
    "forward_to",
    "running_node",
]


def __getattr__(name: str) -> Any:
    # The node needs the extra of that name; the scripted servers need nothing.
    if name in {"RunningNode", "running_node"}:
        from holdfast.testing import node  # noqa: PLC0415

        return getattr(node, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
