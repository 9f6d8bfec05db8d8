"""A TCP proxy that counts what a client sends, and can hold it back or lose the reply."""

import contextlib
import socket
import threading


class CountingProxy:
    """Forwards connections to `target`, the URL of a server, which may change.

    Attributes:
        sent: The bytes that clients have sent so far.
        hold_after: After how many bytes in all, nothing more is forwarded; None for never.
        on_reply: Called before the first byte of a reply is forwarded; None for nothing.
    """

    def __init__(self, target):
        self.target = target
        self.sent = 0
        self.hold_after = None
        self.on_reply = None
        self.held = threading.Event()
        self._released = threading.Event()
        self._sockets = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            host, _, port = self.target.removeprefix("http://").partition(":")
            try:
                server = socket.create_connection((host, int(port)))
            except OSError:
                client.close()
                continue
            self._sockets += [client, server]
            for pump in (self._pump_up, self._pump_down):
                threading.Thread(target=pump, args=(client, server), daemon=True).start()

    def _pump_up(self, client, server):
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                self.sent += len(data)
                if self.hold_after is not None and self.sent >= self.hold_after:
                    self.held.set()
                    self._released.wait()
                server.sendall(data)
        _end(client, server)

    def _pump_down(self, client, server):
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                if self.on_reply is not None:
                    self.on_reply()
                client.sendall(data)
        _end(client, server)

    def release(self):
        """Forward what is held back, and hold nothing more."""
        self.hold_after = None
        self._released.set()

    def close(self):
        self.release()
        _end(self._listener, *self._sockets)  # to shut a listener down wakes `accept`

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _end(*sockets):
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
