"""Hedging, the rate limit, verified writes, and what is told about all of it."""

import io
import logging
import os
import time
from dataclasses import replace
from functools import partial

import pytest

from holdfast import AsyncClient, Event
from holdfast._async import session
from holdfast._async.transport import AsyncTransport
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.errors import ProviderError, VerificationError
from holdfast.sources.importing import import_content
from holdfast.testing import Scripted, ScriptedServer
from tests._async.parallel import in_parallel
from tests._async.reading import client_of
from tests.folder_dags import FolderDag, serving
from tests.gateways import ODD_LAYOUT, config_for_all, cut_at, gateway, kinds, pin
from tests.support import HELLO_CID, TOKEN, config_for, pinned, raw_cid

AGAIN = {"attempts": 4, "base": 0.01, "cap": 0.05}
DATA = os.urandom(3_000_000)


# Uploads


# Verified writes


@pytest.mark.parametrize(
    "profile",
    [UNIXFS_V1_2025, UNIXFS_V0_2015, KUBO_LEGACY_CIDV1, ODD_LAYOUT],
    ids=lambda profile: profile.name,
)
async def test_any_honest_layout_of_an_upload_is_accepted(server, client, profile, caplog):
    cid = str(import_content(DATA, profile).cid)
    server.reply(200, pinned(cid))
    with caplog.at_level(logging.INFO, "holdfast"):
        assert (await client.upload(DATA)).cid == cid
    assert ("no known layout" in caplog.text) == (profile is ODD_LAYOUT)


async def test_the_layout_of_the_last_upload_is_the_next_guess(server, client, tmp_path):
    """A service that cuts in its own way costs a second reading once, not every time."""
    data = DATA
    cid = str(import_content(data, KUBO_LEGACY_CIDV1).cid)

    class Counted(io.BytesIO):
        count = 0

        def read(self, size=-1):
            Counted.count += 1
            return super().read(size)

    for _ in range(2):
        server.reply(200, pinned(cid))
    await client.upload(Counted(data))
    first, Counted.count = Counted.count, 0
    await client.upload(Counted(data))
    assert first > 1.5 * Counted.count


@pytest.mark.parametrize("size", [1_500_000, 2_097_152])
async def test_a_raw_block_larger_than_our_pieces_is_proven_too(server, client, size):
    cid = raw_cid(DATA[:size])
    server.reply(200, pinned(cid))
    assert (await client.upload(DATA[:size])).cid == cid


async def test_without_verify_the_providers_cid_is_taken(server):
    server.reply(200, pinned(HELLO_CID))
    async with await AsyncClient.init(config_for(server, verify=False)) as client:
        assert (await client.upload(b"hellO")).cid == HELLO_CID


# Several gateways, and racing them


async def test_gateways_take_turns_in_rounds(server, other_server):
    for status in (503, 503):
        server.reply(status)
    other_server.reply(404)
    server.reply(200, b"hello")
    async with await AsyncClient.init(
        config_for_all(server, other_server, retries=AGAIN)
    ) as client:
        assert (await client.download(HELLO_CID)).read() == b"hello"
    # What one has not, it will not have in a moment: only the one that was unwell is asked again.
    assert (len(server.requests), len(other_server.requests)) == (3, 1)


async def test_a_stalled_gateway_is_left_for_the_next(node):
    cid = pin(node, DATA, UNIXFS_V1_2025)

    def stall(kind, request, reply):
        return replace(reply, cut=1_500_000, ending="stall") if kind == "plain" else reply

    started = time.monotonic()
    gateways = gateway(node, stall), gateway(node)
    async with client_of(*gateways, timeouts={"read": 1.5}) as (client, _, good):
        assert (await client.download(cid)).read() == DATA
    assert good.requests[0].headers["range"] == "bytes=1048576-"
    assert time.monotonic() - started < 50


@pytest.mark.parametrize("profile", [UNIXFS_V1_2025, None], ids=["tree", "raw"])
async def test_a_slow_gateway_is_overtaken(node, profile):
    data = DATA if profile else DATA[:1000]
    cid = pin(node, data, profile or UNIXFS_V1_2025)

    def slow(kind, request, reply):
        return replace(reply, delay=30)

    started = time.monotonic()
    gateways = gateway(node, slow), gateway(node)
    async with client_of(*gateways, hedge_after=0.05) as (client, first, second):
        assert (await client.download(cid)).read() == data
        assert time.monotonic() - started < 20
    assert len(first.requests) == 1
    assert kinds(second)[0] == "plain"


async def test_a_quick_gateway_is_not_raced(node):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    async with client_of(gateway(node), gateway(node), hedge_after=5) as (client, _, second):
        assert (await client.download(cid)).read() == DATA
    assert second.requests == []


