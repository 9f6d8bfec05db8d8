"""The optional capabilities of providers: small protocols, which only some providers have.

A provider declares a capability by having it among its base classes; `holdfast.provider.ask` raises
an `UnsupportedError` for a provider that lacks it.
"""

from abc import abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol, Self, runtime_checkable

from holdfast.config import ClientConfig
from holdfast.files.folder_source import FolderSource
from holdfast.files.sources import Progress, Source
from holdfast.records import Added, Entry, Pin, PinFilter, PinInfo


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

    def check_pin(self, pin: Pin) -> Pin:
        """Return a pin of `pin` as it is now; raise ProviderError if the provider has failed.

        Define it if `pin` may return before the content is pinned.
        """
        return pin


@runtime_checkable
class AsyncPinning(Protocol):
    """`Pinning`, awaited."""

    @abstractmethod
    async def pin(self, cid: str, info: PinInfo) -> Pin:
        """Pin `cid`; return the pin as soon as the provider has accepted the request."""

    async def check_pin(self, pin: Pin) -> Pin:
        """Return a pin of `pin` as it is now; raise ProviderError if the provider has failed.

        Define it if `pin` may return before the content is pinned.
        """
        return pin


@runtime_checkable
class Annotating(Protocol):
    """Stores content with a name and key-values, and says what it knows about the new pin."""

    @abstractmethod
    def pin_json(self, text: str, info: PinInfo) -> Added:
        """Store the JSON `text`, as `put_json` does."""

    @abstractmethod
    def pin_file(self, source: Source, info: PinInfo, *, progress: Progress | None = None) -> Added:
        """Store the bytes of `source`, as `put_file` does."""


@runtime_checkable
class AsyncAnnotating(Protocol):
    """`Annotating`, awaited."""

    @abstractmethod
    async def pin_json(self, text: str, info: PinInfo) -> Added:
        """Store the JSON `text`, as `put_json` does."""

    @abstractmethod
    async def pin_file(
        self, source: Source, info: PinInfo, *, progress: Progress | None = None
    ) -> Added:
        """Store the bytes of `source`, as `put_file` does."""


@runtime_checkable
class Finding(Protocol):
    """Finds pins by all filters."""

    @abstractmethod
    def find_pins(self, wanted: PinFilter, *, limit: int | None = None) -> Iterator[Pin]:
        """Yield the pins that match `wanted`, newest first, at most `limit` of them."""


@runtime_checkable
class AsyncFinding(Protocol):
    """`Finding`, awaited."""

    @abstractmethod
    def find_pins(self, wanted: PinFilter, *, limit: int | None = None) -> AsyncIterator[Pin]:
        """Yield the pins that match `wanted`, newest first, at most `limit` of them."""


@runtime_checkable
class Updating(Protocol):
    """Changes the names and key-values of pins."""

    @abstractmethod
    def update_pin(self, cid: str, *, name: str | None, keyvalues: Mapping[str, Any] | None) -> Pin:
        """Change the name, the key-values or both of the pin of `cid`; None keeps what is there.

        Key-values are added to those of the pin; a key with the value None is removed. Raise
        NotFoundError if `cid` is not pinned.
        """


@runtime_checkable
class AsyncUpdating(Protocol):
    """`Updating`, awaited."""

    @abstractmethod
    async def update_pin(
        self, cid: str, *, name: str | None, keyvalues: Mapping[str, Any] | None
    ) -> Pin:
        """Change the name, the key-values or both of the pin of `cid`; None keeps what is there.

        Key-values are added to those of the pin; a key with the value None is removed. Raise
        NotFoundError if `cid` is not pinned.
        """


@runtime_checkable
class Directories(Protocol):
    """Stores whole directories."""

    @abstractmethod
    def add_directory(
        self, folder: FolderSource, info: PinInfo, *, progress: Progress | None = None
    ) -> Added:
        """Store all that `folder` has under one CID."""


@runtime_checkable
class AsyncDirectories(Protocol):
    """`Directories`, awaited."""

    @abstractmethod
    async def add_directory(
        self, folder: FolderSource, info: PinInfo, *, progress: Progress | None = None
    ) -> Added:
        """Store all that `folder` has under one CID."""


@runtime_checkable
class Browsing(Protocol):
    """Looks into directories."""

    @abstractmethod
    def iter_entries(self, cid: str, *, details: bool = False) -> Iterator[Entry]:
        """Yield the entries of the directory at `cid`; with `details`, also sizes and kinds."""

    @abstractmethod
    def stat(self, cid: str) -> Entry:
        """Return the size and the kind of the content at `cid`."""


@runtime_checkable
class AsyncBrowsing(Protocol):
    """`Browsing`, awaited."""

    @abstractmethod
    def iter_entries(self, cid: str, *, details: bool = False) -> AsyncIterator[Entry]:
        """Yield the entries of the directory at `cid`; with `details`, also sizes and kinds."""

    @abstractmethod
    async def stat(self, cid: str) -> Entry:
        """Return the size and the kind of the content at `cid`."""


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


@runtime_checkable
class Exporting(Protocol):
    """Gives whole content block by block, for a copy to another provider."""

    @abstractmethod
    def export_archive(self, cid: str) -> Iterator[bytes]:
        """Yield an archive (CAR) of everything under `cid`, each block verified and only once."""


@runtime_checkable
class AsyncExporting(Protocol):
    """`Exporting`, awaited."""

    @abstractmethod
    def export_archive(self, cid: str) -> AsyncIterator[bytes]:
        """Yield an archive (CAR) of everything under `cid`, each block verified and only once."""


@runtime_checkable
class Importing(Protocol):
    """Stores whole content under the CID that it has elsewhere."""

    @abstractmethod
    def import_archive(self, cid: str, pieces: Iterable[bytes], info: PinInfo) -> Added:
        """Store an archive (CAR) whose only root is `cid`, and pin it; all of it or nothing."""


@runtime_checkable
class AsyncImporting(Protocol):
    """`Importing`, awaited."""

    @abstractmethod
    async def import_archive(self, cid: str, pieces: AsyncIterable[bytes], info: PinInfo) -> Added:
        """Store an archive (CAR) whose only root is `cid`, and pin it; all of it or nothing."""


REFUSALS: Final[Mapping[str, str]] = {
    "Linkable": "has no addresses to share; share the CID",
    "Reconfigurable": "takes no other options; make a new client",
    "Openable": "cannot open files in parts; use download",
    "Listing": "cannot list what it keeps; keep the CIDs of your records",
    "Annotating": "keeps no key-values; leave keyvalues out",
    "Finding": "can only list pins by name; leave the other filters out",
    "Updating": "cannot change pins; store the content again",
    "Browsing": "cannot look into directories; keep a list of your files",
    "PinningFrom": "cannot be told where content is; pin it by its CID alone",
    "Reachable": "does not say at which addresses it is on the network; look there yourself",
    "Pinning": "cannot pin content by its CID; download it and upload it here",
    "Directories": "cannot store directories; upload the files one by one",
    "CarImport": "cannot import archives; upload the files",
    "CarExport": "cannot export archives; download the files",
    "Signing": "makes no signed links; share the address of url(), or let pinata sign uploads",
    "Exporting": "cannot give content block by block; download it and upload it there",
    "Importing": "cannot store archives; download the content and upload it there",
}
"""For each capability, the error message of a provider without it, with the alternative."""
