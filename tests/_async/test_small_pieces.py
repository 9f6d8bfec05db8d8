"""Files in very many small pieces, as by Kubo's chunker size-1 (number 7).

How long they take is a figure of `make bench`. Here it is how often something is done.
"""

import hashlib
import threading
import time
from dataclasses import replace

import pytest

from holdfast import AsyncClient
from holdfast.content.cid import CID
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V0_2015
from holdfast.protocol.gateway import CAR_TYPE, RAW_TYPE
from holdfast.sinks.sinks import SpoolSink
from holdfast.testing import Scripted, ScriptedServer
from tests.content import Blocks
from tests.support import config_for

CONTENT = hashlib.shake_128(b"small pieces").digest(5_000)
PROFILES = {each.name: replace(each, chunk_size=1) for each in (KUBO_LEGACY_CIDV1, UNIXFS_V0_2015)}
AT_ONCE = 8


class Gateway:
    """Serves one file, and counts how many blocks are asked for at the same time."""

    def __init__(self, profile, refuse=(), delay=0.0):
        self.root, self.blocks = Blocks.of_file(CONTENT, profile)
        self.refuse = refuse
        self.delay = delay
        self.in_flight = self.most = self.asked = 0
        self.lock = threading.Lock()

    def __call__(self, request):
        kind = request.target.partition("format=")[2][:3] or "plain"
        if kind in self.refuse:
            return Scripted(status=406)
        if kind == "raw":
            return self.block(CID.parse(request.target.split("/")[2].partition("?")[0]))
        if kind == "car":
            body = b"".join(self.blocks.archive(self.root))
            return Scripted(body=body, headers={"Content-Type": CAR_TYPE})
        return Scripted(body=CONTENT)

    def block(self, cid):
        with self.lock:
            self.asked += 1
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
        time.sleep(self.delay)
        with self.lock:
            self.in_flight -= 1
        return Scripted(body=self.blocks[cid], headers={"Content-Type": RAW_TYPE})


@pytest.fixture
def written(monkeypatch):
    """The sizes of all pieces that are written to a sink."""
    sizes = []
    write = SpoolSink.write

    def counting(self, data):
        sizes.append(len(data))
        write(self, data)

    monkeypatch.setattr(SpoolSink, "write", counting)
    return sizes


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
async def test_inner_nodes_are_fetched_several_at_a_time(profile, written):
    gateway = Gateway(profile, delay=0.02)
    with ScriptedServer(gateway) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            assert (await client.download(str(gateway.root))).read() == CONTENT
    inner = sum(1 for block in gateway.blocks.values() if len(block) > 100)
    assert gateway.asked == inner  # each once, and no leaf
    assert 3 < gateway.most <= AT_ONCE
    assert len(written) <= inner + 2


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
async def test_small_pieces_of_an_archive_are_written_together(profile, written):
    gateway = Gateway(profile, refuse={"raw"})
    with ScriptedServer(gateway) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            assert (await client.download(str(gateway.root))).read() == CONTENT
    assert len(written) < 50


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
async def test_small_pieces_out_of_single_blocks_are_written_together(profile, written):
    """There are 256 different leaves: what is fetched already comes without a step of its own."""
    gateway = Gateway(profile, refuse={"plain", "car"})
    with ScriptedServer(gateway) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            assert (await client.download(str(gateway.root))).read() == CONTENT
    assert len(written) < 300


async def test_a_wrong_body_makes_nobody_fetch_more_than_a_few_blocks():
    gateway = Gateway(PROFILES["kubo-legacy-cidv1"])

    def lying(request):
        reply = gateway(request)
        return reply if "format=" in request.target else replace(reply, body=CONTENT[::-1])

    with ScriptedServer(lying) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            with pytest.raises(Exception, match="not what this CID names"):
                await client.download(str(gateway.root))
    assert gateway.asked <= 2 + 2 * AT_ONCE


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
async def test_the_store_is_looked_into_once_for_many_pieces(tmp_path, profile):
    async with await AsyncClient.init(path=tmp_path) as client:
        repository = client.provider.repository
        pin, _ = repository.add(CONTENT, profile, name="")
        looks = []
        reading = repository._database.reading

        def counting():
            looks.append(1)
            return reading()

        repository._database.reading = counting
        pieces = list(repository.read(CID.parse(pin.cid)))
        assert b"".join(pieces) == CONTENT
        assert len(pieces) <= 3
        assert len(looks) <= 3
        assert (await client.download(pin.cid)).read() == CONTENT
        async with await client.open(pin.cid) as file:
            file.seek(4500)
            assert await file.read(10) == CONTENT[4500:4510]
        assert len(looks) < 30
