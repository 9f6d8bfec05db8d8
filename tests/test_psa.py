"""The Pinning Services API of the node over a real socket."""

import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime

import pytest
import urllib3

from holdfast import Client, compute_cid
from holdfast.content.cid import CID
from holdfast.node import pin_jobs, tables
from holdfast.node.settings import NodeToken
from holdfast.repository import Repository
from holdfast.testing import ScriptedServer, running_node
from tests.disks import mount, unmount
from tests.node_process import node_process
from tests.psa import ALL, PSACaller
from tests.support import EMPTY_DIRECTORY_V0, wait_until
from tests.v3_caller import V3Caller

READER = NodeToken(token="only-lists-0123456789", scopes=frozenset({"pinList"}))
NOWHERE = compute_cid(b"the content of this CID is nowhere")


@pytest.fixture
def fresh(empty_node):
    return PSACaller(empty_node)


@pytest.fixture(scope="module")
def call():
    with running_node(tokens=(READER,)) as node:
        yield PSACaller(node)


@pytest.fixture(scope="module")
def stored(call):
    """The CIDs of contents that the node has, stored by its other API."""
    with Client.init(call.node.config) as client:
        return [client.store([number], name=f"stored {number}").cid for number in range(3)]


def pinned(caller, cid, **about):
    """Pin content that the node has; return the request when it is pinned."""
    made = caller.add(cid, **about)
    wait_until(lambda: caller.is_pinned(made["requestid"]))
    return caller.get(made["requestid"])


# The objects


def test_a_request_has_all_that_the_specification_wants(call, stored):
    made = call.add(stored[0], name="Zoë 🌊", meta={"app": "tides"}, origins=["/ip4/1.2.3.4/tcp/1"])
    assert made.pop("status") in {"queued", "pinned"}
    made.pop("info", None)
    assert datetime.fromisoformat(made["created"]).timestamp() == pytest.approx(time.time(), abs=60)
    (delegate,) = made["delegates"]
    assert delegate.startswith(
        f"/ip4/127.0.0.1/tcp/{call.node.api_url.rpartition(':')[2]}/http/p2p/"
    )
    CID.parse(delegate.rpartition("/")[2])
    assert made["pin"] == {"cid": stored[0], "name": "Zoë 🌊", "meta": {"app": "tides"}}
    wait_until(lambda: call.is_pinned(made["requestid"]))
    after = call.get(made["requestid"])
    assert after.pop("status") == "pinned"
    assert after.pop("info") == {"dag_size": "3"}
    assert after == made
    call.delete(made["requestid"])


def test_pins_of_the_other_apis_are_requests_too(fresh):
    with Client.init(fresh.node.config) as client:
        record = client.store({"a": 1}, name="a", keyvalues={"n": 1, "b": True})
        (pin,) = client.pins()
        (found,) = fresh.found()["results"]
        assert found["requestid"] == pin.id
        assert found["pin"] == {"cid": record.cid, "name": "a", "meta": {"n": "1", "b": "true"}}
        fresh.delete(pin.id)
        assert client.pins() == []
        made = pinned(fresh, record.cid, name="again", meta={"k": "v"})
        (pin,) = client.pins()
        assert (pin.id, pin.name, pin.keyvalues) == (made["requestid"], "again", {"k": "v"})


# The same content in several requests


def test_each_request_has_an_id_and_a_time_of_its_own(fresh):
    with Client.init(fresh.node.config) as client:
        cid = client.upload(b"hello").cid
    made = [pinned(fresh, cid, name=f"n{number}") for number in range(5)]
    found = fresh.found(cid=cid)
    assert found["count"] == 6
    assert [row["pin"].get("name") for row in found["results"]][:5] == [
        "n4",
        "n3",
        "n2",
        "n1",
        "n0",
    ]
    assert len({row["requestid"] for row in found["results"]}) == 6
    assert len({row["created"] for row in found["results"]}) == 6
    assert [row for row in found["results"] if row["requestid"] == made[2]["requestid"]] == [
        made[2]
    ]


