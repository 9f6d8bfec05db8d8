"""The folder beside a target in which a directory is put together, and the step to the target.

::

    .photos.holdfast-1f2e3d4c5b6a7988/
        lock      locked by the download that uses the folder
        files/    the directory; each file in it was complete and verified when it came there
        parts/    files while they are written
        blocks/   the blocks of directories, by their CIDs
        probe/    files that show which names the file system can have
        begun/    is here while finishes make the target from the files

A later download of the same content to the same target continues here. It trusts nothing of it:
files and blocks are hashed again, and a link or any other thing that a download does not make is an
error.

If all is complete, files/ is moved to the target. A reader that changes content (one that decrypts,
say) has finishes. They make the content of each file at its place in the target, because nothing of
it may be left here. An error removes the target again. If the process is killed, the target has
some complete files. The next download of the same content makes the others, and compares these.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Generator, Iterator
from functools import partial
from io import BufferedReader
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final, cast

from holdfast.content.blocks import MAX_BLOCK, check_block
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.disk import folders
from holdfast.disk.atomic import WORTH_KEEPING, PendingFile, WorkFile, sync_file_system, sync_name
from holdfast.disk.closing import closed_at_end, on_error
from holdfast.disk.disk_space import FULL
from holdfast.disk.locks import try_lock
from holdfast.errors import ClientClosedError, VerificationError
from holdfast.sinks.entries import DiskUsage
from holdfast.sinks.names import EntryPath, NameRules, longest_name
from holdfast.sinks.sinks import Finishes, Sink, finished
from holdfast.sources.local_cids import verify

FILES: Final = "files"
PARTS: Final = "parts"
BLOCKS: Final = "blocks"
CONTENT: Final = (FILES, PARTS, BLOCKS)
BEGUN: Final = "begun"
PROBE: Final = "probe"
LOCK: Final = "lock"
LONGEST_SHOWN: Final = 100  # characters of the target's name in that of the work folder
NFC, NFD = "caf\u00e9", "cafe\u0301"


class TargetTree:
    """The folder at `path`, which must be a real folder of this user, and what is below it.

    Entries are named by their path: a tuple of names. No symbolic link is followed on the way.
    Threads may share a tree. After `close`, every method raises `ClientClosedError`.

    Example:
        >>> import tempfile
        >>> tree = TargetTree(Path(tempfile.mkdtemp()))
        >>> tree.make(("photos",))
        >>> with tree.create(("photos", "a.jpg")) as file:
        ...     _ = file.write(b"x")
        >>> tree.names(("photos",))
        ['a.jpg']
        >>> tree.close()
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._closed = False
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise changed_by_others(path)
        folders.check_owner(status, path)
        self._root = os.open(path, folders.DIRECTORY | folders.NO_FOLLOW)

    def make(self, path: EntryPath, mode: int = 0o777) -> None:
        """Make a folder. One that is there is fine."""
        with self._above(path) as folder, contextlib.suppress(FileExistsError):
            os.mkdir(path[-1], mode, dir_fd=folder)
        with self.opened(path):
            pass

    def create(self, path: EntryPath) -> BinaryIO:
        """Make a file, which must not exist, and open it."""
        with self._above(path) as folder:
            return os.fdopen(folders.create(folder, path[-1]), "w+b")

    def open(self, path: EntryPath, flags: int = os.O_RDONLY) -> BinaryIO | None:
        """Open a regular file that has no other name; return None if there is nothing.

        Raise `OSError` if it is anything else, a link for example.
        """

        def refuse() -> OSError:
            return changed_by_others(self.path.joinpath(*path))

        with self._above(path) as folder:
            try:
                descriptor = folders.open_file(folder, path[-1], flags, 0o600, refuse=refuse)
            except FileNotFoundError:
                return None
        if os.fstat(descriptor).st_nlink != 1:
            os.close(descriptor)
            raise refuse()
        return os.fdopen(descriptor, "rb" if flags & os.O_ACCMODE == os.O_RDONLY else "r+b")

    def status(self, path: EntryPath) -> os.stat_result | None:
        """Return the status of an entry, of a link itself; None if it does not exist."""
        with contextlib.suppress(FileNotFoundError), self._above(path) as folder:
            return folders.status_in(folder, path[-1])
        return None

    def move(self, path: EntryPath, target: EntryPath) -> None:
        """Give a file another path. A file that has it is replaced."""
        with self._above(path) as origin, self._above(target) as folder:
            os.replace(path[-1], target[-1], src_dir_fd=origin, dst_dir_fd=folder)

    def remove(self, path: EntryPath, *, is_folder: bool = False) -> None:
        """Remove a file, a link or an empty folder; do nothing if there is none."""
        with self._above(path) as folder, contextlib.suppress(FileNotFoundError):
            (os.rmdir if is_folder else os.unlink)(path[-1], dir_fd=folder)

    def remove_all(self, path: EntryPath) -> None:
        """Remove a folder and everything below it; do nothing if there is none."""
        with self._above(path) as folder, contextlib.suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(path[-1], dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(path[-1], dir_fd=folder)
            else:
                os.unlink(path[-1], dir_fd=folder)

    def link(self, path: EntryPath, text: str) -> None:
        """Make a symbolic link; one with the same text is fine."""
        with self._above(path) as folder:
            try:
                os.symlink(text, path[-1], dir_fd=folder)
            except FileExistsError:
                if os.readlink(path[-1], dir_fd=folder) != text:
                    raise changed_by_others(self.path.joinpath(*path)) from None

    def names(self, path: EntryPath) -> list[str]:
        """Return the names in a folder."""
        with self.opened(path) as folder:
            return os.listdir(folder)  # noqa: PTH208 - an open folder

    def size(self, path: EntryPath) -> int:
        """Return how many bytes the files below a folder have."""
        with self.opened(path) as top:
            return sum(
                status.st_size
                for _, _, names, folder in os.fwalk(dir_fd=top)
                for name in names
                if (status := _file_status(folder, name)) is not None
            )

    def sync(self, path: EntryPath) -> int:
        """Make everything below a folder durable; return how many entries are below it."""
        count = 0
        with self.opened(path) as top:
            is_done = sync_file_system(top)
            for _, inner, names, folder in os.fwalk(dir_fd=top):
                count += len(inner) + len(names)
                if not is_done:
                    _sync_all(folder, names)
        return count

    def opened(self, path: EntryPath) -> contextlib.AbstractContextManager[int]:
        """Open a folder while the block runs, after a check of each folder on the way to it."""
        with self._lock:
            if self._closed:
                raise ClientClosedError
            root = os.dup(self._root)
        return closed_at_end(folders.open_below(root, self.path, path, changed_by_others))

    def close(self) -> None:
        """Close the folder."""
        with self._lock:
            self._closed = True
            os.close(self._root)

    def _above(self, path: EntryPath) -> contextlib.AbstractContextManager[int]:
        """Open the folder in which an entry is."""
        return self.opened(path[:-1])


def _file_status(folder: int, name: str) -> os.stat_result | None:
    """Return the status of a regular file; None for anything else."""
    status = folders.status_in(folder, name)
    return status if status is not None and stat.S_ISREG(status.st_mode) else None


def _sync_all(folder: int, names: list[str]) -> None:
    """Make the files of these names, and the names in the open folder, durable."""
    flags = os.O_RDONLY | folders.NO_FOLLOW | folders.NO_WAIT
    for name in names:
        if _file_status(folder, name) is not None:
            with closed_at_end(os.open(name, flags, dir_fd=folder)) as descriptor:
                os.fsync(descriptor)
    os.fsync(folder)


def changed_by_others(path: Path) -> OSError:
    """Return the error for something in a work folder that Holdfast did not make."""
    return OSError(
        errno.EEXIST,
        "this was not made by the download, which neither follows links nor overwrites other "
        "files: remove it",
        str(path),
    )


class WorkFolder:
    """The work folder for the directory at `reference` and its `target`.

    Attributes:
        finishes: What makes the content of files from their verified bytes, in their order.
        path: Its path.
        tree: What is in it, while it is open.
    """

    def __init__(self, target: Path, reference: Reference, finishes: Finishes = ()) -> None:
        self.target: Path = Path(os.path.abspath(target))  # noqa: PTH100 - links are not resolved
        content = repr((reference.cid.key, reference.path, self.target.name))
        key = hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        shown = self.target.name.encode("utf-8", "surrogateescape")[:LONGEST_SHOWN]
        name = f".{shown.decode('utf-8', 'ignore')}.holdfast-{key}"
        self.path: Path = self.target.parent / name
        self.tree: TargetTree
        self.finishes: Finishes = finishes
        self._lock: BinaryIO | None = None
        self._mode: int | None = None
        self._saving = Lock()

    def open(self) -> None:
        """Check the target, then make or open the folder and lock it."""
        self._check_target()
        with contextlib.suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        self.tree = TargetTree(self.path)
        with on_error(lambda: self.tree.close() if self._lock is None else self.close()):
            self._take_lock()
            self._mode = self._check_target()
            for name in CONTENT:
                self.tree.make((name,))

    def rules(self, *, portable: bool) -> NameRules:
        """Return the rules for names on this file system, after some tries."""
        self.tree.remove_all((PROBE,))
        self.tree.make((PROBE,))
        with self.tree.opened((PROBE,)) as folder:
            longest = longest_name(folder)
        return NameRules(
            portable=portable,
            merges_case=self._merges("probe", "PROBE"),
            merges_forms=self._merges(NFC, NFD),
            longest=longest,
            can_write=self._can_write,
        )

    def saved_size(self, path: EntryPath, cid: CID, *, continues: bool) -> int | None:
        """Return the size of the file at `path` if it has the content of `cid`, else None.

        A file of other content becomes a part that a download may continue, or is removed.
        """
        place = (FILES, *path)
        status = self.tree.status(place)
        if status is None or stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode):
            return None
        file = self.tree.open(place)
        if file is None:
            return None
        with file:
            if has_content(file, cid):
                return os.fstat(file.fileno()).st_size
        if continues:
            self.tree.move(place, self.part_path(path, cid))
        else:
            self.tree.remove(place)
        return None

    def part_path(self, path: EntryPath, cid: CID) -> EntryPath:
        """Return where the file `cid` of the directory is while it is written."""
        key = "/".join(path).encode("utf-8", "surrogateescape") + b"\0" + bytes(cid)
        return (PARTS, hashlib.sha256(key).hexdigest()[:40])

    def save_block(self, cid: CID, block: bytes) -> None:
        """Save a verified block for a later download."""
        part = (PARTS, bytes(cid).hex()[-80:])
        with self._saving:  # many folders of a directory may have the same block
            self.tree.remove(part)
            with self.tree.create(part) as file:
                file.write(block)
            self.tree.move(part, (BLOCKS, bytes(cid).hex()[-80:]))

    def saved_block(self, cid: CID) -> bytes | None:
        """Return a block that was saved, hashed again; None if it is not there."""
        with self._saving:
            file = self.tree.open((BLOCKS, bytes(cid).hex()[-80:]))
        if file is None:
            return None
        with file:
            block = file.read(MAX_BLOCK + 1)
        try:
            check_block(cid, block)
        except VerificationError:
            return None
        return block

    def make_folder(self, path: EntryPath) -> None:
        """Make a folder of the directory."""
        if path:
            self.tree.make((FILES, *path))

    def count(self, path: EntryPath) -> int:
        """Return how many entries a folder of the directory has so far."""
        return len(self.tree.names((FILES, *path)))

    def make_link(self, path: EntryPath, text: str) -> None:
        """Make a symbolic link of the directory."""
        self.tree.link((FILES, *path), text)

    def commit(self, entries: int, usage: DiskUsage) -> Generator[bool, None, None]:
        """Make the target durable, with so many `entries`; yield True after each step.

        `usage` counts what finishes write. Without finishes, the directory gets its name at once.
        """
        if self.finishes:
            yield from self._finish(entries, usage)
        else:
            _check_count(self.tree.sync((FILES,)), entries, self.path / FILES)
            self._check_target()
            if self._mode is not None:
                (self.path / FILES).chmod(self._mode)
            with contextlib.suppress(FileNotFoundError):
                self.target.rmdir()
            (self.path / FILES).rename(self.target)
        sync_name(self.target)

    def _finish(self, entries: int, usage: DiskUsage) -> Iterator[bool]:
        """Let the finishes make the target; remove it if that fails or is not run to its end."""
        self._check_target()
        self.target.mkdir(exist_ok=True)
        target, count = TargetTree(self.target), 0
        self.tree.make((BEGUN,))
        try:
            for path, mode in self._entries():
                is_new = target.status(path) is None
                count += is_new
                if stat.S_ISDIR(mode):
                    target.make(path)
                elif stat.S_ISLNK(mode):
                    stored = self.path.joinpath(FILES, *path)
                    target.link(path, os.readlink(stored))  # noqa: PTH115 - the text as it is
                else:
                    yield from self._finish_file(target, path, usage)
                count += not is_new
                yield True
            _check_count(target.sync(()), entries, self.target)
        except BaseException:
            for path, mode in reversed([*islice(self._entries(), count)]):
                with contextlib.suppress(OSError):
                    target.remove(path, is_folder=stat.S_ISDIR(mode))
            with contextlib.suppress(OSError):
                if not target.names(()):
                    self.tree.remove_all((BEGUN,))
                    if self._mode is None:
                        self.target.rmdir()
            raise
        finally:
            target.close()

    def _finish_file(self, target: TargetTree, path: EntryPath, usage: DiskUsage) -> Iterator[bool]:
        """Make one file of the target; yield True after some MiB.

        One that is there must have the same bytes.
        """
        stored = self.tree.open((FILES, *path))
        if stored is None:
            raise changed_by_others(self.path.joinpath(FILES, *path))
        place, folder = self.target.joinpath(*path), partial(target.opened, path[:-1])
        with stored, PendingFile(place, open_outer=folder) as file:
            for piece in finished(self.finishes, stored):
                usage.add_bytes(len(piece), len(piece))
                file.write(piece)
                yield True
            earlier = target.open(path)
            if earlier is None:
                file.commit(durable=False)
                return
            with earlier:
                if _digest(file.read_all()) != _digest(earlier):
                    raise changed_by_others(place)

    def _entries(self, path: EntryPath = ()) -> Iterator[tuple[EntryPath, int]]:
        """Yield the path and the mode of each entry, of a folder before those in it."""
        for name in sorted(self.tree.names((FILES, *path))):
            status = self.tree.status((FILES, *path, name))
            if status is not None:
                yield (*path, name), status.st_mode
                if stat.S_ISDIR(status.st_mode):
                    yield from self._entries((*path, name))

    def saved_bytes(self) -> int:
        """Return how many bytes of files are here. They are not verified yet."""
        return sum(self.tree.size((name,)) for name in (FILES, PARTS))

    def has_progress(self) -> bool:
        """Return whether a later download could continue with what is here."""
        return any(self.tree.names((name,)) for name in (FILES, PARTS))

    def close(self, *, keep: bool = True) -> None:
        """Unlock and close the folder; remove it if it has nothing to keep."""
        with contextlib.suppress(OSError):
            keep = keep and self.has_progress()
        with contextlib.suppress(OSError):
            for name in (PROBE,) if keep else (PROBE, *CONTENT, BEGUN, LOCK):
                self.tree.remove_all((name,))
        self.tree.close()
        if self._lock is not None:
            self._lock.close()
        with contextlib.suppress(OSError):
            if not keep:
                self.path.rmdir()

    def unlock(self) -> None:
        """Close the folder if it is open."""
        if self._lock is not None and not self._lock.closed:
            self.close()

    def _check_target(self) -> int | None:
        """Return the mode of the folder at the target; raise `OSError` if it cannot be used."""
        is_begun = bool(self.finishes) and os.path.lexists(self.path / BEGUN)
        return check_target(self.target, may_have_entries=is_begun)

    def _take_lock(self) -> None:
        """Lock the folder; raise `BlockingIOError` if another download uses it."""
        file = self.tree.open((LOCK,), os.O_RDWR | os.O_CREAT)
        if file is None:
            raise changed_by_others(self.path / LOCK)
        locked = try_lock(file.fileno(), unsupported=True)
        # The other download may have ended in between, and removed its folder.
        named = self.tree.status((LOCK,))
        if locked and named is not None and named.st_ino == os.fstat(file.fileno()).st_ino:
            self._lock = file
            return
        file.close()
        raise BlockingIOError(
            errno.EAGAIN,
            "another download of the same content to this folder is running: wait until it ends",
            str(self.target),
        )

    def _merges(self, one: str, other: str) -> bool:
        """Return whether two names are one file here."""
        try:
            self.tree.create((PROBE, one)).close()
            return self.tree.status((PROBE, other)) is not None
        except (OSError, UnicodeError):
            return True
        finally:
            self.tree.remove((PROBE, one))

    def _can_write(self, name: str) -> bool:
        """Return whether a file of this name can be made, and then has just this name."""
        folder = (PROBE, hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16])
        try:
            self.tree.make(folder)
            self.tree.create((*folder, name)).close()
            return self.tree.names(folder) == [name]
        except (OSError, UnicodeError):
            return False
        finally:
            self.tree.remove_all(folder)


