"""The node under load, against Kubo: small stores, and a large file both ways.

Kubo is measured twice: as it is installed, and with the guarantees of our node, which are that
every block is on disk when it is acknowledged, and verified when it is read.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from bench import curl
from bench.clients import TOKEN
from bench.content import MIB, mark_blocks
from bench.goals import SAFE_KUBO
from bench.neutral_server import build_server
from bench.nodes import Node, kubo_reason, start_kubo, start_ours
from bench.plan import Plan

AT_ONCE = 16
SECONDS = 1.0  # of each node in a round of stores
DISTANCE = 10**6  # between the documents of one round and of the next


def run(plan: Plan) -> None:
    """Measure stores a second, and the rate of transfers by curl."""
    starters: dict[str, Callable[[Path], Node]] = {"holdfast": start_ours}
    if (reason := kubo_reason()) is None:
        starters["Kubo"] = start_kubo
        starters[SAFE_KUBO] = partial(start_kubo, safe=True)
    else:
        plan.results.unavailable["Kubo"] = reason
    with ExitStack() as stack:
        nodes = {}
        for name, start in starters.items():
            folder = plan.folder / f"node-{name}"
            folder.mkdir()
            stack.callback(shutil.rmtree, folder)
            nodes[name] = stack.enter_context(closing(start(folder)))
        idle = {name: node.peak_memory() for name, node in nodes.items()}
        _measure_stores(plan, nodes)
        if curl.has_curl():
            _measure_transfers(plan, nodes)
        else:
            plan.results.unavailable["curl"] = curl.REASON
        for name, node in nodes.items():
            grown = (node.peak_memory() - idle[name]) / MIB
            plan.results.add("node", "node-memory", name, "MiB", grown)


def _measure_stores(plan: Plan, nodes: dict[str, Node]) -> None:
    binary = build_server()
    if binary is None:
        plan.results.unavailable["stores at the node"] = "not available: needs Go for the client"
        return

    def measure(name: str, node: Node, number: int) -> None:
        task = [str(plan.folder), str(AT_ONCE), str(SECONDS), str(number * DISTANCE)]
        done = subprocess.run(  # noqa: S603 - our own binary
            [str(binary), "load", node.store, node.url, *task],
            env={**os.environ, "BENCH_TOKEN": TOKEN},
            stdout=subprocess.PIPE,
            check=True,
        )
        result = json.loads(done.stdout)
        rate = result["count"] / result["seconds"]
        plan.results.add("node", "node-store", name, "requests/s", rate)

    plan.results.take_turns(plan.node_rounds, [partial(measure, *node) for node in nodes.items()])


def _measure_transfers(plan: Plan, nodes: dict[str, Node]) -> None:
    path = plan.folder / "upload"
    shutil.copyfile(plan.large_file, path)
    size = path.stat().st_size
    target = plan.folder / "download"

    def measure(name: str, node: Node, number: int) -> None:
        # A node that has a block does not write it again: so each is a new one.
        mark_blocks(path, f"{name} {number}")
        os.sync()  # what others have written is not written during this upload
        seconds, cid = node.upload(path)
        plan.results.add("node", "node-upload", name, "MB/s", size / seconds / 1e6)
        rate = size / node.download(cid, target) / 1e6
        plan.results.add("node", "node-download", name, "MB/s", rate)
        if target.stat().st_size != size:
            raise AssertionError(f"{name} sent another file")
        target.unlink()

    plan.results.take_turns(plan.large_rounds, [partial(measure, *node) for node in nodes.items()])
