"""Downloads of directories to disk.

::

    download_folder      the whole download: the work folder, the directory, the last step
    AsyncFolderFetcher   each directory: its names are listed and checked, then its entries fetched:
                         a file or a symbolic link is written, a directory comes later
    AsyncFolderSource    blocks and files from the reader of a provider, by CID or by path

Blocks and files are requested by their CIDs. A gateway that serves only certain roots refuses that.
Then they are requested by their paths below the root, and verified all the same. What is refused,
and how it is written, is in `holdfast.sinks`.
"""

import os
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, TypeAlias, Unpack

from holdfast import errors
from holdfast._async.providers.base import AsyncBaseProvider
from holdfast._async.reads.blocks import (
    AsyncArchiveFeed,
    AsyncBlocks,
    AsyncGivenBlocks,
    PassedError,
)
from holdfast._async.reads.reader import AsyncReader, ReadArgs
from holdfast._async.reads.state import run_steps
from holdfast._async.runtime import at_end, run_blocking, together
from holdfast.calls import Call
from holdfast.content import dag_pb
from holdfast.content.blocks import BlockCache, check_provable, inline_block, malformed
from holdfast.content.budgets import MAX_CACHED
from holdfast.content.cid import CID
from holdfast.content.codecs import is_one_block, kind_of, read_kind, require_codec
from holdfast.content.reference import Reference
from holdfast.content.unixfs import data
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.directory_nodes import DirectoryEntry, not_a_directory
from holdfast.content.unixfs.file_nodes import file_node
from holdfast.content.unixfs.walks import DirectoryWalk, PathWalk
from holdfast.disk.closing import on_error
from holdfast.disk.disk_space import DiskSpace
from holdfast.errors import NetworkError, ProviderError, UnprovenError, VerificationError
from holdfast.protocol.gateway import ArchiveScope
from holdfast.protocol.retrying import is_transient
from holdfast.single_line import single_line
from holdfast.sinks import names
from holdfast.sinks.entries import DirectoryCount, DiskUsage, EntrySpool
from holdfast.sinks.names import EntryPath
from holdfast.sinks.sinks import Sink
from holdfast.sinks.work_folder import PartFile, WorkFolder
from holdfast.sources.sources import Progress

FOLDERS = frozenset({Kind.DIRECTORY, Kind.SHARD})
FILES_AT_ONCE: Final = 8  # as many as the blocks of one file

# An archive saves a round trip for each file, and cannot be fetched in parts. So it pays for many
# files whose transfer takes less time than a round trip: 256 KiB take 50 ms at 40 Mbit/s.
ARCHIVE_FROM: Final = 16
ARCHIVE_UP_TO: Final = 256 << 10
Take: TypeAlias = Callable[[list[DirectoryEntry]], None]


class Tally:
    """Counts bytes of several files at a time, and calls `progress` with their sum.

    The size of a directory is known only when all of it is there, so the total is None until then.

    Example:
        >>> tally = Tally(print)
        >>> tally.add(3)
        3 None
        >>> one = tally.of_file()
        >>> one(2, 10)
        5 None
        >>> tally.finish()
        5 5
    """

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._lock = Lock()
        self._done = 0

    def add(self, count: int) -> None:
        """Count bytes."""
        with self._lock:
            self._done += count
            if self._progress is not None and count > 0:
                self._progress(self._done, None)

    def of_file(self) -> Progress:
        """Return the progress function of one file."""
        before = 0

        def report(done: int, _: int | None) -> None:
            nonlocal before
            added, before = done - before, done
            self.add(added)

        return report

    def finish(self) -> None:
        """Report that all bytes are there."""
        if self._progress is not None:
            self._progress(self._done, self._done)


