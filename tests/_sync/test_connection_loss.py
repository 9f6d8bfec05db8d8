# WARNING: this file is generated from tests/_async/test_connection_loss.py
# by scripts/generate_sync.py. Change the original instead.
"""Faults of the line, on writes, reads, unpins and lists: what is sent again, and how often.

Each fault comes once, and the call gets over it; or each time, and the call ends with its error.
"""

import gc
import hashlib
import io
import ssl
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from holdfast import Client, compute_cid
from holdfast._sync.runtime import sleep
from holdfast.errors import (
    NetworkError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
    RequestTimeoutError,
)
from holdfast.testing import Scripted, ScriptedServer, forward_to
from tests import tls
from tests._sync.parallel import in_parallel
from tests.faulty import assert_shows_no_token
from tests.forwarders import Door
from tests.support import GATEWAY_TOKEN, config_for, pinned, raw_cid, wait_until

RETRIES = {"attempts": 4, "base": 0.01, "cap": 0.05}
PATIENT = {"connect": 15, "read": 15, "write": 15, "total": 60}
# Short where a time-out is the fault; still long for a good reply, also from a machine that stalls.
HASTY = {**PATIENT, "connect": 0.8, "read": 0.8, "write": 0.8}
IN_ALL = "the time for the whole call was over: see timeouts.total"
LONGEST = 50  # seconds; far more than any of these needs, far less than for ever

VALUE = [1, 2, 3]
TEXT = b"[1,2,3]"
CID = raw_cid(TEXT)

CALLS = {
    "store": lambda client, target: client.store(VALUE),
    "upload": lambda client, target: client.upload(TEXT),
    "retrieve": lambda client, target: client.retrieve(CID),
    "download": lambda client, target: client.download(CID, to=target),
    "revoke": lambda client, target: client.revoke(CID),
    "pins": lambda client, target: client.pins(),
}
# The body of a good reply, and what the call makes of it.
REPLIES = {
    "store": (pinned(CID), (CID, len(TEXT))),
    "upload": (pinned(CID), (CID, len(TEXT))),
    "retrieve": (TEXT, VALUE),
    "download": (TEXT, TEXT),
    "revoke": (b"OK", True),
    "pins": ({"rows": []}, []),
}
GOOD = {operation: reply for operation, (reply, _) in REPLIES.items()}

pytestmark = pytest.mark.timeout(120)  # a call that hangs for ever is a failure, too

each_call = pytest.mark.parametrize("operation", CALLS)
LIMITED = ["store", "retrieve", "revoke", "pins"]  # calls that have a total


@dataclass
class Outcome:
    """How a call went: its result or its error, how many requests it sent, and its target."""

    target: Path
    result: Any = None
    error: Exception | None = None
    attempts: int = 0
    seconds: float = 0.0

    def assert_good(self, operation):
        assert self.error is None
        result = self.result
        if operation in {"store", "upload"}:
            result = (result.cid, result.size)
        elif operation == "download":
            result = self.target.read_bytes()
        assert result == REPLIES[operation][1]


def outcome_of(operation, server, folder, *, hook=None, call=None, **changes):
    """Make the call; see that it ends in time, leaves no half of a file and shows no secret."""
    outcome = Outcome(folder / "target" / "file")
    outcome.target.parent.mkdir(exist_ok=True)

    def on_event(event):
        outcome.attempts += event.kind == "request"
        if hook is not None:
            hook(event)

    options = {
        "retries": RETRIES,
        "timeouts": PATIENT,
        "gateway_token": GATEWAY_TOKEN,
        "cache_path": folder / "cache",
        "on_event": on_event,
        **changes,
    }
    start = time.monotonic()
    with Client.init(config_for(server, **options)) as client:
        try:
            outcome.result = (call or CALLS[operation])(client, outcome.target)
        except (NetworkError, ProviderError) as error:
            outcome.error = error
    outcome.seconds = time.monotonic() - start
    assert outcome.seconds < LONGEST
    if outcome.error is not None:
        assert list(outcome.target.parent.iterdir()) == []
        assert_shows_no_token(outcome.error)
    return outcome


