"""Files in very many small pieces, as by Kubo's chunker size-1: the CPU time of each leaf.

A server in another process sends the file, first as a plain body with its blocks, then as an
archive. The figure is the CPU time of the client, so a busy machine changes it little.
"""

import asyncio
import hashlib
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from bench.clients import TOKEN
from bench.goals import PIECES_LIMIT
from bench.plan import Plan
from holdfast import AsyncClient, Client, ClientConfig
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.content.codecs import links_of
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V0_2015, Profile
from holdfast.content.unixfs.files import FileImporter
from holdfast.repository import Repository

LEAVES = 30_000
ROUNDS = 2
PROFILES = {"raw leaves": KUBO_LEGACY_CIDV1, "dag-pb leaves": UNIXFS_V0_2015}


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
            pending += (link.cid for link in reversed(links_of(cid, self.blocks[cid])))


class Server:
    """Gives a file's plain body and blocks, or its archive, on threads of a forked process."""

    def __init__(self, file: File, *, archive: bool) -> None:
        self._file = file
        self._archive = archive
        self._blocks = {str(cid): block for cid, block in file.blocks.items()}
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
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
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
        provider_token=TOKEN,
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


def read_store(repository: Repository, file: File) -> None:
    if b"".join(repository.read(file.root)) != file.content:
        raise AssertionError("another file came")


def run(plan: Plan) -> None:
    """Measure the CPU time for each leaf, however the leaves come."""
    leaves = LEAVES
    for kind, profile in PROFILES.items():
        file = File(profile, leaves)
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            repository = stack.enter_context(Repository(folder))
            repository.import_car([file.archive])
            ways: dict[str, Callable[[], None]] = {
                "from the store": partial(read_store, repository, file)
            }
            for way, archive in (("blocks", False), ("archive", True)):
                server = stack.enter_context(closing(Server(file, archive=archive)))
                ways[f"{way}, blocking"] = partial(download, server, file)
                ways[f"{way}, async"] = partial(download_async, server, file)

            def measure(name: str, read: Callable[[], None], _: int, kind: str = kind) -> None:
                start = time.process_time()
                read()
                cpu = (time.process_time() - start) / leaves * 1e6
                plan.results.add("pieces", f"pieces, {kind}", name, "us CPU", cpu)

            plan.results.take_turns(
                1 if plan.quick else ROUNDS, [partial(measure, *way) for way in ways.items()]
            )
    figures = [figure for figure in plan.results.figures.values() if figure.section == "pieces"]
    slowest = max(figure.median for figure in figures)
    plan.results.add("pieces", "pieces", "slowest way", "us CPU", slowest)
    plan.results.add("pieces", "pieces", "limit", "us CPU", PIECES_LIMIT)
