"""Failed statuses: which are tried again, how often, and after what wait."""

import time
import traceback
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from holdfast import AsyncClient
from holdfast.errors import (
    AuthenticationError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
)
from tests.support import GATEWAY_TOKEN, TOKEN, config_for, pinned, raw_cid

RETRIES = {"attempts": 4, "base": 0.01, "cap": 0.05}
TIMEOUTS = {"connect": 15, "read": 15, "write": 15, "total": 60}
LONGEST = 50  # seconds; far more than any of these needs

TEXT = b"[1,2,3]"
CID = raw_cid(TEXT)

CALLS = {
    "store": lambda client: client.store([1, 2, 3]),
    "upload": lambda client: client.upload(TEXT),
    "retrieve": lambda client: client.retrieve(CID),
    "download": lambda client: client.download(CID),
    "revoke": lambda client: client.revoke(CID),
    "test_connection": lambda client: client.test_connection(),
}
GOOD = {
    "store": pinned(CID),
    "upload": pinned(CID),
    "retrieve": TEXT,
    "download": TEXT,
    "revoke": b"OK",
    "test_connection": {"message": "hi"},
}
FINAL = [400, 401, 402, 403, 404, 405, 409, 410, 413, 415, 422, 451, 520]
PASSING = [408, 425, 429, 500, 502, 503, 504]
CLASSES = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    429: RateLimitError,
}

each_call = pytest.mark.parametrize("operation", CALLS)


def each_status(statuses, spots):
    """Each of `statuses` on a store, and the `spots` among them on all other calls."""
    others = [operation for operation in CALLS if operation != "store"]
    cases = [("store", status) for status in statuses]
    cases += [(operation, status) for operation in others for status in spots]
    return pytest.mark.parametrize(("operation", "status"), cases)


async def result_of(operation, server, **changes):
    """What the call returns, within the time that it may take."""
    options = {
        "retries": RETRIES,
        "timeouts": TIMEOUTS,
        "gateway_token": GATEWAY_TOKEN,
        **changes,
    }
    start = time.monotonic()
    try:
        async with await AsyncClient.init(config_for(server, **options)) as client:
            return await CALLS[operation](client)
    finally:
        assert time.monotonic() - start < LONGEST


async def error_of(operation, server, **changes):
    """The error that the call ends with; it shows no secret."""
    with pytest.raises(ProviderError) as caught:
        await result_of(operation, server, **changes)
    error = caught.value
    shown = "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
    assert TOKEN not in shown
    assert GATEWAY_TOKEN not in shown
    return error


def reply_often(server, status, **how):
    """More of the same than anybody may ask for."""
    for _ in range(6):
        server.reply(status, b"<html></html>", **how)


def retries_among(events):
    return [event for event in events if event.kind == "retry"]


@each_status(FINAL, [401, 404, 520])
async def test_a_status_that_will_not_pass_is_not_tried_again(server, operation, status):
    reply_often(server, status, headers={"Retry-After": "0"})
    error = await error_of(operation, server)
    assert type(error) is CLASSES.get(status, ProviderError)
    assert (str(error), error.status) == (f"HTTP error {status}", status)
    assert len(server.requests) == 1


@each_status(PASSING, PASSING)
async def test_a_status_that_may_pass_is_tried_four_times(server, operation, status):
    reply_often(server, status)
    error = await error_of(operation, server)
    assert type(error) is CLASSES.get(status, ProviderError)
    assert (str(error), error.status) == (f"HTTP error {status}", status)
    assert len(server.requests) == 4
    first, *others = server.requests
    assert all((each.target, each.body) == (first.target, first.body) for each in others)


@each_status(PASSING, [429, 503])
async def test_a_status_that_passes_is_got_over(server, operation, status):
    for _ in range(3):
        server.reply(status)
    server.reply(200, GOOD[operation])
    assert await result_of(operation, server)
    assert len(server.requests) == 4


@pytest.mark.parametrize("operation", ["store", "retrieve"])
@pytest.mark.parametrize("attempts", [1, 2, 5])
async def test_attempts_are_the_callers_choice(server, operation, attempts):
    reply_often(server, 503)
    await error_of(operation, server, retries={**RETRIES, "attempts": attempts})
    assert len(server.requests) == attempts


async def test_the_last_status_is_the_error(server):
    for status in (503, 429, 500, 403):
        server.reply(status)
    error = await error_of("store", server)
    assert type(error) is PermissionDeniedError
    assert len(server.requests) == 4


async def test_repeats_of_all_calls_share_a_budget(server):
    options = {"timeouts": TIMEOUTS, "retries": {**RETRIES, "budget": 2}}
    reply_often(server, 503)
    async with await AsyncClient.init(config_for(server, **options)) as client:
        for asked in (3, 4, 5):
            with pytest.raises(ProviderError):
                await client.store(1)
            assert len(server.requests) == asked


async def test_a_success_gives_a_repeat_back(server):
    options = {"timeouts": TIMEOUTS, "retries": {**RETRIES, "budget": 1}}
    async with await AsyncClient.init(config_for(server, **options)) as client:
        for _ in range(3):
            server.reply(503)
            server.reply(200, pinned(CID))
            assert (await client.store(1)).cid == CID
    assert len(server.requests) == 6


# Retry-After; more of it is in test_hardening_17_retry_after.py

