"""The budgets of one read: limits on memory, disk, blocks in flight and unverified bytes.

==========  =========================================================================
memory      the constants below; the links of a walk are MAX_PENDING in `unixfs.walks`
disk        `max_unverified_bytes` of the configuration and MAX_RAW, by `SizeLimit`
time        `timeouts` of the configuration; `_async.reads.state` checks them
the reply   bytes that are not content: `Overhead` in `protocol.http`, for every request
==========  =========================================================================
"""

from dataclasses import dataclass
from typing import Final

from holdfast.content.cid import CID
from holdfast.content.codecs import is_one_block
from holdfast.content.hashes import IDENTITY
from holdfast.content.proof import wrong_bytes
from holdfast.content.reference import Reference
from holdfast.errors import MalformedError, UnprovenError, VerificationError
from holdfast.single_line import short

# Memory. All of it together, with the links of a walk, stays below 64 MiB for any DAG and archive.
BATCH_SIZE: Final = 1 << 20  # bytes of a body that go to a worker thread at a time
SMALL_BATCH: Final = 1 << 16  # up to this size, hashing is faster than using a worker thread
SMALL_BLOCK: Final = SMALL_BATCH  # a raw block up to this size is read in one piece
LINGER: Final = 1.0  # seconds after which a batch is passed on although it is not full
BLOCKS_AT_ONCE: Final = 8  # blocks that one read fetches at the same time
OUTPUT_SIZE: Final = 1 << 20  # bytes that a proof returns at a time, and at most a block more
PIECE_COST: Final = 256  # bytes of memory that a piece takes besides its content
MAX_KEPT: Final = 8 << 20  # bytes of archive blocks that arrived early or may be needed again
MAX_UNRELATED: Final = MAX_KEPT  # bytes of archive blocks that the file has not needed so far
MAX_CACHED: Final = 8 << 20  # bytes of inner blocks that one read caches

# Disk. IPFS nodes do not exchange blocks of more than 2 MiB, but a gateway may have one.
MAX_RAW: Final = 64 << 20  # the largest raw block that is received before it is verified


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """The largest size of a body that is verified only at its end, and the error for a larger one.

    Example:
        >>> limit = SizeLimit(10, UnprovenError("larger than max_unverified_bytes (10)"))
        >>> limit.check(10)
        >>> limit.check(11)
        Traceback (most recent call last):
            ...
        holdfast.errors.UnprovenError: larger than max_unverified_bytes (10)
    """

    size: int
    error: VerificationError

    def check(self, size: int) -> None:
        """Raise the error if `size` exceeds the limit."""
        if size > self.size:
            raise self.error


def unverified_limit(
    reference: Reference, cid: CID | None, size: int | None, allowed: int
) -> SizeLimit:
    """Return the limit for a body that can only be verified at its end, or not at all.

    Args:
        reference: The file, for the error.
        cid: The CID at the end of the path, if it is verified.
        size: The size of the file, if a verified block contains it.
        allowed: `max_unverified_bytes`.
    """
    text = str(reference)
    if cid is not None and is_one_block(cid) and cid.hash_code == IDENTITY:
        size = len(cid.digest)
    if size is not None:
        return SizeLimit(size, wrong_bytes(reference))
    if cid is not None and is_one_block(cid) and allowed > MAX_RAW:
        words = (
            f"the body for {short(text)}, a single block, is larger than {MAX_RAW} bytes, the "
            "limit for one block whatever max_unverified_bytes allows"
        )
        return SizeLimit(MAX_RAW, MalformedError(words, cid=text))
    words = (
        f"the body for {short(text)} cannot be verified before its end, and is larger than "
        f"max_unverified_bytes ({allowed}): raise max_unverified_bytes, or add a gateway that "
        "serves blocks or archives"
    )
    return SizeLimit(allowed, UnprovenError(words, cid=text))
