"""The folder beside a target in which a directory is put together, and the step to the target.

::

    .photos.holdfast-1f2e3d4c5b6a7988/
        lock      locked by the download that uses the folder
        files/    the directory; each file in it was complete and verified when it came there
        parts/    files while they are written
        blocks/   the blocks of directories, by their CIDs
        probe/    files that show which names the file system can have

A later download of the same content to the same target continues here. It trusts nothing of it:
files and blocks are hashed again, and a link or any other thing that a download does not make is an
error.
"""

import contextlib
import errno
import hashlib
import os
import stat
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final

from holdfast.content.blocks import MAX_BLOCK, check_block
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.errors import VerificationError
from holdfast.files.atomic import sync_name
from holdfast.files.folder_target.limits import Usage
from holdfast.files.folder_target.names import EntryPath, NameRules, longest_name
from holdfast.files.folder_target.part_file import PartFile
from holdfast.files.folder_target.saved import has_content
from holdfast.files.folder_target.tree import TargetTree, changed_by_others
from holdfast.files.locks import try_lock

FILES: Final = "files"
PARTS: Final = "parts"
BLOCKS: Final = "blocks"
PROBE: Final = "probe"
LOCK: Final = "lock"
LONGEST_SHOWN: Final = 100  # characters of the target's name in that of the work folder
NFC, NFD = "caf\u00e9", "cafe\u0301"


class WorkFolder:
    """The work folder for the directory at `reference` and its `target`.

    Attributes:
        path: Its path.
        tree: What is in it, while it is open.
    """

    def __init__(self, target: Path, reference: Reference) -> None:
        self.target: Path = Path(os.path.abspath(target))  # noqa: PTH100 - links are not resolved
        cid = reference.cid
        content = repr((cid.key, reference.path, self.target.name))
        key = hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        shown = self.target.name.encode("utf-8", "surrogateescape")[:LONGEST_SHOWN]
        name = f".{shown.decode('utf-8', 'ignore')}.holdfast-{key}"
        self.path: Path = self.target.parent / name
        self.tree: TargetTree
        self._lock: BinaryIO | None = None
        self._mode: int | None = None
        self._saving = Lock()

    def open(self) -> None:
        """Check the target, then make or open the folder and lock it."""
        check_target(self.target)
        with contextlib.suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        self.tree = TargetTree(self.path)
        try:
            self._take_lock()
            self._mode = check_target(self.target)
            for name in (FILES, PARTS, BLOCKS):
                self.tree.make((name,))
        except BaseException:
            if self._lock is None:
                self.tree.close()
            else:
                self.close()
            raise

    def rules(self, *, portable: bool) -> NameRules:
        """Return the rules for names on this file system, after some tries."""
        self.tree.remove_all((PROBE,))
        self.tree.make((PROBE,))
        with self.tree.opened((PROBE,)) as place:
            longest = longest_name(place.dir_fd)
        return NameRules(
            portable=portable,
            merges_case=self._merges("probe", "PROBE"),
            merges_forms=self._merges(NFC, NFD),
            longest=longest,
            can_write=self._can_write,
        )

    def part(self, path: EntryPath, cid: CID, usage: Usage, *, continues: bool) -> PartFile:
        """Return the sink for the file `cid` at `path`."""
        part = self._part_path(path, cid)
        return PartFile(self.tree, part, (FILES, *path), usage, continues=continues)

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
                return file.tell()
        if continues:
            self.tree.move(place, self._part_path(path, cid))
        else:
            self.tree.remove(place)
        return None

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

    def commit(self, entries: int) -> None:
        """Make the directory durable and give it its name. It must have so many `entries`."""
        found = self.tree.sync((FILES,))
        if found != entries:
            raise OSError(
                errno.EEXIST,
                f"{entries} entries were written, and {found} are here: the file system takes two "
                "names for one, or somebody else writes here; remove this folder and try again, "
                "on another disk if need be",
                str(self.path / FILES),
            )
        check_target(self.target)
        if self._mode is not None and os.name != "nt":
            (self.path / FILES).chmod(self._mode)
        with contextlib.suppress(FileNotFoundError):
            self.target.rmdir()
        (self.path / FILES).rename(self.target)
        sync_name(self.target)

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
            for name in (PROBE,) if keep else (PROBE, FILES, PARTS, BLOCKS, LOCK):
                self.tree.remove_all((name,))
        self.tree.close()
        with contextlib.suppress(OSError):
            if not keep:
                self.path.rmdir()
        if self._lock is not None:
            self._lock.close()

    def _take_lock(self) -> None:
        """Lock the folder; raise `BlockingIOError` if another download uses it."""
        file = self.tree.open((LOCK,), os.O_RDWR | os.O_CREAT)
        if file is None:
            raise changed_by_others(self.path / LOCK)
        try:
            locked = try_lock(file.fileno())
        except OSError:  # a file system without locks
            locked = True
        # The other download may have ended in between, and removed its folder.
        named = self.tree.status((LOCK,))
        if locked and named is not None and named.st_ino == os.fstat(file.fileno()).st_ino:
            self._lock = file
            return
        file.close()
        raise BlockingIOError(
            errno.EAGAIN,
            "another download of the same content to this folder is running: wait for its end",
            str(self.target),
        )

    def _part_path(self, path: EntryPath, cid: CID) -> EntryPath:
        key = "/".join(path).encode("utf-8", "surrogateescape") + b"\0" + bytes(cid)
        return (PARTS, hashlib.sha256(key).hexdigest()[:40])

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


def check_target(target: Path) -> int | None:
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
        if next(entries, None) is not None:
            words = "the folder is not empty; give the path of a new folder"
            raise FileExistsError(errno.EEXIST, words, str(target))
    if target == Path.cwd() or target.is_mount():
        words = "this folder is in use and cannot be replaced; give the path of a new one in it"
        raise OSError(errno.EBUSY, words, str(target))
    return stat.S_IMODE(status.st_mode)
