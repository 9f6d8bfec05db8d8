"""Where several things go wrong, or right, at once: each of these was wrong once."""

import errno
import hashlib
import io
import os
import threading
import time
from dataclasses import replace
from functools import partial

import pytest

from holdfast import AsyncClient, Blob
from holdfast._async.reads.state import Output
from holdfast.content.cid import CID, DAG_PB, IDENTITY
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.files import dag_pb_frame
from holdfast.errors import NetworkError, NotFoundError, ProviderError, VerificationError
from holdfast.sinks.sinks import MemorySink
from holdfast.testing import Scripted, ScriptedServer
from tests._async.parallel import in_parallel
from tests.gateways import ODD_LAYOUT, config_for_all, gateway, kinds, pin
from tests.support import HELLO_CID, config_for, pinned, raw_cid

AGAIN = {"attempts": 4, "base": 0.01, "cap": 0.05}
DATA = os.urandom(5_000_000)
SMALL_CHUNKS = replace(KUBO_LEGACY_CIDV1, chunk_size=1 << 16)
TWO_LEVELS = 11_500_000  # bytes: more than the links of one node of this layout hold


async def test_after_a_failed_write_nothing_more_is_written():
    """Half a piece may be on the disk: what came behind it would be in the wrong place."""

    class FullOnce(MemorySink):
        def write(self, data):
            if len(self.data) == 5 and data == b"second":
                self.data += b"sec"
                raise OSError(errno.ENOSPC, "No space left on device")
            super().write(data)

    output = Output(FullOnce())
    output.take([b"first"], verified=True)
    with pytest.raises(OSError, match="No space"):
        output.take([b"second"], verified=True)
    for go_on in (partial(output.take, [b"third"], verified=True), partial(output.restart, 5)):
        with pytest.raises(OSError, match="No space"):
            go_on()
    assert output.sink.verified == 5


async def test_an_identity_cid_of_a_tree_is_not_proven_by_a_hash(server):
    evil = b"not what the CID carries"
    head, tail = dag_pb_frame(Kind.FILE, len(evil))
    cid = str(CID(1, DAG_PB, IDENTITY, hashlib.sha256(head + evil + tail).digest()))
    server.reply(200, evil)
    async with await AsyncClient.init(config_for(server)) as client:
        with pytest.raises(VerificationError):
            await client.download(cid)


@pytest.mark.parametrize("profile", [UNIXFS_V0_2015, ODD_LAYOUT], ids=lambda each: each.name)
async def test_a_part_over_the_edge_of_two_subtrees_is_fetched_without_them(node, profile):
    edge = 174 * 262_144 if profile is UNIXFS_V0_2015 else 5**3 * 100_000
    data = os.urandom(edge + 400_000)
    cid = pin(node, data, profile)
    with gateway(node) as server:
        async with (
            await AsyncClient.init(config_for(server)) as client,
            await client.open(cid) as file,
        ):
            file.seek(edge - 50_000)
            assert await file.read(100_000) == data[edge - 50_000 : edge + 50_000]
    (part,) = [each.headers["range"] for each in server.requests if "range" in each.headers]
    first, last = map(int, part.removeprefix("bytes=").split("-"))
    assert last - first < 3_000_000


async def test_an_open_file_where_nobody_knows_ranges(node):
    cid = pin(node, DATA, UNIXFS_V1_2025)

    def whole(kind, request, reply):
        if kind == "plain":
            return replace(reply, status=200, body=DATA, headers={})
        return reply

    with gateway(node, whole) as server:
        async with (
            await AsyncClient.init(config_for(server)) as client,
            await client.open(cid) as file,
        ):
            file.seek(2_000_000)
            assert await file.read(10) == DATA[2_000_000:2_000_010]


async def test_a_failed_read_of_an_open_file_has_not_moved_on(node):
    data = os.urandom(10_000_000)
    cid = pin(node, data, UNIXFS_V1_2025)
    broken = []

    def unwell(kind, request, reply):
        late = "bytes=8388608-" in request.headers.get("range", "")
        return replace(reply, status=404) if broken and late else reply

    with gateway(node, unwell, refuse={"car"}) as server:
        async with (
            await AsyncClient.init(config_for(server)) as client,
            await client.open(cid) as file,
        ):
            broken.append(True)
            with pytest.raises(NotFoundError):
                await file.read()
            assert file.tell() == 0
            broken.clear()
            assert await file.read() == data


