"""Uploads to the node by tus: what the protocol says, what interrupts them, and what is swept."""

import http.client
import os
import signal
import threading
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
import urllib3

from holdfast import compute_cid
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.disk.folders import Folder
from holdfast.node import tus
from holdfast.repository import Repository
from holdfast.testing import running_node
from tests.node_process import node_process
from tests.support import wait_until
from tests.tus import LEGACY, random_bytes
from tests.v3_caller import V3Caller, error_of

LEAF = 262_144


CONTENT = random_bytes(3 * LEAF + 1000)


@pytest.fixture
def call(node):
    return V3Caller(node)


@pytest.fixture
def content(request):
    """Content that no other test has, because the tests share a node."""
    return random_bytes(len(CONTENT), seed=request.node.name)


@pytest.fixture
def fresh(empty_node):
    return V3Caller(empty_node)


# The protocol


@pytest.mark.parametrize("step", [50_000, LEAF - 1, LEAF, LEAF + 1, len(CONTENT)])
def test_an_upload_in_steps_of_any_size(call, content, step):
    cid = compute_cid(content, profile=LEGACY)
    created = call.create(len(content), filename="Möwe.bin", keyvalues='{"a":"1"}')
    assert created.status == 201
    location = created.headers["Location"]
    assert location.startswith(f"{call.node.api_url}/v3/files/")
    for at in range(0, len(content), step):
        assert call.offset(location) == at
        reply = call.patch(location, at, content[at : at + step])
        assert (reply.status, reply.headers["Tus-Resumable"]) == (204, "1.0.0")
        assert reply.headers["Upload-Offset"] == str(min(at + step, len(content)))
    assert reply.headers["upload-cid"] == cid
    file = call.data("GET", f"/v3/files/public/{location.split('/')[-2]}")
    assert (file["name"], file["cid"], file["keyvalues"]) == ("Möwe.bin", cid, {"a": "1"})
    assert call("GET", f"/ipfs/{cid}", token="").data == content
    head = call("HEAD", location)
    assert head.headers["Upload-Offset"] == head.headers["Upload-Length"] == str(len(content))
    assert (head.headers["upload-cid"], head.headers["Cache-Control"]) == (cid, "no-store")
    assert "Möwe.bin" not in head.headers["Upload-Metadata"]  # it is in base64
    empty = call.create(0)
    assert (empty.status, empty.headers["upload-cid"]) == (201, compute_cid(b""))


def test_what_the_protocol_refuses(call):
    location = call.create(10).headers["Location"]
    refused = call.patch(location, 5, b"x")
    assert (error_of(refused)[0], refused.headers["Upload-Offset"]) == (409, "0")
    old = call.patch(location, 0, b"x", **{"Tus-Resumable": "0.2.2"})
    assert (error_of(old)[0], old.headers["Tus-Version"]) == (412, "1.0.0")
    for reply, status in (
        (call("PATCH", location, body=b"x", headers={"Upload-Offset": "0"}), 415),
        (call.patch(location, 0, b"x" * 11), 413),
        (call.patch(location, "nine", b"x"), 400),
        (call("GET", location), 405),
        (call.create(25_000_000_001), 413),
        (call.create("many"), 400),
    ):
        assert error_of(reply)[0] == status
    for headers in (
        {"Upload-Length": "1", "Upload-Metadata": "filename ?"},
        {"Upload-Length": "1", "Upload-Metadata": "network cHJpdmF0ZQ==,network cHVibGlj"},
        {"Tus-Resumable": "1.0.0", "Upload-Defer-Length": "1"},
    ):
        assert error_of(call("POST", "/v3/files", headers=headers))[0] == 400
    assert call.offset(location) == 0
    unknown = location[:-1] + ("0" if location[-1] != "0" else "1")
    assert call("HEAD", unknown).status == 404
    assert call("HEAD", "/v3/files/../../etc").status in {404, 405}
    options = call("OPTIONS", "/v3/files", token="")
    assert (options.status, options.headers["Tus-Version"]) == (204, "1.0.0")
    assert options.headers["Tus-Extension"] == "creation,expiration,termination"
    assert options.headers["Tus-Max-Size"] == "25000000000"


