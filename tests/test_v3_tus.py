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
from tests.node_process import NodeProcess
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


def test_the_node_says_what_it_can_do(call):
    response = call("OPTIONS", "/v3/files", token="")
    assert response.status == 204
    assert response.headers["Tus-Version"] == "1.0.0"
    assert response.headers["Tus-Extension"] == "creation,expiration,termination"
    assert int(response.headers["Tus-Max-Size"]) == 25_000_000_000


@pytest.mark.parametrize("step", [50_000, LEAF - 1, LEAF, LEAF + 1, len(CONTENT)])
def test_an_upload_in_steps_of_any_size(call, content, step):
    cid = compute_cid(content, profile=LEGACY)
    created = call.create(len(content), filename="Möwe.bin", keyvalues='{"a":"1"}')
    assert created.status == 201
    location = created.headers["Location"]
    assert location.startswith(f"{call.node.api_url}/v3/files/")
    for at in range(0, len(content), step):
        assert call.offset(location) == at
        piece = content[at : at + step]
        reply = call.patch(location, at, piece)
        assert reply.status == 204, reply.data
        assert int(reply.headers["Upload-Offset"]) == at + len(piece)
        assert reply.headers["Tus-Resumable"] == "1.0.0"
    assert reply.headers["upload-cid"] == cid
    file_id = location.split("/")[-2]
    file = call.data("GET", f"/v3/files/public/{file_id}")
    assert (file["name"], file["cid"], file["keyvalues"]) == (
        "Möwe.bin",
        cid,
        {"a": "1"},
    )
    assert call("GET", f"/ipfs/{cid}", token="").data == content
    head = call("HEAD", location)
    assert head.headers["Upload-Offset"] == head.headers["Upload-Length"] == str(len(content))
    assert head.headers["upload-cid"] == cid
    assert head.headers["Cache-Control"] == "no-store"
    assert "Möwe.bin" not in head.headers["Upload-Metadata"]  # it is in base64


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["unixfs-v1-2025", LEGACY, "unixfs-v0-2015"])
def test_layouts_and_a_restart_in_the_middle(tmp_path, profile):
    version = "v0" if profile == "unixfs-v0-2015" else "v1"
    content = random_bytes((2 << 20) + 5, seed=1)
    layout = LEGACY if version == "v0" else profile
    with running_node(tmp_path, v3_profile=layout) as node:
        call = V3Caller(node)
        path = f"/v3/files?X-Upload-Option-Cid-Version={version}"
        location = call.create(len(content), path=path).headers["Location"]
        assert call.patch(location, 0, content[: 1 << 20]).status == 204
    with running_node(tmp_path, v3_profile=layout) as node:
        call = V3Caller(node)
        address = urlsplit(location).path
        assert call.offset(address) == 1 << 20
        # The node has opened the upload again, so this removes none of its blocks.
        node.repository.collect_garbage()
        done = call.patch(address, 1 << 20, content[1 << 20 :])
        assert done.headers["upload-cid"] == compute_cid(content, profile=profile)


def test_an_empty_file_is_complete_at_once(call):
    created = call.create(0)
    assert (created.status, created.headers["upload-cid"]) == (201, compute_cid(b""))


