"""The file system, with its part that writes."""

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.filesystem.instances import has_secret
from holdfast.filesystem.paths import plain_path
from holdfast.filesystem.reading import ReadingFileSystem
from holdfast.filesystem.staging import HoldfastTransaction, Staging


class HoldfastFileSystem(ReadingFileSystem):
    """Content on IPFS as a file system, every byte verified: ``holdfast://CID/a/b.csv``.

    Args:
        asynchronous: Whether its methods are awaited, by their names with an underscore.
        loop: The event loop to use; fsspec's own by default.
        batch_size: How many files or ranges are read at the same time.
        fields: The fields of `ClientConfig`. The ``HOLDFAST_*`` variables give the others.

    A path begins with a CID. What is written in a transaction, under paths that do not, becomes one
    directory; `cid` is then its CID.

    Attributes:
        config: The configuration of its client.
        cid: The CID of the last directory that was written, or None.

    Example:
        >>> import tempfile
        >>> fs = HoldfastFileSystem(path=tempfile.mkdtemp())
        >>> with fs.transaction:
        ...     fs.pipe_file("a.csv", b"x,y")
        ...     fs.pipe_file("more/b.csv", b"1,2")
        >>> fs.cat_file(f"holdfast://{fs.cid}/more/b.csv")
        b'1,2'
        >>> [name.partition("/")[2] for name in fs.find(fs.cid)]
        ['a.csv', 'more/b.csv']
    """

    transaction_type = HoldfastTransaction

    cid: str | None = None

    async def _write(self, path: str, work: Callable[..., Any], *args: Any, **options: Any) -> None:
        """Write into the folder of the transaction, on a thread."""
        path = plain_path(path)
        await asyncio.to_thread(work, self._staging_for(path), path, *args, **options)

    async def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        await self._write(path, Staging.write, value, is_new=mode == "create")

    async def _put_file(self, lpath: str, rpath: str, mode: str = "overwrite", **_: Any) -> None:
        if mode == "create" and await self._exists(rpath):
            raise FileExistsError(rpath)
        await self._write(rpath, Staging.copy_in, lpath)

    async def _put(self, lpath: Any, rpath: Any, **options: Any) -> Any:
        """Copy files of this machine; outside of a transaction, in one of its own."""
        if self._intrans:
            return await super()._put(lpath, rpath, **options)
        async with self.transaction:
            return await super()._put(lpath, rpath, **options)

    async def _cp_file(self, path1: str, path2: str, **options: Any) -> None:
        staging = self._staging_for(plain_path(path2))
        target = staging.path_of(plain_path(path2))
        await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
        await self._get_file(path1, str(target), **options)

    async def _mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:  # noqa: FBT001, FBT002
        await self._write(path, Staging.make_folder, parents=create_parents, exist_ok=False)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:  # noqa: FBT001, FBT002
        await self._write(path, Staging.make_folder, parents=True, exist_ok=exist_ok)

    async def _rm(
        self,
        path: Any,
        recursive: bool = False,  # noqa: FBT001, FBT002 - as fsspec calls it
        batch_size: int | None = None,  # noqa: ARG002 - a folder is removed after what is in it
        maxdepth: int | None = None,
        **_: Any,
    ) -> None:
        paths = await self._expand_path(path, recursive=recursive, maxdepth=maxdepth)
        for each in reversed(paths):
            await self._rm_file(each)

    async def _rm_file(self, path: str, **_: Any) -> None:
        await self._write(path, Staging.remove_one)

    async def commit(self) -> None:
        """Upload what the transaction has written; `cid` is then the CID of the directory."""
        if self._staging is not None and not self._staging.is_empty():
            client = await self.client()
            record = await client.upload(self._staging.folder, include_hidden=True)
            self.cid = record.cid

    def discard(self) -> None:
        """Forget what the transaction has written."""
        staging, self._staging = self._staging, None
        if staging is not None:
            staging.remove()

    def __reduce__(self) -> Any:
        if has_secret(self.storage_options):
            raise TypeError(
                f"a {type(self).__name__} with a token cannot be pickled; leave the token out of "
                "the options, and set HOLDFAST_PROVIDER_TOKEN or HOLDFAST_GATEWAY_TOKEN where it "
                "is used"
            )
        return super().__reduce__()
