# WARNING: this file is generated from src/holdfast/_async/providers/local.py
# by scripts/generate_sync.py. Change the original instead.
"""The embedded provider: a repository on this machine's disk, without account or network."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from holdfast._sync.providers.base import BaseProvider, Content
from holdfast._sync.reads.blocks import Blocks
from holdfast._sync.reads.reader import Reader
from holdfast._sync.runtime import run_blocking, run_interruptible
from holdfast.calls import Call
from holdfast.config import ClientConfig
from holdfast.config.fields import fields_bound_to
from holdfast.config.locations import data_folder
from holdfast.content.blocks import BlockCache
from holdfast.content.cid import CID
from holdfast.content.media_types import told_type
from holdfast.content.reference import Reference
from holdfast.content.unixfs.walks import Item, Walk
from holdfast.disk.copy_journal import Place
from holdfast.errors import ConfigError, NotFoundError, UnprovenError
from holdfast.hints import advise
from holdfast.records import Added, Pin, PinFilter, PinInfo, merged_keyvalues
from holdfast.repository import PinQuery, Repository
from holdfast.repository.pins import pin_pages
from holdfast.sources.archive_sources import ArchiveSource
from holdfast.sources.folder_source import FolderSource
from holdfast.sources.sources import Progress, Source

LOOKS: Final = 4  # queries in one job, each for about 1 MiB of blocks


class RepositoryBlocks(Blocks):
    """The blocks in a repository. Each job reads, verifies and writes a few MiB."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def advance(
        self,
        walk: Walk[Any, Item],
        cache: BlockCache,  # noqa: ARG002 - the repository needs no cache
        take: Callable[[list[Item]], object],
    ) -> None:
        """Feed `walk` a few MiB of blocks."""
        run_blocking(self._feed, walk, take)

    def block(self, cid: CID) -> bytes:
        """Return the block of `cid`."""
        return run_blocking(self._repository.block, cid)

    def _feed(self, walk: Walk[Any, Item], take: Callable[[list[Item]], object]) -> None:
        for _ in range(LOOKS):
            if walk.need is None:
                break
            take(self._repository.advance(walk))

    def find(self, reference: Reference, call: Call) -> CID:  # noqa: ARG002
        """Return the CID that `reference` leads to; `NotFoundError` if it is not in the store."""
        return run_blocking(self._find, reference)

    def _find(self, reference: Reference) -> CID:
        if not self._repository.has(reference.cid):
            words = "is not in this store: it was stored elsewhere, or revoked and removed"
            error = NotFoundError(f"{reference.cid} {words}")
            raise advise(error, "`pins` lists what is here", "`holdfast list` shows what is here")
        return self._repository.resolve(reference.cid, reference.path)

    def media_type(self, cid: CID) -> str:
        """Return the media type that was stored with the pin of `cid`, "" if it has none."""
        pin = run_blocking(self._repository.find_pin, cid)
        return "" if pin is None else pin.type


class RepositoryReader(Reader):
    """Reads content from `repository`.

    Args:
        repository: The repository.
        total: How many seconds the reading of one range of an open file may take.
    """

    def __init__(self, repository: Repository, *, total: float | None = None) -> None:
        super().__init__(total=total)
        self._blocks = RepositoryBlocks(repository)

    def blocks(
        self,
        reference: Reference,  # noqa: ARG002 - the repository has all blocks
        call: Call,  # noqa: ARG002
    ) -> RepositoryBlocks:
        """Return the blocks of the repository."""
        return self._blocks


