# WARNING: this file is generated from tests/_async/test_car_provider.py
# by scripts/generate_sync.py. Change the original instead.
"""The provider "car": an archive that is read without a store."""

import io
import os
import sys
from contextlib import suppress

import pytest

from holdfast import Client, car, compute_cid
from holdfast.content import dag_cbor
from holdfast.content.car import write_car
from holdfast.content.cid import DAG_CBOR
from holdfast.errors import (
    ClientClosedError,
    ConfigError,
    MalformedError,
    NotAFileError,
    NotFoundError,
    UnsupportedError,
    VerificationError,
)
from holdfast.records import PinFilter
from tests._sync.parallel import in_parallel
from tests.content import stream
from tests.dags import Dag, in_version_2

LARGE = b"".join(stream("car", 3_000_000))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "folder/sub").mkdir(parents=True)
    (tmp_path / "folder/large").write_bytes(LARGE)
    (tmp_path / "folder/sub/doc.json").write_text('{"a": [1, 2]}')
    return tmp_path / "folder"


@pytest.fixture
def archive(folder, tmp_path):
    car.pack(folder, tmp_path / "x.car")
    return tmp_path / "x.car"


@pytest.fixture
def reader(archive):
    with Client.init(provider="car", path=archive) as client:
        yield client


def client_of(path, *parts):
    """A client of an archive of these bytes."""
    path.write_bytes(b"".join(parts))
    return Client.init(provider="car", path=path)


def test_everything_that_reads_works_over_an_archive(reader, folder, tmp_path):
    root = compute_cid(folder)
    reader.test_connection()
    entries = [(entry.name, entry.kind, entry.size) for entry in reader.entries(root, details=True)]
    assert entries == [("large", "file", len(LARGE)), ("sub", "directory", None)]
    assert (reader.stat(f"{root}/large")).size == len(LARGE)
    assert reader.retrieve(f"{root}/sub/doc.json") == {"a": [1, 2]}
    assert (reader.download(f"{root}/large", to=tmp_path / "large")).size == len(LARGE)
    with reader.open(f"{root}/large") as file:
        file.seek(1_500_000)
        assert file.read(10) == LARGE[1_500_000:1_500_010]
    reader.download_folder(root, tmp_path / "copy")
    assert (tmp_path / "copy/large").read_bytes() == LARGE
    assert compute_cid(tmp_path / "copy") == root
    assert reader.url(root) == f"ipfs://{root}"


def test_the_roots_are_listed_and_copied_as_pins(reader, folder, target):
    root = compute_cid(folder)
    pins = reader.pins()
    assert [(pin.cid, pin.name, pin.size, pin.created) for pin in pins] == [(root, "", None, None)]
    assert reader.pins(cid=root) == pins
    for other in ({"name": "x"}, {"cid": "bafkqaaa"}, {"keyvalues": {"a": 1}}, {"since": 1}):
        assert reader.pins(**other) == []
    outcomes = [outcome.result() for outcome in reader.copy_pins(to=target)]
    assert [outcome.cid for outcome in outcomes] == [root]
    assert target.retrieve(f"{root}/sub/doc.json") == {"a": [1, 2]}
    assert (reader.copy(f"{compute_cid(LARGE)}", to=target)).cid == compute_cid(LARGE)


@pytest.mark.parametrize(
    "wrap", [lambda data: data, lambda data: in_version_2(data, padding=9, index=b"i" * 50)]
)
def test_archives_of_both_versions_with_any_roots_are_read_by_any_cid(tmp_path, wrap):
    dag = Dag()
    one, two = dag.raw(b"one"), dag.leaf(b"two")
    value = {"links": [one, dag.directory(file=two)], "n": 5}
    top = dag.put(DAG_CBOR, dag_cbor.encode(value))
    data = wrap(b"".join(write_car([top, one, one, two], [*dag.blocks.items()] * 2)))
    with client_of(tmp_path / "x.car", data) as client:
        assert [pin.cid for pin in client.pins()] == [str(top), str(one), str(two)]
        assert [pin.cid for pin in client.pins(limit=1)] == [str(top)]
        assert client.retrieve(f"{top}/n") == 5
        assert (client.download(f"{top}/links/1/file")).read() == b"two"
        assert (client.download(str(one))).read() == b"one"
        assert (client.download("bafkqaaa")).read() == b""
        with pytest.raises(NotFoundError, match=r"^block bafkrei\w+ is not in .*x\.car$"):
            client.download(compute_cid(b"other"))


