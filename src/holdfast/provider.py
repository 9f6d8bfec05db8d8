"""The interfaces of providers: `StorageProvider`, and optional capabilities.

Every provider has the methods of `StorageProvider`. The other protocols are capabilities that only
some providers have; `ask` raises an `UnsupportedError` for a provider without the capability.

To write a provider, subclass `holdfast.BaseProvider` or `holdfast.AsyncBaseProvider`, which do the
common work. Any other class with these methods works too. Every provider should pass the tests in
`holdfast.testing.ProviderTests` and `AsyncProviderTests`.
"""

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeGuard, TypeVar, cast, runtime_checkable

from holdfast.calls import Call
from holdfast.config import ClientConfig
from holdfast.content.cid import CID
from holdfast.errors import UnsupportedError
from holdfast.files.blob import Blob
from holdfast.files.sources import Progress, Source
from holdfast.records import Added, Pin, PinInfo

__all__ = [
    "CID",
    "Added",
    "AsyncCarImport",
    "AsyncDirectories",
    "AsyncListing",
    "AsyncOpenable",
    "AsyncPinning",
    "AsyncStorageProvider",
    "Call",
    "CarExport",
    "CarImport",
    "DeclaresCapabilities",
    "Directories",
    "Linkable",
    "Listing",
    "Openable",
    "Pin",
    "PinInfo",
    "Pinning",
    "Progress",
    "Reconfigurable",
    "Source",
    "StorageProvider",
    "ask",
    "has_capability",
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
        """Unpin `cid`; raise ProviderError if it was not pinned."""

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
        """Unpin `cid`; raise ProviderError if it was not pinned."""

    @abstractmethod
    async def test_authentication(self) -> None:
        """Return if the provider accepts the credentials; raise an error otherwise."""

    @abstractmethod
    async def aclose(self) -> None:
        """Release connections and files; twice is fine. Later calls raise ClientClosedError."""


@runtime_checkable
class Linkable(Protocol):
    """Returns links to its content."""

    @abstractmethod
    def url(self, cid: str) -> str:
        """Return a link to `cid` that can be shared."""


@runtime_checkable
class Reconfigurable(Protocol):
    """Can be copied with other options and the same connections."""

    @abstractmethod
    def with_config(self, config: ClientConfig) -> Self:
        """Return a copy with `config` over the same connections; ConfigError if they differ."""


@runtime_checkable
class Openable(Protocol):
    """Reads parts of files."""

    @abstractmethod
    def open_file(self, cid: str) -> Any:
        """Return the file at `cid`, readable and seekable, like a `holdfast.ContentFile`."""


@runtime_checkable
class AsyncOpenable(Protocol):
    """`Openable`, awaited."""

    @abstractmethod
    async def open_file(self, cid: str) -> Any:
        """Return the file at `cid`, readable and seekable, like a `holdfast.AsyncContentFile`."""


@runtime_checkable
class Listing(Protocol):
    """Lists its pins."""

    @abstractmethod
    def list_pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        """Return the pins whose name contains `name`, newest first, at most `limit` of them."""


@runtime_checkable
class AsyncListing(Protocol):
    """`Listing`, awaited."""

    @abstractmethod
    async def list_pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        """Return the pins whose name contains `name`, newest first, at most `limit` of them."""


@runtime_checkable
class Pinning(Protocol):
    """Pins content that exists elsewhere."""

    @abstractmethod
    def pin(self, cid: str, info: PinInfo) -> Pin:
        """Pin `cid`; return the pin as soon as the provider has accepted the request."""


@runtime_checkable
class AsyncPinning(Protocol):
    """`Pinning`, awaited."""

    @abstractmethod
    async def pin(self, cid: str, info: PinInfo) -> Pin:
        """Pin `cid`; return the pin as soon as the provider has accepted the request."""


@runtime_checkable
class Directories(Protocol):
    """Stores whole directories."""

    @abstractmethod
    def add_directory(
        self, folder: Path, info: PinInfo, *, progress: Progress | None = None
    ) -> Added:
        """Store the files below `folder` under one CID."""


@runtime_checkable
class AsyncDirectories(Protocol):
    """`Directories`, awaited."""

    @abstractmethod
    async def add_directory(
        self, folder: Path, info: PinInfo, *, progress: Progress | None = None
    ) -> Added:
        """Store the files below `folder` under one CID."""


@runtime_checkable
class CarImport(Protocol):
    """Imports archives (CAR). The CIDs stay the same."""

    @abstractmethod
    def import_car(self, pieces: Iterable[bytes]) -> list[str]:
        """Import an archive and pin its roots; return their CIDs."""


@runtime_checkable
class AsyncCarImport(Protocol):
    """`CarImport`, awaited."""

    @abstractmethod
    async def import_car(self, pieces: Iterable[bytes]) -> list[str]:
        """Import an archive and pin its roots; return their CIDs."""


@runtime_checkable
class CarExport(Protocol):
    """Exports archives (CAR)."""

    @abstractmethod
    def export_car(self, cid: str) -> Iterator[bytes]:
        """Yield the archive of everything under `cid`."""


REFUSALS: Final[Mapping[str, str]] = {
    "Linkable": "has no addresses to share; share the CID",
    "Reconfigurable": "takes no other options; make a new client",
    "Openable": "cannot open files in parts; use download",
    "Listing": "cannot list what it keeps; keep the CIDs of your records",
    "Pinning": "cannot pin content by its CID; download it and upload it here",
    "Directories": "cannot store directories; upload the files one by one",
    "CarImport": "cannot import archives; upload the files",
    "CarExport": "cannot export archives; download the files",
}
"""For each capability, the error message of a provider without it, with the alternative."""


class DeclaresCapabilities:
    """A provider that has just the capabilities among its base classes; a method is not enough."""

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
    raise UnsupportedError(f"{type(provider).__name__} {REFUSALS[name]}")
