"""Accept connections, up to a limit in total and a limit for each client address.

While the total is reached, new connections wait in the backlog of the system. The address of a
connection is known only after it was accepted. If its address has reached its limit, the connection
is held without being read until another one from that address ends.
"""

import asyncio
import ipaddress
import resource
import socket
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from holdfast.node.http_server.http_connection import NodeProtocol
from holdfast.node.http_server.refusals import logger

BACKLOG: Final = 1024
PAUSE: Final = 0.1  # seconds before the next attempt when the system has no more descriptors
OTHER_FILES: Final = 256  # descriptors reserved for the store and other files of the process
WANTED_FILES: Final = 4096


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The most connections that a node has.

    Attributes:
        total: The connections that are served.
        per_address: The served connections from one address; for IPv6, from one /64 network.
        waiting: The connections that are accepted but not read, because their address has reached
            its limit.
    """

    total: int = 1024
    per_address: int = 512
    waiting: int = 1024

    def within_descriptors(self) -> "ConnectionLimits":
        """Return limits that leave this process enough descriptors for other files."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return self
        room = max(soft - OTHER_FILES, soft // 2)
        total = min(self.total, room)
        per_address = min(self.per_address, (total + 1) // 2)
        return ConnectionLimits(total, per_address, min(self.waiting, room - total))


def raise_descriptor_limit() -> None:
    """Raise the number of files this process may open to `WANTED_FILES`, or to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    limit = WANTED_FILES if hard == unlimited else min(WANTED_FILES, hard)
    if soft != unlimited and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


@dataclass(eq=False, repr=False)
class Acceptor:
    """Accepts the connections of one listening socket in an event loop."""

    _listener: socket.socket
    _make_protocol: Callable[[], NodeProtocol]
    _limits: ConnectionLimits

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._served: Counter[str] = Counter()
        self._waiting: dict[str, deque[socket.socket]] = {}
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._starting: set[asyncio.Task[None]] = set()
        self._task = self._loop.create_task(self._accept())

    async def _accept(self) -> None:
        while True:
            await self._has_room.wait()
            try:
                connection, address = await self._loop.sock_accept(self._listener)
            except OSError as error:
                # No descriptors are left, or the client has disconnected.
                logger.warning("cannot accept a connection: %s", error)
                await asyncio.sleep(PAUSE)
                continue
            self._admit(connection, origin_of(address))

    def _admit(self, connection: socket.socket, origin: str) -> None:
        if self._served[origin] < self._limits.per_address:
            self._serve(connection, origin)
        elif sum(map(len, self._waiting.values())) < self._limits.waiting:
            self._waiting.setdefault(origin, deque()).append(connection)
        else:
            connection.close()

    def _serve(self, connection: socket.socket, origin: str) -> None:
        self._served[origin] += 1
        if self._served.total() >= self._limits.total:
            self._has_room.clear()
        task = self._loop.create_task(self._start(connection, origin))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _start(self, connection: socket.socket, origin: str) -> None:
        protocol = self._make_protocol()
        protocol.on_lost = partial(self._ended, origin)
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, connection)
        except OSError:
            connection.close()
            self._ended(origin)

    def _ended(self, origin: str) -> None:
        """Count a connection as ended, and serve one that is held for the same address, if any."""
        self._served[origin] -= 1
        if not self._served[origin]:
            del self._served[origin]
        queue = self._waiting.get(origin)
        if queue and not self._task.done():
            connection = queue.popleft()
            if not queue:
                del self._waiting[origin]
            self._serve(connection, origin)
        elif self._served.total() < self._limits.total:
            self._has_room.set()

    def close(self) -> None:
        """Stop accepting, and close the connections that are held."""
        self._task.cancel()
        for queue in self._waiting.values():
            for connection in queue:
                connection.close()
        self._waiting.clear()


def origin_of(address: Any) -> str:
    """Return the key that counts as one address: for IPv6 the /64 network, which one user has."""
    host = str(address[0]).partition("%")[0] if address else ""
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        return str(ipaddress.IPv6Address(int(ip) >> 64 << 64))
    return host
