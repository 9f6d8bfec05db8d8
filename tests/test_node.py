"""The pinning API of the node, over a real socket: what the service does, and what it refuses."""

import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
import urllib3

from holdfast import Client, compute_cid
from holdfast.content.cid import CID
from holdfast.errors import ConfigError
from holdfast.node import api_calls, form_upload
from holdfast.node.__main__ import main
from holdfast.node.node_server import check_host
from holdfast.node.settings import NodeToken
from holdfast.repository.adding import Adding
from holdfast.testing import running_node
from tests.content import (
    VECTORS,
    file_pieces,
    json_text,
    make_directory,
)
from tests.node_caller import Caller, connect, head_of, raw_exchange, refusal
from tests.node_process import ON_LINUX, node_process
from tests.psa import PSACaller
from tests.support import HELLO_CID, NOBODY_HAS, wait_until

LISTER = NodeToken(token="only-lists-0123456789", scopes=frozenset({"pinList"}))
POWERLESS = NodeToken(token="may-do-nothing-0123456789", scopes=frozenset())


@pytest.fixture(scope="module")
def shared_node():
    with running_node(tokens=(LISTER, POWERLESS)) as node:
        yield node


@pytest.fixture
def node(empty_node):
    return empty_node


@pytest.fixture
def call(shared_node):
    return Caller(shared_node)


# Pinning


def test_authentication(call):
    message = "Congratulations! You are communicating with the Pinata API!"
    for path in ("/data/testAuthentication", "/v3/data/testAuthentication"):
        response = call("GET", path)
        assert (response.status, response.json()) == (200, {"message": message})


def test_pin_json_replies_as_the_service(call):
    before = datetime.now(UTC)
    body = {
        "pinataContent": {"fresh": before.isoformat()},
        "pinataMetadata": {"name": "greeting", "keyvalues": {"a": "1"}},
        "pinataOptions": {"cidVersion": 1},
    }
    reply = call.pin_json(body).json()
    text = json.dumps(body["pinataContent"], separators=(",", ":")).encode()
    stamp = reply.pop("Timestamp")
    assert stamp.endswith("Z")
    assert len(stamp) == len("2024-07-11T23:33:27.665Z")
    assert abs((datetime.fromisoformat(stamp) - before).total_seconds()) < 5
    assert len(reply.pop("ID")) == 36
    assert reply == {
        "IpfsHash": compute_cid(text),
        "PinSize": len(text),
        "Name": "greeting",
        "NumberOfFiles": 1,
        "MimeType": "application/json",
        "GroupId": None,
        "Keyvalues": {"a": "1"},
    }
    assert call.pin_json(body).json()["isDuplicate"] is True


@pytest.mark.parametrize("content", [{"a": 1}, [1, 2], {"b": {"pinata": None}}], ids=str)
def test_bare_json_and_both_names_of_the_content(call, content):
    expected = compute_cid(json.dumps(content, separators=(",", ":")).encode())
    for body in (content, {"pinContent": content}, {"pinataContent": content}):
        assert call.pin_json(body).json()["IpfsHash"] == expected


@pytest.mark.parametrize(("version", "options_first"), [(0, True), (1, False)])
def test_vectors(call, version, options_first):
    profile = ["unixfs-v0-2015", "unixfs-v1-2025"][version]
    options = b'"pinataOptions":{"cidVersion":%d}' % version
    for vector in VECTORS["json"]:
        body = b'{ "pinataContent" : ' + json_text(vector) + b" , " + options + b"}"
        reply = call.pin_json(body).json()
        expected = (vector["cids"][profile], vector["tsizes"][profile])
        assert (reply["IpfsHash"], reply["PinSize"]) == expected, vector["name"]
    for vector in VECTORS["files"]:
        if vector["size"] <= 5_000_000:
            files = [("f", b"".join(file_pieces(vector)))]
            options = {"cidVersion": version}
            reply = call.pin_files(files, options=options, options_first=options_first).json()
            expected = (vector["cids"][profile], vector["tsizes"][profile])
            assert (reply["IpfsHash"], reply["PinSize"]) == expected, vector["name"]