def test_an_upload_needs_the_token_that_a_signed_one_does_not(call):
    location = call.create(4).headers["Location"]
    assert error_of(call.patch(location, 0, b"four", token="wrong"))[0] == 401
    body = {"date": int(time.time()), "expires": 60, "network": "public"}
    address = call.data("POST", "/v3/files/sign", json=body)
    location = call.create(4, path=address, token="undefined").headers["Location"]
    done = call.patch(location, 0, b"four", token="undefined")
    assert done.headers["upload-cid"] == compute_cid(b"four")
    assert done.headers["Access-Control-Expose-Headers"].startswith("Location")


def test_methods_can_be_overridden_and_uploads_deleted(call):
    location = call.create(3).headers["Location"]
    headers = {
        "X-HTTP-Method-Override": "PATCH",
        "Content-Type": "application/offset+octet-stream",
        "Upload-Offset": "0",
    }
    assert call("POST", location, headers=headers, body=b"ab").headers["Upload-Offset"] == "2"
    assert call("DELETE", location).status == 204
    assert call("HEAD", location).status == 404


def test_a_private_upload_is_never_in_the_public_store(call, content):
    cid = compute_cid(content, profile=LEGACY)
    location = call.create(len(content), network="private").headers["Location"]
    assert call.patch(location, 0, content[: 2 * LEAF]).status == 204
    leaf = CID.of_raw(content[:LEAF])
    assert call("GET", f"/ipfs/{leaf}?format=raw", token="").status == 404
    assert call.patch(location, 2 * LEAF, content[2 * LEAF :]).headers["upload-cid"] == cid
    assert call("GET", f"/ipfs/{cid}", token="").status == 404
    assert call("GET", call.link(cid), token="").data == content


def test_an_archive_comes_by_tus_too(call, content, tmp_path):
    with Repository(tmp_path) as repository:
        pin, _ = repository.add(content, UNIXFS_V1_2025)
        car = b"".join(repository.export_car(CID.parse(pin.cid)))
    location = call.create(len(car), car="true").headers["Location"]
    assert call.patch(location, 0, car[:LEAF]).status == 204
    assert call.patch(location, LEAF, car[LEAF:]).headers["upload-cid"] == pin.cid
    broken = call.create(10, car="true").headers["Location"]
    assert error_of(call.patch(broken, 0, b"no archive"))[0] == 400
    assert call("HEAD", broken).status == 404


# Interruptions


def begin_patch(call, location, size):
    """Send the head of a PATCH on a connection of its own, and return the connection."""
    parts = urlsplit(location)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    headers = {
        "Authorization": f"Bearer {call.node.token}",
        "Content-Type": "application/offset+octet-stream",
        "Upload-Offset": "0",
        "Content-Length": str(size),
    }
    connection.request("PATCH", parts.path, headers=headers)
    return connection


def test_what_arrived_before_a_break_counts(call, content):
    location = call.create(len(content)).headers["Location"]
    connection = begin_patch(call, location, len(content))
    connection.send(content[: LEAF + 5000])
    time.sleep(1)  # the node reads it: a HEAD that comes earlier would end this request
    connection.close()
    wait_until(lambda: call.offset(location) == LEAF + 5000)
    done = call.patch(location, LEAF + 5000, content[LEAF + 5000 :])
    assert done.headers["upload-cid"] == compute_cid(content, profile=LEGACY)


def test_a_client_that_comes_back_ends_its_old_request(call, content):
    location = call.create(len(content)).headers["Location"]
    connection = begin_patch(call, location, len(content))
    connection.send(content[:LEAF])
    time.sleep(0.2)  # and now it stands still
    refused = call.patch(location, 0, content)
    assert error_of(refused)[0] in {409, 423}
    offset = call.offset(location)
    assert offset <= LEAF
    with pytest.raises((OSError, http.client.HTTPException)):
        connection.getresponse()
    done = call.patch(location, offset, content[offset:])
    assert done.headers["upload-cid"] == compute_cid(content, profile=LEGACY)


