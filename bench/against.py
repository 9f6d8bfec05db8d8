"""Compare this version with an older one: ``python -m bench --against REVISION``.

The older one is a temporary work tree of Git, in the same environment. The code of the benchmarks
is that of this version for both, so a case runs if the older package has the names that it uses.
Each version works in processes of its own. They take turns, and each round begins with the other.
"""

import compileall
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import curl, many, pieces
from bench.clients import TOKEN
from bench.clients.holdfast_local import KEPT
from bench.content import mark_blocks, write_documents, write_large
from bench.goals import OURS
from bench.neutral_server import build_server, start_server
from bench.nodes import Node, kubo_reason, start_kubo, start_ours
from bench.workers import ROOT, Result, Task, Worker, WorkerError, python_worker
from holdfast import Client
from holdfast.content.profiles import KUBO_LEGACY_CIDV1

ROUNDS = 15
MOST_CPU = 1.05  # of the processor time of the older version
LEAST_RATE = 0.90  # of its throughput
MEBIBYTES = 64  # of the large file
SECONDS = 0.25  # of small calls in a round
NODE_SECONDS = 0.5  # of stores at a node in a round
DISTANCE = 10**6  # between the documents of two rounds at a node
LEAVES = 5_000  # of a file in very small pieces
FILES = 150  # of `upload_many`
STARTS = 3  # of a process in a round
PROCESS_TIME = 2  # of the clocks that Linux has for each process (CPUCLOCK_SCHED)


class UnavailableError(Exception):
    """This machine cannot run a case."""


@dataclass(frozen=True, slots=True)
class Version:
    """One of the two versions: its name, and the folder that has its package."""

    name: str
    source: Path


@dataclass(frozen=True, slots=True)
class Place:
    """What all cases share: the address of the neutral server, and the folder with the content."""

    url: str
    folder: Path

    @property
    def large_file(self) -> Path:
        """The large file."""
        return next((self.folder / "files").iterdir())

    def new_folder(self, stack: ExitStack) -> Path:
        """Make a folder that is removed after the case."""
        return Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self.folder)))