def check_all(check, folder, *choices):
    """Check each combination of `choices`, with a server of its own.

    All of them at once, because they do little but wait for a time-out.
    """

    def one(number, case):
        def call():
            place = folder / str(number)
            place.mkdir()
            with ScriptedServer() as server:
                try:
                    check(server, place, *case)
                except BaseException as error:
                    error.add_note(f"in the case {case}")
                    raise

        return call

    in_parallel(one(number, case) for number, case in enumerate(product(*choices)))


def to(url):
    """The changes to a configuration that send all calls to `url`."""
    return {"pin_api_url": url, "gateway_url": f"{url}/ipfs"}


# Nobody there


@each_call
def test_a_refused_connection_is_tried_four_times(server, tmp_path, operation):
    with Door(server, refuses=True) as door:
        outcome = outcome_of(operation, server, tmp_path, **to(door.url))
    assert type(outcome.error) is NetworkError
    assert str(outcome.error) == f"cannot connect to {door.peer}: Connection refused"
    assert outcome.error.sent is False
    assert outcome.attempts == 4
    assert server.requests == []


def test_a_connection_that_nobody_accepts_is_tried_four_times(tmp_path):
    def check(server, folder, operation):
        with Door(server, refuses=False) as door:
            outcome = outcome_of(
                operation, server, folder, timeouts={**PATIENT, "connect": 0.1}, **to(door.url)
            )
        assert type(outcome.error) is RequestTimeoutError
        assert str(outcome.error) == f"{door.peer} did not accept a connection in time"
        assert outcome.error.sent is False
        assert outcome.attempts == 4
        assert outcome.seconds >= 0.4

    check_all(check, tmp_path, LIMITED)


@each_call
def test_a_host_that_nobody_knows_is_looked_up_four_times(server, tmp_path, operation):
    outcome = outcome_of(operation, server, tmp_path, **to("https://no-such-host.invalid"))
    assert type(outcome.error) is NetworkError
    assert str(outcome.error).startswith("cannot find the host no-such-host.invalid")
    assert outcome.attempts == 4


# TLS


@each_call
@pytest.mark.parametrize(
    ("host", "context"),
    [("127.0.0.1", ssl.create_default_context), ("elsewhere.example", tls.trusting)],
    ids=["nobody who is trusted signed it", "wrong host"],
)
def test_a_wrong_certificate_is_not_asked_for_twice(tmp_path, operation, host, context):
    with ScriptedServer(tls=tls.serving(host)) as server:
        outcome = outcome_of(operation, server, tmp_path, ssl_context=context())
    assert type(outcome.error) is NetworkError
    assert str(outcome.error).startswith(f"no secure connection to 127.0.0.1:{server.port}")
    assert "certificate verify failed" in str(outcome.error).lower().replace("_", " ")
    assert outcome.error.transient is False
    assert outcome.attempts == 1
    assert server.requests == []


# The line breaks, or nothing comes

RESETS = {
    "reset before the headers": {"hang_up": True, "ending": "reset"},
    "reset amid the headers": {"cut_head": 25, "ending": "reset"},
    "reset amid the body": {"cut": 1, "ending": "reset"},
    "closed before the headers": {"hang_up": True},
    "closed in the status line": {"cut_head": 10},
    "closed amid the headers": {"cut_head": 25},
    "closed behind the last header": {"cut_head": -2},
    "closed amid the body": {"cut": 1},
    "closed amid a chunked body": {"cut": 4, "chunked": True},
}
STALLS = {
    "stall before the headers": {"hang_up": True, "ending": "stall"},
    "stall amid the headers": {"cut_head": 25, "ending": "stall"},
    "stall amid the body": {"cut": 1, "ending": "stall"},
    "100-continue and then nothing": {
        "raw": b"HTTP/1.1 100 Continue\r\n\r\n",
        "cut": 100,
        "ending": "stall",
    },
}


each_fault = pytest.mark.parametrize(
    ("operation", "fault"),
    [
        *((operation, fault) for operation in ("upload", "retrieve") for fault in RESETS),
        *((operation, "reset before the headers") for operation in CALLS),
        *((operation, "closed amid the body") for operation in CALLS),
    ],
)