class AsyncFolderSource:
    """The directory at `reference`, read with `reader`. Paths are relative to this directory.

    Attributes:
        is_remote: Whether a request costs more than some work on disk.
    """

    def __init__(self, reader: AsyncReader, reference: Reference, call: Call) -> None:
        self.is_remote: bool = reader.is_remote
        self._reader = reader
        self._reference = reference
        self._call = call
        self._blocks = reader.blocks(reference, call)
        self._by_path = False  # whether the gateways refuse CIDs other than the root

    async def root(self) -> CID:
        """Return the CID of the directory."""
        if not self.is_remote:
            return await self._blocks.find(self._reference, self._call)
        walk = PathWalk(self._reference.cid, self._reference.path)
        while (need := walk.need) is not None:
            walk.feed(await self.block(need, ()))
        return walk.end()

    async def block(self, cid: CID, path: EntryPath) -> bytes:
        """Return the block of `cid`, which is at `path`."""
        inline = inline_block(cid)
        if inline is not None:
            return inline
        check_provable(cid)
        by_path = self._by_path
        block = await self._block_by_path(cid, path) if by_path else None
        if block is not None:
            return block
        try:
            return await self._blocks.block(cid)
        except (ProviderError, UnprovenError) as error:
            if is_transient(error) or by_path or not self.is_remote:
                raise
            block = await self._block_by_path(cid, path)
            if block is None:
                raise
        self._by_path = True
        return block

    async def read(
        self, cid: CID, path: EntryPath, sink: Sink, **options: Unpack[ReadArgs]
    ) -> None:
        """Fill `sink` with the file `cid` at `path`; from `blocks`, if all of it is there."""
        options["verify"] = True
        read = partial(self._reader.read, sink=sink, call=self._call, **options)
        is_here = options.get("blocks") is not None
        below = self._at(path, cid) if self.is_remote and not is_here else None
        if self._by_path and below is not None:
            await read(below)
            return
        try:
            await read(Reference(str(cid), cid))
        except (ProviderError, UnprovenError) as error:
            if is_transient(error) or below is None:
                raise
            await run_blocking(sink.restart)
            try:
                await read(below)
            except (ProviderError, VerificationError):
                raise error from None
            self._by_path = True

    async def archive(
        self, cid: CID, path: EntryPath, scope: ArchiveScope
    ) -> AsyncArchiveFeed | None:
        """Return the blocks of `cid`, which is at `path`; None if there is no archive.

        They are those of one directory, or with the scope ``all`` also those of its content.
        """
        reference = self._at(path, cid)
        if reference is None:
            return None
        return await self._reader.archive(reference, scope, self._call)

    async def _block_by_path(self, cid: CID, path: EntryPath) -> bytes | None:
        """Return a block from the archive of what is at `path`; None if it has none."""
        feed = await self.archive(cid, path, "entity")
        if feed is None:
            return None
        async with aclosing(feed):
            with suppress(NetworkError, VerificationError):
                return await feed.get(cid)
        return None

    def _at(self, path: EntryPath, cid: CID) -> Reference | None:
        """Return the reference to `cid`, which is at `path`; None if no URL can have its name."""
        root = self._reference
        try:
            return Reference(root.text, root.cid, (*root.path, *path), cid)
        except UnicodeEncodeError:
            return None


@dataclass(frozen=True)
class FolderOptions:
    """How a directory is written; see `AsyncClient.download_folder`."""

    symlinks: bool = False
    portable: bool = False
    max_bytes: int | None = None


class _Directory(NamedTuple):
    """A directory while it is fetched.

    Attributes:
        path: Its path below the root.
        cid: Its CID.
        waiting: The entries that are not fetched yet.
        folders: The directories among them, which are fetched at the end.
        counter: Counts the entries.
    """

    path: EntryPath
    cid: CID
    waiting: EntrySpool
    folders: EntrySpool
    counter: DirectoryCount

    def add_folder(self, entry: DirectoryEntry) -> None:
        """Note that the entry is a directory, which is fetched at the end."""
        self.counter.add_directory(entry.cid)
        self.folders.add(entry)

    def close(self) -> None:
        """Remove the entries."""
        self.waiting.close()
        self.folders.close()


