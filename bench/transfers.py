"""Upload and download of a large file: ours verified and not, curl, and the peers.

The limit of a verified transfer is the slower of the same without verification and SHA-256.
"""

import hashlib
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench import curl
from bench.content import MIB
from bench.plan import Plan
from bench.workers import Result, Task, Worker, python_worker

WORKS = ("upload", "download")
VERIFIED = ("holdfast, blocking", "holdfast, async")
CANNOT = {("pinatapy-vourhey", "download"): "has no function that reads"}


def run(plan: Plan) -> None:
    """Measure the rate of each transfer, and the peak of the client's memory."""
    size = plan.large_file.stat().st_size
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(worker)
            for name, worker in _start_workers(plan).items()
            if worker is not None
        }

        def transfer(work: str, name: str, do: Callable[[], Result], _: int) -> None:
            result = do()
            plan.results.add("transfers", work, name, "MB/s", size / result.seconds / 1e6)
            plan.results.add("transfers", f"{work}-memory", name, "MiB", result.peak / MIB)

        def sha256(_: int) -> None:
            rate = size / hash_seconds(plan.large_file) / 1e6
            plan.results.add("transfers", "sha256", "SHA-256", "MB/s", rate)

        candidates: list[Callable[[int], None]] = []
        for work in WORKS:
            for name, worker in workers.items():
                if (name, work) not in CANNOT:
                    do = partial(worker.run, Task(work))
                    if name in VERIFIED:
                        # Beside the transfer that it limits: the clock of a processor varies.
                        candidates.append(sha256)
                    once = partial(transfer, work, name, do)
                    candidates.append(plan.results.tolerant(name, once))
            if curl.has_curl():
                candidates.append(partial(transfer, work, "curl", partial(_curl, plan, work)))
        plan.results.take_turns(plan.large_rounds, candidates)
    plan.results.unavailable |= {f"{name}: {work}": why for (name, work), why in CANNOT.items()}
    if not curl.has_curl():
        plan.results.unavailable["curl"] = curl.REASON


def _start_workers(plan: Plan) -> dict[str, Worker | None]:
    url, folder = plan.server.url, plan.folder
    workers: dict[str, Worker | None] = {}
    for colour in ("blocking", "async"):
        for verify in (True, False):
            name = f"holdfast, {colour}" + ("" if verify else ", unverified")
            workers[name] = python_worker(f"holdfast_{colour}", url, folder, verify=verify)
    if packages := plan.peers.python("pinatapy-vourhey"):
        workers["pinatapy-vourhey"] = python_worker(
            "pinatapy_client", url, folder, packages=packages
        )
    workers["pinata"] = plan.peers.javascript_worker("pinata", url, folder)
    return workers


def _curl(plan: Plan, work: str) -> Result:
    if work == "upload":
        return curl.upload(f"{plan.server.url}/pinning/pinFileToIPFS", plan.large_file)[0]
    target = plan.folder / "copy-curl"
    result = curl.download(f"{plan.server.url}/ipfs/{plan.large_file.name}", target)
    target.unlink()
    return result


def hash_seconds(path: Path) -> float:
    """Return how long SHA-256 of a file takes, on one thread."""
    start = time.perf_counter()
    with path.open("rb") as file:
        hashlib.file_digest(file, "sha256")
    return time.perf_counter() - start
