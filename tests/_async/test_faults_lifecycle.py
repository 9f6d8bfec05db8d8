"""Many calls at once, a client that closes under them, and what is said of it all (T12, T13)."""

import hashlib
import itertools
import json
import logging
import pickle
import threading
import time
import traceback

import pytest

from holdfast import AsyncClient
from holdfast.errors import ClientClosedError, ClientError, NetworkError, VerificationError
from holdfast.testing import Scripted, ScriptedServer, forward_to
from tests._async.parallel import assert_round_trips, in_parallel
from tests._async.test_secrets import assert_no_secret_in
from tests.support import (
    GATEWAY_TOKEN,
    HELLO_CID,
    TOKEN,
    config_for,
    pinned,
    raw_cid,
    wait_until,
)

RETRIES = {"attempts": 4, "base": 0.01, "cap": 0.05}


# T12


async def test_sixty_four_tasks_share_a_client_while_every_fifth_exchange_fails(node):
    forward = forward_to(node.api_url)
    counter = itertools.count(1)
    faults = itertools.cycle(
        [
            Scripted(status=503),
            Scripted(hang_up=True),
            Scripted(hang_up=True, ending="reset"),
            Scripted(status=429, headers={"Retry-After": "0"}),
        ]
    )
    lock = threading.Lock()

    def answer(request):
        with lock:
            fault = next(faults) if next(counter) % 5 == 0 else None
        return forward(request) if fault is None else fault

    with ScriptedServer(answer) as server:
        config = node.config.with_options(
            pin_api_url=server.url,
            gateway_url=f"{server.url}/ipfs",
            retries={"attempts": 10, "base": 0.01, "cap": 0.05, "budget": 1000},
        )
        async with await AsyncClient.init(config) as client:
            start = time.monotonic()
            await assert_round_trips(client, 64)
            assert time.monotonic() - start < 30
    # Four exchanges for each, and one more for each that failed.
    requests = len(server.requests)
    assert requests == 4 * 64 + requests // 5


async def test_a_thousand_calls_at_once_keep_to_the_rate_limit():
    count, interval = 1000, 0.006
    arrivals = []
    lock = threading.Lock()

    def answer(request):
        with lock:
            arrivals.append(time.monotonic())
        return Scripted(body=pinned())

    with ScriptedServer(answer) as server:
        # The wait for a turn is longer than the time for a whole call, and not counted.
        config = config_for(
            server, retries=RETRIES, rate_limit=60 / interval, timeouts={"total": 5}
        )
        async with await AsyncClient.init(config) as client:
            start = time.monotonic()
            records = await in_parallel((lambda: client.store(1)) for _ in range(count))
            assert time.monotonic() - start < 60
    assert [record.cid for record in records] == [HELLO_CID] * count
    assert len(arrivals) == count
    # A timer may be early by a hair.
    for number, arrival in enumerate(sorted(arrivals)):
        assert arrival - start > number * interval - 0.002


async def assert_closing_ends(client, call, *, when):
    """Assert that `call` fails if the client is closed, once `when` returns what is true."""
    start = time.monotonic()

    async def fail():
        with pytest.raises(ClientClosedError):
            await call()

    async def close():
        while not when():
            await in_parallel([nothing])
        await client.aclose()

    async def nothing():
        pass

    await in_parallel([fail, close])
    assert time.monotonic() - start < 10


async def test_closing_while_a_call_waits_to_try_again_ends_the_call(server):
    # The wait goes on to its end, and then nothing is sent.
    for _ in range(4):
        server.reply(503, headers={"Retry-After": "2"})
    events = []
    config = config_for(server, retries=RETRIES, on_event=events.append)
    client = await AsyncClient.init(config)
    await assert_closing_ends(
        client,
        lambda: client.store(1),
        when=lambda: any(event.kind == "retry" for event in events),
    )
    assert len(server.requests) == 1


async def test_closing_while_a_body_comes_ends_the_download(server, tmp_path):
    data = hashlib.shake_128(b"body").digest(3_000_000)
    for _ in range(4):
        server.reply(200, data, cut=2_500_000, ending="stall")
    # A blocking read notices that its client is closed when the time for it is over.
    limits = {"read": 2}
    config = config_for(server, retries=RETRIES, timeouts=limits, cache_path=tmp_path / "cache")
    client = await AsyncClient.init(config)
    (tmp_path / "target").mkdir()
    await assert_closing_ends(
        client,
        lambda: client.download(raw_cid(data), to=tmp_path / "target" / "file"),
        when=lambda: server.requests,
    )
    assert len(server.requests) == 1
    assert list((tmp_path / "target").iterdir()) == []


# T13

