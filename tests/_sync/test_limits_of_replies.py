# WARNING: this file is generated from tests/_async/test_limits_of_replies.py
# by scripts/generate_sync.py. Change the original instead.
"""Replies that never end, and hardly hold any content.

`timeouts.read` bounds the time without progress: a whole head, or bytes of the body. What is
neither has a budget in bytes, so a flood ends at once and takes no processor time.
"""

import itertools
import json
import threading
import time
from dataclasses import dataclass

import pytest

from holdfast import Client
from holdfast._sync.runtime import sleep
from holdfast.content.profiles import KUBO_LEGACY_CIDV1
from holdfast.errors import NetworkError, RequestTimeoutError
from holdfast.protocol.http import MAX_INFORMATIONAL, MAX_OVERHEAD
from tests import tls
from tests.attackers import Attacker
from tests.content import Blocks
from tests.support import HELLO_CID, config_for, pinned

READ = 0.2  # seconds
LONGEST = 50  # seconds: the machine may be busy; without an end, it would be for ever
PAUSE = 0.02
PATIENT = {"read": 30, "total": None}  # where an end other than by time is expected
FLOOD_CPU = 1.0  # seconds of processor time, of which the attacker here takes most

pytestmark = pytest.mark.timeout(120)

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def flood(start, piece):
    """An attack at full speed."""

    def attack():
        yield start
        many = piece * (65536 // len(piece))
        while True:
            yield many

    return attack


def drip(start, piece):
    """An attack of one piece now and then, long before the time for a read is over."""

    def attack():
        yield start
        while True:
            time.sleep(PAUSE)
            yield piece

    return attack


def dripped(data):
    """An attack of the bytes of `data`, one by one, and then of their last one."""

    def attack():
        last = itertools.repeat(data[-1:])
        for byte in itertools.chain((bytes([number]) for number in data), last):
            time.sleep(PAUSE)
            yield byte

    return attack


FLOODS = {
    "100 Continue": flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "103 Early Hints": flood(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
    "header lines": flood(HEAD, b"X-A: b\r\n"),
    "informational header lines": flood(b"HTTP/1.1 100 Continue\r\n", b"X-A: b\r\n"),
    "one header line": flood(HEAD + b"X-A: ", b"b"),
    "one status line": flood(b"HTTP/1.1 200 ", b"b"),
    "trailers": flood(CHUNKED + b"5\r\nhello\r\n0\r\n", b"X-A: b\r\n"),
    "one trailer": flood(CHUNKED + b"5\r\nhello\r\n0\r\nX-A: ", b"b"),
    "chunk extension": flood(CHUNKED + b"5;a=", b"b"),
    "chunk size": flood(CHUNKED, b"0"),
    "large extensions of tiny chunks": flood(CHUNKED, b"1;a=" + b"b" * 60_000 + b"\r\nx\r\n"),
}
DRIPS = {
    "informational replies": drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a head": dripped(HEAD + b"X-A: b"),
    "header lines": drip(HEAD, b"X-A: b\r\n"),
    "trailers": drip(CHUNKED + b"5\r\nhello\r\n0\r\n", b"X-A: b\r\n"),
    "a chunk extension": drip(CHUNKED + b"5;a=", b"b"),
    "a chunk size": drip(CHUNKED, b"0"),
    "the end of a chunk": drip(CHUNKED + b"5\r\nhello", b""),
}
NOTED = ("100 Continue", "trailers", "chunk extension")  # by each call
CALLS = {
    "store": lambda client: client.store([1]),
    "pins": lambda client: client.pins(),
    "retrieve": lambda client: client.retrieve(HELLO_CID),
    "download": lambda client: client.download(HELLO_CID),
}


@dataclass
class Outcome:
    """How a call ended, after how long, and how much the processor did meanwhile."""

    error: Exception | None = None
    seconds: float = 0.0
    cpu: float = 0.0


def outcome_of(call, attacker, **changes):
    options = {"timeouts": {"read": READ, "total": None}, **changes}
    outcome = Outcome()
    with Client.init(config_for(attacker, **options)) as client:
        started, cpu = time.monotonic(), time.process_time()
        try:
            call(client)
        except NetworkError as error:
            outcome.error = error
        outcome.seconds = time.monotonic() - started
        outcome.cpu = time.process_time() - cpu
    return outcome


@pytest.mark.parametrize(
    ("attack", "operation", "secure"),
    [(attack, "download", False) for attack in FLOODS]
    + [(attack, "download", True) for attack in ("trailers", "chunk extension")]
    + [(attack, call, False) for attack in NOTED for call in CALLS if call != "download"],
)
def test_a_flood_of_what_is_not_content_ends_at_once(attack, operation, secure):
    ours, theirs = (tls.trusting(), tls.serving()) if secure else (None, None)
    with Attacker(FLOODS[attack], tls=theirs) as attacker:
        call = CALLS[operation]
        outcome = outcome_of(call, attacker, timeouts=PATIENT, ssl_context=ours)
    assert isinstance(outcome.error, NetworkError)
    assert not isinstance(outcome.error, RequestTimeoutError)
    assert outcome.seconds < LONGEST
    assert outcome.cpu < FLOOD_CPU
    # What lies in the buffers of the two sockets comes on top.
    assert attacker.sent < MAX_OVERHEAD + (16 << 20)


@pytest.mark.parametrize(
    ("attack", "operation"),
    [(attack, "retrieve") for attack in DRIPS] + [("a head", "store"), ("trailers", "store")],
)
def test_a_drip_of_what_is_not_content_ends_by_the_read_timeout(attack, operation):
    with Attacker(DRIPS[attack]) as attacker:
        outcome = outcome_of(CALLS[operation], attacker)
    assert type(outcome.error) is RequestTimeoutError
    assert str(outcome.error) == f"127.0.0.1:{attacker.port} did not answer in time"
    assert READ <= outcome.seconds < LONGEST
    assert outcome.cpu < FLOOD_CPU


def test_a_flood_is_not_asked_for_again():
    with Attacker(FLOODS["100 Continue"]) as attacker:
        outcome = outcome_of(
            CALLS["download"],
            attacker,
            timeouts=PATIENT,
            retries={"attempts": 4, "base": 0.01, "cap": 0.01},
        )
        assert attacker.requests == 1
    peer = f"127.0.0.1:{attacker.port}"
    assert str(outcome.error) == f"{peer} sent too much that is not content"


def test_a_flood_into_a_kept_connection_takes_no_memory():
    attacking = threading.Event()

    def attack():
        body = b'{"rows": []}'
        yield HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        attacking.wait(60)
        yield from flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n")()

    with Attacker(attack) as attacker:
        with Client.init(config_for(attacker)) as client:
            assert client.pins() == []
            attacking.set()
            while attacker.sent < 65536:
                sleep(PAUSE)
            sleep(PAUSE * 10)
            attacking.clear()
            assert client.pins() == []
        attacking.set()
        assert attacker.sent < MAX_OVERHEAD + (16 << 20)


# What is no attack


@pytest.mark.parametrize("status", [100, 102, 103])
def test_informational_replies_before_the_real_one_are_skipped(server, status):
    informational = f"HTTP/1.1 {status} Wait\r\nX-A: b\r\n\r\n".encode()
    real = HEAD + b"Content-Length: 5\r\n\r\nhello"
    server.reply(raw=informational * MAX_INFORMATIONAL + real)
    with Client.init(config_for(server)) as client:
        assert (client.download(HELLO_CID)).read() == b"hello"


def test_more_informational_replies_than_that_are_an_error(server):
    server.reply(raw=b"HTTP/1.1 100 Continue\r\n\r\n" * (MAX_INFORMATIONAL + 1) + HEAD)
    outcome = outcome_of(CALLS["download"], server, timeouts=PATIENT)
    assert "sent too much that is not content" in str(outcome.error)


def test_a_body_after_almost_too_much_that_is_not_content_is_read(server):
    # The body arrives with the end of the heads, and is received before it is known as content.
    field = b"X-A: %b\r\n" % (b"b" * 5000)
    informational = b"HTTP/1.1 103 Early Hints\r\n" + field + field + b"\r\n"
    content = b"x" * 2_000_000
    root, _ = Blocks.of_file(content, KUBO_LEGACY_CIDV1)
    heads = informational * MAX_INFORMATIONAL + HEAD + b"Content-Length: 2000000\r\n"
    filler = b"X-B: %b\r\n\r\n" % (b"b" * 6000)
    heads += b"".join([field] * ((MAX_OVERHEAD - len(heads) - len(filler)) // len(field))) + filler
    assert MAX_OVERHEAD - len(field) <= len(heads) <= MAX_OVERHEAD
    server.reply(raw=heads + content)
    with Client.init(config_for(server, verify=False)) as client:
        assert (client.download(str(root))).read() == content


@pytest.mark.slow
def test_a_large_body_in_chunks_of_one_byte_is_read(server):
    content = b"x" * 300_000
    root, _ = Blocks.of_file(content, KUBO_LEGACY_CIDV1)
    chunks = b"".join(b"1\r\nx\r\n" for _ in content)
    server.reply(raw=CHUNKED + chunks + b"0\r\n\r\n")
    with Client.init(config_for(server, verify=False)) as client:
        assert (client.download(str(root))).read() == content


def test_a_body_that_drips_is_progress():
    # A busy machine may stall for nearly `read` between two bytes; the whole takes longer than it.
    read = 1.2
    body = json.dumps(pinned()).encode()

    def attack():
        yield HEAD + b"Content-Length: %d\r\n\r\n" % len(body)
        for byte in body:
            time.sleep(1.1 * read / len(body))
            yield bytes([byte])

    with Attacker(attack) as attacker:
        limits = {"read": read, "total": None}
        outcome = outcome_of(CALLS["store"], attacker, timeouts=limits)
    assert outcome.error is None
    assert outcome.seconds > read