@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 1])
def test_directory_vectors(call, tmp_path, version):
    profile = ["unixfs-v0-2015", "unixfs-v1-2025"][version]
    for vector in VECTORS["directories"]:
        root = make_directory(tmp_path / vector["name"], vector)
        paths = [path for path in sorted(root.rglob("*")) if path.is_file()]
        for empty in [path for path in root.rglob("*") if path.is_dir() and not [*path.iterdir()]]:
            empty.rmdir()  # a form cannot carry it
        files = [(f"root/{path.relative_to(root)}", path.read_bytes()) for path in paths]
        if 0 < len(files) <= 1000:
            reply = call.pin_files(files[::-1], options={"cidVersion": version}).json()
            assert reply["IpfsHash"] == compute_cid(root, profile=profile, include_hidden=True)
            assert (reply["NumberOfFiles"], reply["MimeType"]) == (len(files), "directory")


def test_wrap_with_directory(call, tmp_path):
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "hello.txt").write_bytes(b"wrapped")
    reply = call.pin_files([("hello.txt", b"wrapped")], options={"wrapWithDirectory": True}).json()
    assert reply["IpfsHash"] == compute_cid(tmp_path / "w")


def test_unpin(call):
    cid = call.pin_json({"to": "be unpinned"}).json()["IpfsHash"]
    response = call("DELETE", f"/pinning/unpin/{cid}")
    assert (response.status, response.reason, response.data) == (200, "OK", b"OK")
    assert response.headers["content-type"].startswith("text/plain")
    details = f"The current user has not pinned the cid: {cid}"
    error = {"reason": "CURRENT_USER_HAS_NOT_PINNED_CID", "details": details}
    assert refusal(call("DELETE", f"/pinning/unpin/{cid}")) == (400, error)


def test_key_pairs_and_absolute_targets(call, shared_node):
    for secret, status in ((shared_node.token, 200), ("wrong", 401)):
        pair = {"pinata_api_key": "holdfast", "pinata_secret_api_key": secret}
        assert call("GET", "/data/testAuthentication", token="", headers=pair).status == status
    call.pool = urllib3.ProxyManager(shared_node.api_url)
    assert call("GET", "http://api.pinata.cloud/data/testAuthentication").status == 200


CALLS = [
    ("POST", "/pinning/pinJSONToIPFS"),
    ("POST", "/pinning/pinFileToIPFS"),
    ("POST", "/pinning/pinByHash"),
    ("GET", "/pinning/pinJobs"),
    ("PUT", "/pinning/hashMetadata"),
    ("DELETE", f"/pinning/unpin/{HELLO_CID}"),
    ("GET", "/data/testAuthentication"),
    ("GET", "/data/pinList"),
    ("GET", "/data/userPinnedDataTotal"),
]


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_without_a_good_token_it_is_401_and_with_too_few_scopes_403(call, method, path):
    for token in ("wrong", "x" * 5000):
        status, error = refusal(call(method, path, token=token))
        assert (status, error["reason"]) == (401, "INVALID_CREDENTIALS")
        assert error["details"] == "Invalid/expired credentials"
    assert refusal(call(method, path, token=""))[0] == 401
    response = call(method, path, token=POWERLESS.token)
    if path.endswith("testAuthentication"):
        assert response.status == 200
    else:
        status, error = refusal(response)
        assert (status, error["reason"]) == (403, "NO_SCOPES_FOUND")
    allowed = path.endswith(("testAuthentication", "pinList"))
    assert (call(method, path, token=LISTER.token).status == 200) is allowed


@pytest.mark.parametrize("days", [-1, 1])
def test_a_clock_that_is_set_changes_no_rate_limit(monkeypatch, days):
    real = time.time
    with running_node(rate_limit=1) as node:
        call = Caller(node)
        assert call("GET", "/data/testAuthentication").status == 200
        monkeypatch.setattr(time, "time", lambda: real() + days * 24 * 3600)
        refused = call("GET", "/data/testAuthentication")
        assert (refused.status, refused.headers["x-ratelimit-limit"]) == (429, "1")
        assert 0 < int(refused.headers["retry-after"]) <= 60
        assert 0 <= int(refused.headers["x-ratelimit-reset"]) - int(time.time()) <= 61
        monkeypatch.setattr(api_calls, "WINDOW_SECONDS", 0.2)
        wait_until(lambda: call("GET", "/data/testAuthentication").status == 200, 10)


# Listing


