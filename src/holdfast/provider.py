"""All that the author of a provider needs.

Subclass `BaseProvider` or `AsyncBaseProvider`, and define `add`, `unpin` and `check_credentials`.
To change what another provider does, subclass `WrappingProvider`. Any other class with the methods
of `StorageProvider` works too. Every provider should pass the tests in
`holdfast.testing.ProviderTests` and `AsyncProviderTests`.
"""

from holdfast._async.content_file import AsyncRanges as AsyncRanges
from holdfast._async.contract import AsyncStorageProvider as AsyncStorageProvider
from holdfast._async.providers.base import AsyncBaseProvider as AsyncBaseProvider
from holdfast._async.providers.base import Content as Content
from holdfast._async.providers.wrapping import AsyncWrappingProvider as AsyncWrappingProvider
from holdfast._async.reads.reader import AsyncBlockReader as AsyncBlockReader
from holdfast._async.reads.reader import AsyncEntryPages as AsyncEntryPages
from holdfast._async.reads.reader import AsyncReader as AsyncReader
from holdfast._async.reads.reader import AsyncWrappingReader as AsyncWrappingReader
from holdfast._sync.content_file import Ranges as Ranges
from holdfast._sync.contract import StorageProvider as StorageProvider
from holdfast._sync.providers.base import BaseProvider as BaseProvider
from holdfast._sync.providers.wrapping import WrappingProvider as WrappingProvider
from holdfast._sync.reads.reader import BlockReader as BlockReader
from holdfast._sync.reads.reader import EntryPages as EntryPages
from holdfast._sync.reads.reader import Reader as Reader
from holdfast._sync.reads.reader import WrappingReader as WrappingReader
from holdfast.calls import Call as Call
from holdfast.content.cid import CID as CID
from holdfast.content.reference import Reference as Reference
from holdfast.records import Added as Added
from holdfast.records import Entry as Entry
from holdfast.records import Pin as Pin
from holdfast.records import PinFilter as PinFilter
from holdfast.records import PinInfo as PinInfo
from holdfast.sinks.sinks import BytesReader as BytesReader
from holdfast.sinks.sinks import Finish as Finish
from holdfast.sinks.sinks import Sink as Sink
from holdfast.sinks.sinks import spool as spool
from holdfast.sources.archive_sources import ArchiveSource as ArchiveSource
from holdfast.sources.folder_source import FolderSource as FolderSource
from holdfast.sources.folder_source import plain_progress as plain_progress
from holdfast.sources.sources import Progress as Progress
from holdfast.sources.sources import Source as Source
from holdfast.sources.sources import WrappingSource as WrappingSource
