# WARNING: this file is generated from tests/_async/test_archives.py
# by scripts/generate_sync.py. Change the original instead.
"""Content as archives (CAR): out of any provider with a reader, and into the embedded store."""

import os
from dataclasses import replace

import pytest

from holdfast import Client, ClientConfig, LocalProvider, PinProvider
from holdfast.content.car import CarReader, write_car
from holdfast.content.cid import CID
from holdfast.errors import MalformedError, NotFoundError, UnprovenError, VerificationError
from holdfast.records import PinInfo
from tests.content import DATA, stream
from tests.gateways import ODD_LAYOUT, config_for_all, gateway, kinds

LARGE = b"".join(stream("archives", 3_000_000))
FOLDER = DATA / "subdir-with-mixed-block-files.car"


def pieces_of(*pieces):
    for piece in pieces:
        yield piece


def exported(provider, cid):
    return [piece for piece in provider.export_archive(cid)]


def read(archive):
    """The roots and the blocks of an archive."""
    reader = CarReader()
    blocks = [block for piece in archive for block in reader.update(piece)]
    reader.finish()
    return reader.roots, blocks


@pytest.fixture
def local(tmp_path):
    provider = LocalProvider(ClientConfig(path=tmp_path / "store"))
    yield provider
    provider.close()


@pytest.fixture
def other(tmp_path):
    provider = LocalProvider(ClientConfig(path=tmp_path / "other"))
    yield provider
    provider.close()


def test_an_archive_of_the_store_has_each_block_once(local):
    record = Client(local).upload(LARGE * 2)
    roots, blocks = read(exported(local, f"https://example.com/ipfs/{record.cid}"))
    assert roots == [CID.parse(record.cid)]
    expected = read(local.export_car(record.cid))[1]
    assert blocks == expected
    assert len({cid for cid, _ in blocks}) == len(blocks)


def test_what_the_store_does_not_have_is_not_found_before_anything_is_given(local):
    with pytest.raises(NotFoundError):
        exported(local, str(CID.of_raw(b"unknown")))


def test_content_inside_the_cid_has_no_blocks(local, other):
    archive = exported(local, "bafkqaaa")
    assert read(archive) == ([CID.parse("bafkqaaa")], [])
    added = other.import_archive("bafkqaaa", pieces_of(*archive), PinInfo(name="empty"))
    assert (added.cid, added.duplicate) == ("bafkqaaa", False)


def test_an_archive_of_a_pinning_service_is_one_request(node, other):
    (pin,) = node.repository.import_car([FOLDER.read_bytes()])
    events = []
    provider = PinProvider(node.config.with_options(on_event=events.append))
    try:
        archive = exported(provider, pin.cid)
    finally:
        provider.close()
    assert read(archive) == read(node.repository.export_car(CID.parse(pin.cid)))
    assert len([event for event in events if event.kind == "request"]) == 1
    added = other.import_archive(pin.cid, pieces_of(*archive), PinInfo(name="folder"))
    assert added.cid == pin.cid
    (kept,) = other.list_pins()
    assert (kept.name, kept.type, kept.size) == ("folder", "directory", pin.size)


def test_an_import_keeps_the_name_and_the_key_values(local, other):
    record = Client(local).upload(LARGE, name="a.bin")
    archive = exported(local, record.cid)
    info = PinInfo(name="b.bin", keyvalues={"a": 1}, given=True)
    added = other.import_archive(record.cid, pieces_of(*archive), info)
    assert (added.cid, added.duplicate) == (record.cid, False)
    (pin,) = other.list_pins()
    assert (pin.name, pin.keyvalues, pin.cid) == ("b.bin", {"a": 1}, record.cid)
    assert (Client(other).download(record.cid)).read() == LARGE
    again = PinInfo(name="c.bin", keyvalues={"b": 2}, given=True)
    added = other.import_archive(record.cid, pieces_of(*archive), again)
    assert added.duplicate is True
    (pin,) = other.list_pins()
    assert (pin.name, pin.keyvalues) == ("c.bin", {"a": 1, "b": 2})


