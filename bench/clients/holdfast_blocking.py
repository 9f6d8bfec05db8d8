"""Ours, blocking."""

from pathlib import Path
from typing import Any

from bench.clients import Settings
from bench.clients.holdfast_settings import config_for
from holdfast import Client


class Ours:
    """The client with its defaults: every byte is verified, unless the settings say otherwise."""

    def __init__(self, settings: Settings) -> None:
        self._client = Client.init(config_for(settings))

    def store(self, document: object) -> str:
        """Return the CID."""
        return self._client.store(document).cid

    def retrieve(self, cid: str) -> Any:
        """Return the document."""
        return self._client.retrieve(cid)

    def upload(self, path: Path) -> str:
        """Return the CID."""
        return self._client.upload(path).cid

    def download(self, cid: str, to: Path) -> None:
        """Write the file to a path."""
        self._client.download(cid, to=to)

    def close(self) -> None:
        """Close the client."""
        self._client.close()


connect = Ours
