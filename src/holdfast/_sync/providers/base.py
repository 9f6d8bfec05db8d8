# WARNING: this file is generated from src/holdfast/_async/providers/base.py
# by scripts/generate_sync.py. Change the original instead.
"""The base class of providers: everything that does not depend on where the content is stored."""

import copy
import io
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, ContextManager, Self  # noqa: UP035 - it has a twin

from holdfast._sync.content_file import ContentFile
from holdfast._sync.providers.browsing import ReaderBrowsing
from holdfast._sync.providers.exporting import ReaderExporting
from holdfast._sync.providers.imports import Imports, ignore
from holdfast._sync.reads.reader import Reader
from holdfast._sync.runtime import run_blocking
from holdfast.calls import Call
from holdfast.config import ClientConfig
from holdfast.config.locations import cache_folder
from holdfast.content.reference import Reference
from holdfast.errors import ClientClosedError, ConfigError
from holdfast.files.blob import Blob
from holdfast.files.sinks import SpoolSink, TargetSink, TextSink
from holdfast.files.sources import Progress, Source
from holdfast.protocol import json_text
from holdfast.protocol.gateway import Gateway
from holdfast.provider import (
    Annotating,
    DeclaresCapabilities,
    Linkable,
    Openable,
    Reconfigurable,
    StorageProvider,
)
from holdfast.records import Added, PinInfo

JSON_TYPE = "application/json"


