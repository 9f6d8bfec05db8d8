"""The files that a transaction writes: in a temporary folder, until all are uploaded together."""

import asyncio
import errno
import os
import shutil
import stat
import tempfile
import weakref
from pathlib import Path
from typing import Any, Final, Self

from fsspec.asyn import sync
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from holdfast.disk.folders import NO_FOLLOW, NO_WAIT
from holdfast.errors import NotAFileError
from holdfast.filesystem.base_classes import Transaction
from holdfast.sources.folder_source import SPECIAL, open_source_folder

NAME: Final = "data"  # the name of the directory, for providers that keep one


class Staging:
    """A temporary folder with the files of a transaction, by their paths in it.

    The folder is removed by `remove`, or when the object is collected. Paths are checked by
    `paths.reference_to`, so that none leads out of it. Nor does a link: it is made by `finish`, as
    the last thing before the upload.
    """

    def __init__(self) -> None:
        temporary = tempfile.mkdtemp(prefix="holdfast-")
        self._remove = weakref.finalize(self, _remove, temporary, os.getpid())
        self.folder: Path = Path(temporary, NAME)
        self.folder.mkdir()
        local = LocalFileSystem(auto_mkdir=True, skip_instance_cache=True)
        self._files = DirFileSystem(str(self.folder), local, skip_instance_cache=True)
        self._links: dict[str, str] = {}

    def info(self, path: str) -> dict[str, Any]:
        """Return what is known of a file, a folder or a link."""
        if self._is_link(path):
            return {"name": path, "size": 0, "type": "link", "destination": self._links[path]}
        info = self._files.info(path)
        return {"name": path} | {name: info[name] for name in ("size", "type", "mtime", "created")}

    def list(self, path: str) -> list[dict[str, Any]]:
        """Return what is in a folder."""
        names = [str(name) for name in self._files.ls(path, detail=False)]
        names += [
            link for link in self._links if link.rpartition("/")[0] == path and self._is_link(link)
        ]
        return [self.info(name) for name in names]

    def open(self, path: str, mode: str) -> Any:
        """Open a file, and make the folders above it if it is written."""
        if mode == "rb":
            self._check_not_link(path)
        return self._files.open(path, mode)

    def read(self, path: str, start: int | None, end: int | None) -> bytes:
        """Return the bytes of a file, or a part of them."""
        self._check_not_link(path)
        data: bytes = self._files.cat_file(path, start, end)
        return data

    def write(self, path: str, data: bytes, *, is_new: bool) -> None:
        """Write a file."""
        with self.open(path, "xb" if is_new else "wb") as file:
            file.write(data)

    def make_folder(self, path: str, *, parents: bool, exist_ok: bool = False) -> None:
        """Make a folder."""
        self.path_of(path).mkdir(parents=parents, exist_ok=exist_ok)

    def remove_one(self, path: str) -> None:
        """Remove a file, a link, or an empty folder."""
        if self._is_link(path):
            del self._links[path]
        elif self.path_of(path).is_dir():
            self.path_of(path).rmdir()
        else:
            self.path_of(path).unlink()

    def copy_in(
        self, path: str, source: str | Path, root: str | None = None, *, is_new: bool = False
    ) -> None:
        """Copy a file of this machine to `path`; for a folder, make one.

        With the folder `root`, in which `source` was found, the source and the folders above it are
        opened as `upload` does: no link is followed. A link is copied as a link.
        """
        target = self.path_of(path)
        if is_new and target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if root is None and Path(source).is_dir():
            target.mkdir(parents=True, exist_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if root is None:
            shutil.copyfile(source, target)
            return
        inner = Path(source).relative_to(root)
        parent = inner.parent.as_posix() if inner.parent.name else ""
        with open_source_folder(Path(root), parent) as folder:
            name = inner.name
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                target.mkdir(exist_ok=True)
            elif stat.S_ISLNK(mode):
                target.unlink(missing_ok=True)
                self._links[path] = os.readlink(name, dir_fd=folder)
            elif not stat.S_ISREG(mode):
                what = SPECIAL.get(stat.S_IFMT(mode), "something else")
                raise OSError(f"{source} is {what}, not a file, directory or link")
            else:
                opened = os.open(name, os.O_RDONLY | NO_FOLLOW | NO_WAIT, dir_fd=folder)
                with os.fdopen(opened, "rb") as file, target.open("wb") as copy:
                    shutil.copyfileobj(file, copy, 1 << 20)

    def copy_out(self, path: str, target: str | os.PathLike[str]) -> None:
        """Copy the file at `path` to a file of this machine."""
        self._check_not_link(path)
        shutil.copyfile(self.path_of(path), target)

    def copy_within(self, path: str, target: str) -> None:
        """Copy a file or a link to another path; for a folder, make one."""
        if self._is_link(path):
            self.path_of(target).unlink(missing_ok=True)
            self.path_of(target).parent.mkdir(parents=True, exist_ok=True)
            self._links[target] = self._links[path]
        else:
            self.copy_in(target, self.path_of(path))

    def finish(self) -> bool:
        """Make the links, remove empty folders, and return whether anything is to be stored.

        Object stores drop empty folders too, and not all providers can store them: so the CID is
        the same everywhere.
        """
        for path, destination in self._links.items():
            if self._is_link(path) and self.path_of(path).parent.is_dir():
                self.path_of(path).symlink_to(destination)
        for folder, _, _ in os.walk(self.folder, topdown=False):
            if not os.listdir(folder) and folder != str(self.folder):  # noqa: PTH208
                Path(folder).rmdir()
        return any(self.folder.iterdir())

    def path_of(self, path: str) -> Path:
        """Return where on this machine a file is."""
        return self.folder / path

    def keep(self) -> None:
        """Do not remove the folder: the user may need the files."""
        self._remove.detach()

    def remove(self) -> None:
        """Remove the folder, unless it is to be kept."""
        self._remove()

    def _is_link(self, path: str) -> bool:
        """Return whether a link is at `path`, where nothing else was written later."""
        return path in self._links and not self.path_of(path).exists()

    def _check_not_link(self, path: str) -> None:
        if self._is_link(path):
            raise NotAFileError(f"{path} is a symbolic link, not a file")


def _remove(folder: str, process: int) -> None:
    """Remove a folder, but not in a forked process: it belongs to the one that made it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


class HoldfastTransaction(Transaction):
    """A transaction: what is written in it is uploaded at its end, as one directory.

    Use it by ``with``, or by ``async with`` where the file system is asynchronous.
    """

    fs: Any

    def start(self) -> None:
        """Open the transaction; raise `RuntimeError` if one is open."""
        self.fs.open_staging()
        super().start()

    def complete(self, commit: bool = True) -> None:  # noqa: FBT001, FBT002 - as fsspec calls it
        """Upload what was written, or forget it."""
        if self.fs.asynchronous:
            if (staging := self._end()) is not None:
                staging.remove()
            raise RuntimeError("an asynchronous file system needs `async with fs.transaction:`")
        sync(self.fs.loop, self._finish, commit=commit)

    async def _finish(self, *, commit: bool) -> None:
        fs = self.fs
        staging: Staging | None = None
        try:
            try:
                while self.files:
                    self.files.popleft().close()
            finally:
                staging = self._end()
            if commit and staging is not None:
                await fs.upload_staged(staging)
        except BaseException as error:
            if commit and staging is not None:
                staging.keep()
                error.add_note(
                    f"the files of the transaction are still in {staging.folder}; upload them by "
                    f"fs.put('{staging.folder}/', '', recursive=True), then remove the folder"
                )
            raise
        finally:
            if staging is not None:
                await asyncio.to_thread(staging.remove)

    def _end(self) -> Staging | None:
        """Close the transaction, so that nothing more is written; return what was."""
        fs, self.fs = self.fs, None
        fs._intrans = False  # noqa: SLF001 - as fsspec does
        fs._transaction = None  # noqa: SLF001
        staging: Staging | None = fs.close_staging()
        return staging

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._finish(commit=kind is None)