def test_what_the_protocol_refuses(call):
    location = call.create(10).headers["Location"]
    assert error_of(call.patch(location, 5, b"x"))[0] == 409
    assert call.patch(location, 5, b"x").headers["Upload-Offset"] == "0"
    wrong_type = call("PATCH", location, body=b"x", headers={"Upload-Offset": "0"})
    assert error_of(wrong_type)[0] == 415
    assert error_of(call.patch(location, 0, b"x" * 11))[0] == 413
    old = call.patch(location, 0, b"x", **{"Tus-Resumable": "0.2.2"})
    assert (error_of(old)[0], old.headers["Tus-Version"]) == (412, "1.0.0")
    assert error_of(call.patch(location, "nine", b"x"))[0] == 400
    assert call.offset(location) == 0
    assert error_of(call.create(25_000_000_001))[0] == 413
    assert error_of(call.create("many"))[0] == 400
    bad = {"Upload-Length": "1", "Upload-Metadata": "filename ?"}
    assert error_of(call("POST", "/v3/files", headers=bad))[0] == 400
    twice = {"Upload-Length": "1", "Upload-Metadata": "network cHJpdmF0ZQ==,network cHVibGlj"}
    assert error_of(call("POST", "/v3/files", headers=twice))[0] == 400
    deferred = {"Tus-Resumable": "1.0.0", "Upload-Defer-Length": "1"}
    assert error_of(call("POST", "/v3/files", headers=deferred))[0] == 400
    assert error_of(call("GET", location))[0] == 405
    unknown = location[:-1] + ("0" if location[-1] != "0" else "1")
    assert call("HEAD", unknown).status == 404
    assert call("HEAD", "/v3/files/../../etc").status in {404, 405}


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
    location = call.create(len(content), network="private").headers["Location"]
    assert call.patch(location, 0, content[: 2 * LEAF]).status == 204
    leaf = CID.of_raw(content[:LEAF])
    assert call("GET", f"/ipfs/{leaf}?format=raw", token="").status == 404
    done = call.patch(location, 2 * LEAF, content[2 * LEAF :])
    assert done.headers["upload-cid"] == compute_cid(content, profile=LEGACY)
    assert call("GET", f"/ipfs/{compute_cid(content, profile=LEGACY)}", token="").status == 404
    assert call("GET", call.link(compute_cid(content, profile=LEGACY)), token="").data == content


def test_content_that_is_known_becomes_the_first_file(call, content):
    first = call.stored(content, "first.bin")
    location = call.create(len(content), filename="second.bin").headers["Location"]
    assert call.patch(location, 0, content).headers["upload-cid"] == first["cid"]
    by_upload = call.data("GET", f"/v3/files/public/{location.split('/')[-2]}")
    assert (by_upload["id"], by_upload["name"]) == (first["id"], "first.bin")


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


def begin_patch(call, location, offset, size):
    """Send the head of a PATCH on a connection of its own, and return the connection."""
    parts = urlsplit(location)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    connection.putrequest("PATCH", parts.path)
    for name, value in (
        ("Authorization", f"Bearer {call.node.token}"),
        ("Content-Type", "application/offset+octet-stream"),
        ("Upload-Offset", offset),
        ("Content-Length", size),
    ):
        connection.putheader(name, str(value))
    connection.endheaders()
    return connection


def test_what_arrived_before_a_break_counts(call, content):
    location = call.create(len(content)).headers["Location"]
    connection = begin_patch(call, location, 0, len(content))
    connection.send(content[: LEAF + 5000])
    time.sleep(1)  # the node reads it: a HEAD that comes earlier would end this request
    connection.close()
    wait_until(lambda: call.offset(location) == LEAF + 5000)
    done = call.patch(location, LEAF + 5000, content[LEAF + 5000 :])
    assert done.headers["upload-cid"] == compute_cid(content, profile=LEGACY)


def test_a_client_that_comes_back_ends_its_old_request(call, content):
    location = call.create(len(content)).headers["Location"]
    connection = begin_patch(call, location, 0, len(content))
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


def test_a_lost_reply_is_found_by_asking(call, content):
    location = call.create(len(content)).headers["Location"]
    call.node.lose_next(method="PATCH")
    with pytest.raises(urllib3.exceptions.ProtocolError):
        call.patch(location, 0, content[:LEAF])
    again = call.patch(location, 0, content[:LEAF])
    assert (error_of(again)[0], again.headers["Upload-Offset"]) == (409, str(LEAF))
    assert call.offset(location) == LEAF


