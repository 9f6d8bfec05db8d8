"""The seam between a client and a place where content is kept.

A provider of your own implements one of these (subclassing is optional) and either goes straight
into ``Client(provider=…)`` or registers under a name, see `holdfast.registry`. What must hold of it
is written as tests, to be subclassed: `holdfast.testing.ProviderTests`, `AsyncProviderTests`.
"""

import os
from abc import abstractmethod
from typing import Any, Protocol, Self, runtime_checkable

from holdfast.config import ClientConfig
from holdfast.files.blob import Blob
from holdfast.files.sources import Progress, Source


@runtime_checkable
class StorageProvider(Protocol):
    """Keeps JSON and files by CID, and gives them back."""

    @abstractmethod
    def put_json(self, text: str, *, name: str) -> str:
        """Keep the JSON `text`, under `name` in the provider's own lists; return its CID."""

    @abstractmethod
    def get_json(self, cid: str) -> Any:
        """The JSON value at `cid`, which may carry a path: ``CID/a/b.json``."""

    @abstractmethod
    def put_file(self, source: Source, *, name: str, progress: Progress | None = None) -> str:
        """Keep the bytes of `source` as a file called `name`; return its CID."""

    @abstractmethod
    def get_file(
        self,
        cid: str,
        *,
        to: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> Blob:
        """The file at `cid`; with `to`, written there, whole or not at all."""

    @abstractmethod
    def delete(self, cid: str) -> None:
        """Let go of `cid`; `ProviderError` where it was not kept."""

    @abstractmethod
    def test_authentication(self) -> None:
        """Return if the credentials are good, else raise."""

    @abstractmethod
    def close(self) -> None:
        """Release connections and files. A second time does nothing.

        Every other call is a `ClientClosedError` from then on.
        """


@runtime_checkable
class AsyncStorageProvider(Protocol):
    """`StorageProvider`, awaited."""

    @abstractmethod
    async def put_json(self, text: str, *, name: str) -> str:
        """Keep the JSON `text`, under `name` in the provider's own lists; return its CID."""

    @abstractmethod
    async def get_json(self, cid: str) -> Any:
        """The JSON value at `cid`, which may carry a path: ``CID/a/b.json``."""

    @abstractmethod
    async def put_file(self, source: Source, *, name: str, progress: Progress | None = None) -> str:
        """Keep the bytes of `source` as a file called `name`; return its CID."""

    @abstractmethod
    async def get_file(
        self,
        cid: str,
        *,
        to: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> Blob:
        """The file at `cid`; with `to`, written there, whole or not at all."""

    @abstractmethod
    async def delete(self, cid: str) -> None:
        """Let go of `cid`; `ProviderError` where it was not kept."""

    @abstractmethod
    async def test_authentication(self) -> None:
        """Return if the credentials are good, else raise."""

    @abstractmethod
    async def aclose(self) -> None:
        """Release connections and files. A second time does nothing.

        Every other call is a `ClientClosedError` from then on.
        """


@runtime_checkable
class Linkable(Protocol):
    """A provider whose content has addresses to share."""

    def url(self, cid: str) -> str:
        """The address at which others find `cid`."""


@runtime_checkable
class Reconfigurable(Protocol):
    """A provider that can be had with other options over the same connections."""

    def with_config(self, config: ClientConfig) -> Self:
        """A copy with `config` over the same connections; `ConfigError` where they cannot."""


@runtime_checkable
class Openable(Protocol):
    """A provider whose files can be read in parts."""

    def open_file(self, cid: str) -> Any:
        """The file at `cid`, readable and seekable; of an async provider, awaited."""


@runtime_checkable
class Listing(Protocol):
    """A provider that can tell what it keeps."""

    def list_pins(self, *, name: str | None = None, limit: int | None = None) -> Any:
        """What is pinned, a list of `Pin`s, newest first; of an async provider, awaited.

        `name` is a part of the names that are asked for, `limit` the most pins to give.
        """
