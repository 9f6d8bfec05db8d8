"""The file system, with its part that writes."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from fsspec.asyn import _run_coros_in_chunks
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.implementations.local import trailing_sep

from holdfast.config.fields import FIELDS
from holdfast.filesystem.instances import restore, secret_names
from holdfast.filesystem.paths import cannot_write, plain_path, put_paths, reference_to
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
        await self._write(rpath, Staging.copy_in, lpath, is_new=mode == "create")

    async def _put(self, lpath: Any, rpath: Any, **options: Any) -> None:
        """Copy files of this machine; outside of a transaction, in one of its own."""
        if self._staging is not None:
            await self._put_into(self._staging, lpath, rpath, **options)
            return
        staging = Staging()  # not the instance's: another thread may put files at the same time
        try:
            await self._put_into(staging, lpath, rpath, **options)
            await self.upload_staged(staging)
        finally:
            await asyncio.to_thread(staging.remove)

    async def _put_into(
        self,
        staging: Staging,
        lpath: Any,
        rpath: Any,
        *,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        batch_size: int | None = None,
        maxdepth: int | None = None,
        mode: str = "overwrite",
        **_: Any,
    ) -> None:
        target = self._strip_protocol(rpath)
        paths = await asyncio.to_thread(
            put_paths,
            lpath,
            target,
            target_is_folder=not isinstance(target, list)
            and (trailing_sep(str(rpath)) or staging.path_of(target).is_dir()),
            recursive=recursive,
            maxdepth=maxdepth,
        )

        async def copy(root: str | None, source: str, target: str, **_: Any) -> None:
            target = plain_path(target)
            if reference_to(target) is not None:
                raise cannot_write(target)
            is_new = mode == "create"
            await asyncio.to_thread(staging.copy_in, target, source, root, is_new=is_new)

        callback.set_size(len(paths))
        copies = [
            callback.branch_coro(partial(copy, path.root))(path.source, path.target)
            for path in paths
        ]
        await _run_coros_in_chunks(copies, batch_size or self.batch_size, callback=callback)

    async def _cp_file(self, path1: str, path2: str, **options: Any) -> None:
        source, target = plain_path(path1), plain_path(path2)
        staging = self._staging_for(target)
        if reference_to(source) is None:
            await asyncio.to_thread(staging.copy_within, source, target)
            return
        place = staging.path_of(target)
        await asyncio.to_thread(place.parent.mkdir, parents=True, exist_ok=True)
        await self._get_file(source, str(place), **options)

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

    async def upload_staged(self, staging: Staging) -> None:
        """Upload what was written; `cid` is then the CID of the directory."""
        if await asyncio.to_thread(staging.finish):
            client = await self.client()
            self.cid = (await client.upload(staging.folder, include_hidden=True)).cid

    def open(self, path: Any, mode: str = "rb", *args: Any, **options: Any) -> Any:
        """Return a file. What is written to it is stored at the end of the transaction."""
        file = super().open(path, mode, *args, **options)
        if "r" not in mode:
            # Before the file that it may wrap, to which it writes its buffer when it is closed.
            self.transaction.files.appendleft(file)
        return file

    def start_transaction(self) -> Any:
        """Open a transaction, which `end_transaction` ends; raise `RuntimeError` if one is open."""
        transaction = self.transaction
        transaction.start()
        return transaction

    def to_dict(self, **options: Any) -> dict[str, Any]:
        """Return the class and its options, as `to_json` writes them; a secret is a `TypeError`."""
        if names := secret_names(self.storage_options):
            variables = " and ".join(FIELDS[name].variable for name in names)
            raise TypeError(
                f"a {type(self).__name__} with a token cannot be written as JSON; leave "
                f"{' and '.join(names)} out of the options, and set {variables} where it is used"
            )
        result: dict[str, Any] = super().to_dict(**options)
        return result

    def __reduce__(self) -> Any:
        names = secret_names(self.storage_options)
        if not names:
            return super().__reduce__()
        options = {
            name: self.storage_options[name] for name in self.storage_options if name not in names
        }
        return restore, (type(self), self._fs_token, options, names)
