"""The file of a backup: one archive (CAR) of all pins, with a list of them, ``pins.json``.

::

    header     its only root is a directory of UnixFS: other tools import the whole as one DAG
    pins.json  in this directory: {"kind":"holdfast backup 1","created":…,"pins":[
               then each pin on a line, the oldest first: {"cid":…,"name":…,"keyvalues":{…},…},
               ]}
    0, 1, …    in this directory: directories with links to the content of all pins
    blocks     of all pins, each once

The list comes first, so that a file that is cut off still shows what it should have.
"""

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import Any, BinaryIO, Final

from holdfast import BaseProvider, ClientConfig, errors
from holdfast._sync.content_file import ContentFile
from holdfast.calls import Call
from holdfast.content.blocks import missing_block
from holdfast.content.car import CarReader, car_head, section_head
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import FileImporter, Part
from holdfast.disk.archive_file import ArchiveFile
from holdfast.disk.closing import on_error
from holdfast.disk.seen_cids import SpilledCIDs, TemporaryDatabase
from holdfast.provider import BlockReader
from holdfast.records import Pin, PinFilter, now_ms

BEGINNING: Final = b'{"kind":"holdfast backup 1",'
LONGEST_LINE: Final = 2 << 20  # bytes of a pin in the list
FIELDS: Final = ("cid", "name", "size", "files", "type")
LINKS: Final = 1000  # to the content of pins, in each directory
PIECE: Final = 1 << 20


class BackupWriter:
    """Writes a backup to `file`: first the list of `pins`, then the archive of each. Close it.

    Attributes:
        root: The CID of the whole.
        size: How many bytes were written.
    """

    def __init__(self, file: Any, pins: Iterable[Pin]) -> None:
        self._file = file
        self._seen = SpilledCIDs()
        # There may be millions of pins, and they come with the newest first.
        self._rows = TemporaryDatabase("pins (number INTEGER PRIMARY KEY, cid, size, line)")
        self.size: int = 0
        with on_error(self.close):
            sql = "INSERT INTO pins (cid, size, line) VALUES (?, ?, ?)"
            self._rows.insert(sql, ((pin.cid, _link_size(pin), _line(pin)) for pin in pins))
            self.root: CID = self._write_list()

    def cids(self) -> Iterator[str]:
        """Yield the CIDs of the pins."""
        return (cid for cid, _, _ in self._oldest_first())

    def add(self, pieces: Iterable[bytes], report: Callable[[], None]) -> None:
        """Write the blocks of an archive that are not in the file yet, each verified."""
        reader = CarReader()
        for piece in pieces:
            for cid, data in reader.update(piece):
                self._write(self._section(cid, data))
            report()
        reader.finish()

    def close(self) -> None:
        """Remove what is on disk to know the pins, and the blocks that are in the file."""
        self._seen.close()
        self._rows.close()

    def _oldest_first(self) -> Iterator[tuple[str, int, bytes]]:
        return self._rows.rows("SELECT cid, size, line FROM pins ORDER BY number DESC")

    def _write_list(self) -> CID:
        with tempfile.SpooledTemporaryFile(PIECE) as blocks:

            def emit(cid: CID, data: bytes) -> None:
                blocks.write(self._section(cid, data))

            file = FileImporter(UNIXFS_V1_2025, emit)
            file.update(BEGINNING + b'"created":%d,"pins":[' % now_ms())
            for number, (_, _, line) in enumerate(self._oldest_first()):
                file.update((b",\n" if number else b"\n") + line)
            file.update(b"\n]}\n")
            entries = [(b"pins.json", file.finish())]
            rows = self._oldest_first()
            for number, batch in enumerate(iter(lambda: [*islice(rows, LINKS)], [])):
                parts = {cid.encode(): Part(CID.parse(cid), size, size) for cid, size, _ in batch}
                part = build_directory(parts.items(), UNIXFS_V1_2025, emit)
                entries.append((b"%d" % number, part))
            root = build_directory(entries, UNIXFS_V1_2025, emit).cid
            self._write(car_head([root]))
            blocks.seek(0)
            for piece in iter(partial(blocks.read, PIECE), b""):
                self._write(piece)
        return root

    def _section(self, cid: CID, data: bytes) -> bytes:
        """Return a block as it is in an archive; nothing if it was returned before."""
        if cid in self._seen:
            return b""
        self._seen.add(cid)
        return section_head(cid, len(data)) + data

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self.size += len(data)