def test_content_stays_pinned_until_its_last_request_is_deleted(fresh):
    with Client.init(fresh.node.config) as client:
        cid = client.upload(b"hello").cid
        (first,) = fresh.ids()
        others = [pinned(fresh, cid, name=name, meta={"of": name}) for name in "ab"]
        fresh.delete(first)  # the pin itself: the oldest of the others takes its place
        (pin,) = client.pins()
        assert (pin.id, pin.name) == (others[0]["requestid"], "a")
        left = fresh.found()["results"]
        assert left == [fresh.get(each["requestid"]) for each in reversed(others)]
        assert [each["created"] for each in left] == [others[1]["created"], others[0]["created"]]
        fresh.delete(others[1]["requestid"])
        assert [pin.id for pin in client.pins()] == [others[0]["requestid"]]
        fresh.delete(others[0]["requestid"])
        assert client.pins() == []
    assert fresh.found(status=ALL) == {"count": 0, "results": []}


def test_what_another_api_unpins_is_in_no_request_any_more(fresh):
    with Client.init(fresh.node.config) as client:
        cid = client.upload(b"hello").cid
        further = pinned(fresh, cid)
        client.revoke(cid)
        assert fresh.found(status=ALL)["count"] == 0
        assert fresh.failure("GET", f"/pins/{further['requestid']}") == (404, "NOT_FOUND")
        client.upload(b"hello")
        assert fresh.found(status=ALL)["count"] == 1


@pytest.mark.parametrize("has_heir", [False, True])
def test_a_deleted_request_leaves_its_group_and_does_not_expire(fresh, has_heir):
    """Its place is taken by a request that is in no group."""
    v3 = V3Caller(fresh.node)
    group = v3.data("POST", "/v3/groups/public", json={"name": "tides"})
    soon = int(time.time()) + 3600
    file = v3.stored(b"hello", group_id=group["id"], expires_at=soon)
    if has_heir:
        pinned(fresh, file["cid"])
    fresh.delete(file["id"])
    assert v3.files(group=group["id"]) == []
    assert [each.get("expires_at") for each in v3.files()] == [None] * has_heir
    with sqlite3.connect(fresh.node.repository.path / "holdfast.node.sqlite3") as connection:
        assert connection.execute("SELECT * FROM files").fetchall() == []


# Replacing and deleting


def test_a_replaced_request_is_gone_and_its_successor_has_another_id(call, stored):
    old = pinned(call, stored[1], name="old")
    reply = call("POST", f"/pins/{old['requestid']}", json={"cid": stored[2], "name": "new"})
    assert reply.status == 202
    new = reply.json()
    assert new["requestid"] != old["requestid"]
    assert new["pin"] == {"cid": stored[2], "name": "new"}
    assert call.failure("GET", f"/pins/{old['requestid']}") == (404, "NOT_FOUND")
    wait_until(lambda: call.is_pinned(new["requestid"]))
    call.delete(new["requestid"])


def test_a_request_can_be_replaced_by_one_for_the_same_content(fresh):
    with Client.init(fresh.node.config) as client:
        cid = client.upload(b"hello", name="first").cid
        (old,) = fresh.ids()
        for name in ("second", "third"):
            reply = fresh("POST", f"/pins/{old}", json={"cid": cid, "name": name})
            new = reply.json()["requestid"]
            wait_until(lambda new=new: fresh.is_pinned(new))
            assert [(pin.id, pin.name) for pin in client.pins()] == [(new, name)]
            assert fresh.ids(status=ALL) == [new]
            old = new


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_request_that_is_not_there(call, method):
    body = {"json": {"cid": NOWHERE}} if method == "POST" else {}
    before = call.found(status=ALL)["count"]
    for unknown in ("5b56981c-7e5b-4dff-aeca-de784728dddb", "x" * 3000, "%00", "é"):
        assert call.failure(method, f"/pins/{unknown}", **body) == (404, "NOT_FOUND")
    assert call.found(status=ALL)["count"] == before


