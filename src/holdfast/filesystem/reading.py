"""The part of the file system that looks at content and reads it."""

import asyncio
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from fsspec.asyn import sync, sync_wrapper
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.utils import tokenize

from holdfast._async.client import AsyncClient
from holdfast._async.content_file import AsyncContentFile
from holdfast.config import ClientConfig
from holdfast.content.reference import Reference
from holdfast.errors import UnsupportedError
from holdfast.filesystem.base_classes import (
    AbstractAsyncStreamedFile,
    AbstractBufferedFile,
    AsyncFileSystem,
)
from holdfast.filesystem.instances import SecretOptions
from holdfast.filesystem.paths import (
    cannot_write,
    no_such_file,
    os_errors,
    plain_path,
    reference_to,
)
from holdfast.filesystem.staging import Staging
from holdfast.records import Entry

READ_AHEAD: Final = 1 << 17  # bytes that are fetched behind those that are read
MISSING: Final = (FileNotFoundError, NotADirectoryError)
AT_ONCE: Final = 16  # files or ranges that are read at the same time
KNOWN: Final = 10_000  # paths of which it is remembered what is there: content never changes
OPENED: Final = 4  # files that stay open for further ranges; each may hold some MiB
CLOSING: Final = 2.0  # seconds to wait for connections to close
NO_CID: Final = "a path begins with a CID, except for what is written in a transaction"

# The pins of an account are not a folder: to learn the type of each takes a request, and `find` or
# `glob` would read all of them.
NO_TOP: Final = "the top level has no list; begin with a CID (`Client.pins()` lists what is pinned)"
UNCHANGED: Final = 0  # when content under a CID was changed last: it never was
Info = dict[str, Any]


class HoldfastFile(AbstractBufferedFile):
    """A file that is open for reading, with the buffers of fsspec in front of it.

    When it is read from start to end, the content file below it fetches ever larger parts.
    """

    DEFAULT_BLOCK_SIZE = READ_AHEAD

    def __init__(self, fs: Any, path: str, content: AsyncContentFile, **options: Any) -> None:
        self._content = content
        super().__init__(fs, path, "rb", size=content.size, **options)

    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = sync(self.fs.loop, self._read, start, end)
        return data

    async def _read(self, start: int, end: int) -> bytes:
        self._content.seek(start)
        return await self._content.read(end - start)

    def close(self) -> None:
        """Close the file. A second time does nothing."""
        super().close()
        self._content.closed = True


class AsyncHoldfastFile(AbstractAsyncStreamedFile):
    """A file that is open for reading, awaited."""

    def __init__(self, fs: Any, path: str, content: AsyncContentFile, **options: Any) -> None:
        self._content = content
        super().__init__(fs, path, "rb", size=content.size, **options)

    async def _fetch_range(self, start: int, end: int) -> bytes:
        self._content.seek(start)
        return await self._content.read(end - start)


class ReadingFileSystem(AsyncFileSystem, metaclass=SecretOptions):
    """Reads content under CIDs, and in a transaction the files that it has written so far."""

    protocol = "holdfast"
    _extra_tokenize_attributes = ("environment_key",)

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
        self._known: OrderedDict[str, Info] = OrderedDict()
        self._opened: OrderedDict[str, asyncio.Future[AsyncContentFile]] = OrderedDict()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [plain_path(each) for each in path]
        return plain_path(path)

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
        if path not in self._known:
            reference = await self._locate(path)
            with os_errors(path):
                self._remember(path, await (await self.client()).stat(reference))
        return dict(self._known[path])

    async def _locate(self, path: str) -> Reference:
        """Return the shortest reference to existing content: its CID, or its name in a folder.

        So the folders on the way are read once, and not for each file in them.
        """
        reference = reference_to(path)
        if reference is None:
            raise no_such_file(path, NO_CID)
        if path in self._known:
            return Reference.parse(self._known[path]["cid"])
        if len(reference.path) < 2:
            return reference
        above = await self._info(path.rpartition("/")[0])
        start = Reference.parse(above["cid"])
        return Reference(start.text, start.cid, reference.path[-1:])

    def _remember(self, path: str, entry: Entry) -> Info:
        kind = "link" if entry.kind == "symlink" else entry.kind
        size = entry.size if kind == "file" else 0
        info: Info = {"name": path, "size": size, "type": kind, "cid": str(entry.cid)}
        self._known[path] = info
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)
        return info

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:  # noqa: FBT001, FBT002
        path = plain_path(path)
        if reference_to(path) is None:
            infos = await self._staged(path, Staging.list)
            return infos if detail else [info["name"] for info in infos]
        found = await self._info(path)
        if found["type"] != "directory":
            return [found] if detail else [path]
        client = await self.client()
        listed: list[Any] = []
        with os_errors(path):
            async for entry in client.iter_entries(found["cid"], details=detail):
                name = f"{path}/{entry.name}"
                listed.append(dict(self._remember(name, entry)) if detail else name)
        return listed

    async def _walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,  # noqa: FBT001, FBT002 - as fsspec calls it
        on_error: str | Callable[[OSError], object] = "omit",
        **options: Any,
    ) -> AsyncIterator[Any]:
        """Walk as fsspec does, but do not take a failure for an empty folder."""
        on_error = self._begin_walk(path, on_error)
        walk = super()._walk(path, maxdepth, topdown=topdown, on_error=on_error, **options)
        async for each in walk:
            yield each

    def walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,  # noqa: FBT001, FBT002 - as fsspec calls it
        on_error: str | Callable[[OSError], object] = "omit",
        **options: Any,
    ) -> Iterator[Any]:
        """Walk as `_walk` does: fsspec does not make this method from that one."""
        on_error = self._begin_walk(path, on_error)
        walk: Iterator[Any] = super().walk(
            path, maxdepth, topdown=topdown, on_error=on_error, **options
        )
        return walk

    def _begin_walk(self, path: str, on_error: Any) -> Any:
        """Return what to do with an error; raise one if the walk begins at the top level."""
        if not plain_path(path):
            self._staging_for("", writing=False)
        return _raise_unless_missing if on_error == "omit" else on_error

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
        for given in ("autocommit", "size"):
            options.pop(given, None)
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

    async def _staged(self, path: str, work: Callable[..., Any], *args: Any) -> Any:
        """Read from the folder of the transaction, on a thread."""
        staging = self._staging_for(path, writing=False)
        return await asyncio.to_thread(work, staging, path, *args)


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
