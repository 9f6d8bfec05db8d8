"""The embedded provider: a repository on this machine's disk, without account or network."""

from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from holdfast._async.providers.base import JSON_TYPE, AsyncBaseProvider
from holdfast._async.reads.interface import AsyncRanges
from holdfast._async.runtime import now, run_blocking
from holdfast.calls import Call
from holdfast.config import ClientConfig
from holdfast.content.cid import CID
from holdfast.content.media_types import told_type
from holdfast.content.profiles import profile_for
from holdfast.content.reference import Reference
from holdfast.errors import ConfigError, NotFoundError, ProviderError, RequestTimeoutError
from holdfast.files.locations import data_folder
from holdfast.files.sinks import Sink
from holdfast.files.sources import Progress, Source
from holdfast.provider import AsyncCarImport, AsyncListing, CarExport
from holdfast.records import Added, Entry, Pin, PinInfo
from holdfast.repository import PinQuery, Repository


class AsyncLocalProvider(AsyncBaseProvider, AsyncListing, AsyncCarImport, CarExport):
    """Keeps content in a folder: `path`, else the platform's folder for user data.

    The CIDs are those that an IPFS node gives under the configured profile. Every block is verified
    when it is read.

    Example:
        >>> from holdfast import AsyncClient
        >>> async def example(folder: str) -> str:
        ...     async with await AsyncClient.init(path=folder) as client:
        ...         record = await client.store([1, 2, 3])
        ...         return record.cid
    """

    shared_fields = ("provider", "path")
    shared_by = "the repository, which is shared"

    def __init__(self, config: ClientConfig, *, repository: Repository | None = None) -> None:
        self._repository = repository or _open(config)
        reader = _AsyncRepositoryReader(self._repository, config.timeouts.total)
        super().__init__(config, reader=reader)
        self._owns_repository = repository is None

    @property
    def repository(self) -> Repository:
        """The repository underneath."""
        self.check_open()
        return self._repository

    async def add_json(self, text: str, info: PinInfo, _call: Call, /) -> Added:
        """Keep the JSON `text`."""
        profile = profile_for(self.config.profile, self.config.cid_version)
        about = _about(info, JSON_TYPE)
        pin, known = await run_blocking(self.repository.add, text.encode(), profile, **about)
        return Added(cid=pin.cid, duplicate=known, pin_id=pin.id)

    async def add_file(
        self, source: Source, info: PinInfo, _call: Call, progress: Progress, /
    ) -> Added:
        """Keep the bytes of `source` as a file."""
        adding = self.repository.adding()
        try:
            part = await self.import_file(source, adding.put, progress)
            about = _about(info, told_type(source.type, info.name))
            pin, known = await run_blocking(adding.pin, part.cid, size=part.dag_size, **about)
            return Added(cid=pin.cid, duplicate=known, pin_id=pin.id)
        finally:
            await run_blocking(adding.close)

    async def unpin(self, cid: str, _call: Call, /) -> None:
        """Unpin `cid`."""
        if not await run_blocking(self.repository.unpin, CID.parse(cid)):
            raise ProviderError(f"The current user has not pinned the cid: {cid}")

    async def check_credentials(self, _call: Call, /) -> None:
        """Return if the repository can be read."""
        await run_blocking(self.repository.totals)

    async def list_pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        """Return what is pinned, newest first."""
        async with self.call("pins"):
            query = PinQuery(name_contains=name, limit=limit)
            return await run_blocking(self.repository.pins, query)

    async def import_car(self, pieces: Iterable[bytes]) -> list[str]:
        """Import an archive and pin its roots; return their CIDs."""
        pins = await run_blocking(self.repository.import_car, pieces)
        return [pin.cid for pin in pins]

    def export_car(self, cid: str) -> Iterator[bytes]:
        """Yield the archive of everything under `cid`."""
        return self.repository.export_car(CID.parse(Reference.parse_cid(cid)))

    def copy_with(self, config: ClientConfig) -> Self:
        """Return a copy with `config` over the same folder."""
        return type(self)(config, repository=self._repository)

    async def release(self) -> None:
        """Close the repository, unless another provider opened it."""
        if self._owns_repository:
            await run_blocking(self._repository.close)


def _about(info: PinInfo, media_type: str) -> dict[str, Any]:
    return {"name": info.name, "keyvalues": info.keyvalues, "type": media_type}


def _open(config: ClientConfig) -> Repository:
    try:
        path = Path(config.path) if config.path is not None else data_folder()
        return Repository(path)
    except OSError as error:
        where = config.path or "by default"
        raise ConfigError(f"path {where} cannot hold a repository: {error.strerror}") from None


BATCH_SIZE = 4 << 20
BATCH_PIECES = 1000


class AsyncRepositoryRanges:
    """Parts of a file in a repository; each is read in `total` seconds, or an error is raised."""

    def __init__(
        self, repository: Repository, cid: CID, size: int, *, total: float | None = None
    ) -> None:
        self._repository = repository
        self._cid = cid
        self._total = total
        self.size = size

    async def read(self, start: int, stop: int) -> bytes | bytearray:
        """Return the bytes from `start` up to `stop`."""
        return await run_blocking(self._read, start, stop)

    def _read(self, start: int, stop: int) -> bytearray:
        until = None if self._total is None else now() + self._total
        data = bytearray()  # not a list of pieces: there may be millions of them
        for piece in self._repository.read(self._cid, start, stop):
            data += piece
            if until is not None and now() > until:
                raise RequestTimeoutError(f"{self._cid} could not be read in time")
        return data


class _AsyncRepositoryReader:
    """Interim."""

    def __init__(self, repository: Repository, total: float | None) -> None:
        self._repository = repository
        self._total = total

    async def read(
        self, reference: Reference, sink: Sink, call: Call, *, progress: Progress | None = None
    ) -> str:
        """Interim."""
        repository = self._repository
        cid = await run_blocking(_find, repository, reference)
        total = await run_blocking(repository.file_size, cid) if progress is not None else None
        pieces = repository.read(cid)
        done = 0
        while count := await run_blocking(_pour, pieces, sink):
            done += count
            left = call.deadline.left()
            if left is not None and left <= 0:
                raise RequestTimeoutError(f"{reference} could not be read in time")
            if progress is not None:
                progress(done, total)
        if progress is not None and not done:
            progress(0, 0)
        pin = await run_blocking(repository.find_pin, cid)
        return pin.type if pin is not None else ""

    async def open(self, reference: Reference, _call: Call) -> AsyncRanges:
        """Interim."""
        found = await run_blocking(_find, self._repository, reference)
        size = await run_blocking(self._repository.file_size, found)
        return AsyncRepositoryRanges(self._repository, found, size, total=self._total)

    def entries(self, reference: Reference, call: Call) -> AsyncIterator[Entry]:
        """Interim."""
        raise NotImplementedError


def _pour(pieces: Iterator[bytes], sink: Sink) -> int:
    done = 0
    for count, piece in enumerate(pieces, start=1):
        sink.write(piece)
        done += len(piece)
        if done >= BATCH_SIZE or count >= BATCH_PIECES:
            break
    return done


def _find(repository: Repository, reference: Reference) -> CID:
    """What `reference` leads to; `NotFoundError` where it is not here."""
    if not repository.has(reference.cid):
        raise NotFoundError(
            f"{reference.cid} is not in this store: it was stored elsewhere, or revoked and removed"
        )
    return repository.resolve(reference.cid, reference.path)
