"""Run one client: `python -m bench.clients CLIENT URL FOLDER`, with tasks at standard input."""

import asyncio
import importlib
import inspect
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.clients import Settings
from bench.workers import Result, Task, serve

SMALL_WORKS = ("store", "retrieve")
WARM_UP = 20  # calls before each task, not timed


def main() -> None:
    name, url, folder, *options = sys.argv[1:]
    settings = Settings(url, Path(folder), verify="--unverified" not in options)
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

    @property
    def root(self) -> str:
        """The CID of the large file."""
        return self._folder.joinpath("root").read_text(encoding="ascii")

    @property
    def large(self) -> Path:
        """The large file."""
        return self._folder / "files" / self.root

    @property
    def target(self) -> Path:
        """Where this process writes a download to."""
        return self._folder / f"copy-{os.getpid()}"

    def check_large(self, work: str, cid: str | None) -> None:
        """Raise AssertionError unless the large file has come whole, or its CID is right."""
        if work == "download":
            if self.target.stat().st_size != self.large.stat().st_size:
                raise AssertionError("another file came")
            self.target.unlink()
        elif cid != self.root:
            raise AssertionError(f"the CID is {cid}, not {self.root}")

    def arguments(self, work: str) -> tuple[Any, ...]:
        """Return the arguments of a work with the large file."""
        return (self.root, self.target) if work == "download" else (self.large,)

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
        """Return the time, the CPU time and the peak of memory since the start."""
        seconds = time.perf_counter() - self._start
        return Result(count, seconds, time.process_time() - self._cpu, peak_memory())


def run_blocking(client: Any, inputs: Inputs, task: Task) -> Result:
    call: Callable[..., Any] = getattr(client, task.work)
    if task.work not in SMALL_WORKS:
        arguments = inputs.arguments(task.work)
        meter = Meter()
        cid = call(*arguments)
        result = meter.result(1)
        inputs.check_large(task.work, cid)
        return result
    values = inputs.of(task)
    for index in range(WARM_UP):
        if hasattr(client, "retrieve"):
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
    if task.work not in SMALL_WORKS:
        arguments = inputs.arguments(task.work)
        meter = Meter()
        cid = await call(*arguments)
        result = meter.result(1)
        inputs.check_large(task.work, cid)
        return result
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
