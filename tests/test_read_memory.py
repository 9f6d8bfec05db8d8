"""Any DAG and any archive is read within 64 MiB of memory: measured, in a process of its own."""

import os
from pathlib import Path

import pytest

from holdfast.content.car import write_car
from holdfast.content.unixfs.walks import MAX_PENDING
from holdfast.testing import Scripted, ScriptedServer
from tests.dags import MIB, Dag, archive_gateway, block_gateway
from tests.own_memory import run_measured

LIMIT = 64 * MIB

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="measures memory by /proc"
)

READER = """
import asyncio, sys
from holdfast import AsyncClient, Client

url, cid, operation, colour, cache = sys.argv[1:]
settings = {
    "provider": "pinning", "provider_token": "x", "pin_api_url": url,
    "gateway_url": url + "/ipfs", "retries": {"attempts": 1}, "cache_path": cache,
}

def blocking():
    with Client.init(settings) as client:
        client.download("bafkqaaa")  # all that is imported when it is used is there
        idle = start_measuring()
        if operation == "download":
            return idle, client.download(cid).size
        with client.open(cid) as file:
            while file.tell() < min(file.size, 48 << 20):
                file.read(8 << 20)
            return idle, file.size

async def asynchronous():
    async with await AsyncClient.init(settings) as client:
        await client.download("bafkqaaa")
        idle = start_measuring()
        if operation == "download":
            return idle, (await client.download(cid)).size
        async with await client.open(cid) as file:
            while file.tell() < min(file.size, 48 << 20):
                await file.read(8 << 20)
            return idle, file.size

idle, size = blocking() if colour == "blocking" else asyncio.run(asynchronous())
print(peak_since(idle), size)
"""


def repeated(kind, count):
    """One leaf of 1 MiB, and many links to it."""
    dag = Dag()
    leaf = (dag.raw if kind == "raw" else dag.leaf)(os.urandom(MIB))
    return dag, *dag.repeated(leaf, MIB, count)


def one_leaf(kind):
    dag, root, size = repeated(kind, 250)
    return archive_gateway(dag.archive()), root, size


def single_blocks():
    dag, root, size = repeated("dag-pb", 250)
    return block_gateway(dag.blocks), root, size


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
    "single blocks": single_blocks,
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
    for name, make in CASES.items():
        for operation in ("download", "open"):
            for colour in ("blocking", "async"):
                key = (name, operation, colour)
                marks = [] if key in QUICK else [pytest.mark.slow]
                yield pytest.param(make, operation, colour, id="-".join(key), marks=marks)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("make", "operation", "colour"), list(cases()))
def test_a_read_stays_within_its_memory(make, operation, colour, tmp_path):
    answer, root, size = make()

    def or_nothing(request):
        return Scripted() if "bafkqaaa" in request.target else answer(request)

    with ScriptedServer(or_nothing) as server:
        found = run_measured(READER, server.url, root, operation, colour, tmp_path)
    used, read = map(int, found.split())
    assert read == size
    assert used < LIMIT
