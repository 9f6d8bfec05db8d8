"""The pins and blocks of a backup as a provider, from which `restore` copies them."""

from collections.abc import Iterator
from threading import Lock

from holdfast import BaseProvider, ClientConfig
from holdfast._sync.reads.reader import BlockReader
from holdfast.calls import Call
from holdfast.content.cid import CID
from holdfast.disk.backup_file import BackupFile
from holdfast.errors import UnsupportedError
from holdfast.records import Pin, PinFilter


class BackupProvider(BaseProvider):
    """Reads from a backup. It stores nothing."""

    def __init__(self, file: BackupFile) -> None:
        self._backup = file
        self._lock = Lock()  # threads share the position in the file
        super().__init__(ClientConfig(), reader=BlockReader(self._block, verified=True))

    def _block(self, cid: CID) -> bytes:
        with self._lock:
            return self._backup.block(cid)

    def find_pins(self, wanted: PinFilter, *, limit: int | None = None) -> Iterator[Pin]:
        """Yield all pins: a restore wants no others."""
        del wanted, limit
        with self._lock:
            pages = self._backup.pins()
        while True:
            with self._lock:
                pin = next(pages, None)
            if pin is None:
                return
            yield pin

    def unpin(self, cid: str, call: Call, /) -> None:
        """Raise UnsupportedError."""
        del cid, call
        raise UnsupportedError("a backup cannot be changed; make a new one")

    def check_credentials(self, call: Call, /) -> None:
        """Do nothing: a file needs none."""

    def release(self) -> None:
        """Close the file."""
        self._backup.close()
