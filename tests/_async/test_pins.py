"""Pins: by all filters, their names and key-values, and pins of content by its CID."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from holdfast import AsyncClient, Pin
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.errors import (
    ClientClosedError,
    InvalidCIDError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    UnsupportedError,
)
from holdfast.repository import PinQuery
from holdfast.repository import pins as pin_rows
from holdfast.testing import Scripted, ScriptedServer
from tests._async.spec_only import AsyncSpecOnly
from tests.support import HELLO_CID, TOKEN, config_for, pinned, query_of

JOB = {"id": "job-7", "ipfsHash": HELLO_CID, "status": "prechecking", "name": "x"}
NOTHING = {"rows": []}
PIN_ROW = {
    "id": "1",
    "ipfs_pin_hash": HELLO_CID,
    "size": 5,
    "date_pinned": "2024-07-11T23:33:27.665Z",
    "metadata": {"name": "old", "keyvalues": {"a": "1", "b": "2"}},
}


async def names(pins):
    return [pin.name async for pin in pins]


async def three(client):
    """Three pins, the newest last, with times that differ."""
    for name, keyvalues in (
        ("one", {"kind": "a", "n": 1}),
        ("two", {"kind": "b", "n": 2}),
        ("three", {"kind": "a", "n": 3, "done": True}),
    ):
        await client.store(name, name=name, keyvalues=keyvalues)
        made = (await client.pins(limit=1))[0].created_ms
        while int(datetime.now(UTC).timestamp() * 1000) <= made:
            pass


async def test_pins_are_found_by_each_filter(store_client):
    await three(store_client)
    three_, two, one = await store_client.pins()
    assert await names(store_client.iter_pins()) == ["three", "two", "one"]
    assert await names(store_client.iter_pins(name="T")) == ["three", "two"]
    assert await names(store_client.iter_pins(cid=two.cid)) == ["two"]
    assert await names(store_client.iter_pins(cid=f"https://ipfs.io/ipfs/{two.cid}?x=1")) == ["two"]
    assert await names(store_client.iter_pins(cid=HELLO_CID)) == []
    assert await names(store_client.iter_pins(keyvalues={"kind": "a"})) == ["three", "one"]
    assert await names(store_client.iter_pins(keyvalues={"kind": "a", "n": 3})) == ["three"]
    assert await names(store_client.iter_pins(keyvalues={"kind": "a", "n": "3"})) == ["three"]
    assert await names(store_client.iter_pins(keyvalues={"done": True})) == ["three"]
    assert await names(store_client.iter_pins(keyvalues={"done": 1})) == []
    assert await names(store_client.iter_pins(keyvalues={"missing": "x"})) == []
    assert await names(store_client.iter_pins(keyvalues={})) == ["three", "two", "one"]
    assert await names(store_client.iter_pins(since=two.created)) == ["three", "two"]
    assert await names(store_client.iter_pins(until=two.created_ms)) == ["two", "one"]
    assert await names(store_client.iter_pins(since=two.created, until=two.created)) == ["two"]
    assert await names(store_client.iter_pins(since=three_.created_ms + 1)) == []
    assert await names(store_client.iter_pins(limit=2)) == ["three", "two"]
    assert await names(store_client.iter_pins(keyvalues={"kind": "a"}, limit=1)) == ["three"]
    assert await names(store_client.iter_pins(name="o", keyvalues={"n": 1})) == ["one"]
    assert await store_client.pins(cid=one.cid, keyvalues={"n": 1}) == [one]


async def test_a_time_may_be_a_datetime_in_any_zone(store_client):
    await three(store_client)
    _, two, _ = await store_client.pins()
    moment = two.created.astimezone(timezone(timedelta(hours=5)))
    assert await names(store_client.iter_pins(since=moment)) == ["three", "two"]
    assert await names(store_client.iter_pins(until=moment)) == ["two", "one"]
    later = moment + timedelta(milliseconds=1)
    assert await names(store_client.iter_pins(since=later)) == ["three"]
    for text in (later.isoformat(), f"{later.astimezone(UTC).replace(tzinfo=None)}"):
        assert await names(store_client.iter_pins(since=text)) == ["three"]
    naive = two.created.replace(tzinfo=None)
    assert await names(store_client.iter_pins(since=naive)) == ["three", "two"]
    day = two.created.date()  # the others may be of the day before or after
    assert "two" in await names(store_client.iter_pins(since=f"{day}", until=f"{day}"))
    assert await store_client.pins(until=f"{day - timedelta(days=2)}") == []


def test_a_pin_has_its_times_as_datetimes_and_as_milliseconds():
    pin = Pin(id="1", cid=HELLO_CID, created_ms=1_700_000_000_123, removed_ms=0)
    assert pin.created == datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
    assert pin.removed == datetime(1970, 1, 1, tzinfo=UTC)
    assert (pin.to_dict()["created"], pin.to_dict()["removed"]) == (1_700_000_000_123, 0)
    unknown = Pin(id="1", cid=HELLO_CID, created_ms=10**18)
    assert (unknown.created, unknown.removed) == (None, None)


async def test_a_cid_is_found_in_both_versions(store_client):
    old = store_client.with_options(cid_version=0)
    record = await old.upload(b"in version 0")
    parsed = CID.parse(record.cid)
    as_v1 = str(CID(1, parsed.codec, parsed.hash_code, parsed.digest))
    assert [pin.cid for pin in await store_client.pins(cid=record.cid)] == [record.cid]
    assert [pin.cid for pin in await store_client.pins(cid=as_v1)] == [record.cid]


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"name": 5}, TypeError, "name must be a string"),
        ({"cid": "x"}, InvalidCIDError, "Invalid CID"),
        ({"cid": f"{HELLO_CID}/a"}, InvalidCIDError, "Invalid CID"),
        ({"keyvalues": [1]}, TypeError, "keyvalues must be a mapping"),
        ({"keyvalues": {"a": None}}, TypeError, "must be a string, a number or a bool"),
        ({"keyvalues": {"a": float("nan")}}, ValueError, "must be a finite number"),
        (
            {"since": "soon"},
            ValueError,
            "since must be a time such as 2026-01-31 or .*, not 'soon'",
        ),
        ({"until": "2026-02-30"}, ValueError, "until must be a time such as"),
        ({"since": 1.5}, TypeError, "since must be a datetime, a text or a whole number of mill"),
        ({"since": True}, TypeError, "since must be a datetime"),
        ({"since": b"2026-01-01"}, TypeError, "not bytes"),
        ({"since": -1}, ValueError, "between the years 1970 and 9999"),
        ({"until": 10**15}, ValueError, "between the years 1970 and 9999"),
        ({"since": "7d"}, ValueError, "give a datetime, an ISO 8601 text or milliseconds"),
        ({"limit": 0}, ValueError, "limit must be at least 1"),
        ({"limit": -1}, ValueError, "limit must be at least 1"),
        ({"limit": "1"}, TypeError, "limit must be a whole number"),
        ({"limit": 1.5}, TypeError, "limit must be a whole number"),
        ({"limit": True}, TypeError, "limit must be a whole number"),
    ],
)
async def test_bad_filters_are_refused_at_once(server, client, arguments, kind, words):
    with pytest.raises(kind, match=words):
        client.iter_pins(**arguments)
    with pytest.raises(kind, match=words):
        await client.pins(**arguments)
    assert server.requests == []


async def test_closing_ends_the_list_at_the_next_page(store_client, monkeypatch):
    monkeypatch.setattr(pin_rows, "PAGE", 1)
    monkeypatch.setattr("holdfast.protocol.pin_api.PAGE_LIMIT", 1)
    await three(store_client)
    pins = store_client.iter_pins()
    await anext(pins)
    await store_client.aclose()
    with pytest.raises(ClientClosedError):
        await anext(pins)
    with pytest.raises(ClientClosedError):
        store_client.iter_pins()
    with pytest.raises(ClientClosedError):
        await store_client.pins()


# As the service is asked


def row(number):
    return {**PIN_ROW, "id": f"id-{number}", "ipfs_pin_hash": str(CID.of_raw(b"%d" % number))}


async def test_pages_are_fetched_as_they_are_needed():
    rows = [row(number) for number in range(2500)]

    def script(request):
        start = int(query_of(request)["pageOffset"])
        return Scripted(body={"rows": rows[start : start + 1000]})

    with ScriptedServer(script) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            pins = client.iter_pins()
            assert server.requests == []
            assert (await anext(pins)).id == "id-0"
            assert len(server.requests) == 1
            count = 1
            async for _ in pins:
                count += 1
                if count == 1001:
                    break
            assert len(server.requests) == 2
            # Nothing of the list is held: the connection and the place among the calls are free.
            server.reply(200, {"message": "hello"})
            assert await client.test_connection() is True


async def test_a_failure_in_the_middle_comes_after_the_pins_before(server, client):
    server.reply(200, {"rows": [row(number) for number in range(1000)]})
    server.reply(500, {"error": "no more"})
    pins = client.iter_pins()
    assert [(await anext(pins)).id for _ in range(1000)][-1] == "id-999"
    with pytest.raises(ProviderError, match="no more"):
        await anext(pins)


# Pages of the embedded store


async def test_pages_of_the_store_neither_repeat_nor_miss_pins(memory_folder, monkeypatch):
    monkeypatch.setattr(pin_rows, "PAGE", 3)
    async with await AsyncClient.init(path=memory_folder) as client:
        for number in range(20):
            await client.store(number, name=f"<{number}>")
        expected = [pin.name for pin in await client.pins()]
        assert await names(client.iter_pins()) == expected
        assert await names(client.iter_pins(limit=7)) == expected[:7]
        listed = []
        async for pin in client.iter_pins():
            listed.append(pin.name)
            if len(listed) < 4:  # pins that are made or removed meanwhile move nothing
                await client.store(f"new {len(listed)}")
                await client.revoke((await client.pins(name=expected[-len(listed)]))[0].cid)
    assert listed == expected[:17]


async def test_many_pins_of_one_moment_are_all_found(monkeypatch):
    """A page may end among pins of the same time, several times."""
    monkeypatch.setattr(pin_rows, "PAGE", 3)
    pins = [Pin(id=str(n), cid=HELLO_CID, created_ms=5 if n < 10 else 4) for n in range(13)]

    def find(query):
        latest = 9 if query.created_to is None else query.created_to
        return [pin for pin in pins if pin.created_ms <= latest][: query.limit]

    for limit in (None, 1, 3, 5, 12, 13, 99):
        query = replace(PinQuery(), limit=limit)
        assert [pin for page in pin_rows.pin_pages(find, query) for pin in page] == pins[:limit]


# Names and key-values


async def test_a_name_and_key_values_are_stored(store_client):
    await store_client.store([1], name="one", keyvalues={"a": "ü", "n": 1.5, "b": False})
    await store_client.upload(b"2", name="two.txt", keyvalues={"a": 2})
    assert (await store_client.store([3], keyvalues={"a": 3})).duplicate is False
    assert (await store_client.store([3])).duplicate is True
    third, second, first = await store_client.pins()
    assert (first.name, first.keyvalues) == ("one", {"a": "ü", "n": 1.5, "b": False})
    assert (second.name, second.keyvalues) == ("two.txt", {"a": 2})
    assert (third.name[:7], third.keyvalues) == ("client-", {"a": 3})


async def test_update_of_what_is_not_pinned(store_client):
    words = f"^The current user has not pinned the cid: {HELLO_CID}$"
    with pytest.raises(NotFoundError, match=words):
        await store_client.update(HELLO_CID, name="x")
    with pytest.raises(NotFoundError, match=words):
        await store_client.revoke(HELLO_CID)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({}, ValueError, "nothing to change: give a name, keyvalues, or both"),
        ({"keyvalues": {}}, ValueError, "nothing to change"),
        ({"name": 5}, TypeError, "name must be a string"),
        ({"keyvalues": "a=b"}, TypeError, "keyvalues must be a mapping"),
        ({"keyvalues": {"a": [1]}}, TypeError, "must be a string, a number or a bool, not list"),
        ({"keyvalues": {"a": float("inf")}}, ValueError, "must be a finite number"),
        ({"keyvalues": {"\ud800": 1}}, ValueError, "lone surrogates"),
    ],
)
async def test_bad_changes_are_refused_before_anything_is_sent(
    server, client, arguments, kind, words
):
    with pytest.raises(kind, match=words):
        await client.update(HELLO_CID, **arguments)
    if arguments.get("keyvalues"):
        with pytest.raises(kind, match=words):
            await client.store([1], **arguments)
    with pytest.raises(InvalidCIDError):
        await client.update(f"{HELLO_CID}/path", name="x")
    assert server.requests == []


async def test_a_provider_without_names_says_so():
    client = AsyncClient(AsyncSpecOnly())
    with pytest.raises(UnsupportedError, match="SpecOnly cannot change pins; store the content"):
        await client.update(HELLO_CID, name="x")


def sent(server):
    return [f"{request.method} {request.target}" for request in server.requests]


async def test_an_upload_sends_metadata_only_with_key_values(server, client):
    server.reply(200, pinned())
    await client.upload(b"hello", name="a.txt")
    server.reply(200, pinned())
    await client.upload(b"hello", name="a.txt", keyvalues={"a": 1})
    first, second = server.requests
    assert b'filename="a.txt"' in first.body
    assert b"etadata" not in first.raw
    assert b'{"name":"a.txt","keyvalues":{"a":1}}' in second.body


async def test_only_a_duplicate_with_something_given_takes_another_request(server, client):
    duplicate = {**pinned(), "isDuplicate": True}
    for reply in (pinned(), duplicate):
        server.reply(200, reply)
        assert (await client.upload(b"hello")).duplicate is (reply is duplicate)
    server.reply(200, pinned())
    await client.upload(b"hello", name="x", keyvalues={"a": 1})
    assert set(sent(server)) == {"POST /pinning/pinFileToIPFS"}
    server.reply(200, duplicate)
    server.reply(200, b"OK")
    assert (await client.upload(b"hello", name="x", keyvalues={"a": 1})).duplicate is True
    change = server.requests[-1]
    assert (change.method, change.target) == ("PUT", "/pinning/hashMetadata")
    assert change.json() == {"ipfsPinHash": HELLO_CID, "name": "x", "keyvalues": {"a": 1}}
    assert change.headers["authorization"] == f"Bearer {TOKEN}"
    assert change.headers["content-type"] == "application/json"


async def test_key_values_alone_do_not_rename_a_duplicate(server, client):
    server.reply(200, {**pinned(), "isDuplicate": True})
    server.reply(200, b"OK")
    await client.store("hello", keyvalues={"a": 1})
    assert server.requests[-1].json() == {"ipfsPinHash": HELLO_CID, "keyvalues": {"a": 1}}


async def test_after_a_lost_reply_it_is_not_known_whether_it_was_a_duplicate(server):
    config = config_for(server, retries={"attempts": 2, "base": 0.01})
    async with await AsyncClient.init(config) as client:
        server.reply(200, hang_up=True)
        server.reply(200, {**pinned(), "isDuplicate": True})
        record = await client.store("hello")
    assert (len(server.requests), record.duplicate) == (2, None)


async def test_a_change_that_is_refused_is_an_error(server, client):
    server.reply(200, {**pinned(), "isDuplicate": True})
    server.reply(403, {"error": {"details": "no scope hashMetadata"}})
    with pytest.raises(PermissionDeniedError, match="no scope hashMetadata"):
        await client.store("hello", name="x")


async def test_update_sends_the_changes_and_asks_for_the_pin(server, client):
    server.reply(200, b"OK")
    server.reply(200, {"rows": [PIN_ROW]})  # the list lags behind
    pin = await client.update(HELLO_CID, name="new", keyvalues={"a": None, "c": 3})
    change, look = server.requests
    assert json.loads(change.body) == {
        "ipfsPinHash": HELLO_CID,
        "name": "new",
        "keyvalues": {"a": None, "c": 3},
    }
    assert look.target.startswith("/data/pinList?")
    assert (pin.name, pin.keyvalues, pin.size) == ("new", {"b": "2", "c": 3}, 5)


async def test_update_where_the_service_takes_anything_and_lists_nothing(server, client):
    server.reply(200, b"OK")
    server.reply(200, {"rows": []})
    with pytest.raises(NotFoundError, match="has not pinned the cid"):
        await client.update(HELLO_CID, name="new")


# Content that exists already, by its CID


def job(status, number=7):
    return {"count": 1, "rows": [{"id": f"job-{number}", "status": status}]}


async def states(server, client, *jobs, wait=30.0):
    """Pin with these replies to the questions after the job; return the pin."""
    server.reply(200, NOTHING)
    server.reply(200, JOB)
    for reply in jobs:
        server.reply(200, reply)
    return await client.pin(HELLO_CID, wait=wait)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr("holdfast._async.pin_waiting.FIRST_PAUSE", 0.001)


async def test_what_the_store_has_is_pinned_at_once(tmp_path):
    async with await AsyncClient.init(path=tmp_path) as client:
        cid = (await client.upload(b"1", name="old")).cid
        await client.revoke(cid)
        assert await client.pins() == []
        pin = await client.pin(f"/ipfs/{cid}", name="new.txt", keyvalues={"a": 1})
        assert (pin.state, pin.size, pin.type[:10]) == ("pinned", 1, "text/plain")
        assert (pin.cid, pin.name, pin.keyvalues) == (cid, "new.txt", {"a": 1})
        assert await client.pins() == [pin]


async def test_what_the_store_does_not_have_is_told_with_the_way_to_get_it(tmp_path):
    async with await AsyncClient.init(path=tmp_path) as client:
        with pytest.raises(NotFoundError) as caught:
            await client.pin(HELLO_CID)
        note = "give a gateway_url, or run `holdfast car import FILE`"
        assert (caught.value.__notes__, caught.value.__cause__) == ([note], None)
        assert str(caught.value) == (
            f"the embedded store does not have all of {HELLO_CID}, and fetches nothing without a "
            "gateway_url"
        )
        block = CID.of_raw(b"hello")
        archive = b"".join(write_car([block], [(block, b"hello")]))
        await client.provider.import_car([archive])
        assert (await client.pin(HELLO_CID)).state == "pinned"


async def test_waiting_follows_the_job_to_its_pin(server, client):
    steps = [job("prechecking"), job("retrieving"), job("expired", 6), NOTHING, NOTHING]
    pin = await states(server, client, *steps, {"rows": [PIN_ROW]})
    assert (pin.id, pin.state, pin.size, pin.name) == ("1", "pinned", 5, "old")
    jobs = [sent for sent in server.requests if sent.target.startswith("/pinning/pinJobs")]
    assert jobs[0].target == f"/pinning/pinJobs?ipfs_pin_hash={HELLO_CID}&sort=DESC&limit=100"
    assert len(jobs) == 4


async def test_the_wait_ends_with_the_state_so_far(server, client, monkeypatch):
    monkeypatch.setattr("holdfast._async.pin_waiting.FIRST_PAUSE", 5.0)
    pin = await states(server, client, job("searching"), wait=0.01)
    assert (pin.id, pin.state) == ("job-7", "pinning")
    assert len(server.requests) == 3


async def test_a_plan_without_pinning_by_cid_is_the_error_of_the_service(server, client):
    server.reply(200, NOTHING)
    server.reply(403, {"error": {"reason": "PAID_FEATURE_ONLY", "details": "upgrade"}})
    with pytest.raises(PermissionDeniedError, match=r"^upgrade$"):
        await client.pin(HELLO_CID)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"name": 5}, TypeError, "name must be a string"),
        ({"keyvalues": {"a": None}}, TypeError, "must be a string, a number or a bool"),
        ({"wait": "1"}, TypeError, "wait must be a number of seconds, not str"),
        ({"wait": True}, TypeError, "wait must be a number of seconds"),
        ({"wait": -1}, ValueError, "and not negative"),
        ({"wait": float("nan")}, ValueError, "wait must be a number of seconds"),
        ({"wait": float("inf")}, ValueError, "wait must be a number of seconds"),
    ],
)
async def test_bad_arguments_of_pin_are_refused_before_anything_is_sent(
    server, client, arguments, kind, words
):
    with pytest.raises(kind, match=words):
        await client.pin(HELLO_CID, **arguments)
    with pytest.raises(InvalidCIDError):
        await client.pin(f"{HELLO_CID}/path")
    with pytest.raises(UnsupportedError, match="SpecOnly cannot pin content by its CID"):
        await AsyncClient(AsyncSpecOnly()).pin(HELLO_CID)
    await client.aclose()
    with pytest.raises(ClientClosedError):
        await client.pin(HELLO_CID)
    assert server.requests == []
