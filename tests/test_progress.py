"""What `compute_cid` and `verify` tell of their way."""

import io
import os

import pytest

from holdfast import Blob, compute_cid, verify


@pytest.mark.parametrize("profile", ["unixfs-v1-2025", "unixfs-v0-2015"])
@pytest.mark.parametrize("size", [1, 10, 3_000_000])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, Blob, io.BytesIO, "path"])
def test_every_byte_is_told_of(tmp_path, kind, size, profile):
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)
    calls = []

    def source():
        return tmp_path / "file" if kind == "path" else kind(data)

    def note(done, total):
        calls.append((done, total))

    total = None if kind is io.BytesIO else size  # of a stream, nobody asks how long it is
    cid = compute_cid(source(), profile=profile, progress=note)
    assert cid == compute_cid(data, profile=profile)
    assert calls == sorted(calls)
    assert calls[-1] == (size, total)
    calls.clear()
    assert verify(source(), cid, progress=note)
    assert calls[-1] == (size, total)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="Linux has it")  # noqa: PTH110
def test_a_file_that_says_it_is_empty_has_no_total():
    calls = []
    compute_cid("/proc/self/status", progress=lambda *told: calls.append(told))
    assert calls[-1][0] > 0
    assert {total for _, total in calls} == {None}
