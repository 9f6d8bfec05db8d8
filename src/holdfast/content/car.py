"""CAR archives: a small header, then blocks, each after its length and its CID.

We write version 1. We read version 1, and the version 1 inside of version 2. The index of version 2
and the roots in the header are not trusted.
"""

from collections.abc import Generator, Iterable, Iterator
from typing import Final, TypeAlias

from holdfast.content import dag_cbor, varint
from holdfast.content.blocks import MAX_BLOCK, check_block
from holdfast.content.cid import CID
from holdfast.errors import MalformedError, UnprovenError

MAX_HEADER: Final = 1 << 20  # thousands of roots; go-car allows 32 MiB
MAX_CID: Final = 256  # no CID has as many bytes
MAX_SECTION: Final = MAX_BLOCK + MAX_CID
# Kubo ends an archive that it cannot complete with "\n\n[Gateway Error: CAR stream truncated, …]".
# Read as a section, the first newline is a length of 10, and these are the ten bytes.
GATEWAY_ERROR: Final = b"\n\n[Gateway Error"
GATEWAY_ERROR_SECTION: Final = GATEWAY_ERROR[1:11]
V2_PRAGMA: Final = bytes.fromhex("a16776657273696f6e02")  # the header {"version": 2}
V2_FIXED_HEADER: Final = 40
V2_DATA_START: Final = 1 + len(V2_PRAGMA) + V2_FIXED_HEADER

Block: TypeAlias = tuple[CID, bytes]


def write_car(roots: Iterable[CID], blocks: Iterable[Block]) -> Iterator[bytes]:
    """Yield the archive of `blocks` in pieces."""
    yield car_head(roots)
    for cid, data in blocks:
        yield section_head(cid, len(data))
        yield data


def car_head(roots: Iterable[CID]) -> bytes:
    """Return the first bytes of an archive, before its blocks."""
    header = dag_cbor.encode({"roots": list(roots), "version": 1})
    return varint.encode(len(header)) + header


def section_head(cid: CID, size: int) -> bytes:
    """Return what is before a block of `size` bytes: the length of both, and the CID."""
    name = bytes(cid)
    return varint.encode(len(name) + size) + name


class CarReader:
    """Parses an archive that arrives in pieces of any size, and verifies each block in it.

    A block whose hash function is not supported is skipped: it may not be needed. If it is, the
    caller finds that it is missing.

    Example:
        >>> cid = CID.of_raw(b"x")
        >>> reader = CarReader()
        >>> for piece in write_car([cid], [(cid, b"x")]):
        ...     for _, data in reader.update(piece):
        ...         print(data)
        b'x'
        >>> reader.finish()
    """

    def __init__(self) -> None:
        self.roots: list[CID] = []
        self.has_header: bool = False  # whether the roots are known
        self._buffer = bytearray()
        self._position = 0
        self._ended = False
        self._failed = False
        self._parser = self._parse()

    def update(self, data: bytes) -> list[Block]:
        """Take the next bytes and return the blocks that they complete."""
        self.push(data)
        return list(iter(self.next_block, None))

    def finish(self) -> None:
        """Raise `MalformedError` unless the archive ended at the end of a block."""
        self._ended = True
        if self.next_block() is not None:
            raise MalformedError("CAR: the archive ends within a block")

    def push(self, data: bytes) -> None:
        """Take the next bytes. `next_block` returns their blocks."""
        del self._buffer[: self._position]
        self._position = 0
        self._buffer += data

    def next_block(self) -> Block | None:
        """Return the next verified block, or None until more bytes are pushed.

        It returns one block, because all blocks of a small piece may need much more memory.
        """
        if self._failed:
            raise MalformedError("CAR: an earlier part of the archive was malformed")
        self._failed = True
        block = next(self._parser, None)
        self._failed = False
        return block

    def arriving(self) -> tuple[CID | None, int]:
        """Return the CID of the block that has arrived in part, if it is known, and its bytes."""
        count = len(self._buffer) - self._position
        if count <= varint.MAX_BYTES:  # perhaps only the length before the block
            return None, 0
        try:
            cid, _ = CID.read(bytes(self._buffer[self._position : self._position + 256]))
        except ValueError:
            return None, 0
        return cid, count

    @property
    def is_cut_off(self) -> bool:
        """Whether the archive ends with a gateway's message that it is incomplete."""
        start = max(0, self._position - 1)  # the first byte was read as a length
        return bytes(self._buffer[start : start + len(GATEWAY_ERROR)]) == GATEWAY_ERROR

    def close(self) -> None:
        """Drop the bytes of an archive that is not read to its end."""
        self._parser.close()
        self._buffer = bytearray()
        self._position = 0

    # The parser is one generator. It yields None when it needs more bytes.

    def _parse(self) -> Generator[Block | None]:
        size, header = yield from self._section(MAX_HEADER)
        left: int | None = None
        if header == V2_PRAGMA:
            fixed = yield from self._take(V2_FIXED_HEADER)
            start, left = v2_range(fixed)
            yield from self._skip(start - V2_DATA_START)
            size, header = yield from self._section(MAX_HEADER, left)
            left -= size
        self.roots, self.has_header = decode_header(header), True
        while left != 0 and (yield from self._more()):
            prefix, size = yield from self._length(MAX_SECTION, left)
            yield from self._await(size)
            left = None if left is None else left - prefix - size
            if (block := self._block(size)) is not None:
                yield block
        if left:
            raise MalformedError("CAR: version 2 with less data than it declares")
        while left is not None and (yield from self._more()):
            self._position = len(self._buffer)

    def _section(
        self, limit: int, left: int | None = None
    ) -> Generator[None, None, tuple[int, bytes]]:
        """Return the size of the next section with its length, and its bytes without it."""
        prefix, size = yield from self._length(limit, left)
        section = yield from self._take(size)
        return prefix + size, section

    def _length(
        self, limit: int, left: int | None = None
    ) -> Generator[None, None, tuple[int, int]]:
        """Read the length of the next section. Return how many bytes it takes, and its value."""
        count = 1
        while True:
            if len(self._buffer) - self._position < count:
                yield from self._await(count)
            if self._buffer[self._position + count - 1] < 0x80 or count == varint.MAX_BYTES:
                break
            count += 1
        start, self._position = self._position, self._position + count
        try:
            size, _ = varint.decode(self._buffer[start : self._position])
        except ValueError as error:
            raise MalformedError(f"CAR: {error}") from None
        if left is not None:
            limit = min(limit, left - count)
        if not 0 < size <= limit:
            raise MalformedError(f"CAR: a section of {size} bytes; 1 to {limit} are allowed")
        return count, size

    def _await(self, size: int) -> Generator[None]:
        """Wait for the next `size` bytes. No memory is allocated before they arrive."""
        while len(self._buffer) - self._position < size:
            if self._ended:
                raise MalformedError("CAR: the archive is cut off")
            yield None

    def _take(self, size: int) -> Generator[None, None, bytes]:
        """Return the next `size` bytes."""
        yield from self._await(size)
        return self._cut(self._position + size)

    def _cut(self, stop: int) -> bytes:
        """Return the bytes up to `stop`, which have arrived. They are copied only once."""
        with memoryview(self._buffer) as view:
            data = bytes(view[self._position : stop])
        self._position = stop
        return data

    def _block(self, size: int) -> Block | None:
        """Return the block in the next `size` bytes, or None if its hash is not supported."""
        start, stop = self._position, self._position + size
        if self._buffer[start:stop] == GATEWAY_ERROR_SECTION:
            raise UnprovenError("CAR: the gateway says that the archive is incomplete")
        try:
            cid, end = CID.read(bytes(self._buffer[start : min(stop, start + MAX_CID)]))
        except ValueError as error:
            raise MalformedError(f"CAR: a block's CID is wrong: {error}") from None
        self._position = start + end
        if not cid.is_provable:
            self._position = stop
            return None
        data = self._cut(stop)
        check_block(cid, data)
        return cid, data

    def _skip(self, size: int) -> Generator[None]:
        """Skip `size` bytes, as they arrive."""
        while size > 0:
            yield from self._await(1)
            step = min(len(self._buffer) - self._position, size)
            self._position += step
            size -= step

    def _more(self) -> Generator[None, None, bool]:
        """Wait for the next byte; return False at the end of the archive."""
        while self._position == len(self._buffer):
            if self._ended:
                return False
            yield None
        return True


