"""The Pinning Services API of the node over a real socket."""

import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import datetime

import pytest
import urllib3

from holdfast import Client, compute_cid
from holdfast.content.cid import CID
from holdfast.node import pin_jobs, tables
from holdfast.node.settings import NodeToken
from holdfast.testing import running_node
from tests.node_process import node_process
from tests.psa import ALL, PSACaller
from tests.support import EMPTY_DIRECTORY_V0, wait_until
from tests.v3_caller import V3Caller

READER = NodeToken(token="only-lists-0123456789", scopes=frozenset({"pinList"}))
NOWHERE = compute_cid(b"the content of this CID is nowhere")


@pytest.fixture
def fresh(empty_node):
    return PSACaller(empty_node)


@pytest.fixture
def client(empty_node):
    """The older API of the node of `fresh`."""
    with Client.init(empty_node.config) as client:
        yield client


@pytest.fixture
def hello(client):
    return client.upload(b"hello").cid


@pytest.fixture(scope="module")
def call():
    with running_node(tokens=(READER,)) as node:
        yield PSACaller(node)


@pytest.fixture(scope="module")
def stored(call):
    """The CIDs of contents that the node has, stored by its other API."""
    with Client.init(call.node.config) as client:
        return [client.store([number], name=f"stored {number}").cid for number in range(3)]


# The objects


def test_a_request_has_all_that_the_specification_wants(call, stored):
    made = call.add(stored[0], name="Zoë 🌊", meta={"app": "tides"}, origins=["/ip4/1.2.3.4/tcp/1"])
    assert made.pop("status") in {"queued", "pinned"}
    made.pop("info", None)
    assert datetime.fromisoformat(made["created"]).timestamp() == pytest.approx(time.time(), abs=60)
    (delegate,) = made["delegates"]
    port = call.node.api_url.rpartition(":")[2]
    assert delegate.startswith(f"/ip4/127.0.0.1/tcp/{port}/http/p2p/")
    CID.parse(delegate.rpartition("/")[2])
    assert made["pin"] == {"cid": stored[0], "name": "Zoë 🌊", "meta": {"app": "tides"}}
    wait_until(lambda: call.status(made["requestid"]) == "pinned")
    pinned = {**made, "status": "pinned", "info": {"dag_size": "3"}}
    assert call.get(made["requestid"]) == pinned
    call.delete(made["requestid"])


def test_pins_of_the_other_apis_are_requests_too(fresh, client):
    cid = client.store({"a": 1}, name="a", keyvalues={"n": 1, "b": True}).cid
    (pin,) = client.pins()
    (row,) = fresh.rows()
    assert row["requestid"] == pin.id
    assert row["pin"] == {"cid": cid, "name": "a", "meta": {"n": "1", "b": "true"}}
    fresh.delete(pin.id)
    assert client.pins() == []
    made = fresh.pinned(cid, name="again", meta={"k": "v"})
    (pin,) = client.pins()
    assert (pin.id, pin.name, pin.keyvalues) == (made["requestid"], "again", {"k": "v"})


# The same content in several requests


def test_content_stays_pinned_until_its_last_request_is_deleted(fresh, client, hello):
    (first,) = fresh.ids()
    others = [fresh.pinned(hello, name=name, meta={"of": name}) for name in "abc"]
    rows = fresh.rows(cid=hello)
    assert rows[:3] == others[::-1]  # each has an id and a time of its own
    assert len({row["requestid"] for row in rows}) == len({row["created"] for row in rows}) == 4
    fresh.delete(first)  # the pin itself: the oldest of the others takes its place
    assert fresh.rows() == others[::-1]
    for request in (others[1], others[0]):
        (pin,) = client.pins()
        assert (pin.id, pin.name) == (others[0]["requestid"], "a")
        fresh.delete(request["requestid"])
    assert fresh.rows() == [others[2]]
    fresh.delete(others[2]["requestid"])
    assert (client.pins(), fresh.rows(status=ALL)) == ([], [])


def test_what_another_api_unpins_is_in_no_request_any_more(fresh, client, hello):
    further = fresh.pinned(hello)
    client.revoke(hello)
    assert fresh.count(status=ALL) == 0
    assert fresh.failure("GET", f"/pins/{further['requestid']}") == (404, "NOT_FOUND")
    client.upload(b"hello")
    assert fresh.count(status=ALL) == 1


