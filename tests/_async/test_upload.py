import io
import mmap
import os
import threading
import time
from pathlib import Path

import pytest

from holdfast import AsyncClient, Blob, compute_cid
from holdfast.errors import NetworkError, ProviderError
from holdfast.sources.sources import open_source
from tests._async.parallel import in_parallel
from tests.faulty import changing_file, file_changes
from tests.support import (
    EMPTY_DIRECTORY_V0,
    HELLO_CID,
    TOKEN,
    config_for,
    form_parts,
    pinned,
    raw_cid,
)
from tests.wrapping import PREFIX, PrefixedSource, unwrapped

AGAIN = {"attempts": 4, "base": 0.01, "cap": 0.05}
# A dag-pb CID may stand for anything, cut in some way of the service's own.
SOME_TREE = EMPTY_DIRECTORY_V0


def file_part(request):
    ((headers, content),) = [part for part in form_parts(request) if 'name="file"' in part[0]]
    return headers, content


async def test_upload_posts_a_form_with_the_file_under_the_key_file(server, client):
    server.reply(200, pinned(SOME_TREE))
    await client.upload(b"hello")
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/pinning/pinFileToIPFS")
    assert request.headers["content-type"].startswith("multipart/form-data; boundary=")
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["content-length"] == str(len(request.body))
    assert "transfer-encoding" not in request.headers
    headers, content = file_part(request)
    assert content == b"hello"
    assert 'Content-Disposition: form-data; name="file"; filename="client-file"' in headers


async def test_upload_sends_the_options_field_and_no_metadata(server, client):
    server.reply(200, pinned(SOME_TREE))
    await client.upload(b"hello", {"label": "my label"})
    (options, _file) = form_parts(server.requests[0])
    assert options == (
        'Content-Disposition: form-data; name="pinataOptions"',
        b'{"cidVersion":1}',
    )
    assert b"my label" not in server.requests[0].raw
    assert b"etadata" not in server.requests[0].raw


async def test_upload_returns_a_record_without_data_and_with_the_size_in_bytes(server, client):
    server.reply(200, pinned(SOME_TREE))
    before = time.time_ns() // 1_000_000
    record = await client.upload("ü".encode() * 3)
    after = time.time_ns() // 1_000_000
    assert record.cid == SOME_TREE
    assert record.data is None
    assert record.size == 6
    assert before <= record.timestamp <= after


QUOTED = 'my "quoted" ünïcode.txt'


@pytest.fixture
def file(tmp_path):
    """A file with ten bytes, at its fifth."""
    path = tmp_path / "b.bin"
    path.write_bytes(b"0123456789")
    (tmp_path / QUOTED).write_bytes(b"content")
    with path.open("rb") as file:
        file.seek(4)
        yield file


SENT = {
    "a path": (lambda file: Path(file.name).with_name(QUOTED), b"content", QUOTED),
    "a path as text": (lambda file: file.name, b"0123456789", "b.bin"),
    "an open file, from where it stands": (lambda file: file, b"456789", "b.bin"),
    "a memory map": (
        lambda file: mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ),
        b"0123456789",
        "client-file",
    ),
    "a file in memory": (lambda _: io.BytesIO(b"abc"), b"abc", "client-file"),
    "a bytearray": (lambda _: bytearray(b"abc"), b"abc", "client-file"),
    "a memoryview": (lambda _: memoryview(b"abc"), b"abc", "client-file"),
    "nothing": (lambda _: b"", b"", "client-file"),
    "a blob": (lambda _: Blob(b"x"), b"x", "client-file"),
    "a blob with a name": (lambda _: Blob(b"x", name="named.txt"), b"x", "named.txt"),
}


@pytest.mark.parametrize("case", SENT)
async def test_what_can_be_uploaded_and_its_name(server, client, file, case):
    make, content, name = SENT[case]
    server.reply(200, pinned(SOME_TREE))
    seen = []
    record = await client.upload(make(file), progress=lambda *call: seen.append(call))
    headers, body = file_part(server.requests[0])
    assert (record.size, body) == (len(content), content)
    assert f'filename="{name.replace(chr(34), "%22")}"' in headers
    assert seen[-1] == (len(content), len(content))
    assert not file.closed


async def test_a_name_of_the_caller_wins_and_cannot_add_headers(server, client):
    server.reply(200, pinned(SOME_TREE))
    await client.upload(Blob(b"x", name="a", type="text/plain"), name="b\r\nX-Evil: 1")
    headers, _ = file_part(server.requests[0])
    assert 'filename="b%0D%0AX-Evil: 1"' in headers
    assert "Content-Type: text/plain" in headers


async def test_a_stream_of_unknown_length_is_sent_in_chunks(server, client):
    reading, writing = os.pipe()
    writer = threading.Thread(target=lambda: (os.write(writing, b"piped"), os.close(writing)))
    writer.start()
    server.reply(200, pinned(SOME_TREE))
    with os.fdopen(reading, "rb") as pipe:
        record = await client.upload(pipe)
    writer.join()
    assert record.size == 5
    assert server.requests[0].headers["transfer-encoding"] == "chunked"
    headers, content = file_part(server.requests[0])
    assert content == b"piped"
    assert 'filename="client-file"' in headers


@pytest.mark.parametrize("name", ["a/b", "/a", "", "a/", "..", ".", "a\0b"])
async def test_a_name_that_is_no_file_name_is_a_value_error(server, client, name):
    with pytest.raises(ValueError, match="name must be a file name"):
        await client.upload(b"x", name=name)
    if name:  # a blob may have none
        with pytest.raises(ValueError, match="name must be a file name"):
            await client.upload(Blob(b"x", name=name))
    assert server.requests == []


def closed_file():
    file = io.BytesIO(b"x")
    file.close()
    return file