def test_pin_list(node):
    call = Caller(node)
    cids = []
    for number in range(12):
        metadata = {"name": f"Item {number}", "keyvalues": {"n": number, "even": number % 2 == 0}}
        body = {"pinataContent": {"number": number}, "pinataMetadata": metadata}
        cids.append(call.pin_json(body).json()["IpfsHash"])
    call("DELETE", f"/pinning/unpin/{cids[0]}")
    first = call.get("/data/pinList")
    assert (first["count"], len(first["rows"])) == (12, 10)
    row = first["rows"][0]
    assert row["ipfs_pin_hash"] == cids[11]
    assert row["metadata"] == {"name": "Item 11", "keyvalues": {"n": 11, "even": False}}
    assert row["date_unpinned"] is None
    assert set(row) == {
        *("id", "ipfs_pin_hash", "size", "user_id", "date_pinned", "date_unpinned", "metadata"),
        *("regions", "mime_type", "number_of_files"),
    }
    assert "count" not in call.get("/data/pinList", includeCount="false")
    (removed,) = call.get("/data/pinList", status="unpinned")["rows"]
    assert removed["ipfs_pin_hash"] == cids[0]
    assert removed["date_unpinned"] is not None
    page = call.get("/data/pinList", pageLimit="3", pageOffset="2")["rows"]
    assert [row["ipfs_pin_hash"] for row in page] == [cids[9], cids[8], cids[7]]
    for count, query in [
        (11, {"status": "pinned"}),
        (1, {"cid": cids[3]}),
        (0, {"cid": ""}),  # an empty variable in a script selects no pin
        (1, {"hashContains": cids[3][10:30]}),
        (3, {"metadata[name]": "item 1"}),
        (2, {"pinSizeMin": "13"}),
        (10, {"pinSizeMax": "12"}),
        (0, {"pinStart": "2100-01-01"}),
        (12, {"pinEnd": "2100-01-01T00:00:00Z"}),
        (1, {"unpinStart": "2020-01-01T00:00:00.000Z"}),
    ]:
        assert call.get("/data/pinList", **query)["count"] == count, query
    for count, condition in [
        (1, {"value": 5, "op": "eq"}),
        (1, {"value": "5", "op": "eq"}),
        (11, {"value": 5, "op": "ne"}),
        (6, {"value": 5, "op": "gt"}),
        (7, {"value": 5, "op": "gte"}),
        (5, {"value": 5, "op": "lt"}),
        (6, {"value": 5, "op": "lte"}),
        (4, {"value": 3, "secondValue": 6, "op": "between"}),
        (8, {"value": 3, "secondValue": 6, "op": "notBetween"}),
        (3, {"value": "1%", "op": "like"}),
        (10, {"value": "1_", "op": "notLike"}),
        (2, {"value": "1_", "op": "iLike"}),
        (10, {"value": "1_", "op": "notILike"}),
        (0, {"value": "x", "op": "gt"}),
    ]:
        conditions = {"metadata[keyvalues]": json.dumps({"n": condition})}
        assert call.get("/data/pinList", **conditions)["count"] == count, condition
    totals = call.get("/data/userPinnedDataTotal")
    assert totals["pin_count"] == 11
    assert totals["pin_size_total"] == totals["pin_size_with_replications_total"] > 100


@pytest.mark.parametrize(
    "parameters",
    [
        *({"status": "maybe"}, {"sortBy": "cid; DROP TABLE pins"}, {"sortOrder": "sideways"}),
        *({"pageLimit": limit} for limit in ("1001", "-1", "x")),
        *({"pageOffset": "9" * 30}, {"pinStart": "yesterday"}),
        *(
            {"metadata[keyvalues]": text}
            for text in ("nonsense", "[" * 5000, "[]", "", "null", '{"a": 1}')
        ),
        {"metadata[keyvalues]": '{"a": {"value": 1, "op": "drop table"}}'},
        {"metadata[keyvalues]": '{"a": {"value": 1, "op": []}}'},
    ],
    ids=str,
)
def test_bad_queries(call, parameters):
    assert refusal(call("GET", "/data/pinList", fields=parameters))[0] == 400


def test_hash_metadata(call):
    cid = call.pin_json({"to": "be named"}).json()["IpfsHash"]

    def put(**body):
        return call("PUT", "/pinning/hashMetadata", body=json.dumps(body).encode())

    response = put(ipfsPinHash=cid, name="new", keyvalues={"a": 1, "b": "x"})
    assert (response.status, response.data) == (200, b"OK")
    put(ipfsPinHash=cid, keyvalues={"b": None, "c": True})
    (row,) = call.get("/data/pinList", cid=cid)["rows"]
    assert row["metadata"] == {"name": "new", "keyvalues": {"a": 1, "c": True}}
    for change in (
        {"ipfsPinHash": HELLO_CID, "name": "x"},
        {"ipfsPinHash": "nonsense"},
        {"ipfsPinHash": cid, "keyvalues": {str(n): n for n in range(11)}},
        {"ipfsPinHash": cid, "keyvalues": {"a": {"b": 1}}},
        {"ipfsPinHash": cid, "name": 5},
    ):
        assert refusal(put(**change))[0] == 400


