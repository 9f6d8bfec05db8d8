"""The embedded provider: a repository on this machine's disk, without account or network."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from holdfast._async.content_file import AsyncContentFile, AsyncRepositoryRanges
from holdfast._async.runtime import run_blocking, run_interruptible
from holdfast.calls import Call, Deadline
from holdfast.config import ClientConfig
from holdfast.config.fields import fields_bound_to
from holdfast.content.cid import CID
from holdfast.content.media_types import told_type
from holdfast.content.profiles import profile_for
from holdfast.content.reference import Reference
from holdfast.content.unixfs.files import FileImporter
from holdfast.errors import (
    ClientClosedError,
    ConfigError,
    NotFoundError,
    ProviderError,
    RequestTimeoutError,
)
from holdfast.files.blob import Blob
from holdfast.files.locations import data_folder
from holdfast.files.sinks import Sink, SpoolSink, TargetSink, TextSink
from holdfast.files.sources import Progress, Source
from holdfast.protocol import json_text
from holdfast.protocol.gateway import Gateway
from holdfast.records import Pin
from holdfast.repository import PinQuery, Repository

BATCH_SIZE = 4 << 20  # bytes that one hop to a worker thread reads and proves …
BATCH_PIECES = 1000  # … and pieces, of which each takes its time, however small it is


class AsyncLocalProvider:
    """Keeps content in a folder: `path`, else the platform's folder for user data.

    The CIDs are those that an IPFS node gives under the configured profile. Every block is proven
    when it is read.

    Example:
        >>> from holdfast import AsyncClient
        >>> async def example(folder: str) -> str:
        ...     async with await AsyncClient.init(path=folder) as client:
        ...         record = await client.store([1, 2, 3])
        ...         return record.cid
    """

    def __init__(self, config: ClientConfig, *, repository: Repository | None = None) -> None:
        self.config = config
        self._profile = profile_for(config.profile, config.cid_version)
        self._repository = repository or _open(config)
        self._owns_repository = repository is None
        self._closed = False

    @classmethod
    def from_config(cls, config: ClientConfig) -> Self:
        """The provider that `config` describes; its folder is made if it is not there."""
        return cls(config)

    def with_config(self, config: ClientConfig) -> Self:
        """A copy with `config` over the same folder."""
        for name in fields_bound_to("repository"):
            if getattr(config, name) != getattr(self.config, name):
                raise ConfigError(
                    f"{name} belongs to the repository, which is shared: make a new client for it"
                )
        return type(self)(config, repository=self._repository)

    @property
    def repository(self) -> Repository:
        """The repository underneath."""
        if self._closed:
            raise ClientClosedError
        return self._repository

    async def put_json(self, text: str, *, name: str) -> str:
        """Keep the JSON `text` under `name`; return its CID."""
        about = {"name": name, "type": "application/json"}
        with self._call("store") as call:
            pin, _ = await run_blocking(self.repository.add, text.encode(), self._profile, **about)
            call.cid = pin.cid
            return pin.cid

    async def get_json(self, cid: str) -> Any:
        """The JSON value at `cid`."""
        with self._call("retrieve", cid, total=self.config.timeouts.total) as call:
            sink = TextSink(self.config.max_json_bytes)
            await self._read(Reference.parse(cid), sink, None, call.deadline)
            return json_text.from_text(sink.data)

    async def put_file(self, source: Source, *, name: str, progress: Progress | None = None) -> str:
        """Keep the bytes of `source` as a file called `name`; return its CID."""
        with self._call("upload") as call:
            call.cid = cid = await self._add(source, name, progress)
            return cid

    async def _add(self, source: Source, name: str, progress: Progress | None) -> str:
        adding = self.repository.adding()
        importer = FileImporter(self._profile, adding.put)
        chunks = source.chunks()
        done = 0
        try:
            while chunk := await run_interruptible(next, chunks, b""):
                await run_blocking(importer.update, chunk)
                done += len(chunk)
                if progress is not None:
                    progress(done, source.size)
            part = await run_blocking(importer.finish)
            about = {"name": name, "type": told_type(source.type, name), "size": part.dag_size}
            await run_blocking(adding.pin, part.cid, **about)
            if progress is not None and not done:
                progress(0, 0)
            return str(part.cid)
        finally:
            await run_blocking(adding.close)

    async def get_file(
        self,
        cid: str,
        *,
        to: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> Blob:
        """The file at `cid`; with `to`, written there whole or not at all."""
        reference = Reference.parse(cid)
        # Beside its target: what lies on this machine needs no resuming.
        sink = SpoolSink() if to is None else TargetSink(to, cache=None, reference=reference)
        with self._call("download", cid) as call:
            try:
                await run_blocking(sink.open)
                pin = await self._read(reference, sink, progress, call.deadline)
                await run_blocking(sink.commit)
                name = reference.path[-1] if reference.path else None
                return sink.blob(type=pin.type if pin is not None else "", name=name)
            finally:
                await run_blocking(sink.discard)

    async def open_file(self, cid: str) -> AsyncContentFile:
        """The file at `cid`, to be read anywhere in it."""
        reference = Reference.parse(cid)
        with self._call("open", cid):
            repository = self.repository
            found = await run_blocking(_find, repository, reference)
            size = await run_blocking(repository.file_size, found)
        name = reference.path[-1] if reference.path else None
        total = self.config.timeouts.total
        ranges = AsyncRepositoryRanges(repository, found, size, total=total)
        return AsyncContentFile(ranges, name=name)

    async def delete(self, cid: str) -> None:
        """Unpin `cid`; `ProviderError` where it is not pinned."""
        with self._call("revoke", cid):
            if not await run_blocking(self.repository.unpin, CID.parse(Reference.parse_cid(cid))):
                raise ProviderError(f"The current user has not pinned the cid: {cid}")

    async def test_authentication(self) -> None:
        """Return if the repository can be read."""
        with self._call("test_connection"):
            await run_blocking(self.repository.totals)

    def _call(self, operation: str, cid: str | None = None, *, total: float | None = None) -> Call:
        return Call(operation, cid=cid, total=total, hook=self.config.on_event)

    async def list_pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        """What is pinned, newest first."""
        query = PinQuery(name_contains=name, limit=limit)
        return await run_blocking(self.repository.pins, query)

    def url(self, cid: str) -> str:
        """The address of `cid` at the first gateway that is configured, such as a node of ours."""
        gateways = self.config.gateway_url
        return Gateway(gateways[0]).url(Reference.parse(cid)) if gateways else f"ipfs://{cid}"

    async def import_car(self, pieces: Iterable[bytes]) -> list[str]:
        """Take in an archive and pin its roots; return their CIDs."""
        pins = await run_blocking(self.repository.import_car, pieces)
        return [pin.cid for pin in pins]

    def export_car(self, cid: str) -> Iterator[bytes]:
        """The archive of everything under `cid`."""
        return self.repository.export_car(CID.parse(Reference.parse_cid(cid)))

    async def aclose(self) -> None:
        """Close the repository, unless it is another's."""
        self._closed = True
        if self._owns_repository:
            await run_blocking(self._repository.close)

    async def _read(
        self, reference: Reference, sink: Sink, progress: Progress | None, deadline: Deadline
    ) -> Pin | None:
        """Fill `sink` with the file at `reference`; the pin that keeps it, if it has its own."""
        repository = self.repository
        cid = await run_blocking(_find, repository, reference)
        total = await run_blocking(repository.file_size, cid) if progress is not None else None
        pieces = repository.read(cid)
        done = 0
        while count := await run_blocking(_pour, pieces, sink):
            done += count
            left = deadline.left()
            if left is not None and left <= 0:
                raise RequestTimeoutError(f"{reference} could not be read in time")
            if progress is not None:
                progress(done, total)
        if progress is not None and not done:
            progress(0, 0)
        return await run_blocking(repository.find_pin, cid)


def _pour(pieces: Iterator[bytes], sink: Sink) -> int:
    """Write some pieces into `sink`, and return how many bytes they had."""
    done = 0
    for count, piece in enumerate(pieces, start=1):
        sink.write(piece)
        done += len(piece)
        if done >= BATCH_SIZE or count >= BATCH_PIECES:
            break
    return done


def _open(config: ClientConfig) -> Repository:
    try:
        path = Path(config.path) if config.path is not None else data_folder()
        return Repository(path)
    except OSError as error:
        where = config.path or "by default"
        raise ConfigError(f"path {where} cannot hold a repository: {error.strerror}") from None


def _find(repository: Repository, reference: Reference) -> CID:
    """What `reference` leads to; `NotFoundError` where it is not here."""
    if not repository.has(reference.cid):
        raise NotFoundError(
            f"{reference.cid} is not in this store: it was stored elsewhere, or revoked and removed"
        )
    return repository.resolve(reference.cid, reference.path)