async def test_what_was_kept_survives_a_gateway_that_has_nothing(node, tmp_path):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    cache = {"cache_path": tmp_path / "cache"}

    def die(kind, request, reply):
        return replace(reply, cut=3_000_000) if kind == "plain" else reply

    with gateway(node, die) as server:
        async with await AsyncClient.init(config_for_all(server, **cache)) as client:
            with pytest.raises(NetworkError):
                await client.download(cid, to=tmp_path / "copy")
    with ScriptedServer(lambda _: Scripted(status=404)) as empty, gateway(node) as good:
        async with await AsyncClient.init(config_for_all(empty, good, **cache)) as client:
            await client.download(cid, to=tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == DATA
    assert good.requests[-1].headers["range"] == "bytes=2097152-"


async def test_bytes_that_are_proven_again_are_no_progress(node):
    """Else a gateway that always breaks off at the same place would be asked for ever."""
    cid = pin(node, os.urandom(TWO_LEVELS), SMALL_CHUNKS)

    def die(kind, request, reply):
        if kind == "plain":
            return replace(reply, cut=1_250_000)
        return replace(reply, status=403, body=b"") if cid not in request.target else reply

    with gateway(node, die, refuse={"car"}) as server:
        async with await AsyncClient.init(config_for_all(server, retries=AGAIN)) as client:
            with pytest.raises((NetworkError, ProviderError, VerificationError)):
                await client.download(cid)
    assert kinds(server).count("plain") <= 12


async def test_an_endless_body_for_one_block_is_cut_off(server):
    cid = raw_cid(b"small")
    sent = threading.Event()

    def endless(request):
        sent.set()
        return Scripted(body=bytes(70 << 20), chunked=True)

    with ScriptedServer(endless) as liar:
        async with await AsyncClient.init(config_for_all(liar)) as client:
            with pytest.raises(VerificationError, match="is larger than 67108864 bytes"):
                await client.download(cid)
    assert sent.is_set()


async def test_a_gateway_with_archives_only_may_win_nothing_and_still_serve(node):
    cid = pin(node, os.urandom(TWO_LEVELS), SMALL_CHUNKS)

    def only_root(kind, request, reply):
        if kind == "raw" and cid not in request.target:
            return replace(reply, status=403, body=b"")
        return reply

    with gateway(node, only_root) as first, ScriptedServer(lambda _: Scripted(status=404)) as none:
        async with await AsyncClient.init(config_for_all(first, none, hedge_after=0.2)) as client:
            assert (await client.download(cid)).size == TWO_LEVELS


async def test_a_race_counts_as_an_attempt(server, other_server):
    for each in (server, other_server):
        each.reply(503)
    async with await AsyncClient.init(
        config_for_all(server, other_server, hedge_after=0.01)
    ) as client:
        with pytest.raises(ProviderError):
            await client.download(HELLO_CID)
    assert (len(server.requests), len(other_server.requests)) == (1, 1)


async def test_an_iterable_that_goes_on_in_the_middle_is_sent_once(server):
    """As a streamed HTTP reply does: it is no iterator, and yet cannot be had again."""

    class Reply:
        def __init__(self):
            self._left = [b"a" * 600_000] * 4

        def __iter__(self):
            while self._left:
                yield self._left.pop()

    server.reply(503)
    async with await AsyncClient.init(config_for(server, retries=AGAIN)) as client:
        with pytest.raises(ProviderError):
            await client.upload(Reply())
    assert len(server.requests) == 1


async def test_a_slow_file_is_read_by_one_reader_at_a_time(server):
    """An early reply leaves a reader behind, who must not move the file under the next one."""

    class Slow(io.BytesIO):
        def read(self, size=-1):
            time.sleep(0.02)
            return super().read(min(size, 100_000))

    data = os.urandom(1_500_000)
    server.reply(503, early=True, delay=0.05)
    server.reply(200, pinned(raw_cid(data)))
    async with await AsyncClient.init(config_for(server, retries=AGAIN)) as client:
        record = await client.upload(Slow(data))
    assert record.size == len(data)
    assert data in server.requests[-1].body


async def test_an_upload_may_read_from_an_open_file_of_the_same_client(node):
    """More of them than there is room for calls: none may wait for itself."""
    async with await AsyncClient.init(node.config) as client:
        cid = (await client.upload(Blob(b"hello"))).cid

        async def copy():
            file = await client.open(cid)
            return (await client.upload(Blob(await file.read()))).cid

        assert set(await in_parallel([copy] * 120)) == {cid}


async def test_waiting_for_a_turn_takes_no_time_from_a_read(node):
    with gateway(node) as server:
        slow = config_for(server, rate_limit=30, timeouts={"total": 1.8})
        async with await AsyncClient.init(slow) as client:
            text = b"[" + b" " * 3_000_000 + b"]"
            assert await client.retrieve(pin(node, text, UNIXFS_V1_2025)) == []
            assert len(server.requests) == 2
