"""Kubo through us, against its own commands and its JavaScript client: stores, and a download.

Each client has a Kubo of its own, so that none stores what another one has stored.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from bench.nodes import KUBO, Node, kubo_reason, start_kubo
from bench.plan import Plan
from bench.results import take_turns
from bench.workers import Task, Worker, python_worker
from holdfast import Client

AT_ONCE = 16
OURS = "holdfast"
JAVASCRIPT = "kubo-rpc-client"
COMMAND = "Kubo's command"  # a process for each document
KNOWN = 20  # documents that a worker reads before each task
WARM_UP = 3_000  # documents for the work that is not counted
STEP = 1_400  # documents for each round
SECONDS = 1.0  # of each round: Kubo's own work comes in bursts
LAYOUT = ["--cid-version=1", "--raw-leaves", "--chunker=size-1048576", "--max-file-links=1024"]


def run(plan: Plan) -> None:
    """Measure stores a second, and the rate of downloads to the disk."""
    if (reason := kubo_reason()) is not None:
        plan.results.unavailable["Kubo"] = reason
        return
    with ExitStack() as stack:
        nodes, folders = {}, {}
        for number, name in enumerate((OURS, JAVASCRIPT, COMMAND)):
            folders[name] = plan.folder / f"kubo-{number}"
            folders[name].mkdir()
            stack.callback(shutil.rmtree, folders[name])
            nodes[name] = stack.enter_context(closing(start_kubo(folders[name])))
        _measure_stores(plan, nodes, folders[COMMAND], stack)
        _measure_downloads(plan, nodes[OURS], folders[OURS])


def _measure_stores(plan: Plan, nodes: dict[str, Node], repository: Path, stack: ExitStack) -> None:
    documents = plan.folder.joinpath("documents.jsonl").read_bytes().splitlines()
    workers = {OURS: python_worker("holdfast_kubo", nodes[OURS].url, plan.folder)}
    other = plan.peers.javascript_worker(JAVASCRIPT, nodes[JAVASCRIPT].url, plan.folder)
    if other is not None:
        workers[JAVASCRIPT] = other
    for name, worker in workers.items():
        stack.enter_context(worker)
        with Client.init(provider="kubo", pin_api_url=nodes[name].url) as client:
            for document in documents[:KNOWN]:
                client.upload(document)

    def measure(name: str, worker: Worker, number: int) -> None:
        if number == 0:
            worker.run(Task("store", plan.warm_up_seconds, AT_ONCE))
        task = Task("store", SECONDS, AT_ONCE, WARM_UP + number * STEP)
        result = worker.run(task)
        plan.results.add("kubo", "kubo-store", name, "requests/s", result.rate)
        cpu = result.cpu / result.count * 1e6
        plan.results.add("kubo", "kubo-store-cpu", name, "us CPU", cpu)

    def measure_command(number: int) -> None:
        rate = _command_rate(repository, documents[WARM_UP + number * STEP :], SECONDS)
        plan.results.add("kubo", "kubo-store", COMMAND, "requests/s", rate)

    tolerant = plan.results.tolerant
    candidates: list[Callable[[int], None]] = [
        tolerant(name, partial(measure, name, worker)) for name, worker in workers.items()
    ]
    take_turns(plan.large_rounds, [*candidates, measure_command])


def _command_rate(repository: Path, documents: list[bytes], seconds: float) -> float:
    """Return how many documents a second ``ipfs add`` stores, several of them at once."""
    environment = {**os.environ, "IPFS_PATH": str(repository), "IPFS_TELEMETRY": "off"}
    waiting = iter(documents)
    start = time.perf_counter()

    def store() -> int:
        count = 0
        while time.perf_counter() < start + seconds:
            subprocess.run(  # noqa: S603 - our own arguments
                [str(KUBO), "add", "--quieter", *LAYOUT],
                env=environment,
                input=next(waiting),
                capture_output=True,
                check=True,
            )
            count += 1
        return count

    with ThreadPoolExecutor(AT_ONCE) as pool:
        counts = [pool.submit(store) for _ in range(AT_ONCE)]
        return sum(each.result() for each in counts) / (time.perf_counter() - start)


def _measure_downloads(plan: Plan, node: Node, repository: Path) -> None:
    size = plan.large_file.stat().st_size
    target = plan.folder / "from-kubo"
    environment = {**os.environ, "IPFS_PATH": str(repository), "IPFS_TELEMETRY": "off"}
    with Client.init(provider="kubo", pin_api_url=node.url) as client:
        cid = client.upload(plan.large_file).cid

        def command() -> None:
            arguments = [str(KUBO), "get", "--progress=false", "--output", str(target), cid]
            subprocess.run(arguments, env=environment, check=True, capture_output=True)  # noqa: S603

        def measure(name: str, download: Callable[[], object], _: int) -> None:
            start = time.perf_counter()
            download()
            rate = size / (time.perf_counter() - start) / 1e6
            plan.results.add("kubo", "kubo-download", name, "MB/s", rate)
            target.unlink()

        works: dict[str, Callable[[], object]] = {
            OURS: partial(client.download, cid, to=target),
            "ipfs get": command,
        }
        take_turns(plan.large_rounds, [partial(measure, *each) for each in works.items()])
