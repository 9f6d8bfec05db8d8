"""`store` and `retrieve` of 1 KB: ours, the bare libraries, and the peers."""

from contextlib import ExitStack
from functools import partial

from bench.goals import AT_ONCE
from bench.plan import Plan
from bench.results import take_turns
from bench.workers import Task, Worker, python_worker

BLOCKING = {"holdfast": "holdfast_blocking", "urllib3": "urllib3_bare"}
ASYNC = {"holdfast": "holdfast_async", "aiohttp": "aiohttp_bare"}
WORKS = ("store", "retrieve")


def run(plan: Plan) -> None:
    """Measure requests a second, and the CPU time of the client for each."""
    for colour, clients, at_once in (("blocking", BLOCKING, (1,)), ("async", ASYNC, AT_ONCE)):
        with ExitStack() as stack:
            workers = {
                name: stack.enter_context(python_worker(client, plan.server.url, plan.folder))
                for name, client in clients.items()
            }
            for work in WORKS:
                for count in at_once:
                    _measure(plan, workers, work, colour, count)


def _measure(plan: Plan, workers: dict[str, Worker], work: str, colour: str, count: int) -> None:
    title = f"{work}-{colour}" if colour == "blocking" else f"{work}-{colour}-{count}"

    def measure(name: str, worker: Worker, number: int) -> None:
        first = number * 1000  # another round begins elsewhere
        result = worker.run(Task(work, plan.small_seconds, count, first))
        plan.results.add("small", title, name, "requests/s", result.rate)
        cpu = result.cpu / result.count * 1e6
        plan.results.add("small", f"{title}-cpu", name, "us CPU", cpu)

    take_turns(
        plan.small_rounds, [partial(measure, name, worker) for name, worker in workers.items()]
    )