@pytest.mark.parametrize("size", [LEAF, len(CONTENT)])
def test_a_lost_reply_is_found_by_asking(call, content, size):
    location = call.create(len(content)).headers["Location"]
    call.node.lose_next(method="PATCH")
    with pytest.raises(urllib3.exceptions.ProtocolError):
        call.patch(location, 0, content[:size])
    again = call.patch(location, 0, content[:size])
    assert (error_of(again)[0], again.headers["Upload-Offset"]) == (409, str(size))
    cid = compute_cid(content, profile=LEGACY) if size == len(content) else None
    assert call("HEAD", location).headers.get("upload-cid") == cid
    assert len(call.files(cid=cid or "none")) == (cid is not None)


# On disk


def test_garbage_collection_leaves_unfinished_uploads_and_takes_deleted_ones(fresh):
    location = fresh.create(len(CONTENT)).headers["Location"]
    fresh.patch(location, 0, CONTENT[: 2 * LEAF])
    assert fresh.node.repository.collect_garbage().blocks == 0
    assert fresh("DELETE", location).status == 204
    leaf = CID.of_raw(CONTENT[:LEAF])
    assert not fresh.node.repository.has(leaf)
    uploads = fresh.node.repository.path / "uploads"
    assert list(uploads.iterdir()) == []


def test_the_number_of_unfinished_uploads_is_limited_and_old_ones_are_swept(fresh, monkeypatch):
    monkeypatch.setattr(tus, "MAX_UPLOADS", 2)
    first, second = (fresh.create(len(CONTENT)).headers["Location"] for _ in range(2))
    fresh.patch(first, 0, CONTENT[:LEAF])
    uploads = fresh.node.repository.path / "uploads"
    folder = uploads / first.split("/")[-2]
    assert folder.stat().st_mode & 0o777 == 0o700
    # Another node makes an upload.
    other = uploads / "0a7f4c1e-0000-4000-8000-000000000000"
    other.mkdir()
    refused = fresh.create(1)
    assert (error_of(refused)[0], refused.headers["Retry-After"]) == (503, "60")
    assert folder.exists()
    assert other.exists()
    for path in (other, *folder.iterdir()):
        os.utime(path, (0, 0))
    assert fresh.create(1).status == 201
    assert not folder.exists()
    assert not other.exists()
    assert fresh("HEAD", first).status == 404
    assert fresh.patch(second, 0, CONTENT).status == 204  # a complete upload makes room
    assert fresh.create(1).status == 201


@pytest.mark.parametrize("days", [-2, 2])
def test_a_clock_that_is_set_sweeps_no_upload(fresh, monkeypatch, days):
    real = time.time
    location = fresh.create(len(CONTENT)).headers["Location"]
    fresh.patch(location, 0, CONTENT[:LEAF])
    monkeypatch.setattr(time, "time", lambda: real() + days * 24 * 3600)
    monkeypatch.setattr(tus, "MAX_UPLOADS", 1)
    assert fresh.create(1).status == 503  # after it has looked for old uploads
    assert fresh.offset(location) == LEAF


