# WARNING: this file is generated from src/holdfast/_async/providers/foreign.py
# by scripts/generate_sync.py. Change the original instead.
"""Providers that are no subclass of `BaseProvider`, but have the methods of the contract."""

from typing import Any

from holdfast._sync.contract import StorageProvider
from holdfast._sync.providers.base import BaseProvider, Content, Lifetime
from holdfast._sync.reads.reader import Reader
from holdfast.calls import Call
from holdfast.config import ClientConfig
from holdfast.errors import UnsupportedError
from holdfast.records import Added, PinInfo
from holdfast.sources.archive_sources import ArchiveSource
from holdfast.sources.blob import Blob
from holdfast.sources.folder_source import FolderSource
from holdfast.sources.sources import Progress


def as_provider(provider: StorageProvider) -> BaseProvider:
    """Return `provider` itself if it has all methods of the base class, else an adapter."""
    return provider if isinstance(provider, BaseProvider) else ForeignProvider(provider)


class ForeignProvider(BaseProvider):
    """Calls `foreign` by the methods of the contract, and by the others that it has."""

    def __init__(self, foreign: StorageProvider) -> None:
        self.foreign: Any = foreign
        self._config = getattr(foreign, "config", None) or ClientConfig()
        self._lifetime = Lifetime()
        # Its other methods may have names of ours and do something else.
        contract = {*vars(StorageProvider), "check_pin"}
        for name, method in vars(BaseProvider).items():
            is_ours = name in contract or hasattr(method, "mark")
            if is_ours and name not in vars(ForeignProvider) and self.supports(name):
                setattr(self, name, getattr(foreign, name))

    @property
    def reader(self) -> Reader:
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

    def put(self, content: Content, info: PinInfo, progress: Progress | None = None) -> Added:
        """Store `content` by the method for it; by `add`, if the foreign provider has that."""
        if self.supports("add"):
            return super().put(content, info, progress)
        if isinstance(content, FolderSource):
            return self.require("add_directory").add_directory(content, info, progress=progress)
        if info.keyvalues:
            raise UnsupportedError(f"{self.title} does not store key-values; leave keyvalues out")
        if isinstance(content, ArchiveSource):
            raise self.refusal("import_archive")
        if content.json is None:
            cid = self.foreign.put_file(content, name=info.name, progress=progress)
        else:
            cid = self.foreign.put_json(content.json.decode(), name=info.name)
        return Added(cid=cid)

    def get_file(self, cid: str, *, max_bytes: int | None = None, **options: Any) -> Blob:
        """Return the file at `cid`."""
        if max_bytes is not None:
            raise UnsupportedError(
                f"{self.title} has no max_bytes; look at the size with stat first"
            )
        blob: Blob = self.foreign.get_file(cid, **options)
        return blob

    def url(self, cid: str) -> str:
        """Return the provider's own link to `cid`, if it has any."""
        return str(self.foreign.url(cid)) if self.supports("url") else f"ipfs://{cid}"

    def unpin(self, cid: str, _call: Call, /) -> None:
        """Unpin `cid`."""
        self.foreign.delete(cid)

    def check_credentials(self, _call: Call, /) -> None:
        """Return if the provider accepts its credentials."""
        self.foreign.test_authentication()
