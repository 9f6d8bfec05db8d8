"""The interfaces of providers: `StorageProvider`, and optional capabilities.

Every provider has the methods of `StorageProvider`. The other protocols are capabilities that only
some providers have; `ask` raises an `UnsupportedError` for a provider without the capability.

To write a provider, subclass `holdfast.BaseProvider` or `holdfast.AsyncBaseProvider`, which do the
common work. Any other class with these methods works too. Every provider should pass the tests in
`holdfast.testing.ProviderTests` and `AsyncProviderTests`.
"""

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, TypeGuard, TypeVar, cast, runtime_checkable

from holdfast.calls import Call
from holdfast.capabilities import (
    REFUSALS,
    Annotating,
    AsyncAnnotating,
    AsyncBrowsing,
    AsyncCarImport,
    AsyncDirectories,
    AsyncExporting,
    AsyncFinding,
    AsyncImporting,
    AsyncListing,
    AsyncOpenable,
    AsyncPinning,
    AsyncUpdating,
    Browsing,
    CarExport,
    CarImport,
    Directories,
    Exporting,
    Finding,
    Importing,
    Listing,
    Openable,
    Pinning,
    Reconfigurable,
    Updating,
)
from holdfast.content.cid import CID
from holdfast.errors import UnsupportedError
from holdfast.files.blob import Blob
from holdfast.files.sources import Progress, Source
from holdfast.link_capabilities import AsyncSigning, Linkable, Signing
from holdfast.network_capabilities import AsyncPinningFrom, AsyncReachable, PinningFrom, Reachable
from holdfast.records import Added, Entry, Pin, PinFilter, PinInfo

__all__ = [
    "CID",
    "Added",
    "Annotating",
    "AsyncAnnotating",
    "AsyncBrowsing",
    "AsyncCarImport",
    "AsyncDirectories",
    "AsyncExporting",
    "AsyncFinding",
    "AsyncImporting",
    "AsyncListing",
    "AsyncOpenable",
    "AsyncPinning",
    "AsyncPinningFrom",
    "AsyncReachable",
    "AsyncSigning",
    "AsyncStorageProvider",
    "AsyncUpdating",
    "Browsing",
    "Call",
    "CarExport",
    "CarImport",
    "DeclaresCapabilities",
    "Directories",
    "Entry",
    "Exporting",
    "Finding",
    "Importing",
    "Linkable",
    "Listing",
    "Openable",
    "Pin",
    "PinFilter",
    "PinInfo",
    "Pinning",
    "PinningFrom",
    "Progress",
    "Reachable",
    "Reconfigurable",
    "Signing",
    "Source",
    "StorageProvider",
    "Updating",
    "ask",
    "has_capability",
    "stores_content",
]

T = TypeVar("T")


@runtime_checkable
class StorageProvider(Protocol):
    """Stores JSON and files, and reads them by their CID."""

    @abstractmethod
    def put_json(self, text: str, *, name: str) -> str:
        """Store the JSON `text`, with `name` in the provider's list of pins; return its CID."""

    @abstractmethod
    def get_json(self, cid: str) -> Any:
        """Return the JSON value at `cid`, which may carry a path: ``CID/a/b.json``."""

    @abstractmethod
    def put_file(self, source: Source, *, name: str, progress: Progress | None = None) -> str:
        """Store the bytes of `source` as a file called `name`; return its CID."""

    @abstractmethod
    def get_file(
        self,
        cid: str,
        *,
        to: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> Blob:
        """Return the file at `cid`; with `to`, write it there, complete or not at all."""

    @abstractmethod
    def delete(self, cid: str) -> None:
        """Unpin `cid`; raise NotFoundError if it was not pinned."""

    @abstractmethod
    def test_authentication(self) -> None:
        """Return if the provider accepts the credentials; raise an error otherwise."""

    @abstractmethod
    def close(self) -> None:
        """Release connections and files; twice is fine. Later calls raise ClientClosedError."""


@runtime_checkable
class AsyncStorageProvider(Protocol):
    """`StorageProvider`, awaited."""

    @abstractmethod
    async def put_json(self, text: str, *, name: str) -> str:
        """Store the JSON `text`, with `name` in the provider's list of pins; return its CID."""

    @abstractmethod
    async def get_json(self, cid: str) -> Any:
        """Return the JSON value at `cid`, which may carry a path: ``CID/a/b.json``."""

    @abstractmethod
    async def put_file(self, source: Source, *, name: str, progress: Progress | None = None) -> str:
        """Store the bytes of `source` as a file called `name`; return its CID."""

    @abstractmethod
    async def get_file(
        self,
        cid: str,
        *,
        to: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> Blob:
        """Return the file at `cid`; with `to`, write it there, complete or not at all."""

    @abstractmethod
    async def delete(self, cid: str) -> None:
        """Unpin `cid`; raise NotFoundError if it was not pinned."""

    @abstractmethod
    async def test_authentication(self) -> None:
        """Return if the provider accepts the credentials; raise an error otherwise."""

    @abstractmethod
    async def aclose(self) -> None:
        """Release connections and files; twice is fine. Later calls raise ClientClosedError."""


class DeclaresCapabilities:
    """A provider that has just the capabilities among its base classes; a method is not enough.

    Attributes:
        stores_content: Whether it takes new content. If not, it pins what exists elsewhere.
        refusals: By the name of a capability that it lacks, the error message for that, in place
            of the usual one.
    """

    stores_content: ClassVar[bool] = True
    refusals: ClassVar[Mapping[str, str]] = {}

    def supports(self, capability: type[Any]) -> bool:
        """Return whether the provider has `capability`."""
        return capability in type(self).__mro__


def has_capability(provider: object, capability: Callable[..., T]) -> TypeGuard[T]:
    """Return whether `provider` declares `capability`, or has its methods if it declares none."""
    kind = cast("type[Any]", capability)
    if isinstance(provider, DeclaresCapabilities):
        return provider.supports(kind)
    return isinstance(provider, kind)


def ask(provider: object, capability: Callable[..., T]) -> T:
    """Return `provider` as one with `capability`; raise UnsupportedError if it lacks it.

    Example:
        >>> from holdfast import ClientConfig, LocalProvider
        >>> import tempfile
        >>> provider = LocalProvider(ClientConfig(path=tempfile.mkdtemp()))
        >>> ask(provider, Listing).list_pins()
        []
        >>> provider.close()
    """
    if has_capability(provider, capability):
        return provider
    name = cast("type[Any]", capability).__name__.removeprefix("Async")
    own: Mapping[str, str] = getattr(provider, "refusals", {})
    raise UnsupportedError(f"{type(provider).__name__} {own.get(name) or REFUSALS[name]}")


def stores_content(provider: object) -> bool:
    """Return whether `provider` takes new content; all do that do not say otherwise."""
    return not isinstance(provider, DeclaresCapabilities) or provider.stores_content
