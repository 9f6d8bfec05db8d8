"""A health run over 100,000 pins of one block, at 2 %: its requests to each member, its memory.

Both stores and the ledger are filled in large transactions. ``python -m bench.health FOLDER URL…``
makes the run with the ledger in a folder, and prints by how many MiB the process grew.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from bench.clients import TOKEN
from bench.curl import peak_memory
from bench.forwarder import running_forwarder
from bench.goals import HEALTH_MEMORY, HEALTH_REQUESTS
from bench.growth import rows
from bench.nodes import start_ours
from bench.plan import Plan
from bench.workers import ROOT
from holdfast import Client, ClientConfig
from holdfast.providers import CopiesProvider
from holdfast.records import now_ms
from holdfast.repository import Repository
from holdfast.repository.ledger import Ledger

PINS = 100_000
QUICK_PINS = 10_000
MEMBERS = ("one", "other")
ADD_PIN = (
    "INSERT INTO pins (uuid, cid, key, name, keyvalues, size, files, type, created)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def run(plan: Plan) -> None:
    """Measure a run with nothing amiss."""
    count = QUICK_PINS if plan.quick else PINS
    folder = plan.folder / "health"
    ledger = folder / "ledger"
    fill_ledger(ledger, count)
    with ExitStack() as stack:
        forwarders = []
        for name in MEMBERS:
            fill_store(folder / name, count)
            node = stack.enter_context(closing(start_ours(folder / name)))
            forwarders.append(stack.enter_context(running_forwarder(node.url)))
        urls = [forwarder.url for forwarder in forwarders]
        command = [sys.executable, "-m", "bench.health", str(ledger), *urls]
        output = subprocess.run(  # noqa: S603 - this very module
            command, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=True
        ).stdout
        most = max(forwarder.requests() for forwarder in forwarders)
    reports, memory = map(int, output.split())
    if reports != count:
        raise RuntimeError(f"{reports} of {count} pins were reported as proven")
    plan.results.add("health", "health-requests", "the most at one member", "requests", most)
    plan.results.add("health", "health-requests", "limit", "requests", HEALTH_REQUESTS)
    plan.results.add("health", "health-memory", "growth", "MiB", memory / (1 << 20))
    plan.results.add("health", "health-memory", "limit", "MiB", HEALTH_MEMORY)
    shutil.rmtree(folder)


def fill_store(folder: Path, count: int) -> None:
    """Make a store with `count` pins of one block."""
    blocks, pins = zip(*rows(0, count), strict=True)
    with (
        Repository(folder) as repository,
        repository._database.writing() as connection,  # noqa: SLF001 - the fast way in
    ):
        connection.executemany("INSERT INTO blocks (key, size, data) VALUES (?, ?, ?)", blocks)
        connection.executemany(ADD_PIN, pins)


def fill_ledger(folder: Path, count: int) -> None:
    """Make a ledger in which all members are proven to have `count` pins."""
    pins = [pin for _, pin in rows(0, count)]
    ledger = Ledger(folder)
    with closing(ledger), ledger._writing() as connection:  # noqa: SLF001
        connection.executemany(ADD_PIN, pins)
        keys = [pin[2] for pin in pins]
        connection.executemany(
            "INSERT INTO copies (key, want) VALUES (?, 2)", ((key,) for key in keys)
        )
        connection.executemany(
            "INSERT INTO places (key, member, state, proven, blocks, named)"
            " VALUES (?, ?, 'proven', ?, 1, 1)",
            ((key, name, now_ms()) for key in keys for name in MEMBERS),
        )


def check(folder: str, urls: Sequence[str]) -> None:
    """Run `health`, and print how many pins are proven everywhere, and the growth in bytes."""
    with ExitStack() as stack:
        clients = [stack.enter_context(Client.init(_config(url))) for url in urls]
        provider = CopiesProvider(clients, names=MEMBERS, sites=MEMBERS, path=folder)
        client = stack.enter_context(Client(provider))
        before = _memory()
        good = sum(len(report.proven) == len(MEMBERS) for report in client.health())
        print(good, peak_memory(os.getpid()) - before)


def _memory() -> int:
    """Return the bytes that this process has now."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def _config(url: str) -> ClientConfig:
    return ClientConfig(
        provider="pinning", provider_token=TOKEN, pin_api_url=url, gateway_url=f"{url}/ipfs"
    )


if __name__ == "__main__":
    check(sys.argv[1], sys.argv[2:])
