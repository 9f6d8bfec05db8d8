"""Any DAG and any archive is read within 64 MiB of memory: measured, in a process of its own."""

import os
from itertools import product
from pathlib import Path

import pytest

from holdfast.content.car import write_car
from holdfast.content.unixfs.walks import MAX_PENDING
from holdfast.testing import Scripted, ScriptedServer
from tests.dags import MIB, Dag, archive_gateway, block_gateway
from tests.programs import in_both_colours, run_measured

LIMIT = 64 * MIB

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="measures memory by /proc"
)

READER = in_both_colours("""
import asyncio, sys
from holdfast import AsyncClient, Client

url, cid, operation, cache = sys.argv[1:]
settings = {
    "provider": "pinning", "provider_token": "x", "pin_api_url": url,
    "gateway_url": url + "/ipfs", "retries": {"attempts": 1}, "cache_path": cache,
}

async def main():
    async with await AsyncClient.init(settings) as client:
        await client.download("bafkqaaa")  # all that is imported when it is used is there
        idle = start_measuring()
        if operation == "download":
            size = (await client.download(cid)).size
        else:
            async with await client.open(cid) as file:
                size = file.size
                while file.tell() < min(size, 48 << 20):
                    await file.read(8 << 20)
        print(peak_since(idle), size)
asyncio.run(main())
""")


def one_leaf(kind, *, in_archive=True):
    """One leaf of 1 MiB, and many links to it."""
    dag = Dag()
    leaf = (dag.raw if kind == "raw" else dag.leaf)(os.urandom(MIB))
    root, size = dag.repeated(leaf, MIB, 250)
    return archive_gateway(dag.archive()) if in_archive else block_gateway(dag.blocks), root, size


def children_first():
    """Blocks that are all kept before the first is of use; each then stands for many."""
    dag = Dag()
    leaves = [(dag.leaf(os.urandom(MIB)), MIB) for _ in range(7)]
    root = dag.inner(*leaves * 30)
    return archive_gateway(dag.archive(reverse=True)), root, 210 * MIB


def wide():
    """As many links as may be pending, and blocks kept besides."""
    dag = Dag()
    tiny = dag.raw(b"xy")
    early = [dag.raw(os.urandom(MIB)) for _ in range(7)]
    inner = dag.inner(*[(tiny, 2)] * 45_000)
    root = dag.inner((inner, 90_000), *[(tiny, 2)] * (MAX_PENDING - 45_001))
    order = [root, inner, *early, tiny]
    archive = b"".join(write_car([], [(cid, dag.blocks[cid]) for cid in order]))
    return archive_gateway(archive), root, 2 * (MAX_PENDING - 1)


def small_pieces():
    """A plain body in pieces of two bytes."""
    dag = Dag()
    inner, size = dag.repeated(dag.raw(b"xy"), 2, 40_000)
    root = dag.inner(*[(inner, size)] * 10)
    blocks = block_gateway(dag.blocks)

    def answer(request):
        if "format=car" in request.target:
            return Scripted(status=406)
        return blocks(request) if "?" in request.target else Scripted(body=b"xy" * 400_000)

    return answer, root, 800_000


CASES = {
    "one dag-pb leaf": lambda: one_leaf("dag-pb"),
    "one raw leaf": lambda: one_leaf("raw"),
    "single blocks": lambda: one_leaf("dag-pb", in_archive=False),
    "children first": children_first,
    "wide": wide,
    "small pieces": small_pieces,
}
QUICK = {
    ("one dag-pb leaf", "download", "blocking"),
    ("one dag-pb leaf", "download", "async"),
    ("children first", "open", "async"),
}


def cases():
    for key in product(CASES, ("download", "open"), ("blocking", "async")):
        marks = [] if key in QUICK else [pytest.mark.slow]
        yield pytest.param(*key, id="-".join(key), marks=marks)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "operation", "colour"), list(cases()))
def test_a_read_stays_within_its_memory(name, operation, colour, tmp_path):
    answer, root, size = CASES[name]()

    def or_nothing(request):
        return Scripted() if "bafkqaaa" in request.target else answer(request)

    with ScriptedServer(or_nothing) as server:
        output = run_measured(READER[colour], server.url, root, operation, tmp_path)
    used, read = map(int, output.split())
    assert read == size
    assert used < LIMIT