# Jobs


def test_missing_content_fails_with_a_reason_and_can_be_deleted(fresh):
    made = fresh.add(NOWHERE)
    assert made["status"] == "queued"
    wait_until(lambda: fresh.get(made["requestid"])["status"] == "failed")
    failed = fresh.get(made["requestid"])
    assert "did not find the content" in failed["info"]["status_details"]
    assert fresh.found()["count"] == 0
    assert fresh.found(status="failed")["results"] == [failed]
    fresh.delete(made["requestid"])
    assert fresh.found(status=ALL)["count"] == 0


def test_content_is_fetched_from_a_gateway(fresh):
    with (
        running_node(gateways=(fresh.node.gateway_url,)) as node,
        Client.init(fresh.node.config) as client,
    ):
        caller = PSACaller(node)
        cid = client.upload(b"a file " * 300_000).cid
        made = pinned(caller, cid, name="copy")
        assert int(made["info"]["dag_size"]) > 2_000_000
        (pin,) = node.repository.pins()
        assert pin.id == made["requestid"]


@pytest.mark.slow
def test_a_request_goes_through_its_states_and_can_be_cancelled(server):
    server.reply(200, b"", delay=1, hang_up=True)
    with running_node(gateways=(f"{server.url}/ipfs",)) as node:
        caller = PSACaller(node)
        made = caller.add(NOWHERE)
        wait_until(lambda: caller.get(made["requestid"])["status"] == "pinning")
        assert caller.ids(status="queued,pinning") == [made["requestid"]]
        caller.delete(made["requestid"])
        assert caller.found(status=ALL)["count"] == 0
        time.sleep(1.2)
        assert caller.found(status=ALL)["count"] == 0


@pytest.mark.slow
def test_requests_survive_a_restart(tmp_path):
    """Pinned ones, further ones, those that wait, and those that failed."""
    with running_node(tmp_path) as node, Client.init(node.config) as client:
        caller = PSACaller(node)
        cid = client.upload(b"hello").cid
        further = pinned(caller, cid, name="further")
        lost = caller.add(NOWHERE, name="lost")
        wait_until(lambda: caller.get(lost["requestid"])["status"] == "failed")
        before = caller.found(status=ALL)["results"]
    with running_node() as source, Client.init(source.config) as client:
        client.upload(b"the content of this CID is nowhere")  # now it is somewhere
        with running_node(tmp_path, gateways=(source.gateway_url,)) as node:
            caller = PSACaller(node)
            wait_until(lambda: caller.is_pinned(lost["requestid"]))
            after = caller.found(status=ALL)["results"]
            assert [row["requestid"] for row in after] == [row["requestid"] for row in before]
            assert [row["created"] for row in after] == [row["created"] for row in before]
            assert caller.get(further["requestid"])["pin"] == further["pin"]


@pytest.mark.slow
def test_what_was_accepted_survives_kills(tmp_path):
    """Requests of several clients, killed at any moment; content is never unpinned by that."""
    with Client.init(path=tmp_path) as client:
        cids = [client.store([number]).cid for number in range(4)]
    kept, deleted = set(), set()

    def ask(caller, number):
        with suppress(urllib3.exceptions.HTTPError):
            made = caller.add(cids[number % 4], name=f"{number}")["requestid"]
            if number % 3:
                kept.add(made)
            else:
                caller.delete(made)
                deleted.add(made)

    for round_ in range(6):
        with node_process(tmp_path) as node, ThreadPoolExecutor(4) as pool:
            caller = PSACaller(node)
            enough = len(kept) + len(deleted) + 6 + 5 * round_
            for number in range(60):
                pool.submit(ask, caller, number)
            wait_until(lambda least=enough: len(kept) + len(deleted) >= least)
            node.process.kill()
    with node_process(tmp_path) as node:
        caller = PSACaller(node)
        wait_until(lambda: caller.found(status="queued,pinning")["count"] == 0)
        assert len(kept) > 20
        assert all(caller.is_pinned(each) for each in kept)
        for each in deleted:
            assert caller.failure("GET", f"/pins/{each}") == (404, "NOT_FOUND")
    with Client.init(path=tmp_path) as client:
        assert {pin.cid for pin in client.pins()} == set(cids)


