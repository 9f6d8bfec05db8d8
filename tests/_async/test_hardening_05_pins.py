"""Lists of pins that would never end: pages that repeat, overlap, or are larger than asked for.

Streams that do not end, or too early, too, and the time that a list may take.
"""

import json
import threading
from dataclasses import replace
from itertools import count
from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast import AsyncClient, ClientConfig
from holdfast._async.runtime import sleep
from holdfast.errors import NetworkError, ProviderError, RequestTimeoutError
from holdfast.protocol import pin_api, pinning
from holdfast.testing import Scripted, ScriptedServer
from tests.attackers import Attacker
from tests.support import HELLO_CID, TOKEN, config_for

SAME_AGAIN = "the provider sent the same pins again in place of the next page: try again"


def row(number):
    return {
        "id": f"id-{number}",
        "ipfs_pin_hash": HELLO_CID,
        "size": 1,
        "date_pinned": "2024-07-11T23:33:27.665Z",
    }


def asked_of(request):
    """The offset and the limit that a request asks for."""
    query = parse_qs(urlsplit(request.target).query)
    return int(query["pageOffset"][0]), int(query["pageLimit"][0])


async def list_pins(page, *, limit=None):
    """List the pins of a service that replies with `page(offset, limit)`: ids, and what was asked.

    An error takes the place of the ids.
    """

    def script(request):
        return Scripted(body={"rows": [row(number) for number in page(*asked_of(request))]})

    with ScriptedServer(script) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            try:
                ids = [int(pin.id.removeprefix("id-")) for pin in await client.pins(limit=limit)]
            except ProviderError as error:
                ids = str(error)
    return ids, [asked_of(request) for request in server.requests]


async def test_an_api_that_ignores_the_offset_is_an_error():
    found, asked = await list_pins(lambda offset, limit: range(limit))
    assert found == SAME_AGAIN
    assert asked == [(0, 1000), (999, 1000)]


async def test_an_api_that_ignores_offset_and_limit_is_an_error():
    found, asked = await list_pins(lambda offset, limit: range(1000), limit=1500)
    assert found == SAME_AGAIN
    assert asked == [(0, 1000), (999, 501)]


async def test_the_same_pins_in_another_order_are_the_same_pins():
    found, asked = await list_pins(lambda offset, limit: range(limit)[:: -1 if offset else 1])
    assert found == SAME_AGAIN
    assert len(asked) == 2


async def test_a_short_page_of_pins_that_all_came_before_is_an_error():
    found, asked = await list_pins(lambda offset, limit: range(5 if offset else limit))
    assert found == SAME_AGAIN
    assert len(asked) == 2


async def test_pages_that_turn_in_a_circle_are_an_error():
    found, asked = await list_pins(
        lambda offset, limit: range(offset % 3000, offset % 3000 + limit)
    )
    assert found == SAME_AGAIN
    assert [offset for offset, _ in asked] == [0, 999, 1998, 2997, 3996]


async def test_a_page_of_one_pin_over_and_over_is_an_error():
    found, asked = await list_pins(lambda offset, limit: [7] * limit)
    assert found == SAME_AGAIN
    assert len(asked) == 2


