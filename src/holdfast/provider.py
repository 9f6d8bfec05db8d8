"""All that the author of a provider needs.

Subclass `BaseProvider` or `AsyncBaseProvider`, and define `add`, `unpin` and `check_credentials`.
To change what another provider does, subclass `WrappingProvider`. Any other class with the methods
of `StorageProvider` works too. Every provider should pass the tests in
`holdfast.testing.ProviderTests` and `AsyncProviderTests`.
"""

from holdfast._async.content_file import AsyncRanges
from holdfast._async.contract import AsyncStorageProvider
from holdfast._async.providers.base import AsyncBaseProvider, Content
from holdfast._async.providers.wrapping import AsyncWrappingProvider
from holdfast._async.reads.reader import (
    AsyncBlockReader,
    AsyncEntryPages,
    AsyncReader,
    AsyncWrappingReader,
)
from holdfast._sync.content_file import Ranges
from holdfast._sync.contract import StorageProvider
from holdfast._sync.providers.base import BaseProvider
from holdfast._sync.providers.wrapping import WrappingProvider
from holdfast._sync.reads.reader import BlockReader, EntryPages, Reader, WrappingReader
from holdfast.calls import Call
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.records import Added, Entry, Pin, PinFilter, PinInfo
from holdfast.sinks.sinks import BytesReader, Finish, Sink, spool
from holdfast.sources.archive_sources import ArchiveSource
from holdfast.sources.folder_source import FolderSource, plain_progress
from holdfast.sources.sources import Progress, Source, WrappingSource

__all__ = [
    "CID",
    "Added",
    "ArchiveSource",
    "AsyncBaseProvider",
    "AsyncBlockReader",
    "AsyncEntryPages",
    "AsyncRanges",
    "AsyncReader",
    "AsyncStorageProvider",
    "AsyncWrappingProvider",
    "AsyncWrappingReader",
    "BaseProvider",
    "BlockReader",
    "BytesReader",
    "Call",
    "Content",
    "Entry",
    "EntryPages",
    "Finish",
    "FolderSource",
    "Pin",
    "PinFilter",
    "PinInfo",
    "Progress",
    "Ranges",
    "Reader",
    "Reference",
    "Sink",
    "Source",
    "StorageProvider",
    "WrappingProvider",
    "WrappingReader",
    "WrappingSource",
    "plain_progress",
    "spool",
]
