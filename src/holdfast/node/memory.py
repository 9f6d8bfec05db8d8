"""What requests hold in memory, within a limit that they share."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, Self

HELD_LIMIT: Final = 96 << 20  # an upload of 100,000 files with long names takes 80
CACHE_LIMIT: Final = 32 << 20


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
    for longest. So peers that stand still can use up no memory that others need. To be used in the
    event loop only.

    Example:
        >>> memory = HeldMemory(limit=100)
        >>> slow, quick = MemoryShare(memory), MemoryShare(memory)
        >>> slow.hold(60)
        >>> quick.hold(60)
        >>> slow.is_ended, quick.is_ended
        (True, False)
    """

    def __init__(self, limit: int = HELD_LIMIT) -> None:
        self._limit = limit
        self._total = 0
        self._sizes: OrderedDict[MemoryShare, int] = OrderedDict()

    def set(self, share: MemoryShare, size: int, *, progress: bool) -> None:
        """Note that `share` holds `size` bytes; end others, or itself, where that is too much."""
        if share.is_ended:
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
        self._total -= self._sizes.pop(share, 0)


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
