# WARNING: this file is generated from tests/_async/test_local.py
# by scripts/generate_sync.py. Change the original instead.
"""The embedded provider, through the client."""

import json
import os

import pytest

from holdfast import Client, ClientConfig, LocalProvider, compute_cid
from holdfast.errors import (
    NotFoundError,
    VerificationError,
)
from tests.content import VECTORS, json_text, stream

PROFILE_OF = {0: "unixfs-v0-2015", 1: "unixfs-v1-2025"}


@pytest.fixture
def local(tmp_path):
    with Client.init(path=tmp_path / "store") as client:
        yield client


def test_local_is_the_default_and_needs_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with Client.init() as client:
        assert isinstance(client.provider, LocalProvider)
        record = client.store({"hello": "world"})
        assert record.cid == compute_cid(b'{"hello":"world"}')
        assert client.retrieve(record.cid) == {"hello": "world"}
    assert (tmp_path / "holdfast").is_dir()


def test_all_operations(local, tmp_path):
    assert local.test_connection() is True
    data = os.urandom(3_000_000)
    calls = []
    record = local.upload(data, name="a.bin", progress=lambda *call: calls.append(call))
    assert record.cid == compute_cid(data)
    assert record.size == len(data)
    assert calls[-1] == (len(data), len(data))
    calls.clear()
    blob = local.download(record.cid, progress=lambda *call: calls.append(call))
    assert blob.read() == data
    assert calls[-1] == (len(data), len(data))
    blob = local.download(record.cid, to=tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == data
    assert blob.name == "copy"
    note = local.send("alice", "hi")
    assert local.receive(note.cid) == note.data
    assert local.url(note.cid) == f"ipfs://{note.cid}"
    assert local.revoke(record.cid) is True
    with pytest.raises(NotFoundError) as caught:
        local.revoke(record.cid)
    assert str(caught.value) == f"The current user has not pinned the cid: {record.cid}"
    # Unpinned is not erased: the blocks are here until they are collected.
    assert (local.download(record.cid)).read() == data
    local.provider.repository.collect_garbage()
    with pytest.raises(NotFoundError, match="not in this store"):
        local.download(record.cid)


@pytest.mark.parametrize("version", [0, 1])
def test_cids_equal_the_vectors(tmp_path, version):
    profile = PROFILE_OF[version]
    with Client.init(path=tmp_path, cid_version=version) as client:
        for vector in VECTORS["json"]:
            if vector["name"] in {"json-5", "json-7", "json-9"}:
                continue  # texts that Python writes in another way: see below
            record = client.store(json.loads(json_text(vector)))
            assert record.cid == vector["cids"][profile]
        for vector in VECTORS["json"]:
            record = client.upload(json_text(vector))
            assert record.cid == vector["cids"][profile]
        for vector in VECTORS["files"]:
            if vector["size"] <= 5_000_000 and not vector["name"].startswith("zeros"):
                data = b"".join(stream(vector["seed"], vector["size"]))
                record = client.upload(data)
                assert record.cid == vector["cids"][profile]
                assert (client.download(record.cid)).read() == data


def test_a_profile_decides_the_cid(tmp_path):
    data = os.urandom(400_000)
    config = ClientConfig(path=tmp_path, profile="kubo-legacy-cidv1")
    with Client.init(config) as client:
        record = client.upload(data)
    assert record.cid == compute_cid(data, profile="kubo-legacy-cidv1")
    assert record.cid != compute_cid(data)


def test_damage_on_disk_is_caught(local, tmp_path):
    data = os.urandom(3_000_000)
    record = local.upload(data)
    files = [path for path in (tmp_path / "store" / "blocks").rglob("*") if path.is_file()]
    victim = max(files, key=lambda path: path.stat().st_size)
    broken = bytearray(victim.read_bytes())
    broken[1000] ^= 1
    victim.write_bytes(broken)
    with pytest.raises(VerificationError):
        local.download(record.cid, to=tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    (damage,) = local.provider.repository.check()
    assert "damaged" in damage.what


def test_a_file_that_shrinks_is_not_pinned(local, tmp_path):
    path = tmp_path / "moving"
    path.write_bytes(b"a" * 5_000_000)

    def progress(done, total):
        os.truncate(path, 100)

    with pytest.raises(OSError, match="moving"):
        local.upload(path, progress=progress)
    assert local.provider.list_pins() == []


def test_a_name_that_is_no_text_is_kept_as_far_as_it_is(local):
    record = local.upload(b"1", name="odd\udcff.bin")
    assert [pin.name for pin in local.pins()] == ["odd?.bin"]
    assert [pin.cid for pin in local.pins(name="d\udcff")] == [record.cid]