def test_pin_by_hash_of_what_the_node_has_and_of_what_nobody_has(call):
    cid, missing = call.pin(b"to be pinned again"), compute_cid(b"nobody has this")
    call("DELETE", f"/pinning/unpin/{cid}")
    for hash_to_pin in (cid, missing):
        body = {"hashToPin": hash_to_pin, "pinataMetadata": {"name": "again"}}
        reply = call("POST", "/pinning/pinByHash", json=body).json()
        assert (reply["ipfsHash"], reply["status"], reply["name"]) == (
            *(hash_to_pin, "prechecking"),
            "again",
        )
    wait_until(lambda: call.get("/data/pinList", status="pinned", cid=cid)["count"] == 1)
    query = {"ipfs_pin_hash": missing, "status": "expired"}
    wait_until(lambda: call.get("/pinning/pinJobs", **query)["count"] == 1)
    (row,) = call.get("/pinning/pinJobs")["rows"]
    assert (row["ipfs_pin_hash"], row["status"]) == (missing, "expired")
    query["ipfs_pin_hash"] = missing.upper()  # the same in upper case
    assert call.get("/pinning/pinJobs", **query)["rows"] == [row]
    assert refusal(call("GET", "/pinning/pinJobs", fields={"ipfs_pin_hash": "x"}))[0] == 400
    assert refusal(call("POST", "/pinning/pinByHash", json={"hashToPin": "x"}))[0] == 400


# Bad input


BAD_JSON = {
    "broken": b'{"a": ',
    "empty": b"",
    "number": b"5",
    "not utf-8": b'{"a": "\xff"}',
    "nan": b'{"a": NaN}',
    "infinity": b'{"a": Infinity}',
    "deep": b"[" * 100_000,
    "surrogate": b'{"a": "\\ud800"}',
    "metadata is a list": b'{"pinataContent": 1, "pinataMetadata": []}',
    "name is a number": b'{"pinataContent": 1, "pinataMetadata": {"name": 5}}',
    "eleven notes": json.dumps(
        {"pinataContent": 1, "pinataMetadata": {"keyvalues": {str(n): n for n in range(11)}}}
    ).encode(),
    "version 99": b'{"pinataContent": 1, "pinataOptions": {"cidVersion": 99}}',
    "version text": b'{"pinataContent": 1, "pinataOptions": {"cidVersion": "x"}}',
    "infinite note": b'{"pinataContent": 1, "pinataMetadata": {"keyvalues": {"a": 1e999}}}',
    "huge number": b'{"pinataContent": ' + b"1" * 5000 + b"}",
    "huge version": b'{"pinataContent": 1, "pinataOptions": {"cidVersion": ' + b"1" * 5000 + b"}}",
}


@pytest.mark.parametrize("body", BAD_JSON.values(), ids=BAD_JSON)
def test_bad_json(call, body):
    before = call.get("/data/userPinnedDataTotal")
    assert refusal(call.pin_json(body))[0] == 400
    assert call.get("/data/userPinnedDataTotal") == before


def form(*parts, boundary="b"):
    body = b""
    for disposition, content in parts:
        body += f"--{boundary}\r\nContent-Disposition: form-data; {disposition}\r\n\r\n".encode()
        body += content + b"\r\n"
    return body + f"--{boundary}--\r\n".encode()


FILE = 'name="file"; filename="{}"'
ONE = (FILE.format("x"), b"1")
BAD_NAMES = [
    *("../x", "a/../x", "a/", "/", "//", "./", "/..", "//../x", "/a/../../x", "a//..//x"),
    *("..", ".", "a/./b", "x\0y", "a/" * 300 + "b"),
]
BAD_FORMS = {
    "no form": (b"hello", "text/plain"),
    "no boundary": (form(ONE), "multipart/form-data"),
    "wrong boundary": (form(ONE), "multipart/form-data; boundary=other"),
    "empty": (b"",),
    "cut off": (form(ONE)[:-8],),
    "no file": (form(('name="pinataOptions"', b"{}")),),
    "no filename": (form(('name="file"', b"1")),),
    "unknown field": (form(('name="other"', b"1")),),
    "broken options": (form(ONE, ('name="pinataOptions"', b"{")),),
    "two files": (form((FILE.format("a"), b"1"), (FILE.format("b"), b"2")),),
    "the same file twice": (form((FILE.format("d/a"), b"1"), (FILE.format("d/a"), b"2")),),
    "file and directory": (form((FILE.format("d/a"), b"1"), (FILE.format("d/a/b"), b"2")),),
    **{f"filename {name!r}": (form((FILE.format(name), b"1")),) for name in BAD_NAMES},
}


