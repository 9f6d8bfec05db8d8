"""A body in batches, and what a worker thread does with one."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.content.blocks import MAX_BLOCK
from holdfast.content.cid import CID
from holdfast.content.proof import Proof
from holdfast.errors import NetworkError

if TYPE_CHECKING:
    from holdfast._async.transport import AsyncResponse

BATCH_SIZE = 2 << 20  # what one hop to a worker thread carries
SMALL_BATCH = 1 << 16  # not worth a hop


async def in_batches(
    response: "AsyncResponse", skip: int, most: int | None
) -> "AsyncIterator[list[bytes]]":
    """At `most` so many bytes of the body, behind its first `skip` ones.

    First as much as a block may have, then batches. When the body breaks off, what has come is
    given first.
    """
    limit = MAX_BLOCK
    batch: list[bytes] = []
    size = 0
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
            size += len(part)
            if most == 0:
                break
            if size >= limit:
                yield batch
                batch, size, limit = [], 0, BATCH_SIZE
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
    """What of a body has passed, and the block without which no more can."""

    pieces: list[Any]
    need: CID | None


def prove(proof: Proof, chunks: list[bytes]) -> Proven:
    """Let the next bytes of a body pass."""
    return Proven(passed(proof, chunks), proof.need)


def prove_block(proof: Proof, block: bytes) -> Proven:
    """Let pass what waited for `block`."""
    return Proven(proof.feed_block(block), proof.need)


def passed(proof: Proof, chunks: list[bytes]) -> list[Any]:
    """What passes when `chunks` come."""
    pieces: list[Any] = []
    for chunk in chunks or [b""]:
        pieces += proof.update(chunk)
    return pieces


def total(pieces: list[Any]) -> int:
    """The bytes of all `pieces`."""
    return sum(map(len, pieces))
