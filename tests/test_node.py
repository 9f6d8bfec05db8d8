"""The pinning API of the node, over a real socket: what the service does, and what it refuses."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime

import pytest
import urllib3

from holdfast import Client, compute_cid
from holdfast.content.cid import CID
from holdfast.errors import ConfigError
from holdfast.node import api_calls
from holdfast.node.__main__ import main
from holdfast.node.node_server import check_host
from holdfast.node.settings import NodeToken
from holdfast.testing import running_node
from tests.content import (
    VECTORS,
    file_pieces,
    generated_names,
    json_text,
    make_directory,
    stream,
)
from tests.support import HELLO_CID, wait_until

LISTER = NodeToken(token="only-lists-0123456789", scopes=frozenset({"pinList"}))
POWERLESS = NodeToken(token="may-do-nothing-0123456789", scopes=frozenset())


class Caller:
    """Calls a node as anybody would, with plain HTTP."""

    def __init__(self, node):
        self.node = node
        self.pool = urllib3.PoolManager()
        self.token = node.token

    def __call__(self, method, path, *, token=None, headers=None, **more):
        token = self.token if token is None else token
        headers = {"Authorization": f"Bearer {token}", **(headers or {})}
        headers = {name: value for name, value in headers.items() if value is not None}
        url = self.node.api_url + path
        return self.pool.request(method, url, headers=headers, timeout=120, retries=False, **more)

    def pin_json(self, body, **more):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        return self("POST", "/pinning/pinJSONToIPFS", body=raw, headers=headers, **more)

    def pin_files(self, files, *, options=None, metadata=None, options_first=False):
        fields = [("file", (name, data)) for name, data in files]
        texts = [("pinataOptions", json.dumps(options))] if options is not None else []
        texts += [("pinataMetadata", json.dumps(metadata))] if metadata is not None else []
        fields = texts + fields if options_first else fields + texts
        return self("POST", "/pinning/pinFileToIPFS", fields=fields)


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


def refusal(response):
    assert 400 <= response.status < 500, response.data
    assert response.headers["content-type"] == "application/json"
    return response.status, response.json()["error"]


# Pinning


def test_authentication(call):
    response = call("GET", "/data/testAuthentication")
    assert response.status == 200
    assert response.json() == {
        "message": "Congratulations! You are communicating with the Pinata API!"
    }
    assert call("GET", "/v3/data/testAuthentication").status == 200


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
    assert call.pin_json(content).json()["IpfsHash"] == expected
    assert call.pin_json({"pinContent": content}).json()["IpfsHash"] == expected
    assert call.pin_json({"pinataContent": content}).json()["IpfsHash"] == expected


@pytest.mark.parametrize("version", [0, 1])
def test_json_vectors(call, version):
    profile = ["unixfs-v0-2015", "unixfs-v1-2025"][version]
    options = b'"pinataOptions":{"cidVersion":%d}' % version
    for vector in VECTORS["json"]:
        text = json_text(vector)
        reply = call.pin_json(b'{ "pinataContent" : ' + text + b" , " + options + b"}").json()
        assert reply["IpfsHash"] == vector["cids"][profile], vector["name"]
        assert reply["PinSize"] == vector["tsizes"][profile]


@pytest.mark.parametrize(("version", "options_first"), [(0, True), (1, False)])
def test_file_vectors(call, version, options_first):
    profile = ["unixfs-v0-2015", "unixfs-v1-2025"][version]
    for vector in VECTORS["files"]:
        if vector["size"] <= 5_000_000:
            data = b"".join(file_pieces(vector))
            reply = call.pin_files(
                [("f", data)], options={"cidVersion": version}, options_first=options_first
            ).json()
            assert reply["IpfsHash"] == vector["cids"][profile], vector["name"]
            assert reply["PinSize"] == vector["tsizes"][profile]


@pytest.mark.parametrize("version", [0, 1])
def test_directory_vectors(call, version):
    profile = ["unixfs-v0-2015", "unixfs-v1-2025"][version]
    for vector in VECTORS["directories"]:
        files = []
        if any(entry.get("dir") for entry in vector.get("entries", [])) or not (
            vector.get("entries")
            or vector["name"] in {"generated-file-1000", "generated-file-6000"}
        ):
            continue  # a form cannot carry an empty directory
        for entry in vector.get("entries", []):
            data = entry["text"].encode() if "text" in entry else None
            data = data if data is not None else b"".join(stream(entry["seed"], entry["size"]))
            files.append((f"root/{entry['path']}", data))
        if "generated" in vector:
            names = generated_names(vector["generated"])
            files = [(f"root/{name}", str(i).encode()) for i, name in enumerate(names)]
        reply = call.pin_files(files, options={"cidVersion": version}).json()
        assert reply["IpfsHash"] == vector["cids"][profile], vector["name"]
        assert reply["NumberOfFiles"] == len(files)
        assert reply["MimeType"] == "directory"


@pytest.mark.parametrize("version", [0, 1])
def test_a_nested_directory(call, tmp_path, version):
    (vector,) = [each for each in VECTORS["directories"] if each["name"] == "nested"]
    # But for its empty directory, which a form cannot carry.
    entries = [entry for entry in vector["entries"] if not entry.get("dir")]
    root = make_directory(tmp_path / "root", {"entries": entries})
    files = [(f"root/{entry['path']}", (root / entry["path"]).read_bytes()) for entry in entries]
    profile = ["unixfs-v0-2015", "unixfs-v1-2025"][version]
    for order in (files, files[::-1]):
        reply = call.pin_files(order, options={"cidVersion": version}).json()
        assert reply["IpfsHash"] == compute_cid(root, profile=profile)


def test_wrap_with_directory(call, tmp_path):
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "hello.txt").write_bytes(b"wrapped")
    reply = call.pin_files([("hello.txt", b"wrapped")], options={"wrapWithDirectory": True}).json()
    assert reply["IpfsHash"] == compute_cid(tmp_path / "w")


def test_a_chunked_upload(call, node):
    data = os.urandom(3_000_000)
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
    pieces = [
        head,
        *(data[at : at + 99_999] for at in range(0, len(data), 99_999)),
        b"\r\n--b--\r\n",
    ]
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    response = call("POST", "/pinning/pinFileToIPFS", body=iter(pieces), headers=headers)
    assert response.json()["IpfsHash"] == compute_cid(data)


def test_unpin(call):
    cid = call.pin_json({"to": "be unpinned"}).json()["IpfsHash"]
    response = call("DELETE", f"/pinning/unpin/{cid}")
    assert (response.status, response.reason, response.data) == (200, "OK", b"OK")
    assert response.headers["content-type"].startswith("text/plain")
    status, error = refusal(call("DELETE", f"/pinning/unpin/{cid}"))
    assert status == 400
    assert error == {
        "reason": "CURRENT_USER_HAS_NOT_PINNED_CID",
        "details": f"The current user has not pinned the cid: {cid}",
    }


def test_key_pairs_and_absolute_targets(call, shared_node):
    pair = {"Authorization": None, "pinata_api_key": "holdfast"}
    pair["pinata_secret_api_key"] = shared_node.token
    assert call("GET", "/data/testAuthentication", headers=pair).status == 200
    pair["pinata_secret_api_key"] = "wrong"
    assert call("GET", "/data/testAuthentication", headers=pair).status == 401
    proxy = urllib3.ProxyManager(shared_node.api_url)
    headers = {"Authorization": f"Bearer {shared_node.token}"}
    response = proxy.request(
        "GET", "http://api.pinata.cloud/data/testAuthentication", headers=headers
    )
    assert response.status == 200


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
    for token in ("wrong", "", "x" * 5000):
        status, error = refusal(call(method, path, token=token))
        assert (status, error["reason"]) == (401, "INVALID_CREDENTIALS")
    status, _ = refusal(call(method, path, headers={"Authorization": None}))
    assert status == 401
    response = call(method, path, token=POWERLESS.token)
    if path.endswith("testAuthentication"):
        assert response.status == 200
    else:
        status, error = refusal(response)
        assert (status, error["reason"]) == (403, "NO_SCOPES_FOUND")


def test_a_scope_allows_its_call_and_no_other(call):
    assert call("GET", "/data/pinList", token=LISTER.token).status == 200
    assert call("GET", "/data/userPinnedDataTotal", token=LISTER.token).status == 403


def test_the_rate_limit():
    with running_node(rate_limit=3) as node:
        call = Caller(node)
        for _ in range(3):
            assert call("GET", "/data/testAuthentication").status == 200
        response = call("GET", "/data/testAuthentication")
        assert response.status == 429
        assert 0 < int(response.headers["retry-after"]) <= 60
        assert response.headers["x-ratelimit-limit"] == "3"


@pytest.mark.parametrize("days", [-1, 1])
def test_a_clock_that_is_set_changes_no_rate_limit(monkeypatch, days):
    real = time.time
    with running_node(rate_limit=1) as node:
        call = Caller(node)
        assert call("GET", "/data/testAuthentication").status == 200
        monkeypatch.setattr(time, "time", lambda: real() + days * 24 * 3600)
        refused = call("GET", "/data/testAuthentication")
        assert (refused.status, 0 < int(refused.headers["retry-after"]) <= 60) == (429, True)
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

    def listed(**parameters):
        response = call("GET", "/data/pinList", fields=parameters)
        assert response.status == 200, response.data
        return response.json()

    first = listed()
    assert first["count"] == 12
    assert len(first["rows"]) == 10
    row = first["rows"][0]
    assert row["ipfs_pin_hash"] == cids[11]
    assert row["metadata"] == {"name": "Item 11", "keyvalues": {"n": 11, "even": False}}
    assert row["date_unpinned"] is None
    assert set(row) == {
        *("id", "ipfs_pin_hash", "size", "user_id", "date_pinned", "date_unpinned", "metadata"),
        *("regions", "mime_type", "number_of_files"),
    }
    assert "count" not in listed(includeCount="false")
    assert listed(status="pinned")["count"] == 11
    (removed,) = listed(status="unpinned")["rows"]
    assert removed["ipfs_pin_hash"] == cids[0]
    assert removed["date_unpinned"] is not None
    page = listed(pageLimit="3", pageOffset="2")["rows"]
    assert [row["ipfs_pin_hash"] for row in page] == [cids[9], cids[8], cids[7]]
    assert listed(cid=cids[3])["count"] == 1
    assert listed(hashContains=cids[3][10:30])["count"] == 1
    assert listed(**{"metadata[name]": "item 1"})["count"] == 3
    assert listed(pinSizeMin="13")["count"] == 2
    assert listed(pinSizeMax="12")["count"] == 10
    assert listed(pinStart="2100-01-01")["count"] == 0
    assert listed(pinEnd="2100-01-01T00:00:00Z")["count"] == 12
    assert listed(unpinStart="2020-01-01T00:00:00.000Z")["count"] == 1

    def by_key(**condition):
        return listed(**{"metadata[keyvalues]": json.dumps({"n": condition})})["count"]

    assert by_key(value=5, op="eq") == 1
    assert by_key(value="5", op="eq") == 1
    assert by_key(value=5, op="ne") == 11
    assert by_key(value=5, op="gt") == 6
    assert by_key(value=5, op="gte") == 7
    assert by_key(value=5, op="lt") == 5
    assert by_key(value=5, op="lte") == 6
    assert by_key(value=3, secondValue=6, op="between") == 4
    assert by_key(value=3, secondValue=6, op="notBetween") == 8
    assert by_key(value="1%", op="like") == 3
    assert by_key(value="1_", op="notLike") == 10
    assert by_key(value="1_", op="iLike") == 2
    assert by_key(value="1_", op="notILike") == 10
    assert by_key(value="x", op="gt") == 0
    totals = call("GET", "/data/userPinnedDataTotal").json()
    assert totals["pin_count"] == 11
    assert totals["pin_size_total"] == totals["pin_size_with_replications_total"] > 100


@pytest.mark.parametrize(
    "parameters",
    [
        {"status": "maybe"},
        {"sortBy": "cid; DROP TABLE pins"},
        {"sortOrder": "sideways"},
        {"pageLimit": "1001"},
        {"pageLimit": "-1"},
        {"pageLimit": "x"},
        {"pageOffset": "9" * 30},
        {"pinStart": "yesterday"},
        {"metadata[keyvalues]": "nonsense"},
        {"metadata[keyvalues]": "[" * 5000},
        {"metadata[keyvalues]": "[]"},
        {"metadata[keyvalues]": '{"a": 1}'},
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
    (row,) = call("GET", "/data/pinList", fields={"cid": cid}).json()["rows"]
    assert row["metadata"] == {"name": "new", "keyvalues": {"a": 1, "c": True}}
    assert refusal(put(ipfsPinHash=HELLO_CID, name="x"))[0] == 400
    assert refusal(put(ipfsPinHash="nonsense"))[0] == 400
    assert refusal(put(ipfsPinHash=cid, keyvalues={str(n): n for n in range(11)}))[0] == 400
    assert refusal(put(ipfsPinHash=cid, keyvalues={"a": {"b": 1}}))[0] == 400
    assert refusal(put(ipfsPinHash=cid, name=5))[0] == 400


def test_pin_by_hash_from_its_own_blocks_and_from_a_gateway(node):
    data = os.urandom(3_000_000)
    with running_node(gateways=(node.gateway_url,)) as other:
        here, there = Caller(other), Caller(node)
        cid = there.pin_files([("f", data)]).json()["IpfsHash"]
        body = json.dumps({"hashToPin": cid, "pinataMetadata": {"name": "fetched"}}).encode()
        reply = here("POST", "/pinning/pinByHash", body=body).json()
        assert reply["ipfsHash"] == cid
        assert reply["status"] == "prechecking"
        assert reply["name"] == "fetched"
        query = {"status": "pinned", "cid": cid}
        wait_until(lambda: here("GET", "/data/pinList", fields=query).json()["count"] == 1)
        done = {"count": 0, "rows": []}
        wait_until(lambda: here("GET", "/pinning/pinJobs").json() == done)
        here("DELETE", f"/pinning/unpin/{cid}")
        here("POST", "/pinning/pinByHash", body=body)
        wait_until(lambda: here("GET", "/data/pinList", fields=query).json()["count"] == 1)


def test_pin_by_hash_of_what_nobody_has(call):
    body = json.dumps({"hashToPin": HELLO_CID[:-1] + "a"}).encode()
    assert refusal(call("POST", "/pinning/pinByHash", body=b'{"hashToPin": "x"}'))[0] == 400
    missing = compute_cid(b"nobody has this")
    body = json.dumps({"hashToPin": missing}).encode()
    assert call("POST", "/pinning/pinByHash", body=body).status == 200
    query = {"ipfs_pin_hash": missing, "status": "expired"}
    wait_until(lambda: call("GET", "/pinning/pinJobs", fields=query).json()["count"] == 1)
    (row,) = call("GET", "/pinning/pinJobs", fields=query).json()["rows"]
    assert row["status"] == "expired"
    query["ipfs_pin_hash"] = missing.upper()  # the same in upper case
    assert call("GET", "/pinning/pinJobs", fields=query).json()["rows"] == [row]
    assert refusal(call("GET", "/pinning/pinJobs", fields={"ipfs_pin_hash": "x"}))[0] == 400


# Bad input


BAD_JSON = {
    "broken": b'{"a": ',
    "empty": b"",
    "text": b"hello",
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
    "options are text": b'{"pinataContent": 1, "pinataOptions": "x"}',
    "infinite note": b'{"pinataContent": 1, "pinataMetadata": {"keyvalues": {"a": 1e999}}}',
    "huge number": b'{"pinataContent": ' + b"1" * 5000 + b"}",
    "huge version": b'{"pinataContent": 1, "pinataOptions": {"cidVersion": ' + b"1" * 5000 + b"}}",
}


@pytest.mark.parametrize("body", BAD_JSON.values(), ids=BAD_JSON)
def test_bad_json(call, body):
    assert refusal(call.pin_json(body))[0] == 400


def test_deep_json_is_stored_or_refused(call):
    # How deep is too deep depends on the version of Python.
    response = call.pin_json(b"[" * 5000 + b"]" * 5000)
    if response.status == 200:
        assert response.json()["IpfsHash"] == compute_cid(b"[" * 5000 + b"]" * 5000)
    else:
        assert refusal(response)[0] == 400


def form(*parts, boundary="b"):
    body = b""
    for disposition, content in parts:
        body += f"--{boundary}\r\nContent-Disposition: form-data; {disposition}\r\n\r\n".encode()
        body += content + b"\r\n"
    return body + f"--{boundary}--\r\n".encode()


FILE = 'name="file"; filename="{}"'
BAD_FORMS = {
    "no form": (b"hello", "text/plain"),
    "no boundary": (form((FILE.format("x"), b"1")), "multipart/form-data"),
    "wrong boundary": (form((FILE.format("x"), b"1")), "multipart/form-data; boundary=other"),
    "empty": (b"", "multipart/form-data; boundary=b"),
    "cut off": (form((FILE.format("x"), b"1"))[:-8], "multipart/form-data; boundary=b"),
    "no file": (form(('name="pinataOptions"', b"{}")), "multipart/form-data; boundary=b"),
    "no filename": (form(('name="file"', b"1")), "multipart/form-data; boundary=b"),
    "unknown field": (form(('name="other"', b"1")), "multipart/form-data; boundary=b"),
    "broken options": (
        form((FILE.format("x"), b"1"), ('name="pinataOptions"', b"{")),
        "multipart/form-data; boundary=b",
    ),
    "two files": (
        form((FILE.format("a"), b"1"), (FILE.format("b"), b"2")),
        "multipart/form-data; boundary=b",
    ),
    "the same file twice": (
        form((FILE.format("d/a"), b"1"), (FILE.format("d/a"), b"2")),
        "multipart/form-data; boundary=b",
    ),
    "file and directory": (
        form((FILE.format("d/a"), b"1"), (FILE.format("d/a/b"), b"2")),
        "multipart/form-data; boundary=b",
    ),
    **{
        f"filename {name!r}": (form((FILE.format(name), b"1")), "multipart/form-data; boundary=b")
        for name in (
            "../x",
            "a/../x",
            "a/",
            "/",
            "//",
            "./",
            "/..",
            "//../x",
            "/a/../../x",
            "a//..//x",
            "..",
            ".",
            "a/./b",
            "x\0y",
            "a/" * 300 + "b",
        )
    },
}


@pytest.mark.parametrize(("body", "kind"), BAD_FORMS.values(), ids=BAD_FORMS)
def test_bad_forms(call, body, kind):
    before = call("GET", "/data/userPinnedDataTotal").json()
    response = call("POST", "/pinning/pinFileToIPFS", body=body, headers={"Content-Type": kind})
    status, error = refusal(response)
    assert status == 400
    assert isinstance(error, str)
    assert call("GET", "/data/userPinnedDataTotal").json() == before


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/tide.txt", "tide.txt"),
        ("//tide.txt", "tide.txt"),
        ("/var/tide.txt", "var/tide.txt"),
        ("a//var///tide.txt", "a/var/tide.txt"),
        ("/...", "..."),
        ("/etc/passwd", "etc/passwd"),
    ],
)
def test_slashes_at_the_start_and_doubled_ones_do_not_count(call, tmp_path, given, path):
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(given)
    top = tmp_path / path.partition("/")[0]
    reply = call.pin_files([(given, given.encode())]).json()
    assert (reply["IpfsHash"], reply["Name"]) == (compute_cid(top), top.name)


def test_one_file_under_two_spellings_of_its_name(call):
    reply = call.pin_files([("/d/a", b"1"), ("d//a", b"2")])
    assert refusal(reply) == (400, "The filename a occurs twice")


@pytest.mark.parametrize("slashes", ["//", "////"])
def test_slashes_at_the_start_of_an_address_count_as_one(shared_node, slashes):
    greeting = raw_exchange(
        shared_node, head_of(shared_node, f"{slashes}data/testAuthentication", "GET")
    )
    assert greeting.startswith(b"HTTP/1.1 200 ")
    proxied = head_of(shared_node, f"http://x{slashes}data/testAuthentication", "GET")
    assert raw_exchange(shared_node, proxied).startswith(b"HTTP/1.1 200 ")
    stranger = head_of(shared_node, f"{slashes}data/pinList", "GET").replace(
        b"Bearer ", b"Bearer x"
    )
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


def test_the_texts_that_clients_know(call):
    def error_of(body):
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        return refusal(call("POST", "/pinning/pinFileToIPFS", body=body, headers=headers))[1]

    assert error_of(form(('name="file"', b"1"))) == "Invalid request format."
    assert error_of(form(('name="x"', b"1"))) == "Unexpected field"
    two = form((FILE.format("a"), b"1"), (FILE.format("b"), b"2"))
    assert error_of(two) == "More than one file and/or directory was provided for pinning."


@pytest.mark.parametrize(
    "cid", ["nonsense", "..", "%2e%2e", "a/b", "x" * 3000, "%00", HELLO_CID + "x"]
)
def test_garbage_in_place_of_a_cid(call, cid):
    assert refusal(call("DELETE", f"/pinning/unpin/{cid}"))[0] in {400, 404}


def test_unknown_addresses_and_methods(call):
    assert refusal(call("GET", "/nonsense"))[0] == 404
    assert refusal(call("POST", "/data/testAuthentication"))[0] == 405


def raw_exchange(node, head, *, body=b"", wait=30.0):
    """Send bytes as they are, and read until the peer closes or some time has passed."""
    host, port = node.api_url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=wait) as connection:
        connection.sendall(head + body)
        received = b""
        try:
            while piece := connection.recv(65536):
                received += piece
                if b"\r\n\r\n" in received:
                    break
        except (TimeoutError, ConnectionError):
            pass
    return received


def head_of(node, path, method="POST", **headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {node.token}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def test_a_body_that_never_comes_ends_by_the_idle_limit():
    kind = "multipart/form-data; boundary=b"
    with running_node(idle_seconds=0.5) as node:
        head = head_of(node, "/pinning/pinJSONToIPFS", Content_Length=100)
        start = time.monotonic()
        assert raw_exchange(node, head).startswith(b"HTTP/1.1 408 ")
        assert time.monotonic() - start < 20
        head = head_of(node, "/pinning/pinFileToIPFS", Content_Length=10 << 30, Content_Type=kind)
        assert raw_exchange(node, head, body=b"--b\r\n").startswith(b"HTTP/1.1 408 ")


def test_bodies_that_are_too_large(shared_node):
    head = head_of(shared_node, "/pinning/pinJSONToIPFS", Content_Length=10 << 30)
    assert raw_exchange(shared_node, head).startswith(b"HTTP/1.1 413 ")
    head = head_of(
        shared_node,
        "/pinning/pinFileToIPFS",
        Content_Length=10 << 40,
        Content_Type="multipart/form-data; boundary=b",
    )
    assert raw_exchange(shared_node, head).startswith(b"HTTP/1.1 413 ")


def test_oversized_heads_and_garbage(shared_node):
    huge = b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 200_000 + b"\r\n\r\n"
    reply = raw_exchange(shared_node, huge)
    assert reply == b"" or reply.startswith(b"HTTP/1.1 4")
    assert raw_exchange(shared_node, b"\x16\x03\x01 nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_a_head_that_never_ends_is_given_up(shared_node, monkeypatch):
    monkeypatch.setattr("holdfast.node.http_server.http_connection.HEAD_SECONDS", 0.5)
    start = time.monotonic()
    assert raw_exchange(shared_node, b"GET / HTTP/1.1\r\nHost: x\r\n") == b""
    assert time.monotonic() - start < 15


def test_every_reply_is_safe_to_look_at(call):
    for method, path in [*CALLS, ("GET", "/nonsense"), ("GET", "/ipfs/nonsense")]:
        for token in (None, "wrong"):
            headers = call(method, path, token=token).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["content-security-policy"] == "sandbox"
            assert "server" not in headers


def test_a_client_that_hangs_up_leaves_nothing_pinned(node):
    kind = "multipart/form-data; boundary=b"
    head = head_of(node, "/pinning/pinFileToIPFS", Content_Length=10_000_000, Content_Type=kind)
    host, port = node.api_url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        start = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
        connection.sendall(head + start + bytes(5_000_000))
    time.sleep(0.3)
    assert node.repository.totals() == (0, 0)
    assert Caller(node)("GET", "/data/testAuthentication").status == 200


def test_a_bad_note_leaves_nothing_behind(node):
    call = Caller(node)
    call.pin_json(b'{"pinataContent": 1, "pinataMetadata": {"keyvalues": {"a": 1e999}}}')
    assert call("GET", "/data/pinList").json() == {"count": 0, "rows": []}


@pytest.mark.parametrize("target", [b"http://[", b"http://[::1", b"x://%ff", b"*", b"x"])
def test_odd_targets(shared_node, target):
    reply = raw_exchange(shared_node, b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert reply.startswith((b"HTTP/1.1 4", b"HTTP/1.1 404"))
    assert b"content-security-policy: sandbox" in reply.lower() or b"Invalid HTTP" in reply


def test_large_json_does_not_hold_up_others(node):
    call = Caller(node)
    large = b"[" * 200 + b",".join([b"1.5"] * 1_000_000) + b"]" * 200
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
    monkeypatch.setattr("holdfast.node.http_server.http_connection.HEAD_SECONDS", 1.5)
    data = os.urandom(8_000_000)
    cid = Caller(node).pin_files([("f", data)]).json()["IpfsHash"]
    host, port = node.api_url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        one = b"GET /ipfs/bafkqaaa HTTP/1.1\r\nHost: x\r\n\r\n"
        two = f"GET /ipfs/{cid} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
        connection.sendall(one + two)
        received = b""
        while piece := connection.recv(200_000):
            received += piece
            if len(received) < 3_000_000:
                time.sleep(0.12)
    assert received.endswith(data)


def test_notes_that_change_at_once_are_all_kept(node):
    call = Caller(node)
    cid = call.pin_json({"to": "be noted"}).json()["IpfsHash"]

    def note(number):
        body = json.dumps({"ipfsPinHash": cid, "keyvalues": {f"k{number}": number}}).encode()
        assert Caller(node)("PUT", "/pinning/hashMetadata", body=body).status == 200

    threads = [threading.Thread(target=note, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (row,) = call("GET", "/data/pinList", fields={"cid": cid}).json()["rows"]
    assert len(row["metadata"]["keyvalues"]) == 10


def test_an_empty_options_field_is_no_options(call):
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    body = form((FILE.format("x"), b"empty options"), ('name="pinataOptions"', b""))
    response = call("POST", "/pinning/pinFileToIPFS", body=body, headers=headers)
    assert response.json()["IpfsHash"] == compute_cid(b"empty options")


def test_the_reply_is_in_the_version_that_was_asked_for(node):
    call = Caller(node)
    v0 = call.pin_json({"pinataContent": [1], "pinataOptions": {"cidVersion": 0}}).json()
    parsed = CID.parse(v0["IpfsHash"])
    as_v1 = str(CID(1, parsed.codec, parsed.hash_code, parsed.digest))
    call("DELETE", f"/pinning/unpin/{as_v1}")
    call("POST", "/pinning/pinByHash", body=json.dumps({"hashToPin": as_v1}).encode())
    wait_until(lambda: node.repository.totals().pins == 1)
    again = call.pin_json({"pinataContent": [1], "pinataOptions": {"cidVersion": 0}}).json()
    assert again["IpfsHash"] == v0["IpfsHash"]
    assert again["isDuplicate"] is True


# The command


def run_node(*arguments, **environment):
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "holdfast.node", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def printed(process, count):
    return dict(process.stdout.readline().split(None, 1) for _ in range(count))


def stop(process):
    process.terminate()
    output, errors = process.communicate(timeout=120)
    return output + errors


def test_the_command_prints_its_addresses_and_a_fresh_token(tmp_path):
    process = run_node("--port", "0", "--path", str(tmp_path))
    lines = [process.stdout.readline() for _ in range(4)]
    found = {line.split("  ")[0].strip(): line.split()[-1] for line in lines}
    try:
        url = found["Pinning API"]
        assert url.startswith("http://127.0.0.1:")
        assert found["Gateway"] == f"{url}/ipfs"
        headers = {"Authorization": f"Bearer {found['Token']}"}
        response = urllib3.request(
            "GET", f"{url}/data/testAuthentication", headers=headers, timeout=60
        )
        assert response.status == 200
    finally:
        assert "Traceback" not in stop(process)


@pytest.mark.parametrize("way", ["flag", "variable", "file"])
def test_the_token_comes_in_three_ways_and_is_not_printed(tmp_path, way):
    (tmp_path / "tokens").write_text("secret-token-1\nscoped-token-2 pinList\n")
    arguments = {"flag": ["--token", "secret-token-1"], "variable": []}.get(
        way, ["--token-file", str(tmp_path / "tokens")]
    )
    environment = {"HOLDFAST_NODE_TOKEN": "secret-token-1"} if way == "variable" else {}
    process = run_node("--port", "0", "--path", str(tmp_path / "s"), *arguments, **environment)
    lines = [process.stdout.readline() for _ in range(3)]
    try:
        url = lines[0].split()[-1]
        headers = {"Authorization": "Bearer secret-token-1"}
        response = urllib3.request("GET", f"{url}/data/pinList", headers=headers, timeout=60)
        assert response.status == 200
        if way == "file":
            headers = {"Authorization": "Bearer scoped-token-2"}
            total = urllib3.request(
                "GET", f"{url}/data/userPinnedDataTotal", headers=headers, timeout=60
            )
            assert total.status == 403
    finally:
        assert "secret-token-1" not in "".join(lines) + stop(process)


def test_others_are_not_let_in_with_a_token_that_nobody_chose(tmp_path, capsys):
    assert main(["--host", "0.0.0.0", "--port", "0", "--path", str(tmp_path)]) == 2  # noqa: S104
    output, errors = capsys.readouterr()
    assert output == ""
    assert "give a token of your own" in errors
    with pytest.raises(ConfigError):
        check_host("192.168.1.2", token_given=False)
    check_host("192.168.1.2", token_given=True)
    check_host("127.0.0.1", token_given=False)


def test_a_port_that_is_taken_and_an_unknown_scope_are_one_sentence(tmp_path, shared_node, capsys):
    port = shared_node.api_url.rpartition(":")[2]
    process = run_node("--port", port, "--path", str(tmp_path))
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in errors
    (tmp_path / "tokens").write_text("token nonsense\n")
    assert main(["--port", "0", "--token-file", str(tmp_path / "tokens")]) == 2
    assert "unknown scope 'nonsense'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "99999"], "a port is a number"),
        (["--port", "-1"], "a port is a number"),
        (["--token-file", "{tmp}/binary"], "not UTF-8 text"),
        (["--token-file", "{tmp}/missing"], "No such file"),
        (["--path", "{tmp}/binary"], "binary"),
        (["--path", "{tmp}/broken"], "holds no sound repository"),
    ],
    ids=str,
)
def test_mistakes_at_the_command_line_are_one_sentence(tmp_path, arguments, words, capsys):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "holdfast.sqlite3").write_bytes(b"no database" * 100)
    try:
        code = main([argument.format(tmp=tmp_path) for argument in arguments])
    except SystemExit as end:  # by argparse
        code = end.code
    assert code == 2
    assert words in capsys.readouterr().err.splitlines()[-1]


def test_a_token_with_spaces_is_not_taken_apart(tmp_path):
    process = run_node("--port", "0", "--path", str(tmp_path), "--token", "hunter2 sec ret")
    lines = [process.stdout.readline() for _ in range(3)]
    assert "sec" not in "".join(lines) + stop(process)


def test_a_silent_gateway_does_not_hold_up_the_end(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        gateway = f"http://127.0.0.1:{silent.getsockname()[1]}/ipfs"
        process = run_node(
            "--port", "0", "--path", str(tmp_path), "--token", "t", "--gateway", gateway
        )
        url = process.stdout.readline().split()[-1]
        body = json.dumps({"hashToPin": HELLO_CID}).encode()
        headers = {"Authorization": "Bearer t"}
        urllib3.request("POST", f"{url}/pinning/pinByHash", body=body, headers=headers, timeout=60)
        time.sleep(0.5)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
        assert time.monotonic() - start < 10
        assert "Traceback" not in errors