async def test_a_liar_does_not_win_the_race(node):
    cid = pin(node, DATA, UNIXFS_V1_2025)

    def lie(kind, request, reply):
        return replace(reply, body=bytes(len(reply.body))) if kind == "plain" else reply

    def slow(kind, request, reply):
        return replace(reply, delay=0.3)

    async with client_of(gateway(node, lie), gateway(node, slow), hedge_after=0.01) as (client, *_):
        assert (await client.download(cid)).read() == DATA


async def test_a_winner_that_breaks_off_is_followed_by_the_others(node):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    gateways = gateway(node, cut_at(2_200_000)), gateway(node)
    async with client_of(*gateways, hedge_after=3) as (client, *_):
        assert (await client.download(cid)).read() == DATA


async def test_when_all_lose_the_race_the_gravest_failure_is_raised(server, other_server):
    server.reply(404)
    other_server.reply(200, b"wrong")
    async with await AsyncClient.init(
        config_for_all(server, other_server, hedge_after=0.01)
    ) as client:
        with pytest.raises(VerificationError) as caught:
            await client.download(HELLO_CID)
    assert "HTTP error 404" in "\n".join(caught.value.__notes__)
    assert (len(server.requests), len(other_server.requests)) == (1, 1)


async def test_a_gateway_that_knows_no_blocks_has_its_turn_after_the_race(node):
    cid = pin(node, DATA, ODD_LAYOUT)
    gateways = gateway(node, refuse={"raw"}), gateway(node, refuse={"raw", "car"})
    async with client_of(*gateways, hedge_after=0.01) as (client, *_):
        assert (await client.download(cid)).read() == DATA


# Gateways that do not work are asked last


async def retrieve(client, dag):
    assert await client.retrieve(str(dag.file(b"[1]"))) == [1]


async def download(client, dag):
    assert (await client.download(str(dag.file(b"[1]")))).read() == b"[1]"


async def download_large(client, dag):
    assert (await client.download(str(dag.file(DATA)))).read() == DATA


async def read_a_part(client, dag):
    async with client.open(str(dag.file(DATA))) as file:
        assert await file.read(10) == DATA[:10]


async def entries(client, dag):
    assert [entry.name for entry in await client.entries(str(folder_of(dag)))] == ["a", "b"]


async def archive(client, dag):
    async for _ in client.provider.export_archive(str(folder_of(dag))):
        pass


READS = [retrieve, download, download_large, read_a_part, entries, archive]


def folder_of(dag):
    return dag.folder(("a", dag.file(b"[1]")), ("b", dag.file(DATA)))


@pytest.fixture
def dag():
    dag = FolderDag()
    folder_of(dag)
    return dag


async def test_a_hung_gateway_is_waited_for_once(dag):
    gateways = ScriptedServer(lambda _: Scripted(delay=60)), ScriptedServer(serving(dag))
    async with client_of(*gateways, timeouts={"read": 1.2}) as (client, hung, _):
        await READS[0](client, dag)
        # Copies share what is known of the gateways. A wait for this one would take a minute.
        patient = client.with_options(timeouts={"read": 60})
        for read in (*READS, *READS):
            await read(patient, dag)
    assert len(hung.requests) == 1


FAULTS = {
    "no answer": Scripted(hang_up=True),
    "reset": Scripted(hang_up=True, ending="reset"),
    "not HTTP": Scripted(raw=b"SSH-2.0-OpenSSH_9.2\r\n"),
    "503": Scripted(status=503),
    "429": Scripted(status=429, headers={"Retry-After": "1"}),
}


@pytest.mark.parametrize(
    ("read", "fault"),
    [
        *((read, FAULTS["503"]) for read in READS),
        *((download, fault) for fault in FAULTS.values()),
    ],
)
async def test_a_gateway_that_does_not_work_is_asked_last(dag, read, fault):
    gateways = ScriptedServer(lambda _: fault), ScriptedServer(serving(dag))
    async with client_of(*gateways) as (client, bad, _):
        await read(client, dag)
        assert len(bad.requests) == 1
        await read(client, dag)
    assert len(bad.requests) == 1


@pytest.mark.parametrize(
    ("read", "status"), [*((read, 404) for read in READS), (download, 403), (download, 451)]
)
async def test_a_gateway_without_the_content_keeps_its_place(dag, read, status):
    gateways = ScriptedServer(lambda _: Scripted(status=status)), ScriptedServer(serving(dag))
    async with client_of(*gateways) as (client, first, _):
        await read(client, dag)
        asked = len(first.requests)
        await read(client, dag)
    assert len(first.requests) > asked > 0


# The rate limit


