# WARNING: this file is generated from src/holdfast/_async/providers/car.py
# by scripts/generate_sync.py. Change the original instead.
"""The provider for an archive (CAR): it reads the blocks in a file, without a store."""

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from typing import BinaryIO, ClassVar, cast

from holdfast._sync.providers.reading import ReadingProvider
from holdfast._sync.reads.reader import BlockReader
from holdfast._sync.runtime import Lock, run_blocking, run_interruptible
from holdfast.calls import Call
from holdfast.config import ClientConfig
from holdfast.config.fields import fields_bound_to
from holdfast.content.blocks import check_provable
from holdfast.content.cid import CID
from holdfast.disk.archive_file import ArchiveFile
from holdfast.disk.folders import NO_WAIT
from holdfast.errors import ConfigError, MalformedError, NotFoundError
from holdfast.hints import advise
from holdfast.records import Pin, PinFilter


class SharedArchive:
    """The archive at `path`, which copies of a provider share.

    The file is opened at once. Its blocks are found when the first of them is needed. With the path
    "-", standard input is then copied to a temporary file.
    """

    def __init__(self, path: str) -> None:
        self._name = "standard input" if path == "-" else path
        self._file = None if path == "-" else _open(path)
        self._archive: ArchiveFile | None = None
        self._lock = Lock()

    def opened(self) -> ArchiveFile:
        """Return the archive, whose blocks are known."""
        with self._lock:
            if self._archive is None:
                if self._file is None:
                    self._file = run_interruptible(_spool_input)
                self._archive = run_blocking(ArchiveFile, self._file, self._name)
            return self._archive

    def block(self, cid: CID, /) -> bytes:
        """Return the block of `cid`; raise an error if the archive does not have it."""
        check_provable(cid)
        archive = self.opened()
        block = run_blocking(archive.find, cid)
        if block is not None:
            return block
        if archive.damage:
            raise MalformedError(archive.damage, cid=str(cid))
        raise NotFoundError(f"block {cid} is not in {self._name}")

    def close(self) -> None:
        """Close the file."""
        opened = self._archive or self._file
        if opened is not None:
            run_blocking(opened.close)


class CarProvider(ReadingProvider):
    """Reads what is in an archive (CAR): the file `path`, or standard input if it is ``-``.

    Content is read by any CID that the archive has. The roots that it names are listed as pins, so
    `copy_pins` copies all of it. Everything that writes is an UnsupportedError.

    Example:
        >>> from holdfast import Client, car
        >>> root = car.pack(b"hello", "hello.car")
        >>> with Client.init(provider="car", path="hello.car") as client:
        ...     [pin.cid == root for pin in client.iter_pins()]
        ...     (client.download(root)).read()
        [True]
        b'hello'
    """

    shared_fields: ClassVar[tuple[str, ...]] = fields_bound_to("repository")

    def __init__(self, config: ClientConfig) -> None:
        self._archive = SharedArchive(os.fspath(config.path or ""))
        total = config.timeouts.total
        reader = BlockReader(self._archive.block, verified=True, total=total)
        super().__init__(config, reader=reader)

    def find_pins(self, pin_filter: PinFilter, *, limit: int | None = None) -> Iterator[Pin]:
        """Yield the roots that the archive names, in its order. They have no names."""
        with self.call("pins"):
            roots = dict.fromkeys((self._archive.opened()).roots)
        cid = None if pin_filter.cid is None else CID.parse(pin_filter.cid)
        is_none = pin_filter.name or pin_filter.keyvalues or pin_filter.since or pin_filter.until
        for root in [root for root in roots if cid in (None, root) and not is_none][:limit]:
            yield Pin(id="", cid=str(root), size=None)

    def check_credentials(self, _call: Call, /) -> None:
        """Return if the archive can be read; raise MalformedError if some of it cannot."""
        if damage := (self._archive.opened()).damage:
            raise MalformedError(damage)

    def release(self) -> None:
        """Close the file."""
        self._archive.close()


def _open(path: str) -> BinaryIO:
    """Open an archive. A named pipe cannot block."""
    try:
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | NO_WAIT))  # noqa: SIM115
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file
        file.close()
        reason = "Not a file"
    except OSError as error:
        reason = error.strerror or ""
    wrong = ConfigError(f"path {path} cannot be read: {reason}")
    raise advise(wrong, "give the path of an archive (CAR), or - to read standard input")


def _spool_input() -> BinaryIO:
    """Return a file without a name that has all of standard input."""
    if sys.stdin is None:
        raise ConfigError('path is "-", but standard input is closed: name a file')
    file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - the archive closes it
    shutil.copyfileobj(sys.stdin.buffer, file)
    return file
