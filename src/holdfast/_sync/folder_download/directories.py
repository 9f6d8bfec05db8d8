# WARNING: this file is generated from src/holdfast/_async/folder_download/directories.py
# by scripts/generate_sync.py. Change the original instead.
"""Directories, one after the other: each is listed and checked before its entries are fetched."""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from holdfast._sync.folder_download.entries import FOLDERS, Entries
from holdfast._sync.folder_download.source import FolderSource
from holdfast._sync.reads.archive_feed import ArchiveFeed, PassedError
from holdfast._sync.reads.blocks import GivenBlocks
from holdfast._sync.runtime import run_blocking, together
from holdfast.content.blocks import BlockCache
from holdfast.content.budgets import MAX_CACHED
from holdfast.content.cid import CID
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.directory_nodes import DirectoryEntry
from holdfast.content.unixfs.walks import DirectoryWalk
from holdfast.errors import ClientError, NetworkError, VerificationError
from holdfast.files.folder_target.limits import DirectoryCount
from holdfast.files.folder_target.names import EntryPath, NameRules
from holdfast.files.folder_target.spool import EntrySpool
from holdfast.files.folder_target.work_folder import WorkFolder
from holdfast.single_line import single_line

FILES_AT_ONCE: Final = 8  # as many as the blocks of one file
# An archive saves a round trip for each file, and cannot be fetched in parts. So it pays for many
# files whose transfer takes less time than a round trip: 256 KiB take 50 ms at 40 Mbit/s.
ARCHIVE_FROM: Final = 16
ARCHIVE_UP_TO: Final = 256 << 10

Take: TypeAlias = Callable[[list[DirectoryEntry]], None]


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


class FolderFetcher:
    """Fetches a directory and those below it into a work folder."""

    def __init__(
        self, source: FolderSource, work: WorkFolder, entries: Entries, rules: NameRules
    ) -> None:
        self._source = source
        self._work = work
        self._entries = entries
        self._rules = rules
        self._failed = False

    def fetch(self, path: EntryPath, cid: CID, feed: ArchiveFeed | None = None) -> None:
        """Fetch the directory `cid` to `path`; from `feed`, as far as it has the blocks."""
        waiting, folders = EntrySpool(), EntrySpool()
        counter = self._entries.usage.enter(cid)
        directory = _Directory(path, cid, waiting, folders, counter)
        try:
            self._list(directory)
            if not path:
                self._check_space(waiting.size)
            run_blocking(self._work.make_folder, path)
            self._fetch_entries(directory, feed)
            for folder in folders:
                self.fetch((*path, folder.name), folder.cid)
            counter.leave()
        finally:
            run_blocking(waiting.close)
            run_blocking(folders.close)

    def _check_space(self, declared: int) -> None:
        """Raise `OSError` if the disk has no space for all that the root declares.

        The declared sizes are not verified: files that have more are refused when they are written.
        """
        saved = run_blocking(self._work.saved_bytes)
        run_blocking(self._entries.usage.require_space, declared - saved)

    # The names

    def _list(self, directory: _Directory) -> None:
        """Find all entries of the directory, which wait then; raise an error if one is refused."""
        path, cid, waiting, _, counter = directory
        walk = DirectoryWalk(cid)
        names = self._rules.new_directory()

        def take(found: list[DirectoryEntry]) -> None:
            for entry in found:
                place = (*path, entry.name)
                self._entries.usage.add_entry(place)
                counter.add(entry.cid)
                names.check(place)
                waiting.add(entry)

        known = BlockCache(MAX_CACHED)
        blocks = GivenBlocks(partial(self._block, path=path), verified=True)
        blocks.advance(walk, known, take)
        need = walk.need
        if need is not None and self._entries.directory_block(need) is None:
            feed = self._source.archive(cid, path, "entity")
            if feed is not None:
                self._list_from(feed, walk, take)
        while walk.need is not None:
            blocks.advance(walk, known, take)
        run_blocking(counter.end_list)

    def _list_from(self, feed: ArchiveFeed, walk: DirectoryWalk, take: Take) -> None:
        """Feed `walk` the blocks of `feed`, as far as it has them."""
        try:
            while (need := walk.need) is not None:
                try:
                    block = feed.get(need)
                except (NetworkError, VerificationError):
                    return
                self._entries.save(need, block)
                run_blocking(take, walk.feed(block, verified=True))
        finally:
            feed.close()

    def _block(self, cid: CID, path: EntryPath) -> bytes:
        """Return a block of a directory, which is saved for a later download."""
        block = self._entries.directory_block(cid)
        if block is None:
            block = self._source.block(cid, path)
            self._entries.save(cid, block)
        return block

    # The entries

    def _fetch_entries(self, directory: _Directory, feed: ArchiveFeed | None) -> None:
        """Fetch all files and links; add the directories that are not fetched to `folders`."""
        path, cid, waiting = directory.path, directory.cid, directory.waiting
        there = run_blocking(self._work.count, path)
        iter(waiting)
        if feed is not None:
            self._fetch_from(feed, directory)
        elif self._archive_pays(waiting, there):
            feed = self._source.archive(cid, path, "all")
            if feed is not None:
                try:
                    self._fetch_from(feed, directory)
                finally:
                    feed.close()
        worker = partial(self._work_off, directory)
        try:
            outcomes = together([worker] * min(FILES_AT_ONCE, waiting.count or 1))
        except BaseException:
            self._failed = True  # threads may still run
            raise
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    def _archive_pays(self, waiting: EntrySpool, there: int) -> bool:
        """Return whether an archive is cheaper than a request for each entry.

        Not if an earlier download has written more than a tenth of them: all would come again.
        """
        count = waiting.count
        is_small = waiting.size <= count * ARCHIVE_UP_TO
        return count >= ARCHIVE_FROM and is_small and there * 10 <= count

    def _fetch_from(self, feed: ArchiveFeed, directory: _Directory) -> None:
        """Take entries that wait, and write them with the blocks of `feed`, until it ends."""
        while not feed.is_over and (entry := directory.waiting.take()) is not None:
            place = (*directory.path, entry.name)
            if self._entries.is_saved(place, entry.cid):
                continue
            kind = None
            try:
                block = feed.block(entry.cid)
                kind = self._entries.put(place, entry.cid, block, feed)
            except PassedError:
                kind = None
            except (NetworkError, VerificationError):
                if not feed.is_over:
                    raise
            if kind is None:
                self._fetch_entry(directory, entry)
            elif kind is Kind.DIRECTORY:
                directory.counter.add_directory(entry.cid)
                self.fetch(place, entry.cid, feed)
            elif kind is Kind.SHARD:  # its names come between its content
                directory.add_folder(entry)

    def _work_off(self, directory: _Directory) -> None:
        """Take entries that wait, and fetch them, until there are no more or one has failed."""
        path, waiting = directory.path, directory.waiting
        try:
            while not self._failed and (entry := waiting.take()) is not None:
                if self._entries.usage.is_directory(entry.cid):
                    directory.add_folder(entry)
                elif not self._entries.is_saved((*path, entry.name), entry.cid):
                    self._fetch_entry(directory, entry)
        except BaseException:
            self._failed = True
            raise

    def _fetch_entry(self, directory: _Directory, entry: DirectoryEntry) -> None:
        place = (*directory.path, entry.name)
        try:
            kind = self._entries.fetch(place, entry.cid)
        except ClientError as error:
            error.add_note(single_line(f"in the directory: {'/'.join(place)}"))
            raise
        if kind in FOLDERS:
            directory.add_folder(entry)
