"""What the tests of wrong replies share: a patient client, and gateways of a few blocks."""

import os
import socket
import threading

import pytest

from holdfast.content.cid import CID
from holdfast.protocol.gateway import RAW_TYPE
from holdfast.testing import Scripted
from tests.support import GATEWAY_TOKEN, TOKEN, config_for

GIB = 1 << 30


def patient_config(server, **changes):
    """Four attempts, as by default, but with short waits."""
    fields = {
        "timeouts": {"connect": 5, "read": 5, "write": 5, "total": 20},
        "retries": {"attempts": 4, "base": 0.01, "cap": 0.05},
    }
    return config_for(server, **{**fields, **changes})


def assert_shows_no_token(error):
    notes = "".join(getattr(error, "__notes__", []))
    for text in (str(error), repr(error), repr(vars(error)), notes):
        assert TOKEN not in text
        assert GATEWAY_TOKEN not in text


PLACES = {"first": 0.0, "middle": 0.5, "last": 1.0}
"""Where a test spoils a file: how far from its start."""


# What may happen to a file of 5 MB while it is sent, and what the error says.
file_changes = pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: os.truncate(path, 2_500_000), "ended after"),
        (lambda path: os.truncate(path, 7_000_000), "grew beyond"),
        (lambda path: os.utime(path, (1, 1)), "was written to"),
    ],
    ids=["shrinks", "grows", "changes"],
)


def changing_file(folder, change):
    """A file for `file_changes`, and a `progress` that changes it once it is sent in part."""
    path = folder / "moving"
    path.write_bytes(b"a" * 5_000_000)
    changed = []

    def progress(done, total):
        if done and not changed:
            changed.append(done)
            change(path)

    return path, progress


def flipped(data, at):
    """`data` with one bit of its byte number `at` flipped."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def gateway_of(blocks, plain):
    """A script: blocks as they are, no archives, and what `plain` gives for the content itself."""

    def script(request):
        path, _, query = request.target.partition("?")
        if query == "format=raw":
            block = blocks[CID.parse(path.rpartition("/")[2])]
            return Scripted(body=block, headers={"Content-Type": RAW_TYPE})
        return Scripted(status=406) if query else plain(request)

    return script


class EndlessServer:
    """Announces 1 GiB of JSON on every connection, and sends it for as long as somebody reads."""

    def __init__(self):
        self.sent = 0
        self.requests = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self):
        while True:
            connection, _ = self._listener.accept()
            with self._lock:
                if self.url is None:
                    connection.close()
                    return
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection):
        piece = b" " * (1 << 16)
        with connection:
            try:
                if not connection.recv(1 << 16):
                    return
                self.requests += 1
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % GIB)
                for _ in range(GIB // len(piece)):
                    connection.sendall(piece)
                    self.sent += len(piece)
            except OSError:
                pass  # the client has had enough

    def close(self):
        with self._lock:
            self.url = None
        with socket.socket() as waker:
            waker.connect_ex(self._listener.getsockname())
        for thread in self._threads:
            thread.join()
        self._listener.close()
