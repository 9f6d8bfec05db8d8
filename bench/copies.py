"""Stores to several places: `copies` over three nodes, each 20 ms away, against one node alone.

``python -m bench.copies FOLDER COUNT URL…`` stores values at these nodes, one after the other, and
prints the seconds; at a single one, without copies.
"""

import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from functools import partial

from bench.clients import TOKEN
from bench.forwarder import running_forwarder
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
        forwarders = [stack.enter_context(running_forwarder(node.url, DELAY)) for node in nodes]
        urls = [forwarder.url for forwarder in forwarders]
        candidates = {
            ALL_UP: urls,
            ONE_DOWN: urls,
            **{f"{ALONE} {n + 1}": [url] for n, url in enumerate(urls)},
        }

        def measure(name: str, addresses: list[str], number: int) -> None:
            place = folder / f"ledger {name} {number}"
            with ExitStack() as stopped:
                if name == ONE_DOWN:  # after the members were tested
                    _call(str(place), "0", *addresses)
                    process = forwarders[0].process
                    process.send_signal(signal.SIGSTOP)  # it is connected to, and never answers
                    stopped.callback(process.send_signal, signal.SIGCONT)
                done = _call(str(place), str(count), *addresses)
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
    store(*sys.argv[1:])
