"""An archive (CAR) in a file, whose blocks are read in any order."""

import os
from collections.abc import Iterator
from contextlib import suppress
from shlex import quote
from threading import Lock
from typing import BinaryIO

from holdfast.content import car, varint
from holdfast.content.blocks import check_block, inline_block
from holdfast.content.cid import CID
from holdfast.disk.closing import on_error
from holdfast.disk.seen_cids import TemporaryDatabase
from holdfast.errors import MalformedError
from holdfast.hints import advise


class ArchiveFile:
    """The blocks of an archive, by their CIDs. Each is verified when it is read. Close it.

    The places of all blocks are noted when the archive is opened, in a database on disk: its own
    index, if it has one, is not trusted. An archive that is cut off or damaged can be read up to
    that place.

    Args:
        file: The archive, which must be seekable. It is closed with this object.
        name: Its name for people.

    Attributes:
        size: How many bytes the file has.
        roots: The roots that the header names. The archive may lack them.
        damage: Where and how the archive is damaged, "" if the places of all blocks are known.

    Example:
        >>> import io
        >>> from holdfast.content.car import write_car
        >>> cid = CID.of_raw(b"x")
        >>> file = io.BytesIO(b"".join(write_car([cid], [(cid, b"x")])))
        >>> archive = ArchiveFile(file, "x.car")
        >>> archive.roots == [cid], archive.find(cid), archive.damage
        (True, b'x', '')
        >>> archive.close()
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._lock = Lock()  # threads share the position in the file, and the database
        self.size: int = file.seek(0, os.SEEK_END)
        self.roots: list[CID] = []
        self.damage: str = ""
        self._places = TemporaryDatabase("places (key BLOB, start INTEGER, size INTEGER)")
        with on_error(self._places.close):
            # To sort them at the end takes much less time than to keep them sorted.
            self._places.insert("INSERT INTO places VALUES (?, ?, ?)", self._scan())
            self._places.find("CREATE INDEX by_key ON places (key, start, size)")

    def find(self, cid: CID) -> bytes | None:
        """Return the block of `cid`, verified; None if the archive does not have it."""
        query = "SELECT start, size FROM places WHERE key = ? ORDER BY start"
        with self._lock:
            place = self._places.find(query, (cid.key,))
            data = None if place is None else self._read(*place)
        if data is not None:
            check_block(cid, data)
        return data

    def close(self) -> None:
        """Close the file, and remove what is on disk to know its blocks."""
        self._places.close()
        self._file.close()

    def _scan(self) -> Iterator[tuple[bytes, int, int]]:
        """Read the header, then yield the key, the start and the size of each block."""
        try:
            start, stop = self._read_header()
        except ValueError:
            wrong = MalformedError(f"{self._name} is not an archive (CAR)")
            remedy = f"`holdfast upload {quote(self._name)}` stores it as it is"
            raise advise(wrong, "to store the file as it is, use `upload`", remedy) from None
        while start < stop and not self.damage:
            begin, size, cid, end = start, 0, None, 0
            with suppress(ValueError):
                begin, size = self._section(start, car.MAX_SECTION)
                cid, end = CID.read(self._read(begin, min(size, car.MAX_CID)))
            if cid is None or begin + size > min(stop, self.size):
                how = "cut off" if begin + max(size, 1) > self.size else "damaged there"
                self.damage = f"{self._name} cannot be read after byte {start}: it is {how}"
            elif cid.is_provable and inline_block(cid) is None:
                yield cid.key, begin + end, size - end
            start = begin + size

    def _read_header(self) -> tuple[int, int]:
        """Set the roots; return where the blocks start and end. Raise ValueError if it is wrong."""
        stop = self.size
        begin, size = self._section(0, car.MAX_HEADER)
        header = self._read(begin, size)
        if header == car.V2_PRAGMA:
            start, length = car.v2_range(self._read(begin + size, car.V2_FIXED_HEADER))
            stop = start + length
            begin, size = self._section(min(start, self.size), car.MAX_HEADER)
            header = self._read(begin, size)
        self.roots = car.decode_header(header)
        return begin + size, stop

    def _section(self, start: int, limit: int) -> tuple[int, int]:
        """Return where a section begins, and its size; raise ValueError if that is not valid."""
        size, end = varint.decode(self._read(start, varint.MAX_BYTES))
        if not 0 < size <= limit:
            raise ValueError("a length is not possible")
        return start + end, size

    def _read(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        return self._file.read(size)
