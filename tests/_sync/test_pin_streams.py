# WARNING: this file is generated from tests/_async/test_pin_streams.py
# by scripts/generate_sync.py. Change the original instead.
"""Lists of pins that come as a stream without end, or end too early; the time of all lists."""

import json
import threading
from dataclasses import replace
from itertools import count

import pytest

from holdfast import Client, ClientConfig
from holdfast._sync.runtime import sleep
from holdfast.errors import NetworkError, ProviderError, RequestTimeoutError
from holdfast.protocol import pin_api
from holdfast.testing import Scripted, ScriptedServer
from tests.attackers import Attacker
from tests.pinata import file_row, files
from tests.psa import results, row
from tests.support import HELLO_CID, TOKEN, config_for

KUBO_ROW = {"Cid": HELLO_CID, "Type": "recursive", "Name": "tides"}
CLUSTER_ROW = {
    "cid": HELLO_CID,
    "name": "",
    "replication_factor_min": 1,
    "replication_factor_max": 1,
    "allocations": [],
}
CLUSTER_STATES = {"cid": HELLO_CID, "peer_map": {"12D3": {"peername": "a", "status": "pinned"}}}
ROWS = {"kubo": KUBO_ROW, "cluster": CLUSTER_ROW}
each_stream = pytest.mark.parametrize("provider", ROWS)

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def chunk(value, count):
    data = (json.dumps(value) + "\n").encode() * count
    return b"%x\r\n%b\r\n" % (len(data), data)


def states_reply():
    """The state of the pin, for which a client of a cluster asks after its list."""
    body = json.dumps(CLUSTER_STATES).encode() + b"\n"
    yield HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def endless(provider):
    """A list that repeats one pin for ever."""

    def attack():
        yield CHUNKED
        piece = chunk(ROWS[provider], 1000)
        while True:
            yield piece

    return Attacker(attack)


def stream_from(attacker, provider, **timeouts):
    return ClientConfig(
        provider=provider,
        pin_api_url=attacker.url,
        gateway_url="http://127.0.0.1:9",
        retries={"attempts": 1},
        timeouts=timeouts,
    )


def all_of(pins):
    return [pin for pin in pins]


@each_stream
@pytest.mark.slow
def test_an_endless_stream_of_pins_ends_with_the_total(provider):
    """No pin has the name, so a lazy list waits for the first pin all the time."""
    name = "nobody has this name"
    with endless(provider) as attacker:
        config = stream_from(attacker, provider, total=0.2)
        with Client.init(config) as client:
            for call in (
                lambda: all_of(client.iter_pins(name=name)),
                lambda: client.pins(name=name),
                *([client.pins] if provider == "kubo" else []),  # a cluster is asked for states
            ):
                with pytest.raises(RequestTimeoutError):
                    call()


@pytest.mark.slow
@each_stream
@pytest.mark.parametrize(
    ("setting", "most", "words"),
    [
        ("MAX_ROWS", 5000, "does not end after 5,000 rows: set a limit"),
        ("MAX_LIST_BYTES", 200_000, "is longer than 200,000 bytes"),
    ],
)
def test_a_stream_has_as_many_rows_and_bytes_as_pages_may_have(
    provider, monkeypatch, setting, most, words
):
    monkeypatch.setattr(pin_api, setting, most)
    with endless(provider) as attacker:
        with Client.init(stream_from(attacker, provider, total=None)) as client:
            with pytest.raises(ProviderError, match=words):
                all_of(client.iter_pins(name="nobody has this name"))


@each_stream
def test_the_time_of_the_caller_is_not_that_of_a_stream(provider):
    """The last pin comes after the caller alone has used up more than the total."""
    released = threading.Event()

    def list_reply():
        yield CHUNKED + chunk(ROWS[provider], 50)
        released.wait(30)
        yield chunk(ROWS[provider], 1) + b"0\r\n\r\n"

    replies = iter([list_reply, states_reply, states_reply])
    with Attacker(lambda: next(replies)()) as attacker:  # noqa: PLW0108 - another reply each time
        with Client.init(stream_from(attacker, provider, total=0.8)) as client:
            pins = client.iter_pins()
            for _ in range(2):
                next(pins)
                sleep(0.45)
            released.set()
            assert len(all_of(pins)) == 49


PAGED = {
    "pinning": lambda number: {"rows": [v1_row(number)]},
    "pinata": lambda number: files(file_row(id=str(number)), token=str(number)),
    "psa": lambda number: results(
        row(requestid=str(number), created=f"2024-07-11T23:{59 - number}:00Z"), count=10**6
    ),
}


def v1_row(number):
    return {"id": number, "ipfs_pin_hash": HELLO_CID, "size": 1, "date_pinned": "2024-07-11"}


@pytest.mark.slow
@pytest.mark.parametrize(("provider", "since"), [("pinning", None), ("pinata", 0), ("psa", 0)])
def test_the_total_is_for_all_pages_of_a_list_and_for_each_pin_of_a_lazy_one(
    provider, since, monkeypatch
):
    monkeypatch.setattr(pin_api, "PAGE_LIMIT", 1)
    numbers = count()

    def script(_request):
        return Scripted(body=PAGED[provider](next(numbers)), delay=0.25)

    with ScriptedServer(script) as server:
        config = config_for(
            server, provider=provider, retries={"attempts": 1}, timeouts={"total": 0.7}
        )
        with Client.init(config) as client:
            with pytest.raises(RequestTimeoutError):
                client.pins(since=since)
            assert len(all_of(client.iter_pins(limit=4))) == 4


