"""Holdfast pins JSON and files to IPFS and reads them back, verified against their CID.

Example:
    >>> from holdfast import Client
    >>> with Client.init() as client:
    ...     record = client.store({"hello": "world"})
    ...     client.retrieve(record.cid)
    {'hello': 'world'}
"""

from typing import TYPE_CHECKING

from holdfast._version import __version__
from holdfast.lazy import lazy_names

if TYPE_CHECKING:
    from holdfast import errors
    from holdfast._async.client import AsyncClient
    from holdfast._async.content_file import AsyncContentFile
    from holdfast._async.contract import AsyncStorageProvider
    from holdfast._async.outcomes import AsyncOutcomes
    from holdfast._async.providers.base import AsyncBaseProvider
    from holdfast._async.providers.local import AsyncLocalProvider
    from holdfast._async.providers.pinning import AsyncPinProvider
    from holdfast._sync.client import Client
    from holdfast._sync.content_file import ContentFile
    from holdfast._sync.contract import StorageProvider
    from holdfast._sync.outcomes import Outcomes
    from holdfast._sync.providers.base import BaseProvider
    from holdfast._sync.providers.local import LocalProvider
    from holdfast._sync.providers.pinning import PinProvider
    from holdfast.config import ClientConfig, Retries, Timeouts
    from holdfast.config.settings_files import connections
    from holdfast.events import Event
    from holdfast.records import (
        ClientMessage,
        ClientRecord,
        Copied,
        Entry,
        Outcome,
        Pin,
        StoreOptions,
    )
    from holdfast.sources.blob import Blob
    from holdfast.sources.local_cids import compute_cid, verify

__all__ = [
    "AsyncBaseProvider",
    "AsyncClient",
    "AsyncContentFile",
    "AsyncLocalProvider",
    "AsyncOutcomes",
    "AsyncPinProvider",
    "AsyncStorageProvider",
    "BaseProvider",
    "Blob",
    "Client",
    "ClientConfig",
    "ClientMessage",
    "ClientRecord",
    "ContentFile",
    "Copied",
    "Entry",
    "Event",
    "LocalProvider",
    "Outcome",
    "Outcomes",
    "Pin",
    "PinProvider",
    "Retries",
    "StorageProvider",
    "StoreOptions",
    "Timeouts",
    "__version__",
    "compute_cid",
    "connections",
    "errors",
    "verify",
]

if not TYPE_CHECKING:  # which knows the names from above
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_async.client": "AsyncClient",
            "_async.content_file": "AsyncContentFile",
            "_async.contract": "AsyncStorageProvider",
            "_async.providers.base": "AsyncBaseProvider",
            "_async.providers.local": "AsyncLocalProvider",
            "_async.providers.pinning": "AsyncPinProvider",
            "_async.outcomes": "AsyncOutcomes",
            "config": "ClientConfig Retries Timeouts",
            "config.settings_files": "connections",
            "errors": "errors",
            "events": "Event",
            "records": "ClientMessage ClientRecord Copied Entry Outcome Pin StoreOptions",
            "sources.blob": "Blob",
            "sources.local_cids": "compute_cid verify",
        },
        __all__,
    )