async def test_pages_that_overlap_in_part_are_a_list():
    """Ten pins are made between any two pages: the last ten of a page stand on the next one too."""

    def page(offset, limit):
        start = offset - 10 * (offset // 999)
        return range(start, min(2500, start + limit))

    found, asked = await list_pins(page)
    assert found == list(range(2500))
    assert [offset for offset, _ in asked] == [0, 999, 1998]


async def test_a_list_that_ends_with_a_full_page_of_known_pins_is_complete():
    """Three pins are made after the first page: the second has only pins that came before."""
    found, asked = await list_pins(
        lambda offset, limit: range(996, 1000) if offset else range(1000)
    )
    assert found == list(range(1000))
    assert len(asked) == 2


async def test_pages_that_never_begin_with_a_known_pin_come_to_an_end(monkeypatch):
    monkeypatch.setattr(pin_api, "MAX_ROWS", 5000)
    numbers = count()
    found, asked = await list_pins(lambda offset, limit: [next(numbers) for _ in range(limit)])
    assert found == "the provider repeats pins in its list: 5,000 rows did not end it"
    assert len(asked) == 6


async def test_pins_in_another_order_on_each_page_are_a_list():
    """The second page begins with a pin that is not known, although none was removed."""

    def page(offset, limit):
        return range(offset + 1, 1500) if offset else range(1000)

    found, asked = await list_pins(page)
    assert found == list(range(1500))
    assert [offset for offset, _ in asked] == [0, 999, 0, 999]


async def test_more_than_a_million_pins_are_an_error(monkeypatch):
    assert pin_api.MAX_PINS == 10**6
    monkeypatch.setattr(pin_api, "MAX_PINS", 2500)
    found, asked = await list_pins(lambda offset, limit: range(offset, offset + limit))
    assert found == "the provider lists more than 2,500 pins: set a limit, or filter by name"
    assert [offset for offset, _ in asked] == [0, 999, 1998]


async def test_exactly_as_many_pins_as_may_be_are_a_list(monkeypatch):
    monkeypatch.setattr(pin_api, "MAX_PINS", 2500)
    found, asked = await list_pins(lambda offset, limit: range(2500)[offset : offset + limit])
    assert len(found) == 2500
    assert len(asked) == 3


async def test_a_limit_lists_the_newest_of_more_pins_than_may_be(monkeypatch):
    monkeypatch.setattr(pin_api, "MAX_PINS", 2500)
    found, asked = await list_pins(lambda offset, limit: range(offset, offset + limit), limit=2400)
    assert found == list(range(2400))
    assert asked == [(0, 1000), (999, 1000), (1998, 402)]


async def test_pages_with_one_new_pin_each_come_to_an_end(monkeypatch):
    monkeypatch.setattr(pin_api, "MAX_ROWS", 5000)
    numbers = count(1000)
    found, asked = await list_pins(lambda offset, limit: [*range(limit - 1), next(numbers)])
    assert found == "the provider repeats pins in its list: 5,000 rows did not end it"
    assert len(asked) == 6


async def test_a_list_of_too_many_bytes_is_an_error(monkeypatch):
    monkeypatch.setattr(pin_api, "MAX_LIST_BYTES", 200_000)
    found, asked = await list_pins(lambda offset, limit: range(offset, offset + limit))
    assert found == "the provider's list of pins is longer than 200,000 bytes"
    assert len(asked) == 2


async def test_pages_larger_than_asked_for_are_taken_whole_and_cut_to_the_limit():
    pages = iter([range(1500), range(1499, 3000), range(2999, 3010)])
    found, asked = await list_pins(lambda offset, limit: next(pages))
    assert found == list(range(3010))
    assert asked == [(0, 1000), (1499, 1000), (2999, 1000)]

    found, asked = await list_pins(lambda offset, limit: range(1000), limit=20)
    assert found == list(range(20))
    assert asked == [(0, 20)]


async def test_a_limit_is_kept_where_a_page_repeats_pins():
    pages = iter([range(1000), range(990, 1491), range(1490, 1600)])
    found, asked = await list_pins(lambda offset, limit: next(pages), limit=1500)
    assert found == list(range(1500))
    assert asked == [(0, 1000), (999, 501), (1499, 10)]


@pytest.mark.parametrize("identity", [None, "", True, 1.5, [], {}], ids=repr)
async def test_a_row_without_an_id_is_no_list_of_pins(server, client, identity):
    server.reply(200, {"rows": [{**row(1), "id": identity}]})
    with pytest.raises(ProviderError, match="not a list of pins"):
        await client.pins()


async def test_an_empty_page_ends_the_list_whatever_the_count_says(server, client):
    server.reply(200, {"count": 5, "rows": []})
    assert await client.pins() == []
    assert len(server.requests) == 1


async def test_a_page_that_is_too_long_is_not_held(server, client, monkeypatch):
    monkeypatch.setattr(pinning, "MAX_PAGE", 100_000)
    server.reply(200, {"rows": [row(number) for number in range(1000)]})
    with pytest.raises(ProviderError, match="not a list of pins"):
        await client.pins()


# Lists that come as one stream, and the time of all lists


KUBO_ROW = {"Cid": HELLO_CID, "Type": "recursive"}
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


def chunk(row, count):
    data = (json.dumps(row) + "\n").encode() * count
    return b"%x\r\n%b\r\n" % (len(data), data)


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


async def all_of(pins):
    return [pin async for pin in pins]


@each_stream
@pytest.mark.parametrize("is_lazy", [False, True], ids=["pins", "iter_pins"])
async def test_an_endless_stream_of_pins_ends_with_the_total(provider, is_lazy):
    """No pin has the name, so a lazy list waits for the first pin all the time."""
    with endless(provider) as attacker:
        config = stream_from(attacker, provider, total=0.5)
        async with await AsyncClient.init(config) as client:
            wanted = {"name": "nobody has this name"}
            with pytest.raises(RequestTimeoutError):
                await (all_of(client.iter_pins(**wanted)) if is_lazy else client.pins(**wanted))


async def test_an_endless_stream_of_pins_that_match_ends_with_the_total():
    with endless("kubo") as attacker:
        async with await AsyncClient.init(stream_from(attacker, "kubo", total=0.5)) as client:
            with pytest.raises(RequestTimeoutError):
                await client.pins()


@each_stream
async def test_a_stream_has_as_many_rows_as_pages_may_have(provider, monkeypatch):
    assert pin_api.MAX_ROWS == 2_000_000
    monkeypatch.setattr(pin_api, "MAX_ROWS", 5000)
    with endless(provider) as attacker:
        async with await AsyncClient.init(stream_from(attacker, provider, total=None)) as client:
            with pytest.raises(ProviderError, match=r"does not end after 5,000 rows: set a limit"):
                await all_of(client.iter_pins(name="nobody has this name"))


@each_stream
async def test_a_stream_has_as_many_bytes_as_pages_may_have(provider, monkeypatch):
    assert pin_api.MAX_LIST_BYTES == 1 << 30
    monkeypatch.setattr(pin_api, "MAX_LIST_BYTES", 200_000)
    with endless(provider) as attacker:
        async with await AsyncClient.init(stream_from(attacker, provider, total=None)) as client:
            with pytest.raises(ProviderError, match=r"is longer than 200,000 bytes"):
                await all_of(client.iter_pins(name="nobody has this name"))


@each_stream
async def test_the_time_of_the_caller_is_not_that_of_a_stream(provider):
    """The last pin comes after the caller alone has used up more than the total."""
    released = threading.Event()

    def list_reply():
        yield CHUNKED + chunk(ROWS[provider], 50)
        released.wait(30)
        yield chunk(ROWS[provider], 1) + b"0\r\n\r\n"

    def states_reply():
        body = json.dumps(CLUSTER_STATES).encode() + b"\n"
        yield HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)

    replies = iter([list_reply, states_reply, states_reply])
    with Attacker(lambda: next(replies)()) as attacker:  # noqa: PLW0108 - another reply each time
        async with await AsyncClient.init(stream_from(attacker, provider, total=0.8)) as client:
            pins = client.iter_pins()
            for _ in range(2):
                await anext(pins)
                await sleep(0.45)
            released.set()
            assert len(await all_of(pins)) == 49