class PartFile(WorkFile, Sink):
    """A sink for the file `cid` of a directory, in `work` until `commit` moves it to `path`.

    Args:
        work: The folder that it is written to.
        path: Its path in the directory.
        cid: Its CID.
        usage: Counts the bytes before they are written, and refuses too many.
        continues: Whether the bytes of an earlier download may be used. They must be verified
            again.
    """

    is_in_memory = False

    def __init__(
        self, work: WorkFolder, path: EntryPath, cid: CID, usage: DiskUsage, *, continues: bool
    ) -> None:
        self._work = work
        self._path = path
        self._usage = usage
        self._part = work.part_path(path, cid)
        self._least_size = 0  # bytes that the file has at least
        self._counted = (0, 0)  # what `usage` has counted of it
        self._continues = continues

    def open(self) -> None:
        """Open the file of an earlier download, or make one."""
        if self._continues:
            self._file = self._work.tree.open(self._part, os.O_RDWR)
        else:
            self._work.tree.remove(self._part)
        if self._file is None:
            self._file = self._work.tree.create(self._part)
        self.saved_size = self.size = self._file.seek(0, os.SEEK_END)
        if not self._work.finishes:  # else only a finish says how large the content is
            self._count(self.size, self.size)

    def expect(self, size: int, *, is_claim: bool = False) -> None:
        """Raise an error if a file of `size` bytes is too large for the disk or for the user."""
        if not is_claim:
            self._count(max(size, self.size), self.size)
            if self.finishes:
                self._usage.space.require(size - self.size + self.second_size(size))

    def write(self, data: bytes | memoryview) -> None:
        """Append `data`."""
        size = self.size + len(data)
        self._count(max(self._least_size, size), size)
        super().write(data)
        self.size = size

    def truncate(self, size: int) -> None:
        """Remove what was written, apart from the first `size` bytes."""
        super().truncate(size)
        self._count(size, size)
        self.size: int = size
        self.saved_size: int = min(self.saved_size, size)

    def commit(self) -> None:
        """Give the file its name. All bytes are verified. The finishes of the folder run later."""
        if self.finishes and not self._work.finishes:
            raise TypeError("a reader that adds a finish needs `finishes` to download folders")
        self.check_size(self.size)
        self._opened().close()
        self._work.tree.move(self._part, (FILES, *self._path))

    def discard(self) -> None:
        """Close the file, and save its verified bytes if they are many. Not after `commit`."""
        super().discard()
        file, self._file = self._file, None
        if file is None or file.closed:
            return
        self._count(0, 0)
        with contextlib.suppress(OSError):  # a full disk, for example
            keep = self._continues and self.verified >= WORTH_KEEPING
            if keep:
                file.truncate(self.verified)
            file.close()
            if not keep:
                self._work.tree.remove(self._part)
        with contextlib.suppress(OSError):
            file.close()

    def _count(self, size: int, written: int) -> None:
        """Count the file as one of `size` bytes, of which `written` are on the disk."""
        self._least_size = size
        counted = (self.content_size(size), 0) if self.finishes and size else (size, written)
        before, self._counted = self._counted, counted
        self._usage.add_bytes(counted[0] - before[0], counted[1] - before[1])

    def explained(self, error: OSError) -> OSError:
        """Return the error of a full disk with advice; any other error as it is."""
        if error.errno not in FULL:
            return error
        words = "the disk is full: free some space and call again; the verified part is kept"
        return OSError(errno.ENOSPC, words, "/".join(self._path))


