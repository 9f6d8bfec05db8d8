"""Many small files to the node, 64 at a time: `upload_many`, and the same by workers of our own.

Each run is a process: ``python -m bench.many COLOUR CANDIDATE URL FOLDER`` prints its seconds, and
those of its processor time.
"""

import asyncio
import os
import queue
import shutil
import subprocess
import sys
import threading
from contextlib import closing
from functools import partial
from pathlib import Path

from bench.clients import Settings
from bench.clients.__main__ import Meter
from bench.clients.holdfast_settings import config_for
from bench.goals import BY_HAND, OURS
from bench.nodes import start_ours
from bench.plan import Plan
from bench.workers import ROOT, Result
from holdfast import AsyncClient, Client, ClientConfig

COUNT = 1000
SIZE = 10_000  # bytes
AT_ONCE = 64
WORKS = {"blocking": "upload_many-blocking", "async": f"upload_many-async-{AT_ONCE}"}


def run(plan: Plan) -> None:
    """Measure files a second."""
    count = COUNT // 4 if plan.quick else COUNT
    store, files = plan.folder / "many-store", plan.folder / "many-files"
    store.mkdir()
    with closing(start_ours(store)) as node:

        def measure(colour: str, candidate: str, number: int) -> None:
            # A node that has a file does not write it again: so each is a new one.
            write_files(files, count, f"{colour} {candidate} {number}")
            os.sync()
            done = subprocess.run(  # noqa: S603 - this very module
                [sys.executable, "-m", "bench.many", colour, candidate, node.url, str(files)],
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                check=True,
            )
            rate = count / float(done.stdout.split()[0])
            plan.results.add("many", WORKS[colour], candidate, "files/s", rate)

        for colour in WORKS:
            plan.results.take_turns(
                3, [partial(measure, colour, candidate) for candidate in (OURS, BY_HAND)]
            )
    shutil.rmtree(store)
    shutil.rmtree(files)


def write_files(folder: Path, count: int, mark: str) -> None:
    """Write small files with other bytes than for any other mark."""
    folder.mkdir(exist_ok=True)
    for number in range(count):
        start = f"{mark} {number} ".encode()
        (folder / f"{number:04}").write_bytes(start + bytes(SIZE - len(start)))


def _upload_blocking(client: Client, paths: list[Path]) -> None:
    for outcome in client.upload_many(paths, concurrency=AT_ONCE):
        outcome.result()


def _upload_by_threads(client: Client, paths: list[Path]) -> None:
    waiting: queue.SimpleQueue[Path | None] = queue.SimpleQueue()

    def work() -> None:
        while (path := waiting.get()) is not None:
            client.upload(path)

    for path in [*paths, *[None] * AT_ONCE]:
        waiting.put(path)
    threads = [threading.Thread(target=work) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def _upload_async(client: AsyncClient, paths: list[Path]) -> None:
    async for outcome in client.upload_many(paths, concurrency=AT_ONCE):
        outcome.result()


async def _upload_by_tasks(client: AsyncClient, paths: list[Path]) -> None:
    waiting = iter(paths)

    async def work() -> None:
        for path in waiting:
            await client.upload(path)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


def main() -> None:
    colour, candidate, url, folder = sys.argv[1:]
    paths = sorted(Path(folder).iterdir())
    config = config_for(Settings(url, Path(folder)))
    if colour == "async":
        result = asyncio.run(_measure_async(config, candidate, paths))
    else:
        with Client.init(config) as client:
            upload = _upload_blocking if candidate == OURS else _upload_by_threads
            meter = Meter()
            upload(client, paths)
            result = meter.result(len(paths))
    print(result.seconds, result.cpu)


async def _measure_async(config: ClientConfig, candidate: str, paths: list[Path]) -> Result:
    async with AsyncClient.init(config) as client:
        upload = _upload_async if candidate == OURS else _upload_by_tasks
        meter = Meter()
        await upload(client, paths)
        return meter.result(len(paths))


if __name__ == "__main__":
    main()
