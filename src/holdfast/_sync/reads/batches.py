# WARNING: this file is generated from src/holdfast/_async/reads/batches.py
# by scripts/generate_sync.py. Change the original instead.
"""Split a body into batches that are large enough to be passed to a worker thread."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast._sync.runtime import now
from holdfast.content.blocks import MAX_BLOCK
from holdfast.content.budgets import BATCH_SIZE, LINGER, SMALL_BATCH
from holdfast.errors import NetworkError

if TYPE_CHECKING:
    from holdfast._sync.transport import Response


def in_batches(
    response: "Response",
    *,
    skip: int = 0,
    most: int | None = None,
    first: int = MAX_BLOCK,
    size: int = BATCH_SIZE,
) -> "Iterator[list[bytes]]":
    """Yield the body in batches, without its first `skip` bytes, and `most` bytes in all.

    The first batch has `first` bytes, unless the body is smaller. Each of the others has `size`
    bytes, or those of one second. If the body breaks off, the received bytes are yielded before the
    error is raised.
    """
    limit, patience = first, float("inf")
    if not first:
        limit, patience = size, LINGER
    batch: list[bytes] = []
    held = 0
    begun = now()
    failure: NetworkError | None = None
    try:
        for chunk in response.chunks():
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
