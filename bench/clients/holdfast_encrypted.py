"""Ours, async, encrypted for a post-quantum recipient."""

from pathlib import Path

from bench.clients import Settings
from bench.clients.holdfast_async import Ours
from bench.clients.holdfast_settings import config_for
from holdfast import AsyncClient

KEY = "key"  # files of the folder
CLASSIC_KEY = "classic-key"
ROOT = "encrypted-root"


class Encrypted(Ours):
    """An encrypted view of the client. `retrieve` uses the client itself: its document is plain."""

    def __init__(self, client: AsyncClient, folder: Path, key: str) -> None:
        super().__init__(client)
        self._view = client.encrypted(identities=[(folder / key).read_text()])
        self._root = folder / ROOT

    async def store(self, document: object) -> str:
        """Return the CID."""
        return (await self._view.store(document)).cid

    async def upload(self, path: Path) -> str:
        """Return the CID."""
        return (await self._view.upload(path)).cid

    async def download(self, _cid: str, to: Path) -> None:
        """Write the file to a path; the server has it encrypted under another CID."""
        await self._view.download(self._root.read_text(), to=to)


async def connect(settings: Settings, key: str = KEY) -> Encrypted:
    """Return the client; it needs a running event loop."""
    return Encrypted(await AsyncClient.init(config_for(settings)), settings.folder, key)