@pytest.mark.parametrize("has_heir", [False, True])
def test_a_deleted_request_leaves_its_group_and_does_not_expire(fresh, has_heir):
    """Its place is taken by a request that is in no group."""
    v3 = V3Caller(fresh.node)
    group = v3.data("POST", "/v3/groups/public", json={"name": "tides"})
    file = v3.stored(b"hello", group_id=group["id"], expires_at=int(time.time()) + 3600)
    if has_heir:
        fresh.pinned(file["cid"])
    fresh.delete(file["id"])
    assert v3.files(group=group["id"]) == []
    assert [left.get("expires_at") for left in v3.files()] == [None] * has_heir
    with (
        closing(
            sqlite3.connect(fresh.node.repository.path / "holdfast.node.sqlite3")
        ) as connection,
        connection,
    ):
        assert connection.execute("SELECT * FROM files").fetchall() == []


# Replacing and deleting


def test_a_replaced_request_is_gone_and_its_successor_has_another_id(fresh, client, hello):
    """Also if it is for the same content."""
    other = client.upload(b"other").cid
    client.revoke(other)
    (old,) = fresh.ids()
    for cid, name in ((hello, "second"), (hello, "third"), (other, "fourth")):
        reply = fresh("POST", f"/pins/{old}", json={"cid": cid, "name": name})
        new = reply.json()["requestid"]
        assert (reply.status, reply.json()["pin"]) == (202, {"cid": cid, "name": name})
        assert fresh.failure("GET", f"/pins/{old}") == (404, "NOT_FOUND")
        wait_until(lambda new=new: fresh.status(new) == "pinned")
        assert [(pin.id, pin.cid, pin.name) for pin in client.pins()] == [(new, cid, name)]
        assert fresh.ids(status=ALL) == [new]
        old = new


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_request_that_does_not_exist(call, method):
    body = {"json": {"cid": NOWHERE}} if method == "POST" else {}
    count = call.count(status=ALL)
    for unknown in ("5b56981c-7e5b-4dff-aeca-de784728dddb", "x" * 3000, "%00", "é"):
        assert call.failure(method, f"/pins/{unknown}", **body) == (404, "NOT_FOUND")
    assert call.count(status=ALL) == count


# Jobs


def test_missing_content_fails_with_a_reason_and_can_be_deleted(fresh):
    failed = fresh.failed(NOWHERE)
    assert "did not find the content" in failed["info"]["status_details"]
    assert fresh.count() == 0
    assert fresh.rows(status="failed") == [failed]
    fresh.delete(failed["requestid"])
    assert fresh.count(status=ALL) == 0


@pytest.mark.slow
def test_a_request_goes_through_its_states_and_can_be_cancelled(server):
    server.reply(200, b"", delay=1, hang_up=True)
    with running_node(gateways=(f"{server.url}/ipfs",)) as node:
        caller = PSACaller(node)
        request_id = caller.add(NOWHERE)["requestid"]
        wait_until(lambda: caller.status(request_id) == "pinning")
        assert caller.ids(status="queued,pinning") == [request_id]
        caller.delete(request_id)
        assert caller.count(status=ALL) == 0
        time.sleep(1.2)
        assert caller.count(status=ALL) == 0


@pytest.mark.slow
def test_requests_survive_a_restart(tmp_path):
    """Pinned ones, further ones, those that wait, and those that failed; not unpinned ones."""
    with running_node(tmp_path) as node, Client.init(node.config) as client:
        caller = PSACaller(node)
        further = caller.pinned(client.upload(b"hello").cid, name="further")
        lost = caller.failed(NOWHERE, name="lost")
        unpinned = caller.pinned(client.upload(b"unpinned").cid)  # its blocks are still stored
        client.revoke(unpinned["pin"]["cid"])
        before = [(row["requestid"], row["created"]) for row in caller.rows(status=ALL)]
    with running_node() as source, Client.init(source.config) as client:
        client.upload(b"the content of this CID is nowhere")  # now it is somewhere
        with running_node(tmp_path, gateways=(source.gateway_url,)) as node:
            caller = PSACaller(node)
            wait_until(lambda: caller.status(lost["requestid"]) == "pinned")
            rows = caller.rows(status=ALL)
            assert [(row["requestid"], row["created"]) for row in rows] == before
            assert caller.get(further["requestid"])["pin"] == further["pin"]
            assert len(node.repository.pins()) == 2


