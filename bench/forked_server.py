"""A bare HTTP server in another process, for benchmarks: what it answers is its subclass's."""

import socket
import threading
from abc import ABC, abstractmethod
from multiprocessing import get_context


class ForkedServer(ABC):
    """Listens on this machine and serves each connection on a thread of a forked process.

    A subclass calls `start` when it knows what to serve.
    """

    def start(self) -> None:
        """Listen, and serve until `close`."""
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._process = get_context("fork").Process(target=self._run, daemon=True)
        self._process.start()
        self._listener.close()

    def close(self) -> None:
        """Stop."""
        self._process.terminate()
        self._process.join()

    def _run(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    @abstractmethod
    def serve(self, connection: socket.socket) -> None:
        """Answer the requests on one connection."""