@pytest.mark.parametrize("arguments", BAD_FORMS.values(), ids=BAD_FORMS)
def test_bad_forms(call, arguments):
    before = call.get("/data/userPinnedDataTotal")
    status, error = refusal(call.pin_form(*arguments))
    assert (status, type(error)) == (400, str)
    assert call.get("/data/userPinnedDataTotal") == before


@pytest.mark.parametrize("boundary", ["----=_Part_1", "a:b", "'()+_,-./:=?"])
@pytest.mark.parametrize("spelling", ["; boundary={}", ';\tBoundary="{}"'])
def test_boundaries_that_other_clients_make(call, boundary, spelling):
    kind = f"multipart/form-data{spelling.format(boundary)}"
    assert call.pin_form(form(ONE, boundary=boundary), kind).json()["PinSize"]


@pytest.mark.parametrize(
    ("filename", "path"),
    [
        ("/tide.txt", "tide.txt"),
        ("//tide.txt", "tide.txt"),
        ("/var/tide.txt", "var/tide.txt"),
        ("a//var///tide.txt", "a/var/tide.txt"),
        ("/...", "..."),
    ],
)
def test_slashes_at_the_start_and_doubled_ones_do_not_count(call, tmp_path, filename, path):
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(filename)
    top = tmp_path / path.partition("/")[0]
    reply = call.pin_files([(filename, filename.encode())]).json()
    assert (reply["IpfsHash"], reply["Name"]) == (compute_cid(top), top.name)


# Limits of forms


def upload(call, *paths):
    return call.pin_files([(path, b"x") for path in paths])


LIMITS = {  # the default, the limit of the test, and what is repeated 20 and 21 times
    "MAX_LEVELS": (64, 20, "a/", "20 levels"),
    "MAX_FILES": (100_000, 20, "d/{}", "20 files"),
    "MAX_FOLDERS": (1_000_000, 21, "d/{}/f", "21 folders"),
    "MAX_PATHS": (32 << 20, 20_000, "d/{}" + "x" * 970, "20000 bytes"),
}


@pytest.mark.parametrize("setting", LIMITS)
def test_uploads_have_limits(call, monkeypatch, setting):
    default, limit, path, words = LIMITS[setting]
    assert getattr(form_upload, setting) == default
    monkeypatch.setattr(form_upload, setting, limit)
    accepted, refused = ([path.format(n) for n in range(count)] for count in (20, 21))
    if setting == "MAX_LEVELS":
        accepted, refused = [["".join(paths).rstrip("/")] for paths in (accepted, refused)]
    assert upload(call, *accepted).status == 200
    assert words in refusal(upload(call, *refused))[1]


def test_the_parts_of_a_form_have_few_and_short_headers(call):
    for more in ("X-Long: " + "x" * 20_000, "\r\n".join(f"X-{n}: y" for n in range(20))):
        reply = call.pin_form(form((f"{FILE.format('x')}\r\n{more}", b"x")))
        assert "16 headers" in refusal(reply)[1]
    assert "16384 bytes" in refusal(upload(call, "/".join("a" * 10_000)))[1]


def test_files_that_are_cut_anew_are_stored_once_and_not_one_by_one(call, monkeypatch):
    flushes = []
    flush = Adding.flush

    def counted(adding):
        flushes.append(adding)
        flush(adding)

    monkeypatch.setattr(Adding, "flush", counted)
    paths = [f"d/{n}" for n in range(50)]
    reply = call.pin_files([(path, b"x") for path in paths], options={"cidVersion": 0})
    assert reply.json()["IpfsHash"].startswith("Qm")
    assert len(flushes) < 5


def test_paths_in_any_order_give_the_same_directory(call):
    paths = ["d/b/c/x", "d/a", "d/b/y", "d/b-/z", "d/b/c/d/w", "d/b\x01/v", "d/e/f"]
    results = {
        upload(call, *order).json()["IpfsHash"]
        for order in (paths, paths[::-1], sorted(paths), paths[3:] + paths[:3])
    }
    assert len(results) == 1
    root = CID.parse(results.pop())
    names = [entry.name for entry in call.node.repository.entries(root)]
    assert sorted(names) == ["a", "b", "b\x01", "b-", "e"]