@pytest.mark.slow
def test_what_was_accepted_survives_kills(tmp_path):
    """Requests of several clients, killed at any moment; content is never unpinned by that."""
    with Client.init(path=tmp_path) as client:
        cids = [client.store([number]).cid for number in range(4)]
    accepted, deleted = set(), set()

    def ask(caller, number):
        with suppress(urllib3.exceptions.HTTPError):
            made = caller.add(cids[number % 4], name=f"{number}")["requestid"]
            if number % 3:
                accepted.add(made)
            else:
                caller.delete(made)
                deleted.add(made)

    for round_ in range(6):
        with node_process(tmp_path) as node, ThreadPoolExecutor(4) as pool:
            caller = PSACaller(node)
            enough = len(accepted) + len(deleted) + 6 + 5 * round_
            for number in range(60):
                pool.submit(ask, caller, number)
            wait_until(lambda least=enough: len(accepted) + len(deleted) >= least)
            node.process.kill()
    with node_process(tmp_path) as node:
        caller = PSACaller(node)
        wait_until(lambda: caller.count(status="queued,pinning") == 0)
        assert len(accepted) > 20
        assert {caller.status(request_id) for request_id in accepted} == {"pinned"}
        for request_id in deleted:
            assert caller.failure("GET", f"/pins/{request_id}") == (404, "NOT_FOUND")
    with Client.init(path=tmp_path) as client:
        assert {pin.cid for pin in client.pins()} == set(cids)


@pytest.mark.slow
def test_two_nodes_over_one_store_leave_the_requests_of_the_other_alone(tmp_path):
    with running_node(tmp_path) as one, running_node(tmp_path) as two:
        first, second = PSACaller(one), PSACaller(two)
        assert second.count(status=ALL) == 0
        first.failed(NOWHERE)
        assert second.count(status=ALL) == 0  # a job of the other node
        assert first.count(status=ALL) == 1
        with Client.init(one.config) as client:
            further = first.pinned(client.upload(b"hello").cid)["requestid"]
        assert second.status(further) == "pinned"
        second.delete(further)
        assert first.failure("GET", f"/pins/{further}") == (404, "NOT_FOUND")


@pytest.mark.slow
def test_too_many_jobs_are_refused_and_failed_ones_make_room(monkeypatch, server):
    monkeypatch.setattr(pin_jobs, "MAX_JOBS", 3)
    with running_node() as node:
        for number in range(5):
            PSACaller(node).failed(compute_cid(b"%d" % number))
        assert PSACaller(node).count(status=ALL) == 3  # the last ones
    for _ in range(2):
        server.reply(200, delay=5)
    with running_node(gateways=(f"{server.url}/ipfs",)) as node:
        caller = PSACaller(node)
        for number in range(3):
            caller.add(compute_cid(b"%d" % number))
        reply = caller("POST", json={"cid": NOWHERE})
        assert (reply.status, reply.headers["retry-after"]) == (503, "60")
        assert caller.count(status=ALL) == 3


def test_the_table_of_requests_is_bounded(monkeypatch, fresh, hello):
    monkeypatch.setattr(tables, "MAX_REQUESTS", 2)
    made = [fresh.pinned(hello) for _ in range(2)]
    assert fresh.failure("POST", json={"cid": hello}) == (409, "TOO_MANY_REQUESTS")
    fresh.delete(made[0]["requestid"])
    fresh.pinned(hello)


def test_the_switch_for_the_compliance_suite_calls_missing_content_pinned(tmp_path):
    with running_node(tmp_path, pretend_pinned=True) as node:
        caller = PSACaller(node)
        made = caller.add(NOWHERE, name="pretended")
        assert (made["status"], caller.count(name="pretended")) == ("pinned", 1)
        assert node.repository.pins() == []
    with running_node(tmp_path) as node:
        wait_until(lambda: PSACaller(node).status(made["requestid"]) == "failed")