def _digest(file: BinaryIO) -> bytes:
    return hashlib.file_digest(cast("BufferedReader", file), "sha256").digest()


def _check_count(count: int, expected: int, folder: Path) -> None:
    """Raise `OSError` unless a folder has the expected number of entries."""
    if count != expected:
        raise OSError(
            errno.EEXIST,
            f"{expected} entries were written, but {count} are here: the file system merges two "
            "names, or another program writes here; remove this folder and try again, "
            "on another disk if necessary",
            str(folder),
        )


def check_target(target: Path, *, may_have_entries: bool = False) -> int | None:
    """Return the mode of the empty folder that `target` replaces; None if there is none.

    Raise `OSError` if no folder can be written there.
    """
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "No such folder to write to", str(target.parent))
    try:
        status = target.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        words = "this is a symbolic link; give the path of a new folder"
        raise FileExistsError(errno.EEXIST, words, str(target))
    if not stat.S_ISDIR(status.st_mode):
        words = "this is not a folder; give the path of a new folder"
        raise NotADirectoryError(errno.ENOTDIR, words, str(target))
    with os.scandir(target) as entries:
        if next(entries, None) is not None and not may_have_entries:
            words = "the folder is not empty; give the path of a new folder"
            raise FileExistsError(errno.EEXIST, words, str(target))
    if target == Path.cwd() or target.is_mount():
        words = "this folder is in use and cannot be replaced; give the path of a new one in it"
        raise OSError(errno.EBUSY, words, str(target))
    return stat.S_IMODE(status.st_mode)


def has_content(file: BinaryIO, cid: CID) -> bool:
    """Return whether the bytes of `file` are the content of `cid`.

    False may also mean that it was cut in an unknown way.

    Example:
        >>> import io
        >>> has_content(io.BytesIO(b"hello"), CID.of_raw(b"hello"))
        True
    """
    try:
        return verify(file, str(cid))
    except VerificationError:
        return False
