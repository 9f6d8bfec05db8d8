"""Ours, async."""

from pathlib import Path
from typing import Any

from bench.clients import Settings
from bench.clients.holdfast_settings import config_for
from holdfast import AsyncClient


class Ours:
    """The client with its defaults: every byte is verified, unless the settings say otherwise."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def store(self, document: object) -> str:
        """Return the CID."""
        return (await self._client.store(document)).cid

    async def retrieve(self, cid: str) -> Any:
        """Return the document."""
        return await self._client.retrieve(cid)

    async def upload(self, path: Path) -> str:
        """Return the CID."""
        return (await self._client.upload(path)).cid

    async def download(self, cid: str, to: Path) -> None:
        """Write the file to a path."""
        await self._client.download(cid, to=to)

    async def close(self) -> None:
        """Close the client."""
        await self._client.aclose()


async def connect(settings: Settings) -> Ours:
    """Return the client; it needs a running event loop."""
    return Ours(await AsyncClient.init(config_for(settings)))
