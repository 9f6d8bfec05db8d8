"""The client that applications use: checks arguments, calls the provider, and returns records."""

import os
from collections.abc import Mapping
from typing import Any, NoReturn, Self, TypeVar, Unpack

from holdfast import arguments
from holdfast._async.content_file import AsyncContentFile
from holdfast._async.runtime import run_blocking, run_interruptible
from holdfast.config import ClientConfig, ConfigFields
from holdfast.config.wrapping import takes_secrets
from holdfast.content.reference import Reference
from holdfast.errors import ClientClosedError
from holdfast.files.blob import Blob
from holdfast.files.sources import Progress, Uploadable, open_source
from holdfast.protocol import json_text
from holdfast.provider import (
    AsyncListing,
    AsyncOpenable,
    AsyncStorageProvider,
    Linkable,
    Reconfigurable,
    ask,
    has_capability,
)
from holdfast.records import ClientMessage, ClientRecord, Pin, StoreOptions, now_ms
from holdfast.registry import build_async_provider

T = TypeVar("T")


class AsyncClient:
    """Stores JSON, files and messages by content, and reads them back.

    Make one with `init`, use it from any number of tasks, and close it, best with ``async with``.
    A client from ``AsyncClient(provider=…)`` does not close the provider: do that yourself.

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
            del provider  # it may be a token, passed by mistake
            raise TypeError(
                f"{type(self._provider).__name__} does not implement AsyncStorageProvider; to "
                "make a client from a configuration, use AsyncClient.init(…)"
            )

    @classmethod
    @takes_secrets
    async def init(
        cls,
        config: ClientConfig | Mapping[str, Any] | None = None,
        /,
        **fields: Unpack[ConfigFields],
    ) -> Self:
        """Return a client for `config`: a `ClientConfig`, a mapping, or keywords, which override.

        Nothing is sent. Raise ConfigError for a wrong or missing field.
        """
        settings = ClientConfig.of(config, **fields)
        client = cls(build_async_provider(settings), config=settings)
        client._owns_provider = True
        return client

    @property
    def provider(self) -> AsyncStorageProvider:
        """The provider that stores the content."""
        return self._provider

    @property
    def config(self) -> ClientConfig:
        """The configuration of the client."""
        return self._config

    @takes_secrets
    def with_options(self, **changes: Unpack[ConfigFields]) -> Self:
        """Return a client with other options and the same connections. Close this client only.

        Example:
            >>> async def first_look(client: AsyncClient, cid: str) -> object:
            ...     return await client.with_options(verify=False).retrieve(cid)
        """
        config = self._config.with_options(**changes)
        provider: Any = ask(self._provider, Reconfigurable).with_config(config)
        return type(self)(provider, config=config)

    async def store(
        self, data: T, options: StoreOptions | Mapping[str, Any] | None = None
    ) -> ClientRecord[T]:
        """Store a JSON-compatible value; raise SerializationError for any other.

        Example:
            >>> async def example(client: AsyncClient) -> str:
            ...     record = await client.store({"name": "Zoë", "tags": ["a", "b"]})
            ...     return record.cid
        """
        self._check_open()
        arguments.warn_if_encrypt(options)
        text = json_text.to_text(data)
        cid = await self._provider.put_json(text, name=f"client-{now_ms()}")
        return ClientRecord(cid=cid, timestamp=now_ms(), data=data, size=len(text))

    async def retrieve(self, cid: str) -> Any:
        """Return the JSON value at `cid`: a CID, a path under one, or a URL with ``/ipfs/`` in it.

        Example:
            >>> async def example(client: AsyncClient, cid: str) -> object:
            ...     return await client.retrieve(f"https://ipfs.io/ipfs/{cid}")
        """
        self._check_open()
        return await self._provider.get_json(Reference.parse(cid))

    async def upload(
        self,
        file: Uploadable,
        options: StoreOptions | Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        progress: Progress | None = None,
    ) -> ClientRecord[None]:
        """Store a file: a path, bytes, an open binary file, a `Blob`, or an iterable of bytes.

        Args:
            file: The content. It is streamed, and never held in memory as a whole. An open file is
                read from its current position. A source that can be read only once (a generator, a
                pipe) is not sent again when the connection breaks.
            options: Reserved; see `StoreOptions`.
            name: The file name to send; by default the file's own, else ``client-file``.
            progress: Called with the bytes sent so far and the total, or None if not known.

        Example:
            >>> async def example(client: AsyncClient) -> int:
            ...     record = await client.upload(b"hello", name="greeting.txt")
            ...     return record.size
        """
        self._check_open()
        arguments.warn_if_encrypt(options)
        arguments.check_progress(progress)
        source = await run_interruptible(open_source, file)
        try:
            filename = arguments.file_name(name, source.name)
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
        """Return the file at `cid`: a CID, a path under one, or a URL with ``/ipfs/`` in it.

        Args:
            cid: The file to read.
            to: The path to write it to. The file appears complete or not at all, and the blob reads
                from it. After an interruption, the verified bytes stay in `cache_path`, and the
                next download continues after them.
            progress: Called with the bytes received so far and the total, or None if not known.

        Example:
            >>> async def example(client: AsyncClient, cid: str) -> bytes:
            ...     blob = await client.download(cid)
            ...     return blob.read()
        """
        self._check_open()
        arguments.check_progress(progress)
        return await self._provider.get_file(Reference.parse(cid), to=to, progress=progress)

    async def open(self, cid: str) -> AsyncContentFile:
        """Return the file at `cid`, seekable; parts are fetched and verified as they are read.

        Example:
            >>> async def last_line(client: AsyncClient, cid: str) -> bytes:
            ...     async with await client.open(cid) as file:
            ...         file.seek(-200, 2)
            ...         return (await file.read()).splitlines()[-1]
        """
        self._check_open()
        reference = Reference.parse(cid)
        opened: AsyncContentFile = await ask(self._provider, AsyncOpenable).open_file(reference)
        return opened

    async def send(self, recipient_id: str, message: str) -> ClientRecord[ClientMessage]:
        """Store a message for `recipient_id` as plain JSON. Pass on the CID: it is not delivered.

        Example:
            >>> async def example(client: AsyncClient) -> str:
            ...     record = await client.send("alice", "hi")
            ...     return record.cid
        """
        self._check_open()
        arguments.check_message(recipient_id, message)
        built = ClientMessage(recipient_id=recipient_id, payload=message, timestamp=now_ms())
        kept = await self.store(built.to_dict())
        return ClientRecord(cid=kept.cid, timestamp=kept.timestamp, data=built, size=kept.size)

    async def receive(self, cid: str) -> ClientMessage:
        """Return the message at `cid`; raise SerializationError for JSON of another shape.

        Example:
            >>> async def example(client: AsyncClient, cid: str) -> str:
            ...     message = await client.receive(cid)
            ...     return message.payload
        """
        return ClientMessage.from_dict(await self.retrieve(cid))

    async def revoke(self, cid: str) -> bool:
        """Unpin `cid` and return True; raise ProviderError if it is not pinned.

        Copies on other nodes and in caches may remain.

        Example:
            >>> async def example(client: AsyncClient, cid: str) -> bool:
            ...     return await client.revoke(cid)
        """
        self._check_open()
        await self._provider.delete(Reference.parse_cid(cid))
        return True

    async def pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        """Return your pins at the provider, newest first.

        Args:
            name: Return only pins whose name contains this text.
            limit: The largest number of pins to return; None for all.

        Example:
            >>> async def example(client: AsyncClient) -> list[str]:
            ...     return [pin.cid for pin in await client.pins(name="report", limit=10)]
        """
        self._check_open()
        name = arguments.name_filter(name)
        arguments.check_limit(limit)
        return await ask(self._provider, AsyncListing).list_pins(name=name, limit=limit)

    async def test_connection(self) -> bool:
        """Return True if the provider accepts the credentials; raise an error otherwise.

        Example:
            >>> async def example(client: AsyncClient) -> bool:
            ...     return await client.test_connection()
        """
        self._check_open()
        await self._provider.test_authentication()
        return True

    def url(self, cid: str) -> str:
        """Return a link to `cid` that can be shared; no request is sent.

        Example:
            >>> def example(client: AsyncClient, cid: str) -> str:
            ...     return client.url(cid)
        """
        reference = Reference.parse(cid)
        if has_capability(self._provider, Linkable):
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

    async def __aexit__(self, *_: object) -> None:
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
