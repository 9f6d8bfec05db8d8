"""Holdfast pins JSON and files to IPFS and reads them back, verified against their CID.

Example:
    >>> from holdfast import Client
    >>> with Client.init() as client:
    ...     record = client.store({"hello": "world"})
    ...     client.retrieve(record.cid)
    {'hello': 'world'}
"""

import importlib
from typing import TYPE_CHECKING, Any

from holdfast._version import __version__

if TYPE_CHECKING:
    from holdfast import errors
    from holdfast._async.client import AsyncClient
    from holdfast._async.content_file import AsyncContentFile
    from holdfast._async.contract import AsyncStorageProvider
    from holdfast._async.providers.base import AsyncBaseProvider
    from holdfast._async.providers.cluster import AsyncClusterProvider
    from holdfast._async.providers.kubo import AsyncKuboProvider
    from holdfast._async.providers.local import AsyncLocalProvider
    from holdfast._async.providers.pinata import AsyncPinataProvider
    from holdfast._async.providers.pinning import AsyncPinProvider
    from holdfast._async.providers.psa import AsyncPSAProvider
    from holdfast._async.reads.reader import AsyncBlockReader
    from holdfast._async.workers import AsyncOutcomes
    from holdfast._sync.client import Client
    from holdfast._sync.content_file import ContentFile
    from holdfast._sync.contract import StorageProvider
    from holdfast._sync.providers.base import BaseProvider
    from holdfast._sync.providers.cluster import ClusterProvider
    from holdfast._sync.providers.kubo import KuboProvider
    from holdfast._sync.providers.local import LocalProvider
    from holdfast._sync.providers.pinata import PinataProvider
    from holdfast._sync.providers.pinning import PinProvider
    from holdfast._sync.providers.psa import PSAProvider
    from holdfast._sync.reads.reader import BlockReader
    from holdfast._sync.workers import Outcomes
    from holdfast.config import ClientConfig, Retries, Timeouts
    from holdfast.config.settings_files import connections
    from holdfast.events import Event
    from holdfast.records import (
        Added,
        ClientMessage,
        ClientRecord,
        Copied,
        Entry,
        Outcome,
        Pin,
        PinFilter,
        PinInfo,
        StoreOptions,
    )
    from holdfast.sources.blob import Blob
    from holdfast.sources.local_cids import compute_cid, verify

__all__ = [
    "Added",
    "AsyncBaseProvider",
    "AsyncBlockReader",
    "AsyncClient",
    "AsyncClusterProvider",
    "AsyncContentFile",
    "AsyncKuboProvider",
    "AsyncLocalProvider",
    "AsyncOutcomes",
    "AsyncPSAProvider",
    "AsyncPinProvider",
    "AsyncPinataProvider",
    "AsyncStorageProvider",
    "BaseProvider",
    "Blob",
    "BlockReader",
    "Client",
    "ClientConfig",
    "ClientMessage",
    "ClientRecord",
    "ClusterProvider",
    "ContentFile",
    "Copied",
    "Entry",
    "Event",
    "KuboProvider",
    "LocalProvider",
    "Outcome",
    "Outcomes",
    "PSAProvider",
    "Pin",
    "PinFilter",
    "PinInfo",
    "PinProvider",
    "PinataProvider",
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

# Imported when first used: the command line, and the pytest plugin that every run of any tests
# loads, must not wait for what they do not use.
_LAZY = {
    "Added": "holdfast.records",
    "AsyncBaseProvider": "holdfast._async.providers.base",
    "AsyncBlockReader": "holdfast._async.reads.reader",
    "AsyncClient": "holdfast._async.client",
    "AsyncContentFile": "holdfast._async.content_file",
    "AsyncClusterProvider": "holdfast._async.providers.cluster",
    "AsyncKuboProvider": "holdfast._async.providers.kubo",
    "AsyncLocalProvider": "holdfast._async.providers.local",
    "AsyncOutcomes": "holdfast._async.workers",
    "AsyncPSAProvider": "holdfast._async.providers.psa",
    "AsyncPinProvider": "holdfast._async.providers.pinning",
    "AsyncPinataProvider": "holdfast._async.providers.pinata",
    "AsyncStorageProvider": "holdfast._async.contract",
    "BaseProvider": "holdfast._sync.providers.base",
    "Blob": "holdfast.sources.blob",
    "BlockReader": "holdfast._sync.reads.reader",
    "Client": "holdfast._sync.client",
    "ClientConfig": "holdfast.config",
    "ClientMessage": "holdfast.records",
    "ClientRecord": "holdfast.records",
    "ContentFile": "holdfast._sync.content_file",
    "Copied": "holdfast.records",
    "Entry": "holdfast.records",
    "Event": "holdfast.events",
    "ClusterProvider": "holdfast._sync.providers.cluster",
    "KuboProvider": "holdfast._sync.providers.kubo",
    "LocalProvider": "holdfast._sync.providers.local",
    "Outcome": "holdfast.records",
    "Outcomes": "holdfast._sync.workers",
    "Pin": "holdfast.records",
    "PinFilter": "holdfast.records",
    "PinInfo": "holdfast.records",
    "PSAProvider": "holdfast._sync.providers.psa",
    "PinProvider": "holdfast._sync.providers.pinning",
    "PinataProvider": "holdfast._sync.providers.pinata",
    "Retries": "holdfast.config",
    "StorageProvider": "holdfast._sync.contract",
    "StoreOptions": "holdfast.records",
    "Timeouts": "holdfast.config",
    "compute_cid": "holdfast.sources.local_cids",
    "connections": "holdfast.config.settings_files",
    "verify": "holdfast.sources.local_cids",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("holdfast.errors")
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
