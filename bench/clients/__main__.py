"""Run one client: `python -m bench.clients CLIENT URL FOLDER`, with tasks at standard input."""

import asyncio
import importlib
import inspect
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.clients import Settings
from bench.workers import Result, Task, serve

WARM_UP = 20  # calls before each task, not timed


def main() -> None:
    name, url, folder = sys.argv[1:]
    settings = Settings(url, Path(folder))
    connect = importlib.import_module(f"bench.clients.{name}").connect
    inputs = Inputs(settings.folder)
    if inspect.iscoroutinefunction(connect):
        with asyncio.Runner() as runner:
            client = runner.run(connect(settings))
            serve(sys.stdin, lambda task: runner.run(run_async(client, inputs, task)))
            runner.run(client.close())
    else:
        client = connect(settings)
        serve(sys.stdin, lambda task: run_blocking(client, inputs, task))
        client.close()


class Inputs:
    """The arguments of the calls: documents, or their CIDs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def documents(self) -> list[Any]:
        """The documents, decoded."""
        lines = self._folder.joinpath("documents.jsonl").read_bytes().splitlines()
        return [json.loads(line) for line in lines]

    @cached_property
    def cids(self) -> list[str]:
        """Their CIDs."""
        return self._folder.joinpath("cids.txt").read_text(encoding="ascii").splitlines()

    def of(self, task: Task) -> Iterator[Any]:
        """Return the arguments for a task, from its first on, without an end."""
        every = self.cids if task.work == "retrieve" else self.documents
        return itertools.islice(itertools.cycle(every), task.first, None)

    def check(self, index: int, came: object) -> None:
        """Raise AssertionError if a client has retrieved another document."""
        if came != self.documents[index]:
            raise AssertionError("another document came")


class Meter:
    """Measures from its making to `result`."""

    def __init__(self) -> None:
        reset_peak()
        self._cpu = time.process_time()
        self._start = time.perf_counter()

    def result(self, count: int) -> Result:
        """Return what was measured."""
        seconds = time.perf_counter() - self._start
        return Result(count, seconds, time.process_time() - self._cpu, peak_memory())


def run_blocking(client: Any, inputs: Inputs, task: Task) -> Result:
    call: Callable[[Any], Any] = getattr(client, task.work)
    values = inputs.of(task)
    for index in range(WARM_UP):
        inputs.check(index, client.retrieve(inputs.cids[index]))
        client.store(inputs.documents[index])
    count = 0
    meter = Meter()
    end = time.perf_counter() + task.seconds
    while time.perf_counter() < end:
        call(next(values))
        count += 1
    return meter.result(count)


async def run_async(client: Any, inputs: Inputs, task: Task) -> Result:
    call = getattr(client, task.work)
    values = inputs.of(task)
    for index in range(WARM_UP):
        inputs.check(index, await client.retrieve(inputs.cids[index]))
        await client.store(inputs.documents[index])
    count = 0

    async def caller() -> None:
        nonlocal count
        while time.perf_counter() < end:
            await call(next(values))
            count += 1

    meter = Meter()
    end = time.perf_counter() + task.seconds
    await asyncio.gather(*(caller() for _ in range(task.at_once)))
    return meter.result(count)


def reset_peak() -> None:
    """Let the kernel count the peak of memory anew."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory() -> int:
    """Return the most bytes that this process has had since `reset_peak`."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


if __name__ == "__main__":
    main()