# Filters


@pytest.fixture(scope="module")
def names(call, stored):
    """The names of three requests for the first content, beside the pin itself."""
    names = {"Low Tide": {"height": "1", "sea": "north"}, "low tide": {"height": "2"}, "HIGH": {}}
    for name, meta in names.items():
        call.pinned(stored[0], name=name, meta=meta)
    return names


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"match": "exact", "name": "Low Tide"}, {"Low Tide"}),
        ({"name": "low tide"}, {"low tide"}),
        ({"name": "low"}, set()),
        ({"match": "iexact", "name": "LOW TIDE"}, {"Low Tide", "low tide"}),
        ({"match": "iexact", "name": "LOW"}, set()),
        ({"match": "partial", "name": "Tide"}, {"Low Tide"}),
        ({"match": "partial", "name": "ow "}, {"Low Tide", "low tide"}),
        ({"match": "ipartial", "name": "TIDE"}, {"Low Tide", "low tide"}),
        ({"match": "ipartial", "name": "h"}, {"HIGH"}),
        ({"match": "partial", "name": "%"}, set()),
        ({"meta": '{"height": "1"}'}, {"Low Tide"}),
        ({"meta": '{"height": "1", "sea": "north"}'}, {"Low Tide"}),
        ({"meta": '{"height": "2", "sea": "north"}'}, set()),
        ({"meta": '{"HEIGHT": "1"}'}, set()),
    ],
)
@pytest.mark.usefixtures("names")
def test_names_match_in_four_ways_and_meta_in_all_pairs(call, stored, filters, expected):
    rows = call.rows(cid=stored[0], **filters)
    assert {row["pin"]["name"] for row in rows} == expected
    assert call.count(cid=stored[0], **filters) == len(expected)


def test_cids_are_found_in_both_versions_up_to_ten(fresh):
    with Client.init(fresh.node.config, cid_version=0) as client:
        old = [client.upload(b"%d" % number, name=f"{number}").cid for number in range(11)]
    first = CID.parse(old[0])
    new = str(CID(1, first.codec, first.hash_code, first.digest))
    assert [row["pin"]["cid"] for row in fresh.rows(cid=new)] == [old[0]]
    assert fresh.count(cid=",".join(old[:10])) == 10
    assert fresh.count(cid=f"{old[0]},") == 1  # an empty item is nothing
    assert fresh.count(cid=EMPTY_DIRECTORY_V0) == 0
    assert fresh("GET", f"/pins?cid={old[0]}&cid={old[1]}").json()["count"] == 2
    assert fresh.failure("GET", fields={"cid": ",".join(old)}) == (400, "BAD_REQUEST")


def test_all_pages_have_each_pin_once(fresh, client):
    """Also of pins that were made in the same millisecond, and of further requests."""
    records = [stored.result() for stored in client.store_many([n] for n in range(60))]
    for record in records[:5]:
        fresh.pinned(record.cid)
    assert len(fresh.ids()) == 10
    listed, before = [], {}
    while rows := fresh.rows(limit="7", status=ALL, **before):
        listed += rows
        before = {"before": rows[-1]["created"]}
    assert len(listed) == len({row["requestid"] for row in listed}) == 65
    times = [row["created"] for row in listed]
    assert times == sorted(set(times), reverse=True)
    for at in (1, 30, 64):
        for side, expected in (("before", times[at + 1 :]), ("after", times[:at])):
            filters = {side: times[at], "limit": "1000", "status": ALL}
            assert [row["created"] for row in fresh.rows(**filters)] == expected
            assert fresh.count(**filters) == len(expected)


@pytest.mark.usefixtures("hello")
def test_times_may_be_in_any_zone_and_precision(fresh):
    (row,) = fresh.rows()
    moment = row["created"]
    for filters, count in (
        ({"after": moment}, 0),
        ({"before": moment}, 0),
        ({"before": moment.replace("Z", "9Z")}, 0),  # a tenth digit is dropped
        ({"before": "2999-01-01T00:00:00+05:30"}, 1),
        ({"after": "2020-01-01t00:00:00z"}, 1),
    ):
        assert fresh.count(**filters) == count, filters


