# WARNING: this file is generated from src/holdfast/_async/reads/read_through.py
# by scripts/generate_sync.py. Change the original instead.
"""Reads from the embedded store, and through gateways what it lacks."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Unpack

from holdfast._sync.content_file import Ranges
from holdfast._sync.reads.blocks import ArchiveFeed, Blocks
from holdfast._sync.reads.gateway_reader import GatewayReader, read_gateways
from holdfast._sync.reads.reader import ReadArgs, Reader
from holdfast._sync.runtime import run_blocking
from holdfast._sync.session import Session, open_session
from holdfast.calls import Call
from holdfast.config import ClientConfig
from holdfast.config.fields import check_unchanged, fields_bound_to
from holdfast.content.blocks import BlockCache
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.content.unixfs.walks import Item, Walk
from holdfast.errors import NotFoundError
from holdfast.hints import advise
from holdfast.protocol.gateway import ArchiveScope
from holdfast.repository import Repository
from holdfast.sinks.sinks import Sink

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

    def follow(self, reference: Reference, call: Call) -> tuple[CID, Sequence[str]]:
        """Return the CID that `reference` leads to, and the names of a value inside its block."""
        run_blocking(self._check_root, reference)
        return super().follow(reference, call)

    def _find(self, reference: Reference) -> CID:
        self._check_root(reference)
        return self._repository.resolve(reference.cid, reference.path)

    def _check_root(self, reference: Reference) -> None:
        """Raise NotFoundError if the root is not in the store."""
        if not self._repository.has(reference.cid):
            words = "is not in this store: it was stored elsewhere, or revoked and removed"
            raise advise(
                NotFoundError(f"{reference.cid} {words}"),
                "`pins` lists what is here; with a gateway_url, the rest is read through gateways",
                "`holdfast list` shows what is here; --gateway-url URL reads the rest through it",
            )

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


class ReadThroughBlocks(RepositoryBlocks):
    """The blocks in a repository, and from gateways those that it lacks."""

    def __init__(self, repository: Repository, others: Blocks) -> None:
        super().__init__(repository)
        self._others = others

    def continue_in(self, call: Call) -> None:
        """Make the next requests within `call`."""
        self._others.continue_in(call)

    def advance(
        self, walk: Walk[Any, Item], cache: BlockCache, take: Callable[[list[Item]], object]
    ) -> None:
        """Feed `walk` a few MiB of blocks that are here, else some that are fetched."""
        if walk.need is None or run_blocking(self._repository.has, walk.need):
            run_blocking(self._feed, walk, take)
        else:
            self._others.advance(walk, cache, take)

    def _feed(self, walk: Walk[Any, Item], take: Callable[[list[Item]], object]) -> None:
        for _ in range(LOOKS):
            if walk.need is None or not self._repository.has(walk.need):
                break
            take(self._repository.advance(walk))

    def block(self, cid: CID) -> bytes:
        """Return the block of `cid`."""
        if run_blocking(self._repository.has, cid):
            return super().block(cid)
        return self._others.block(cid)

    def find(self, reference: Reference, call: Call) -> CID:
        """Return the CID that `reference` leads to; `NotFoundError` if a name is not there."""
        return Blocks.find(self, reference, call)

    def _check_root(self, _: Reference) -> None:
        """Do nothing: the gateways may have it."""


class ReadThroughReader(Reader):
    """Reads content from `repository`, and through `gateways` what it lacks."""

    is_remote: ClassVar[bool] = True

    def __init__(
        self, repository: Repository, gateways: GatewayReader, *, total: float | None = None
    ) -> None:
        super().__init__(total=total)
        self._repository = repository
        self._gateways = gateways

    def blocks(self, reference: Reference, call: Call) -> ReadThroughBlocks:
        """Return the blocks of the repository and of the gateways."""
        return ReadThroughBlocks(self._repository, self._gateways.blocks(reference, call))

    def archive(self, reference: Reference, scope: ArchiveScope, call: Call) -> ArchiveFeed | None:
        """Return an archive of a gateway; None if some of the content is here."""
        if self._is_begun(reference):
            return None
        return self._gateways.archive(reference, scope, call)

    def read(
        self, reference: Reference, sink: Sink, call: Call, **options: Unpack[ReadArgs]
    ) -> str:
        """Fill `sink` with a file; return its media type, "" if unknown."""
        is_here = options.get("blocks") is not None or self._is_begun(reference)
        read = super().read if is_here else self._gateways.read
        return read(reference, sink, call, **options)

    def open(self, reference: Reference, call: Call) -> Ranges:
        """Return a file whose parts are read on demand."""
        if self._is_begun(reference):
            return super().open(reference, call)
        return self._gateways.open(reference, call)

    def _is_begun(self, reference: Reference) -> bool:
        """Return whether the repository has the root."""
        return run_blocking(self._repository.has, reference.cid)


class GatewayConnections:
    """The connections to gateways that copies of a provider share, made when one needs them."""

    def __init__(self) -> None:
        self._opened: list[tuple[Session, ClientConfig]] = []  # of which the first is used

    def reader(self, config: ClientConfig) -> GatewayReader:
        """Return a reader of the gateways of `config`; ConfigError for one with another proxy."""
        if not self._opened:  # several threads may do this at the same time
            self._opened.append((open_session(config), config))
            self._opened[-1][0].provider = config.provider
        session, opened_with = self._opened[0]
        check_unchanged(fields_bound_to("connections"), opened_with, config)
        return read_gateways(session.with_config(config), config)

    def close(self) -> None:
        """Close the connections, if there are any."""
        for session, _ in self._opened:
            session.transport.close()
