"""A server that sends whatever a test yields, for as long as the client listens."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Self

Attack = Callable[[], Iterator[bytes]]


class Attacker:
    """Answers each request with the bytes of `attack`, which may have no end.

    With `tls`, a server's context, it speaks TLS. With `is_closing`, it closes the connection after
    a reply.
    """

    def __init__(self, attack: Attack, tls=None, host="127.0.0.1", *, is_closing=False) -> None:
        self._attack = attack
        self._is_closing = is_closing
        self._tls = tls
        self._listener = socket.create_server((host, 0))
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self.sent = 0
        self.requests = 0
        self.port = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://{host}:{self.port}"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the end of the listener
            while True:
                caller, _ = self._listener.accept()
                self._start(self._serve, caller)

    def _serve(self, caller: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the client has left
            if self._tls is not None:
                caller = self._tls.wrap_socket(caller, server_side=True)
            self._open.append(caller)
            with caller:
                while self._take_request(caller):
                    self.requests += 1
                    for piece in self._attack():
                        caller.sendall(piece)
                        self.sent += len(piece)
                    if self._is_closing:
                        break

    @staticmethod
    def _take_request(caller: socket.socket) -> bool:
        """Read a request to its end; whether there was one."""
        data = b""
        while b"\r\n\r\n" not in data:
            more = caller.recv(65536)
            if not more:
                return False
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        while len(body) < length:
            body += caller.recv(65536)
        return True

    def _start(self, target, *args) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for open_socket in (self._listener, *self._open):
            with contextlib.suppress(OSError):  # it may be closed already
                open_socket.shutdown(socket.SHUT_RDWR)
            open_socket.close()
        for thread in self._threads:
            thread.join(10)
