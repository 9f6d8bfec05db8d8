"""The file of a backup: one archive (CAR) of all pins, with a list of their names.

::

    header    its only root is the manifest, so that other tools import the whole as one DAG
    manifest  DAG-JSON: {"created":…, "kind":"holdfast backup 1", "pages":[links], "pins":count}
    pages     DAG-JSON: [{"cid":link, "created":…, "keyvalues":[[key, value],…], "name":…, …},…]
    blocks    of all pins, each once

Pages come first, so that a file that is cut off still shows what it should have.
"""

import io
import json
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final

from holdfast.content import varint
from holdfast.content.blocks import MAX_BLOCK, check_block, missing_block
from holdfast.content.car import (
    MAX_CID,
    MAX_HEADER,
    MAX_SECTION,
    Block,
    CarReader,
    car_head,
    section_head,
)
from holdfast.content.car_header import decode_header
from holdfast.content.cid import CID
from holdfast.content.hashes import FUNCTIONS, SHA2_256
from holdfast.disk.seen_cids import SpilledCIDs, TemporaryDatabase
from holdfast.errors import InvalidCIDError, MalformedError, UnsupportedError, VerificationError
from holdfast.records import Pin, now_ms

DAG_JSON: Final = 0x0129
KIND: Final = "holdfast backup 1"
PAGE_BYTES: Final = 1 << 19
FIELDS: Final = ("name", "size", "files", "type", "created")


class BackupPins:
    """The pins of a backup, as the pages and the manifest in it. Close it at the end.

    Attributes:
        manifest: The block of the manifest.
    """

    def __init__(self, pins: Iterable[Pin]) -> None:
        # There may be millions of pins.
        self._file = tempfile.SpooledTemporaryFile(PAGE_BYTES)  # noqa: SIM115 - see `close`
        self._pages: list[tuple[CID, int]] = []
        try:
            count = self._add_all(pins)
            pages = [{"/": str(cid)} for cid, _ in self._pages]
            about = {"created": now_ms(), "kind": KIND, "pages": pages, "pins": count}
            self.manifest: Block = _block(about)
        except BaseException:
            self.close()
            raise

    def _add_all(self, pins: Iterable[Pin]) -> int:
        rows: list[dict[str, Any]] = []
        size = count = 0
        for pin in pins:
            rows.append(_row(pin))
            size += len(_json(rows[-1]))
            count += 1
            if size >= PAGE_BYTES:
                self._add(rows)
                rows, size = [], 0
        if rows:
            self._add(rows)
        return count

    def _add(self, rows: list[dict[str, Any]]) -> None:
        cid, data = _block(rows)
        self._file.write(data)
        self._pages.append((cid, len(data)))

    def pages(self) -> Iterator[Block]:
        """Yield the blocks of the pages."""
        start = 0
        for cid, size in self._pages:
            self._file.seek(start)
            yield cid, self._file.read(size)
            start += size

    def cids(self) -> Iterator[str]:
        """Yield the CIDs of the pins."""
        for _, data in self.pages():
            yield from (row["cid"]["/"] for row in json.loads(data))

    def close(self) -> None:
        """Remove the pages from disk."""
        self._file.close()


def _row(pin: Pin) -> dict[str, Any]:
    facts = {name: getattr(pin, name) for name in FIELDS}
    # Pairs: in DAG-JSON, a map with the key "/" is a link.
    pairs = sorted([key, value] for key, value in pin.keyvalues.items())
    return {"cid": {"/": pin.cid}, "keyvalues": pairs, **facts}


def _pin(row: Any) -> Pin:
    """Return the pin in a row; raise an error if it is wrong."""
    facts = {name: row[name] for name in FIELDS}
    cid, keyvalues = row["cid"]["/"], dict(row["keyvalues"])
    texts = (cid, facts["name"], facts["type"], *keyvalues)
    numbers = (facts["files"], *(facts[name] or 0 for name in ("size", "created")))
    if not (
        all(isinstance(each, str) for each in texts)
        and all(isinstance(each, int) for each in numbers)
        and all(isinstance(each, str | int | float) for each in keyvalues.values())
    ):
        raise TypeError("a value has the wrong type")
    CID.parse(cid)
    return Pin(id="", cid=cid, keyvalues=keyvalues, **facts)


def _json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return text.encode()


def _block(value: Any) -> Block:
    data = _json(value)
    if len(data) > MAX_BLOCK:
        raise UnsupportedError(
            "the list of pins is too long for a backup: shorten the longest names and key-values"
        )
    return CID(1, DAG_JSON, SHA2_256, FUNCTIONS[SHA2_256].new(data).digest()), data


