"""The encrypted view: transfers of a large file, and `store` of 1 KB, against the same without."""

import mmap
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from bench.clients.holdfast_encrypted import CLASSIC_KEY, KEY, ROOT
from bench.content import write_nodes
from bench.goals import ENCRYPTED, ENCRYPTED_CLASSIC, PLAIN
from bench.neutral_server import start_server
from bench.plan import Plan
from bench.workers import Task, Worker, python_worker
from holdfast.content.age.keyring import Keyring
from holdfast.content.age.keys import Identity
from holdfast.sources.encrypted_source import EncryptedSource
from holdfast.sources.sources import open_source

POPULATE_WRITE = 23  # MADV_POPULATE_WRITE of Linux, which mmap does not name
SHARE_OF_MEMORY = 0.7  # of what is free
LIMIT = Path("/sys/fs/cgroup/memory.max")

AT_ONCE = 16
SECONDS = 0.25  # of each client in a round
CLIENTS = {
    PLAIN: "holdfast_async",
    ENCRYPTED: "holdfast_encrypted",
    ENCRYPTED_CLASSIC: "holdfast_encrypted_classic",
    "aiohttp": "aiohttp_bare",
}


def run(plan: Plan) -> None:
    """Measure the rate of transfers, and stores a second. Everything is verified."""
    size = plan.large_file.stat().st_size
    encrypted = _write_encrypted(plan.folder, plan.large_file)
    with closing(start_server(plan.folder)) as server:
        with _workers(plan, server.url) as workers:
            touch_memory()
            _transfer(plan, workers, size)
        # New processes: one that has sent large files has other memory, threads and connections.
        with _workers(plan, server.url) as workers:
            _store(plan, workers)
    encrypted.unlink()


def touch_memory() -> None:
    """Write once to most of the free memory.

    A virtual machine may get a page from its host only when it first writes there, which costs four
    times as much as the write. An encrypted download writes twice as many bytes as a plain one, so
    it would pay most of that.
    """
    with suppress(OSError, ValueError):  # a container with a limit of its own, or not Linux
        if LIMIT.exists() and LIMIT.read_text().strip() != "max":
            return
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with mmap.mmap(-1, int(free * SHARE_OF_MEMORY), mmap.MAP_PRIVATE) as memory:
            memory.madvise(POPULATE_WRITE)


@contextmanager
def _workers(plan: Plan, url: str) -> Iterator[dict[str, Worker]]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(python_worker(client, url, plan.folder))
            for name, client in CLIENTS.items()
        }


def _transfer(plan: Plan, workers: dict[str, Worker], size: int) -> None:
    def transfer(work: str, name: str, _: int) -> None:
        result = workers[name].run(Task(work))
        work = f"encrypted-{work}"
        plan.results.add("encryption", work, name, "MB/s", size / result.seconds / 1e6)
        plan.results.add("encryption", f"{work}-memory", name, "MiB", result.peak / (1 << 20))

    pairs = [(work, name) for work in ("upload", "download") for name in (PLAIN, ENCRYPTED)]
    for work, name in pairs:  # the first upload looks for the layout of the server
        workers[name].run(Task(work))
    plan.results.take_turns(plan.large_rounds, [partial(transfer, *pair) for pair in pairs])


def _store(plan: Plan, workers: dict[str, Worker]) -> None:
    def store(name: str, worker: Worker, number: int) -> None:
        if number == 0:
            worker.run(Task("store", plan.warm_up_seconds, AT_ONCE))
        result = worker.run(Task("store", SECONDS, AT_ONCE, number * 1000))
        plan.results.add("encryption", "encrypted-store", name, "requests/s", result.rate)
        cpu = result.cpu / result.count * 1e6
        plan.results.add("encryption", "encrypted-store-cpu", name, "us CPU", cpu)

    plan.results.take_turns(
        plan.small_rounds, [partial(store, name, worker) for name, worker in workers.items()]
    )


def _write_encrypted(folder: Path, large_file: Path) -> Path:
    """Write keys, and the large file as an age file that the server has; return its path."""
    identity, classic = Identity.generate(), Identity.generate(classic=True)
    (folder / KEY).write_text(identity.text.reveal())
    (folder / CLASSIC_KEY).write_text(classic.text.reveal())
    path = folder / "encrypted"
    keys = Keyring(identities=[identity])
    with (
        open_source(large_file) as plain,
        EncryptedSource(plain, keys, {}, own_layout=False) as source,
        path.open("wb") as file,
    ):
        file.writelines(source.chunks())
    root = write_nodes(path, folder)
    (folder / ROOT).write_text(root)
    return path.rename(folder / "files" / root)
