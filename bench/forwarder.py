"""A forwarder to a server, in a process of its own: it delays requests, and counts them.

``python -m bench.forwarder URL SECONDS`` prints its own address. What a client sends arrives so
many seconds later. For each line that it reads, it prints how many requests there were until then.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from bench.workers import ROOT

REQUEST = b" HTTP/1.1\r\n"  # the end of the first line of a request


@dataclass(frozen=True, slots=True)
class Forwarder:
    """A running forwarder: its address and its process."""

    url: str
    process: "subprocess.Popen[str]"

    def requests(self) -> int:
        """Return how many requests there were until now."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("it has pipes")
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextmanager
def running_forwarder(url: str, delay: float = 0.0) -> Iterator[Forwarder]:
    """Run a forwarder to `url` while the block runs."""
    process = subprocess.Popen(  # noqa: S603 - this very module
        [sys.executable, "-m", "bench.forwarder", url, str(delay)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        if process.stdout is None:
            raise RuntimeError("it has a pipe")
        yield Forwarder(process.stdout.readline().strip(), process)
    finally:
        process.terminate()
        process.communicate()


async def serve(url: str, delay: float) -> None:
    """Forward connections to `url` until the process ends."""
    address = urlsplit(url)
    loop = asyncio.get_running_loop()
    count = 0

    async def send(reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        nonlocal count
        end = b""
        while data := await reader.read(1 << 16):
            text = end + data
            count += text.count(REQUEST)
            end = text[1 - len(REQUEST) :]
            loop.call_later(delay, server.write, data)
        loop.call_later(delay, server.close)

    async def reply(server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await server.read(1 << 16):
            writer.write(data)
        writer.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = await asyncio.open_connection(address.hostname, address.port)
        await asyncio.gather(send(reader, server[1]), reply(server[0], writer))

    def tell() -> None:
        sys.stdin.readline()
        print(count, flush=True)

    loop.add_reader(sys.stdin, tell)
    listener = await asyncio.start_server(forward, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", flush=True)
    await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], float(sys.argv[2])))
