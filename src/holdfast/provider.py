"""All that the author of a provider needs.

Subclass `BaseProvider` or `AsyncBaseProvider`, and define `add`, `unpin` and `check_credentials`.
To change what another provider does, subclass `WrappingProvider`. Any other class with the methods
of `StorageProvider` works too. Every provider should pass the tests in
`holdfast.testing.ProviderTests` and `AsyncProviderTests`.
"""

from holdfast._async.providers.base import AsyncBaseProvider
from holdfast._async.providers.imports import Content
from holdfast._async.providers.wrapping import AsyncWrappingProvider
from holdfast._async.reads.reader import AsyncBlockReader, AsyncReader
from holdfast._async.reads.wrapping import AsyncWrappingReader
from holdfast._sync.providers.base import BaseProvider
from holdfast._sync.providers.wrapping import WrappingProvider
from holdfast._sync.reads.reader import BlockReader, Reader
from holdfast._sync.reads.wrapping import WrappingReader
from holdfast.calls import Call
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.contract import AsyncStorageProvider, StorageProvider
from holdfast.files.archive_sources import ArchiveSource
from holdfast.files.folder_source import FolderSource
from holdfast.files.sources import Progress, Source
from holdfast.records import Added, Entry, Pin, PinFilter, PinInfo

__all__ = [
    "CID",
    "Added",
    "ArchiveSource",
    "AsyncBaseProvider",
    "AsyncBlockReader",
    "AsyncReader",
    "AsyncStorageProvider",
    "AsyncWrappingProvider",
    "AsyncWrappingReader",
    "BaseProvider",
    "BlockReader",
    "Call",
    "Content",
    "Entry",
    "FolderSource",
    "Pin",
    "PinFilter",
    "PinInfo",
    "Progress",
    "Reader",
    "Reference",
    "Source",
    "StorageProvider",
    "WrappingProvider",
    "WrappingReader",
]