REFUSED = {
    **{repr(value): (value, TypeError, "cannot read") for value in (5, None, ["a"], {"a": 1}, 1.5)},
    "an object": (object(), TypeError, "cannot read"),
    "text": (io.StringIO("text"), TypeError, "'rb'"),
    "a closed file": (closed_file(), ValueError, "closed"),
    "a missing file": (Path("missing"), FileNotFoundError, "missing"),
}


@pytest.mark.parametrize(("value", "kind", "words"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_be_uploaded(server, client, value, kind, words):
    with pytest.raises(kind, match=words):
        await client.upload(value)
    assert server.requests == []


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
async def test_an_unreadable_file_is_the_error_of_open(server, client, tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(b"x")
    path.chmod(0)
    if os.geteuid() == 0:
        # Nothing in a plain file system is unreadable to root, but this is.
        path = Path("/proc/self/mem/x")
    with pytest.raises(OSError):  # noqa: PT011 - which one depends on who runs the test
        await client.upload(path)
    assert server.requests == []


@file_changes
async def test_a_file_that_changes_while_it_is_sent_is_an_error(
    server, client, tmp_path, change, words
):
    path, progress = changing_file(tmp_path, change)
    server.reply(200, pinned(SOME_TREE))
    with pytest.raises(OSError, match=words) as caught:
        await client.upload(path, progress=progress)
    assert not isinstance(caught.value, ConnectionError)
    assert "moving" in str(caught.value)
    # The form never got its tail, so no server can take it for a whole upload.
    assert server.requests == []


async def test_a_success_before_the_whole_upload_is_no_success(server):
    server.reply(200, pinned(SOME_TREE), early=True)
    async with await AsyncClient.init(
        config_for(server, timeouts={"write": 5, "read": 5})
    ) as client:
        with pytest.raises(NetworkError, match="before the end of the upload"):
            await client.upload(b"x" * 30_000_000)


@pytest.mark.parametrize("provider", ["pinning", "pinata"])
async def test_a_small_file_is_sent_at_once_and_its_progress_is_told(node, provider):
    seen = []
    async with AsyncClient.init(node.config.with_options(provider=provider)) as client:
        await client.upload(b"hello", progress=lambda *call: seen.append(call))
    assert seen == [(5, 5)]


async def test_progress_must_be_a_function(server, client):
    with pytest.raises(TypeError, match="progress must be a function, not str"):
        await client.upload(b"x", progress="yes")
    with pytest.raises(TypeError, match="progress must be a function, not int"):
        await client.download(HELLO_CID, progress=5)
    assert server.requests == []


async def test_a_pipe_that_does_not_block_is_not_taken_for_its_end(server, client):
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.write(writing, b"hello")
    with os.fdopen(reading, "rb", buffering=0) as pipe, pytest.raises(BlockingIOError):
        await client.upload(pipe)
    os.close(writing)
    assert server.requests == []


async def test_all_chunks_of_an_upload_are_read_on_one_thread(server, client):
    readers = set()

    class Recorder(io.BytesIO):
        def read(self, size=-1):
            if size:  # with 0, the client only looks whether it gives bytes
                readers.add(threading.current_thread())
            return super().read(size)

    content = bytes(5 << 20)
    server.reply(200, pinned(compute_cid(content)))  # else it is read again, to find its layout
    await client.upload(Recorder(content))
    assert file_part(server.requests[0])[1] == content
    assert len(readers) == 1


# Sources that are wrapped


async def test_every_attempt_sends_the_same_bytes_of_a_wrapped_source(server, tmp_path):
    (tmp_path / "file").write_bytes(b"hello" * 100_000)
    server.reply(503)
    server.reply(hang_up=True)
    server.reply(503)
    server.reply(200, pinned(SOME_TREE))
    async with await AsyncClient.init(config_for(server, retries=AGAIN)) as client:
        record = await client.upload(PrefixedSource(open_source(tmp_path / "file")))
    assert record.size == PREFIX + 500_000
    bodies = [file_part(request)[1] for request in server.requests]
    assert len(bodies) == 4
    assert len(set(bodies)) == 1
    assert unwrapped(bodies[0]) == b"hello" * 100_000


async def test_an_iterable_that_goes_on_in_the_middle_is_sent_once(server):
    """As a streamed HTTP reply does: it is no iterator, and yet cannot be had again."""

    class Reply:
        def __init__(self):
            self._left = [b"a" * 600_000] * 4

        def __iter__(self):
            while self._left:
                yield self._left.pop()

    server.reply(503)
    async with await AsyncClient.init(config_for(server, retries=AGAIN)) as client:
        with pytest.raises(ProviderError):
            await client.upload(Reply())
    assert len(server.requests) == 1


async def test_a_slow_file_is_read_by_one_reader_at_a_time(server):
    """An early reply leaves a reader behind, who must not move the file under the next one."""

    class Slow(io.BytesIO):
        def read(self, size=-1):
            time.sleep(0.02)
            return super().read(min(size, 100_000))

    data = os.urandom(1_500_000)
    server.reply(503, early=True, delay=0.05)
    server.reply(200, pinned(raw_cid(data)))
    async with await AsyncClient.init(config_for(server, retries=AGAIN)) as client:
        record = await client.upload(Slow(data))
    assert record.size == len(data)
    assert data in server.requests[-1].body


@pytest.mark.slow
async def test_an_upload_may_read_from_an_open_file_of_the_same_client(node):
    """More of them than there is room for calls: none may wait for itself."""
    async with await AsyncClient.init(node.config) as client:
        cid = (await client.upload(Blob(b"hello"))).cid

        async def copy():
            file = await client.open(cid)
            return (await client.upload(Blob(await file.read()))).cid

        assert set(await in_parallel([copy] * 120)) == {cid}
