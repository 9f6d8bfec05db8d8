"""A finish that makes the content of a large file while the file is still being downloaded."""

import io
import os
import threading

import pytest

from holdfast.content.reference import Reference
from holdfast.sinks.sinks import BESIDE_SIZE, Finish, TargetSink
from tests.masks import FINISH, masked
from tests.support import wait_until

CID = "bafkreifjjcie6lypi6ny7amxnfftagclbuxndqonfipmb64f2km2devei4"
CONTENT = os.urandom(BESIDE_SIZE + 2_500_000)
HALF = BESIDE_SIZE + 100_000


@pytest.fixture
def sink(tmp_path):
    sink = TargetSink(tmp_path / "copy", cache=tmp_path / "cache", reference=Reference.parse(CID))
    sink.add_finish(FINISH)
    sink.open()
    yield sink
    sink.discard()


def write(sink, data):
    sink.write(data)
    sink.verified = sink.size


def complete(sink):
    list(sink.finish())
    sink.final.commit()


def finishing():
    return [thread for thread in threading.enumerate() if "_finish_beside" in thread.name]


def test_the_content_is_made_before_the_download_ends(sink, tmp_path):
    data = masked(CONTENT)
    write(sink, data[:HALF])
    wait_until(lambda: sink.final is not None and sink.final.size >= BESIDE_SIZE // 2)
    assert not (tmp_path / "copy").exists()
    write(sink, data[HALF:])
    complete(sink)
    assert (tmp_path / "copy").read_bytes() == CONTENT
    wait_until(lambda: not finishing())


def test_a_small_file_needs_no_thread(sink, tmp_path):
    write(sink, masked(CONTENT[: BESIDE_SIZE // 2]))
    assert finishing() == []
    complete(sink)
    assert (tmp_path / "copy").read_bytes() == CONTENT[: BESIDE_SIZE // 2]


@pytest.mark.parametrize("size", [0, 500_000, BESIDE_SIZE])
def test_what_is_made_of_removed_bytes_is_removed_too(sink, tmp_path, size):
    """A reader that begins again may bring other bytes, such as those of another mask."""
    earlier, data = masked(CONTENT), masked(CONTENT[::-1])
    data = earlier[:size] + data[size:]
    write(sink, earlier[:HALF])
    wait_until(lambda: sink.final is not None and sink.final.size > 0)
    sink.truncate(size)
    assert sink.final is None
    wait_until(lambda: not finishing())
    write(sink, data[size:])
    complete(sink)
    # The mask begins with the file: what was masked with another one is not readable.
    expected = CONTENT[::-1] if size == 0 else b"".join(FINISH.make(io.BytesIO(data)))
    assert (tmp_path / "copy").read_bytes() == expected


@pytest.mark.parametrize("verified", [True, False])
def test_unverified_bytes_are_never_used(sink, verified):
    """They are removed again; nothing has seen them."""
    data = masked(CONTENT)
    seen = []

    def make(file):
        for piece in FINISH.make(file):
            seen.append(len(piece))
            yield piece

    sink.finishes = (Finish(make, FINISH.size),)
    write(sink, data[:HALF])
    if verified:
        write(sink, data[HALF:])
    else:
        sink.write(os.urandom(len(data) - HALF))
        wait_until(lambda: sum(seen) >= BESIDE_SIZE // 2)
        assert sum(seen) <= HALF
        sink.truncate(HALF)
        write(sink, data[HALF:])
    complete(sink)
    assert sum(seen) == len(CONTENT)


def test_a_discarded_download_ends_the_thread(sink, tmp_path):
    write(sink, masked(CONTENT)[:HALF])
    assert len(finishing()) == 1
    sink.discard()
    wait_until(lambda: not finishing())
    assert not (tmp_path / "copy").exists()


def test_an_error_is_raised_when_all_is_downloaded(sink, tmp_path):
    def fail(file):
        file.read(1 << 20)
        raise ValueError("not decrypted")

    sink.finishes = (Finish(fail, FINISH.size),)
    data = masked(CONTENT)
    write(sink, data[:HALF])
    wait_until(lambda: not finishing())
    write(sink, data[HALF:])
    with pytest.raises(ValueError, match="not decrypted"):
        complete(sink)
    sink.discard()
    assert not (tmp_path / "copy").exists()
    assert [path.stat().st_size for path in (tmp_path / "cache").rglob("*.part")] == [len(data)]