@each_fault
def test_a_broken_exchange_is_got_over(server, tmp_path, operation, fault):
    server.reply(200, GOOD[operation], **RESETS[fault])
    server.reply(200, GOOD[operation])
    outcome = outcome_of(operation, server, tmp_path)
    outcome.assert_good(operation)
    assert (len(server.requests), outcome.attempts) == (2, 2)
    first, second = server.requests
    assert (first.method, first.target, first.body) == (second.method, second.target, second.body)
    assert "expect" not in first.headers


@each_fault
def test_an_exchange_that_always_breaks_is_tried_four_times(server, tmp_path, operation, fault):
    for _ in range(6):
        server.reply(200, GOOD[operation], **RESETS[fault])
    outcome = outcome_of(operation, server, tmp_path)
    assert type(outcome.error) is NetworkError
    assert str(outcome.error).startswith(f"the connection to 127.0.0.1:{server.port} broke")
    assert outcome.error.sent is True
    assert (len(server.requests), outcome.attempts) == (4, 4)
    if operation not in {"retrieve", "download"}:
        assert outcome.error.__notes__ == ["after 4 attempts"]


def test_an_exchange_that_always_stalls_is_tried_four_times(tmp_path):
    def check(server, folder, operation, fault):
        for _ in range(6):
            server.reply(200, GOOD[operation], **STALLS[fault])
        outcome = outcome_of(operation, server, folder, timeouts={**PATIENT, "read": 0.1})
        assert type(outcome.error) is RequestTimeoutError
        assert str(outcome.error) == f"127.0.0.1:{server.port} did not answer in time"
        assert IN_ALL not in getattr(outcome.error, "__notes__", ())
        # The server may be slow to notice a request that was given up.
        wait_until(lambda: len(server.requests) == outcome.attempts)
        assert len(server.requests) == 4
        assert outcome.seconds >= 0.4

    check_all(check, tmp_path, ["store", "download", "revoke"], STALLS)


def test_a_drip_ends_by_the_total_and_is_not_tried_again(tmp_path):
    # Each byte comes long before the read time-out; none of the replies would end in an hour.
    def check(server, folder, operation, drip):
        for _ in range(2):
            server.reply(200, b" " * 100_000, drip=drip)
        limits = {**PATIENT, "total": 1}
        outcome = outcome_of(operation, server, folder, timeouts=limits)
        assert type(outcome.error) is RequestTimeoutError
        assert str(outcome.error) == f"127.0.0.1:{server.port} did not answer in time"
        assert IN_ALL in outcome.error.__notes__
        assert len(server.requests) == 1
        assert outcome.seconds >= 1

    # The first takes that long for the headers, the second for the body.
    check_all(check, tmp_path, LIMITED, [0.05, 0.002])


def test_stalls_are_tried_again_only_within_the_total(tmp_path):
    def check(server, folder, operation):
        for _ in range(4):
            server.reply(hang_up=True, ending="stall")
        limits = {**PATIENT, "read": 0.8, "total": 1.5}
        outcome = outcome_of(operation, server, folder, timeouts=limits)
        assert type(outcome.error) is RequestTimeoutError
        assert outcome.attempts == 2
        # The server may be slow to notice a request that was given up.
        wait_until(lambda: len(server.requests) == 2)
        assert outcome.seconds >= 1.5

    check_all(check, tmp_path, LIMITED)


@pytest.mark.parametrize("operation", ["upload", "download"])
def test_a_drip_of_a_transfer_has_no_total(server, tmp_path, operation):
    # Slow progress is progress; the whole takes longer than the total.
    server.reply(200, GOOD[operation], drip=0.004)
    limits = {**PATIENT, "total": 0.1}
    outcome = outcome_of(operation, server, tmp_path, timeouts=limits)
    outcome.assert_good(operation)
    assert len(server.requests) == 1
    assert outcome.seconds > 0.1


# Replies before their time


@each_call
def test_an_early_413_is_the_error_and_nothing_is_sent_again(server, tmp_path, operation):
    large = {
        "store": lambda client, _: client.store("x" * 8_000_000),
        "upload": lambda client, _: client.upload(b"x" * 30_000_000),
    }
    for _ in range(2):
        server.reply(413, {"error": "File too large"}, early=True)
    outcome = outcome_of(operation, server, tmp_path, call=large.get(operation))
    assert type(outcome.error) is ProviderError
    assert (str(outcome.error), outcome.error.status) == ("File too large", 413)
    assert len(server.requests) == 1