@dataclass(eq=False, repr=False)
class AsyncFolderFetcher:
    """Fetches a directory and those below it into a work folder."""

    source: AsyncFolderSource
    work: WorkFolder
    rules: names.NameRules
    options: FolderOptions
    tally: Tally
    _failed: bool = False

    def __post_init__(self) -> None:
        self.usage = DiskUsage(DiskSpace(self.work.path), self.options.max_bytes)

    async def fetch_root(self, cid: CID) -> None:
        """Fetch the whole directory `cid`; raise NotAFolderError if it is none."""
        block = await self._saved_block(cid) or await self.source.block(cid, ())
        if kind_of(cid, block) not in FOLDERS:
            raise not_a_directory(cid)
        await self._save(cid, block)
        await self.fetch((), cid)

    async def fetch(self, path: EntryPath, cid: CID, feed: AsyncArchiveFeed | None = None) -> None:
        """Fetch the directory `cid` to `path`; from `feed`, as far as it has the blocks."""
        counter = DirectoryCount(self.usage, cid)
        directory = _Directory(path, cid, EntrySpool(), EntrySpool(), counter)
        async with at_end(directory.close):
            await self._list(directory)
            if not path:
                await self._check_space(directory.waiting.size)
            await run_blocking(self.work.make_folder, path)
            await self._fetch_entries(directory, feed)
            for folder in directory.folders:
                await self.fetch((*path, folder.name), folder.cid)
            counter.leave()

    async def _check_space(self, declared: int) -> None:
        """Raise `OSError` if the disk has no space for all that the root declares.

        The declared sizes are not verified: files that have more are refused when they are written.
        """
        saved = await run_blocking(self.work.saved_bytes)
        stages = 2 if self.work.finishes else 1
        await run_blocking(self.usage.space.require, declared * stages - saved)

    # The names

    async def _list(self, directory: _Directory) -> None:
        """Find all entries of the directory, which wait then; raise an error if one is refused."""
        path, cid, waiting, _, counter = directory
        walk = DirectoryWalk(cid)
        siblings = names.NamesOfDirectory(self.rules)

        def take(entries: list[DirectoryEntry]) -> None:
            for entry in entries:
                place = (*path, entry.name)
                self.usage.add_entry(place)
                counter.add(entry.cid)
                siblings.check(place)
                waiting.add(entry)

        cache = BlockCache(MAX_CACHED)
        blocks = AsyncGivenBlocks(partial(self._block, path=path), verified=True)
        await blocks.advance(walk, cache, take)
        need = walk.need
        if need is not None and await self._saved_block(need) is None:
            feed = await self.source.archive(cid, path, "entity")
            if feed is not None:
                await self._list_from(feed, walk, take)
        while walk.need is not None:
            await blocks.advance(walk, cache, take)
        await run_blocking(counter.end_list)

    async def _list_from(self, feed: AsyncArchiveFeed, walk: DirectoryWalk, take: Take) -> None:
        """Feed `walk` the blocks of `feed`, as far as it has them."""
        async with aclosing(feed):
            while (need := walk.need) is not None:
                try:
                    block = await feed.get(need)
                except (NetworkError, VerificationError):
                    return
                await self._save(need, block)
                await run_blocking(take, walk.feed(block, verified=True))

    async def _block(self, cid: CID, path: EntryPath) -> bytes:
        """Return a block of a directory, which is saved for a later download."""
        block = await self._saved_block(cid)
        if block is None:
            block = await self.source.block(cid, path)
            await self._save(cid, block)
        return block

    # The entries

    async def _fetch_entries(self, directory: _Directory, feed: AsyncArchiveFeed | None) -> None:
        """Fetch all files and links; add the directories that are not fetched to `folders`."""
        path, cid, waiting = directory.path, directory.cid, directory.waiting
        saved_count = await run_blocking(self.work.count, path)
        iter(waiting)
        if feed is not None:
            await self._fetch_from(feed, directory)
        elif self._archive_pays(waiting, saved_count):
            feed = await self.source.archive(cid, path, "all")
            if feed is not None:
                async with aclosing(feed):
                    await self._fetch_from(feed, directory)
        worker = partial(self._work_off, directory)
        try:
            outcomes = await together([worker] * min(FILES_AT_ONCE, waiting.count or 1))
        except BaseException:
            self._failed = True  # threads may still run
            raise
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    def _archive_pays(self, waiting: EntrySpool, saved_count: int) -> bool:
        """Return whether an archive is cheaper than a request for each entry.

        Not if an earlier download has written more than a tenth of them: all would come again.
        """
        count = waiting.count
        is_small = waiting.size <= count * ARCHIVE_UP_TO
        return count >= ARCHIVE_FROM and is_small and saved_count * 10 <= count

    async def _fetch_from(self, feed: AsyncArchiveFeed, directory: _Directory) -> None:
        """Take entries that wait, and write them with the blocks of `feed`, until it ends."""
        while not feed.is_over and (entry := directory.waiting.take()) is not None:
            place = (*directory.path, entry.name)
            if await self._is_saved(place, entry.cid):
                continue
            kind = None
            try:
                block = await feed.block(entry.cid)
                kind = await self._put(place, entry.cid, block, feed)
            except PassedError:
                kind = None
            except (NetworkError, VerificationError):
                if not feed.is_over:
                    raise
            if kind is None:
                await self._fetch_entry(directory, entry)
            elif kind is Kind.DIRECTORY:
                directory.counter.add_directory(entry.cid)
                await self.fetch(place, entry.cid, feed)
            elif kind is Kind.SHARD:  # its names come between its content
                directory.add_folder(entry)

    async def _work_off(self, directory: _Directory) -> None:
        """Take entries that wait, and fetch them, until there are no more or one has failed."""
        path, waiting = directory.path, directory.waiting
        try:
            while not self._failed and (entry := waiting.take()) is not None:
                if self.usage.is_directory(entry.cid):
                    directory.add_folder(entry)
                elif not await self._is_saved((*path, entry.name), entry.cid):
                    await self._fetch_entry(directory, entry)
        except BaseException:
            self._failed = True
            raise

    async def _fetch_entry(self, directory: _Directory, entry: DirectoryEntry) -> None:
        place = (*directory.path, entry.name)
        try:
            kind = await self._fetch_one(place, entry.cid)
        except errors.ClientError as error:
            error.add_note(single_line(f"in the directory: {'/'.join(place)}"))
            raise
        if kind in FOLDERS:
            directory.add_folder(entry)

    # One entry

    async def _is_saved(self, path: EntryPath, cid: CID) -> bool:
        """Return whether an earlier download has written the file `cid` at `path`."""
        continues = self.source.is_remote
        size = await run_blocking(self.work.saved_size, path, cid, continues=continues)
        if size is None:
            return False
        for finish in self.work.finishes:
            size = finish.size(size)
        self.usage.add_bytes(size, 0 if self.work.finishes else size)
        self.tally.add(size)
        return True

    async def _fetch_one(self, path: EntryPath, cid: CID) -> Kind:
        """Fetch the entry at `path`, and write it if it is a file or a link; return its kind."""
        require_codec(cid)
        block = inline_block(cid)
        if block is None and is_one_block(cid):
            await self._read_file(path, cid)
            return Kind.RAW
        if block is None:
            block = await self._saved_block(cid)
        if block is None:
            block = await self.source.block(cid, path)
        return await self._put(path, cid, block)

    async def _put(
        self, path: EntryPath, cid: CID, block: bytes, feed: AsyncArchiveFeed | None = None
    ) -> Kind:
        """Write the entry at `path` if it is a file or a link; return its kind.

        `block` is its verified block. The other blocks of a file come from `feed`; without that,
        the file is requested.
        """
        kind = read_kind(cid, block)
        if kind in FOLDERS or kind is Kind.SYMLINK:
            await self._save(cid, block)
        if kind is Kind.SYMLINK:
            await run_blocking(self._write_link, path, block)
        elif kind in {Kind.FILE, Kind.RAW}:
            node = file_node(cid, block)

            async def get_block(_cid: CID, /) -> bytes:
                return block

            is_whole = not node.children
            blocks = AsyncGivenBlocks(get_block, verified=True) if is_whole else feed
            await self._read_file(path, cid, node.size, blocks)
        elif kind not in FOLDERS:
            raise malformed(cid, f"{'/'.join(path)} is neither a file nor a directory")
        return kind

    async def _saved_block(self, cid: CID) -> bytes | None:
        """Return the block of a directory or link that an earlier download saved, or None."""
        return await run_blocking(self.work.saved_block, cid) if self.source.is_remote else None

    async def _save(self, cid: CID, block: bytes) -> None:
        """Save the block of a directory or link for a later download."""
        if self.source.is_remote:
            await run_blocking(self.work.save_block, cid, block)

    async def _read_file(
        self, path: EntryPath, cid: CID, size: int = 0, blocks: AsyncBlocks | None = None
    ) -> None:
        """Write a file of `size` bytes, if that is known; from `blocks`, or by a request."""
        continues = self.source.is_remote and blocks is None
        part = PartFile(self.work, path, cid, self.usage, continues=continues)
        async with at_end(part.discard):
            await run_blocking(part.open)
            if not self.work.finishes:  # else the reader knows the size of what it makes
                await run_blocking(part.expect, size)
            await self.source.read(cid, path, part, progress=self.tally.of_file(), blocks=blocks)
            await run_blocking(part.commit)

    def _write_link(self, path: EntryPath, block: bytes) -> None:
        message = data.decode(dag_pb.decode(block).data)
        text = message.data.decode("utf-8", "surrogateescape")
        if not self.options.symlinks:
            why = f"it is a symbolic link to {text[:200]!r}"
            raise names.refused(path, why, hint=names.WRITE_LINKS)
        names.check_link(path, text, portable=self.options.portable)
        self.work.make_link(path, text)


