"""A limit of time for clients that do not read their replies."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

STALL_SECONDS = 60.0  # after which a client that reads too little of a reply is disconnected
STALL_BYTES: Final = 16 << 10  # a client that reads fewer in `STALL_SECONDS` has stalled
CHECKS: Final = 12  # checks of a reply's progress in `STALL_SECONDS`


class StallLimit:
    """A transport that aborts the connection when the client reads too little of a reply."""

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        on_resume: Callable[[], None] | None = None,
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._on_resume = on_resume
        self._written = 0
        self._is_watched = False
        self._mark = (0, 0.0)  # the bytes that the client had read, and when

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def resume_reading(self) -> None:
        """Read on: the application has taken what came before."""
        if self._on_resume is not None:
            self._on_resume()
        self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        """Send `data`; what the client does not read at once waits in the buffer."""
        self._written += len(data)
        self._transport.write(data)
        if not self._is_watched and self._transport.get_write_buffer_size():
            self._is_watched = True
            self._mark = (self._taken(), self._loop.time())
            self._watch()

    def count(self, size: int) -> None:
        """Count bytes that were sent past this object, while its buffer was empty."""
        self._written += size

    def _taken(self) -> int:
        return self._written - self._transport.get_write_buffer_size()

    def _watch(self) -> None:
        self._loop.call_later(STALL_SECONDS / CHECKS, self._check)

    def _check(self) -> None:
        if not self._transport.get_write_buffer_size():
            self._is_watched = False
            return
        taken, since = self._mark
        if self._taken() - taken >= STALL_BYTES:
            self._mark = (self._taken(), self._loop.time())
        elif self._loop.time() - since >= STALL_SECONDS:
            self._transport.abort()
            return
        self._watch()
