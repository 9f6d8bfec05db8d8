"""What requests hold in memory, within a limit that they share."""

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, Self

HELD_LIMIT: Final = 96 << 20  # an upload of 100,000 files with long names takes 80
CACHE_LIMIT: Final = 32 << 20
SMALL: Final = 16 << 10  # a request that holds less is not counted: there are 1,024 at the most
GIVE_BACK_AFTER: Final = 8 << 20


def _find_malloc_trim() -> Callable[[int], int] | None:
    """Return glibc's `malloc_trim`; None where the C library is another one."""
    try:
        function: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        return None
    return function


_malloc_trim = _find_malloc_trim()


class MemoryShare:
    """What one request holds of a `HeldMemory`. A context manager: at its end it holds nothing.

    Attributes:
        is_ended: Whether the request is to end, since others need the memory.
        on_end: Called when that is so; has the request end soon.
    """

    def __init__(self, memory: "HeldMemory", on_end: Callable[[], None] | None = None) -> None:
        self._memory = memory
        self.is_ended = False
        self.on_end = on_end

    def hold(self, size: int, *, progress: bool = True) -> None:
        """Hold `size` bytes from now on; `progress` says whether the peer got on since the last."""
        self._memory.set(self, size, progress=progress)

    def end(self) -> None:
        """Have the request end."""
        self.is_ended = True
        if self.on_end is not None:
            self.on_end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._memory.release(self)


class HeldMemory:
    """The bytes that requests hold while they wait for their peers.

    When they hold more than the limit together, the request ends whose peer has made no progress
    for longest. So peers that stand still can use up no memory that others need. A request that
    holds less than `SMALL` never ends for the memory of others. To be used in the event loop only.

    Example:
        >>> memory = HeldMemory(limit=100_000)
        >>> slow, quick = MemoryShare(memory), MemoryShare(memory)
        >>> slow.hold(60_000)
        >>> quick.hold(60_000)
        >>> slow.is_ended, quick.is_ended
        (True, False)
    """

    def __init__(self, limit: int = HELD_LIMIT) -> None:
        self._limit = limit
        self._total = 0
        self._freed = 0  # bytes that were released since `give_back` was called
        self._sizes: OrderedDict[MemoryShare, int] = OrderedDict()

    def set(self, share: MemoryShare, size: int, *, progress: bool) -> None:
        """Note that `share` holds `size` bytes; end others, or itself, where that is too much."""
        if share.is_ended:
            return
        if size < SMALL:  # to end it would free nothing that counts
            self.release(share)
            return
        self._total += size - self._sizes.get(share, 0)
        self._sizes[share] = size
        if progress:
            self._sizes.move_to_end(share)
        while self._total > self._limit:
            longest = next(iter(self._sizes))
            self.release(longest)
            longest.end()

    def release(self, share: MemoryShare) -> None:
        """Note that `share` holds nothing any more."""
        size = self._sizes.pop(share, 0)
        self._total -= size
        self._freed += size

    def give_back(self) -> None:
        """Return free memory to the system, if much was released since the last time.

        The C library keeps freed memory between blocks that are still in use. Many requests that
        end early would leave several times the limit behind.
        """
        if self._freed >= GIVE_BACK_AFTER and _malloc_trim is not None:
            self._freed = 0
            _malloc_trim(0)


class Cache:
    """Values that can be made again: those used last, up to a weight. For any number of threads.

    Example:
        >>> cache = Cache(limit=3)
        >>> cache.put("a", "one", weight=2)
        >>> cache.put("b", "two", weight=2)
        >>> cache.get("a"), cache.get("b")
        (None, 'two')
    """

    def __init__(self, limit: int = CACHE_LIMIT) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._weight = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def get(self, key: Hashable) -> Any:
        """Return the value of `key`, or None where it is not here, or not any more."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Any, *, weight: int) -> None:
        """Keep a value; those go that were not used for longest."""
        with self._lock:
            _, before = self._entries.pop(key, (None, 0))
            self._entries[key] = (value, weight)
            self._weight += weight - before
            while self._weight > self._limit:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._weight -= dropped
