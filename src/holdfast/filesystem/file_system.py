"""The file system: what looks at content, reads it, and writes it in a transaction."""

import asyncio
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from fsspec import register_implementation
from fsspec.asyn import _run_coros_in_chunks, sync, sync_wrapper
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.implementations.local import trailing_sep
from fsspec.utils import tokenize

from holdfast._async.client import AsyncClient
from holdfast._async.content_file import AsyncContentFile
from holdfast.config import ClientConfig
from holdfast.config.fields import FIELDS
from holdfast.content.reference import Reference
from holdfast.errors import UnsupportedError
from holdfast.filesystem import base_classes
from holdfast.filesystem.instances import SecretOptions, restore, secret_names
from holdfast.filesystem.paths import (
    cannot_write,
    no_such_file,
    os_errors,
    plain_path,
    put_paths,
    reference_to,
)
from holdfast.filesystem.staging import HoldfastTransaction, Staging
from holdfast.records import Entry

READ_AHEAD: Final = 1 << 17  # bytes that are fetched behind those that are read
MISSING: Final = (FileNotFoundError, NotADirectoryError)
AT_ONCE: Final = 16  # files or ranges that are read at the same time
INFOS: Final = 10_000  # paths of which it is remembered what is there: content never changes
OPENED: Final = 4  # files that stay open for further ranges; each may hold some MiB
CLOSING: Final = 2.0  # seconds to wait for connections to close
NO_CID: Final = "a path must begin with a CID, unless you write it in a transaction"

# The pins of an account are not a folder: to learn the type of each takes a request, and `find` or
# `glob` would read all of them.
NO_TOP: Final = "the top level cannot be listed; begin with a CID (`Client.pins()` lists pins)"
UNCHANGED: Final = 0  # when content under a CID was changed last: it never was
Info = dict[str, Any]


class HoldfastFile(base_classes.AbstractBufferedFile):
    """A file that is open for reading, with the buffers of fsspec in front of it.

    When it is read from start to end, the content file below it fetches ever larger parts.
    """

    DEFAULT_BLOCK_SIZE = READ_AHEAD

    def __init__(self, fs: Any, path: str, content: AsyncContentFile, **options: Any) -> None:
        self._content = content
        super().__init__(fs, path, "rb", size=content.size, **options)

    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = sync(self.fs.loop, _read, self._content, start, end)
        return data

    def close(self) -> None:
        """Close the file. Closing it again has no effect."""
        super().close()
        self._content.closed = True


class AsyncHoldfastFile(base_classes.AbstractAsyncStreamedFile):
    """A file that is open for reading, awaited."""

    def __init__(self, fs: Any, path: str, content: AsyncContentFile, **options: Any) -> None:
        self._content = content
        super().__init__(fs, path, "rb", size=content.size, **options)

    async def _fetch_range(self, start: int, end: int) -> bytes:
        return await _read(self._content, start, end)


async def _read(content: AsyncContentFile, start: int, end: int) -> bytes:
    content.seek(start)
    return await content.read(end - start)


