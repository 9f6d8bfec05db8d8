"""Keep content in a folder, one file for each block: on a network drive, a stick, in a bucket."""

import asyncio
import secrets
from pathlib import Path

from holdfast import AsyncBaseProvider, BaseProvider, ClientConfig
from holdfast.errors import ConfigError, NotFoundError
from holdfast.provider import (
    CID,
    Added,
    AsyncBlockReader,
    BlockReader,
    Call,
    Content,
    PinInfo,
    Progress,
)


class BlockFolder:
    """Files named by hash: ``blocks/HASH`` is a block, ``pins/HASH`` has a pin's CID and name."""

    def __init__(self, config: ClientConfig) -> None:
        if "folder" not in config.provider_options:
            raise ConfigError("provider_options must name the 'folder' for the blocks")
        self._path = Path(config.provider_options["folder"])

    def put(self, cid: CID, data: bytes, kind: str = "blocks") -> None:
        part = self._file(kind, cid).with_name(f".{secrets.token_hex(8)}")
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(self._file(kind, cid))  # no reader sees half a block

    def get(self, cid: CID) -> bytes:
        if not self._file("blocks", cid).exists():
            raise NotFoundError(f"{cid} is not in this folder")
        return self._file("blocks", cid).read_bytes()

    def pin(self, cid: CID, name: str) -> Added:
        known = self._file("pins", cid).exists()
        self.put(cid, f"{cid} {name}".encode(), "pins")
        return Added(cid=str(cid), duplicate=known)

    def unpin(self, cid: str) -> None:
        if not self._file("pins", CID.parse(cid)).exists():
            raise NotFoundError(f"{cid} is not pinned")
        self._file("pins", CID.parse(cid)).unlink()

    def _file(self, kind: str, cid: CID) -> Path:
        return self._path / kind / cid.digest.hex()


class FolderProvider(BaseProvider):
    def __init__(self, config: ClientConfig) -> None:
        self._folder = BlockFolder(config)
        super().__init__(config, reader=BlockReader(self._folder.get))

    def add(self, content: Content, info: PinInfo, _: Call, progress: Progress) -> Added:
        root = self.import_content(content, self._folder.put, progress)
        return self._folder.pin(root.cid, info.name)

    def unpin(self, cid: str, _: Call) -> None:
        self._folder.unpin(cid)

    def check_credentials(self, _: Call) -> None:
        """A folder needs no credentials."""


class AsyncFolderProvider(AsyncBaseProvider):
    def __init__(self, config: ClientConfig) -> None:
        self._folder = BlockFolder(config)
        super().__init__(config, reader=AsyncBlockReader(self._get))

    async def _get(self, cid: CID) -> bytes:
        return await asyncio.to_thread(self._folder.get, cid)

    async def add(self, content: Content, info: PinInfo, _: Call, progress: Progress) -> Added:
        root = await self.import_content(content, self._folder.put, progress)
        return await asyncio.to_thread(self._folder.pin, root.cid, info.name)

    async def unpin(self, cid: str, _: Call) -> None:
        await asyncio.to_thread(self._folder.unpin, cid)

    async def check_credentials(self, _: Call) -> None:
        """A folder needs no credentials."""
