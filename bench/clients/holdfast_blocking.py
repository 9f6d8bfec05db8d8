"""Ours, blocking."""

from typing import Any

from bench.clients import Settings
from bench.clients.holdfast_settings import config_for
from holdfast import Client


class Ours:
    """The client with its defaults: every byte is verified."""

    def __init__(self, settings: Settings) -> None:
        self._client = Client.init(config_for(settings))

    def store(self, document: object) -> str:
        """Return the CID."""
        return self._client.store(document).cid

    def retrieve(self, cid: str) -> Any:
        """Return the document."""
        return self._client.retrieve(cid)

    def close(self) -> None:
        """Close the client."""
        self._client.close()


connect = Ours
