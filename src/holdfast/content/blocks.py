"""Blocks: bytes whose hash must match their CID."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeAlias

from holdfast.content.cid import CID
from holdfast.content.hashes import IDENTITY, why_unsupported
from holdfast.errors import MalformedError, UnprovenError, VerificationError

MAX_BLOCK: Final = 2 << 20  # the limit of the IPFS protocols
BLOCK_COST: Final = 512  # bytes of memory for a cached block and its CID, besides the content

Emit: TypeAlias = Callable[[CID, bytes], None]
"""Receives the blocks that an importer makes."""


def check_block(cid: CID, data: bytes) -> None:
    """Raise `VerificationError` or a subclass of it unless `data` is the block that `cid` names."""
    if len(data) > MAX_BLOCK:
        raise MalformedError(f"block {cid} is larger than {MAX_BLOCK} bytes", cid=str(cid))
    check_provable(cid)
    if cid.new_hash(data).digest() != cid.digest:
        raise VerificationError(f"the block does not match its CID {cid}", cid=str(cid))


def inline_block(cid: CID) -> bytes | None:
    """Return the block that `cid` itself contains (identity hash), or None."""
    return cid.digest if cid.hash_code == IDENTITY else None


def check_provable(cid: CID) -> None:
    """Raise `UnprovenError` if the hash function of `cid` is not supported."""
    if not cid.is_provable:
        raise unsupported_hash(cid)


def unsupported_hash(cid: CID) -> UnprovenError:
    """Return the error for a CID whose hash function is not supported."""
    return UnprovenError(
        f"{cid} cannot be verified: {why_unsupported(cid.hash_code)}; "
        "with verify=False it is read as the gateway sends it",
        cid=str(cid),
    )


def missing_block(cid: CID) -> UnprovenError:
    """Return the error for a block that is needed and missing.

    If it could not be verified anyway, the error says that instead.
    """
    if not cid.is_provable:
        return unsupported_hash(cid)
    return UnprovenError(f"block {cid} is missing", cid=str(cid))


def malformed(cid: CID, what: str) -> MalformedError:
    """Return the error for a DAG that breaks the rules at `cid`."""
    return MalformedError(f"{cid}: {what}", cid=str(cid))


class BlockCache:
    """A cache of the most recently used verified blocks, up to `limit` bytes of memory.

    Example:
        >>> cache = BlockCache(1000)
        >>> one, two = CID.of_raw(b"1"), CID.of_raw(b"222")
        >>> cache.put(one, b"1")
        >>> cache.put(two, b"222")
        >>> cache.get(one), cache.get(two)
        (None, b'222')
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._blocks: OrderedDict[CID, bytes] = OrderedDict()

    def get(self, cid: CID) -> bytes | None:
        """Return the block that `cid` names if it is cached or inside the CID, else None."""
        inline = inline_block(cid)
        if inline is not None or cid not in self._blocks:
            return inline
        self._blocks.move_to_end(cid)
        return self._blocks[cid]

    def put(self, cid: CID, block: bytes) -> None:
        """Add `block`, which must be verified. The least recently used blocks are dropped."""
        if cid not in self._blocks:
            self._blocks[cid] = block
            self._size += len(block) + BLOCK_COST
        self.resize(self._limit)

    def resize(self, limit: int) -> None:
        """Limit the cache to `limit` bytes from now on."""
        self._limit = limit
        while self._blocks and self._size > limit:
            _, dropped = self._blocks.popitem(last=False)
            self._size -= len(dropped) + BLOCK_COST

    def copy(self) -> "BlockCache":
        """Return another cache with the same blocks."""
        copy = BlockCache(self._limit)
        copy.put_all(self)
        return copy

    def put_all(self, other: "BlockCache") -> None:
        """Add all blocks of `other`."""
        for cid, block in other._blocks.items():  # noqa: SLF001 - the same class
            self.put(cid, block)
