"""Ours, blocking, with an embedded store of its own."""

import json
import os
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.clients import Settings
from bench.clients.holdfast_blocking import Ours as Blocking
from holdfast import Client

KEPT = 9_000  # documents that can be retrieved; those after them are new to the store


class Ours(Blocking):
    """The client of a new store, which is filled when it is first read."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.folder
        self._client = Client.init(provider="local", path=settings.folder / f"store-{os.getpid()}")

    def retrieve(self, cid: str) -> Any:
        """Return the document."""
        return self._filled.retrieve(cid)

    def download(self, cid: str, to: Path) -> None:
        """Write the file to a path."""
        self._filled_by_file.download(cid, to=to)

    @cached_property
    def _filled(self) -> Client:
        lines = self._folder.joinpath("documents.jsonl").read_bytes().splitlines()[:KEPT]
        for outcome in self._client.store_many(map(json.loads, lines), concurrency=32):
            outcome.result()
        return self._client

    @cached_property
    def _filled_by_file(self) -> Client:
        (path,) = (self._folder / "files").iterdir()
        self._client.upload(path)
        return self._client


connect = Ours