def refused(provider, cid, *pieces):
    """Import pieces that must not be pinned, and leave nothing in the store."""
    with pytest.raises(VerificationError) as caught:
        provider.import_archive(str(cid), pieces_of(*pieces), PinInfo())
    assert provider.list_pins() == []
    assert provider.repository.collect_garbage().blocks == 0
    return caught.value


def test_an_archive_with_another_root_is_refused(local, other):
    record = Client(local).upload(LARGE)
    archive = exported(local, record.cid)
    error = refused(other, CID.of_raw(b"x"), *archive)
    assert isinstance(error, MalformedError)
    assert str(error) == (f"CAR: the root must be {CID.of_raw(b'x')}, not {record.cid}")


def test_an_archive_without_some_block_is_refused(local, other):
    record = Client(local).upload(LARGE)
    (root,), blocks = read(exported(local, record.cid))
    error = refused(other, root, *write_car([root], blocks[:-1]))
    assert isinstance(error, UnprovenError)
    assert str(error) == f"block {blocks[-1][0]} is missing"


def test_an_archive_that_breaks_off_is_refused(local, other):
    record = Client(local).upload(LARGE)
    archive = b"".join(exported(local, record.cid))
    refused(other, record.cid, archive[:-10])


def test_a_wrong_block_is_refused(local, other):
    record = Client(local).upload(LARGE)
    archive = bytearray(b"".join(exported(local, record.cid)))
    archive[-1] ^= 1
    refused(other, record.cid, bytes(archive))


def test_blocks_that_change_in_the_store_are_not_exported(local):
    data = os.urandom(300_000)
    record = Client(local).upload(data)
    (file,) = (
        path
        for path in local.repository.path.rglob("*")
        if path.is_file() and path.stat().st_size == 300_000
    )
    file.chmod(0o600)
    file.write_bytes(data[:-1] + b"?")
    with pytest.raises(VerificationError):
        exported(local, record.cid)


# Gateways that do not give the whole archive


def through(server, node, pin):
    """The archive from a gateway, and the kinds of requests that it took."""
    provider = PinProvider(config_for_all(server))
    try:
        archive = exported(provider, pin.cid)
    finally:
        provider.close()
    assert read(archive) == read(node.repository.export_car(CID.parse(pin.cid)))
    return kinds(server)


def test_a_gateway_without_archives_gives_blocks(node):
    (pin,) = node.repository.import_car([FOLDER.read_bytes()])
    with gateway(node, refuse=("car",)) as server:
        asked = through(server, node, pin)
    assert asked[0] == "car"
    assert set(asked[1:]) == {"raw"}
    blocks = read(node.repository.export_car(CID.parse(pin.cid)))[1]
    assert len(asked) == 1 + len(blocks)


@pytest.mark.parametrize("broken", ["cut", "wrong"])
def test_what_an_archive_lacks_is_fetched_as_blocks(node, broken):
    pin, _ = node.repository.add(LARGE, ODD_LAYOUT)

    def change(kind, _request, reply):
        if kind != "car":
            return reply
        body = bytearray(reply.body)
        if broken == "cut":
            del body[len(body) // 2 :]
        else:
            body[len(body) // 2] ^= 1
        return replace(reply, body=bytes(body))

    with gateway(node, change) as server:
        asked = through(server, node, pin)
    assert asked[0] == "car"
    assert 5 < len(asked) <= (25 if broken == "cut" else 41)  # of 39 blocks
    assert set(asked[1:]) == {"raw"}


def test_a_gateway_that_sends_wrong_blocks_is_found_out(node):
    pin, _ = node.repository.add(LARGE, ODD_LAYOUT)

    def change(_kind, _request, reply):
        return replace(reply, body=reply.body[:-1] + b"?")

    with gateway(node, change) as server:
        provider = PinProvider(config_for_all(server))
        try:
            with pytest.raises(VerificationError):
                exported(provider, pin.cid)
        finally:
            provider.close()
