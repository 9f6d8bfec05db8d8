"""A node's gateway on a port of this machine, and a client that sends targets to the letter."""

import hashlib
import http.client
import socket
import threading
import tracemalloc
from contextlib import closing, contextmanager
from typing import NamedTuple

import uvicorn
from starlette.applications import Starlette

from holdfast.content.cid import CID, SHA2_256
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs.directories import build_directory, build_symlink
from holdfast.content.unixfs.files import Part
from holdfast.node.gateway.cached_repository import CachedRepository
from holdfast.node.gateway.serving import GatewayRoute
from holdfast.node.http_server.streamed_replies import Resources
from holdfast.repository import Repository
from holdfast.sources.importing import import_content


def cid_of(codec, block):
    return CID(1, codec, SHA2_256, hashlib.sha256(block).digest())


class Reply(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


@contextmanager
def running_gateway(folder, cache=None):
    """Serve a store in `folder`."""
    with Repository(folder) as repository, closing(Node(repository, cache)) as node:
        yield node


class Node:
    """The gateway on a port of this machine, and the repository behind it."""

    def __init__(self, repository, cache=None):
        self.repository = repository
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        cached = CachedRepository(repository, cache)
        app = Starlette(routes=[GatewayRoute(lambda address, _: (cached, address))])
        app.state.resources = Resources()
        self._server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))
        self._thread.start()

    def close(self):
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def get(self, target, method="GET", **headers):
        """A reply, read whole; the target is sent to the letter."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)) as connection:
            connection.request(method, target, headers=names)
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())

    def read_and_peak(self, target):
        """Read a reply and drop it. Return its size, and the most memory this process took."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        buffer = bytearray(1 << 20)
        size = 0
        tracemalloc.start()
        try:
            connection.request("GET", target)
            response = connection.getresponse()
            while count := response.readinto(buffer):
                size += count
            return size, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            connection.close()

    def head(self, target, **headers):
        reply = self.get(target, "HEAD", **headers)
        assert reply.body == b""
        return reply

    def add(self, content, profile=UNIXFS_V1_2025, **info):
        """Store and pin `content`; its CID."""
        return self.repository.add(content, profile, **info)[0].cid

    def add_symlink(self, target):
        """Store a symbolic link; its part."""
        with self.repository.adding() as adding:
            link = build_symlink(target, UNIXFS_V1_2025, adding.put)
            adding.flush()
        return link

    def add_directory(self, entries):
        """Store a directory of small files, links and directories; its part."""
        with self.repository.adding() as adding:
            parts = []
            for name, content in entries.items():
                part = content
                if not isinstance(content, Part):
                    part = import_content(content, UNIXFS_V1_2025, adding.put)
                parts.append((name if isinstance(name, bytes) else name.encode(), part))
            part = build_directory(parts, UNIXFS_V1_2025, adding.put)
            adding.pin(part.cid, size=part.dag_size)
        return part

    def put(self, codec, block):
        """Store one block as it is; its CID."""
        cid = cid_of(codec, block)
        self.put_all([(cid, block)])
        return cid

    def put_all(self, blocks):
        """Store blocks in one transaction."""
        with self.repository.adding() as adding:
            for cid, block in blocks:
                adding.put(cid, block)
            adding.flush()
