"""Reads from the embedded store, and through gateways what it lacks."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Unpack

from holdfast._async.content_file import AsyncRanges
from holdfast._async.reads.blocks import AsyncArchiveFeed, AsyncBlocks
from holdfast._async.reads.gateway_reader import AsyncGatewayReader, read_gateways
from holdfast._async.reads.reader import AsyncReader, ReadArgs
from holdfast._async.runtime import run_blocking
from holdfast._async.session import AsyncSession, open_session
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


class AsyncRepositoryBlocks(AsyncBlocks):
    """The blocks in a repository. Each job reads, verifies and writes a few MiB."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    async def advance(
        self,
        walk: Walk[Any, Item],
        cache: BlockCache,  # noqa: ARG002 - the repository needs no cache
        take: Callable[[list[Item]], object],
    ) -> None:
        """Feed `walk` a few MiB of blocks."""
        await run_blocking(self._feed, walk, take)

    async def block(self, cid: CID) -> bytes:
        """Return the block of `cid`."""
        return await run_blocking(self._repository.block, cid)

    def _feed(self, walk: Walk[Any, Item], take: Callable[[list[Item]], object]) -> None:
        for _ in range(LOOKS):
            if walk.need is None:
                break
            take(self._repository.advance(walk))

    async def find(self, reference: Reference, call: Call) -> CID:  # noqa: ARG002
        """Return the CID that `reference` leads to; `NotFoundError` if it is not in the store."""
        return await run_blocking(self._find, reference)

    async def follow(self, reference: Reference, call: Call) -> tuple[CID, Sequence[str]]:
        """Return the CID that `reference` leads to, and the names of a value inside its block."""
        await run_blocking(self._check_root, reference)
        return await super().follow(reference, call)

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

    async def media_type(self, cid: CID) -> str:
        """Return the media type that was stored with the pin of `cid`, "" if it has none."""
        pin = await run_blocking(self._repository.find_pin, cid)
        return "" if pin is None else pin.type


class AsyncRepositoryReader(AsyncReader):
    """Reads content from `repository`.

    Args:
        repository: The repository.
        total: How many seconds the reading of one range of an open file may take.
    """

    def __init__(self, repository: Repository, *, total: float | None = None) -> None:
        super().__init__(total=total)
        self._blocks = AsyncRepositoryBlocks(repository)

    def blocks(
        self,
        reference: Reference,  # noqa: ARG002 - the repository has all blocks
        call: Call,  # noqa: ARG002
    ) -> AsyncRepositoryBlocks:
        """Return the blocks of the repository."""
        return self._blocks


class AsyncReadThroughBlocks(AsyncRepositoryBlocks):
    """The blocks in a repository, and from gateways those that it lacks."""

    def __init__(self, repository: Repository, others: AsyncBlocks) -> None:
        super().__init__(repository)
        self._others = others

    def continue_in(self, call: Call) -> None:
        """Make the next requests within `call`."""
        self._others.continue_in(call)

    async def advance(
        self, walk: Walk[Any, Item], cache: BlockCache, take: Callable[[list[Item]], object]
    ) -> None:
        """Feed `walk` a few MiB of blocks that are here, else some that are fetched."""
        if walk.need is None or await run_blocking(self._repository.has, walk.need):
            await run_blocking(self._feed, walk, take)
        else:
            await self._others.advance(walk, cache, take)

    def _feed(self, walk: Walk[Any, Item], take: Callable[[list[Item]], object]) -> None:
        for _ in range(LOOKS):
            if walk.need is None or not self._repository.has(walk.need):
                break
            take(self._repository.advance(walk))

    async def block(self, cid: CID) -> bytes:
        """Return the block of `cid`."""
        if await run_blocking(self._repository.has, cid):
            return await super().block(cid)
        return await self._others.block(cid)

    async def find(self, reference: Reference, call: Call) -> CID:
        """Return the CID that `reference` leads to; `NotFoundError` if a name is not there."""
        return await AsyncBlocks.find(self, reference, call)

    def _check_root(self, _: Reference) -> None:
        """Do nothing: the gateways may have it."""


class AsyncReadThroughReader(AsyncReader):
    """Reads content from `repository`, and through `gateways` what it lacks."""

    is_remote: ClassVar[bool] = True

    def __init__(
        self, repository: Repository, gateways: AsyncGatewayReader, *, total: float | None = None
    ) -> None:
        super().__init__(total=total)
        self._repository = repository
        self._gateways = gateways

    def blocks(self, reference: Reference, call: Call) -> AsyncReadThroughBlocks:
        """Return the blocks of the repository and of the gateways."""
        return AsyncReadThroughBlocks(self._repository, self._gateways.blocks(reference, call))

    async def archive(
        self, reference: Reference, scope: ArchiveScope, call: Call
    ) -> AsyncArchiveFeed | None:
        """Return an archive of a gateway; None if some of the content is here."""
        if await self._is_begun(reference):
            return None
        return await self._gateways.archive(reference, scope, call)

    async def read(
        self, reference: Reference, sink: Sink, call: Call, **options: Unpack[ReadArgs]
    ) -> str:
        """Fill `sink` with a file; return its media type, "" if unknown."""
        is_here = options.get("blocks") is not None or await self._is_begun(reference)
        read = super().read if is_here else self._gateways.read
        return await read(reference, sink, call, **options)

    async def open(self, reference: Reference, call: Call) -> AsyncRanges:
        """Return a file whose parts are read on demand."""
        if await self._is_begun(reference):
            return await super().open(reference, call)
        return await self._gateways.open(reference, call)

    async def _is_begun(self, reference: Reference) -> bool:
        """Return whether the repository has the root."""
        return await run_blocking(self._repository.has, reference.cid)


class AsyncGatewayConnections:
    """The connections to gateways that copies of a provider share, made when one needs them."""

    def __init__(self) -> None:
        self._opened: list[tuple[AsyncSession, ClientConfig]] = []  # of which the first is used

    def reader(self, config: ClientConfig) -> AsyncGatewayReader:
        """Return a reader of the gateways of `config`; ConfigError for one with another proxy."""
        if not self._opened:  # several threads may do this at the same time
            self._opened.append((open_session(config), config))
            self._opened[-1][0].provider = config.provider
        session, opened_with = self._opened[0]
        check_unchanged(fields_bound_to("connections"), opened_with, config)
        return read_gateways(session.with_config(config), config)

    async def aclose(self) -> None:
        """Close the connections, if there are any."""
        for session, _ in self._opened:
            await session.transport.aclose()
