"""Files in very many small pieces, as by Kubo's chunker size-1: the CPU time of each leaf.

A server in another process sends the file, first as a plain body with its blocks, then as an
archive. The figure is the CPU time of the client, so a busy machine changes it little.
`python bench/pieces.py [leaves]`
"""

import asyncio
import hashlib
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.forked_server import ForkedServer
from holdfast import AsyncClient, Client, ClientConfig
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V0_2015, Profile
from holdfast.content.unixfs.files import FileImporter
from holdfast.repository import Repository
from holdfast.repository.block_files import linked_from

TARGET = 25.0  # microseconds of CPU a leaf
ROUNDS = 2
LEAVES = 174_000


class File:
    """A file of one-byte leaves, and its blocks."""

    def __init__(self, profile: Profile, leaves: int) -> None:
        self.content = hashlib.shake_128(b"pieces").digest(leaves)
        self.blocks: dict[CID, bytes] = {}
        importer = FileImporter(replace(profile, chunk_size=1), self.blocks.__setitem__)
        importer.update(self.content)
        self.root = importer.finish().cid
        self.archive = b"".join(write_car([self.root], self._depth_first()))

    def _depth_first(self) -> Iterator[tuple[CID, bytes]]:
        pending = [self.root]
        while pending:
            cid = pending.pop()
            yield cid, self.blocks[cid]
            pending += reversed(linked_from(cid, self.blocks[cid]))


class Server(ForkedServer):
    """Gives a file's plain body and blocks, or its archive."""

    def __init__(self, file: File, *, archive: bool) -> None:
        self._file = file
        self._archive = archive
        self._blocks = {str(cid): block for cid, block in file.blocks.items()}
        self.start()

    def serve(self, connection: socket.socket) -> None:
        """Answer the requests of one connection with blocks, bodies and archives."""
        with connection, connection.makefile("rb") as lines:
            while request := lines.readline():
                while lines.readline().strip():
                    pass
                status, kind, body = self._answer(request.split(b" ")[1].decode())
                head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n"
                head += f"Content-Length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body)

    def _answer(self, target: str) -> tuple[str, str, bytes]:
        name, _, query = target.rpartition("/")[2].partition("?")
        if "format=raw" in query:
            if self._archive:
                return "406 Not Acceptable", "text/plain", b""
            return "200 OK", "application/vnd.ipld.raw", self._blocks[name]
        if "format=car" in query:
            return "200 OK", "application/vnd.ipld.car", self._file.archive
        return "200 OK", "application/octet-stream", self._file.content


def config_for(server: Server) -> ClientConfig:
    return ClientConfig(
        provider="pinning",
        provider_token="bench",  # noqa: S106 - not a real token
        pin_api_url=server.url,
        gateway_url=f"{server.url}/ipfs",
    )


def download(server: Server, file: File) -> None:
    with Client.init(config_for(server)) as client:
        if client.download(str(file.root)).read() != file.content:
            raise AssertionError("another file came")


def download_async(server: Server, file: File) -> None:
    async def run() -> bytes:
        async with await AsyncClient.init(config_for(server)) as client:
            return (await client.download(str(file.root))).read()

    if asyncio.run(run()) != file.content:
        raise AssertionError("another file came")


def measure(what: str, leaves: int, work: Callable[[], object]) -> bool:
    """Print the least CPU time of a few rounds, for each leaf; return whether it is low enough."""
    least, elapsed = float("inf"), 0.0
    for _ in range(ROUNDS):
        began, cpu = time.perf_counter(), time.process_time()
        work()
        cpu = time.process_time() - cpu
        if cpu < least:
            least, elapsed = cpu, time.perf_counter() - began
    figure = least / leaves * 1e6
    met = figure <= TARGET
    wanted = f"(at most {TARGET:.0f}: {'met' if met else 'MISSED'})"
    print(f"  {what:<40} {figure:6.1f} us, in {elapsed:5.2f} s   {wanted}")
    return met


def read_store(repository: Repository, file: File) -> None:
    if b"".join(repository.read(file.root)) != file.content:
        raise AssertionError("another file came")


def main() -> int:
    leaves = int(sys.argv[1]) if len(sys.argv) > 1 else LEAVES
    met = True
    for kind, profile in (("raw", KUBO_LEGACY_CIDV1), ("dag-pb", UNIXFS_V0_2015)):
        file = File(profile, leaves)
        print(f"\nA file of {leaves:,} {kind} leaves of one byte: CPU time a leaf")
        for way, archive in (("blocks", False), ("archive", True)):
            server = Server(file, archive=archive)
            try:
                met &= measure(f"{way}, blocking", leaves, partial(download, server, file))
                met &= measure(f"{way}, async", leaves, partial(download_async, server, file))
            finally:
                server.close()
        with tempfile.TemporaryDirectory() as folder, Repository(Path(folder)) as repository:
            repository.import_car([file.archive])
            met &= measure("read from the store", leaves, partial(read_store, repository, file))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
