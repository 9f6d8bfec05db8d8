"""The files that a transaction writes: in a temporary folder, until all are uploaded together."""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final, Self

from fsspec.asyn import sync
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from holdfast.filesystem.base_classes import Transaction

NAME: Final = "data"  # the name of the directory, for providers that keep one


class Staging:
    """A temporary folder with the files of a transaction, by their paths in it.

    The folder is removed by `remove`, or when the object is collected. Paths are checked by
    `paths.reference_to`, so that none leads out of it.
    """

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(
            prefix="holdfast-", ignore_cleanup_errors=True
        )
        self.folder: Path = Path(self._temporary.name, NAME)
        self.folder.mkdir()
        local = LocalFileSystem(auto_mkdir=True, skip_instance_cache=True)
        self._files = DirFileSystem(str(self.folder), local, skip_instance_cache=True)

    def info(self, path: str) -> dict[str, Any]:
        """Return what is known of a file or a folder."""
        found = self._files.info(path)
        return {"name": path, "size": found["size"], "type": found["type"]}

    def list(self, path: str) -> list[dict[str, Any]]:
        """Return what is in a folder."""
        return [self.info(str(name)) for name in self._files.ls(path, detail=False)]

    def open(self, path: str, mode: str) -> Any:
        """Open a file, and make the folders above it if it is written."""
        return self._files.open(path, mode)

    def read(self, path: str, start: int | None, end: int | None) -> bytes:
        """Return the bytes of a file, or a part of them."""
        data: bytes = self._files.cat_file(path, start, end)
        return data

    def write(self, path: str, data: bytes, *, is_new: bool) -> None:
        """Write a file."""
        with self.open(path, "xb" if is_new else "wb") as file:
            file.write(data)

    def make_folder(self, path: str, *, parents: bool, exist_ok: bool) -> None:
        """Make a folder."""
        if parents:
            self.path_of(path).mkdir(parents=True, exist_ok=exist_ok)
        else:
            self.path_of(path).mkdir(exist_ok=exist_ok)

    def remove_one(self, path: str) -> None:
        """Remove a file, or an empty folder."""
        found = self.path_of(path)
        if found.is_dir():
            found.rmdir()
        else:
            found.unlink()

    def copy_in(self, path: str, source: str | os.PathLike[str]) -> None:
        """Copy a file of this machine to `path`; for a folder, make one."""
        target = self.path_of(path)
        if Path(source).is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)

    def copy_out(self, path: str, target: str | os.PathLike[str]) -> None:
        """Copy the file at `path` to a file of this machine."""
        shutil.copyfile(self.path_of(path), target)

    def is_empty(self) -> bool:
        """Return whether nothing was written, or all of it was removed."""
        return not any(self.folder.iterdir())

    def path_of(self, path: str) -> Path:
        """Return where on this machine a file is."""
        return self.folder / path

    def remove(self) -> None:
        """Remove the folder."""
        self._temporary.cleanup()


class HoldfastTransaction(Transaction):
    """A transaction: what is written in it is uploaded at its end, as one directory.

    Use it by ``with``, or by ``async with`` where the file system is asynchronous.
    """

    fs: Any

    def complete(self, commit: bool = True) -> None:  # noqa: FBT001, FBT002 - as fsspec calls it
        """Upload what was written, or forget it."""
        if self.fs.asynchronous:
            fs = self.fs
            self._end()
            fs.discard()
            raise RuntimeError("an asynchronous file system needs `async with fs.transaction:`")
        sync(self.fs.loop, self._finish, commit=commit)

    async def _finish(self, *, commit: bool) -> None:
        fs = self.fs
        try:
            while self.files:
                self.files.popleft().close()
            if commit:
                await fs.commit()
        finally:
            self._end()
            await asyncio.to_thread(fs.discard)

    def _end(self) -> None:
        fs, self.fs = self.fs, None
        fs._intrans = False  # noqa: SLF001 - as fsspec does
        fs._transaction = None  # noqa: SLF001

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._finish(commit=kind is None)
