"""Lists of pins page by page, at each service: what is asked for, what is read, and every end.

And the jobs of pins by CID. Both are pure: they build requests and read replies, so these tests
need no server.
"""

import json
from dataclasses import replace
from itertools import count
from urllib.parse import parse_qsl, urlsplit

import pytest

from holdfast import Pin
from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.errors import AuthenticationError, ProviderError
from holdfast.protocol import pin_api
from holdfast.protocol.http import Reply
from holdfast.protocol.pinata import PinataAPI, PinataOptions
from holdfast.protocol.pinning import PinningAPI
from holdfast.protocol.psa import PSAAPI
from holdfast.provider import PinFilter, PinInfo
from tests import pinata, psa
from tests.support import EMPTY_FILE_V0, HELLO_CID, TOKEN

EMPTY_FILE_V1 = "bafybeif7ztnhq65lumvvtr4ekcwd2ifwgm3awq4zfr3srh462rwyinlb4y"
URL, SECRET = "https://api.example", Secret(TOKEN)
OPTIONS = PinataOptions(network="public", group=None, expires=None, upload_url=URL, spool=True)
APIS = {
    "pinning": PinningAPI(URL, SECRET, 1),
    "pinata": PinataAPI(URL, SECRET, cid_version=1, options=OPTIONS, clock=lambda: 0),
    "psa": PSAAPI(URL, SECRET),
}
SAME_AGAIN = "the provider sent the same pins again in place of the next page: try again"
REPEATS = "the provider repeats pins in its list, which has over 5,000 rows"
PAST, TIME, MOMENT = "2020-01-01T00:00:00Z", "2024-07-11T23:33:27.665Z", 1720740807665


def row(number, **changes):
    """A row of the pinning API, of the pin with this number."""
    return {
        "id": f"id-{number}",
        "ipfs_pin_hash": str(CID.of_raw(str(number).encode())),
        "size": number,
        "date_pinned": TIME,
        "metadata": {"name": f"name {number}", "keyvalues": {"n": number}},
        **changes,
    }


def read_list(service, reply, *, limit=None, **filters):
    """List pins of a service that answers a query with `reply(query)`: the pins, and all queries.

    An error takes the place of the pins.
    """
    pages = APIS[service].pages(PinFilter(**filters), limit=limit)
    pins, queries = [], []
    try:
        while pages.next_count:
            queries.append(dict(parse_qsl(urlsplit(pages.request().url).query)))
            pins += pages.read(Reply(200, {}, json.dumps(reply(queries[-1])).encode()))
    except ProviderError as error:
        return str(error), queries
    return pins, queries


def ids(pins):
    return pins if isinstance(pins, str) else [pin.id for pin in pins]


def in_turn(*replies):
    """Replies that come one after the other, whatever is asked."""
    waiting = iter(replies)
    return lambda *_: next(waiting)


# The pinning API: pages by offset, which move when pins are made or removed


def read_numbers(page, limit=None):
    """The numbers of the pins that `page(offset, limit)` has, and the offsets and limits asked."""

    def reply(query):
        numbers = page(int(query["pageOffset"]), int(query["pageLimit"]))
        return {"rows": [row(number) for number in numbers]}

    pins, queries = read_list("pinning", reply, limit=limit)
    if not isinstance(pins, str):
        pins = [int(pin.id.removeprefix("id-")) for pin in pins]
    return pins, [(int(query["pageOffset"]), int(query["pageLimit"])) for query in queries]


def full(*offsets):
    return [(offset, 1000) for offset in offsets]


def numbered(numbers, old=0):
    """Pages that have new pins for ever, after the first `old` ones."""
    return lambda _, n: [*range(old), *(next(numbers) for _ in range(n - old))]


