# WARNING: this file is generated from tests/_async/test_disks_and_streams.py
# by scripts/generate_sync.py. Change the original instead.
"""Disks, files and streams of this machine that fail while content goes up or comes down."""

import errno
import hashlib
import io
import os
import threading
import time

import pytest

from holdfast import Client, compute_cid
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.errors import NetworkError, ProviderError
from holdfast.testing import Scripted, ScriptedServer
from tests.content import Blocks
from tests.disks import disk
from tests.faulty import (
    assert_shows_no_token,
    gateway_of,
    patient_config,
)
from tests.support import EMPTY_DIRECTORY_V0, HELLO_CID, form_parts, pinned, wait_until

# A dag-pb CID may stand for anything, cut in some way of the service's own.
SOME_TREE = EMPTY_DIRECTORY_V0
DATA = hashlib.shake_128(b"local").digest(3_000_000)
LARGE = hashlib.shake_128(b"large").digest(12_000_000)
LARGE_ROOT, LARGE_BLOCKS = Blocks.of_file(LARGE, UNIXFS_V1_2025)


def sent_file(request):
    """The bytes of the file in a form."""
    (content,) = [content for head, content in form_parts(request) if 'name="file"' in head]
    return content


@pytest.fixture
def large_gateway():
    """A gateway that has `LARGE`."""
    with ScriptedServer(gateway_of(LARGE_BLOCKS, lambda _: Scripted(body=LARGE))) as server:
        yield server


# Disk full


@pytest.mark.parametrize("full", ["cache", "target"])
def test_a_full_disk_ends_a_download_and_leaves_nothing_at_the_target(
    large_gateway, small_disk, tmp_path, full
):
    roomy = tmp_path / "roomy"
    roomy.mkdir()
    cache, folder = (small_disk, roomy) if full == "cache" else (roomy, small_disk)
    (folder / "file").write_bytes(b"before")
    start = time.monotonic()
    with Client.init(patient_config(large_gateway, cache_path=cache)) as client:
        with pytest.raises(OSError, match=r"are needed, and .* are free") as caught:
            client.download(str(LARGE_ROOT), to=folder / "file")
        assert caught.value.errno == errno.ENOSPC
        assert not isinstance(caught.value, NetworkError)
        assert time.monotonic() - start < 10
        # The plain body and the root's block, once: no gateway can help here.
        assert len(large_gateway.requests) == 2
        assert (folder / "file").read_bytes() == b"before"
        assert [path.name for path in folder.iterdir() if path.is_file()] == ["file"]
        if full == "cache":
            assert "set cache_path to a folder on a larger disk" in str(caught.value)
        assert_shows_no_token(caught.value)
        # The client goes on.
        blob = client.download(str(LARGE_ROOT))
        assert hashlib.sha256(blob.read()).digest() == hashlib.sha256(LARGE).digest()


def test_a_full_disk_ends_a_download_without_a_target_and_leaves_nothing(
    large_gateway, small_disk, monkeypatch
):
    (small_disk / "other").write_bytes(b"odd")  # so that the disk is full in the midst of a write
    monkeypatch.setattr("tempfile.tempdir", str(small_disk))
    with Client.init(patient_config(large_gateway)) as client:
        with pytest.raises(OSError, match=r"are needed, and .* are free") as caught:
            client.download(str(LARGE_ROOT))
    assert caught.value.errno == errno.ENOSPC
    assert len(large_gateway.requests) == 2
    assert [path.name for path in small_disk.iterdir()] == ["other"]


# Permission


def test_a_folder_that_may_not_be_written_is_an_error_before_the_request(server, tmp_path):
    # Modes would not stop root, but this does.
    with disk(tmp_path / "sealed", "ro,size=1m") as folder:
        with Client.init(patient_config(server, cache_path=tmp_path)) as client:
            with pytest.raises(PermissionError) as caught:
                client.download(HELLO_CID, to=folder / "file")
        assert caught.value.filename == str(folder)
        assert server.requests == []
        assert list(folder.iterdir()) == []


