"""Providers that are no subclass of `AsyncBaseProvider`, but have the methods of the contract."""

from typing import Any

from holdfast._async.contract import AsyncStorageProvider
from holdfast._async.providers.base import AsyncBaseProvider, Content, Lifetime
from holdfast._async.reads.reader import AsyncReader
from holdfast.calls import Call
from holdfast.config import ClientConfig
from holdfast.errors import UnsupportedError
from holdfast.records import Added, PinInfo
from holdfast.sources.archive_sources import ArchiveSource
from holdfast.sources.blob import Blob
from holdfast.sources.folder_source import FolderSource
from holdfast.sources.sources import Progress


def as_provider(provider: AsyncStorageProvider) -> AsyncBaseProvider:
    """Return `provider` itself if it has all methods of the base class, else an adapter."""
    return provider if isinstance(provider, AsyncBaseProvider) else AsyncForeignProvider(provider)


class AsyncForeignProvider(AsyncBaseProvider):
    """Calls `foreign` by the methods of the contract, and by the others that it has."""

    def __init__(self, foreign: AsyncStorageProvider) -> None:
        self.foreign: Any = foreign
        self._config = getattr(foreign, "config", None) or ClientConfig()
        self._lifetime = Lifetime()
        # Its other methods may have names of ours and do something else.
        contract = {*vars(AsyncStorageProvider), "check_pin"}
        for name, method in vars(AsyncBaseProvider).items():
            is_ours = name in contract or hasattr(method, "mark")
            if is_ours and name not in vars(AsyncForeignProvider) and self.supports(name):
                setattr(self, name, getattr(foreign, name))

    @property
    def reader(self) -> AsyncReader:
        """Raise UnsupportedError: the contract has no readers."""
        raise UnsupportedError(
            f"{self.title} cannot download folders; download the files one by one"
        )

    @property
    def title(self) -> str:
        """The name of the foreign class."""
        return type(self.foreign).__name__

    def supports(self, operation: str) -> bool:
        """Return whether the foreign provider has a method of this name.

        Its `add` is ours only if its class says what that takes.
        """
        is_ours = operation != "add" or hasattr(type(self.foreign), "takes")
        return is_ours and callable(getattr(self.foreign, operation, None))

    async def put(self, content: Content, info: PinInfo, progress: Progress | None = None) -> Added:
        """Store `content` by the method for it; by `add`, if the foreign provider has that."""
        if self.supports("add"):
            return await super().put(content, info, progress)
        if isinstance(content, FolderSource):
            return await self.require("add_directory").add_directory(
                content, info, progress=progress
            )
        if info.keyvalues:
            raise UnsupportedError(f"{self.title} does not store key-values; leave keyvalues out")
        if isinstance(content, ArchiveSource):
            raise self.refusal("import_archive")
        if content.json is None:
            cid = await self.foreign.put_file(content, name=info.name, progress=progress)
        else:
            cid = await self.foreign.put_json(content.json.decode(), name=info.name)
        return Added(cid=cid)

    async def get_file(self, cid: str, *, max_bytes: int | None = None, **options: Any) -> Blob:
        """Return the file at `cid`."""
        if max_bytes is not None:
            raise UnsupportedError(
                f"{self.title} has no max_bytes; look at the size with stat first"
            )
        blob: Blob = await self.foreign.get_file(cid, **options)
        return blob

    def url(self, cid: str) -> str:
        """Return the provider's own link to `cid`, if it has any."""
        return str(self.foreign.url(cid)) if self.supports("url") else f"ipfs://{cid}"

    async def unpin(self, cid: str, _call: Call, /) -> None:
        """Unpin `cid`."""
        await self.foreign.delete(cid)

    async def check_credentials(self, _call: Call, /) -> None:
        """Return if the provider accepts its credentials."""
        await self.foreign.test_authentication()