# Idle connections


@each_call
def test_an_idle_connection_that_the_server_closed_is_replaced(server, tmp_path, operation):
    # The first reply promises to keep the connection, and then it is closed.
    whole = b"".join(Scripted(body=GOOD[operation]).head_and_body())
    for _ in range(2):
        server.reply(raw=whole)
    server.reply(200, GOOD[operation])

    def thrice(client, target):
        CALLS[operation](client, target)
        CALLS[operation](client, target)
        sleep(0.05)
        return CALLS[operation](client, target)

    outcome = outcome_of(operation, server, tmp_path, call=thrice)
    outcome.assert_good(operation)
    # Further attempts there may be that found the connection closed; nobody has read them.
    assert (len(server.requests), server.connections) == (3, 3)
    assert outcome.attempts <= 5


@pytest.mark.parametrize("operation", ["store", "retrieve"])
def test_a_client_that_met_a_fault_leaves_no_connection_open(server, tmp_path, operation):
    server.reply(hang_up=True, ending="reset")
    server.reply(200, GOOD[operation])
    gc.disable()  # what only the collector would close is open for nobody knows how long
    try:
        outcome = outcome_of(operation, server, tmp_path)
        wait_until(lambda: not server._open)
    finally:
        gc.enable()
    outcome.assert_good(operation)


# Replies that are lost after the server has done what it was asked


@pytest.mark.parametrize("ending", ["close", "reset", "stall"])
@pytest.mark.parametrize("operation", ["store", "upload", "revoke"])
def test_a_write_whose_reply_is_lost_is_done_once(empty_node, tmp_path, operation, ending):
    if operation == "revoke":
        with Client.init(empty_node.config) as direct:
            direct.store(VALUE)
    forward, lost = forward_to(empty_node.api_url), [Scripted(hang_up=True, ending=ending)]

    def script(request):
        reply = forward(request)
        return lost.pop() if lost else reply

    with ScriptedServer(script) as between:
        changes = {"provider_token": empty_node.token, "timeouts": HASTY}
        outcome = outcome_of(operation, between, tmp_path, **changes)
        assert len(between.requests) == 2
    outcome.assert_good(operation)
    pins = [pin.cid for pin in empty_node.repository.pins()]
    assert pins == ([] if operation == "revoke" else [CID])


# "Not pinned", said to an unpin that was sent before

NOT_PINNED = f"The current user has not pinned the cid: {CID}"
NOT_PINNED_BODY = {"error": {"reason": "CURRENT_USER_HAS_NOT_PINNED_CID", "details": NOT_PINNED}}
LAST = {"status": 400, "body": NOT_PINNED_BODY}
LOST = {"hang_up": True, "ending": "reset"}
BUSY = {"status": 503}


UNPINS = {
    "reset after the request was read": ([LOST, LAST], None),
    "reset amid the body": ([{"body": b"OK", "cut": 1, "ending": "reset"}, LAST], None),
    "time-out after the request was read": ([{"hang_up": True, "ending": "stall"}, LAST], None),
    "lost, then 503": ([LOST, BUSY, LAST], None),
    "503, then lost": ([BUSY, LOST, LAST], None),
    "lost, then 429, then lost": ([LOST, {"status": 429}, LOST, LAST], None),
    "lost, and a service with other words": (
        [LOST, {"status": 404, "body": {"error": f"{CID} is not pinned"}}],
        None,
    ),
    "not pinned at first": ([LAST], (NotFoundError, NOT_PINNED)),
    "429 first": ([{"status": 429}, LAST], (NotFoundError, NOT_PINNED)),
    "500 and 503 first": ([{"status": 500}, BUSY, LAST], (NotFoundError, NOT_PINNED)),
    "lost, then 404 without words": ([LOST, {"status": 404}], (NotFoundError, "HTTP error 404")),
    "lost, then 400 with other words": (
        [LOST, {"status": 400, "body": {"error": "bad CID"}}],
        (ProviderError, "bad CID"),
    ),
    "lost, then 403": (
        [LOST, {"status": 403, "body": NOT_PINNED_BODY}],
        (PermissionDeniedError, NOT_PINNED),
    ),
    "lost, then 429 to the end": (
        [LOST, *[{"status": 429, "body": NOT_PINNED_BODY}] * 3],
        (RateLimitError, NOT_PINNED),
    ),
}


