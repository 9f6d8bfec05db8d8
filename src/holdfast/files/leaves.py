"""Hashing the leaves of a file on disk with several threads, in constant memory.

Each thread reads at its own offset into its own buffer. hashlib and the system calls release the
interpreter lock, so two threads are nearly twice as fast as one. A memory map would save a copy,
but it counts as memory of the process, and ends the process if the file shrinks.
"""

import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO, Final

from holdfast.content.profiles import Profile
from holdfast.content.unixfs.files import Part, leaf_frame, leaf_part

JOB_SIZE: Final = 4 << 20  # bytes that a thread hashes at a time
READ_SIZE: Final = 1 << 18  # small enough to stay in the processor's cache while it is hashed
MAX_THREADS: Final = 4


def default_threads() -> int:
    """Return how many processors this process may use, at most `MAX_THREADS`."""
    if not hasattr(os, "preadv"):
        return 1
    if hasattr(os, "sched_getaffinity"):
        return min(MAX_THREADS, len(os.sched_getaffinity(0)))
    return min(MAX_THREADS, os.cpu_count() or 1)


def hash_leaves(
    file: BinaryIO, size: int, profile: Profile, *, threads: int | None = None
) -> Iterator[Part]:
    """Yield the leaves of the first `size` bytes of `file`, in order.

    Raise `EOFError` if the file is shorter.
    """
    threads = threads or default_threads()
    if size <= JOB_SIZE:
        threads = 1
    step = max(1, JOB_SIZE // profile.chunk_size) * profile.chunk_size
    jobs = ((start, min(start + step, size)) for start in range(0, max(size, 1), step))
    if threads == 1:
        hasher = _LeafHasher(file, profile)
        for start, stop in jobs:
            yield from hasher.leaves(start, stop)
        return
    local = threading.local()

    def run(start: int, stop: int) -> list[Part]:
        if not hasattr(local, "hasher"):
            local.hasher = _LeafHasher(file, profile)
        return list(local.hasher.leaves(start, stop))

    pool = ThreadPoolExecutor(threads, thread_name_prefix="holdfast-hash")
    waiting: deque[Future[list[Part]]] = deque()
    try:
        for start, stop in jobs:
            waiting.append(pool.submit(run, start, stop))
            if len(waiting) > 2 * threads:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


class _LeafHasher:
    """Hashes leaves of a file for one thread, with a buffer of its own."""

    def __init__(self, file: BinaryIO, profile: Profile) -> None:
        self._file = file
        self._profile = profile
        self._buffer = memoryview(bytearray(READ_SIZE))

    def leaves(self, start: int, stop: int) -> Iterator[Part]:
        for position in range(start, max(stop, start + 1), self._profile.chunk_size):
            yield self._leaf(position, min(self._profile.chunk_size, stop - position))

    def _leaf(self, start: int, size: int) -> Part:
        head, tail = leaf_frame(self._profile, size)
        block_hash = self._profile.new_hash(head)
        done = 0
        while done < size:
            view = self._buffer[: min(READ_SIZE, size - done)]
            count = self._read(view, start + done)
            if not count:
                raise EOFError
            block_hash.update(view[:count])
            done += count
        block_hash.update(tail)
        return leaf_part(self._profile, block_hash.digest(), size)

    def _read(self, view: memoryview, start: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._file.fileno(), [view], start)
        self._file.seek(start)
        return self._file.readinto(view)  # type: ignore[attr-defined,no-any-return]
