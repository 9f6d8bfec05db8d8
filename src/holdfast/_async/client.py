"""The client that applications call: checks what it is given, asks the provider, makes records."""

import os
import warnings
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar, Unpack

from holdfast._async.content_file import AsyncContentFile
from holdfast._async.runtime import run_blocking, run_interruptible
from holdfast.config import ClientConfig, ConfigFields
from holdfast.config.wrapping import takes_secrets
from holdfast.content.reference import Reference
from holdfast.errors import ClientClosedError, ConfigError
from holdfast.files.blob import Blob
from holdfast.files.sources import Progress, Uploadable, open_source
from holdfast.protocol import json_text
from holdfast.provider import (
    AsyncStorageProvider,
    Linkable,
    Listing,
    Openable,
    Reconfigurable,
)
from holdfast.records import ClientMessage, ClientRecord, Pin, StoreOptions, now_ms
from holdfast.registry import build_async_provider

T = TypeVar("T")

DEFAULT_FILE_NAME = "client-file"


class AsyncClient:
    """Stores JSON, files and messages by content, and reads them back.

    Make one with `init`, use it from as many tasks as you like, and close it, best by
    ``async with``. A provider that you made yourself goes in directly, and stays yours to close:
    ``AsyncClient(provider=…)``.

    Example:
        >>> async def main(config: ClientConfig) -> None:
        ...     async with await AsyncClient.init(config) as client:
        ...         record = await client.store({"hello": "world"})
        ...         print(await client.retrieve(record.cid))
    """

    def __init__(
        self, provider: AsyncStorageProvider, *, config: ClientConfig | None = None
    ) -> None:
        self._provider = provider
        self._config = config or getattr(provider, "config", None) or ClientConfig()
        self._owns_provider = False
        self._closed = False
        if not isinstance(provider, AsyncStorageProvider):
            del provider  # it may be a token, in the wrong place
            raise TypeError(
                f"{type(self._provider).__name__} is no AsyncStorageProvider; to make a client "
                "from a configuration, use AsyncClient.init(…)"
            )

    @classmethod
    @takes_secrets
    async def init(
        cls,
        config: ClientConfig | Mapping[str, Any] | None = None,
        /,
        **fields: Unpack[ConfigFields],
    ) -> Self:
        """A client for `config`: a `ClientConfig`, a mapping, or keywords, which win.

        Nothing is sent. A wrong or missing field is a `ConfigError`.
        """
        settings = ClientConfig.of(config, **fields)
        client = cls(build_async_provider(settings), config=settings)
        client._owns_provider = True
        return client

    @property
    def provider(self) -> AsyncStorageProvider:
        """Where the content goes."""
        return self._provider

    @property
    def config(self) -> ClientConfig:
        """What the client was made from."""
        return self._config

    @takes_secrets
    def with_options(self, **changes: Unpack[ConfigFields]) -> Self:
        """A client with other options over the same connections, which this one keeps and closes.

        Example:
            >>> async def first_look(client: AsyncClient, cid: str) -> object:
            ...     return await client.with_options(verify=False).retrieve(cid)
        """
        config = self._config.with_options(**changes)
        if not isinstance(self._provider, Reconfigurable):
            raise ConfigError(
                f"{type(self._provider).__name__} takes no other options; make a new client"
            )
        return type(self)(self._provider.with_config(config), config=config)

    async def store(
        self, data: T, options: StoreOptions | Mapping[str, Any] | None = None
    ) -> ClientRecord[T]:
        """Store a JSON-compatible value; what JSON cannot say is a `SerializationError`.

        Example:
            >>> async def example(client: AsyncClient) -> str:
            ...     record = await client.store({"name": "Zoë", "tags": ["a", "b"]})
            ...     return record.cid
        """
        self._check_open()
        _warn_if_encrypt(options)
        text = json_text.to_text(data)
        cid = await self._provider.put_json(text, name=f"client-{now_ms()}")
        return ClientRecord(cid=cid, timestamp=now_ms(), data=data, size=len(text))

    async def retrieve(self, cid: str) -> Any:
        """The JSON value at `cid`: a CID, a path under one, or a URL with ``/ipfs/`` in it.

        Example:
            >>> async def example(client: AsyncClient, cid: str) -> object:
            ...     return await client.retrieve(f"https://ipfs.io/ipfs/{cid}")
        """
        self._check_open()
        return await self._provider.get_json(str(Reference.parse(cid)))

    async def upload(
        self,
        file: Uploadable,
        options: StoreOptions | Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        progress: Progress | None = None,
    ) -> ClientRecord[None]:
        """Store a file: a path, bytes, a binary file from where it stands, a `Blob`, an iterable.

        Args:
            file: What to store. It is streamed, never held in memory whole. An iterable gives the
                bytes in pieces; one that can be had only once (a generator, a pipe) is not sent
                again when the connection breaks.
            options: Reserved; see `StoreOptions`.
            name: The file name to send; by default the file's own, else ``client-file``.
            progress: Called with the bytes sent so far and the bytes in all, if known.

        Example:
            >>> async def example(client: AsyncClient) -> int:
            ...     record = await client.upload(b"hello", name="greeting.txt")
            ...     return record.size
        """
        self._check_open()
        _warn_if_encrypt(options)
        _check_progress(progress)
        source = await run_interruptible(open_source, file)
        try:
            filename = _file_name(name, source.name)
            cid = await self._provider.put_file(source, name=filename, progress=progress)
            size = source.bytes_read if source.size is None else source.size
        finally:
            await run_blocking(source.close)
        return ClientRecord(cid=cid, timestamp=now_ms(), size=size)

    async def download(
        self,
        cid: str,
        *,
        to: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> Blob:
        """The file at `cid`: a CID, a path under one, or a URL with ``/ipfs/`` in it.

        Args:
            cid: What to read.
            to: Where to write it, whole or not at all. The blob is then over that file. What was
                proven before an interruption is kept in `cache_path` for the next try.
            progress: Called with the bytes that came so far and the bytes in all, if known.

        Example:
            >>> async def example(client: AsyncClient, cid: str) -> bytes:
            ...     blob = await client.download(cid)
            ...     return blob.read()
        """
        self._check_open()
        _check_progress(progress)
        return await self._provider.get_file(str(Reference.parse(cid)), to=to, progress=progress)

    async def open(self, cid: str) -> AsyncContentFile:
        """The file at `cid`, to be read in parts: readable, seekable, every part proven.

        Nothing is downloaded but what is read, and what is needed to prove it.

        Example:
            >>> async def last_line(client: AsyncClient, cid: str) -> bytes:
            ...     async with await client.open(cid) as file:
            ...         file.seek(-200, 2)
            ...         return (await file.read()).splitlines()[-1]
        """
        self._check_open()
        if not isinstance(self._provider, Openable):
            raise ConfigError(
                f"{type(self._provider).__name__} cannot open files in parts; use download"
            )
        opened: AsyncContentFile = await self._provider.open_file(str(Reference.parse(cid)))
        return opened

    async def send(self, recipient_id: str, message: str) -> ClientRecord[ClientMessage]:
        """Store a message for `recipient_id` as plain JSON. Nothing delivers it: pass on the CID.

        Example:
            >>> async def example(client: AsyncClient) -> str:
            ...     record = await client.send("alice", "hi")
            ...     return record.cid
        """
        self._check_open()
        _check_text("recipient_id", recipient_id)
        _check_text("message", message)
        if not recipient_id.strip():
            raise ValueError("recipient_id is empty; say whom the message is for")
        built = ClientMessage(recipient_id=recipient_id, payload=message, timestamp=now_ms())
        stored = await self.store(built.to_dict())
        return ClientRecord(
            cid=stored.cid, timestamp=stored.timestamp, data=built, size=stored.size
        )

    async def receive(self, cid: str) -> ClientMessage:
        """The message at `cid`; JSON of another shape is a `SerializationError`.

        Example:
            >>> async def example(client: AsyncClient, cid: str) -> str:
            ...     message = await client.receive(cid)
            ...     return message.payload
        """
        return ClientMessage.from_dict(await self.retrieve(cid))

    async def revoke(self, cid: str) -> bool:
        """Unpin `cid`, and return True. Copies on other nodes and in caches may live on.

        What is not pinned is a `ProviderError`.

        Example:
            >>> async def example(client: AsyncClient, cid: str) -> bool:
            ...     return await client.revoke(cid)
        """
        self._check_open()
        await self._provider.delete(Reference.parse_cid(cid))
        return True

    async def pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        """What the provider keeps for you, newest first.

        Args:
            name: A part of the names to look for.
            limit: How many pins to give at the most; None is all.

        Example:
            >>> async def example(client: AsyncClient) -> list[str]:
            ...     return [pin.cid for pin in await client.pins(name="report", limit=10)]
        """
        self._check_open()
        if name is not None:
            _check_text("name", name)
            name = _sendable(name)
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
            raise TypeError(f"limit must be a whole number, not {type(limit).__name__}")
        if limit is not None and limit < 1:
            raise ValueError("limit must be at least 1; leave it out for all pins")
        if not isinstance(self._provider, Listing):
            raise ConfigError(f"{type(self._provider).__name__} cannot list what it keeps")
        listed: list[Pin] = await self._provider.list_pins(name=name, limit=limit)
        return listed

    async def test_connection(self) -> bool:
        """Ask the provider whether the credentials are good: True, or an error. Never False.

        Example:
            >>> async def example(client: AsyncClient) -> bool:
            ...     return await client.test_connection()
        """
        self._check_open()
        await self._provider.test_authentication()
        return True

    def url(self, cid: str) -> str:
        """A link to `cid` that can be shared; no request is made.

        Example:
            >>> def example(client: AsyncClient, cid: str) -> str:
            ...     return client.url(cid)
        """
        reference = str(Reference.parse(cid))
        if isinstance(self._provider, Linkable):
            return self._provider.url(reference)
        return f"ipfs://{reference}"

    async def aclose(self) -> None:
        """Close the connections of a client that `init` made. A second time does nothing."""
        self._closed = True
        if self._owns_provider:
            await self._provider.aclose()

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<{type(self).__name__}: {type(self._provider).__name__}{state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled: it holds connections and a token; "
            "make one with init() where it is needed"
        )

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosedError


def _warn_if_encrypt(options: StoreOptions | Mapping[str, Any] | None) -> None:
    if StoreOptions.of(options).encrypt:
        warnings.warn(
            "encrypt=True has no effect: the content is stored in the clear, for anyone who has "
            "its CID; encrypt it yourself before you store it",
            UserWarning,
            stacklevel=3,
        )


def _sendable(name: str) -> str:
    """`name` with "?" for what is no text: on disk, a name may be any bytes."""
    return name.encode(errors="replace").decode()


def _file_name(given: str | None, own: str | None) -> str:
    """The name to send with a file. With a slash in it, the service would pin a directory."""
    name = given if given is not None else own if own is not None else DEFAULT_FILE_NAME
    _check_text("name", name)
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise ValueError("name must be a file name: not empty, without slashes, not '.' or '..'")
    return _sendable(name)


def _check_progress(progress: Any) -> None:
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a function, not {type(progress).__name__}")


def _check_text(what: str, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, not {type(value).__name__}")
