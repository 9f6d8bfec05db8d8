"""What the tests of resumable uploads share: a proxy of a node, whose replies a test changes."""

import base64
import hashlib
import socket
from collections import deque
from dataclasses import replace

from holdfast.node.node_server import NodeServer
from holdfast.node.settings import NodeSettings, NodeToken
from holdfast.repository import Repository
from holdfast.testing import Scripted, ScriptedServer, forward_to
from tests.forwarders import fill_queue

PIECE = 1 << 18  # in place of 48 MiB
LARGEST = 1 << 19  # of a form, in place of 90 MiB
LEGACY = "kubo-legacy-cidv1"


def random_bytes(size, seed=0):
    return b"".join(
        hashlib.sha256(f"{seed} {number}".encode()).digest() for number in range(size // 32 + 1)
    )[:size]


class Between:
    """A proxy of a node that records what is sent, and applies the faults of a test.

    A fault is a function of a request and of `forward`, which sends it to the node.
    """

    def __init__(self, node):
        self._forward = forward_to(node.api_url)
        self._node_url = node.api_url
        self._faults = {}
        self.server = ScriptedServer(self._reply)

    def on(self, method, *faults):
        """Apply the faults to the next requests with this method; None is for no fault."""
        self._faults.setdefault(method, deque()).extend(faults)

    def apply(self, faults):
        """Apply faults by method."""
        for method, in_turn in faults.items():
            self.on(method, *in_turn)

    def _reply(self, request):
        waiting = self._faults.get(request.method)
        fault = waiting.popleft() if waiting else None
        return self._send(request) if fault is None else fault(request, self._send)

    def _send(self, request):
        reply = self._forward(request)
        fields = {
            name: value.replace(self._node_url, self.server.url)
            for name, value in reply.headers.items()
        }
        return replace(reply, headers=fields)

    @property
    def methods(self):
        return [request.method for request in self.server.requests]

    @property
    def requests(self):
        """All requests: b is one that begins an upload, p a piece, h a question, g a look."""
        letters = {"POST": "b", "PATCH": "p", "HEAD": "h", "GET": "g"}
        return "".join(letters[method] for method in self.methods)

    @property
    def pieces(self):
        """The pieces that were sent: where each begins, and its size."""
        return [
            (int(request.headers["upload-offset"]), len(request.body))
            for request in self.server.requests
            if request.method == "PATCH"
        ]


class RestartingNode:
    """A node that stops, and starts again at the same address.

    While it is stopped, connections are refused, because its port is taken and nobody listens.
    """

    token = "token-0123456789"

    def __init__(self, folder):
        self._folder = folder
        self._port = socket.socket()
        self._port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._port.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._port.getsockname()[1]}"
        self._callers = []
        self._server = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        for open_socket in (*self._callers, self._port):
            open_socket.close()

    def start(self):
        self._repository = Repository(self._folder)
        settings = NodeSettings(tokens=(NodeToken(token=self.token),))
        port = self._port.getsockname()[1]
        self._server = NodeServer(self._repository, settings, port=port)
        self._server.start()

    def stop(self):
        if self._server is not None:
            self._server.stop()
            self._repository.close()
            self._server = None

    def ignore_callers(self):
        """Stop, and accept no connection any more, but do not refuse one either."""
        self.stop()
        self._callers = fill_queue(self._port)


def metadata_of(request):
    """The decoded metadata of a request that begins an upload."""
    pairs = (pair.partition(" ") for pair in request.headers["upload-metadata"].split(","))
    return {key: base64.b64decode(value).decode() for key, _, value in pairs}


# Faults


def status(code, headers=None):
    """A reply with a failed status; the node does not get the request."""
    return lambda _request, _send: Scripted(status=code, headers=headers or {})


def lost(request, send):
    """The node gets the request, and its reply is lost."""
    send(request)
    return Scripted(hang_up=True)


def broken(_request, _send):
    """The connection breaks before the node gets anything."""
    return Scripted(hang_up=True)


def shortened(size):
    """The node gets only the first bytes of a piece."""
    return lambda request, send: send(replace(request, body=request.body[:size]))


def changed(without=(), **headers):
    """The node's reply with other headers; underscores are hyphens."""

    def fault(request, send):
        reply = send(request)
        fields = {name.lower(): value for name, value in reply.headers.items()}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        return replace(reply, headers={k: v for k, v in fields.items() if k not in without})

    return fault