def overlapping(offset, limit):
    """Ten pins are made between any two pages: the last ten of a page are on the next one too."""
    start = offset - 10 * (offset // 999)
    return range(start, min(2500, start + limit))


# fmt: off
PAGES = {
    "offset ignored": (lambda _, n: range(n), None, SAME_AGAIN, full(0, 999)),
    "offset and limit ignored": (lambda *_: range(1000), 1500, SAME_AGAIN, [(0, 1000), (999, 501)]),
    "another order": (lambda o, n: range(n)[:: -1 if o else 1], None, SAME_AGAIN, full(0, 999)),
    "a short page again": (lambda o, n: range(5 if o else n), None, SAME_AGAIN, full(0, 999)),
    "a circle": (lambda o, n: range(o % 3000, o % 3000 + n), None, SAME_AGAIN,
                 full(0, 999, 1998, 2997, 3996)),
    "one pin for ever": (lambda _, n: [7] * n, None, SAME_AGAIN, full(0, 999)),
    "overlap": (overlapping, None, range(2500), full(0, 999, 1998)),
    "a last page of known pins": (lambda o, _: range(996, 1000) if o else range(1000), None,
                                  range(1000), full(0, 999)),
    "a page that begins with a new pin": (lambda o, _: range(o + 1, 1500) if o else range(1000),
                                          None, range(1500), full(0, 999, 0, 999)),
    "larger than asked for": (in_turn(range(1500), range(1499, 3000), range(2999, 3010)), None,
                              range(3010), full(0, 1499, 2999)),
    "larger than the limit": (lambda *_: range(1000), 20, range(20), [(0, 20)]),
    "a limit and repeated pins": (in_turn(range(1000), range(990, 1491), range(1490, 1600)), 1500,
                                  range(1500), [(0, 1000), (999, 501), (1499, 10)]),
    "2500": (lambda o, n: range(2500)[o:o + n], None, range(2500), full(0, 999, 1998)),
    "2000": (lambda o, n: range(2000)[o:o + n], None, range(2000), full(0, 999, 1998)),
    "2500, limit 1700": (lambda o, n: range(2500)[o:o + n], 1700, range(1700),
                         [(0, 1000), (999, 701)]),
    "none": (lambda *_: (), None, (), full(0)),
}
LIMITED = {
    "never a known pin": ("MAX_ROWS", 5000, numbered(count()), None, REPEATS, 6),
    "one new pin on each page": ("MAX_ROWS", 5000, numbered(count(1000), 999), None, REPEATS, 6),
    "too many pins": ("MAX_PINS", 2500, lambda o, n: range(o, o + n), None,
                      "the provider lists more than 2,500 pins: set a limit, or filter by name", 3),
    "as many as may be": ("MAX_PINS", 2500, lambda o, n: range(2500)[o:o + n], None,
                          range(2500), 3),
    "a limit below": ("MAX_PINS", 2500, lambda o, n: range(o, o + n), 2400, range(2400), 3),
    "too many bytes": ("MAX_LIST_BYTES", 300_000, lambda o, n: range(o, o + n), None,
                       "the provider's list of pins is longer than 300,000 bytes", 2),
}
# fmt: on


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_a_list_or_an_error(name):
    page, limit, expected, asked = PAGES[name]
    expected = expected if isinstance(expected, str) else list(expected)
    assert read_numbers(page, limit) == (expected, asked)


@pytest.mark.parametrize("name", LIMITED)
def test_no_list_is_endless(monkeypatch, name):
    assert (pin_api.MAX_PINS, pin_api.MAX_ROWS, pin_api.MAX_LIST_BYTES) == (10**6, 2 * 10**6, 2**30)
    setting, value, page, limit, expected, pages = LIMITED[name]
    monkeypatch.setattr(pin_api, setting, value)
    numbers, asked = read_numbers(page, limit)
    assert numbers == (expected if isinstance(expected, str) else list(expected))
    assert len(asked) == pages


def test_a_pin_that_moves_to_the_next_page_is_given_once():
    numbers = [*range(1500)]

    def page(offset, limit):
        numbers.insert(0, 9999 + len(numbers))  # somebody pins meanwhile
        return numbers[1:][offset : offset + limit] if not offset else numbers[offset:][:limit]

    assert read_numbers(page)[0] == list(range(1500))


@pytest.mark.slow
@pytest.mark.parametrize("total", [900, 1000, 1500, 2000, 3500])
@pytest.mark.parametrize("stays", ["none", "one", "every third"])
@pytest.mark.parametrize("limit", [None, 1200])
def test_pins_that_are_revoked_in_the_loop_hide_no_others(total, stays, limit):
    """All are revoked, or all but every third one, or one at the end of the first page."""
    staying = {"none": (), "one": {999}, "every third": range(0, total, 3)}[stays]
    numbers, listed = [*range(total)], []
    pages = APIS["pinning"].pages(PinFilter(), limit=limit)
    while pages.next_count:
        query = dict(parse_qsl(urlsplit(pages.request().url).query))
        start = int(query["pageOffset"])
        rows = [row(number) for number in numbers[start : start + int(query["pageLimit"])]]
        new = [pin.size for pin in pages.read(Reply(200, {}, json.dumps({"rows": rows}).encode()))]
        listed += new
        revoked = {*new}.difference(staying)
        numbers = [number for number in numbers if number not in revoked]
    assert listed == list(range(total))[:limit]


def test_all_filters_are_sent():
    filters = {"since": MOMENT, "until": MOMENT, "keyvalues": {"a": "ü", "b": 2}}
    filters |= {"name": "x", "cid": HELLO_CID}
    _, [query] = read_list("pinning", lambda _: {"rows": []}, limit=7, **filters)
    conditions = json.loads(query.pop("metadata[keyvalues]"))
    assert conditions == {"a": {"value": "ü", "op": "eq"}, "b": {"value": 2, "op": "eq"}}
    assert query == {
        "status": "pinned",
        "includeCount": "false",
        "pageLimit": "7",
        "pageOffset": "0",
        "metadata[name]": "x",
        "cid": HELLO_CID,
        "pinStart": TIME,
        "pinEnd": TIME,
    }


def test_a_service_that_ignores_a_filter_is_asked_for_full_pages():
    rows = [row(number) for number in range(2500)]

    def reply(query):
        start = int(query["pageOffset"])
        return {"rows": rows[start : start + int(query["pageLimit"])]}

    pins, queries = read_list("pinning", reply, limit=2, keyvalues={"n": 1500})
    assert ids(pins) == ["id-1500"]
    asked = [(query["pageOffset"], query["pageLimit"]) for query in queries]
    assert asked == [("0", "2"), ("1", "1000"), ("1000", "1000"), ("1999", "1000")]


# What all services share: a pin of each, by number


def v3_row(number, cid=HELLO_CID, **changes):
    return pinata.file_row(cid, id=f"id-{number}", **changes)


# fmt: off
LISTS = {
    "pinning": lambda *rows: {"rows": [*rows]},
    "pinata": pinata.files,
    "psa": psa.results,
}
ODD = {  # rows of another form
    "pinning": [
        *({"ipfs_pin_hash": cid} for cid in ("not a CID", 5)),
        *({"date_pinned": time} for time in ("yesterday", None)),
        *({"metadata": metadata} for metadata in ("text", {"name": "n", "keyvalues": 5})),
        *({"id": text} for text in (None, "", True, 1.5, [], {})), {"size": "many"},
    ],
    "pinata": [{"cid": 5}, {"cid": "x"}, {"id": None}, {"size": "x"}, {"created_at": 5}],
    "psa": psa.ODD_ROWS,
}
GOOD = {"pinning": row(1, ipfs_pin_hash=HELLO_CID), "pinata": v3_row(1), "psa": psa.row()}
NO_LIST = {
    "pinning": ("not a list of pins", [[], {}, {"rows": None}, {"rows": 5}, {"rows": [1]}]),
    "pinata": (r"not a list of files|not from the v3 API: no data",
               [[], {}, {"data": {"files": {}}}, {"data": {}}, pinata.files(5)]),
    "psa": ("not that of a pinning service|is not a list of pin requests",
            [None, [], {}, {"results": 5}, {"results": [5]}]),
}
# fmt: on


ROWS = {
    "pinning": lambda number, cid, time, _, value: row(
        number, ipfs_pin_hash=cid, date_pinned=time, metadata={"keyvalues": {"k": value}}
    ),
    "pinata": lambda number, cid, time, name, value: v3_row(
        number, cid, created_at=time, name=name, keyvalues={"k": value}
    ),
    "psa": lambda number, cid, time, name, value: psa.row(
        cid, requestid=f"id-{number}", created=time, name=name, meta={"k": value}
    ),
}


@pytest.mark.parametrize("service", APIS)
def test_what_an_inexact_service_sends_too_is_left_out(service):
    filters = {"cid": HELLO_CID, "keyvalues": {"k": 1}, "since": MOMENT, "until": MOMENT}
    if service != "pinning":
        filters["name"] = "N"
    inexact = [
        (2, EMPTY_FILE_V0, TIME, "a n", "1"),
        (3, HELLO_CID, TIME, "a n", "12"),
        (4, HELLO_CID, TIME, "other", "1") if "name" in filters else (4, HELLO_CID, PAST, "", "1"),
        (5, HELLO_CID, PAST if service == "psa" else "2030-01-01T00:00:00Z", "a n", "1"),
    ]
    for other in inexact:
        rows = [ROWS[service](*case) for case in ((1, HELLO_CID, TIME, "a N", "1"), other)]
        pins, _ = read_list(service, lambda _, rows=rows: LISTS[service](*rows), **filters)
        assert ids(pins) == ["id-1"], other


@pytest.mark.parametrize(
    ("service", "changes"),
    [(service, changes) for service in ODD for changes in ODD[service]],
    ids=str,
)
def test_a_row_of_another_form_is_an_error(service, changes):
    assert len(read_list(service, lambda _: LISTS[service](GOOD[service]))[0]) == 1
    error, _ = read_list(service, lambda _: LISTS[service]({**GOOD[service], **changes}))
    assert "the provider's reply is not a list of" in error


@pytest.mark.parametrize("service", NO_LIST)
def test_a_reply_that_is_no_list_is_an_error(service):
    words, bodies = NO_LIST[service]
    for body in (b"<html>Please log in</html>", b"\xff", b"", *bodies):
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        with pytest.raises(ProviderError, match=words):
            APIS[service].pages(PinFilter(), limit=None).read(Reply(200, {}, text))
    assert APIS[service].pages(PinFilter(), limit=None).request().max_reply == 16 << 20
    with pytest.raises(AuthenticationError, match=r"^HTTP error 401$"):
        APIS[service].pages(PinFilter(), limit=None).read(Reply(401, {}, b'{"error":"expired"}'))


@pytest.mark.parametrize("service", ["pinning", "pinata"])
def test_a_cid_without_a_pin_is_asked_for_in_its_other_version(service):
    rows = {"pinning": row(1, ipfs_pin_hash=EMPTY_FILE_V0), "pinata": v3_row(1, EMPTY_FILE_V0)}
    empty = LISTS[service]()
    pins, queries = read_list(
        service, in_turn(empty, LISTS[service](rows[service])), cid=EMPTY_FILE_V1
    )
    assert [pin.cid for pin in pins] == [EMPTY_FILE_V0]
    assert [query["cid"] for query in queries] == [EMPTY_FILE_V1, EMPTY_FILE_V0]
    pins, queries = read_list(service, lambda _: empty, cid=EMPTY_FILE_V0)
    assert [query["cid"] for query in queries] == [EMPTY_FILE_V0, EMPTY_FILE_V1]
    # The CID of a raw block has one version only.
    assert [query["cid"] for query in read_list(service, lambda _: empty, cid=HELLO_CID)[1]] == [
        HELLO_CID
    ]


@pytest.mark.parametrize("service", APIS)
def test_what_a_service_leaves_out_is_empty(service):
    left_out = {
        "pinning": row(1, metadata=None, mime_type=None, number_of_files=None),
        "pinata": v3_row(1, keyvalues=None, name=None, mime_type=None, number_of_files=None),
        "psa": psa.row(name=None, meta=None, info=None),
    }
    [pin], _ = read_list(service, lambda _: LISTS[service](left_out[service]))
    assert (pin.name, pin.keyvalues, pin.type, pin.files) == ("", {}, "", 1)


def test_a_row_becomes_a_pin():
    seventh = row(7, mime_type="text/plain", number_of_files=2, user_id="user", regions=[])
    fields = {"name": "name 7", "keyvalues": {"n": 7}, "size": 7, "files": 2, "type": "text/plain"}
    assert read_list("pinning", lambda _: {"rows": [seventh]})[0] == [
        Pin(id="id-7", cid=str(CID.of_raw(b"7")), **fields, created_ms=MOMENT)
    ]


# The v3 API: pages by token


def test_pages_follow_the_token():
    first = pinata.files(v3_row(1), token="MTcy")
    second = pinata.files(v3_row(2, "pending"), v3_row(3))
    pins, queries = read_list("pinata", in_turn(first, second), keyvalues={"k": "1"})
    assert ids(pins) == []
    pins, queries = read_list("pinata", in_turn(first, second))
    assert ids(pins) == ["id-1", "id-3"]
    assert (pins[0].name, pins[0].size, pins[0].created_ms) == ("hello.txt", 5, 1724770671486)
    assert queries == [
        {"limit": "1000", "order": "DESC"},
        {"limit": "1000", "order": "DESC", "pageToken": "MTcy"},
    ]


def test_a_list_ends_at_the_time_that_is_wanted():
    page = pinata.files(v3_row(1), v3_row(2, created_at=PAST), token="more")
    pins, queries = read_list("pinata", lambda _: page, since=1724770671486, keyvalues={"a": 1})
    assert (ids(pins), [query["keyvalues[a]"] for query in queries]) == ([], ["1"])
    assert ids(read_list("pinata", lambda _: page, since=1724770671486)[0]) == ["id-1"]


def test_empty_pages_come_to_an_end(monkeypatch):
    monkeypatch.setattr(pin_api, "MAX_ROWS", 5000)
    error, queries = read_list("pinata", lambda query: pinata.files(token=f"{len(query)}"))
    assert (error, len(queries)) == (REPEATS, 6)


# The Pinning Services API: pages by time


def requests(*times, first=0, **changes):
    return [
        psa.row(requestid=f"r{number}", created=created, **changes)
        for number, created in enumerate(times, first)
    ]


def seconds(first, count):
    return [f"2020-07-27T17:32:28.{999 - number:03}Z" for number in range(first, first + count)]


def befores(queries):
    return [query.get("before") for query in queries]


def test_pages_follow_the_exact_time_of_the_last_row():
    """A service may send fewer rows than it is asked for."""
    replies = [
        psa.results(*requests(*seconds(first, size), first=first), count=25 - first)
        for first, size in ((0, 10), (10, 10), (20, 5))
    ]
    pins, queries = read_list("psa", in_turn(*replies))
    assert ids(pins) == [f"r{number}" for number in range(25)]
    assert befores(queries) == [None, "2020-07-27T17:32:28.990Z", "2020-07-27T17:32:28.980Z"]
    assert queries[0] == {"status": "queued,pinning,pinned", "limit": "1000"}


def test_fewer_rows_than_asked_for_are_all_if_the_service_counts_the_page_only():
    page = psa.results(*requests(*seconds(0, 3)), count=3)
    pins, [query] = read_list("psa", lambda _: page, limit=4)
    assert (len(pins), query["limit"]) == (3, "4")
    _, queries = read_list("psa", in_turn(page, psa.results()), limit=3)
    assert len(queries) == 1


def test_the_same_page_again_is_an_error():
    page = psa.results(*requests(*seconds(0, 10)), count=35)
    assert read_list("psa", lambda _: page)[0] == SAME_AGAIN


@pytest.mark.parametrize("times", [[None], ["2020-07-27T17:32:27Z", psa.CREATED]])
def test_a_list_without_order_cannot_be_followed(times):
    """IPFS Cluster has such lists. What fits on a page is no problem."""
    rows = requests(*times)
    more = psa.results(*rows, count=5)
    assert "not sorted by time" in read_list("psa", lambda _: more)[0]
    assert len(read_list("psa", lambda _: more, limit=len(rows))[0]) == len(rows)
    assert len(read_list("psa", lambda _: psa.results(*rows))[0]) == len(rows)


def test_rows_of_the_same_time_are_not_lost_between_pages():
    rows = requests("2020-07-27T17:32:29Z", *["2020-07-27T17:32:28Z"] * 4)
    replies = psa.results(*rows[:3], count=5), psa.results(*rows[1:], count=4)
    pins, queries = read_list("psa", in_turn(*replies))
    assert ids(pins) == [f"r{number}" for number in range(5)]
    assert befores(queries) == [None, "2020-07-27T17:32:28.001Z"]


def test_times_and_both_versions_of_a_cid_are_filters_of_the_service():
    filters = {"since": psa.CREATED_MS, "until": psa.CREATED_MS, "cid": EMPTY_FILE_V0, "name": "x"}
    _, [query] = read_list("psa", lambda _: psa.results(), **filters)
    assert query["after"] == "2020-07-27T17:32:28.275Z"
    assert query["before"] == "2020-07-27T17:32:28.277Z"
    assert query["cid"] == f"{EMPTY_FILE_V0},{EMPTY_FILE_V1}"
    assert "name" not in query


def test_other_states_spellings_and_fields_of_services_are_read():
    failed, queued = psa.row(status="failed"), psa.row(requestid="q", status="queued")
    odd = psa.row(status="backfilling", info={"dag_size": "unknown", "x": [1]}, extra=1)
    odd["requestId"] = odd.pop("requestid")
    del odd["delegates"], odd["created"]
    pins, _ = read_list("psa", lambda _: psa.results(failed, queued, odd))
    queued, pinning = [(pin.id, pin.state, pin.size, pin.created_ms) for pin in pins]
    assert queued == ("q", "queued", None, psa.CREATED_MS)
    assert pinning == (psa.REQUEST_ID, "pinning", None, None)


# Jobs of pins by CID, which two services have


def talk(exchange, *bodies):
    """Return the result of an exchange in which these are the bodies of the replies."""
    requests = [next(exchange)]
    for body in bodies:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            requests.append(exchange.send(Reply(200, {}, text)))
        except StopIteration as end:
            return end.value, [json.loads(sent.body) for sent in requests if sent.body]
    raise AssertionError("it makes another request")


CREATED_JOBS = {
    "pinning": lambda **changes: {"id": "job-7", "ipfsHash": HELLO_CID, "name": "x", **changes},
    "pinata": lambda **changes: {"data": {"id": "job-7", "cid": HELLO_CID, "name": "x", **changes}},
}
JOB_LISTS = {
    "pinning": lambda jobs: {"rows": jobs},
    "pinata": lambda jobs: {"data": {"jobs": jobs}},
}
STATES = {"prechecking": "queued", "backfilled": "queued", "searching": "pinning", None: "pinning"}
NEW = Pin(id="job-7", cid=HELLO_CID, name="x", size=None, state="queued")
FAILED = {
    "expired": "it did not find the content in time; check that a node or gateway serves it",
    "over_free_limit": "it is larger than the plan of the account allows",
    "over_max_size": "it is larger than the provider accepts",
    "invalid_object": "the content under the CID is not valid",
    "bad_host_node": "it cannot reach the node that has the content",
}
each_queue = pytest.mark.parametrize("service", CREATED_JOBS)


@each_queue
def test_a_new_pin_is_looked_for_and_then_asked_for(service):
    api, empty = APIS[service], LISTS[service]()
    job = CREATED_JOBS[service](status="prechecking")
    info = PinInfo(name="x", keyvalues={"a": 1}, given=True)
    pin, [body] = talk(api.pin(HELLO_CID, info), empty, job)
    assert pin == replace(NEW, keyvalues={"a": 1})
    metadata = {"name": "x", "keyvalues": {"a": 1}}
    bodies = {
        "pinning": {"hashToPin": HELLO_CID, "pinataMetadata": metadata},
        "pinata": {"cid": HELLO_CID, "name": "x", "keyvalues": {"a": "1"}},
    }
    assert body == bodies[service]
    _, [body] = talk(api.pin(HELLO_CID, PinInfo(name="not given")), empty, job)
    assert list(body.values()) == [HELLO_CID]
    pin, bodies = talk(api.pin(HELLO_CID, PinInfo()), LISTS[service](GOOD[service]))
    assert (pin.state, pin.id, bodies) == ("pinned", "id-1", [])


@each_queue
def test_a_job_has_a_state(service):
    empty = LISTS[service]()
    for word, state in (*STATES.items(), (["searching"], "pinning")):
        job = CREATED_JOBS[service](status=word)
        assert talk(APIS[service].pin(HELLO_CID, PinInfo()), empty, job)[0].state == state
    jobs = JOB_LISTS[service]([{"id": "job-6", "status": "expired"}, {"id": "job-7"}])
    assert talk(APIS[service].check_pin(NEW), jobs)[0].state == "pinning"


@each_queue
@pytest.mark.parametrize("word", FAILED)
def test_a_job_that_failed_is_an_error_with_the_reason(service, word):
    words = f"the provider could not pin {HELLO_CID}: {FAILED[word]}"
    jobs = JOB_LISTS[service]([{"id": "job-7", "status": word}])
    with pytest.raises(ProviderError) as caught:
        talk(APIS[service].check_pin(NEW), jobs)
    assert (str(caught.value), caught.value.details) == (words, word)
    job = CREATED_JOBS[service](status=word)
    with pytest.raises(ProviderError, match=words):
        talk(APIS[service].pin(HELLO_CID, PinInfo()), LISTS[service](), job)


@each_queue
def test_replies_without_jobs_are_errors(service):
    member = {"pinning": "ipfsHash", "pinata": "cid"}[service]
    wrong = [{"id": None}, {member: None}, {member: "x"}, {member: "bafkqaaa"}]
    bodies = [CREATED_JOBS[service](**changes) for changes in wrong]
    for body in (b"<html>", [], {}, {"data": []}, *bodies):
        with pytest.raises(ProviderError, match=r"names no job for the CID|not from the v3 API"):
            talk(APIS[service].pin(HELLO_CID, PinInfo()), LISTS[service](), body)
    for body in (b"<html>", {}, JOB_LISTS[service](None), JOB_LISTS[service]([1])):
        with pytest.raises(ProviderError, match=r"is not a list of jobs|not from the v3 API"):
            talk(APIS[service].check_pin(NEW), body)