@pytest.mark.parametrize(
    "query",
    [
        *("limit=0", "limit=1001", "limit=-1", "limit=ten", "limit=1.5"),
        *("status=done", "status=pinned,done", "match=fuzzy&name=x", "cid=nonsense"),
        *("before=yesterday", "before=2020-01-01", "before=2020-13-01T00:00:00Z"),
        *("after=2020-01-01T00:00:00", "after=1595871148"),
        *("meta=x", "meta=[]", 'meta={"a":1}', "meta=" + "[" * 5000, f"name={'x' * 256}"),
    ],
    ids=lambda query: query[:30],
)
def test_bad_filters_are_refused(call, query):
    assert call.failure("GET", f"/pins?{query}") == (400, "BAD_REQUEST")


# Bodies, tokens and addresses


BAD_PINS = [
    *({"name": name} for name in ("x" * 256, 5, "\ud800")),
    *({"meta": meta} for meta in ({"a": 1}, ["a"], {"a": "x" * 20_000})),
    {"meta": {str(n): "" for n in range(1001)}},
    *({"origins": origins} for origins in ("/ip4/1.2.3.4", ["http://example.com"])),
    {"origins": ["/ip4/1.2.3.4/tcp/1"] * 2},
    {"origins": [f"/ip4/1.2.3.4/tcp/{n}" for n in range(21)]},
]
BAD_BODIES = [b"", b"{", b"[]", b"{}", b'{"cid":5}', b'{"cid":"nonsense"}', b'{"cid":"../../x"}']
BAD_BODIES += [json.dumps({"cid": NOWHERE, **pin}).encode() for pin in BAD_PINS]


@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: body[66:126].decode() or body[:60])
def test_bad_bodies_are_refused(call, body):
    count = call.count(status=ALL)
    assert call.failure("POST", body=body) == (400, "BAD_REQUEST")
    assert call.count(status=ALL) == count


def test_a_body_has_a_limit(call):
    assert call.failure("POST", body=b'{"cid":"' + b"x" * (2 << 20) + b'"}')[0] == 413


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/pins"), ("POST", "/pins"), ("POST", "/pins/x"), ("DELETE", "/pins/x")],
)
def test_a_token_with_the_scope_is_needed(call, method, path):
    for token in ("", "wrong", "é".encode().decode("latin-1")):
        assert call.failure(method, path, token=token) == (401, "UNAUTHORIZED")
    if method == "GET":
        assert call(method, path, token=READER.token).status == 200
    else:
        assert call.failure(method, path, token=READER.token) == (403, "NO_SCOPES_FOUND")


def test_the_rate_limit_counts_here_too():
    with running_node(rate_limit=2) as node:
        assert [PSACaller(node)("GET").status for _ in range(2)] == [200, 200]
        assert PSACaller(node).failure("GET") == (429, "RATE_LIMITED")


def test_other_addresses_and_methods_are_failures(call):
    assert call.failure("GET", "/nothing") == (404, "NOT_FOUND")
    assert call.failure("PUT")[0] == 405
    assert call.failure("PATCH", "/pins/x")[0] == 405


@pytest.mark.parametrize("value", ["x'ff'", "1e300", "'x'"])
@pytest.mark.parametrize("column", ["cid", "created", "name", "keyvalues"])
def test_a_damaged_row_is_an_error_and_no_content_is_lost(fresh, client, hello, column, value):
    path = f"/pins/{fresh.pinned(hello)['requestid']}"
    with (
        closing(
            sqlite3.connect(fresh.node.repository.path / "holdfast.node.sqlite3")
        ) as connection,
        connection,
    ):
        sql = f"UPDATE requests SET {column} = {value}"  # noqa: S608 - ours
        assert connection.execute(sql).rowcount == 1
    if (column, value) in {("name", "'x'"), ("name", "1e300")}:  # SQLite makes it a text
        assert fresh("GET", path).status == 200
    else:
        assert fresh.failure("GET", path) == (500, "INTERNAL_SERVER_ERROR")
    assert client.download(hello).read() == b"hello"
