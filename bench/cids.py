"""The CID of a large file, against SHA-256 of it, and the importers of others.

All cut the file in the same way, so all must find the same CID; a worker checks that.
"""

import hashlib
import os
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.nodes import KUBO, init_kubo, kubo_reason
from bench.plan import Plan
from bench.transfers import hash_seconds
from bench.workers import Task, Worker, python_worker

IMPORTERS = ("ipfs-unixfs-importer", "ipfs-car")
THREADS = 2


def run(plan: Plan) -> None:
    """Measure how fast each finds the CID."""
    path = plan.large_file
    size = path.stat().st_size

    def measure(name: str, seconds: Callable[[], float], _: int) -> None:
        plan.results.add("cids", "cid", name, "MB/s", size / seconds() / 1e6)

    with ExitStack() as stack:
        works: dict[str, Callable[[], float]] = {
            "SHA-256, 1 thread": partial(hash_seconds, path),
            "SHA-256, 2 threads": partial(parallel_hash_seconds, path),
        }
        for name, client in (
            ("holdfast, 1 thread", "holdfast_cid_1"),
            ("holdfast, 2 threads", "holdfast_cid_2"),
        ):
            worker = stack.enter_context(python_worker(client, plan.server.url, plan.folder))
            works[name] = partial(_work, worker)
        for name in IMPORTERS:
            started = plan.peers.javascript_worker(name, plan.server.url, plan.folder)
            if started is not None:
                works[name] = partial(_work, stack.enter_context(started))
        if (reason := kubo_reason()) is None:
            repository = plan.folder / "kubo-hashes"
            works["Kubo, add --only-hash"] = partial(_kubo, init_kubo(repository), path)
        else:
            plan.results.unavailable["Kubo"] = reason
        tolerant = plan.results.tolerant
        plan.results.take_turns(
            plan.large_rounds,
            [tolerant(name, partial(measure, name, work)) for name, work in works.items()],
        )


def _work(worker: Worker) -> float:
    return worker.run(Task("cid")).seconds


def _kubo(environment: dict[str, str], path: Path) -> float:
    """Return how long the command takes, with its start."""
    layout = ["--cid-version=1", "--raw-leaves", "--chunker=size-1048576", "--max-file-links=1024"]
    start = time.perf_counter()
    done = subprocess.run(  # noqa: S603 - our own arguments
        [str(KUBO), "add", "--only-hash", "--quieter", *layout, str(path)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - start
    if done.stdout.strip() != path.name:
        raise AssertionError(f"Kubo found another CID: {done.stdout}")
    return seconds


def parallel_hash_seconds(path: Path) -> float:
    """Return how long SHA-256 of parts takes, one for each thread: the best that threads can do."""
    size = path.stat().st_size
    start = time.perf_counter()
    with path.open("rb") as file, ThreadPoolExecutor(THREADS) as pool:
        parts = [(size * n // THREADS, size * (n + 1) // THREADS) for n in range(THREADS)]
        list(pool.map(lambda part: _hash_part(file.fileno(), *part), parts))
    return time.perf_counter() - start


def _hash_part(descriptor: int, position: int, stop: int) -> None:
    buffer = memoryview(bytearray(1 << 18))
    digest = hashlib.sha256()
    while position < stop:
        count = os.preadv(descriptor, [buffer[: stop - position]], position)
        digest.update(buffer[:count])
        position += count