BASE = 0.001  # so that a wait of our own choice cannot be taken for one that was asked for
OWN = (0, BASE)  # the wait of our own choice, after one attempt
LONG = 0.5  # seconds: the value of max_retry_after


def http_date(seconds):
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


def reply_later(server, status, *values):
    """Reply with a status and fields Retry-After of these values."""
    fields = "".join(f"Retry-After: {value}\r\n" for value in values)
    head = f"HTTP/1.1 {status} Later\r\nContent-Length: 0\r\nConnection: close\r\n{fields}\r\n"
    server.reply(raw=head.encode("latin-1"))


a_write_and_a_read = pytest.mark.parametrize(
    ("operation", "status"), [("store", 429), ("retrieve", 503)], ids=["write", "read"]
)


@pytest.mark.parametrize(
    ("values", "wait"),
    [
        (["0"], (0, 0)),
        (["0" * 400], (0, 0)),
        ([http_date(-3600)], (0, 0)),
        (["-1"], OWN),
        (["0.2"], OWN),
        (["abc"], OWN),
        (["1e9"], OWN),
        (["1", "1"], OWN),
        (["1", "abc"], OWN),
        ([""], OWN),
        (["Sun, 06 Nov 99999999 08:49:37 GMT"], OWN),
        (["\u0661".encode().decode("latin-1")], OWN),
    ],
    ids=[
        "0",
        "400 zeros",
        "a date that is past",
        "negative",
        "a float",
        "no number",
        "1e9",
        "twice",
        "twice, once nonsense",
        "empty",
        "a year without end",
        "a digit of another script",
    ],
)
@a_write_and_a_read
async def test_a_wish_that_makes_no_sense_is_ignored(server, operation, status, values, wait):
    reply_later(server, status, *values)
    server.reply(200, GOOD[operation])
    events = []
    retries = {"attempts": 4, "base": BASE, "max_retry_after": LONG}
    assert await result_of(operation, server, retries=retries, on_event=events.append)
    (retry,) = retries_among(events)
    lowest, highest = wait
    assert lowest <= retry.delay <= highest
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("1", (1, 1)),
        ("60", (60, 60)),
        (http_date(3600), (2000, 3600)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", (1e9, 1e9)),
        ("1000000000", (1e9, 1e9)),
        ("9" * 400, (1e9, 1e9)),
    ],
    ids=["1", "60", "a date", "a date in 8000 years", "1000000000", "400 digits"],
)
@a_write_and_a_read
async def test_a_wait_that_is_too_long_is_the_error_at_once(server, operation, status, value, told):
    reply_later(server, status, value)
    server.reply(200, GOOD[operation])
    events = []
    retries = {**RETRIES, "max_retry_after": LONG}
    error = await error_of(operation, server, retries=retries, on_event=events.append)
    assert (type(error), error.status) == (CLASSES.get(status, ProviderError), status)
    lowest, highest = told
    assert lowest <= error.retry_after <= highest
    assert retries_among(events) == []
    assert len(server.requests) == 1


@pytest.mark.parametrize("operation", ["upload", "download", "revoke"])
async def test_every_call_waits_as_long_as_it_is_asked_to(server, operation):
    server.reply(429, headers={"Retry-After": "1"})
    server.reply(200, GOOD[operation])
    events = []
    start = time.monotonic()
    assert await result_of(operation, server, on_event=events.append)
    assert [event.delay for event in retries_among(events)] == [pytest.approx(1, abs=0.1)]
    assert time.monotonic() - start >= 0.99
    assert len(server.requests) == 2


async def test_each_reply_asks_for_its_own_wait(server):
    for value in ("0", "1", "abc"):
        server.reply(503, headers={"Retry-After": value})
    server.reply(200, pinned(CID))
    events = []
    retries = {"attempts": 4, "base": BASE}
    assert await result_of("store", server, retries=retries, on_event=events.append)
    first, second, third = (event.delay for event in retries_among(events))
    assert (first, second) == (0, 1)
    assert third <= 4 * BASE


@pytest.mark.parametrize("operation", ["store", "retrieve"])
async def test_a_date_is_told_in_seconds(server, operation):
    server.reply(429, headers={"Retry-After": http_date(3600)})
    error = await error_of(operation, server, retries={"attempts": 1})
    assert 2000 < error.retry_after <= 3600


@pytest.mark.parametrize("operation", ["store", "retrieve"])
async def test_without_a_word_the_waits_grow_up_to_the_cap(server, operation):
    reply_often(server, 503)
    events = []
    retries = {"attempts": 6, "base": 0.01, "cap": 0.04}
    await error_of(operation, server, retries=retries, on_event=events.append)
    delays = [event.delay for event in retries_among(events)]
    assert len(server.requests) == 6
    assert all(
        0 <= delay <= most
        for delay, most in zip(delays, [0.01, 0.02, 0.04, 0.04, 0.04], strict=True)
    )
    assert len(set(delays)) == 5  # they are random: callers that failed together part


@pytest.mark.parametrize("operation", ["store", "retrieve"])
async def test_a_retry_is_told_with_the_status_that_it_follows(server, operation):
    server.reply(503)
    server.reply(200, GOOD[operation])
    events = []
    assert await result_of(operation, server, on_event=events.append)
    (retry,) = retries_among(events)
    assert retry.status == 503