async def test_attempts_count_against_the_limit_as_well(server):
    for status in (503, 503, 200):
        server.reply(status, {"message": "hi"})
    limited = config_for(server, rate_limit=600, retries=AGAIN)
    async with await AsyncClient.init(limited) as client:
        started = time.monotonic()
        await client.test_connection()
        assert time.monotonic() - started >= 0.2


# What is told


async def test_every_request_retry_and_call_is_told(server):
    server.reply(503)
    server.reply(200, pinned())
    events = []
    settings = config_for(server, retries=AGAIN, on_event=events.append)
    async with await AsyncClient.init(settings) as client:
        record = await client.store({"a": 1})
    assert all(isinstance(event, Event) for event in events)
    assert [(event.kind, event.attempt, event.status) for event in events] == [
        ("request", 1, 503),
        ("retry", 1, 503),
        ("request", 2, 200),
        ("call", 2, None),
    ]
    assert {event.operation for event in events} == {"store"}
    assert events[-1].cid == record.cid
    assert events[-1].error is None
    assert 0 <= events[1].delay <= 0.01
    assert all(event.elapsed >= 0 for event in events)


async def test_a_failed_call_and_a_bad_gateway_are_told(server):
    server.reply(200, b"wrong")
    events = []
    async with await AsyncClient.init(config_for(server, on_event=events.append)) as client:
        with pytest.raises(VerificationError):
            await client.download(HELLO_CID)
    assert [(event.kind, event.error) for event in events] == [
        ("request", None),
        ("gateway", "VerificationError"),
        ("call", "VerificationError"),
    ]
    assert {event.cid for event in events} == {HELLO_CID}


async def test_a_hook_that_raises_stops_nothing(server, caplog):
    def broken(event):
        raise RuntimeError("the metrics are down")

    server.reply(200, pinned())
    async with await AsyncClient.init(config_for(server, on_event=broken)) as client:
        await client.store({"a": 1})
    assert "on_event raised" in caplog.text


async def test_the_log_says_what_is_tried_again_and_where(server, caplog):
    server.reply(503)
    server.reply(503)
    server.reply(200, pinned(HELLO_CID))
    retries = {"attempts": 4, "base": 0.001}
    async with await AsyncClient.init(config_for(server, retries=retries)) as client:
        with caplog.at_level(logging.INFO, "holdfast"):
            await client.upload(b"hello")
    peer = server.url.removeprefix("http://")
    words = "upload failed at {} with HTTP error 503 on attempt {}; the next one is in 0.00 s"
    assert caplog.messages == [words.format(peer, number) for number in (1, 2)]
    assert [record.peer for record in caplog.records] == [peer, peer]


async def test_log_records_carry_their_facts(server, client, caplog):
    server.reply(200, pinned())
    with caplog.at_level(logging.DEBUG, "holdfast"):
        await client.store({"hello": 1})
    request, *_, call = caplog.records
    assert (request.operation, request.attempt, request.status) == ("store", 1, 200)
    assert request.elapsed > 0
    assert (call.operation, call.cid) == ("store", HELLO_CID)
    assert TOKEN not in caplog.text


# How many at once, and how often in all


async def test_more_calls_than_there_is_room_for_wait_for_their_turn():
    slow = ScriptedServer(lambda _: Scripted(body=b"hello", delay=0.01))
    async with client_of(slow) as (client, server):
        blobs = await in_parallel([partial(client.download, HELLO_CID)] * 250)
    assert len(blobs) == 250
    assert server.connections <= 100


async def test_a_call_within_a_call_waits_only_if_it_is_another_clients(server, monkeypatch):
    monkeypatch.setattr(session, "CALLS_AT_ONCE", 1)
    settings = config_for(server)
    first = session.AsyncSession(AsyncTransport(settings), settings)
    second = session.AsyncSession(AsyncTransport(settings), settings)
    async with first.call("upload"), first.with_config(settings).call("open"):
        assert not can_start(first)
        assert can_start(second)
        async with second.call("open"):
            assert not can_start(second)
        assert can_start(second)
    assert can_start(first)


def can_start(caller):
    """Whether a further call of this session would start at once."""
    return caller._locks.calls._value > 0


async def test_a_dead_service_soon_gets_no_repeats(server):
    settings = config_for(server, retries={"attempts": 4, "base": 0.001, "budget": 5})
    async with await AsyncClient.init(settings) as client:
        for _ in range(8):
            server.reply(503)
        for expected in (4, 3, 1):
            before = len(server.requests)
            with pytest.raises(ProviderError):
                await client.test_connection()
            assert len(server.requests) - before == expected
        server.reply(200, {"message": "hi"})
        await client.test_connection()
        server.reply(503)
        server.reply(200, {"message": "hi"})
        await client.test_connection()  # the success paid for it