# A file that does not keep still, and a client that would try again


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: os.truncate(path, 2_000_000), "ended after 2000000 of 3000000 bytes"),
        (lambda path: path.write_bytes(DATA * 2), "grew beyond the 3000000 bytes"),
        (lambda path: path.write_bytes(DATA[::-1]), "was written to"),
    ],
    ids=["shrinks", "grows", "changes"],
)
def test_a_file_that_changes_between_two_attempts_is_not_stored_in_its_new_form(
    server, tmp_path, change, words
):
    path = tmp_path / "moving"
    path.write_bytes(DATA)

    def on_event(event):
        if event.kind == "retry":
            change(path)

    server.reply(503)
    server.reply(200, pinned(SOME_TREE))
    with Client.init(patient_config(server, on_event=on_event)) as client:
        with pytest.raises(OSError, match=f"moving {words}"):
            client.upload(path)
    assert [sent_file(request) for request in server.requests] == [DATA]


# Streams


class Stream(io.RawIOBase):
    """Gives `data` in pieces of at most `most` bytes, and cannot go back."""

    def __init__(self, data, most, failure=None):
        self._rest = io.BytesIO(data)
        self._most = most
        self._failure = failure

    def readable(self):
        return True

    def read(self, size=-1):
        piece = self._rest.read(min(size, self._most))
        if size and not piece and self._failure is not None:
            raise self._failure
        return piece


FAULTS = {
    "503": {"status": 503, "headers": {"Retry-After": "0"}},
    "reset": {"hang_up": True, "ending": "reset"},
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_stream_that_can_go_back_is_sent_again_from_where_it_stood(server, fault):
    file = io.BytesIO(b"read before" + DATA)
    file.seek(11)
    for _ in range(3):
        server.reply(**fault)
    server.reply(200, pinned(SOME_TREE))
    with Client.init(patient_config(server)) as client:
        record = client.upload(file)
    assert record.size == len(DATA)
    assert [sent_file(request) for request in server.requests] == [DATA] * 4


@pytest.mark.parametrize(
    "failure",
    [OSError(errno.EIO, "the disk is broken"), ConnectionResetError("elsewhere"), KeyError("x")],
    ids=["I/O error", "somebody else's connection", "no OSError"],
)
def test_a_stream_that_raises_midway_is_not_sent_again(server, failure):
    server.reply(200, pinned(SOME_TREE))
    with Client.init(patient_config(server)) as client:
        with pytest.raises(type(failure)) as caught:
            client.upload(Stream(DATA, 1 << 20, failure))
        assert caught.value is failure
        assert_shows_no_token(caught.value)
        # One connection, no whole request, and a client that works.
        wait_until(lambda: server.connections)
        assert (server.connections, server.requests) == (1, [])
        server.reply(200, pinned(SOME_TREE))
        client.upload(b"hello")


@pytest.mark.parametrize("most", [1, 7, 4096, 300_001])
def test_short_reads_are_not_the_end(server, most):
    data = DATA[: most * 1000]
    server.reply(200, pinned(compute_cid(data)))
    with Client.init(patient_config(server)) as client:
        record = client.upload(Stream(data, most))
    assert record.size == len(data)
    assert sent_file(server.requests[0]) == data


@pytest.mark.parametrize("fault", [None, *FAULTS.values()], ids=["no fault", *FAULTS])
def test_a_named_pipe_is_read_once(server, tmp_path, fault):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(DATA))
    writer.start()
    if fault:
        server.reply(**fault)
    server.reply(200, pinned(SOME_TREE))
    with Client.init(patient_config(server)) as client:
        if fault:
            with pytest.raises((ProviderError, NetworkError)):
                client.upload(path)
        else:
            assert (client.upload(path)).size == len(DATA)
    writer.join()
    # Opened a second time it would wait for a writer for ever.
    assert [sent_file(request) for request in server.requests] == [DATA]


# Descriptors


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")  # noqa: PTH112
def test_many_uploads_and_downloads_leave_no_descriptor_open(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"hello")

    def answer(request):
        return Scripted(body=b"hello" if request.method == "GET" else pinned())

    with ScriptedServer(answer) as server:
        config = patient_config(server, cache_path=tmp_path / "cache")
        with Client.init(config) as client:
            client.upload(path)
            client.download(HELLO_CID, to=tmp_path / "copy")
            before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
            for number in range(80):
                if number % 4 == 3:
                    server.reply(503)  # sent again; what was opened is closed all the same
                if number % 10 == 9:
                    server.reply(400, {"error": "no"})
                    with pytest.raises(ProviderError):
                        client.upload(path)
                else:
                    client.upload(path)
                client.download(HELLO_CID, to=tmp_path / "copy")
            # Those of a server's thread that is just ending may still be there.
            assert len(os.listdir("/proc/self/fd")) < before + 5  # noqa: PTH208