Measure = Callable[[int], Result]  # by the number of the round
Case = Callable[[ExitStack, Place, Version], Measure]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The new version against the old one in each round.

    Attributes:
        cpu: The processor time for an operation.
        rate: The operations a second.
    """

    cpu: float
    rate: float

    @classmethod
    def of(cls, old: Iterable[Result], new: Iterable[Result]) -> "Comparison":
        """Return the medians of the ratios of the rounds: what slows a round slows both."""
        pairs = list(zip(old, new, strict=True))
        cpu = [(b.cpu / b.count) / (a.cpu / a.count) for a, b in pairs]
        rate = [b.rate / a.rate for a, b in pairs]
        return cls(statistics.median(cpu), statistics.median(rate))

    @property
    def holds(self) -> bool:
        """Whether the new version is not slower than allowed."""
        return self.cpu <= MOST_CPU and self.rate >= LEAST_RATE

    def __str__(self) -> str:
        return f"processor time {self.cpu:5.2f}   throughput {self.rate:5.2f}"


# The cases


def small_calls(client: str, work: str, at_once: int = 1) -> Case:
    """Return a case of calls with documents of 1 KB."""

    def start(stack: ExitStack, place: Place, version: Version) -> Measure:
        worker = _worker(stack, client, place.url, place.folder, version)
        first, step = (KEPT, 500) if work == "store" else (0, 100)
        worker.run(Task(work, SECONDS, at_once))
        return lambda number: worker.run(Task(work, SECONDS, at_once, first + number * step))

    return start


def large_file(client: str, work: str) -> Case:
    """Return a case of one call with the large file."""

    def start(stack: ExitStack, place: Place, version: Version) -> Measure:
        worker = _worker(stack, client, place.url, place.folder, version)
        worker.run(Task(work))
        return lambda _: worker.run(Task(work))

    return start


def kubo_stores(stack: ExitStack, place: Place, version: Version) -> Measure:
    """Store documents at a Kubo, which each version has for itself."""
    if (reason := kubo_reason()) is not None:
        raise UnavailableError(reason)
    node = stack.enter_context(closing(start_kubo(place.new_folder(stack))))
    lines = place.folder.joinpath("documents.jsonl").read_bytes().splitlines()
    with Client.init(provider="kubo", pin_api_url=node.url) as client:
        for line in lines[:20]:  # which a worker reads before each task
            client.upload(line)
    worker = _worker(stack, "holdfast_kubo", node.url, place.folder, version)
    worker.run(Task("store", SECONDS, 16))
    return lambda number: worker.run(Task("store", SECONDS, 16, 2_000 + number * 1_000))


def small_pieces(client: str, *, archive: bool) -> Case:
    """Return a case of a download of very many small blocks, one by one or as an archive."""

    def start(stack: ExitStack, place: Place, version: Version) -> Measure:
        file = pieces.File(KUBO_LEGACY_CIDV1, LEAVES)
        server = stack.enter_context(closing(pieces.Server(file, archive=archive)))
        folder = place.new_folder(stack)
        (folder / "files").mkdir()
        (folder / "files" / str(file.root)).write_bytes(file.content)
        (folder / "root").write_text(str(file.root), encoding="ascii")
        worker = _worker(stack, client, server.url, folder, version)
        worker.run(Task("download"))
        return lambda _: worker.run(Task("download"))

    return start


def many_files(colour: str) -> Case:
    """Return a case of `upload_many`, at a node of this version."""

    def start(stack: ExitStack, place: Place, version: Version) -> Measure:
        files = place.new_folder(stack)
        node = stack.enter_context(closing(start_ours(place.new_folder(stack))))

        def measure(number: int) -> Result:
            many.write_files(files, FILES, f"{version.name} {number}")
            command = [sys.executable, "-m", "bench.many", colour, OURS, node.url, str(files)]
            output = _run(command, version)
            seconds, cpu = map(float, output.split())
            return Result(FILES, seconds, cpu, 0)

        measure(-1)
        return measure

    return start


def node_stores(stack: ExitStack, place: Place, version: Version) -> Measure:
    """Store documents at the node; measure the node."""
    binary = build_server()
    if binary is None:
        raise UnavailableError("needs Go for the client")
    node = _node(stack, place, version)

    def measure(number: int) -> Result:
        task = [str(place.folder), "16", str(NODE_SECONDS), str((number + 1) * DISTANCE)]
        before = _cpu(node)
        done = subprocess.run(  # noqa: S603 - our own binary
            [str(binary), "load", node.store, node.url, *task],
            env={**os.environ, "BENCH_TOKEN": TOKEN},
            stdout=subprocess.PIPE,
            check=True,
        )
        result = json.loads(done.stdout)
        return Result(result["count"], result["seconds"], _cpu(node) - before, 0)

    measure(-1)
    return measure


def node_uploads(stack: ExitStack, place: Place, version: Version) -> Measure:
    """Send a large file to the node by curl; measure the node."""
    _require_curl()
    node = _node(stack, place, version)
    path = place.new_folder(stack) / "upload"
    shutil.copyfile(place.large_file, path)

    def measure(number: int) -> Result:
        mark_blocks(path, f"{version.name} {number}")  # none is at the node yet
        os.sync()
        before = _cpu(node)
        seconds, _ = node.upload(path)
        return Result(1, seconds, _cpu(node) - before, 0)

    measure(-1)
    return measure


def node_downloads(stack: ExitStack, place: Place, version: Version) -> Measure:
    """Get a large file from the node by curl; measure the node.

    Each round has a node of its own. How often a process asks the system for memory again is
    chance, but differs by up to a tenth of the processor time as long as the process lives.
    """
    _require_curl()
    folder, target = place.new_folder(stack), place.new_folder(stack) / "download"
    with closing(start_ours(folder, version.source)) as node:
        _, cid = node.upload(place.large_file)

    def measure(_: int) -> Result:
        with closing(start_ours(folder, version.source)) as node:
            node.download(cid, target)
            before = _cpu(node)
            seconds = node.download(cid, target)
            return Result(1, seconds, _cpu(node) - before, 0)

    return measure


def starts(*arguments: str) -> Case:
    """Return a case of new Python processes."""

    def start(_: ExitStack, __: Place, version: Version) -> Measure:
        command = [sys.executable, *arguments]
        environment = {**os.environ, "PYTHONPATH": str(version.source)}

        def measure(_: int) -> Result:
            cpu, began = 0.0, time.perf_counter()
            for _ in range(STARTS):
                process = subprocess.Popen(  # noqa: S603 - our own arguments
                    command, env=environment, stdout=subprocess.DEVNULL
                )
                status, usage = os.wait4(process.pid, 0)[1:]
                process.returncode = os.waitstatus_to_exitcode(status)
                if process.returncode:
                    raise WorkerError(f"failed: it ended with code {process.returncode}")
                cpu += usage.ru_utime + usage.ru_stime
            return Result(STARTS, time.perf_counter() - began, cpu, 0)

        measure(-1)
        return measure

    return start


CASES: dict[str, Case] = {
    **{
        f"{work}-{colour}": small_calls(f"holdfast_{colour}", work)
        for colour in ("blocking", "async", "local")
        for work in ("store", "retrieve")
    },
    "store-async-64": small_calls("holdfast_async", "store", 64),
    "retrieve-async-64": small_calls("holdfast_async", "retrieve", 64),
    "store-kubo": kubo_stores,
    **{
        f"{work}-{colour}": large_file(f"holdfast_{colour}", work)
        for colour in ("blocking", "async", "local")
        for work in ("upload", "download")
    },
    "cid-1-thread": large_file("holdfast_cid_1", "cid"),
    "cid-2-threads": large_file("holdfast_cid_2", "cid"),
    **{
        f"pieces-{kind}-{colour}": small_pieces(f"holdfast_{colour}", archive=kind == "archive")
        for kind in ("blocks", "archive")
        for colour in ("blocking", "async")
    },
    "upload-many-blocking": many_files("blocking"),
    "upload-many-async": many_files("async"),
    "node-store": node_stores,
    "node-upload": node_uploads,
    "node-download": node_downloads,
    "import-blocking": starts("-c", "from holdfast import Client"),
    "import-async": starts("-c", "from holdfast import AsyncClient"),
    "command-version": starts("-m", "holdfast", "--version"),
}


def _worker(stack: ExitStack, client: str, url: str, folder: Path, version: Version) -> Worker:
    return stack.enter_context(python_worker(client, url, folder, packages=version.source))


def _node(stack: ExitStack, place: Place, version: Version) -> Node:
    folder = place.new_folder(stack)
    return stack.enter_context(closing(start_ours(folder, version.source)))


def _require_curl() -> None:
    if not curl.has_curl():
        raise UnavailableError(curl.REASON)


def _cpu(node: Node) -> float:
    """Return the seconds of processor time that a node has used. Linux counts nanoseconds."""
    return time.clock_gettime((~node.process.pid << 3) | PROCESS_TIME)


def _run(command: list[str], version: Version) -> str:
    done = subprocess.run(  # noqa: S603 - our own modules
        command,
        env={**os.environ, "PYTHONPATH": str(version.source)},
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if done.returncode:
        raise WorkerError(f"failed: it ended with code {done.returncode}")
    return done.stdout


# The comparison


def run(revision: str, names: Iterable[str], rounds: int = ROUNDS) -> int:
    """Compare all cases, or those with these names; return the exit code."""
    failed = []
    with ExitStack() as stack:
        old = stack.enter_context(checked_out(revision))
        new = Version("this version", ROOT / "src")
        for version in (old, new):
            compileall.compile_dir(version.source, quiet=1)  # as pip does it
            check_source(version)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-bench-")))
        write_documents(folder)
        write_large(folder, MEBIBYTES)
        place = Place(stack.enter_context(closing(start_server(folder))).url, folder)
        for name in names or CASES:
            line, holds = compare_twice(CASES[name], place, old, new, rounds)
            print(f"{name:<24} {line}", flush=True)
            if not holds:
                failed.append(name)
    limits = f"more than {MOST_CPU} of the processor time or less than {LEAST_RATE:.2f}"
    if failed:
        print(f"{limits} of the throughput of {revision}: {', '.join(failed)}")
    return 1 if failed else 0


def compare_twice(
    case: Case, place: Place, old: Version, new: Version, rounds: int
) -> tuple[str, bool]:
    """Return the line of a case, and whether it holds. One that does not is measured once more."""
    try:
        first = compare(case, place, old, new, rounds)
        if first.holds:
            return str(first), True
        second = compare(case, place, old, new, rounds)
    except UnavailableError as error:
        return f"not measured: {error}", True
    verdict = "" if second.holds else "   SLOWER"
    return f"{second}   (once more; before: {first}){verdict}", second.holds


def compare(case: Case, place: Place, old: Version, new: Version, rounds: int) -> Comparison:
    """Measure a case in turns; raise UnavailableError if the old version cannot run it."""
    results: dict[Version, list[Result]] = {old: [], new: []}
    with ExitStack() as stack:
        measures = {}
        for version in (new, old):
            try:
                measures[version] = case(stack, place, version)
            except (WorkerError, OSError, subprocess.SubprocessError) as error:
                if version is new:
                    raise
                text = f"{old.name} cannot run it; {error}"
                raise UnavailableError(text) from None
        for number in range(rounds):
            for version in (old, new) if number % 2 else (new, old):
                results[version].append(measures[version](number))
    return Comparison.of(results[old], results[new])


@contextmanager
def checked_out(revision: str) -> Iterator[Version]:
    """Check a revision out into a temporary work tree."""
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory(prefix="holdfast-old-") as folder:
        tree = Path(folder, "tree")
        add = [*git, "add", "--quiet", "--detach", str(tree), revision]
        subprocess.run(add, check=True)  # noqa: S603 - our own arguments
        try:
            yield Version(revision, tree / "src")
        finally:
            remove = [*git, "remove", "--force", str(tree)]
            subprocess.run(remove, check=True)  # noqa: S603


def check_source(version: Version) -> None:
    """Raise RuntimeError if processes of a version use another package than its own."""
    output = _run([sys.executable, "-c", "import holdfast; print(holdfast.__file__)"], version)
    if not Path(output.strip()).is_relative_to(version.source):
        raise RuntimeError(f"{version.name} uses the package {output.strip()}")