@pytest.mark.slow
def test_the_switch_is_an_option_of_the_process(tmp_path):
    with node_process(tmp_path, "--pretend-pinned") as node:
        assert PSACaller(node).add(NOWHERE)["status"] == "pinned"


@pytest.mark.slow
def test_what_was_unpinned_stays_so_after_a_restart(tmp_path):
    """Its blocks are still there, and a further request for it was pinned before."""
    with running_node(tmp_path) as node, Client.init(node.config) as client:
        cid = client.upload(b"hello").cid
        caller = PSACaller(node)
        first, second = pinned(caller, cid), pinned(caller, cid)
        client.revoke(cid)
    with running_node(tmp_path) as node:
        caller = PSACaller(node)
        for each in (first, second):
            assert caller.failure("GET", f"/pins/{each['requestid']}") == (404, "NOT_FOUND")
        assert caller.found(status=ALL)["count"] == 0
        assert node.repository.pins() == []


@pytest.mark.slow
def test_two_nodes_over_one_store_leave_the_requests_of_the_other_alone(tmp_path):
    with running_node(tmp_path) as one, running_node(tmp_path) as two:
        here, there = PSACaller(one), PSACaller(two)
        assert there.found(status=ALL)["count"] == 0
        made = here.add(NOWHERE)
        wait_until(lambda: here.get(made["requestid"])["status"] == "failed")
        assert there.found(status=ALL)["count"] == 0  # a job of the other node
        assert here.found(status=ALL)["count"] == 1
        with Client.init(one.config) as client:
            cid = client.upload(b"hello").cid
        further = pinned(here, cid)
        assert there.is_pinned(further["requestid"])
        there.delete(further["requestid"])
        assert here.failure("GET", f"/pins/{further['requestid']}") == (404, "NOT_FOUND")


@pytest.mark.slow
def test_too_many_jobs_are_refused_and_failed_ones_make_room(monkeypatch, server):
    monkeypatch.setattr(pin_jobs, "MAX_JOBS", 3)
    with running_node() as node:
        caller = PSACaller(node)
        for number in range(5):
            made = caller.add(compute_cid(b"%d" % number))
            wait_until(lambda made=made: caller.get(made["requestid"])["status"] == "failed")
        assert caller.found(status=ALL)["count"] == 3  # the last ones
    for _ in range(2):
        server.reply(200, delay=5)
    with running_node(gateways=(f"{server.url}/ipfs",)) as node:
        caller = PSACaller(node)
        for number in range(3):
            caller.add(compute_cid(b"%d" % number))
        reply = caller("POST", json={"cid": NOWHERE})
        assert (reply.status, reply.headers["retry-after"]) == (503, "60")
        assert caller.found(status=ALL)["count"] == 3


@pytest.mark.slow
def test_the_table_of_requests_is_bounded(monkeypatch, fresh):
    monkeypatch.setattr(tables, "MAX_REQUESTS", 2)
    with Client.init(fresh.node.config) as client:
        cid = client.upload(b"hello").cid
    made = [pinned(fresh, cid) for _ in range(2)]
    assert fresh.failure("POST", json={"cid": cid}) == (409, "TOO_MANY_REQUESTS")
    fresh.delete(made[0]["requestid"])
    pinned(fresh, cid)


def test_the_switch_for_the_compliance_suite_calls_missing_content_pinned(tmp_path):
    with running_node(tmp_path, pretend_pinned=True) as node:
        caller = PSACaller(node)
        made = caller.add(NOWHERE, name="pretended")
        assert made["status"] == "pinned"
        assert caller.found(name="pretended")["count"] == 1
        assert node.repository.pins() == []
    with running_node(tmp_path) as node:
        wait_until(lambda: PSACaller(node).get(made["requestid"])["status"] == "failed")


