"""TCP forwarders between a client and a server: they count, hold back, refuse and tunnel."""

import contextlib
import socket
import threading


class Forwarder:
    """Forwards connections to `target`, the URL of a server, which may change."""

    def __init__(self, target, *, listens=True):
        self.target = target
        self._sockets = []
        self._threads = []
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self.peer = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = f"http://{self.peer}"
        if listens:
            self._listen()

    def _listen(self):
        self._listener.listen(16)
        self._start(self._accept)

    def _start(self, target, *args):
        self._threads.append(threading.Thread(target=target, args=args, daemon=True))
        self._threads[-1].start()

    def _accept(self):
        with contextlib.suppress(OSError):  # the end of the listener
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                self._start(self._forward, client)

    def _forward(self, client):
        host, _, port = self.target.removeprefix("http://").partition(":")
        try:
            server = socket.create_connection((host, int(port)))
        except OSError:
            client.close()
            return
        self._sockets.append(server)
        self._start(self._pump, server, client, self.on_received)
        self._pump(client, server, self.on_sent)

    def _pump(self, source, target, on_data):
        with contextlib.suppress(OSError):  # one side hung up
            while data := source.recv(1 << 16):
                on_data(data)
                target.sendall(data)
        _end(source, target)

    def on_sent(self, data):
        """Called with bytes of the client, before they are forwarded."""

    def on_received(self, data):
        """Called with bytes of the server, before they are forwarded."""

    def close(self):
        _end(self._listener, *self._sockets)  # to shut a listener down wakes `accept`
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class CountingProxy(Forwarder):
    """Counts what a client sends, and can hold it back or lose the reply.

    Attributes:
        sent: The bytes that clients have sent so far.
        hold_after: After how many bytes in all, nothing more is forwarded; None for never.
        on_reply: Called before the first byte of a reply is forwarded; None for nothing.
    """

    def __init__(self, target):
        self.sent = 0
        self.hold_after = None
        self.on_reply = None
        self.is_holding = threading.Event()
        self._released = threading.Event()
        super().__init__(target)

    def on_sent(self, data):
        self.sent += len(data)
        if self.hold_after is not None and self.sent >= self.hold_after:
            self.is_holding.set()
            self._released.wait()

    def on_received(self, data):
        if self.on_reply is not None:
            self.on_reply()

    def release(self):
        """Forward what is held back, and hold nothing more."""
        self.hold_after = None
        self._released.set()

    def close(self):
        self.release()
        super().close()


class Door(Forwarder):
    """A port before `server`: it refuses callers, or keeps them waiting, until it is opened."""

    def __init__(self, server, *, refuses):
        super().__init__(server.url, listens=False)  # a port at which nobody listens refuses
        self._waiting = []
        if not refuses:
            self._waiting = fill_queue(self._listener)

    def open_at_a_retry(self, event):
        if event.kind == "retry":
            self._dismiss()
            self._listen()

    def _dismiss(self):
        for caller in self._waiting:
            caller.close()

    def close(self):
        self._dismiss()
        super().close()


class Tunnel(Forwarder):
    """A proxy that knows CONNECT and nothing else."""

    def __init__(self):
        self.heads = []
        super().__init__(None)

    def _forward(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(1000)
        self.heads.append(head)
        self.target = head.split()[1].decode()
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        super()._forward(client)


def fill_queue(listener):
    """Fill the queue of a listener, so that the system ignores further callers."""
    listener.listen(0)
    callers = [socket.socket() for _ in range(4)]
    for caller in callers:
        caller.settimeout(0)
        caller.connect_ex(listener.getsockname())
    return callers


def _end(*sockets):
    for ended in sockets:
        with contextlib.suppress(OSError):
            ended.shutdown(socket.SHUT_RDWR)
        ended.close()