CALLS = {
    "store": ({"a": 1},),
    "upload": (b"hello" * 1000,),
    "revoke": (HELLO_CID,),
    "test_connection": (),
    "retrieve": (HELLO_CID,),
    "download": (HELLO_CID,),
}
ECHO = f"token {TOKEN} or {GATEWAY_TOKEN}"
FAULTS = {
    "503 that echoes": {"status": 503, "body": {"error": {"reason": ECHO, "details": ECHO}}},
    "429 that echoes": {"status": 429, "body": {"message": ECHO}, "headers": {"Retry-After": "0"}},
    "reset": {"hang_up": True, "ending": "reset"},
    "cut": {"status": 200, "body": b"nonsense", "cut": 3},
    "stall": {"status": 200, "body": b"nonsense", "cut": 3, "ending": "stall"},
    "no HTTP": {"raw": f"{ECHO}\r\n\r\n".encode()},
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("call", CALLS)
async def test_nothing_that_is_said_of_four_failures_holds_a_secret(server, caplog, call, fault):
    for _ in range(4):
        server.reply(**fault)
    events = []
    config = config_for(
        server,
        retries=RETRIES,
        timeouts={"connect": 10, "read": 0.1, "write": 10, "total": 20},
        gateway_token=GATEWAY_TOKEN,
        on_event=events.append,
    )
    # Each peer knows one of the two; the other in an echo is the test's own making.
    secret = GATEWAY_TOKEN if call in {"retrieve", "download"} else TOKEN
    with caplog.at_level(logging.DEBUG):
        async with await AsyncClient.init(config) as client:
            with pytest.raises(ClientError) as caught:
                await getattr(client, call)(*CALLS[call])
    wait_until(lambda: len(server.requests) == 4)
    assert [event.kind for event in events].count("request") == 4
    assert [event.kind for event in events].count("retry") == 3
    assert events[-1].kind == "call"
    assert events[-1].error == type(caught.value).__name__

    assert_no_secret_in(caught.value, only=secret)
    said = {
        "message": str(caught.value),
        "repr": repr(caught.value),
        "notes": "\n".join(getattr(caught.value, "__notes__", [])),
        "traceback": "".join(traceback.format_exception(caught.value)),
        "events": repr(events) + repr([pickle.dumps(event) for event in events]),
        "pickle": repr(pickle.dumps(caught.value)),
        "log": "\n".join(record.getMessage() + repr(vars(record)) for record in caplog.records),
    }
    assert said["log"]
    assert [where for where, text in said.items() if secret in text] == []


@pytest.mark.parametrize("header", ["X-Request-Id", "CF-Ray"])
@pytest.mark.parametrize("call", ["store", "download"])
async def test_the_name_of_a_request_that_echoes_the_token_holds_no_secret(server, call, header):
    server.reply(400, {"error": "no"}, headers={header: ECHO})
    config = config_for(server, retries=RETRIES, gateway_token=GATEWAY_TOKEN)
    async with await AsyncClient.init(config) as client:
        with pytest.raises(ClientError) as caught:
            await getattr(client, call)(*CALLS[call])
    assert len(server.requests) == 1
    said = repr(vars(caught.value)) + repr(pickle.dumps(caught.value))
    assert (TOKEN if call == "store" else GATEWAY_TOKEN) not in said


async def test_nothing_that_is_said_of_wrong_bytes_holds_a_secret(server, other_server, caplog):
    server.reply(200, b"wrong")
    other_server.reply(302, headers={"Location": f"http://u:{GATEWAY_TOKEN}@127.0.0.1/"})
    events = []
    config = config_for(
        server,
        retries=RETRIES,
        gateway_url=[server.url, other_server.url],
        gateway_token=GATEWAY_TOKEN,
        on_event=events.append,
    )
    with caplog.at_level(logging.DEBUG):
        async with await AsyncClient.init(config) as client:
            with pytest.raises(VerificationError) as caught:
                await client.download(HELLO_CID)
    assert (len(server.requests), len(other_server.requests)) == (1, 1)
    assert [event.kind for event in events].count("gateway") == 2
    assert_no_secret_in(caught.value)
    said = repr(events) + repr([vars(record) for record in caplog.records])
    assert GATEWAY_TOKEN not in said


async def test_a_log_as_json_holds_no_secret(server, caplog):
    """What a collector of logs or traces would send on: the facts beside the words."""
    for _ in range(4):
        server.reply(hang_up=True)
    with caplog.at_level(logging.DEBUG, logger="holdfast"):
        async with await AsyncClient.init(config_for(server, retries=RETRIES)) as client:
            with pytest.raises(NetworkError):
                await client.store(1)
    records = [record for record in caplog.records if record.name == "holdfast"]
    assert {record.operation for record in records} == {"store"}
    assert [record.kind for record in records].count("retry") == 3
    assert TOKEN not in json.dumps([vars(record) for record in records], default=repr)