@ON_LINUX
@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "name"),
    [(100_000, "d/{n:06}" + "x" * 200), (2000, "d/" + "/".join(["{n}"] * 62) + "/f")],
    ids=["many files", "deep folders"],
)
def test_the_largest_upload_takes_less_than_128_mib(tmp_path, count, name):
    with node_process(tmp_path) as process:
        urllib3.request("GET", f"{process.api_url}/ipfs/bafkqaaa", timeout=60)
        idle = process.memory()
        head = '--b\r\nContent-Disposition: form-data; name="file"; filename="{}"\r\n\r\nx\r\n'
        parts = (head.format(name.format(n=n)).encode() for n in range(count))
        reply = Caller(process).pin_form(itertools.chain(parts, [b"--b--\r\n"]))
        assert reply.status == 200
        assert reply.json()["NumberOfFiles"] == count
        assert process.peak_memory() - idle < 128 << 20


# Addresses


@pytest.mark.parametrize("slashes", ["//", "////", "http://x//"])
def test_slashes_at_the_start_of_an_address_count_as_one(shared_node, slashes):
    greeting = head_of(shared_node, f"{slashes}data/testAuthentication", "GET")
    assert raw_exchange(shared_node, greeting).startswith(b"HTTP/1.1 200 ")
    stranger = greeting.replace(b"Bearer ", b"Bearer x")
    assert raw_exchange(shared_node, stranger).startswith(b"HTTP/1.1 401 ")