def v2_range(fixed: bytes) -> tuple[int, int]:
    """Return where version 1 starts in an archive of version 2, and its size."""
    start, size = (int.from_bytes(fixed[at : at + 8], "little") for at in (16, 24))
    if start < V2_DATA_START:
        raise MalformedError("CAR: version 2 whose data starts inside its header")
    return start, size


# The header: DAG-CBOR for ``{"roots": [CIDs], "version": 1}``, and nothing else

_ROOTS: Final = b"\x65roots"
_VERSION: Final = b"\x67version"


def decode_header(header: bytes) -> list[CID]:
    """Return the roots in `header`; raise `MalformedError` if it is not valid."""
    if not header.startswith(b"\xa2"):
        raise MalformedError("CAR: not a header of version 1")
    position = 1
    roots: list[CID] | None = None
    version: int | None = None
    while position < len(header):
        if header.startswith(_VERSION, position) and version is None:
            version, position = _cbor_number(header, position + len(_VERSION), 0x00)
        elif header.startswith(_ROOTS, position) and roots is None:
            roots, position = _decode_roots(header, position + len(_ROOTS))
        else:
            raise MalformedError("CAR: the header has an unknown field")
    if version != 1 or roots is None:
        raise MalformedError("CAR: not a header of version 1")
    return roots


def check_only_root(roots: list[CID], root: CID) -> None:
    """Raise `MalformedError` unless `root` is the only one of `roots`, in the same version."""
    if [*map(bytes, roots)] != [bytes(root)]:
        named = ", ".join(map(str, roots[:3])) or "none"
        raise MalformedError(f"CAR: the root must be {root}, not {named}", cid=str(root))


def _decode_roots(header: bytes, position: int) -> tuple[list[CID], int]:
    count, position = _cbor_number(header, position, 0x80)
    roots = []
    for _ in range(count):
        if header[position : position + 2] != b"\xd8\x2a":
            raise MalformedError("CAR: a root is not a CID")
        size, position = _cbor_number(header, position + 2, 0x40)
        link = header[position : position + size]
        position += size
        if len(link) != size or not link.startswith(b"\0"):
            raise MalformedError("CAR: a root is cut off or lacks its zero byte")
        try:
            roots.append(CID.from_bytes(link[1:]))
        except ValueError as error:
            raise MalformedError(f"CAR: a root is not a CID: {error}") from None
    return roots, position


def _cbor_number(data: bytes, position: int, major: int) -> tuple[int, int]:
    """Return the number of the item at `position`, which must have this type, and its end."""
    first = data[position] if position < len(data) else 0xFF
    small = first & 0x1F
    if first & 0xE0 == major and small < 24:
        return small, position + 1
    if first & 0xE0 == major and small <= 26:
        end = position + 1 + (1 << small - 24)
        if end <= len(data):
            return int.from_bytes(data[position + 1 : end], "big"), end
    raise MalformedError("CAR: the header is not valid DAG-CBOR")
