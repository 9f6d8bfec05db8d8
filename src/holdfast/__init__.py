"""Holdfast pins JSON and files to IPFS and reads them back, verified against their CID.

Example:
    >>> from holdfast import Client
    >>> with Client.init() as client:
    ...     record = client.store({"hello": "world"})
    ...     client.retrieve(record.cid)
    {'hello': 'world'}
"""

from typing import TYPE_CHECKING

from holdfast._version import __version__ as __version__
from holdfast.lazy import lazy_names

if TYPE_CHECKING:
    from holdfast import car as car
    from holdfast import errors as errors
    from holdfast._async.client import AsyncClient as AsyncClient
    from holdfast._async.content_file import AsyncContentFile as AsyncContentFile
    from holdfast._async.contract import AsyncStorageProvider as AsyncStorageProvider
    from holdfast._async.outcomes import AsyncOutcomes as AsyncOutcomes
    from holdfast._async.providers.base import AsyncBaseProvider as AsyncBaseProvider
    from holdfast._async.providers.local import AsyncLocalProvider as AsyncLocalProvider
    from holdfast._async.providers.pinning import AsyncPinProvider as AsyncPinProvider
    from holdfast._sync.client import Client as Client
    from holdfast._sync.content_file import ContentFile as ContentFile
    from holdfast._sync.contract import StorageProvider as StorageProvider
    from holdfast._sync.outcomes import Outcomes as Outcomes
    from holdfast._sync.providers.base import BaseProvider as BaseProvider
    from holdfast._sync.providers.local import LocalProvider as LocalProvider
    from holdfast._sync.providers.pinning import PinProvider as PinProvider
    from holdfast.config import ClientConfig as ClientConfig
    from holdfast.config import Retries as Retries
    from holdfast.config import Timeouts as Timeouts
    from holdfast.config.settings_files import connections as connections
    from holdfast.events import Event as Event
    from holdfast.records import ClientMessage as ClientMessage
    from holdfast.records import ClientRecord as ClientRecord
    from holdfast.records import Copied as Copied
    from holdfast.records import Entry as Entry
    from holdfast.records import Health as Health
    from holdfast.records import Outcome as Outcome
    from holdfast.records import Pin as Pin
    from holdfast.records import PinProgress as PinProgress
    from holdfast.records import StoreOptions as StoreOptions
    from holdfast.records import Usage as Usage
    from holdfast.sources.blob import Blob as Blob
    from holdfast.sources.local_cids import compute_cid as compute_cid
    from holdfast.sources.local_cids import verify as verify

if not TYPE_CHECKING:  # which knows the names from above
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_async.client": "AsyncClient",
            "_async.content_file": "AsyncContentFile",
            "_async.contract": "AsyncStorageProvider",
            "_async.providers.base": "AsyncBaseProvider",
            "_async.providers.local": "AsyncLocalProvider",
            "_async.providers.pinning": "AsyncPinProvider",
            "_async.outcomes": "AsyncOutcomes",
            "car": "car",
            "config": "ClientConfig Retries Timeouts",
            "config.settings_files": "connections",
            "errors": "errors",
            "events": "Event",
            "records": "ClientMessage ClientRecord Copied Entry Health Outcome Pin PinProgress "
            "StoreOptions Usage",
            "sources.blob": "Blob",
            "sources.local_cids": "compute_cid verify",
        },
        "__version__",
    )