def flip(data):
    """Change one bit in the middle."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


DAMAGES = {
    "empty": lambda _: b"",
    "cut": lambda data: data[: len(data) // 2],
    "longer": lambda data: data + b"}",
    "not UTF-8": lambda data: b"\xff" * len(data),
    "null": lambda _: b"null",
    "list": lambda _: b"[]",
    "deep": lambda _: b"[" * 500_000,
    "other fields": lambda _: b'{"cid": 5, "id": [], "options": 1}',
    "no CID": lambda _: b'{"cid": "x", "id": "y"}',
    "other values": lambda _: b'{"value": {"cid": 5, "id": [], "options": {}}, "sha256": 5}',
    "flipped": flip,
}


@contextmanager
def damaged(path, damage):
    """Damage a file, and restore it at the end."""
    before = path.read_bytes()
    path.write_bytes(damage(before))
    try:
        yield
    finally:
        path.write_bytes(before)


@pytest.fixture(scope="module")
def complete(node):
    """A complete upload: its address and its folder."""
    call = V3Caller(node)
    location = call.create(5, network="private").headers["Location"]
    cid = call.patch(location, 0, b"whole").headers["upload-cid"]
    folder = node.repository.path / "uploads" / urlsplit(location).path.split("/")[-2]
    return location, cid, folder


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_note_of_completion_loses_no_file(call, complete, damage):
    location, cid, folder = complete
    with damaged(folder / "done.json", DAMAGES[damage]):
        reply = call("HEAD", location)
        assert (reply.status, reply.headers["Upload-Offset"], reply.headers["upload-cid"]) == (
            *(200, "5"),
            cid,
        )
        assert call.data("GET", f"/v3/files/private/{folder.name}")["cid"] == cid


def test_content_that_is_known_becomes_the_first_file(call):
    """Also after its note of completion was damaged: then the upload starts again."""
    content = b"there before"
    first = call.stored(content, "first.bin", network="private")
    location = call.create(12, network="private", filename="second.bin").headers["Location"]
    folder = call.node.repository.path / "uploads" / urlsplit(location).path.split("/")[-2]
    address = f"/v3/files/private/{folder.name}"
    for _ in range(2):
        assert call.patch(location, 0, content).headers["upload-cid"] == first["cid"]
        file = call.data("GET", address)
        assert (file["id"], file["name"]) == (first["id"], "first.bin")
        (folder / "done.json").write_bytes(b"")
        assert call.offset(location) == 0
        assert call("GET", address).status == 404


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_upload_whose_state_is_damaged_is_not_there(call, complete, damage):
    location, cid, folder = complete
    with damaged(folder / "state.json", DAMAGES[damage]):
        assert call("HEAD", location).status == 404
        assert call.patch(location, 5, b"").status == 404
    assert call("HEAD", location).headers["upload-cid"] == cid


def test_an_upload_whose_progress_is_damaged_starts_again(tmp_path):
    """Between two runs of a node, which reads these files when it starts."""
    content = CONTENT[: LEAF + 5]
    starting, gone = [], []
    with running_node(tmp_path) as node:
        call = V3Caller(node)
        paths = [
            urlsplit(call.create(len(content) + 1).headers["Location"]).path
            for _ in range(2 * len(DAMAGES))
        ]
        assert {call.patch(path, 0, content).status for path in paths} == {204}
    for path, damage in zip(paths, [*DAMAGES.items()] * 2, strict=True):
        name = "leaves" if len(starting) + len(gone) >= len(DAMAGES) else "progress"
        file = tmp_path / "uploads" / path.split("/")[-2] / name
        data = damage[1](file.read_bytes())
        file.write_bytes(data)
        # A digest that is not one of our blocks cannot be told from a block that was removed.
        has_digest = name == "leaves" and len(data) >= 32
        (gone if has_digest else starting).append((path, name, damage[0]))
    with running_node(tmp_path) as node:
        call = V3Caller(node)
        for path, *case in starting:
            assert call.offset(path) == 0, case
            done = call.patch(path, 0, content + b"!")
            assert done.headers["upload-cid"] == compute_cid(content + b"!", profile=LEGACY)
        for path, *case in gone:
            reply = call("HEAD", path)
            is_whole = case == ["leaves", "longer"]  # only the leaves that count are read
            assert reply.status == 200 if is_whole else reply.status in {404, 410}, case


def test_an_upload_goes_on_in_its_own_layout(tmp_path):
    with running_node(tmp_path) as node:
        call = V3Caller(node)
        path = urlsplit(call.create(len(CONTENT)).headers["Location"]).path
        call.patch(path, 0, CONTENT[: LEAF + 5])
    with running_node(tmp_path, v3_profile=UNIXFS_V1_2025.name) as node:
        call = V3Caller(node)
        assert call.offset(path) == LEAF + 5
        # The node has opened the upload again, so this removes none of its blocks.
        assert node.repository.collect_garbage().blocks == 0
        done = call.patch(path, LEAF + 5, CONTENT[LEAF + 5 :])
        assert done.headers["upload-cid"] == compute_cid(CONTENT, profile=LEGACY)
        assert call.stored(CONTENT)["cid"] == compute_cid(CONTENT)


def test_a_kill_after_the_pin_loses_no_group_and_no_expiry(tmp_path):
    """The note that the upload is complete is what a kill just then would leave out."""
    with running_node(tmp_path) as node:
        call = V3Caller(node)
        group = call.data("POST", "/v3/groups/public", json={"name": "tides"})["id"]
        fields = {"group_id": group, "expires_at": str(int(time.time()) + 3600)}
        path = urlsplit(call.create(5, **fields).headers["Location"]).path
        folder = tmp_path / "uploads" / path.split("/")[-2]
        call.patch(path, 0, b"ti")
        call.patch(path, 2, b"des")
        file = call.data("GET", f"/v3/files/public/{folder.name}")
        assert (file["group_id"], str(file["expires_at"])) == tuple(fields.values())
    (folder / "done.json").unlink()
    tus.write_sealed(Folder(folder), tus.PROGRESS, bytes(tus.COUNT_SIZE) + b"tides")
    with running_node(tmp_path) as node:
        call = V3Caller(node)
        assert call("HEAD", path).headers["upload-cid"] == file["cid"]
        assert call.data("GET", f"/v3/files/public/{folder.name}") == file


def test_an_upload_of_another_version_is_not_there_and_stops_nothing(tmp_path):
    with running_node(tmp_path) as node:
        call = V3Caller(node)
        paths = [urlsplit(call.create(5).headers["Location"]).path for _ in range(2)]
    folder = Folder(tmp_path, "uploads", paths[0].split("/")[-2])
    tus.write_object(folder, tus.STATE, {**tus.read_object(folder, tus.STATE), "later": 1})
    with running_node(tmp_path) as node:
        call = V3Caller(node)
        assert [call("HEAD", path).status for path in paths] == [404, 200]


@pytest.mark.slow
def test_two_nodes_do_not_share_an_upload(tmp_path):
    with running_node(tmp_path) as one, running_node(tmp_path) as other:
        location = V3Caller(one).create(10).headers["Location"]
        call = V3Caller(other)
        path = urlsplit(location).path
        assert call("HEAD", path).status == 423
        assert call("HEAD", path[:-1] + "x").status == 404, "an upload is not opened for a guess"


# Kills


def finish(process, content, path, acknowledged, piece=700_001):
    """Go on with an upload; yield what each reply acknowledges, and at the end its CID."""
    call = V3Caller(process)
    head = call("HEAD", path)
    assert head.status == 200
    offset, cid = int(head.headers["Upload-Offset"]), head.headers.get("upload-cid")
    # Nothing that was acknowledged is lost, and at most one piece is sent twice.
    assert acknowledged <= offset <= acknowledged + piece
    while cid is None:
        yield offset
        reply = call.patch(path, offset, content[offset : offset + piece])
        assert reply.status == 204, reply.data
        offset, cid = int(reply.headers["Upload-Offset"]), reply.headers.get("upload-cid")
    yield cid


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_thirty_kills_lose_nothing_that_was_acknowledged(tmp_path):
    kills, contents = 0, {}
    seconds = 0.2  # some kills come early, some late, whatever the speed of the machine
    while kills < 30:
        content = random_bytes(12 << 20, seed=len(contents))
        with node_process(tmp_path) as process:
            location = V3Caller(process).create(len(content)).headers["Location"]
        state = 0
        while isinstance(state, int):
            with node_process(tmp_path) as process:
                delay = seconds * (1 + kills % 10) / 10
                killer = threading.Timer(delay, process.process.send_signal, [signal.SIGKILL])
                killer.start()
                try:
                    for reached in finish(process, content, urlsplit(location).path, state):
                        state = reached
                    seconds *= 0.5
                except urllib3.exceptions.HTTPError:
                    kills += 1
                    seconds *= 1.1
                killer.cancel()
        contents[state] = content
    with Repository(tmp_path) as repository:
        assert list(repository.check()) == []
        for cid, content in contents.items():
            assert cid == compute_cid(content, profile=LEGACY)
            assert b"".join(repository.read(CID.parse(cid))) == content
