"""The methods of a client for JSON values, files and messages."""

import os
from collections.abc import Mapping
from typing import Any, TypeVar

from holdfast import arguments
from holdfast._async.client.base import AsyncClientBase
from holdfast._async.content_file import AsyncContentFile
from holdfast._async.opening import opens
from holdfast._async.runtime import run_blocking
from holdfast._async.upload_sources import AsyncUploadable, open_upload
from holdfast.content.reference import Reference
from holdfast.files.blob import Blob
from holdfast.files.folder_source import FolderSource
from holdfast.files.sources import Progress, Source
from holdfast.protocol import json_text
from holdfast.records import ClientMessage, ClientRecord, StoreOptions, now_ms

T = TypeVar("T")


class AsyncContentCalls(AsyncClientBase):
    """Stores and reads JSON values, files and messages."""

    async def store(
        self,
        data: T,
        options: StoreOptions | Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        keyvalues: Mapping[str, Any] | None = None,
    ) -> ClientRecord[T]:
        """Store a JSON-compatible value; raise SerializationError for any other.

        Args:
            data: The value.
            options: Reserved; see `StoreOptions`.
            name: The name of the pin; by default ``client-`` and the time in milliseconds.
            keyvalues: Metadata of your own for the pin, by which `pins` can find it.

        Example:
            >>> record = await client.store({"name": "Zoë", "tags": ["a", "b"]})
            >>> record.size
            31
        """
        self._check_open()
        arguments.warn_if_encrypt(options)
        text = json_text.to_text(data)
        info = arguments.json_info(name, keyvalues)
        added = await self._provider.put(Source.of_json(text), info)
        return ClientRecord(
            cid=added.cid,
            timestamp=now_ms(),
            data=data,
            size=len(text),
            duplicate=added.duplicate,
        )

    async def retrieve(self, cid: str) -> Any:
        """Return the JSON value at `cid`: a CID, a path under one, or a URL with ``/ipfs/`` in it.

        Example:
            >>> record = await client.store({"hello": "world"})
            >>> await client.retrieve(f"https://ipfs.io/ipfs/{record.cid}")
            {'hello': 'world'}
        """
        self._check_open()
        return await self._provider.get_json(Reference.parse(cid))

    async def upload(
        self,
        file: AsyncUploadable,
        options: StoreOptions | Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        keyvalues: Mapping[str, Any] | None = None,
        include_hidden: bool = False,
        progress: Progress | None = None,
    ) -> ClientRecord[None]:
        """Store a file: a path, bytes, an open binary file, a `Blob`, or an iterable of bytes.

        The path of a folder stores all that is in it as one directory.

        Args:
            file: The content. It is streamed, and never held in memory as a whole. An open file is
                read from its current position. With asyncio, it may be an asynchronous iterable,
                such as the body of a request that comes in. A source that can be read only once (a
                generator, a pipe) is not sent again when the connection breaks.
            options: Reserved; see `StoreOptions`.
            name: The file name to send; by default the file's own, else ``client-file``.
            keyvalues: Metadata of your own for the pin, by which `pins` can find it.
            include_hidden: Whether names in a folder that begin with a dot are stored too.
            progress: Called with the bytes sent so far and the total, or None if not known.

        Example:
            >>> record = await client.upload(b"hello", name="greeting.txt")
            >>> record.size
            5
        """
        self._check_open()
        arguments.warn_if_encrypt(options)
        arguments.check_progress(progress)
        source = await open_upload(file, include_hidden=include_hidden)
        if isinstance(source, FolderSource):
            return await self._upload_folder(source, name, keyvalues, progress)
        try:
            info = arguments.file_info(name, source.name, keyvalues)
            added = await self._provider.put(source, info, progress)
            size = source.bytes_read if source.size is None else source.size
        finally:
            await run_blocking(source.close)
        return ClientRecord(cid=added.cid, timestamp=now_ms(), size=size, duplicate=added.duplicate)

    async def _upload_folder(
        self,
        folder: FolderSource,
        name: str | None,
        keyvalues: Mapping[str, Any] | None,
        progress: Progress | None,
    ) -> ClientRecord[None]:
        info = arguments.folder_info(name, folder.name, keyvalues)
        added = await self._provider.put(folder, info, progress)
        return ClientRecord(
            cid=added.cid, timestamp=now_ms(), size=folder.size, duplicate=added.duplicate
        )

    async def download(
        self,
        cid: str,
        *,
        to: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
        max_bytes: int | None = None,
    ) -> Blob:
        """Return the file at `cid`: a CID, a path under one, or a URL with ``/ipfs/`` in it.

        Args:
            cid: The file to read.
            to: The path to write it to. The file appears complete or not at all, and the blob reads
                from it. After an interruption, the verified bytes stay in `cache_path`, and the
                next download continues after them.
            progress: Called with the bytes received so far and the total, or None if not known.
            max_bytes: The largest file to take; a larger one is a TooLargeError. A file that the
                disk has no space for is an `OSError` in any case. Neither is begun.

        Example:
            >>> record = await client.upload(b"hello")
            >>> blob = await client.download(record.cid)
            >>> blob.read()
            b'hello'
        """
        self._check_open()
        arguments.check_progress(progress)
        reference = Reference.parse(cid)
        arguments.check_max_bytes(max_bytes)
        return await self._provider.get_file(
            reference, to=to, progress=progress, max_bytes=max_bytes
        )

    @opens
    async def open(self, cid: str) -> AsyncContentFile:
        """Return the file at `cid`, seekable; parts are fetched and verified as they are read.

        Example:
            >>> record = await client.upload(b"low tide, high tide")
            >>> async with client.open(record.cid) as file:
            ...     position = file.seek(-9, 2)
            ...     print(await file.read())
            b'high tide'
        """
        self._check_open()
        return await self._provider.require("open_file").open_file(Reference.parse(cid))

    async def send(self, recipient_id: str, message: str) -> ClientRecord[ClientMessage]:
        """Store a message for `recipient_id` as plain JSON. Pass on the CID: it is not delivered.

        Example:
            >>> record = await client.send("alice", "hi")
            >>> record.data.payload
            'hi'
        """
        self._check_open()
        arguments.check_message(recipient_id, message)
        built = ClientMessage(recipient_id=recipient_id, payload=message, timestamp=now_ms())
        kept = await self.store(built.to_dict())
        return ClientRecord(
            cid=kept.cid,
            timestamp=kept.timestamp,
            data=built,
            size=kept.size,
            duplicate=kept.duplicate,
        )

    async def receive(self, cid: str) -> ClientMessage:
        """Return the message at `cid`; raise SerializationError for JSON of another shape.

        Example:
            >>> record = await client.send("alice", "hi")
            >>> message = await client.receive(record.cid)
            >>> message.recipient_id, message.payload
            ('alice', 'hi')
        """
        return ClientMessage.from_dict(await self.retrieve(cid))