async def download_folder(
    provider: AsyncBaseProvider,
    reference: Reference,
    to: str | os.PathLike[str],
    options: FolderOptions,
    progress: Progress | None,
) -> Path:
    """Download the directory at `reference`; return the path of the new folder."""
    reader = provider.reader
    tally = Tally(progress)
    work = WorkFolder(Path(to), reference, reader.finishes)
    async with provider.call("download_folder", str(reference), total=False) as call:
        source = AsyncFolderSource(reader, reference, call)
        with on_error(work.unlock):  # a call that is cancelled there must not keep the lock
            await run_blocking(work.open)
        keep = True
        try:
            saved = await run_blocking(work.saved_bytes) if call.is_heard() else 0
            if saved:
                call.tell("resume", "download continues after %d bytes", saved, position=saved)
            await _fill(source, work, options, tally)
            keep = False
        except BaseException as error:
            # A finish that refuses one file says nothing about the others.
            is_finish = bool(work.finishes) and isinstance(error, errors.MalformedError)
            keep = is_finish or not _is_final(error)
            if keep and await run_blocking(work.has_progress):
                error.add_note(f"call again to continue; the verified part is kept in {work.path}")
            raise
        finally:
            await run_blocking(work.close, keep=keep)
    tally.finish()
    return Path(to)


async def _fill(
    source: AsyncFolderSource, work: WorkFolder, options: FolderOptions, tally: Tally
) -> None:
    """Fetch everything, and give it its name."""
    cid = await source.root()
    rules = await run_blocking(work.rules, portable=options.portable)
    fetcher = AsyncFolderFetcher(source, work, rules, options, tally)
    await fetcher.fetch_root(cid)
    content = DiskUsage(DiskSpace(work.path), options.max_bytes)
    await run_steps(work.commit(fetcher.usage.entries, content))


def _is_final(error: BaseException) -> bool:
    """Return whether the same call would be refused again, so that nothing is worth keeping."""
    is_refused = isinstance(error, OSError) and names.is_refusal(error)
    return is_refused or isinstance(error, errors.MalformedError | errors.TooLargeError)
