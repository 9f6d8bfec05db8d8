"""Ours: the CID of a file, found by one thread."""

from pathlib import Path

from bench.clients import Settings
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.sources.importing import import_content


class Importer:
    """Cuts and hashes a file, and stores nothing."""

    def __init__(self, _: Settings, threads: int = 1) -> None:
        self._threads = threads

    def cid(self, path: Path) -> str:
        """Return the CID."""
        return str(import_content(path, UNIXFS_V1_2025, threads=self._threads).cid)

    def close(self) -> None:
        """Do nothing."""


connect = Importer
