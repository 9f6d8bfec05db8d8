"""Waits that a peer asks for with Retry-After: kept, within one budget for all waits of a call.

The header knows no smaller unit than seconds. Where a test asks what is waited for and not how the
time passes, a second lasts a twentieth of one.
"""

import random
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast import AsyncClient, ClientConfig, Retries
from holdfast._async import session
from holdfast.content.profiles import MIB, UNIXFS_V1_2025
from holdfast.errors import ConfigError, NotFoundError, ProviderError, RateLimitError
from holdfast.protocol.retrying import Backoff, RetryBudget
from holdfast.testing import Scripted, ScriptedServer
from tests.content import Blocks
from tests.gateways import gateway, kind_of, pin
from tests.support import HELLO_CID, config_for, pinned, raw_cid

TEXT = b"[1,2,3]"
CID = raw_cid(TEXT)
DATA = bytes(range(250)) * 24_000
QUICK = {"attempts": 4, "base": 0.001, "cap": 0.001}


def later(seconds, status=429):
    return {"status": status, "headers": {"Retry-After": str(seconds)}}


async def client_for(server, *more, **changes):
    """A client of these servers' gateways and the first one's pinning API."""
    urls = [f"{each.url}/ipfs" for each in (server, *more)]
    fields = {"gateway_url": urls, "retries": QUICK, **changes}
    return await AsyncClient.init(config_for(server, **fields))


@pytest.fixture
def short_seconds(monkeypatch):
    sleep = session.sleep

    async def sleep_shorter(seconds):
        await sleep(seconds / 20)

    monkeypatch.setattr(session, "sleep", sleep_shorter)


def waits_among(events):
    return [round(event.delay, 1) for event in events if event.kind == "retry"]


def test_the_default_is_two_minutes_for_all_waits_of_a_call():
    assert Retries().max_retry_after == 120
    backoff = Backoff(Retries(), RetryBudget(10), random.uniform)
    assert backoff.next_delay(60) == 60
    assert backoff.next_delay(60, waited=60) == 60
    assert backoff.next_delay(0, waited=120) == 0
    backoff.restart()
    assert backoff.next_delay(61, waited=60) is None
    assert backoff.next_delay(120.5) is None


def test_waits_of_our_own_choice_are_no_part_of_it():
    backoff = Backoff(
        Retries(attempts=9, base=5, cap=5, max_retry_after=0), RetryBudget(10), random.uniform
    )
    assert backoff.next_delay() is not None
    assert backoff.next_delay(waited=1000) is not None
    assert backoff.next_delay(left=0) is None
    assert backoff.next_delay(0, left=1) == 0
    assert backoff.next_delay(0, left=0) is None
    assert backoff.next_delay(1) is None


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "60", True])
def test_it_is_a_number_of_seconds(value):
    with pytest.raises(ConfigError, match=r"retries\.max_retry_after must be a number"):
        Retries(max_retry_after=value)


def test_it_is_set_from_the_environment(monkeypatch):
    monkeypatch.setenv("HOLDFAST_RETRIES", "max_retry_after=7.5")
    assert ClientConfig.from_env().retries == Retries(max_retry_after=7.5)


@pytest.mark.parametrize("operation", ["store", "retrieve"])
async def test_a_wait_that_was_asked_for_does_not_count_against_the_total(server, operation):
    server.reply(**later(2))
    server.reply(200, pinned(CID) if operation == "store" else TEXT)
    events = []
    changes = {"timeouts": {"total": 1.8}, "on_event": events.append}
    async with await client_for(server, **changes) as client:
        argument = [1, 2, 3] if operation == "store" else CID
        assert await getattr(client, operation)(argument)
    assert waits_among(events) == [2]
    assert len(server.requests) == 2


async def test_the_rest_of_the_total_still_holds_after_it(server):
    server.reply(**later(1))
    server.reply(200, pinned(CID), delay=30)
    start = time.monotonic()
    async with await client_for(server, timeouts={"total": 1.2}) as client:
        with pytest.raises(TimeoutError):
            await client.store(1)
    assert 2.1 < time.monotonic() - start < 15
    assert len(server.requests) == 2


