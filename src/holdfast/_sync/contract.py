# WARNING: this file is generated from src/holdfast/_async/contract.py
# by scripts/generate_sync.py. Change the original instead.
"""The contract's interface of providers: the methods that a client needs at the least.

`BaseProvider` has them all, and much more. A class that has these alone works too.
"""

import os
from abc import abstractmethod
from typing import Any, Protocol, runtime_checkable

from holdfast.sources.blob import Blob
from holdfast.sources.sources import Progress, Source


@runtime_checkable
class StorageProvider(Protocol):
    """Stores JSON and files, and reads them by their CID."""

    @abstractmethod
    def put_json(self, text: str, *, name: str) -> str:
        """Store the JSON `text`, with `name` in the provider's list of pins; return its CID."""

    @abstractmethod
    def get_json(self, cid: str) -> Any:
        """Return the JSON value at `cid`, which may carry a path: ``CID/a/b.json``."""

    @abstractmethod
    def put_file(self, source: Source, *, name: str, progress: Progress | None = None) -> str:
        """Store the bytes of `source` as a file called `name`; return its CID."""

    @abstractmethod
    def get_file(
        self,
        cid: str,
        *,
        to: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> Blob:
        """Return the file at `cid`; with `to`, write it there, complete or not at all."""

    @abstractmethod
    def delete(self, cid: str) -> None:
        """Unpin `cid`; raise NotFoundError if it was not pinned."""

    @abstractmethod
    def test_authentication(self) -> None:
        """Return if the provider accepts the credentials; raise an error otherwise."""

    @abstractmethod
    def close(self) -> None:
        """Release connections and files; twice is fine. Later calls raise ClientClosedError."""