class LocalProvider(BaseProvider):
    """Stores content in a folder: `path`, else the platform's folder for user data.

    The CIDs are those that an IPFS node computes for the configured profile. Every block is
    verified when it is read.

    Example:
        >>> from holdfast import Client
        >>> with Client.init(path="store") as client:
        ...     record = client.store([1, 2, 3])
        >>> record.cid
        'bafkreifgcxxk5yq54ulz3yea32gdauwi3kibcocanotryogagkcf67ku6q'
    """

    takes: tuple[type, ...] = (Source, FolderSource, ArchiveSource)
    shared_fields: ClassVar[tuple[str, ...]] = fields_bound_to("repository")
    shared_by = "the repository, which is shared"

    def __init__(self, config: ClientConfig, *, repository: Repository | None = None) -> None:
        self._repository = repository or _open(config)
        reader = RepositoryReader(self._repository, total=config.timeouts.total)
        super().__init__(config, reader=reader)
        self._owns_repository = repository is None

    @property
    def repository(self) -> Repository:
        """The repository that stores the content."""
        self.check_open()
        return self._repository

    def add(self, content: Content, info: PinInfo, _call: Call, progress: Progress, /) -> Added:
        """Store a file, a folder with its links and empty folders, or an archive."""
        if isinstance(content, ArchiveSource):
            return self._add_archive(content, info)
        if isinstance(content, Source) and content.json is not None:
            fields = _pin_fields(info, content.type)
            pin, duplicate = run_blocking(
                self.repository.add, content.json, self._profile, **fields
            )
            return self._added(pin, info, duplicate=duplicate)
        if isinstance(content, FolderSource):
            fields = {**_pin_fields(info, "directory"), "files": content.files}
        else:
            fields = _pin_fields(info, told_type(content.type, info.name))
        adding = self.repository.adding()
        try:
            part = self.import_content(content, adding.put, progress)
            pin, duplicate = run_blocking(adding.pin, part.cid, size=part.dag_size, **fields)
            return self._added(pin, info, duplicate=duplicate)
        finally:
            run_blocking(adding.close)

    def _add_archive(self, content: ArchiveSource, info: PinInfo) -> Added:
        archive = self.repository.importing(content.root)
        chunks = content.chunks()
        try:
            while chunk := run_interruptible(next, chunks, b""):
                run_blocking(archive.update, chunk)
            fields = {"name": info.name, "keyvalues": info.keyvalues}
            ((pin, duplicate),) = run_blocking(archive.pin, **fields)
        except BaseException:
            run_blocking(archive.discard)
            raise
        run_blocking(archive.close)
        return self._added(pin, info, duplicate=duplicate)

    def _added(self, pin: Pin, info: PinInfo, *, duplicate: bool) -> Added:
        if duplicate and info.is_explicit:
            self._change_known(pin.cid, info)
        return Added(cid=pin.cid, duplicate=duplicate, pin_id=pin.id)

    def _change_known(self, cid: str, info: PinInfo) -> Pin:
        """Give a pin that existed what the user gave."""
        return self._change(cid, info.name if info.given else None, info.keyvalues)

    def _change(self, cid: str, name: str | None, keyvalues: Mapping[str, Any] | None) -> Pin:
        change = partial(merged_keyvalues, changes=keyvalues or {})
        update = self.repository.update_pin
        pin = run_blocking(update, CID.parse(cid), name=name, change=change)
        if pin is None:
            raise _not_pinned(cid)
        return pin

    def update_pin(self, cid: str, *, name: str | None, keyvalues: Mapping[str, Any] | None) -> Pin:
        """Change the name, the key-values or both of the pin of `cid`."""
        with self.call("update", cid):
            return self._change(cid, name, keyvalues)

    def pin(self, cid: str, info: PinInfo) -> Pin:
        """Pin content that is in the store; raise NotFoundError if some of it is not."""
        with self.call("pin", cid):
            fields = {"name": info.name, "keyvalues": info.keyvalues}
            try:
                pin, duplicate = run_blocking(self.repository.pin, CID.parse(cid), **fields)
            except UnprovenError as error:
                missing = NotFoundError(
                    f"the embedded store does not have all of {cid}: import it as an archive "
                    "(CAR), or download it with another provider and upload it here"
                )
                raise advise(missing, "see `import_car`", "see `holdfast car import`") from error
            return self._change_known(cid, info) if duplicate and info.is_explicit else pin

    def unpin(self, cid: str, _call: Call, /) -> None:
        """Unpin `cid`."""
        if not run_blocking(self.repository.unpin, CID.parse(cid)):
            raise _not_pinned(cid)

    def check_credentials(self, _call: Call, /) -> None:
        """Return if the repository can be read."""
        run_blocking(self.repository.totals)

    def list_pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        """Return what is pinned, newest first."""
        with self.call("pins"):
            query = PinQuery(name_contains=name, limit=limit)
            return run_blocking(self.repository.pins, query)

    def find_pins(self, pin_filter: PinFilter, *, limit: int | None = None) -> Iterator[Pin]:
        """Yield the pins that match `pin_filter`, newest first, read page by page."""
        query = PinQuery(
            name_contains=pin_filter.name,
            cid=pin_filter.cid,
            created_from=pin_filter.since,
            created_to=pin_filter.until,
            matches=pin_filter.fits if pin_filter.keyvalues else None,
            limit=limit,
        )
        pages = pin_pages(self.repository.pins, query)
        while True:
            with self.call("pins"):
                page = run_blocking(next, pages, None)
            if page is None:
                return
            for pin in page:
                yield pin

    def import_car(self, pieces: Iterable[bytes]) -> list[str]:
        """Import an archive and pin its roots; return their CIDs."""
        pins = run_blocking(self.repository.import_car, pieces)
        return [pin.cid for pin in pins]

    def export_car(self, cid: str) -> Iterator[bytes]:
        """Yield the archive of everything under `cid`."""
        return self.repository.export_car(CID.parse(Reference.parse_cid(cid)))

    def own_block(self, cid: CID) -> bytes:
        """Return a block of the store."""
        with self.call("block", str(cid)):
            if not run_blocking(self.repository.has, cid):
                raise NotFoundError(f"{cid} is not in this store")
            return run_blocking(self.repository.block, cid)

    def place(self) -> Place:
        """Return the place of the store: its id, which it keeps when its folder is moved.

        A copy of the store has the same id, and another folder.
        """
        repository = self.repository
        folder = os.path.realpath(repository.path)
        return self.place_at(repository.id or folder, self.config.pin_api_url, folder=folder)

    def copy_with(self, config: ClientConfig) -> Self:
        """Return a copy with `config` over the same folder."""
        return type(self)(config, repository=self._repository)

    def release(self) -> None:
        """Close the repository, unless another provider opened it."""
        if self._owns_repository:
            run_blocking(self._repository.close)


def _not_pinned(cid: str) -> NotFoundError:
    return NotFoundError(f"The current user has not pinned the cid: {cid}")


def _pin_fields(info: PinInfo, media_type: str) -> dict[str, Any]:
    return {"name": info.name, "keyvalues": info.keyvalues, "type": media_type}


def _open(config: ClientConfig) -> Repository:
    try:
        path = Path(config.path) if config.path is not None else data_folder()
        return Repository(path)
    except OSError as error:
        where = config.path or "by default"
        raise ConfigError(f"path {where} cannot hold a repository: {error.strerror}") from None