def test_no_reply_leads_to_another_host(shared_node, tmp_path):
    """The gateway redirects to a folder's address with a slash: never to `//host/`."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a.txt").write_bytes(b"a")
    with Client.init(shared_node.config) as client:
        cid = client.upload(tmp_path / "site").cid
    for target in (f"//ipfs/{cid}", f"//example.com/ipfs/{cid}", f"//example.com/../ipfs/{cid}"):
        reply = raw_exchange(shared_node, head_of(shared_node, target, "GET")).lower()
        location = re.search(rb"\r\nlocation: ([^\r]*)", reply)
        assert location is None or location[1].startswith(b"/ipfs/"), reply
        assert reply.split()[1] in {b"301", b"404"}


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("POST", "/users/generateApiKey", "no keys"),
        ("PUT", "/users/revokeApiKey", "no keys"),
        ("PUT", "/pinning/hashPinPolicy", "no regions"),
        ("PUT", "/pinning/userPinPolicy", "no regions"),
        ("POST", "/pinning/addHashToPinQueue", "pinByHash"),
        ("GET", "/groups", "/v3/groups"),
    ],
)
def test_what_the_node_lacks_is_said(call, method, path, words):
    reply = call(method, path, body=b"{}")
    error = reply.json()["error"]
    assert (reply.status, error["reason"]) == (501, "NOT_IMPLEMENTED")
    assert words in error["details"]


@pytest.mark.parametrize(
    ("paths", "text"),
    [
        (("a", "b"), "More than one file and/or directory was provided for pinning."),
        (("d/a", "e/a"), "More than one file and/or directory was provided for pinning."),
        (("/d/a", "d//a"), "The filename a occurs twice"),
        (("d/a/b", "d/a"), "a is both a file and a directory"),
        (("d/a", "d/a/b"), "a is both a file and a directory"),
    ],
)
def test_the_texts_about_several_files(call, paths, text):
    assert refusal(upload(call, *paths)) == (400, text)


def test_the_texts_about_fields(call):
    assert refusal(call.pin_form(form(('name="file"', b"1")))) == (400, "Invalid request format.")
    assert refusal(call.pin_form(form(('name="x"', b"1")))) == (400, "Unexpected field")
    body = form((FILE.format("x"), b"empty options"), ('name="pinataOptions"', b""))
    assert call.pin_form(body).json()["IpfsHash"] == compute_cid(b"empty options")


@pytest.mark.parametrize(
    ("method", "path", "statuses"),
    [
        *(
            ("DELETE", f"/pinning/unpin/{cid}", {400, 404})
            for cid in ("nonsense", "..", "%2e%2e", "a/b", "x" * 3000, "%00", HELLO_CID + "x")
        ),
        ("GET", "/nonsense", {404}),
        ("POST", "/data/testAuthentication", {405}),
    ],
)
def test_unknown_addresses_methods_and_cids(call, method, path, statuses):
    assert refusal(call(method, path))[0] in statuses


def test_a_body_that_never_comes_ends_by_the_idle_limit():
    form_fields = {"Content_Length": 10 << 30, "Content_Type": "multipart/form-data; boundary=b"}
    with running_node(idle_seconds=0.5) as node:
        start = time.monotonic()
        for path, fields, body in (
            ("pinJSONToIPFS", {"Content_Length": 100}, b""),
            ("pinFileToIPFS", form_fields, b"--b\r\n"),
        ):
            head = head_of(node, f"/pinning/{path}", **fields)
            assert raw_exchange(node, head + body).startswith(b"HTTP/1.1 408 ")
        assert time.monotonic() - start < 20


@pytest.mark.parametrize(
    ("method", "path", "length"),
    [
        ("POST", "pinJSONToIPFS", 10 << 30),
        ("POST", "pinFileToIPFS", 10 << 40),
        ("PUT", "hashMetadata", 2 << 20),
    ],
)
def test_bodies_that_are_too_large(shared_node, method, path, length):
    fields = {"Content_Length": length, "Content_Type": "multipart/form-data; boundary=b"}
    head = head_of(shared_node, f"/pinning/{path}", method, **fields)
    assert raw_exchange(shared_node, head).startswith(b"HTTP/1.1 413 ")


def test_every_reply_is_safe_to_look_at(call):
    for method, path in [*CALLS, ("GET", "/nonsense"), ("GET", "/ipfs/nonsense")]:
        for token in (None, "wrong"):
            headers = call(method, path, token=token).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["content-security-policy"] == "sandbox"
            assert "server" not in headers


@pytest.mark.parametrize("target", [b"http://[", b"http://[::1", b"x://%ff", b"*", b"x"])
def test_odd_targets(shared_node, target):
    reply = raw_exchange(shared_node, b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert reply.startswith((b"HTTP/1.1 4", b"HTTP/1.1 404"))
    assert b"content-security-policy: sandbox" in reply.lower() or b"Invalid HTTP" in reply


@pytest.mark.slow
def test_large_json_does_not_hold_up_others(node):
    call = Caller(node)
    large = b"[" * 200 + b",".join([b"1.5"] * 300_000) + b"]" * 200
    done = threading.Event()
    waits = []

    def watch():
        other = Caller(node)
        while not done.is_set():
            start = time.process_time()
            assert other("GET", "/data/testAuthentication").status == 200
            waits.append(time.process_time() - start)

    # In time of the processor, which the node shares with us: the machine may stall.
    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.process_time()
    reply = call.pin_json(large)
    busy = time.process_time() - start
    done.set()
    watcher.join()
    assert reply.json()["IpfsHash"] == compute_cid(large)
    assert max(waits) < busy / 2


def test_a_slow_reader_gets_all_of_it(node, monkeypatch):
    """Also after another request, and although a head may take less time."""
    monkeypatch.setattr("holdfast.node.http_server.http_connection.HEAD_SECONDS", 0.4)
    data = os.urandom(3_000_000)
    targets = ("bafkqaaa", Caller(node).pin(data))
    requests = [f"GET /ipfs/{cid} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for cid in targets]
    received, start = b"", time.monotonic()
    with connect(node) as peer:
        peer.sendall(b"".join(requests))
        while not received.endswith(data):
            received += peer.recv(200_000)
            if time.monotonic() - start < 0.8:
                time.sleep(0.05)


def test_notes_that_change_at_once_are_all_kept(node):
    call = Caller(node)
    cid = call.pin_json({"to": "be noted"}).json()["IpfsHash"]

    def note(number):
        body = {"ipfsPinHash": cid, "keyvalues": {f"k{number}": number}}
        return Caller(node)("PUT", "/pinning/hashMetadata", json=body).status

    with ThreadPoolExecutor(10) as pool:
        assert set(pool.map(note, range(10))) == {200}
    (row,) = call.get("/data/pinList", cid=cid)["rows"]
    assert len(row["metadata"]["keyvalues"]) == 10


def test_the_reply_is_in_the_version_that_was_asked_for(node):
    call = Caller(node)
    body = {"pinataContent": [1], "pinataOptions": {"cidVersion": 0}}
    cid = call.pin_json(body).json()["IpfsHash"]
    as_v1 = str(CID.parse(cid).in_other_version())
    call("DELETE", f"/pinning/unpin/{as_v1}")
    call("POST", "/pinning/pinByHash", json={"hashToPin": as_v1})
    wait_until(lambda: node.repository.totals().pins == 1)
    again = call.pin_json(body).json()
    assert (again["IpfsHash"], again["isDuplicate"]) == (cid, True)


# The command


def run_node(*arguments, **environment):
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "holdfast.node", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def data_status(url, call, token):
    headers = {"Authorization": f"Bearer {token}"}
    return urllib3.request("GET", f"{url}/data/{call}", headers=headers, timeout=60).status


def stop(process):
    process.terminate()
    output, errors = process.communicate(timeout=120)
    return output + errors


def test_the_command_prints_its_addresses_and_a_fresh_token(tmp_path):
    process = run_node("--port", "0", "--path", str(tmp_path), "--pretend-pinned")
    lines = [process.stdout.readline() for _ in range(4)]
    shown = {line.split("  ")[0].strip(): line.split()[-1] for line in lines}
    try:
        url = shown["Pinning API"]
        assert url.startswith("http://127.0.0.1:")
        assert shown["Gateway"] == f"{url}/ipfs"
        assert data_status(url, "testAuthentication", shown["Token"]) == 200
        caller = PSACaller(SimpleNamespace(api_url=url, token=shown["Token"]))
        assert caller.add(NOBODY_HAS)["status"] == "pinned"
    finally:
        assert "Traceback" not in stop(process)


def test_tokens_come_in_three_ways_and_are_not_printed(tmp_path):
    tokens = ["by-flag-0123456789", "by-variable-0123456789", "by-file-0123456789"]
    (tmp_path / "tokens").write_text(f"{tokens[2]}\nscoped-token-2 pinList\n")
    options = ("--token", tokens[0], "--token-file", str(tmp_path / "tokens"))
    environment = {"HOLDFAST_NODE_TOKEN": tokens[1]}
    process = run_node("--port", "0", "--path", str(tmp_path / "s"), *options, **environment)
    lines = [process.stdout.readline() for _ in range(3)]
    try:
        url = lines[0].split()[-1]
        assert [data_status(url, "userPinnedDataTotal", token) for token in tokens] == [200] * 3
        assert data_status(url, "pinList", "scoped-token-2") == 200
        assert data_status(url, "userPinnedDataTotal", "scoped-token-2") == 403
    finally:
        output = "".join(lines) + stop(process)
        assert not [token for token in tokens if token in output]


def test_others_are_not_let_in_with_a_token_that_nobody_chose(tmp_path, capsys):
    assert main(["--host", "0.0.0.0", "--port", "0", "--path", str(tmp_path)]) == 2  # noqa: S104
    output, errors = capsys.readouterr()
    assert output == ""
    assert "give a token of your own" in errors
    with pytest.raises(ConfigError):
        check_host("192.168.1.2", token_given=False)
    check_host("192.168.1.2", token_given=True)
    check_host("127.0.0.1", token_given=False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "99999"], "a port is a number"),
        (["--port", "-1"], "a port is a number"),
        (["--token-file", "{tmp}/binary"], "not UTF-8 text"),
        (["--token-file", "{tmp}/missing"], "No such file"),
        (["--path", "{tmp}/binary"], "binary"),
        (["--path", ""], "must not be empty"),
        (["--rate-limit", "0"], "--rate-limit must be 1 or more"),
        (["--path", "{tmp}/broken"], "holds no sound repository"),
        (["--token-file", "{tmp}/scopes"], "unknown scope 'nonsense'"),
        (["--token", "hunter2 sec ret"], "--token holds a space"),
        (["--port", "{port}"], "cannot listen on 127.0.0.1:{port}"),
    ],
    ids=str,
)
def test_mistakes_at_the_command_line_are_one_sentence(
    tmp_path, shared_node, arguments, words, capsys
):
    port = shared_node.api_url.rpartition(":")[2]
    (tmp_path / "scopes").write_text("token nonsense\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "holdfast.sqlite3").write_bytes(b"no database" * 100)
    try:
        code = main(
            ["--port=0", "--path", str(tmp_path)]
            + [word.format(tmp=tmp_path, port=port) for word in arguments]
        )
    except SystemExit as end:  # by argparse
        code = end.code
    assert code == 2
    error = capsys.readouterr().err
    assert words.format(port=port) in error.splitlines()[-1]
    assert "sec ret" not in error


@pytest.mark.slow
def test_a_silent_gateway_does_not_hold_up_the_end(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        gateway = f"http://127.0.0.1:{silent.getsockname()[1]}/ipfs"
        with node_process(tmp_path, "--gateway", gateway) as node:
            Caller(node)("POST", "/pinning/pinByHash", json={"hashToPin": HELLO_CID})
            time.sleep(0.5)
            start = time.monotonic()
            node.process.send_signal(signal.SIGINT)
            node.process.wait(120)
            assert time.monotonic() - start < 10
