"""Failed statuses: which requests are sent again, how often, and after what wait.

Each status and value of Retry-After is a row of `tests/test_protocol.py`. The header knows no
smaller unit than seconds. Where a test asks what is waited for and not how the time passes, a
second lasts a twentieth of one.
"""

import time
from dataclasses import replace

import pytest

from holdfast import AsyncClient
from holdfast._async import session
from holdfast.content.profiles import MIB, UNIXFS_V1_2025
from holdfast.errors import (
    AuthenticationError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
)
from holdfast.testing import Scripted
from tests.gateways import gateway, pin
from tests.support import GATEWAY_TOKEN, config_for, pinned, raw_cid
from tests.witness import assert_no_secret_in

TEXT = b"[1,2,3]"
CID = raw_cid(TEXT)
DATA = bytes(range(250)) * 24_000
QUICK = {"attempts": 4, "base": 0.001, "cap": 0.001}

CALLS = {
    "store": (lambda client: client.store([1, 2, 3]), pinned(CID)),
    "upload": (lambda client: client.upload(TEXT), pinned(CID)),
    "retrieve": (lambda client: client.retrieve(CID), TEXT),
    "download": (lambda client: client.download(CID), TEXT),
    "revoke": (lambda client: client.revoke(CID), b"OK"),
    "test_connection": (lambda client: client.test_connection(), {"message": "hi"}),
}
each_call = pytest.mark.parametrize(("call", "good"), CALLS.values(), ids=CALLS)
a_write_and_a_read = pytest.mark.parametrize(
    ("call", "good"), [CALLS["store"], CALLS["retrieve"]], ids=["write", "read"]
)


def later(seconds, status=429):
    return {"status": status, "headers": {"Retry-After": str(seconds)}}


async def client_for(server, *more, **changes):
    """A client of these servers' gateways and the first one's pinning API."""
    urls = [f"{gateway.url}/ipfs" for gateway in (server, *more)]
    fields = {
        "gateway_url": urls,
        "gateway_token": GATEWAY_TOKEN,
        "retries": QUICK,
        "timeouts": {"connect": 15, "read": 15, "write": 15, "total": 60},
        **changes,
    }
    return await AsyncClient.init(config_for(server, **fields))


async def error_of(call, server, **changes):
    """The error that a call ends with; it shows no secret."""
    async with await client_for(server, **changes) as client:
        with pytest.raises(ProviderError) as caught:
            await call(client)
    assert_no_secret_in(caught.value)
    return caught.value


@pytest.fixture
def short_seconds(monkeypatch):
    sleep = session.sleep

    async def sleep_shorter(seconds):
        await sleep(seconds / 20)

    monkeypatch.setattr(session, "sleep", sleep_shorter)


def waits_among(events):
    return [round(event.delay, 1) for event in events if event.kind == "retry"]


@each_call
@pytest.mark.parametrize(
    ("status", "kind"), [(401, AuthenticationError), (404, NotFoundError), (520, ProviderError)]
)
async def test_a_status_that_will_not_pass_is_not_tried_again(server, call, good, status, kind):
    server.reply(**later(1, status))
    error = await error_of(call, server)
    assert (type(error), str(error)) == (kind, f"HTTP error {status}")
    assert (error.status, error.retry_after) == (status, 1)
    assert len(server.requests) == 1


@each_call
async def test_a_status_that_may_pass_is_tried_four_times(server, call, good):
    for _ in range(6):
        server.reply(503, b"<html></html>")
    error = await error_of(call, server)
    assert (type(error), str(error), error.status) == (ProviderError, "HTTP error 503", 503)
    assert len(server.requests) == 4
    assert len({(request.target, request.body) for request in server.requests}) == 1


async def test_the_last_status_is_the_error(server):
    for status in (503, 429, 500, 403):
        server.reply(status)
    assert type(await error_of(CALLS["store"][0], server)) is PermissionDeniedError
    assert len(server.requests) == 4


# Retry-After


@each_call
@pytest.mark.usefixtures("short_seconds")
async def test_every_call_waits_as_long_as_it_is_asked_to(server, call, good):
    for value in (0, 1, "abc"):
        server.reply(**later(value))
    server.reply(200, good)
    events = []
    async with await client_for(server, on_event=events.append) as client:
        assert await call(client)
    assert waits_among(events) == [0, 1, 0]
    assert len(server.requests) == 4


@a_write_and_a_read
async def test_a_wish_that_comes_twice_is_ignored(server, call, good):
    fields = b"Retry-After: 1\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n"
    server.reply(raw=b"HTTP/1.1 503 Later\r\n" + fields + b"\r\n")
    server.reply(200, good)
    events = []
    async with await client_for(server, on_event=events.append) as client:
        assert await call(client)
    assert waits_among(events) == [0]


@each_call
async def test_a_wait_that_is_too_long_is_the_error_at_once(server, call, good):
    """It is not begun, rather than begun and cut."""
    server.reply(**later(60))
    error = await error_of(call, server, retries={**QUICK, "max_retry_after": 59})
    assert (type(error), error.retry_after) == (RateLimitError, 60)
    assert len(server.requests) == 1


@a_write_and_a_read
@pytest.mark.slow
async def test_a_wait_that_was_asked_for_is_no_part_of_the_total(server, call, good):
    server.reply(**later(1))
    server.reply(200, good, delay=30)
    start = time.monotonic()
    async with await client_for(server, timeouts={"total": 0.9}) as client:
        with pytest.raises(TimeoutError):
            await call(client)
    assert 1.8 < time.monotonic() - start < 15
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


# Several gateways


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
    """The first asks for 2 s, and the second for 1 s twice: then both may be asked."""
    server.reply(**later(2))
    server.reply(200, TEXT)
    for _ in range(2):
        other_server.reply(**later(1))
    events = []
    async with await client_for(server, other_server, on_event=events.append) as client:
        assert await client.retrieve(CID) == [1, 2, 3]
    first, second = waits_among(events)
    assert first == 1
    assert second <= 1
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