class BackupWriter:
    """Writes a backup to `file`: first the list of pins, then the archive of each pin.

    Attributes:
        size: How many bytes were written.
    """

    def __init__(self, file: Any, pins: BackupPins) -> None:
        self._file = file
        self._seen = SpilledCIDs()
        self.size: int = 0
        self._write(car_head([pins.manifest[0]]))
        self._add(*pins.manifest)
        for page in pins.pages():
            self._add(*page)

    def add(self, pieces: Iterable[bytes]) -> None:
        """Write the blocks of an archive that are not in the file yet, each verified."""
        reader = CarReader()
        for piece in pieces:
            for cid, data in reader.update(piece):
                self._add(cid, data)
        reader.finish()

    def _add(self, cid: CID, data: bytes) -> None:
        if cid not in self._seen:
            self._seen.add(cid)
            self._write(section_head(cid, len(data)))
            self._write(data)

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self.size += len(data)

    def close(self) -> None:
        """Remove what was kept on disk to know the blocks that are in the file."""
        self._seen.close()


class BackupFile:
    """A backup to read. Blocks are found by their CIDs, and verified when they are read.

    A file that is cut off or damaged can be read up to that place.

    Attributes:
        root: The CID of the manifest.
        damage: Where and how the file is damaged, "" if the places of all blocks are known.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self.damage: str = ""
        self.root: CID
        self._index = TemporaryDatabase(
            "blocks (key BLOB PRIMARY KEY, start INTEGER, size INTEGER) WITHOUT ROWID"
        )
        try:
            self.root, self._pages = self._read()
        except BaseException:
            self.close()
            raise

    def _read(self) -> tuple[CID, list[CID]]:
        self._file.seek(0)
        root = self._read_header()
        self._find_blocks()
        manifest = self._json(root)
        try:
            pages = [CID.parse(each["/"]) for each in manifest["pages"]]
            if manifest["kind"] == KIND and len({*pages}) == len(pages):
                return root, pages
        except (KeyError, TypeError, InvalidCIDError):
            pass
        raise self._not_a_backup()

    def pins(self) -> Iterator[Pin]:
        """Yield the pins, as they were when the backup was made, the oldest first."""
        for page in reversed(self._pages):
            try:
                for row in reversed(self._json(page)):
                    yield _pin(row)
            except (KeyError, TypeError, ValueError):
                raise self._not_a_backup() from None

    def block(self, cid: CID) -> bytes:
        """Return the block of `cid`; raise UnprovenError if the file does not have it."""
        found = self._index.find("SELECT start, size FROM blocks WHERE key = ?", (cid.key,))
        if found is None:
            raise missing_block(cid)
        start, size = found
        self._file.seek(start)
        data = self._file.read(size)
        if len(data) != size:
            raise missing_block(cid)
        check_block(cid, data)
        return data

    def close(self) -> None:
        """Close the file, and remove the index."""
        self._index.close()
        self._file.close()

    def _json(self, cid: CID) -> Any:
        try:
            return json.loads(self.block(cid))
        except (ValueError, RecursionError):
            raise self._not_a_backup() from None
        except VerificationError as error:
            raise MalformedError(
                f"{self._name} is damaged: its list of pins cannot be read ({error})"
            ) from None

    def _not_a_backup(self) -> MalformedError:
        return MalformedError(
            f"{self._name} is not a backup, or was written by a newer version of Holdfast"
        )

    def _read_header(self) -> CID:
        try:
            (root,) = decode_header(self._file.read(self._length(MAX_HEADER) or 0))
        except (MalformedError, ValueError):
            raise self._not_a_backup() from None
        return root

    def _length(self, limit: int) -> int | None:
        """Return the length of the next section; None if there is none, or it is not valid."""
        start = self._file.tell()
        try:
            size, end = varint.decode(self._file.read(varint.MAX_BYTES))
        except ValueError:
            return None
        self._file.seek(start + end)
        return size if 0 < size <= limit else None

    def _find_blocks(self) -> None:
        """Note where each block is, up to the first damage."""
        first = self._file.tell()
        total = self._file.seek(0, io.SEEK_END)
        self._file.seek(first)
        while (start := self._file.tell()) < total:
            size = self._length(MAX_SECTION)
            begin = self._file.tell()
            if size is None or begin + size > total:
                how = "it is damaged there" if size is None else "it is cut off"
                self.damage = f"{self._name} cannot be read after byte {start}: {how}"
                break
            try:
                cid, end = CID.read(self._file.read(min(size, MAX_CID)))
            except ValueError:
                self.damage = f"{self._name} cannot be read after byte {start}: it is damaged there"
                break
            if size - end <= MAX_BLOCK:
                values = (cid.key, begin + end, size - end)
                self._index.insert("INSERT OR IGNORE INTO blocks VALUES (?, ?, ?)", [values])
            self._file.seek(begin + size)