# Filters


@pytest.fixture(scope="module")
def named(call, stored):
    names = {"Low Tide": {"height": "1", "sea": "north"}, "low tide": {"height": "2"}, "HIGH": {}}
    made = {name: pinned(call, stored[0], name=name, meta=meta) for name, meta in names.items()}
    return {name: row["requestid"] for name, row in made.items()}


@pytest.mark.parametrize(
    ("match", "text", "found"),
    [
        ("exact", "Low Tide", {"Low Tide"}),
        (None, "low tide", {"low tide"}),
        (None, "low", set()),
        ("iexact", "LOW TIDE", {"Low Tide", "low tide"}),
        ("iexact", "LOW", set()),
        ("partial", "Tide", {"Low Tide"}),
        ("partial", "ow ", {"Low Tide", "low tide"}),
        ("ipartial", "TIDE", {"Low Tide", "low tide"}),
        ("ipartial", "h", {"HIGH"}),
        ("partial", "%", set()),
    ],
)
def test_names_match_in_four_ways(call, stored, named, match, text, found):  # noqa: PLR0917
    filters = {"name": text, "cid": stored[0]} | ({"match": match} if match else {})
    reply = call.found(**filters)
    assert {row["pin"]["name"] for row in reply["results"]} == found
    assert reply["count"] == len(found)


def test_meta_must_match_in_all_pairs(call, named):
    for meta, found in (
        ({"height": "1"}, ["Low Tide"]),
        ({"height": "1", "sea": "north"}, ["Low Tide"]),
        ({"height": "2", "sea": "north"}, []),
        ({"HEIGHT": "1"}, []),
    ):
        reply = call.found(meta=json.dumps(meta))
        assert [row["pin"]["name"] for row in reply["results"]] == found
        assert reply["count"] == len(found)


def test_cids_are_found_in_both_versions_up_to_ten(fresh):
    with Client.init(fresh.node.config, cid_version=0) as client:
        old = [client.upload(b"%d" % number, name=f"{number}").cid for number in range(11)]
    new = str(
        CID(1, *(getattr(CID.parse(old[0]), each) for each in ("codec", "hash_code", "digest")))
    )
    assert [row["pin"]["cid"] for row in fresh.found(cid=new)["results"]] == [old[0]]
    assert fresh.found(cid=",".join(old[:10]))["count"] == 10
    assert fresh.found(cid=EMPTY_DIRECTORY_V0)["count"] == 0
    assert fresh("GET", f"/pins?cid={old[0]}&cid={old[1]}").json()["count"] == 2
    assert fresh.failure("GET", fields={"cid": ",".join(old)}) == (400, "BAD_REQUEST")


def test_all_pages_have_each_pin_once(fresh):
    """Also of pins that were made in the same millisecond, and of further requests."""
    with Client.init(fresh.node.config) as client:
        records = [each.result() for each in client.store_many([n] for n in range(60))]
    for record in records[:5]:
        pinned(fresh, record.cid)
    assert len(fresh.ids()) == 10
    found, before = [], {}
    while rows := fresh.found(limit="7", status=ALL, **before)["results"]:
        found += rows
        before = {"before": rows[-1]["created"]}
    assert len(found) == len({row["requestid"] for row in found}) == 65
    times = [row["created"] for row in found]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == 65
    for at in (1, 30, 64):
        earlier = fresh.found(before=times[at], limit="1000", status=ALL)
        assert [row["created"] for row in earlier["results"]] == times[at + 1 :]
        later = fresh.found(after=times[at], limit="1000", status=ALL)
        assert [row["created"] for row in later["results"]] == times[:at]
        assert (earlier["count"], later["count"]) == (64 - at, at)