PAGED = {
    "pinning": lambda number: {"rows": [row(number)]},
    "pinata": lambda number: {
        "data": {
            "files": [
                {
                    "id": str(number),
                    "cid": HELLO_CID,
                    "size": 1,
                    "created_at": "2024-07-11T23:33:27.665Z",
                }
            ],
            "next_page_token": str(number),
        }
    },
    "psa": lambda number: {
        "count": 10**6,
        "results": [
            {
                "requestid": str(number),
                "status": "pinned",
                "created": f"2024-07-11T23:{59 - number}:00Z",
                "pin": {"cid": HELLO_CID},
            }
        ],
    },
}


@pytest.mark.parametrize(("provider", "since"), [("pinning", None), ("pinata", 0), ("psa", 0)])
async def test_the_total_is_for_all_pages_of_a_list_and_for_each_pin_of_a_lazy_one(
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
        async with await AsyncClient.init(config) as client:
            with pytest.raises(RequestTimeoutError):
                await client.pins(since=since)
            assert len(await all_of(client.iter_pins(limit=4))) == 4


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

    def states_reply():
        body = json.dumps(CLUSTER_STATES).encode() + b"\n"
        yield HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)

    replies = iter([list_reply, states_reply])
    return Attacker(lambda: next(replies)())  # noqa: PLW0108 - another reply each time