def test_the_last_reply_lost_leaves_the_file_and_its_cid(call, content):
    location = call.create(len(content)).headers["Location"]
    call.node.lose_next(method="PATCH")
    with pytest.raises(urllib3.exceptions.ProtocolError):
        call.patch(location, 0, content)
    head = call("HEAD", location)
    assert head.headers["upload-cid"] == compute_cid(content, profile=LEGACY)
    assert error_of(call.patch(location, 0, content))[0] == 409
    assert len(call.files(cid=compute_cid(content, profile=LEGACY))) == 1


def test_faults_that_a_test_can_ask_for(call):
    node = call.node
    foreign = "http://127.0.0.1:9/v3/files/x/y"
    node.change_next(method="POST", headers={"Location": foreign})
    assert call.create(3).headers["Location"] == foreign
    location = call.create(3).headers["Location"]
    node.fail_next(status=410, method="HEAD")
    assert call("HEAD", location).status == 410
    node.change_next(method="PATCH", headers={"upload-cid": compute_cid(b"other")})
    assert call.patch(location, 0, b"abc").headers["upload-cid"] == compute_cid(b"other")
    true_cid = compute_cid(b"abc").encode()
    node.change_next(method="GET", change=lambda body: body.replace(true_cid, b"pending"))
    assert [file["cid"] for file in call.files(cid=compute_cid(b"abc"))] == ["pending"]
    assert [file["cid"] for file in call.files(cid=compute_cid(b"abc"))] == [compute_cid(b"abc")]
    assert node.faults_left == 0


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


@pytest.mark.slow
def test_an_upload_whose_blocks_were_removed_is_gone(tmp_path):
    with running_node(tmp_path) as node:
        location = V3Caller(node).create(len(CONTENT)).headers["Location"]
        V3Caller(node).patch(location, 0, CONTENT[: 2 * LEAF])
    with Repository(tmp_path) as repository:
        assert repository.collect_garbage().blocks == 2
    with running_node(tmp_path) as node:
        call = V3Caller(node)
        assert call("HEAD", urlsplit(location).path).status in {404, 410}
        assert call("HEAD", urlsplit(location).path).status == 404


def test_old_uploads_are_swept(fresh, monkeypatch):
    location = fresh.create(len(CONTENT)).headers["Location"]
    fresh.patch(location, 0, CONTENT[:LEAF])
    (folder,) = (fresh.node.repository.path / "uploads").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in folder.iterdir():
        os.utime(path, (0, 0))
    monkeypatch.setattr(tus, "MAX_UPLOADS", 1)
    assert fresh.create(1).status == 201
    assert not folder.exists()
    assert fresh("HEAD", location).status == 404


def test_an_upload_that_another_node_is_making_is_not_swept(fresh, monkeypatch):
    fresh.create(1)
    folder = fresh.node.repository.path / "uploads" / "0a7f4c1e-0000-4000-8000-000000000000"
    folder.mkdir()
    monkeypatch.setattr(tus, "MAX_UPLOADS", 1)
    assert fresh.create(1).status == 503  # after it has looked for old uploads
    assert folder.exists()
    os.utime(folder, (0, 0))
    fresh.create(1)
    assert not folder.exists()


@pytest.mark.parametrize("days", [-2, 2])
def test_a_clock_that_is_set_sweeps_no_upload(fresh, monkeypatch, days):
    real = time.time
    location = fresh.create(len(CONTENT)).headers["Location"]
    fresh.patch(location, 0, CONTENT[:LEAF])
    monkeypatch.setattr(time, "time", lambda: real() + days * 24 * 3600)
    monkeypatch.setattr(tus, "MAX_UPLOADS", 1)
    assert fresh.create(1).status == 503  # after it has looked for old uploads
    assert fresh.offset(location) == LEAF


