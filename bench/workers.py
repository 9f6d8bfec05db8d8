"""Clients in processes of their own, which wait at a pipe until they are told to work.

The runner writes one task a line, the worker answers with one result a line. So candidates take
turns, one after the other, and only their work is timed.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

TIME_LIMIT = 60.0  # seconds for one task
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Task:
    """Work for a client: so many calls at once, for so long; a transfer is done once."""

    work: str
    seconds: float = 0.0
    at_once: int = 1
    first: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """What a client did.

    Attributes:
        count: How many calls.
        seconds: How long they took.
        cpu: The seconds of CPU that the process used.
        peak: The most memory that the process had meanwhile, in bytes.
    """

    count: int
    seconds: float
    cpu: float
    peak: int

    @property
    def rate(self) -> float:
        """Calls a second."""
        return self.count / self.seconds


class WorkerError(Exception):
    """A client ended, or did not answer."""


class Worker:
    """A process with one client."""

    def __init__(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own commands
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
        )

    def run(self, task: Task) -> Result:
        """Let the client work and return what it did."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("a worker has pipes")
        stdin.write(json.dumps(asdict(task)) + "\n")
        stdin.flush()
        if not select.select([stdout], [], [], TIME_LIMIT)[0]:
            raise RuntimeError(
                f"{self._process.args!r} did not answer for {TIME_LIMIT:.0f} seconds"
            )
        line = stdout.readline()
        if not line:
            raise WorkerError(f"failed: the client ended with code {self._process.wait()}")
        return Result(**json.loads(line))

    def close(self) -> None:
        """End the process, also one that hangs."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # the process has ended
                self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def python_worker(
    client: str, url: str, folder: Path, *, verify: bool = True, packages: Path | None = None
) -> Worker:
    """Start a worker of `bench.clients`. The packages of a peer, if given, are found first."""
    options = [] if verify else ["--unverified"]
    command = [sys.executable, "-m", "bench.clients", client, url, str(folder), *options]
    return Worker(command, {"PYTHONPATH": str(packages)} if packages else None)


def serve(tasks: Iterable[str], run: Callable[[Task], Result]) -> None:
    """In a worker: run each task that comes, until the pipe is closed."""
    for line in tasks:
        print(json.dumps(asdict(run(Task(**json.loads(line))))), flush=True)