@pytest.mark.parametrize("provider", PAGED)
def test_a_page_that_is_too_long_is_not_held(server, provider, monkeypatch):
    monkeypatch.setattr("holdfast.protocol.pin_api.MAX_PAGE", 60)
    server.reply(200, PAGED[provider](1))
    config = config_for(server, provider=provider)
    with Client.init(config) as client:
        with pytest.raises(ProviderError, match=r"repl(y|ies).* is not"):
            client.pins()


# Streams that end too early


TRAILER = b"0\r\nX-Stream-Error: %b\r\n\r\n"


class HangUpError(OSError):
    """Makes an `Attacker` close the connection."""


def ending(provider, head, *pieces, hang_up=False):
    """A list with a row, and what follows; then the state of the pin, for a cluster."""

    def list_reply():
        yield head
        yield from pieces
        if hang_up:
            raise HangUpError

    replies = iter([list_reply, states_reply])
    return Attacker(lambda: next(replies)())  # noqa: PLW0108 - another reply each time


def listed(attacker, provider, **changes):
    config = replace(stream_from(attacker, provider, total=20), **changes)
    with Client.init(config) as client:
        return [pin.cid for pin in client.pins()]


@each_stream
@pytest.mark.parametrize("through_proxy", [False, True], ids=["direct", "proxy"])
def test_an_error_in_the_trailer_is_an_error(provider, through_proxy):
    end = TRAILER % b"out of  memory"
    with ending(provider, CHUNKED, chunk(ROWS[provider], 1), end) as attacker:
        words = "the provider stopped before the end of its reply: out of memory"
        with pytest.raises(ProviderError, match=words):
            listed(attacker, provider, proxy=attacker.url if through_proxy else None)


@pytest.mark.slow
@each_stream
def test_a_trailer_may_come_in_pieces_and_after_much_content(provider):
    end = TRAILER % b"out of memory"
    pieces = [chunk(ROWS[provider], 40)] * 200 + [end[:9], end[9:30], end[30:-1], end[-1:]]
    with ending(provider, CHUNKED, *pieces) as attacker:
        config = stream_from(attacker, provider, total=20)
        with Client.init(config) as client:
            with pytest.raises(ProviderError, match="out of memory"):
                all_of(client.iter_pins(name="nobody has this name"))


def test_a_lazy_list_gives_the_pins_before_the_error():
    with ending("kubo", CHUNKED, chunk(KUBO_ROW, 2), TRAILER % b"out of memory") as attacker:
        with Client.init(stream_from(attacker, "kubo", total=20)) as client:
            pins = client.iter_pins()
            assert [(next(pins)).cid for _ in range(2)] == [HELLO_CID, HELLO_CID]
            with pytest.raises(ProviderError, match="out of memory"):
                next(pins)


def test_a_token_in_the_trailer_is_masked():
    with (
        ending("kubo", CHUNKED, TRAILER % TOKEN.encode()) as attacker,
        pytest.raises(ProviderError, match=r"reply: \*{8}") as caught,
    ):
        listed(attacker, "kubo", provider_token=TOKEN)
    assert TOKEN not in str(caught.value)


@each_stream
@pytest.mark.parametrize(
    "end", [b"0\r\n\r\n", b"000;x=1\r\n\r\n", TRAILER % b"", b"0\r\nX-Other: error\r\n\r\n"]
)
def test_a_list_whose_trailer_has_no_error_is_complete(provider, end):
    with ending(provider, CHUNKED, chunk(ROWS[provider], 1), end) as attacker:
        assert listed(attacker, provider) == [HELLO_CID]


@each_stream
@pytest.mark.parametrize("end", [b"", b"0\r\n", b"0\r\nX-Stream-Err"])
def test_chunks_without_an_end_are_an_error(provider, end):
    """The connection is closed after a row, so no row is cut off."""
    rows = chunk(ROWS[provider], 1)
    with (
        ending(provider, CHUNKED, rows, end, hang_up=True) as attacker,
        pytest.raises(NetworkError),
    ):
        listed(attacker, provider)


@each_stream
@pytest.mark.parametrize("encoding", [b"", b"Transfer-Encoding: identity\r\n"])
def test_a_list_that_ends_with_the_connection_may_be_cut_off(provider, encoding):
    line = json.dumps(ROWS[provider]).encode() + b"\n"
    head = HEAD + encoding + b"\r\n"
    words = "may be cut off: its reply has neither a length"
    with (
        ending(provider, head, line, hang_up=True) as attacker,
        pytest.raises(ProviderError, match=words),
    ):
        listed(attacker, provider)


def test_an_error_after_any_reply_of_kubo_is_an_error():
    body = b'{"Version":"0.43.0"}\n'
    end = TRAILER % b"out of memory"
    with ending("kubo", CHUNKED, b"%x\r\n%b\r\n" % (len(body), body), end) as attacker:
        with Client.init(stream_from(attacker, "kubo", total=20)) as client:
            with pytest.raises(ProviderError, match="out of memory"):
                client.test_connection()
