# WARNING: this file is generated from src/holdfast/_async/providers/local.py
# by scripts/generate_sync.py. Change the original instead.
"""The embedded provider: a repository on this machine's disk, without account or network."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from holdfast._sync.dag_export import DagExport
from holdfast._sync.providers.base import BaseProvider, Content
from holdfast._sync.reads.read_through import (
    GatewayConnections,
    ReadThroughReader,
    RepositoryReader,
)
from holdfast._sync.reads.reader import Reader
from holdfast._sync.runtime import at_end, run_blocking, run_interruptible
from holdfast.calls import Call
from holdfast.config import ClientConfig
from holdfast.config.fields import fields_bound_to
from holdfast.config.locations import data_folder
from holdfast.content.cid import CID
from holdfast.content.media_types import told_type
from holdfast.content.reference import Reference
from holdfast.disk.copy_journal import Place
from holdfast.errors import ConfigError, NotFoundError, UnprovenError
from holdfast.hints import advise
from holdfast.records import Added, Pin, PinFilter, PinInfo, PinProgress, Usage, merged_keyvalues
from holdfast.repository import PinQuery, Repository
from holdfast.repository.pins import pin_pages
from holdfast.sources.archive_sources import ArchiveSource
from holdfast.sources.folder_source import FolderSource
from holdfast.sources.sources import Progress, Source


class LocalProvider(BaseProvider):
    """Stores content in a folder: `path`, else the platform's folder for user data.

    The CIDs are those that an IPFS node computes for the configured profile. Every block is
    verified when it is read.

    With a `gateway_url`, what the store lacks is read through these gateways, and `pin` fetches all
    of it. Without one, nothing is ever fetched.

    Example:
        >>> from holdfast import Client
        >>> with Client.init(path="store") as client:
        ...     record = client.store([1, 2, 3])
        >>> record.cid
        'bafkreifgcxxk5yq54ulz3yea32gdauwi3kibcocanotryogagkcf67ku6q'
    """

    takes: tuple[type, ...] = (Source, FolderSource, ArchiveSource)
    shared_fields: ClassVar[tuple[str, ...]] = fields_bound_to("repository")

    def __init__(
        self,
        config: ClientConfig,
        *,
        repository: Repository | None = None,
        connections: "GatewayConnections | None" = None,
    ) -> None:
        self._connections = connections or GatewayConnections()
        # First, because it may fail: then no repository is left open.
        gateways = self._connections.reader(config) if config.reads_through else None
        self._repository = repository or _open(config)
        total = config.timeouts.total
        reader: Reader = RepositoryReader(self._repository, total=total)
        if gateways is not None:
            reader = ReadThroughReader(self._repository, gateways, total=total)
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
            pin, duplicate = run_blocking(self.repository.add, content.json, self.profile, **fields)
            return self._added(pin, info, duplicate=duplicate)
        if isinstance(content, FolderSource):
            fields = {**_pin_fields(info, "directory"), "files": content.files}
        else:
            fields = _pin_fields(info, told_type(content.type, info.name, content.name or ""))
        adding = self.repository.adding()
        with at_end(adding.close):
            part = self.import_content(content, adding.put, progress)
            pin, duplicate = run_blocking(adding.pin, part.cid, size=part.dag_size, **fields)
            return self._added(pin, info, duplicate=duplicate)

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
        earlier = pin.name if duplicate else None
        return Added(cid=pin.cid, duplicate=duplicate, pin_id=pin.id, earlier_name=earlier)

    def _change_known(self, cid: str, info: PinInfo) -> Pin:
        """Give a pin that existed what the user gave."""
        return self._change(cid, info.name if info.given else None, info.keyvalues)

    def _change(self, cid: str, name: str | None, keyvalues: Mapping[str, Any] | None) -> Pin:
        change = partial(merged_keyvalues, changes=keyvalues or {})
        update = self.repository.update_pin
        pin = run_blocking(update, CID.parse(cid), name=name, change=change)
        if pin is None:
            raise not_pinned(cid)
        return pin

    def update_pin(self, cid: str, *, name: str | None, keyvalues: Mapping[str, Any] | None) -> Pin:
        """Change the name, the key-values or both of the pin of `cid`."""
        with self.call("update", cid):
            return self._change(cid, name, keyvalues)

    def pin(self, cid: str, info: PinInfo) -> Pin:
        """Pin content that is in the store, or that the gateways have, which may take any time.

        Raise NotFoundError if the store lacks some of it, and there is no `gateway_url`.
        """
        with self.call("pin", cid, total=False) as call:
            fields = {"name": info.name, "keyvalues": info.keyvalues}
            try:
                pin, duplicate = run_blocking(self.repository.pin, CID.parse(cid), **fields)
            except UnprovenError:
                if not self.config.reads_through:
                    raise _not_whole(cid) from None
                pin, duplicate = self._fetch(Reference.parse(cid), fields, info, call)
            return self._change_known(cid, info) if duplicate and info.is_explicit else pin

    def _fetch(
        self, reference: Reference, fields: Mapping[str, Any], info: PinInfo, call: Call
    ) -> tuple[Pin, bool]:
        """Put what is below `reference` into the store, and pin it.

        What was fetched is leased until then. After an error it stays, until garbage is collected,
        so that the next call continues.
        """
        adding = self.repository.adding()
        export = DagExport(self.reader, reference)
        count = size = 0
        with at_end(adding.close), closing(export):
            while (page := export.next_page(call)) is not None:
                run_blocking(adding.put_missing, page)
                count += len(page)
                size += sum(len(block) for _, block in page)
                if info.progress is not None:
                    info.progress(PinProgress(blocks=count, bytes=size))
            return run_blocking(self.repository.pin, reference.cid, **fields)

    def unpin(self, cid: str, _call: Call, /) -> None:
        """Unpin `cid`."""
        if not run_blocking(self.repository.unpin, CID.parse(cid)):
            raise not_pinned(cid)

    def check_credentials(self, _call: Call, /) -> None:
        """Return if the repository can be read."""
        run_blocking(self.repository.totals)

    def usage(self) -> Usage:
        """Return the number of pins, and the bytes of their blocks."""
        with self.call("usage"):
            pins, size = run_blocking(self.repository.totals)
            return Usage(pins=pins, bytes=size)

    def list_pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        """Return what is pinned, newest first."""
        with self.call("pins"):
            query = PinQuery(name_contains=name, limit=limit)
            return run_blocking(self.repository.pins, query)

    def find_pins(self, pin_filter: PinFilter, *, limit: int | None = None) -> Iterator[Pin]:
        """Yield the pins that match `pin_filter`, newest first, read page by page."""
        return read_pins(self, self.repository.pins, pin_filter, limit)

    def import_car(self, pieces: Iterable[bytes], *, blocks_only: bool = False) -> list[str]:
        """Import an archive and pin its roots; return their CIDs."""
        if blocks_only:
            return [*map(str, run_blocking(self.repository.import_blocks, pieces))]
        return [pin.cid for pin in run_blocking(self.repository.import_car, pieces)]

    def export_car(self, cid: str) -> Iterator[bytes]:
        """Yield the archive of everything under `cid`."""
        return self.repository.export_car(CID.parse(Reference.parse_cid(cid)))

    def own_block(self, cid: CID) -> bytes:
        """Return a block of the store."""
        with self.call("block", str(cid)):
            if not run_blocking(self.repository.has, cid):
                raise NotFoundError(f"{cid} is not in this store")
            return run_blocking(self.repository.block, cid)

    def where(self) -> str:
        """Return the folder of the store."""
        return str(self._repository.path)

    def place(self) -> Place:
        """Return the place of the store: its id, which it keeps when its folder is moved.

        A copy of the store has the same id, and another folder.
        """
        repository = self.repository
        folder = os.path.realpath(repository.path)
        return self.place_at(repository.id or folder, self.config.pin_api_url, folder=folder)

    def copy_with(self, config: ClientConfig) -> Self:
        """Return a copy with `config` over the same folder."""
        return type(self)(config, repository=self._repository, connections=self._connections)

    def release(self) -> None:
        """Close the connections, and the repository, unless another provider opened it."""
        self._connections.close()
        if self._owns_repository:
            run_blocking(self._repository.close)


def read_pins(
    provider: BaseProvider,
    find: Callable[[PinQuery], list[Pin]],
    pin_filter: PinFilter,
    limit: int | None,
) -> Iterator[Pin]:
    """Yield the pins that `find` returns for `pin_filter`; each page is a call of its own."""
    query = PinQuery(
        name_contains=pin_filter.name,
        cid=pin_filter.cid,
        created_from=pin_filter.since,
        created_to=pin_filter.until,
        matches=pin_filter.fits if pin_filter.keyvalues else None,
        limit=limit,
    )
    pages = pin_pages(find, query)
    while True:
        with provider.call("pins"):
            page = run_blocking(next, pages, None)
        if page is None:
            return
        for pin in page:
            yield pin


def _not_whole(cid: str) -> NotFoundError:
    error = NotFoundError(
        f"the embedded store does not have all of {cid}, and fetches nothing without a gateway_url"
    )
    return advise(
        error,
        "give a gateway_url, or run `holdfast car import FILE`",
        "give --gateway-url URL, or see `holdfast car import`",
    )


def not_pinned(cid: str) -> NotFoundError:
    """Return the error for a CID that is not pinned, in the words of the service."""
    return NotFoundError(f"The current user has not pinned the cid: {cid}")


def _pin_fields(info: PinInfo, media_type: str) -> dict[str, Any]:
    return {"name": info.name, "keyvalues": info.keyvalues, "type": media_type}


def _open(config: ClientConfig) -> Repository:
    try:
        return Repository(data_folder() if config.path is None else Path(config.path))
    except OSError as error:
        where = config.path or "by default"
        raise ConfigError(f"path {where} cannot hold a repository: {error.strerror}") from None