def test_times_may_be_in_any_zone_and_precision(fresh):
    with Client.init(fresh.node.config) as client:
        client.upload(b"hello")
    (row,) = fresh.found()["results"]
    moment = row["created"]
    as_zone = datetime.fromisoformat(moment).astimezone().isoformat()
    assert fresh.found(after=as_zone[:19] + "Z" if as_zone.endswith("Z") else moment)["count"] == 0
    assert fresh.found(before=moment)["count"] == 0
    assert fresh.found(before="2999-01-01T00:00:00+05:30")["count"] == 1
    assert fresh.found(after="2020-01-01t00:00:00z")["count"] == 1
    assert fresh.found(before=moment.replace("Z", "9Z"))["count"] == 0  # a tenth digit is dropped


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=ten",
        "limit=1.5",
        "status=done",
        "status=pinned,done",
        "match=fuzzy&name=x",
        "cid=nonsense",
        f"cid={NOWHERE},",
        "before=yesterday",
        "before=2020-01-01",
        "before=2020-13-01T00:00:00Z",
        "after=2020-01-01T00:00:00",
        "after=1595871148",
        "meta=x",
        "meta=[]",
        'meta={"a":1}',
        "meta=" + "[" * 5000,
        f"name={'x' * 256}",
    ],
    ids=lambda query: query[:30],
)
def test_bad_filters_are_refused(call, query):
    if query.endswith(","):
        assert call("GET", f"/pins?{query}").status == 200  # an empty item is nothing
        return
    assert call.failure("GET", f"/pins?{query}") == (400, "BAD_REQUEST")


# Bodies, tokens and addresses


BAD_PINS = [
    {"name": "x" * 256},
    {"name": 5},
    {"name": "\ud800"},
    {"meta": {"a": 1}},
    {"meta": ["a"]},
    {"meta": {str(n): "" for n in range(1001)}},
    {"meta": {"a": "x" * 20_000}},
    {"origins": "/ip4/1.2.3.4"},
    {"origins": ["http://example.com"]},
    {"origins": ["/ip4/1.2.3.4/tcp/1"] * 2},
    {"origins": [f"/ip4/1.2.3.4/tcp/{n}" for n in range(21)]},
]
BAD_BODIES = [b"", b"{", b"[]", b"{}", b'{"cid":5}', b'{"cid":"nonsense"}', b'{"cid":"../../x"}']
BAD_BODIES += [json.dumps({"cid": NOWHERE, **pin}).encode() for pin in BAD_PINS]


@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: body[66:126].decode() or body[:60])
def test_bad_bodies_are_refused(call, body):
    before = call.found(status=ALL)["count"]
    assert call.failure("POST", body=body) == (400, "BAD_REQUEST")
    assert call.found(status=ALL)["count"] == before


def test_a_body_has_a_limit(call):
    reply = call("POST", body=b'{"cid":"' + b"x" * (2 << 20) + b'"}')
    assert reply.status == 413
    assert reply.json()["error"]["reason"]


@pytest.mark.parametrize("token", ["", "wrong", "é"])
@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/pins"), ("POST", "/pins"), ("DELETE", "/pins/x")]
)
def test_a_token_is_needed(call, method, path, token):
    encoded = token.encode().decode("latin-1")
    assert call.failure(method, path, token=encoded) == (401, "UNAUTHORIZED")


def test_scopes_count(call, stored):
    assert call("GET", token=READER.token).status == 200
    for method, path in (("POST", "/pins"), ("POST", "/pins/x"), ("DELETE", "/pins/x")):
        body = {"json": {"cid": stored[0]}} if method == "POST" else {}
        status, reason = call.failure(method, path, token=READER.token, **body)
        assert (status, reason) == (403, "NO_SCOPES_FOUND")


@pytest.mark.slow
def test_the_rate_limit_counts_here_too():
    with running_node(rate_limit=2) as node:
        caller = PSACaller(node)
        statuses = [caller("GET").status for _ in range(3)]
        assert statuses == [200, 200, 429]
        assert caller.failure("GET") == (429, "RATE_LIMITED")


