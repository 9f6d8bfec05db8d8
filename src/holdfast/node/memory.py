"""Limits of memory: one for the bytes that requests hold, one for the cache."""

import asyncio
import ctypes
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, Self

HELD_LIMIT: Final = 96 << 20  # an upload of 100,000 files with long names takes 80 MiB
CACHE_LIMIT: Final = 32 << 20
ENDING_LIMIT: Final = 32 << 20  # of requests that were told to end and have not ended yet
SMALL: Final = 16 << 10  # a request that holds less is not counted: there are at most 1,024
GIVE_BACK_AFTER: Final = 8 << 20


_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # None if it is not glibc


class MemoryShare:
    """The bytes that one request holds. A context manager that releases them at its end.

    Attributes:
        memory: What all requests hold.
        is_ended: Whether the request must end, because other requests need the memory.
        on_end: Called when the request must end.
    """

    def __init__(self, memory: "HeldMemory", on_end: Callable[[], None] | None = None) -> None:
        self.memory = memory
        self.is_ended: bool = False
        self.on_end = on_end

    def hold(self, size: int, *, progress: bool = True) -> None:
        """Set the bytes held to `size`; `progress` says whether the client sent or read some."""
        self.memory.set(self, size, progress=progress)

    def end(self) -> None:
        """Tell the request to end."""
        self.is_ended = True
        if self.on_end is not None:
            self.on_end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.memory.release(self)


class HeldMemory:
    """The bytes that all requests hold while they wait for their clients.

    When they hold more than the limit together, the request is ended whose client has made no
    progress for longest. So stalled clients cannot use up memory that others need. A request that
    holds less than `SMALL` is never ended. Use it in the event loop only.

    Attributes:
        has_room: Set unless requests that must end still hold more than `ENDING_LIMIT`.

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
        self._freed = 0  # bytes released since `give_back` was called
        self._sizes: OrderedDict[MemoryShare, int] = OrderedDict()
        self._ending: dict[MemoryShare, int] = {}
        self.has_room: asyncio.Event = asyncio.Event()
        self.has_room.set()

    def set(self, share: MemoryShare, size: int, *, progress: bool) -> None:
        """Record that `share` holds `size` bytes; end requests while the limit is exceeded."""
        if share.is_ended:
            return
        if size < SMALL:  # ending it would free almost nothing
            self.release(share)
            return
        self._total += size - self._sizes.get(share, 0)
        self._sizes[share] = size
        if progress:
            self._sizes.move_to_end(share)
        while self._total > self._limit:
            longest, size = self._sizes.popitem(last=False)
            self._total -= size
            self._ending[longest] = size
            self._note_room()
            longest.end()

    def release(self, share: MemoryShare) -> None:
        """Record that `share` holds nothing."""
        size = self._sizes.pop(share, 0)
        self._total -= size
        self._freed += size
        if share in self._ending:
            self._freed += self._ending.pop(share)
            self._note_room()

    def _note_room(self) -> None:
        if sum(self._ending.values()) > ENDING_LIMIT:
            self.has_room.clear()
        else:
            self.has_room.set()

    def give_back(self) -> None:
        """Return free memory to the system, if much was released since the last call.

        The C library keeps freed memory that lies between blocks in use. After many requests that
        ended early, it would keep several times the limit.
        """
        if self._freed >= GIVE_BACK_AFTER and _malloc_trim is not None:
            self._freed = 0
            _malloc_trim(0)


class Cache:
    """The most recently used values, up to a total weight. Safe for several threads.

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
        """Return the value of `key`, or None if it is not in the cache."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Any, *, weight: int) -> None:
        """Add a value, and remove the least recently used ones above the limit."""
        with self._lock:
            _, before = self._entries.pop(key, (None, 0))
            self._entries[key] = (value, weight)
            self._weight += weight - before
            while self._weight > self._limit:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._weight -= dropped
