# WARNING: this file is generated from tests/_async/test_pins.py
# by scripts/generate_sync.py. Change the original instead.
"""Pins by all filters: in the embedded store, at the node, and as the service is asked for them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast import Client, Pin
from holdfast.content.cid import CID
from holdfast.errors import (
    ClientClosedError,
    InvalidCIDError,
    ProviderError,
)
from holdfast.repository import PinQuery
from holdfast.repository import pins as pin_rows
from holdfast.testing import Scripted, ScriptedServer
from tests.support import HELLO_CID, config_for


@pytest.fixture
def client(store_client):
    return store_client


def names(pins):
    return [pin.name for pin in pins]


def three(client):
    """Three pins, the newest last, with times that differ."""
    for name, keyvalues in (
        ("one", {"kind": "a", "n": 1}),
        ("two", {"kind": "b", "n": 2}),
        ("three", {"kind": "a", "n": 3, "done": True}),
    ):
        client.store(name, name=name, keyvalues=keyvalues)
        made = (client.pins(limit=1))[0].created
        while int(datetime.now(UTC).timestamp() * 1000) <= made:
            pass


def test_pins_are_found_by_each_filter(client):
    three(client)
    three_, two, one = client.pins()
    assert names(client.iter_pins()) == ["three", "two", "one"]
    assert names(client.iter_pins(name="T")) == ["three", "two"]
    assert names(client.iter_pins(cid=two.cid)) == ["two"]
    assert names(client.iter_pins(cid=f"https://ipfs.io/ipfs/{two.cid}?x=1")) == ["two"]
    assert names(client.iter_pins(cid=HELLO_CID)) == []
    assert names(client.iter_pins(keyvalues={"kind": "a"})) == ["three", "one"]
    assert names(client.iter_pins(keyvalues={"kind": "a", "n": 3})) == ["three"]
    assert names(client.iter_pins(keyvalues={"kind": "a", "n": "3"})) == ["three"]
    assert names(client.iter_pins(keyvalues={"done": True})) == ["three"]
    assert names(client.iter_pins(keyvalues={"done": 1})) == []
    assert names(client.iter_pins(keyvalues={"missing": "x"})) == []
    assert names(client.iter_pins(keyvalues={})) == ["three", "two", "one"]
    assert names(client.iter_pins(since=two.created)) == ["three", "two"]
    assert names(client.iter_pins(until=two.created)) == ["two", "one"]
    assert names(client.iter_pins(since=two.created, until=two.created)) == ["two"]
    assert names(client.iter_pins(since=three_.created + 1)) == []
    assert names(client.iter_pins(limit=2)) == ["three", "two"]
    assert names(client.iter_pins(keyvalues={"kind": "a"}, limit=1)) == ["three"]
    assert names(client.iter_pins(name="o", keyvalues={"n": 1})) == ["one"]
    assert client.pins(cid=one.cid, keyvalues={"n": 1}) == [one]


def test_a_time_may_be_a_datetime_in_any_zone(client):
    three(client)
    _, two, _ = client.pins()
    moment = datetime.fromtimestamp(two.created / 1000, timezone(timedelta(hours=5)))
    assert names(client.iter_pins(since=moment)) == ["three", "two"]
    assert names(client.iter_pins(until=moment)) == ["two", "one"]
    later = moment + timedelta(milliseconds=1)
    assert names(client.iter_pins(since=later)) == ["three"]


def test_a_cid_is_found_in_both_versions(client):
    old = client.with_options(cid_version=0)
    record = old.upload(b"in version 0")
    parsed = CID.parse(record.cid)
    as_v1 = str(CID(1, parsed.codec, parsed.hash_code, parsed.digest))
    assert [pin.cid for pin in client.pins(cid=record.cid)] == [record.cid]
    assert [pin.cid for pin in client.pins(cid=as_v1)] == [record.cid]


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"name": 5}, TypeError, "name must be a string"),
        ({"cid": "x"}, InvalidCIDError, "Invalid CID"),
        ({"cid": f"{HELLO_CID}/a"}, InvalidCIDError, "Invalid CID"),
        ({"keyvalues": [1]}, TypeError, "keyvalues must be a mapping"),
        ({"keyvalues": {"a": None}}, TypeError, "must be a string, a number or a bool"),
        ({"keyvalues": {"a": float("nan")}}, ValueError, "must be a finite number"),
        ({"since": datetime(2026, 1, 1)}, ValueError, r"since has no time zone: write since\."),  # noqa: DTZ001
        ({"until": datetime(2026, 1, 1)}, ValueError, "until has no time zone"),  # noqa: DTZ001
        ({"since": 1.5}, TypeError, "since must be a datetime or a whole number of milliseconds"),
        ({"since": True}, TypeError, "since must be a datetime"),
        ({"since": "2026-01-01"}, TypeError, "not str"),
        ({"since": -1}, ValueError, "between the years 1970 and 9999"),
        ({"until": 10**15}, ValueError, "between the years 1970 and 9999"),
        ({"limit": 0}, ValueError, "limit must be at least 1"),
        ({"limit": -1}, ValueError, "limit must be at least 1"),
        ({"limit": "1"}, TypeError, "limit must be a whole number"),
        ({"limit": 1.5}, TypeError, "limit must be a whole number"),
        ({"limit": True}, TypeError, "limit must be a whole number"),
    ],
)
def test_bad_filters_are_refused_at_once(server, arguments, kind, words):
    with Client.init(config_for(server)) as client:
        with pytest.raises(kind, match=words):
            client.iter_pins(**arguments)
        with pytest.raises(kind, match=words):
            client.pins(**arguments)
    assert server.requests == []


def test_a_closed_client_finds_nothing(client):
    client.close()
    with pytest.raises(ClientClosedError):
        client.iter_pins()
    with pytest.raises(ClientClosedError):
        client.pins()


def test_closing_ends_the_list_at_the_next_page(client, monkeypatch):
    monkeypatch.setattr(pin_rows, "PAGE", 1)
    monkeypatch.setattr("holdfast.protocol.pin_api.PAGE_LIMIT", 1)
    three(client)
    pins = client.iter_pins()
    next(pins)
    client.close()
    with pytest.raises(ClientClosedError):
        next(pins)


# As the service is asked


def row(number):
    return {
        "id": f"id-{number}",
        "ipfs_pin_hash": str(CID.of_raw(str(number).encode())),
        "size": 1,
        "date_pinned": "2024-07-11T23:33:27.665Z",
    }


def query_of(request):
    return {key: value for key, (value,) in parse_qs(urlsplit(request.target).query).items()}


def test_pages_are_fetched_as_they_are_needed():
    rows = [row(number) for number in range(2500)]

    def script(request):
        start = int(query_of(request)["pageOffset"])
        return Scripted(body={"rows": rows[start : start + 1000]})

    with ScriptedServer(script) as server:
        with Client.init(config_for(server)) as client:
            pins = client.iter_pins()
            assert server.requests == []
            assert (next(pins)).id == "id-0"
            assert len(server.requests) == 1
            count = 1
            for _ in pins:
                count += 1
                if count == 1001:
                    break
            assert len(server.requests) == 2
            # Nothing of the list is held: the connection and the place among the calls are free.
            server.reply(200, {"message": "hello"})
            assert client.test_connection() is True


def test_a_failure_in_the_middle_comes_after_the_pins_before(server):
    with Client.init(config_for(server)) as client:
        server.reply(200, {"rows": [row(number) for number in range(1000)]})
        server.reply(500, {"error": "no more"})
        pins = client.iter_pins()
        assert [(next(pins)).id for _ in range(1000)][-1] == "id-999"
        with pytest.raises(ProviderError, match="no more"):
            next(pins)


# Pages of the embedded store


def test_pages_of_the_store_neither_repeat_nor_miss_pins(memory_folder, monkeypatch):
    monkeypatch.setattr(pin_rows, "PAGE", 3)
    with Client.init(path=memory_folder) as client:
        for number in range(20):
            client.store(number, name=f"<{number}>")
        expected = [pin.name for pin in client.pins()]
        assert names(client.iter_pins()) == expected
        assert names(client.iter_pins(limit=7)) == expected[:7]
        listed = []
        for pin in client.iter_pins():
            listed.append(pin.name)
            if len(listed) < 4:  # pins that are made or removed meanwhile move nothing
                client.store(f"new {len(listed)}")
                client.revoke((client.pins(name=expected[-len(listed)]))[0].cid)
    assert listed == expected[:17]


def test_many_pins_of_one_moment_are_all_found(monkeypatch):
    """A page may end among pins of the same time, several times."""
    monkeypatch.setattr(pin_rows, "PAGE", 3)
    pins = [Pin(id=str(n), cid=HELLO_CID, created=5 if n < 10 else 4) for n in range(13)]

    def find(query):
        latest = 9 if query.created_to is None else query.created_to
        return [pin for pin in pins if pin.created <= latest][: query.limit]

    for limit in (None, 1, 3, 5, 12, 13, 99):
        query = replace(PinQuery(), limit=limit)
        assert [pin for page in pin_rows.pin_pages(find, query) for pin in page] == pins[:limit]
