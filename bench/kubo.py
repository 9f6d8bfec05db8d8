"""Kubo through us, against its own commands and its JavaScript client.

Each client has a Kubo of its own, so that none stores what another one has stored.
"""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from bench.content import MIB
from bench.goals import ASYNC, BLOCKING
from bench.nodes import KUBO, Node, kubo_reason, start_kubo
from bench.plan import Plan
from bench.workers import Task, Worker, python_worker
from holdfast import AsyncClient, Client

AT_ONCE = 16
OURS = "holdfast"
JAVASCRIPT = "kubo-rpc-client"
COMMAND = "Kubo's command"  # a process for each document
KNOWN = 20  # documents that a worker reads before each task
WARM_UP = 3_000  # documents for the work that is not counted
STEP = 1_400  # documents for each round
SECONDS = 1.0  # of each round: Kubo's own work comes in bursts
COPIED = 128 * MIB
ENTRIES = 6_000  # of a directory, whose names make it a sharded one
LAYOUT = ["--cid-version=1", "--raw-leaves", "--chunker=size-1048576", "--max-file-links=1024"]


def run(plan: Plan) -> None:
    """Measure stores a second, the rates of downloads and copies, and the time of a list."""
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
        _measure_copies(plan, nodes, folders)
        measure_lists(plan, nodes[OURS])


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
    plan.results.take_turns(plan.large_rounds, [*candidates, measure_command])


def _command_rate(repository: Path, documents: list[bytes], seconds: float) -> float:
    """Return how many documents a second ``ipfs add`` stores, several of them at once."""
    waiting = iter(documents)
    start = time.perf_counter()

    def store() -> int:
        count = 0
        while time.perf_counter() < start + seconds:
            subprocess.run(  # noqa: S603 - our own arguments
                [str(KUBO), "add", "--quieter", *LAYOUT],
                env=_environment(repository),
                input=next(waiting),
                capture_output=True,
                check=True,
            )
            count += 1
        return count

    with ThreadPoolExecutor(AT_ONCE) as pool:
        counts = [pool.submit(store) for _ in range(AT_ONCE)]
        return sum(future.result() for future in counts) / (time.perf_counter() - start)


def _measure_downloads(plan: Plan, node: Node, repository: Path) -> None:
    size = plan.large_file.stat().st_size
    target = plan.folder / "from-kubo"
    environment = _environment(repository)
    with Client.init(provider="kubo", pin_api_url=node.url) as client:
        cid = client.upload(plan.large_file).cid

        def command() -> None:
            _run_kubo(environment, "get", "--progress=false", "--output", str(target), cid)

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
        plan.results.take_turns(
            plan.large_rounds, [partial(measure, *work) for work in works.items()]
        )


def _measure_copies(plan: Plan, nodes: dict[str, Node], folders: dict[str, Path]) -> None:
    """Copy a part of the large file from one Kubo to another, which forgets it each time."""
    data = plan.folder / "copied"
    with plan.large_file.open("rb") as file:
        data.write_bytes(file.read(COPIED))
    source, target = (_environment(folders[name]) for name in (OURS, COMMAND))
    with (
        Client.init(provider="kubo", pin_api_url=nodes[OURS].url) as client,
        Client.init(provider="kubo", pin_api_url=nodes[COMMAND].url) as other,
    ):
        cid = client.upload(data).cid

        def command() -> None:
            with subprocess.Popen(  # noqa: S603 - our own arguments
                [str(KUBO), "dag", "export", "--progress=false", cid],
                env=source,
                stdout=subprocess.PIPE,
            ) as export:
                _run_kubo(target, "dag", "import", stdin=export.stdout)

        def measure(name: str, copy: Callable[[], object], _: int) -> None:
            start = time.perf_counter()
            copy()
            rate = COPIED / (time.perf_counter() - start) / 1e6
            plan.results.add("kubo", "kubo-copy", name, "MB/s", rate)
            other.revoke(cid)
            _run_kubo(target, "repo", "gc", "--silent")

        works: dict[str, Callable[[], object]] = {
            OURS: partial(client.copy, cid, to=other),
            "ipfs dag export, import": command,
        }
        plan.results.take_turns(
            plan.large_rounds, [partial(measure, *work) for work in works.items()]
        )


def measure_lists(plan: Plan, node: Node) -> None:
    """List a sharded directory with both clients."""
    folder = plan.folder / "listed"
    folder.mkdir()
    for number in range(ENTRIES):
        folder.joinpath(f"{number:04} {'with a long name ' * 4}").write_bytes(b"%d" % number)

    async def list_async(cid: str) -> float:
        async with AsyncClient.init(provider="kubo", pin_api_url=node.url) as client:
            start = time.perf_counter()
            await client.entries(cid)
            return time.perf_counter() - start

    with Client.init(provider="kubo", pin_api_url=node.url) as client:
        cid = client.upload(folder).cid

        def list_blocking() -> float:
            start = time.perf_counter()
            client.entries(cid)
            return time.perf_counter() - start

        works: dict[str, Callable[[], float]] = {
            BLOCKING: list_blocking,
            ASYNC: lambda: asyncio.run(list_async(cid)),
        }

        def measure(name: str, _: int) -> None:
            plan.results.add("kubo", "kubo-entries", name, "ms", works[name]() * 1e3)

        plan.results.take_turns(plan.node_rounds, [partial(measure, name) for name in works])


def _run_kubo(environment: dict[str, str], *arguments: str, **options: Any) -> None:
    command = [str(KUBO), *arguments]
    subprocess.run(  # noqa: S603 - our own arguments
        command, env=environment, check=True, stdout=subprocess.DEVNULL, **options
    )


def _environment(repository: Path) -> dict[str, str]:
    return {**os.environ, "IPFS_PATH": str(repository), "IPFS_TELEMETRY": "off"}
