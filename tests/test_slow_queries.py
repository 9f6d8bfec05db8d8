"""Queries over the pins end in time: hostile patterns, slow searches, clients that leave."""

import json
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest
import urllib3

from holdfast.node import api_calls
from holdfast.testing import running_node
from tests.node_caller import Caller, connect, head_of

SLOW_NAME = "\ufdfa" * 10_000  # each becomes 18 characters before it is compared: 10 ms a name
SLOW_PINS = 1000  # some 10 s for one search


@pytest.fixture(scope="module")
def slow_node():
    with running_node() as node:
        add_slow_pins(node)
        yield node


def add_slow_pins(node):
    """Enter pins whose names are slow to search, as one who opens the store itself may do."""
    with node.repository._database.writing() as connection:
        connection.executemany(
            "INSERT INTO pins (uuid, cid, key, name, keyvalues, size, files, type, created)"
            " VALUES (?, ?, ?, ?, '{}', 1, 1, '', 1)",
            ((str(n), f"cid{n}", str(n).encode(), SLOW_NAME) for n in range(SLOW_PINS)),
        )


def get(node, path, **fields):
    return Caller(node)("GET", path, fields=fields)


def change(node, **body):
    return Caller(node)("PUT", "/pinning/hashMetadata", json=body)


def pin(node, content, keyvalues):
    return Caller(node).pin_json(
        {"pinataContent": content, "pinataMetadata": {"keyvalues": keyvalues}}
    )


def refusal(response):
    assert response.status == 400
    return response.json()["error"]


def by_condition(node, **condition):
    return get(node, "/data/pinList", **{"metadata[keyvalues]": json.dumps({"a": condition})})


# What may be asked for


@pytest.mark.parametrize("operation", ["regexp", "iRegexp"])
@pytest.mark.parametrize("pattern", ["(?>(?:a+)+b)", "^(a+)+$", "a", "(", "(" * 4000])
def test_regular_expressions_are_refused_with_a_sentence(node, operation, pattern):
    pin(node, "to be found", {"a": "a" * 200 + "!"})
    assert "lacks regular expressions" in refusal(by_condition(node, value=pattern, op=operation))


@pytest.mark.parametrize("operation", ["like", "notLike", "iLike", "notILike"])
def test_a_pattern_has_at_most_200_characters(node, operation):
    pin(node, operation, {"a": "b" * 1000})
    assert by_condition(node, value="%b" * 100, op=operation).status == 200
    assert "200 characters" in refusal(by_condition(node, value="%b" * 100 + "%", op=operation))


def test_a_value_has_at_most_1000_characters_where_it_is_written(node):
    reply = pin(node, [1], {"k" * 1000: "v" * 1000})
    assert reply.status == 200
    for keyvalues in ({"k": "v" * 1001}, {"k" * 1001: "v"}, {"k": int("9" * 1001)}):
        assert "1000 characters" in refusal(pin(node, [2], keyvalues))
        changed = change(node, ipfsPinHash=reply.json()["IpfsHash"], keyvalues=keyvalues)
        assert "1000 characters" in refusal(changed)


def test_a_value_has_at_most_1000_characters_where_it_is_asked_for(node):
    assert by_condition(node, value="v" * 1000, op="eq").status == 200
    assert "1000 characters" in refusal(by_condition(node, value="v" * 1001, op="eq"))
    between = {"op": "between", "value": "a", "secondValue": "v" * 1001}
    assert "1000 characters" in refusal(by_condition(node, **between))
    assert "string" in refusal(by_condition(node, value=[["a"]], op="eq"))
    many = json.dumps({str(n): {"value": 1} for n in range(11)})
    assert "10 members" in refusal(get(node, "/data/pinList", **{"metadata[keyvalues]": many}))
    for name in ("metadata[name]", "search", "hashContains", "cid"):
        assert get(node, "/data/pinList", **{name: "x" * 1000}).status == 200
        assert "1000 characters" in refusal(get(node, "/data/pinList", **{name: "x" * 1001}))


def test_a_longer_value_of_an_old_store_matches_no_pattern_and_can_still_be_replaced(node):
    cid = pin(node, {"of": "old"}, {}).json()["IpfsHash"]
    with node.repository._database.writing() as connection:
        notes = json.dumps({"a": "x" * 900_000, "other": 1})
        connection.execute("UPDATE pins SET keyvalues = ? WHERE cid = ?", (notes, cid))
    assert by_condition(node, value="%_x" * 60, op="like").json()["count"] == 0
    for keyvalues in ({"other": None}, {"a": "new"}):
        assert change(node, ipfsPinHash=cid, keyvalues=keyvalues).status == 200
    (row,) = get(node, "/data/pinList", cid=cid).json()["rows"]
    assert row["metadata"]["keyvalues"] == {"a": "new"}


# How long it may take


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {"search": "nothing"},
        {"search": "nothing", "includeCount": "false"},
        {"search": "nothing", "sortBy": "name"},
        {"metadata[name]": "nothing", "status": "pinned", "pageLimit": "1"},
    ],
    ids=str,
)
def test_a_slow_query_ends_by_the_limit_and_others_are_served_meanwhile(
    slow_node, monkeypatch, fields
):
    monkeypatch.setattr(api_calls, "QUERY_SECONDS", 0.2)
    replies = []
    asking = threading.Thread(
        target=lambda: replies.append(get(slow_node, "/data/pinList", **fields))
    )
    start = time.monotonic()
    asking.start()
    assert get(slow_node, "/data/testAuthentication").status == 200
    asking.join()
    assert time.monotonic() - start < 20
    assert "ended after 0.2 seconds" in refusal(replies[0])
    assert get(slow_node, "/data/userPinnedDataTotal").json()["pin_count"] == SLOW_PINS


@contextmanager
def searching(node, number):
    """Have as many clients ask for a slow search, and never read the answer."""
    with ExitStack() as stack:
        for client in [stack.enter_context(connect(node)) for _ in range(number)]:
            client.sendall(head_of(node, "/data/pinList?search=x", "GET"))
        time.sleep(0.3)  # until the queries run
        yield


@pytest.mark.slow
def test_a_query_ends_when_its_client_leaves(slow_node, monkeypatch):
    monkeypatch.setattr(api_calls, "QUERY_SECONDS", 60.0)
    with searching(slow_node, 3 * api_calls.AT_ONCE):
        pass
    start = time.monotonic()
    # All workers for queries were taken: it is answered when they are free again.
    assert get(slow_node, "/data/pinList", cid="cid5").status == 200
    assert time.monotonic() - start < 20


@pytest.mark.slow
def test_queries_leave_workers_to_everything_else(slow_node, monkeypatch):
    monkeypatch.setattr(api_calls, "QUERY_SECONDS", 60.0)
    with searching(slow_node, 60):
        cid = pin(slow_node, "meanwhile", {}).json()["IpfsHash"]
        reply = urllib3.request("GET", f"{slow_node.gateway_url}/{cid}", timeout=30)
        assert reply.data == b'"meanwhile"'
    Caller(slow_node)("DELETE", f"/pinning/unpin/{cid}")


@pytest.mark.slow
def test_a_node_stops_in_the_midst_of_queries(monkeypatch):
    monkeypatch.setattr(api_calls, "QUERY_SECONDS", 60.0)
    with ExitStack() as clients:
        with running_node() as node:
            add_slow_pins(node)
            clients.enter_context(searching(node, 2 * api_calls.AT_ONCE))
            start = time.monotonic()
        assert time.monotonic() - start < 20