def test_everything_that_writes_is_refused_with_the_providers_that_can(reader, target):
    provider = reader.provider
    cid = "bafkqaaa"
    for call in (
        lambda: reader.store(1),
        lambda: reader.upload(b"x"),
        lambda: reader.pin(cid),
        lambda: reader.revoke(cid),
        lambda: reader.update(cid, name="x"),
        lambda: target.copy(cid, to=reader),
    ):
        with pytest.raises(UnsupportedError, match=r"CarProvider only reads; .* local, .*kubo"):
            call()
    assert not any(map(provider.supports, ("put_json", "add_directory", "import_archive", "pin")))
    assert provider.supports("export_archive")
    assert [pin for pin in provider.find_pins(PinFilter(until=1))] == []


def hostile(name):
    dag = Dag()
    leaves = [(dag.raw(b"%d" % number * 1000), 1000) for number in range(3)]
    root = dag.inner(*leaves)
    blocks = dict(dag.blocks)
    if name == "a wrong block":
        blocks[leaves[1][0]] = b"x" * 1000
    if name == "a missing block":
        del blocks[leaves[1][0]]
    data = b"".join(write_car([root], [(root, blocks.pop(root)), *blocks.items()]))
    return str(root), data[:-500] if name == "cut off" else data


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("a wrong block", VerificationError, "does not match its CID"),
        ("a missing block", NotFoundError, r"^block \w+ is not in .*x\.car"),
        ("cut off", MalformedError, r"x\.car cannot be read after byte \d+: it is cut off"),
    ],
)
def test_a_damaged_archive_is_an_error_of_what_needs_that_part(tmp_path, name, error, words):
    root, data = hostile(name)
    with client_of(tmp_path / "x.car", data) as client:
        assert (client.stat(root)).size == 3000
        assert (client.download(compute_cid(b"0" * 1000))).read() == b"0" * 1000
        for _ in range(2):
            with pytest.raises(error, match=words):
                client.download(root, to=tmp_path / "out")
        assert not (tmp_path / "out").exists()
        with suppress(MalformedError) if name != "cut off" else pytest.raises(error, match=words):
            client.test_connection()
        if name == "cut off":
            with pytest.raises(error, match=words):
                client.download(compute_cid(b"2" * 1000))


def test_a_file_that_changes_while_it_is_read_is_an_error(reader, archive, folder):
    root = compute_cid(folder)
    assert reader.retrieve(f"{root}/sub/doc.json") == {"a": [1, 2]}
    archive.write_bytes(bytes(archive.stat().st_size))
    with pytest.raises(VerificationError, match="does not match its CID"):
        reader.download(f"{root}/large")
    archive.write_bytes(b"")
    with pytest.raises(VerificationError, match="does not match its CID"):
        reader.download(f"{root}/large")


@pytest.mark.parametrize("kind", ["missing", "directory", "pipe", "none"])
def test_what_is_no_file_is_an_error_of_the_configuration(tmp_path, kind):
    path = tmp_path / "x.car"
    {"directory": os.mkdir, "pipe": os.mkfifo}.get(kind, str)(path)
    with pytest.raises(ConfigError, match=r"^path .*(cannot be read: \w|is missing)"):
        Client.init(provider="car", **({} if kind == "none" else {"path": path}))


def test_what_is_no_archive_is_the_same_error_each_time(tmp_path):
    with client_of(tmp_path / "x.car", b"hello") as client:
        for _ in range(2):
            with pytest.raises(MalformedError, match=r"x\.car is not an archive \(CAR\)\n"):
                client.download(compute_cid(b"x"))


def test_standard_input_is_copied_to_a_file(archive, folder, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(archive.read_bytes())))
    with Client.init(provider="car", path="-") as client:
        root = compute_cid(folder)
        assert (client.download(f"{root}/large")).read() == LARGE
        assert [pin.cid for pin in client.pins()] == [root]
    monkeypatch.setattr(sys, "stdin", None)
    with Client.init(provider="car", path="-") as client:
        with pytest.raises(ConfigError, match="standard input is closed"):
            client.pins()


def test_many_calls_share_one_archive_until_it_is_closed(reader, folder, tmp_path):
    root = compute_cid(folder)
    other = reader.with_options(max_json_bytes=5)

    def read(number):
        def call():
            with (other if number % 2 else reader).open(f"{root}/large") as file:
                file.seek(number * 70_000)
                return file.read(100_000)

        return call

    pieces = in_parallel(read(number) for number in range(40))
    assert pieces == [LARGE[number * 70_000 :][:100_000] for number in range(40)]
    with pytest.raises(ConfigError, match="with_options cannot change path"):
        reader.with_options(path=tmp_path / "other")
    with pytest.raises(NotAFileError):
        reader.download(root)
    reader.close()
    with pytest.raises(ClientClosedError):
        reader.pins()