def test_the_number_of_unfinished_uploads_is_limited(fresh, monkeypatch):
    monkeypatch.setattr(tus, "MAX_UPLOADS", 2)
    first = fresh.create(1).headers["Location"]
    assert fresh.create(1).status == 201
    refused = fresh.create(1)
    assert (error_of(refused)[0], refused.headers["Retry-After"]) == (503, "60")
    assert fresh.patch(first, 0, b"x").status == 204
    assert fresh.create(1).status == 201


def flip(data):
    """Change one bit in the middle."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


DAMAGES = {
    "empty": lambda _: b"",
    "one byte": lambda _: b"{",
    "cut": lambda data: data[: len(data) // 2],
    "longer": lambda data: data + b"}",
    "zeros": lambda data: bytes(len(data)),
    "not UTF-8": lambda data: b"\xff" * len(data),
    "null": lambda _: b"null",
    "list": lambda _: b"[]",
    "number": lambda _: b"5",
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


def test_an_upload_of_known_content_with_a_damaged_note_starts_again(call):
    first = call.stored(b"there before", network="private")
    location = call.create(12, network="private").headers["Location"]
    call.patch(location, 0, b"there before")
    folder = call.node.repository.path / "uploads" / urlsplit(location).path.split("/")[-2]
    (folder / "done.json").write_bytes(b"")
    assert call.offset(location) == 0
    assert call("GET", f"/v3/files/private/{folder.name}").status == 404
    assert call.patch(location, 0, b"there before").headers["upload-cid"] == first["cid"]
    assert call.data("GET", f"/v3/files/private/{folder.name}")["id"] == first["id"]


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
        done = call.patch(path, LEAF + 5, CONTENT[LEAF + 5 :])
        assert done.headers["upload-cid"] == compute_cid(CONTENT, profile=LEGACY)


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


class Killed:
    """One upload to nodes that are killed, each at another moment, until it is complete."""

    def __init__(self, folder, content):
        self.folder = folder
        self.content = content
        self.location = None
        self.acknowledged = 0
        self.cid = None

    def run_once(self, seconds):
        """Go on with a new node, which is killed after `seconds`; tell whether it was."""
        process = NodeProcess(self.folder)
        killer = threading.Timer(seconds, process.process.send_signal, [signal.SIGKILL])
        killer.start()
        try:
            self._go_on(V3Caller(process))
        except urllib3.exceptions.HTTPError:
            return True
        finally:
            killer.cancel()
            process.close()
        return False

    def _go_on(self, call, piece=700_001):
        if self.location is None:
            created = call.create(len(self.content))
            self.location = urlsplit(created.headers["Location"]).path
        head = call("HEAD", self.location)
        assert head.status == 200
        offset = int(head.headers["Upload-Offset"])
        # Nothing that was acknowledged is lost, and at most one piece is sent twice.
        assert self.acknowledged <= offset <= self.acknowledged + piece
        self.acknowledged = offset
        self.cid = head.headers.get("upload-cid")
        while self.cid is None:
            reply = call.patch(self.location, offset, self.content[offset : offset + piece])
            assert reply.status == 204, reply.data
            offset = self.acknowledged = int(reply.headers["Upload-Offset"])
            self.cid = reply.headers.get("upload-cid")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_thirty_kills_lose_nothing_that_was_acknowledged(tmp_path):
    kills, uploads = 0, []
    longest = 0.2  # seconds: some kills come early, some late, whatever the speed of the machine
    while kills < 30:
        upload = Killed(tmp_path, random_bytes(12 << 20, seed=len(uploads)))
        uploads.append(upload)
        while upload.cid is None:
            was_killed = upload.run_once(longest * (1 + kills % 10) / 10)
            longest *= 1.1 if was_killed else 0.5
            kills += was_killed
    with Repository(tmp_path) as repository:
        assert list(repository.check()) == []
        for upload in uploads:
            assert upload.cid == compute_cid(upload.content, profile=LEGACY)
            assert b"".join(repository.read(CID.parse(upload.cid))) == upload.content
