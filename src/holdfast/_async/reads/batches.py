"""Split a body into batches that are large enough to be passed to a worker thread."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from holdfast._async.runtime import now
from holdfast.content.blocks import MAX_BLOCK
from holdfast.content.budgets import BATCH_SIZE, LINGER, SMALL_BATCH
from holdfast.errors import NetworkError

if TYPE_CHECKING:
    from holdfast._async.transport import AsyncResponse

FREED_BLOCK: Final = 8 << 20  # twice as much is kept then, more than all batches of one body


async def in_batches(
    response: "AsyncResponse",
    *,
    skip: int = 0,
    most: int | None = None,
    first: int = MAX_BLOCK,
) -> "AsyncIterator[list[bytes]]":
    """Yield the body in batches, without its first `skip` bytes, and `most` bytes in all.

    The first batch has `first` bytes, unless the body is smaller. Each of the others has
    `BATCH_SIZE` bytes, or those of one second. If the body breaks off, the received bytes are
    yielded before the error is raised.
    """
    limit, patience = first, float("inf")
    if not first:
        limit, patience = BATCH_SIZE, LINGER
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
                batch, held, limit, patience, begun = [], 0, BATCH_SIZE, LINGER, now()
    except NetworkError as error:
        failure = error
    if batch:
        yield batch
    if failure is not None:
        raise failure


def _append(batch: list[Any], chunk: bytes) -> None:
    """Add `chunk`. Small ones are joined: a million of them would take more memory than bytes."""
    if len(chunk) >= SMALL_BATCH:
        batch.append(chunk)
    elif batch and isinstance(batch[-1], bytearray) and len(batch[-1]) < SMALL_BATCH:
        batch[-1] += chunk
    else:
        batch.append(bytearray(chunk))


def total(pieces: list[Any]) -> int:
    """Return the number of bytes in all `pieces`."""
    return sum(map(len, pieces))


def reuse_freed_memory() -> None:
    """Let the memory of one batch be used for the next ones, before a large body is received.

    The C library of Linux gives freed memory back to the system, and gets it again page by page, if
    it is more than twice the largest block that was freed before. So free a large block, which was
    never written to, once.
    """
    bytearray(FREED_BLOCK)
