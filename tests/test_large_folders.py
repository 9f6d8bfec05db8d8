"""A folder of 100,000 files: the same CID everywhere, and little memory for client and node."""

import json

import pytest

from holdfast import compute_cid
from tests.node_process import ON_LINUX, node_process
from tests.programs import in_both_colours, run_measured

MIB = 1 << 20
PROFILES = {0: "unixfs-v0-2015", 1: "unixfs-v1-2025"}
COUNT = 100_000
LIMIT = 128 * MIB  # above idle, for client and node alike

pytestmark = [ON_LINUX, pytest.mark.slow, pytest.mark.timeout(600)]

CLIENT = in_both_colours("""
import asyncio, json, sys
from holdfast import AsyncClient, Client

async def main():
    async with await AsyncClient.init(json.loads(sys.argv[2])) as client:
        await client.upload(b"all that is imported when it is used is there")
        idle = start_measuring()
        record = await client.upload(sys.argv[1])
        uploaded = peak_since(idle)
        idle = start_measuring()
        count = 0
        async for _ in client.iter_entries(record.cid):
            count += 1
        print(json.dumps([record.cid, record.size, uploaded, count, peak_since(idle)]))
asyncio.run(main())
""")


@pytest.fixture(scope="module")
def many_files(tmp_path_factory):
    root = tmp_path_factory.mktemp("large") / "many"
    root.mkdir()
    for number in range(COUNT):
        (root / f"file-{number:06}.txt").write_bytes(b"%d" % number)
    return root


def upload(folder, colour, **fields):
    output = run_measured(CLIENT[colour], folder, json.dumps(fields))
    cid, size, uploaded, count, listed = json.loads(output)
    assert (size, count) == (sum(len(str(number)) for number in range(COUNT)), COUNT)
    assert (uploaded < LIMIT, listed < LIMIT / 2) == (True, True), (uploaded, listed)
    return cid


@pytest.mark.parametrize("version", [0, 1])
def test_to_the_store(many_files, memory_folder, version):
    cid = upload(many_files, "blocking", path=str(memory_folder), cid_version=version)
    assert cid == compute_cid(many_files, profile=PROFILES[version])


@pytest.mark.parametrize(("version", "colour"), [(0, "blocking"), (1, "async")])
def test_to_the_node(many_files, memory_folder, version, colour):
    with node_process(memory_folder) as node:
        fields = {
            "provider": "pinning",
            "provider_token": node.token,
            "pin_api_url": node.api_url,
            "gateway_url": f"{node.api_url}/ipfs",
            "cid_version": version,
        }
        idle = node.memory()
        cid = upload(many_files, colour, **fields)
        assert node.peak_memory() - idle < LIMIT
    assert cid == compute_cid(many_files, profile=PROFILES[version])


DIRECTORY = """
import sys
from pathlib import Path
from holdfast.content.profiles import profile_for
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import FileImporter
from holdfast.repository import Repository

with Repository(Path(sys.argv[1])) as repository, repository.adding() as adding:
    profile = profile_for(None, 1)
    part = FileImporter(profile, adding.put).finish()
    names = ((b"entry-%07d" % number, part) for number in range(int(sys.argv[2])))
    root = build_directory(names, profile, adding.put)
    adding.pin(root.cid, size=root.dag_size)
    print(root.cid)
"""

LISTING = """
import json, sys
from holdfast import Client

with Client.init(json.loads(sys.argv[1])) as client:
    client.stat(sys.argv[2])
    idle = start_measuring()
    count = sum(1 for entry in client.iter_entries(sys.argv[2]))
    print(json.dumps([count, peak_since(idle)]))
"""


def test_a_directory_of_a_million_entries_streams(tmp_path):
    store = tmp_path / "store"
    cid = run_measured(DIRECTORY, store, 10 * COUNT).strip()
    count, listed = json.loads(run_measured(LISTING, json.dumps({"path": str(store)}), cid))
    # 55 MiB here, 44 MiB for 100,000 entries: most of it does not grow with the directory.
    assert (count, listed < LIMIT / 2) == (10 * COUNT, True), listed
