# WARNING: this file is generated from tests/_async/test_encrypted.py
# by scripts/generate_sync.py. Change the original instead.
"""The encrypted view of a client: what it stores is age files, and it reads nothing else."""

import io
import os
import pickle
from functools import partial

import pyrage
import pytest

from holdfast import Client, verify
from holdfast.content.age.keys import Identity
from holdfast.errors import (
    ConfigError,
    DecryptionError,
    NoKeyError,
    NotEncryptedError,
    SerializationError,
    UnprovenError,
    UnsupportedError,
)
from holdfast.providers import CopiesProvider

MINE = Identity.generate()
THEIRS = Identity.generate()
CLASSIC = Identity.generate(classic=True)
LARGE = os.urandom(300_000)
SIZES = [0, 1, 65_535, 65_536, 65_537, 300_000]


@pytest.fixture
def view(store_client):
    return store_client.encrypted(identities=[MINE.text])


def stored(client, cid):
    """The bytes that the provider has."""
    return (client.download(cid)).read()


@pytest.mark.parametrize("size", SIZES)
def test_a_file_comes_back(store_client, view, tmp_path, size):
    content, seen = LARGE[:size], []
    record = view.upload(content, progress=lambda *progress: seen.append(progress))
    assert record.size == size
    assert seen[-1] == (size, size)
    assert stored(store_client, record.cid) != content
    seen.clear()
    blob = view.download(
        record.cid, to=tmp_path / "copy", progress=lambda *progress: seen.append(progress)
    )
    assert (blob.read(), (tmp_path / "copy").read_bytes()) == (content, content)
    assert seen[-1] == (size, size)
    assert (view.stat(record.cid)).size == size
    with view.open(record.cid) as file:
        assert file.size == size
        for start in (size // 2, 0, max(0, size - 10)):
            file.seek(start)
            assert file.read(70_000) == content[start : start + 70_000]


def test_values_and_messages_come_back(store_client, view):
    record = view.store({"tide": "high"}, name="tides")
    assert record.size == len('{"tide":"high"}')
    assert view.retrieve(record.cid) == {"tide": "high"}
    assert b"high" not in stored(store_client, record.cid)
    sent = view.send("alice", "hi")
    assert (view.receive(sent.cid)).payload == "hi"


def test_a_folder_comes_back_with_the_sizes_of_its_files(store_client, view, tmp_path):
    (tmp_path / "folder/below").mkdir(parents=True)
    (tmp_path / "folder/a.txt").write_bytes(b"low tide" * 10)
    (tmp_path / "folder/below/large").write_bytes(LARGE)
    record = view.upload(tmp_path / "folder")
    assert record.size == 80 + len(LARGE)
    entries = view.entries(record.cid, details=True)
    assert [(entry.name, entry.size) for entry in entries] == [("a.txt", 80), ("below", None)]
    view.download_folder(record.cid, tmp_path / "copy")
    assert (tmp_path / "copy/a.txt").read_bytes() == b"low tide" * 10
    assert (tmp_path / "copy/below/large").read_bytes() == LARGE
    store_client.download_folder(record.cid, tmp_path / "encrypted")
    assert verify(tmp_path / "encrypted", record.cid)
    (tmp_path / "encrypted/more").touch()
    with pytest.raises(UnprovenError):
        verify(tmp_path / "encrypted", record.cid)
    assert b"low tide" not in stored(store_client, f"{record.cid}/a.txt")


@pytest.mark.parametrize("count", [1, 40, 41, 42])
def test_headers_of_any_size(local, count):
    """The header for 41 readers ends 8 bytes before the first 4 KiB, within which it is read."""
    readers = [Identity.generate(classic=True).recipient.text for _ in range(count - 1)]
    view = local.encrypted(recipients=[CLASSIC.recipient.text, *readers], identities=CLASSIC.text)
    cid = (view.upload(b"low tide")).cid
    assert view.readers(cid) == {"X25519": count}
    with view.open(cid) as file:
        assert file.read() == b"low tide"


def test_a_stream_that_can_be_read_once(view):
    record = view.upload(LARGE[start : start + 50_000] for start in range(0, 300_000, 50_000))
    assert record.size == len(LARGE)
    assert (view.download(record.cid)).read() == LARGE


def test_other_programs_open_it_and_the_other_way_round(local, tmp_path):
    view = local.encrypted(recipients=[CLASSIC.recipient.text], identities=[CLASSIC.text])
    record = view.upload(LARGE)
    key = pyrage.x25519.Identity.from_str(CLASSIC.text.reveal())
    assert pyrage.decrypt(stored(local, record.cid), [key]) == LARGE
    theirs = local.upload(pyrage.encrypt(LARGE, [key.to_public()]))
    assert (view.download(theirs.cid)).read() == LARGE
    with view.open(theirs.cid) as file:
        assert file.pread(10, 70_000) == LARGE[70_000:70_010]


def test_only_names_that_the_user_gives_are_sent(store_client, view, tmp_path):
    (tmp_path / "secret plan.txt").write_bytes(b"attack at dawn")
    view.upload(tmp_path / "secret plan.txt")
    view.store([1])
    view.upload(tmp_path)
    names = [pin.name for pin in view.pins()]
    assert all(len(name) == 20 and name.endswith(".age") for name in names)
    view.store([2], name="tides")
    assert (view.pins(name="tides"))[0].name == "tides"


# What it does not read


def test_what_is_not_encrypted_for_us_is_an_error(store_client, view, tmp_path):
    plain = (store_client.upload(LARGE)).cid
    value = (store_client.store([1])).cid
    other = (store_client.encrypted(identities=[THEIRS.text]).upload(LARGE)).cid
    target = tmp_path / "copy"
    for cid, error in [(plain, NotEncryptedError), (value, NotEncryptedError), (other, NoKeyError)]:
        for call in (partial(view.download, to=target), view.retrieve, view.stat):
            with pytest.raises(error):
                call(cid)
        with pytest.raises(error):
            view.open(cid)
    assert not target.exists()


@pytest.mark.parametrize("harm", ["cut", "cut chunk", "longer", "flip", "other header"])
def test_changed_content_is_an_error(local, tmp_path, harm):
    view = local.encrypted(identities=[MINE.text])
    record = view.upload(LARGE)
    data = bytearray(stored(local, record.cid))
    begin = data.index(b"\n--- ") + 49
    if harm == "other header":
        other = stored(local, (view.upload(b"x")).cid)
        data[:begin] = other[: other.index(b"\n--- ") + 49]
    elif harm == "flip":
        data[begin + 70_000] ^= 1
    elif harm == "longer":
        data += bytes(65_552)
    else:
        del data[-65_552 if harm == "cut chunk" else -1 :]
    cid = (local.upload(bytes(data))).cid
    with pytest.raises(DecryptionError):
        view.download(cid, to=tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    if harm == "flip":  # `open` has read the last chunk only
        with view.open(cid) as file:
            assert file.pread(10, 0) == LARGE[:10]
            with pytest.raises(DecryptionError):
                file.pread(10, 70_000)
    else:
        with pytest.raises(DecryptionError):
            view.open(cid)


# Keys


def test_keys_are_checked_when_the_view_is_made(local):
    with pytest.raises(ConfigError, match="keygen"):
        local.encrypted()
    with pytest.raises(ConfigError, match="write_only"):
        local.encrypted(recipients=[THEIRS.recipient.text], identities=[MINE.text])
    with pytest.raises(ConfigError, match="copy it again"):
        local.encrypted(identities=["AGE-SECRET-KEY-1" + "Q" * 58])


def test_keys_of_the_configuration(tmp_path, recwarn):
    file = tmp_path / "key.txt"
    file.write_text(MINE.text.reveal())
    file.chmod(0o600)
    keys = {"identities": str(file), "recipients": [MINE.recipient.text, THEIRS.recipient.text]}
    with Client.init(path=tmp_path / "store", **keys) as client:
        record = client.store([1], {"encrypt": True})
        large = client.upload(LARGE, {"encrypt": True})
        assert client.encrypted().retrieve(record.cid) == [1]
        assert (client.encrypted(identities=THEIRS.text).download(large.cid)).read() == LARGE
        assert (client.encrypted().readers(large.cid)) == {"mlkem768x25519": 2}
        with pytest.raises(SerializationError):
            client.retrieve(record.cid)
        twice = client.encrypted().store([2], {"encrypt": True})
        assert client.encrypted().retrieve(twice.cid) == [2]
    assert not recwarn.list


def test_a_view_that_only_writes(local, tmp_path):
    view = local.encrypted(recipients=[THEIRS.recipient.text], write_only=True)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/a").write_bytes(LARGE)
    record = view.upload(tmp_path / "folder")
    with pytest.raises(NoKeyError):
        view.download(f"{record.cid}/a")
    reader = local.encrypted(identities=[THEIRS.text])
    assert (reader.download(f"{record.cid}/a")).read() == LARGE


def test_a_view_shows_no_key_and_is_never_pickled(local):
    view = local.encrypted(identities=[MINE.text])
    secret = MINE.text.reveal()
    assert secret not in repr(view) + repr(vars(view)) + repr(vars(view.provider))
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(view)


def test_closing_a_view_closes_nothing(local):
    with local.encrypted(identities=[MINE.text]) as view:
        record = view.store([1])
    assert local.stat(record.cid)


def test_pins_copies_and_archives_are_of_the_ciphertext(local, target):
    view = local.encrypted(identities=[MINE.text])
    record = view.upload(LARGE)
    view.copy(record.cid, to=target)
    assert (target.encrypted(identities=[MINE.text]).download(record.cid)).read() == LARGE
    with pytest.raises(UnsupportedError):
        view.provider.import_car([])
    view.revoke(record.cid)
    assert local.pins() == []


def test_over_copies(tmp_path):
    with (
        Client.init(path=tmp_path / "one") as one,
        Client.init(path=tmp_path / "two") as two,
    ):
        provider = CopiesProvider([one, two], sites=["a", "b"], path=tmp_path / "copies", need=2)
        view = Client(provider).encrypted(identities=[MINE.text])
        record = view.upload(io.BytesIO(LARGE))
        for client in (one, two, Client(provider)):
            plain = client.encrypted(identities=[MINE.text])
            assert (plain.download(record.cid)).read() == LARGE
        provider.close()
