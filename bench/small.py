"""`store` and `retrieve` of 1 KB: ours, the bare libraries, and the peers."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from bench.goals import AT_ONCE
from bench.plan import Plan
from bench.workers import Task, Worker, python_worker

BLOCKING = {
    "holdfast": "holdfast_blocking",
    "urllib3": "urllib3_bare",
    "requests": "requests_bare",
    "pinatapy-vourhey": "pinatapy_client",
}
ASYNC = {"holdfast": "holdfast_async", "aiohttp": "aiohttp_bare", "httpx": "httpx_bare"}
JAVASCRIPT = ("pinata-web3", "pinata", "@helia/verified-fetch")
WORKS = ("store", "retrieve")
SECONDS = 0.12  # of each client in a round
INSTALLED = frozenset({"holdfast", "urllib3", "aiohttp"})  # beside ours
CANNOT = {
    ("pinatapy-vourhey", "retrieve"): "has no function that reads",
    ("@helia/verified-fetch", "store"): "only reads",
}


def run(plan: Plan) -> None:
    """Measure requests a second, and the CPU time of the client for each."""
    for colour, at_once in (("blocking", (1,)), ("async", AT_ONCE)):
        with ExitStack() as stack:
            workers = {
                name: stack.enter_context(worker) for name, worker in _start_workers(plan, colour)
            }
            for work in WORKS:
                able = {
                    name: worker for name, worker in workers.items() if (name, work) not in CANNOT
                }
                for count in at_once:
                    _measure(plan, able, work, colour, count)
    plan.results.unavailable |= {f"{name}: {work}": why for (name, work), why in CANNOT.items()}


def _start_workers(plan: Plan, colour: str) -> Iterator[tuple[str, Worker]]:
    """Start the clients of a colour, without those that are not available."""
    for name, client in (BLOCKING if colour == "blocking" else ASYNC).items():
        packages = None if name in INSTALLED else plan.peers.python(name)
        if name in INSTALLED or packages is not None:
            yield name, python_worker(client, plan.server.url, plan.folder, packages=packages)
    if colour == "async":
        for name in JAVASCRIPT:
            worker = plan.peers.javascript_worker(name, plan.server.url, plan.folder)
            if worker is not None:
                yield name, worker


def _measure(plan: Plan, workers: dict[str, Worker], work: str, colour: str, count: int) -> None:
    title = f"{work}-{colour}" if colour == "blocking" else f"{work}-{colour}-{count}"

    def measure(name: str, worker: Worker, number: int) -> None:
        if number == 0:
            worker.run(Task(work, plan.warm_up_seconds, count))
        first = number * 1000  # another round begins elsewhere
        result = worker.run(Task(work, SECONDS, count, first))
        plan.results.add("small", title, name, "requests/s", result.rate)
        cpu = result.cpu / result.count * 1e6
        plan.results.add("small", f"{title}-cpu", name, "us CPU", cpu)

    tolerant = plan.results.tolerant
    plan.results.take_turns(
        plan.small_rounds,
        [tolerant(name, partial(measure, name, worker)) for name, worker in workers.items()],
    )