class HoldfastFileSystem(base_classes.AsyncFileSystem, metaclass=SecretOptions):
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

    protocol = "holdfast"
    transaction_type = HoldfastTransaction
    _extra_tokenize_attributes = ("environment_key",)

    cid: str | None = None

    def __init__(
        self,
        *,
        asynchronous: bool = False,
        loop: asyncio.AbstractEventLoop | None = None,
        batch_size: int | None = None,
        use_listings_cache: object = None,  # noqa: ARG002 - content never changes
        listings_expiry_time: object = None,  # noqa: ARG002
        max_paths: object = None,  # noqa: ARG002
        **fields: Any,
    ) -> None:
        super().__init__(asynchronous=asynchronous, loop=loop, batch_size=batch_size or AT_ONCE)
        self.config: ClientConfig = ClientConfig.from_env(**fields)
        self._client: AsyncClient | None = None
        self._client_loop: asyncio.AbstractEventLoop | None = None
        self._staging: Staging | None = None
        self._staging_lock = threading.Lock()
        self._infos: OrderedDict[str, Info] = OrderedDict()
        self._opened: OrderedDict[str, asyncio.Future[AsyncContentFile]] = OrderedDict()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return [*map(plain_path, path)] if isinstance(path, list) else plain_path(path)

    async def client(self) -> AsyncClient:
        """Return the client, which belongs to the running event loop."""
        running = asyncio.get_running_loop()
        if self._client is None or self._client_loop is not running:
            self._opened.clear()
            self._client = await AsyncClient.init(self.config)
            self._client_loop = running
            weakref.finalize(self, _close, running, self._client.aclose)
        return self._client

    async def aclose(self) -> None:
        """Close the connections. They are closed as well when the file system is collected."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    # Looking

    async def _info(self, path: str, **_: Any) -> Info:
        path = plain_path(path)
        if reference_to(path) is None:
            staged: Info = await self._staged(path, Staging.info)
            return staged
        if path not in self._infos:
            reference = await self._locate(path)
            with os_errors(path):
                self._remember(path, await (await self.client()).stat(reference))
        return dict(self._infos[path])

    async def _locate(self, path: str) -> Reference:
        """Return the shortest reference to existing content: its CID, or its name in a folder.

        So the folders on the way are read once, and not for each file in them.
        """
        reference = reference_to(path)
        if reference is None:
            raise no_such_file(path, NO_CID)
        if path in self._infos:
            return Reference.parse(self._infos[path]["cid"])
        if len(reference.path) < 2:
            return reference
        above = await self._info(path.rpartition("/")[0])
        start = Reference.parse(above["cid"])
        return Reference(start.text, start.cid, reference.path[-1:])

    def _remember(self, path: str, entry: Entry) -> Info:
        kind = "link" if entry.kind == "symlink" else entry.kind
        size = entry.size if kind == "file" else 0
        info: Info = {"name": path, "size": size, "type": kind, "cid": str(entry.cid)}
        self._infos[path] = info
        if len(self._infos) > INFOS:
            self._infos.popitem(last=False)
        return info

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:  # noqa: FBT001, FBT002
        path = plain_path(path)
        if reference_to(path) is None:
            infos = await self._staged(path, Staging.list)
            return infos if detail else [info["name"] for info in infos]
        info = await self._info(path)
        if info["type"] != "directory":
            return [info] if detail else [path]
        client = await self.client()
        listed: list[Any] = []
        with os_errors(path):
            async for entry in client.iter_entries(info["cid"], details=detail):
                name = f"{path}/{entry.name}"
                listed.append(dict(self._remember(name, entry)) if detail else name)
        return listed

    async def _walk(self, path: str, *args: Any, **options: Any) -> AsyncIterator[Any]:
        """Walk as fsspec does, but do not take a failure for an empty folder."""
        async for folder in super()._walk(path, *args, **self._begin_walk(path, options)):
            yield folder

    def walk(self, path: str, *args: Any, **options: Any) -> Iterator[Any]:
        """Walk as `_walk` does: fsspec does not make this method from that one."""
        walk: Iterator[Any] = super().walk(path, *args, **self._begin_walk(path, options))
        return walk

    def _begin_walk(self, path: str, options: Info) -> Info:
        """Return the options of a walk; raise an error if it begins at the top level."""
        if not plain_path(path):
            self._staging_for("", writing=False)
        is_default = options.get("on_error", "omit") == "omit"
        return {**options, **({"on_error": _raise_unless_missing} if is_default else {})}

    async def _exists(self, path: str, **_: Any) -> bool:
        return await self._type(path) is not None

    async def _isdir(self, path: str) -> bool:
        return await self._type(path) == "directory"

    async def _isfile(self, path: str) -> bool:
        return await self._type(path) == "file"

    async def _type(self, path: str) -> str | None:
        """Return the type of what is at `path`; None if nothing is. A failure is raised."""
        with suppress(*MISSING):
            return str((await self._info(path))["type"])
        return None

    async def _modified(self, path: str) -> datetime:
        """Return when a file was written; 1970 for content under a CID, which never changes."""
        return datetime.fromtimestamp((await self._info(path)).get("mtime", UNCHANGED), UTC)

    async def _created(self, path: str) -> datetime:
        """Return when a file was made; 1970 for content under a CID."""
        return datetime.fromtimestamp((await self._info(path)).get("created", UNCHANGED), UTC)

    async def _checksum(self, path: str) -> int:
        """Return a number that is the same as long as the content is: that of its CID."""
        info = await self._info(path)
        return int(tokenize(info.get("cid", info)), 16)

    async def _sign(self, path: str, expiration: int = 100, **_: Any) -> str:
        """Return an HTTP address that others can read, for `expiration` seconds if it is private.

        Public content needs no signature: its address at the gateway does not expire.
        """
        path = plain_path(path)
        reference = reference_to(path)
        if reference is None:
            raise no_such_file(path, NO_CID)
        client = await self.client()
        try:
            url = client.url(reference)
        except UnsupportedError:  # private content
            with os_errors(path):
                return await client.signed_url(reference, expires=expiration)
        if not url.startswith("http"):
            raise UnsupportedError(f"{path} has no HTTP address; set gateway_url")
        return url

    modified: Any = sync_wrapper(_modified)
    created: Any = sync_wrapper(_created)
    checksum: Any = sync_wrapper(_checksum)
    sign: Any = sync_wrapper(_sign)

    # Reading

    async def _open_content(self, path: str) -> AsyncContentFile:
        reference = await self._locate(path)
        with os_errors(path):
            return await (await self.client()).open(reference)

    async def _shared_content(self, path: str) -> AsyncContentFile:
        """Return an open file for single ranges; the last few stay open for further ones."""
        await self.client()  # of this event loop
        opening = self._opened.get(path)
        if opening is None:
            opening = asyncio.ensure_future(self._open_content(path))
            self._opened[path] = opening
            if len(self._opened) > OPENED:
                self._opened.popitem(last=False)
        try:
            return await asyncio.shield(opening)
        except BaseException:
            if self._opened.get(path) is opening:
                del self._opened[path]
            raise

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        path = plain_path(path)
        if reference_to(path) is None:
            data: bytes = await self._staged(path, Staging.read, start, end)
            return data
        content = await self._shared_content(path)
        first, stop, _step = slice(start, end).indices(content.size)
        with os_errors(path):
            return await content.pread(max(0, stop - first), first)

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if reference_to(path) is None or mode != "rb":
            return self._staging_for(path, writing=mode != "rb").open(path, mode)
        for name in ("autocommit", "size"):
            options.pop(name, None)
        content = sync(self.loop, self._open_content, path)
        return HoldfastFile(self, path, content, **options)

    async def open_async(self, path: str, mode: str = "rb", **_: Any) -> AsyncHoldfastFile:
        """Return a file that is read by ``await file.read(size)``."""
        path = plain_path(path)
        if mode != "rb":
            raise cannot_write(path)
        return AsyncHoldfastFile(self, path, await self._open_content(path))

    async def _get_file(
        self, rpath: str, lpath: str, callback: Any = DEFAULT_CALLBACK, **_: Any
    ) -> None:
        rpath = plain_path(rpath)
        info = await self._info(rpath)
        if info["type"] == "directory":
            await asyncio.to_thread(os.makedirs, lpath, exist_ok=True)
            return
        if "cid" not in info:
            await self._staged(rpath, Staging.copy_out, lpath)
            return

        def progress(done: int, total: int | None) -> None:
            callback.set_size(total)
            callback.absolute_update(done)

        with os_errors(rpath):
            await (await self.client()).download(info["cid"], to=lpath, progress=progress)

    # The files of a transaction

    def open_staging(self) -> None:
        """Make the folder of a transaction; raise `RuntimeError` if one is open."""
        with self._staging_lock:
            if self._staging is not None:
                raise RuntimeError(
                    "a transaction is open on this file system; end it first "
                    "(`fs.end_transaction()`), or make another instance for another thread, with "
                    "skip_instance_cache=True"
                )
            self._staging = Staging()

    def close_staging(self) -> Staging | None:
        """Return the folder of the transaction, into which nothing more is written."""
        with self._staging_lock:
            staging, self._staging = self._staging, None
        return staging

    def _staging_for(self, path: str, *, writing: bool = True) -> Staging:
        """Return the folder for a path that does not begin with a CID."""
        staging = self._staging if reference_to(path) is None else None
        if staging is not None:
            return staging
        if writing:
            raise cannot_write(path, is_async=self.asynchronous)
        raise no_such_file(path, NO_CID if path else NO_TOP)

    async def _staged(
        self, path: str, work: Callable[..., Any], *args: Any, writing: bool = False, **options: Any
    ) -> Any:
        """Read or write in the folder of the transaction, on a thread."""
        path = plain_path(path)
        staging = self._staging_for(path, writing=writing)
        return await asyncio.to_thread(work, staging, path, *args, **options)

    # Writing

    async def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        await self._staged(path, Staging.write, value, is_new=mode == "create", writing=True)

    async def _put_file(self, lpath: str, rpath: str, mode: str = "overwrite", **_: Any) -> None:
        await self._staged(rpath, Staging.copy_in, lpath, is_new=mode == "create", writing=True)

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
        await self._staged(path, Staging.make_folder, parents=create_parents, writing=True)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:  # noqa: FBT001, FBT002
        await self._staged(path, Staging.make_folder, parents=True, exist_ok=exist_ok, writing=True)

    async def _rm(
        self,
        path: Any,
        recursive: bool = False,  # noqa: FBT001, FBT002 - as fsspec calls it
        batch_size: int | None = None,  # noqa: ARG002 - a folder is removed after what is in it
        maxdepth: int | None = None,
        **_: Any,
    ) -> None:
        paths = await self._expand_path(path, recursive=recursive, maxdepth=maxdepth)
        for inner_path in reversed(paths):
            await self._rm_file(inner_path)

    async def _rm_file(self, path: str, **_: Any) -> None:
        await self._staged(path, Staging.remove_one, writing=True)

    async def upload_staged(self, staging: Staging) -> None:
        """Upload what was written; `cid` is then the CID of the directory."""
        if await asyncio.to_thread(staging.finish):
            client = await self.client()
            record = await client.upload(staging.folder, include_hidden=True, ignore_file=None)
            self.cid = record.cid

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
        stored = self.storage_options
        options = {name: stored[name] for name in stored if name not in names}
        return restore, (type(self), self._fs_token, options, names)


class IPFSFileSystem(HoldfastFileSystem):
    """Public content as a file system, read through gateways, every byte verified.

    It is a `HoldfastFileSystem` whose `provider` is ``gateway``, so it needs no account. It ignores
    the variables for the address of an API and its token.

    Example:
        >>> fs = IPFSFileSystem(gateway_url="https://ipfs.io")
        >>> fs.config.provider
        'gateway'
    """

    protocol = "ipfs"

    def __init__(self, *, provider: str = "gateway", **options: Any) -> None:
        if provider == "gateway":
            options = {"provider_token": None, "pin_api_url": None, **options}
        super().__init__(provider=provider, **options)


def register_ipfs() -> None:
    """Let fsspec open ``ipfs://CID/path`` with `IPFSFileSystem`, in this process.

    Other packages claim the name ``ipfs`` too. So it is ours on request only, and replaces theirs.

    Example:
        >>> import fsspec
        >>> register_ipfs()
        >>> fsspec.filesystem("ipfs").config.provider
        'gateway'
    """
    register_implementation(IPFSFileSystem.protocol, IPFSFileSystem, clobber=True)


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, MISSING):
        raise error


def _close(loop: asyncio.AbstractEventLoop, aclose: Callable[[], Any]) -> None:
    """Close a client whose file system was collected, or at the end of the process."""
    if not loop.is_running():
        return
    closing = asyncio.run_coroutine_threadsafe(aclose(), loop)
    try:
        is_here = asyncio.get_running_loop() is loop
    except RuntimeError:
        is_here = False
    if not is_here:
        with suppress(Exception):
            closing.result(CLOSING)
