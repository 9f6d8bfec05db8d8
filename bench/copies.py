"""Stores to several places: `copies` over three nodes, each 20 ms away, against one node alone.

``python -m bench.copies delay URL`` forwards connections to a server, which is then 20 ms further
away, and prints its own address. ``python -m bench.copies store FOLDER COUNT URL…`` stores values
at these nodes, one after the other, and prints the seconds; at a single one, without copies.
"""

import asyncio
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from urllib.parse import urlsplit

from bench.clients import TOKEN
from bench.goals import ALL_UP, ALONE, ONE_DOWN
from bench.nodes import start_ours
from bench.plan import Plan
from bench.workers import ROOT
from holdfast import Client, ClientConfig
from holdfast.providers import CopiesProvider

WORK = "copies-store"
DELAY = 0.02  # seconds to each node
COUNT = 60
MEMBERS = 3


def run(plan: Plan) -> None:
    """Measure stores a second, one at a time."""
    count = COUNT // 4 if plan.quick else COUNT
    folder = plan.folder / "copies"
    folder.mkdir()
    with ExitStack() as stack:
        stores = [folder / f"node{number}" for number in range(MEMBERS)]
        nodes = [stack.enter_context(closing(start_ours(store))) for store in stores]
        forwarders = [stack.enter_context(_delayed(node.url)) for node in nodes]
        urls = [url for url, _ in forwarders]
        candidates = {
            ALL_UP: urls,
            ONE_DOWN: urls,
            **{f"{ALONE} {n + 1}": [url] for n, url in enumerate(urls)},
        }

        def measure(name: str, addresses: list[str], number: int) -> None:
            place = folder / f"ledger {name} {number}"
            with ExitStack() as stopped:
                if name == ONE_DOWN:  # after the members were tested
                    _call("store", str(place), "0", *addresses)
                    process = forwarders[0][1]
                    process.send_signal(signal.SIGSTOP)  # it is connected to, and never answers
                    stopped.callback(process.send_signal, signal.SIGCONT)
                done = _call("store", str(place), str(count), *addresses)
            plan.results.add("copies", WORK, name, "stores/s", count / float(done))

        plan.results.take_turns(
            3, [partial(measure, name, addresses) for name, addresses in candidates.items()]
        )
    shutil.rmtree(folder)


def _call(*arguments: str) -> str:
    command = [sys.executable, "-m", "bench.copies", *arguments]
    return subprocess.run(  # noqa: S603 - this very module
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=True
    ).stdout


@contextmanager
def _delayed(url: str) -> "Iterator[tuple[str, subprocess.Popen[str]]]":
    """Run a forwarder to `url` in a process of its own; give its address and the process."""
    process = subprocess.Popen(  # noqa: S603 - this very module
        [sys.executable, "-m", "bench.copies", "delay", url],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        if process.stdout is None:
            raise RuntimeError("it has a pipe")
        yield process.stdout.readline().strip(), process
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


async def delay(url: str) -> None:
    """Forward connections to `url`; what the client sends arrives later."""
    address = urlsplit(url)
    loop = asyncio.get_running_loop()

    async def pump(source: asyncio.StreamReader, to: asyncio.StreamWriter, wait: float) -> None:
        while data := await source.read(1 << 16):
            loop.call_later(wait, to.write, data)
        loop.call_later(wait, to.close)

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = await asyncio.open_connection(address.hostname, address.port)
        await asyncio.gather(pump(reader, server[1], DELAY), pump(server[0], writer, 0.0))

    listener = await asyncio.start_server(forward, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", flush=True)
    await listener.serve_forever()


def store(folder: str, count: str, *urls: str) -> None:
    """Store values one after the other, after a first one that is not measured."""
    with ExitStack() as stack:
        clients = [stack.enter_context(Client.init(_config(url))) for url in urls]
        client = clients[0]
        if len(urls) > 1:
            sites = [f"site {number}" for number in range(len(urls))]
            provider = CopiesProvider(clients, want=2, need=1, sites=sites, path=folder)
            client = stack.enter_context(Client(provider))
        client.store({"place": folder, "number": -1})
        start = time.perf_counter()
        for number in range(int(count)):
            client.store({"place": folder, "number": number})
        print(time.perf_counter() - start)


def _config(url: str) -> ClientConfig:
    return ClientConfig(
        provider="pinning", provider_token=TOKEN, pin_api_url=url, gateway_url=f"{url}/ipfs"
    )


if __name__ == "__main__":
    if sys.argv[1] == "delay":
        asyncio.run(delay(sys.argv[2]))
    else:
        store(*sys.argv[2:])
