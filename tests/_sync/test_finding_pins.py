# WARNING: this file is generated from tests/_async/test_finding_pins.py
# by scripts/generate_sync.py. Change the original instead.
"""Pins by all filters: in the embedded store, at the node, and as the service is asked for them."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast import Client, Pin
from holdfast.content.cid import CID
from holdfast.errors import ClientClosedError, InvalidCIDError, ProviderError, UnsupportedError
from holdfast.repository import PinQuery
from holdfast.repository import pins as pin_rows
from holdfast.testing import Scripted, ScriptedServer
from tests._sync.spec_only import SpecOnly
from tests.support import EMPTY_FILE_V0, HELLO_CID, config_for

EMPTY_FILE_V1 = "bafybeif7ztnhq65lumvvtr4ekcwd2ifwgm3awq4zfr3srh462rwyinlb4y"


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


def test_unpinned_content_is_not_found(client):
    record = client.store([1], name="gone", keyvalues={"a": "b"})
    client.revoke(record.cid)
    assert client.pins(cid=record.cid) == []
    assert client.pins(keyvalues={"a": "b"}) == []


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


def row(number, *, cid=None, **about):
    return {
        "id": f"id-{number}",
        "ipfs_pin_hash": cid or str(CID.of_raw(str(number).encode())),
        "size": 1,
        "date_pinned": "2024-07-11T23:33:27.665Z",
        **about,
    }


def query_of(request):
    return {key: value for key, (value,) in parse_qs(urlsplit(request.target).query).items()}


def test_all_filters_are_sent(server):
    with Client.init(config_for(server)) as client:
        server.reply(200, {"rows": []})
        moment = datetime(2024, 7, 11, 23, 33, 27, 665_999, tzinfo=UTC)
        filters = {"since": moment, "until": 1_720_740_807_665, "keyvalues": {"a": "ü", "b": 2}}
        assert client.pins(name="x", cid=HELLO_CID, limit=7, **filters) == []
    query = query_of(server.requests[0])
    assert json.loads(query.pop("metadata[keyvalues]")) == {
        "a": {"value": "ü", "op": "eq"},
        "b": {"value": 2, "op": "eq"},
    }
    assert query == {
        "status": "pinned",
        "includeCount": "false",
        "pageLimit": "7",
        "pageOffset": "0",
        "metadata[name]": "x",
        "cid": HELLO_CID,
        "pinStart": "2024-07-11T23:33:27.665Z",
        "pinEnd": "2024-07-11T23:33:27.665Z",
    }


def test_what_an_inexact_service_sends_too_is_left_out(server):
    keyvalues = {"metadata": {"name": "n", "keyvalues": {"a": "1"}}}
    rows = [
        row(1, cid=HELLO_CID, **keyvalues),
        row(2, **keyvalues),
        row(3, cid=HELLO_CID, metadata={"keyvalues": {"a": "12"}}),
        row(4, cid=HELLO_CID, **keyvalues, date_pinned="2020-01-01T00:00:00Z"),
        row(5, cid=HELLO_CID, **keyvalues, date_pinned="2030-01-01T00:00:00Z"),
    ]
    with Client.init(config_for(server)) as client:
        server.reply(200, {"rows": rows})
        since, until = datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)
        pins = client.pins(cid=HELLO_CID, keyvalues={"a": 1}, since=since, until=until)
    assert [pin.id for pin in pins] == ["id-1"]


def test_a_service_that_ignores_a_filter_is_asked_for_full_pages():
    rows = [row(number, metadata={"keyvalues": {"n": number}}) for number in range(2500)]

    def script(request):
        query = query_of(request)
        start, count = int(query["pageOffset"]), int(query["pageLimit"])
        return Scripted(body={"rows": rows[start : start + count]})

    with ScriptedServer(script) as server:
        with Client.init(config_for(server)) as client:
            pins = client.pins(keyvalues={"n": 1500}, limit=2)
    assert [pin.id for pin in pins] == ["id-1500"]
    asked = [
        (query_of(each)["pageOffset"], query_of(each)["pageLimit"]) for each in server.requests
    ]
    assert asked == [("0", "2"), ("1", "1000"), ("1000", "1000"), ("1999", "1000")]


def test_a_cid_without_a_pin_is_asked_for_in_its_other_version(server):
    with Client.init(config_for(server)) as client:
        server.reply(200, {"rows": []})
        server.reply(200, {"rows": [row(1, cid=EMPTY_FILE_V0)]})
        assert [pin.cid for pin in client.pins(cid=EMPTY_FILE_V1)] == [EMPTY_FILE_V0]
        server.reply(200, {"rows": []})
        server.reply(200, {"rows": []})
        assert client.pins(cid=EMPTY_FILE_V0) == []
        server.reply(200, {"rows": []})
        assert client.pins(cid=HELLO_CID) == []  # raw: there is no version 0 of it
    assert [query_of(each)["cid"] for each in server.requests] == [
        EMPTY_FILE_V1,
        EMPTY_FILE_V0,
        EMPTY_FILE_V0,
        EMPTY_FILE_V1,
        HELLO_CID,
    ]


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


# Providers that can only list


class Lister(SpecOnly):
    """The methods of the spec, and a list by name."""

    lists = 0

    def list_pins(self, *, name=None, limit=None):
        self.lists += 1
        return [Pin(id=str(n), cid=HELLO_CID, name=f"{name} {n}") for n in range(limit or 5)]


def test_a_provider_that_only_lists_takes_name_and_limit():
    client = Client(Lister())
    assert names(client.iter_pins(name="x", limit=2)) == ["x 0", "x 1"]
    assert [pin.name for pin in client.pins(name="x", limit=1)] == ["x 0"]


@pytest.mark.parametrize(
    "wanted", [{"cid": HELLO_CID}, {"keyvalues": {"a": 1}}, {"since": 1}, {"until": 1}]
)
def test_a_provider_that_only_lists_takes_no_other_filter(wanted):
    provider = Lister()
    words = "Lister can only list pins by name; leave the other filters out"
    with pytest.raises(UnsupportedError, match=words):
        Client(provider).iter_pins(**wanted)
    with pytest.raises(UnsupportedError, match=words):
        Client(provider).pins(**wanted)
    assert provider.lists == 0


# Pages of the embedded store


def test_pages_of_the_store_neither_repeat_nor_miss_pins(memory_folder, monkeypatch):
    monkeypatch.setattr(pin_rows, "PAGE", 3)
    with Client.init(path=memory_folder) as client:
        for number in range(20):
            client.store(number, name=f"<{number}>")
        wanted = [pin.name for pin in client.pins()]
        assert names(client.iter_pins()) == wanted
        assert names(client.iter_pins(limit=7)) == wanted[:7]
        found = []
        for pin in client.iter_pins():
            found.append(pin.name)
            if len(found) < 4:  # pins that are made or removed meanwhile move nothing
                client.store(f"new {len(found)}")
                client.revoke((client.pins(name=wanted[-len(found)]))[0].cid)
    assert found == wanted[:17]


def test_many_pins_of_one_moment_are_all_found(monkeypatch):
    """A page may end among pins of the same time, several times."""
    monkeypatch.setattr(pin_rows, "PAGE", 3)
    pins = [Pin(id=str(n), cid=HELLO_CID, created=5 if n < 10 else 4) for n in range(13)]

    def find(query):
        latest = 9 if query.created_to is None else query.created_to
        return [pin for pin in pins if pin.created <= latest][: query.limit]

    for limit in (None, 1, 3, 5, 12, 13, 99):
        query = replace(PinQuery(), limit=limit)
        found = [pin for page in pin_rows.pin_pages(find, query) for pin in page]
        assert found == pins[:limit]
