"""The capabilities of providers that concern how services fetch content from other nodes."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from holdfast.records import Pin, PinInfo


@runtime_checkable
class Reachable(Protocol):
    """Is a node of the IPFS network, and knows its addresses there."""

    @abstractmethod
    def addresses(self) -> list[str]:
        """Return the public multiaddrs of the node; an empty list if it has none."""


@runtime_checkable
class AsyncReachable(Protocol):
    """`Reachable`, awaited."""

    @abstractmethod
    async def addresses(self) -> list[str]:
        """Return the public multiaddrs of the node; an empty list if it has none."""


@runtime_checkable
class PinningFrom(Protocol):
    """Pins content, and can be told which nodes have it."""

    @abstractmethod
    def pin_from(self, cid: str, info: PinInfo, origins: Sequence[str]) -> Pin:
        """Pin `cid`, as `pin` does. `origins` are multiaddrs of nodes that have it."""


@runtime_checkable
class AsyncPinningFrom(Protocol):
    """`PinningFrom`, awaited."""

    @abstractmethod
    async def pin_from(self, cid: str, info: PinInfo, origins: Sequence[str]) -> Pin:
        """Pin `cid`, as `pin` does. `origins` are multiaddrs of nodes that have it."""