def test_other_addresses_and_methods_are_failures(call):
    assert call.failure("GET", "/nothing") == (404, "NOT_FOUND")
    assert call.failure("PUT")[0] == 405
    assert call.failure("PATCH", "/pins/x")[0] == 405


# Many at once


@pytest.mark.slow
def test_requests_of_many_clients_at_once_are_all_kept(fresh):
    with Client.init(fresh.node.config) as client:
        cids = [each.result().cid for each in client.store_many([n] for n in range(8))]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: fresh.add(cids[n % 8], name=f"n{n}"), range(48)))
        wait_until(lambda: fresh.found()["count"] == 56)
        list(pool.map(lambda each: fresh.delete(each["requestid"]), made))
    assert fresh.found(status=ALL)["count"] == 8
    assert len(fresh.node.repository.pins()) == 8


@pytest.mark.slow
def test_a_damaged_table_is_named_and_no_content_is_lost(tmp_path, caplog):
    with running_node(tmp_path) as node, Client.init(node.config) as client:
        cid = client.upload(b"hello").cid
        pinned(PSACaller(node), cid)
    (tmp_path / "holdfast.node.sqlite3").write_bytes(b"no database" * 1000)
    with running_node(tmp_path) as node, Client.init(node.config) as client:
        status, reason = PSACaller(node).failure("GET")
        assert (status, reason) == (500, "INTERNAL_SERVER_ERROR")
        assert client.download(cid).read() == b"hello"
        assert [pin.cid for pin in client.pins()] == [cid]
    with Repository(tmp_path) as repository:
        assert list(repository.check()) == []


@pytest.mark.parametrize("value", ["x'ff'", "1e300", "'x'"])
@pytest.mark.parametrize("column", ["cid", "created", "name", "keyvalues"])
def test_a_damaged_row_is_an_error_and_no_content_is_lost(fresh, column, value):
    with Client.init(fresh.node.config) as client:
        cid = client.upload(b"hello").cid
        made = pinned(fresh, cid)
        table = fresh.node.repository.path / "holdfast.node.sqlite3"
        with sqlite3.connect(table) as connection:
            sql = f"UPDATE requests SET {column} = {value}"  # noqa: S608 - ours
            assert connection.execute(sql).rowcount == 1
        path = f"/pins/{made['requestid']}"
        if (column, value) in {("name", "'x'"), ("name", "1e300")}:  # SQLite makes it a text
            assert fresh("GET", path).status == 200
        else:
            assert fresh.failure("GET", path) == (500, "INTERNAL_SERVER_ERROR")
        assert client.download(cid).read() == b"hello"


@contextmanager
def read_only(folder):
    """Make a folder a read-only disk."""
    mount(folder, "--bind", str(folder))
    try:
        mount(folder, "-o", "remount,ro,bind")
        yield
    finally:
        unmount(folder)


@pytest.mark.slow
@pytest.mark.parametrize("has_requests", [False, True])
def test_a_read_only_store_can_be_listed(tmp_path, has_requests):
    folder = tmp_path / "store"
    with running_node(folder) as node, Client.init(node.config) as client:
        cid = client.upload(b"hello").cid
        if has_requests:
            pinned(PSACaller(node), cid)
    with read_only(folder), running_node(folder) as node:
        caller = PSACaller(node)
        assert caller.found(status=ALL)["count"] == 1 + has_requests
        assert caller.failure("POST", json={"cid": cid}) == (500, "INTERNAL_SERVER_ERROR")
        assert caller.failure("DELETE", f"/pins/{caller.ids()[0]}")[0] == 500


@pytest.mark.slow
def test_a_hostile_gateway_cannot_pin_other_content():
    with ScriptedServer() as server:
        for _ in range(2):
            server.reply(
                200, b"not an archive", headers={"Content-Type": "application/vnd.ipld.car"}
            )
        with running_node(gateways=(f"{server.url}/ipfs",)) as node:
            caller = PSACaller(node)
            made = caller.add(NOWHERE)
            wait_until(lambda: caller.get(made["requestid"])["status"] == "failed")
            assert node.repository.pins() == []
