"""A body in batches, and what a worker thread does with one."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast._async.runtime import now
from holdfast.content.blocks import MAX_BLOCK, BlockCache
from holdfast.content.budgets import OUTPUT_SIZE, PIECE_COST
from holdfast.content.cid import CID
from holdfast.content.proof import Proof, joined
from holdfast.content.unixfs.archive import ArchiveProof
from holdfast.content.unixfs.walks import FileWalk
from holdfast.errors import NetworkError

if TYPE_CHECKING:
    from holdfast._async.transport import AsyncResponse

BATCH_SIZE = 2 << 20  # what one hop to a worker thread carries
ARCHIVE_BATCH = 1 << 20  # the same for an archive, whose proof holds blocks besides
SMALL_BATCH = 1 << 16  # not worth a hop
LINGER = 1.0  # seconds after which a batch goes on as it is, where bytes come slowly


async def in_batches(
    response: "AsyncResponse",
    *,
    skip: int = 0,
    most: int | None = None,
    first: int = MAX_BLOCK,
    size: int = BATCH_SIZE,
) -> "AsyncIterator[list[bytes]]":
    """Give at `most` so many bytes of the body, behind its first `skip` ones, in batches.

    The first batch has `first` bytes, unless the body is smaller; each of the others has `size`, or
    what came in a second. When the body breaks off, what has come is given first.
    """
    limit, patience = first, float("inf")
    if not first:
        limit, patience = size, LINGER
    batch: list[bytes] = []
    held = 0
    begun = now()
    failure: NetworkError | None = None
    try:
        async for chunk in response.chunks():
            if skip >= len(chunk):
                skip -= len(chunk)
                continue
            part = chunk[skip : None if most is None else skip + most]
            skip = 0
            most = None if most is None else most - len(part)
            _append(batch, part)
            held += len(part)
            if most == 0:
                break
            if held >= limit or now() - begun >= patience:
                yield batch
                batch, held, limit, patience, begun = [], 0, size, LINGER, now()
    except NetworkError as error:
        failure = error
    if batch:
        yield batch
    if failure is not None:
        raise failure


def _append(batch: list[Any], chunk: bytes) -> None:
    """Add `chunk`; small ones are joined, lest a million of them weigh more than what they hold."""
    if len(chunk) >= SMALL_BATCH:
        batch.append(chunk)
    elif batch and isinstance(batch[-1], bytearray) and len(batch[-1]) < SMALL_BATCH:
        batch[-1] += chunk
    else:
        batch.append(bytearray(chunk))


class Proven(NamedTuple):
    """What a proof made of a batch.

    Attributes:
        pieces: The bytes that may go on.
        need: The block without which no more can.
        has_more: Whether more can go on at once.
        progress: For an archive, a number that grows with the bytes that were of use.
    """

    pieces: list[Any]
    need: CID | None
    has_more: bool = False
    progress: int | None = None


def prove(proof: Proof, chunks: list[bytes]) -> Proven:
    """Feed the next bytes of a body and return what may go on."""
    if isinstance(proof, ArchiveProof):
        pieces = list(joined(proof.update(b"".join(chunks))))
        return Proven(pieces, None, proof.has_more, proof.progress)
    return Proven(passed(proof, chunks), proof.need)


def walk_on(walk: FileWalk, block: bytes, known: BlockCache) -> list[Any]:
    """Feed the block that a walk needs, then those of `known`; return the bytes of the file.

    They are as many as fit into OUTPUT_SIZE, and a block more at the most.
    """
    pieces: list[Any] = []
    work = 0
    following: bytes | None = block
    while following is not None and work < OUTPUT_SIZE:
        pieces += walk.feed(following)
        work += len(following) + PIECE_COST
        following = None if walk.need is None else known.get(walk.need)
    return list(joined(pieces))


def prove_block(proof: Proof, block: bytes) -> Proven:
    """Feed the block that was needed and return what may go on."""
    return Proven(proof.feed_block(block), proof.need)


def passed(proof: Proof, chunks: list[bytes]) -> list[Any]:
    """Feed `chunks` and return the bytes that may go on."""
    pieces: list[Any] = []
    for chunk in chunks or [b""]:
        pieces += proof.update(chunk)
    return pieces


def total(pieces: list[Any]) -> int:
    """Return the bytes of all `pieces`."""
    return sum(map(len, pieces))