class BaseProvider(
    Imports,
    ReaderBrowsing,
    ReaderExporting,
    DeclaresCapabilities,
    StorageProvider,
    Annotating,
    Openable,
    Linkable,
    Reconfigurable,
):
    """A provider over a reader and three methods: `add_file`, `unpin` and `check_credentials`.

    A subclass defines these. The base class does the rest: JSON, targets of downloads, events,
    deadlines, closing, copies with other options. Each of the three methods gets the current
    `Call`, which has the deadline and reports events.

    To add a capability, add a base class from `holdfast.provider`, such as `Listing`, and
    define its method. The method starts its own call: ``with self.call("pins") as call``.

    Attributes:
        config: The configuration of the provider.
        reader: Reads and verifies content, such as a `holdfast.BlockReader`.

    Example:
        >>> from holdfast import BlockReader
        >>> from holdfast.provider import CID
        >>> class MemoryProvider(BaseProvider):
        ...     def __init__(self, config: ClientConfig) -> None:
        ...         self.blocks: dict[CID, bytes] = {}
        ...         super().__init__(config, reader=BlockReader(self.get_block))
        ...     def get_block(self, cid: CID) -> bytes:
        ...         return self.blocks[cid]
        ...     def add_file(self, source, info, call, progress):
        ...         root = self.import_file(source, self.blocks.__setitem__, progress)
        ...         return Added(cid=str(root.cid))
        ...     def unpin(self, cid, call):
        ...         del self.blocks[CID.parse(cid)]
        ...     def check_credentials(self, call):
        ...         pass
        >>> MemoryProvider(ClientConfig()).url("bafkqaaa")
        'ipfs://bafkqaaa'
    """

    # The fields of the configuration that a copy cannot change, and what they belong to.
    shared_fields: ClassVar[tuple[str, ...]] = ("provider", "provider_options")
    shared_by: ClassVar[str] = "the provider, which is shared"

    def __init__(self, config: ClientConfig, *, reader: Reader) -> None:
        self.config = config
        self.reader = reader
        self._lifetime = _Lifetime()

    @classmethod
    def from_config(cls, config: ClientConfig) -> Self:
        """Return the provider that `config` describes."""
        return cls(config)  # type: ignore[call-arg]  # a subclass takes a configuration alone

    # For subclasses to define

    @abstractmethod
    def add_file(self, source: Source, info: PinInfo, call: Call, progress: Progress, /) -> Added:
        """Store the bytes of `source` as a file; call `progress` with the bytes done and the total.

        A provider that stores blocks can make them with `import_file`; those of a directory, with
        `import_folder`.
        """

    def add_json(self, text: str, info: PinInfo, call: Call, /) -> Added:
        """Store the JSON `text`; as a file, unless a subclass overrides this."""
        file = io.BytesIO(text.encode())
        source = Source(
            file, size=len(file.getbuffer()), type=JSON_TYPE, rewind=lambda: file.seek(0)
        )
        return self.add_file(source, info, call, ignore)

    @abstractmethod
    def unpin(self, cid: str, call: Call, /) -> None:
        """Unpin `cid`, which is a valid CID; raise NotFoundError if it is not pinned."""

    @abstractmethod
    def check_credentials(self, call: Call, /) -> None:
        """Return if the provider can be used with its credentials; raise an error otherwise."""

    def release(self) -> None:
        """Close connections and files. `close` calls it until it has succeeded once."""

    # Defined here for all providers

    def call(
        self, operation: str, cid: str | None = None, *, total: bool = True
    ) -> ContextManager[Call]:
        """Start a call, which reports events. It has a deadline if `total` is True.

        Raise ClientClosedError if the provider is closed.
        """
        return self._call(operation, cid, self.config.timeouts.total if total else None)

    @contextmanager
    def _call(self, operation: str, cid: str | None, total: float | None) -> Iterator[Call]:
        with Call(operation, cid=cid, total=total, hook=self.config.on_event) as call:
            self.check_open()
            yield call

    def check_open(self) -> None:
        """Raise ClientClosedError if the provider is closed."""
        if self._lifetime.closed:
            raise ClientClosedError

    def put_json(self, text: str, *, name: str) -> str:
        """Store the JSON `text` under `name`; return its CID."""
        return str((self.pin_json(text, PinInfo(name=name))).cid)

    def pin_json(self, text: str, info: PinInfo) -> Added:
        """Store the JSON `text` with a name and key-values."""
        with self.call("store") as call:
            added = self.add_json(text, info, call)
            call.cid = str(added.cid)
            return added

    def get_json(self, cid: str) -> Any:
        """Return the JSON value at `cid`."""
        with self.call("retrieve", cid) as call:
            sink = TextSink(self.config.max_json_bytes)
            self.reader.read(Reference.parse(cid), sink, call)
            return json_text.from_content(sink.data)

    def put_file(self, source: Source, *, name: str, progress: Progress | None = None) -> str:
        """Store the bytes of `source` as a file called `name`; return its CID."""
        return str((self.pin_file(source, PinInfo(name=name), progress=progress)).cid)

    def pin_file(self, source: Source, info: PinInfo, *, progress: Progress | None = None) -> Added:
        """Store the bytes of `source` as a file, with a name and key-values."""
        with self.call("upload", total=False) as call:
            added = self.add_file(source, info, call, progress or ignore)
            call.cid = str(added.cid)
            return added

    def get_file(
        self,
        cid: str,
        *,
        to: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
        max_bytes: int | None = None,
    ) -> Blob:
        """Return the file at `cid`; with `to`, write it there, complete or not at all.

        More than `max_bytes` are a TooLargeError.
        """
        reference = Reference.parse(cid)
        if to is None:
            sink: SpoolSink | TargetSink = SpoolSink(max_bytes)
        else:
            # A download from this machine is quick to repeat: nothing of it is kept.
            cache = cache_folder(self.config.cache_path) if self.reader.is_remote else None
            sink = TargetSink(to, cache=cache, reference=reference, max_bytes=max_bytes)
        with self.call("download", cid, total=False) as call:
            try:
                _run(sink, sink.open)
                media_type = self.reader.read(reference, sink, call, progress=progress)
                _run(sink, sink.commit)
                return sink.blob(type=media_type, name=_name(reference))
            finally:
                _run(sink, sink.discard)

    def open_file(self, cid: str) -> ContentFile:
        """Return the file at `cid`, whose parts are read and verified on demand."""
        reference = Reference.parse(cid)
        with self.call("open", cid) as call:
            ranges = self.reader.open(reference, call)
        return ContentFile(ranges, name=_name(reference))

    def delete(self, cid: str) -> None:
        """Unpin `cid`; raise NotFoundError if it is not pinned."""
        with self.call("revoke", cid) as call:
            self.unpin(Reference.parse_cid(cid), call)

    def test_authentication(self) -> None:
        """Return if the provider can be used with its credentials; raise an error otherwise."""
        with self.call("test_connection") as call:
            self.check_credentials(call)

    def url(self, cid: str) -> str:
        """Return the address of `cid` at the first gateway of the configuration, if it has one."""
        gateways = self.config.gateway_url
        return Gateway(gateways[0]).url(Reference.parse(cid)) if gateways else f"ipfs://{cid}"

    def with_config(self, config: ClientConfig) -> Self:
        """Return a copy with `config` that shares the connections and files of this provider."""
        for name in self.shared_fields:
            if getattr(config, name) != getattr(self.config, name):
                raise ConfigError(f"{name} belongs to {self.shared_by}: make a new client for it")
        return self.copy_with(config)

    def copy_with(self, config: ClientConfig) -> Self:
        """Return a copy with `config`, whose shared fields have not changed.

        Override this if the provider stores values of its configuration other than `config`.
        """
        other = copy.copy(self)
        other.config = config
        return other

    def close(self) -> None:
        """Close the provider. A second time does nothing."""
        self._lifetime.closed = True
        if not self._lifetime.released:
            self.release()
            self._lifetime.released = True


@dataclass(slots=True)
class _Lifetime:
    """Whether a provider is closed, and has released its resources. Its copies share this."""

    closed: bool = False
    released: bool = False


def _run(sink: SpoolSink | TargetSink, step: Callable[[], None]) -> None:
    """Do a `step` of `sink`: on a worker thread, unless the sink is in memory."""
    if sink.is_in_memory:
        step()
    else:
        run_blocking(step)


def _name(reference: Reference) -> str | None:
    return reference.path[-1] if reference.path else None
