# WARNING: this file is generated from tests/_async/test_hardening_04_archives.py
# by scripts/generate_sync.py. Change the original instead.
"""Archives and open files that bring nothing that is wanted, or too slowly, come to an end."""

import time

import pytest

from holdfast import Client
from holdfast.content.budgets import MAX_UNRELATED
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.errors import RequestTimeoutError, UnprovenError
from holdfast.protocol.gateway import CAR_TYPE, RAW_TYPE
from holdfast.testing import Scripted, ScriptedServer
from tests.attackers import Attacker
from tests.content import Blocks
from tests.dags import MIB, Dag, archive_gateway, section
from tests.support import config_for

REFUSED = b"HTTP/1.1 406 No\r\nContent-Length: 0\r\n\r\n"
CAR_HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: {CAR_TYPE}\r\n\r\n".encode()
READ = 0.3


def replies(*attacks):
    """An attack that has another reply for each request, and the last one for all further ones."""
    left = list(attacks)

    def attack():
        yield from (left.pop(0) if len(left) > 1 else left[0])()

    return attack


def refused():
    yield REFUSED


def small_file():
    dag = Dag()
    leaf = dag.raw(b"x")
    return dag, leaf, dag.inner((leaf, 1))


def unrelated(size):
    """Blocks that nothing links to, without an end."""
    number = 0
    while True:
        block = number.to_bytes(4, "big") * (size // 4)
        yield section(CID.of_raw(block), block)
        number += 1


@pytest.mark.parametrize("size", [4, MIB])
def test_an_archive_of_endless_unrelated_blocks_is_given_up(size):
    dag, _, root = small_file()

    def endless():
        yield CAR_HEAD + b"".join(write_car([], [(root, dag.blocks[root])]))
        yield from unrelated(size)

    with Attacker(replies(refused, endless, refused)) as attacker:
        with Client.init(config_for(attacker)) as client:
            with pytest.raises(UnprovenError, match="bytes of blocks that the file does not need"):
                client.download(str(root))
        assert attacker.sent < MAX_UNRELATED + 16 * MIB  # buffers of the sockets, too


def test_a_drip_of_unrelated_blocks_ends_after_the_time_for_a_read():
    dag, _, root = small_file()
    read = 1.2  # a machine that stalls must not look like an attacker that says nothing

    def dripping():
        yield CAR_HEAD + b"".join(write_car([], [(root, dag.blocks[root])]))
        for block in unrelated(8):
            time.sleep(read / 40)
            yield block

    begun = time.monotonic()
    with Attacker(replies(refused, dripping)) as attacker:
        config = config_for(attacker, timeouts={"read": read})
        with Client.init(config) as client:
            with pytest.raises(RequestTimeoutError, match=r"nothing that .* needs in time"):
                client.download(str(root))
    assert time.monotonic() - begun < 15


def test_an_archive_that_comes_slowly_is_read_to_its_end():
    """The bytes of a block that is wanted count, also before it is whole."""
    dag = Dag()
    root = dag.inner((dag.raw(bytes(100_000)), 100_000))
    archive = dag.archive()

    def slow():
        yield CAR_HEAD
        for start in range(0, len(archive), 10_000):
            time.sleep(READ / 2)
            yield archive[start : start + 10_000]

    def slow_and_closed():
        yield from slow()
        raise OSError

    with Attacker(replies(refused, slow_and_closed)) as attacker:
        config = config_for(attacker, timeouts={"read": READ * 4})
        with Client.init(config) as client:
            assert (client.download(str(root))).read() == bytes(100_000)


def test_what_follows_a_file_in_its_archive_does_not_matter():
    dag, _, root = small_file()

    def endless():
        yield CAR_HEAD + dag.archive()
        yield from unrelated(MIB)

    with Attacker(replies(refused, endless)) as attacker:
        with Client.init(config_for(attacker)) as client:
            assert (client.download(str(root))).read() == b"x"


def test_blocks_that_an_archive_repeats_are_not_unrelated():
    """As for a file of zeros from a gateway that sends a block for every link to it."""
    dag = Dag()
    zeros, end = dag.raw(bytes(MIB)), dag.raw(b"end")
    count = MAX_UNRELATED // MIB + 4
    root = dag.inner(*[(zeros, MIB)] * count, (end, 3))
    order = [root, *[zeros] * count, end]
    archive = b"".join(write_car([], [(cid, dag.blocks[cid]) for cid in order]))
    with ScriptedServer(archive_gateway(archive)) as server:
        with Client.init(config_for(server)) as client:
            assert (client.download(str(root))).size == count * MIB + 3


def test_each_range_of_an_open_file_has_its_total():
    data = bytes(range(256)) * 12_000
    root, blocks = Blocks.of_file(data, UNIXFS_V1_2025)
    slow = []

    def answer(request):
        if "format=raw" in request.target:
            return Scripted(body=blocks[root], headers={"Content-Type": RAW_TYPE})
        if "format=car" in request.target:
            return Scripted(status=406)
        start, stop = map(int, request.headers["range"].removeprefix("bytes=").split("-"))
        headers = {"Content-Range": f"bytes {start}-{stop}/{len(data)}"}
        body = data[start : stop + 1]
        return Scripted(status=206, body=body, headers=headers, drip=0.01 if slow else 0)

    with ScriptedServer(answer) as server:
        config = config_for(server, timeouts={"read": 5, "total": 1.5})
        with Client.init(config) as client, client.open(str(root)) as file:
            slow.append(True)
            begun = time.monotonic()
            with pytest.raises(RequestTimeoutError):
                file.read(10)
            assert time.monotonic() - begun < 6
            slow.clear()
            assert file.read(10) == data[:10]


@pytest.mark.parametrize("way", ["block", "body"])
def test_a_file_that_is_opened_whole_has_the_total_too(way):
    data = bytes(100_000)
    root = CID.of_raw(data) if way == "block" else Blocks.of_file(data * 20, UNIXFS_V1_2025)[0]

    def answer(request):
        return (
            Scripted(status=406) if "format=" in request.target else Scripted(body=data, drip=0.01)
        )

    with ScriptedServer(answer) as server:
        config = config_for(server, timeouts={"read": 5, "total": 0.6})
        begun = time.monotonic()
        with Client.init(config) as client:
            with pytest.raises(RequestTimeoutError):
                client.open(str(root))
        assert time.monotonic() - begun < 12