def _link_size(pin: Pin) -> int:
    """Return the size for the link to a pin: 0 if the provider does not know a possible one."""
    return pin.size if pin.size is not None and 0 < pin.size < 1 << 63 else 0


def _line(pin: Pin) -> bytes:
    row = {**{name: getattr(pin, name) for name in FIELDS}, "created": pin.created_ms}
    line = json.dumps({**row, "keyvalues": dict(pin.keyvalues)}, separators=(",", ":")).encode()
    if len(line) + 2 > LONGEST_LINE:
        raise errors.UnsupportedError(
            "the list of pins is too long for a backup: shorten the longest names and key-values"
        )
    return line


def _pin(line: bytes) -> Pin:
    """Return the pin in a line of the list; raise an error if it is wrong."""
    row = json.loads(line.rstrip(b",\n"))
    values, keyvalues = {name: row[name] for name in FIELDS}, row["keyvalues"]
    texts = (values["cid"], values["name"], values["type"], *keyvalues)
    numbers = (values["files"], values["size"] or 0, row["created"] or 0)
    if not (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(number, int) for number in numbers)
        and all(isinstance(value, str | int | float) for value in keyvalues.values())
    ):
        raise TypeError("a value has the wrong type")
    CID.parse(values["cid"])
    return Pin(id="", keyvalues=keyvalues, created_ms=row["created"], **values)


class BackupProvider(BaseProvider):
    """The pins and blocks of a backup, from which `restore` copies them. It stores nothing.

    Blocks are found by their CIDs, and verified when they are read. A file that is cut off or
    damaged can be read up to that place.

    Attributes:
        damage: Where and how the file is damaged, "" if the places of all blocks are known.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._name = name
        super().__init__(ClientConfig(), reader=BlockReader(self._block, verified=True))
        with ExitStack() as opened:
            opened.callback(file.close)
            try:
                self._archive = ArchiveFile(file, name)
            except errors.MalformedError:
                raise self._not_a_backup() from None
            opened.callback(self._archive.close)
            self.damage: str = self._archive.damage
            self._list = self._open_list()
            opened.pop_all()

    def find_pins(self, filters: PinFilter, *, limit: int | None = None) -> Iterator[Pin]:
        """Yield all pins as they were, the oldest first: a restore wants no others."""
        del filters, limit
        self._list.seek(0)
        self._read_line()
        while not (line := self._read_line()).startswith(b"]"):
            try:
                yield _pin(line)
            except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
                raise self._not_a_backup() from None

    def unpin(self, cid: str, call: Call, /) -> None:
        """Raise UnsupportedError."""
        del cid, call
        raise errors.UnsupportedError("a backup cannot be changed; make a new one")

    def check_credentials(self, call: Call, /) -> None:
        """Do nothing: a file needs none."""

    def release(self) -> None:
        """Close the file."""
        self._archive.close()

    def _open_list(self) -> ContentFile:
        try:
            (root,) = self._archive.roots
            self._list = self.open_file(f"{root}/pins.json")
        except (errors.MalformedError, errors.NotFoundError, errors.NotAFileError, ValueError):
            raise self._not_a_backup() from None
        except errors.VerificationError as error:
            raise self._unreadable(error) from None
        # The same blocks many times would be a list without an end.
        if self._list.size > self._archive.size or not self._read_line().startswith(BEGINNING):
            raise self._not_a_backup()
        return self._list

    def _read_line(self) -> bytes:
        try:
            return self._list.readline(LONGEST_LINE)
        except errors.VerificationError as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: errors.VerificationError) -> errors.MalformedError:
        return errors.MalformedError(
            f"{self._name} is damaged: its list of pins cannot be read ({error})"
        )

    def _not_a_backup(self) -> errors.MalformedError:
        return errors.MalformedError(
            f"{self._name} is not a backup, or was written by a newer version of Holdfast"
        )

    def _block(self, cid: CID) -> bytes:
        """Return the block of `cid`; raise UnprovenError if the file does not have it."""
        block = self._archive.find(cid)
        if block is None:
            raise missing_block(cid)
        return block
