"""pinatapy-vourhey: it has no function that reads."""

from pathlib import Path

import pinatapy

from bench.clients import TOKEN, Settings


class Peer:
    """The client as its documentation shows it; its address is a constant of the module."""

    def __init__(self, settings: Settings) -> None:
        pinatapy.API_ENDPOINT = f"{settings.url}/"
        self._client = pinatapy.PinataPy(TOKEN, TOKEN)

    def store(self, document: object) -> str:
        """Return the CID."""
        return str(self._client.pin_json_to_ipfs(document)["IpfsHash"])

    def upload(self, path: Path) -> str:
        """Return the CID."""
        return str(self._client.pin_file_to_ipfs(str(path), save_absolute_paths=False)["IpfsHash"])

    def close(self) -> None:
        """Do nothing: it opens a connection for every call."""


connect = Peer