@pytest.mark.usefixtures("short_seconds")
async def test_all_waits_of_a_call_share_the_budget(server):
    for _ in range(2):
        server.reply(**later(1, 503))
    async with await client_for(server, retries={**QUICK, "max_retry_after": 1.5}) as client:
        with pytest.raises(ProviderError) as caught:
            await client.store(1)
        assert (caught.value.status, caught.value.retry_after) == (503, 1)
        assert len(server.requests) == 2
        # The next call has a budget of its own.
        server.reply(200, pinned(CID))
        assert (await client.store(1)).cid == CID


@pytest.mark.usefixtures("short_seconds")
async def test_progress_of_a_download_gives_no_more_of_it(node):
    """Every second body breaks off after more bytes; the others are a wish for a wait."""
    cid = pin(node, DATA, UNIXFS_V1_2025)
    seen = []

    def change(kind, request, reply):
        if kind != "plain":
            return reply
        seen.append(kind)
        return replace(reply, cut=MIB + 1000) if len(seen) % 2 else Scripted(**later(1))

    retries = {**QUICK, "max_retry_after": 1}
    with gateway(node, change) as server:
        async with await client_for(server, retries=retries) as client:
            with pytest.raises(RateLimitError):
                await client.download(cid)
    assert len(seen) == 4


@pytest.mark.usefixtures("short_seconds")
async def test_a_wait_asked_for_in_place_of_a_block_is_kept_too(node):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    seen = []

    def change(kind, request, reply):
        seen.append(kind)
        return Scripted(**later(1)) if seen.count(kind) == 1 and kind == "raw" else reply

    events = []
    with gateway(node, change) as server:
        async with await client_for(server, on_event=events.append) as client:
            assert (await client.download(cid)).read() == DATA
    assert waits_among(events) == [1]


@pytest.mark.parametrize("operation", ["store", "upload", "retrieve", "download", "revoke"])
async def test_a_minute_is_not_cut_short(server, operation):
    """A wait that is longer than the budget is not begun, rather than begun and cut."""
    server.reply(**later(60))
    calls = {
        "store": lambda client: client.store(1),
        "upload": lambda client: client.upload(b"1"),
        "retrieve": lambda client: client.retrieve(CID),
        "download": lambda client: client.download(CID),
        "revoke": lambda client: client.revoke(CID),
    }
    async with await client_for(server, retries={**QUICK, "max_retry_after": 59}) as client:
        with pytest.raises(RateLimitError) as caught:
            await calls[operation](client)
    assert caught.value.retry_after == 60
    assert len(server.requests) == 1


@pytest.mark.usefixtures("short_seconds")
async def test_a_date_is_waited_for(server):
    moment = datetime.now(UTC) + timedelta(seconds=1.5)
    server.reply(429, headers={"Retry-After": format_datetime(moment, usegmt=True)})
    server.reply(200, pinned(CID))
    events = []
    async with await client_for(server, on_event=events.append) as client:
        await client.store(1)
    (retry,) = (event for event in events if event.kind == "retry")
    assert 0 <= retry.delay <= 1.5


@pytest.mark.usefixtures("short_seconds")
async def test_the_pages_of_a_list_share_the_budget(server):
    def page(start):
        row = {"ipfs_pin_hash": HELLO_CID, "size": 1, "date_pinned": "2024-07-11T23:33:27Z"}
        return {"rows": [{**row, "id": str(number)} for number in range(start, start + 1000)]}

    server.reply(**later(1))
    server.reply(200, page(0))
    server.reply(**later(1))
    server.reply(200, page(1000))
    async with await client_for(server, retries={**QUICK, "max_retry_after": 1}) as client:
        with pytest.raises(RateLimitError):
            await client.pins()
    offsets = [parse_qs(urlsplit(each.target).query)["pageOffset"] for each in server.requests]
    assert offsets == [["0"], ["0"], ["999"]]  # pages overlap by one pin