@pytest.mark.parametrize(("replies", "failure"), UNPINS.values(), ids=UNPINS)
def test_not_pinned_is_what_was_wanted_only_after_a_lost_reply(server, tmp_path, replies, failure):
    for reply in replies:
        server.reply(**reply)
    outcome = outcome_of("revoke", server, tmp_path, timeouts=HASTY)
    assert len(server.requests) == len(replies)
    if failure is None:
        outcome.assert_good("revoke")
    else:
        assert (type(outcome.error), str(outcome.error)) == failure
        assert outcome.error.status == replies[-1]["status"]


@pytest.mark.parametrize("refuses", [True, False], ids=["refused first", "not accepted first"])
def test_not_pinned_after_a_request_that_reached_nobody_is_an_error(server, tmp_path, refuses):
    server.reply(**LAST)
    with Door(server, refuses=refuses) as door:
        outcome = outcome_of(
            "revoke", server, tmp_path, hook=door.open_at_a_retry, timeouts=HASTY, **to(door.url)
        )
    assert (str(outcome.error), outcome.attempts) == (NOT_PINNED, 2)
    assert len(server.requests) == 1


def test_a_lost_reply_of_one_call_does_not_excuse_the_next(server, tmp_path):
    server.reply(**LOST)
    server.reply(200, b"OK")
    server.reply(**LAST)

    def twice(client, target):
        assert client.revoke(CID) is True
        return client.revoke(CID)

    outcome = outcome_of("revoke", server, tmp_path, call=twice)
    assert str(outcome.error) == NOT_PINNED
    assert len(server.requests) == 3


# Sources that can be read only once

DATA = hashlib.shake_128(b"sources").digest(1_500_000)
SOURCES = {
    "path": (lambda path: path, True),
    "bytes": (lambda _: DATA, True),
    "open file": (lambda path: path.open("rb"), True),
    "list": (lambda _: [DATA[:1000], DATA[1000:]], True),
    "stream that cannot seek": (lambda _: OneWay(DATA), False),
    "generator": (lambda _: (DATA[at : at + 9999] for at in range(0, len(DATA), 9999)), False),
}
each_source = pytest.mark.parametrize(("make", "again"), SOURCES.values(), ids=SOURCES)


class OneWay(io.BytesIO):
    def seekable(self):
        return False

    def seek(self, *_):
        raise io.UnsupportedOperation("seek")

    def tell(self):
        raise io.UnsupportedOperation("tell")


def uploaded(make, server, folder, **changes):
    """Upload a source to a server that takes it; return the outcome and the size of the record."""
    (folder / "source").write_bytes(DATA)
    source = make(folder / "source")
    server.reply(200, pinned(compute_cid(DATA)))
    outcome = outcome_of(
        "upload", server, folder, call=lambda client, _: client.upload(source, name="a"), **changes
    )
    if hasattr(source, "close"):
        assert not getattr(source, "closed", False)
        source.close()
    return outcome


@each_source
@pytest.mark.parametrize("fault", [LOST, BUSY], ids=["reset", "503"])
def test_only_what_can_be_read_again_is_sent_again(server, tmp_path, make, again, fault):
    server.reply(**fault)
    outcome = uploaded(make, server, tmp_path)
    assert [DATA in request.body for request in server.requests] == [True] * (2 if again else 1)
    if again:
        assert (outcome.result.cid, outcome.result.size) == (compute_cid(DATA), len(DATA))
    else:
        assert type(outcome.error) is (NetworkError if fault is LOST else ProviderError)


@each_source
def test_any_source_is_sent_when_nothing_of_it_was_read(server, tmp_path, make, again):
    with Door(server, refuses=True) as door:
        changes = {"hook": door.open_at_a_retry, **to(door.url)}
        outcome = uploaded(make, server, tmp_path, **changes)
    assert outcome.result.cid == compute_cid(DATA)
    assert DATA in server.requests[0].body