async def listed(attacker, provider, **changes):
    config = replace(stream_from(attacker, provider, total=20), **changes)
    async with await AsyncClient.init(config) as client:
        return [pin.cid for pin in await client.pins()]


@each_stream
@pytest.mark.parametrize("through_proxy", [False, True], ids=["direct", "proxy"])
async def test_an_error_in_the_trailer_is_an_error(provider, through_proxy):
    end = TRAILER % b"out of  memory"
    with ending(provider, CHUNKED, chunk(ROWS[provider], 1), end) as attacker:
        words = "the provider stopped before the end of its reply: out of memory"
        with pytest.raises(ProviderError, match=words):
            await listed(attacker, provider, proxy=attacker.url if through_proxy else None)


@each_stream
async def test_a_trailer_may_come_in_pieces_and_after_much_content(provider):
    end = TRAILER % b"out of memory"
    pieces = [chunk(ROWS[provider], 40)] * 200 + [end[:9], end[9:30], end[30:-1], end[-1:]]
    with ending(provider, CHUNKED, *pieces) as attacker:
        config = stream_from(attacker, provider, total=20)
        async with await AsyncClient.init(config) as client:
            with pytest.raises(ProviderError, match="out of memory"):
                await all_of(client.iter_pins(name="nobody has this name"))


async def test_a_lazy_list_gives_the_pins_before_the_error():
    with ending("kubo", CHUNKED, chunk(KUBO_ROW, 2), TRAILER % b"out of memory") as attacker:
        async with await AsyncClient.init(stream_from(attacker, "kubo", total=20)) as client:
            pins = client.iter_pins()
            assert [(await anext(pins)).cid for _ in range(2)] == [HELLO_CID, HELLO_CID]
            with pytest.raises(ProviderError, match="out of memory"):
                await anext(pins)


async def test_a_token_in_the_trailer_is_masked():
    with (
        ending("kubo", CHUNKED, TRAILER % TOKEN.encode()) as attacker,
        pytest.raises(ProviderError, match=r"reply: \*{8}") as caught,
    ):
        await listed(attacker, "kubo", provider_token=TOKEN)
    assert TOKEN not in str(caught.value)


@each_stream
@pytest.mark.parametrize(
    "end", [b"0\r\n\r\n", b"000;x=1\r\n\r\n", TRAILER % b"", b"0\r\nX-Other: error\r\n\r\n"]
)
async def test_a_list_whose_trailer_has_no_error_is_complete(provider, end):
    with ending(provider, CHUNKED, chunk(ROWS[provider], 1), end) as attacker:
        assert await listed(attacker, provider) == [HELLO_CID]


@each_stream
@pytest.mark.parametrize("end", [b"", b"0\r\n", b"0\r\nX-Stream-Err"])
async def test_chunks_without_an_end_are_an_error(provider, end):
    """The connection is closed after a row, so no row is cut off."""
    rows = chunk(ROWS[provider], 1)
    with (
        ending(provider, CHUNKED, rows, end, hang_up=True) as attacker,
        pytest.raises(NetworkError),
    ):
        await listed(attacker, provider)


@each_stream
@pytest.mark.parametrize("encoding", [b"", b"Transfer-Encoding: identity\r\n"])
async def test_a_list_that_ends_with_the_connection_may_be_cut_off(provider, encoding):
    row = json.dumps(ROWS[provider]).encode() + b"\n"
    head = HEAD + encoding + b"\r\n"
    words = "may be cut off: its reply has neither a length"
    with (
        ending(provider, head, row, hang_up=True) as attacker,
        pytest.raises(ProviderError, match=words),
    ):
        await listed(attacker, provider)


async def test_an_error_after_any_reply_of_kubo_is_an_error():
    body = b'{"Version":"0.43.0"}\n'
    end = TRAILER % b"out of memory"
    with ending("kubo", CHUNKED, b"%x\r\n%b\r\n" % (len(body), body), end) as attacker:
        async with await AsyncClient.init(stream_from(attacker, "kubo", total=20)) as client:
            with pytest.raises(ProviderError, match="out of memory"):
                await client.test_connection()