@pytest.mark.usefixtures("short_seconds")
async def test_the_steps_of_open_share_the_budget():
    """The first step finds that there are no blocks, and the second fetches the whole file."""
    asked = []

    def script(request):
        asked.append(kind_of(request))
        whole = asked[-1] == "plain" and "range" not in request.headers
        return Scripted(**later(1)) if len(asked) == 1 or whole else Scripted(status=406)

    with ScriptedServer(script) as server:
        async with await client_for(server, retries={**QUICK, "max_retry_after": 1}) as client:
            with pytest.raises(RateLimitError):
                await client.open(str(Blocks.of_file(DATA, UNIXFS_V1_2025)[0]))
    assert asked[0] != "plain"
    assert asked.count("plain") == 1


# Several gateways


async def test_the_next_gateway_is_asked_first(server, other_server):
    for _ in range(2):
        server.reply(**later(60))
        other_server.reply(200, TEXT)
    start = time.monotonic()
    async with await client_for(server, other_server) as client:
        assert await client.retrieve(CID) == [1, 2, 3]
        assert (await client.download(CID)).read() == TEXT
    assert time.monotonic() - start < 20
    # The second call asks the one that is overloaded last.
    assert [len(server.requests), len(other_server.requests)] == [1, 2]


async def test_a_gateway_that_asks_for_a_wait_holds_up_no_other(server, other_server):
    """The second gateway fails without a wish, is asked again at once, and has it then."""
    server.reply(**later(60))
    other_server.reply(503)
    other_server.reply(200, TEXT)
    async with await client_for(server, other_server) as client:
        assert await client.retrieve(CID) == [1, 2, 3]
    assert [len(server.requests), len(other_server.requests)] == [1, 2]


@pytest.mark.usefixtures("short_seconds")
async def test_of_several_waits_the_soonest_is_kept(server, other_server):
    server.reply(**later(60))
    other_server.reply(**later(1))
    other_server.reply(200, TEXT)
    events = []
    async with await client_for(server, other_server, on_event=events.append) as client:
        assert await client.retrieve(CID) == [1, 2, 3]
    assert waits_among(events) == [1]
    assert [len(server.requests), len(other_server.requests)] == [1, 2]


@pytest.mark.usefixtures("short_seconds")
async def test_a_gateway_is_waited_for_where_no_other_has_the_content(server, other_server):
    server.reply(**later(1))
    server.reply(200, TEXT)
    other_server.reply(404)
    async with await client_for(server, other_server) as client:
        assert await client.retrieve(CID) == [1, 2, 3]
    assert [len(server.requests), len(other_server.requests)] == [2, 1]


async def test_time_that_passes_counts_for_every_gateway_that_asked(server, other_server):
    """The first asks for 3 s. The second asks for 1 s and then 2 s: then both may be asked."""
    server.reply(**later(3))
    server.reply(200, TEXT)
    for seconds in (1, 2):
        other_server.reply(**later(seconds))
    events = []
    async with await client_for(server, other_server, on_event=events.append) as client:
        assert await client.retrieve(CID) == [1, 2, 3]
    first, second = waits_among(events)
    assert first == 1
    assert second <= 2
    assert len(server.requests) == 2


async def test_too_long_a_wait_at_every_gateway_is_an_error_at_once(server, other_server):
    server.reply(**later(600, 503))
    other_server.reply(**later(121))
    async with await client_for(server, other_server) as client:
        with pytest.raises(RateLimitError) as caught:
            await client.retrieve(CID)
    assert caught.value.retry_after == 121
    assert any("HTTP error 503" in note for note in caught.value.__notes__)
    assert [len(server.requests), len(other_server.requests)] == [1, 1]


async def test_a_status_that_is_final_is_not_waited_for(server):
    server.reply(404, headers={"Retry-After": "1"})
    async with await client_for(server) as client:
        with pytest.raises(NotFoundError) as caught:
            await client.retrieve(CID)
    assert caught.value.retry_after == 1
    assert len(server.requests) == 1


async def test_the_rate_limit_is_not_changed_by_it(server):
    """The turns of 600 requests a minute come after the wait that was asked for, not within it."""
    server.reply(**later(2))
    for _ in range(3):
        server.reply(200, pinned(CID))
    start = time.monotonic()
    async with await client_for(server, rate_limit=600, timeouts={"total": 1.8}) as client:
        for _ in range(3):
            await client.store(1)
    assert time.monotonic() - start >= 2.2
    assert len(server.requests) == 4
