# WARNING: this file is generated from tests/_async/test_wrapped_providers.py
# by scripts/generate_sync.py. Change the original instead.
"""Providers over other providers, as clients use them: the three of the examples."""

import logging
import os
from dataclasses import replace

import pytest
from examples.logging_provider import LoggingProvider
from examples.mirror_provider import Mirror
from examples.xor_provider import PREFIX, Key, XORProvider

from holdfast import Client, ClientConfig, LocalProvider, PinProvider, compute_cid
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.errors import (
    ClientClosedError,
    ConfigError,
    MalformedError,
    NetworkError,
    NotFoundError,
    TooLargeError,
    UnprovenError,
    UnsupportedError,
    VerificationError,
)
from holdfast.provider import BaseProvider, WrappingProvider, WrappingReader
from holdfast.providers import KuboProvider, PinataProvider
from tests.content import make_folder
from tests.folder_dags import on_disk
from tests.support import closed_port_url, config_for
from tests.tus import random_bytes

KEY = b"a secret that is no secret"
SMALL = b"hello world\n"
LARGE = random_bytes(3_000_001)
TREE = {"a.txt": b"hello", "empty": b"", "sub": None, "sub/b.bin": random_bytes(300_001, 1)}
MANY = {f"{number}.txt": b"%d" % number * 100 for number in range(40)}
SIZE = sum(len(content or b"") for content in TREE.values())


@pytest.fixture
def inner(request, memory_folder):
    """The provider that does the work; local, unless a test says otherwise."""
    name = getattr(request, "param", "local")
    if name == "kubo":
        provider = KuboProvider(request.getfixturevalue("kubo").provider_config())
    elif name == "local":
        provider = LocalProvider(ClientConfig(path=memory_folder / "store"))
    else:
        config = request.getfixturevalue("node").config.with_options(provider=name)
        provider = (PinProvider if name == "pinning" else PinataProvider)(config)
    yield provider
    provider.close()


everywhere = pytest.mark.parametrize(
    "inner",
    [
        *("local", "pinning"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("pinata", "kubo")),
    ],
    indirect=True,
)


@pytest.fixture
def client(inner):
    """A client whose provider changes content."""
    return Client(XORProvider(inner, KEY))


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "up", TREE)


class Steps(list):
    """The reports of a progress function, which never go back."""

    def __call__(self, done, total):
        assert not self or done >= self[-1][0]
        self.append((done, total))


def plain(stored, key=KEY):
    return Key(key).xor(stored[PREFIX:], stored[:PREFIX], 0)


def local(folder, **fields):
    return LocalProvider(ClientConfig(path=folder, **fields))


OPERATIONS = [name for name, method in vars(BaseProvider).items() if hasattr(method, "mark")]


# One that logs


@pytest.mark.parametrize("inner", ["pinning", "pinata"], indirect=True)
def test_every_call_is_logged_and_nothing_secret(inner, folder, tmp_path, caplog):
    caplog.set_level(logging.INFO, "examples.logging_provider")
    client = Client(LoggingProvider(inner))
    client.test_connection()
    value = (client.store({"text": "confidential"}, keyvalues={"owner": "Zoë"})).cid
    client.retrieve(value)
    cid = (client.upload(folder)).cid
    client.stat(cid)
    client.entries(cid, details=True)
    client.download(f"{cid}/a.txt", to=tmp_path / "a.txt")
    (client.open(f"{cid}/sub/b.bin")).read(10)
    client.download_folder(cid, tmp_path / "copy")
    client.pins()
    client.pins(cid=cid)
    client.update(cid, name="new")
    client.pin(cid, wait=60)
    client.url(cid)
    client.revoke(cid)
    names = [record.getMessage().removeprefix(f"{inner.title}: ") for record in caplog.records]
    assert {
        *("call test_connection", "call store", f"call retrieve {value}", "call upload"),
        *(f"call {name} {cid}" for name in ("stat", "entries", "download_folder", "revoke")),
        *(f"call download {cid}/a.txt", f"call open {cid}/sub/b.bin"),
        *("check_credentials", "add", "list_pins", "find_pins"),
        *(f"{name} {cid}" for name in ("update_pin", "pin", "url", "unpin")),
    } <= {name.strip() for name in names}
    for secret in (inner.config.provider_token.reveal(), "confidential", "Zoë"):
        assert secret not in caplog.text


@pytest.mark.parametrize("inner", ["local", "pinning", "pinata"], indirect=True)
def test_a_wrapper_supports_what_its_inner_provider_does(inner):
    class Archives(XORProvider):
        def import_archive(self, cid, pieces, info):
            raise AssertionError("it takes no archives")

    assert WrappingReader(inner.reader).finishes == ()
    supported = {name: inner.supports(name) for name in OPERATIONS}
    assert supported["put_file"]
    one = LoggingProvider(inner)
    for provider in (one, LoggingProvider(WrappingProvider(one))):
        assert {name: provider.supports(name) for name in OPERATIONS} == supported
        for name in (name for name in OPERATIONS if not supported[name]):
            with pytest.raises(UnsupportedError):
                provider.require(name)
    without = dict.fromkeys(("import_archive", "import_car", "signed_upload_url"), False)
    for kind in (XORProvider, Archives):
        xor = kind(one, KEY)
        assert {name: xor.supports(name) for name in OPERATIONS} == supported | without
    with pytest.raises(UnsupportedError, match="makes no signed links"):
        xor.signed_upload_url(expires=60, max_bytes=None, types=())
    with pytest.raises(UnsupportedError, match="cannot import archives; upload the files"):
        xor.import_car([b"an archive"])
    with pytest.raises(UnsupportedError, match="has no operation 'fly'"):
        xor.require("fly")
    if supported["import_car"]:
        archive = [*write_car([CID.of_raw(SMALL)], [])]
        with pytest.raises(UnprovenError):
            one.import_car(archive)
        assert one.import_car(archive, blocks_only=True) == [str(CID.of_raw(SMALL))]


class CountingStore(LocalProvider):
    """Notes when it is closed."""

    def __init__(self, config, **options):
        super().__init__(config, **options)
        self.closed = []

    def close(self):
        self.closed.append("close")
        super().close()

    def release(self):
        self.closed.append("release")
        super().release()


def test_what_a_wrapper_was_given_is_closed_exactly_once(tmp_path):
    inner = CountingStore(ClientConfig(path=tmp_path))
    middle = LoggingProvider(inner)
    provider = LoggingProvider(XORProvider(middle, KEY))
    with Client(provider) as client:
        copy = client.with_options(cid_version=0)
        with copy:
            copy.store([1])
        copy.provider.close()
        client.store([2])
    assert inner.closed == []
    for wrapper in (provider, provider, middle):
        wrapper.close()
    assert inner.closed == ["close", "release"]
    for later in (client, copy, Client(provider), Client(inner)):
        with pytest.raises(ClientClosedError):
            later.store([3])


class SecretNames(WrappingProvider):
    """Changes the names of pins, and shows the plain ones."""

    def add(self, content, info, call, progress):
        return super().add(content, replace(info, name=info.name[::-1]), call, progress)

    def find_pins(self, pin_filter, *, limit=None):
        for pin in super().find_pins(replace(pin_filter, name=None), limit=limit):
            yield replace(pin, name=pin.name[::-1])

    list_pins = BaseProvider.list_pins


def test_copies_move_the_names_that_are_stored(inner, tmp_path):
    here = Client(SecretNames(XORProvider(inner, KEY)))
    target = local(tmp_path / "target")
    record = here.upload(SMALL, name="plain")
    other = here.upload(LARGE, name="words")
    assert {pin.name for pin in here.pins()} == {"plain", "words"}
    with Client(SecretNames(XORProvider(target, KEY))) as to:
        here.copy(record.cid, to=to)
        for outcome in here.copy_pins(to=to):
            outcome.result()
    names = {pin.cid: pin.name for pin in target.list_pins()}
    assert names == {record.cid: "nialp", other.cid: "sdrow"}
    target.close()


def test_a_block_of_the_provider_itself(inner):
    provider = LoggingProvider(inner)
    cid = CID.parse((Client(provider).upload(SMALL)).cid)
    assert provider.own_block(cid) == SMALL
    for missing in (CID.of_raw(b"nowhere"), replace(cid, codec=0x70)):
        with pytest.raises(NotFoundError):
            provider.own_block(missing)


def test_with_options_reaches_through_wrappers(tmp_path, caplog):
    caplog.set_level(logging.INFO, "examples.logging_provider")
    events = []
    provider = LoggingProvider(XORProvider(local(tmp_path), KEY))
    client = Client(provider)
    assert client.provider is provider
    copy = client.with_options(cid_version=0, on_event=events.append)
    assert copy.provider.config == copy.config
    assert copy.provider.inner.inner.config.cid_version == 0
    assert (client.config.cid_version, provider.config.cid_version) == (1, 1)
    record = copy.upload(SMALL)
    assert record.cid.startswith("Qm")
    assert (client.download(record.cid)).read() == SMALL
    assert "upload" in caplog.text
    assert [(event.operation, event.provider) for event in events] == [("upload", "LocalProvider")]
    with pytest.raises(ConfigError, match="with_options cannot change path"):
        client.with_options(path=tmp_path / "other")
    provider.close()


# One that changes content


@everywhere
def test_files_are_changed_on_the_way_and_plain_for_the_user(client, inner, tmp_path):
    steps = Steps()
    record = client.upload(LARGE, progress=steps)
    assert record.size == len(LARGE)
    assert steps[-1] == (len(LARGE), len(LARGE))
    stored = (Client(inner).download(record.cid)).read()
    assert len(stored) == len(LARGE) + PREFIX
    assert LARGE[:100] not in stored
    assert plain(stored) == LARGE
    assert (client.stat(record.cid)).size == len(LARGE)
    for to in (None, tmp_path / "copy"):
        steps = Steps()
        blob = client.download(record.cid, to=to, max_bytes=len(LARGE), progress=steps)
        assert (blob.size, blob.read()) == (len(LARGE), LARGE)
        assert steps[-1] == (len(LARGE), len(LARGE))
    with client.open(record.cid) as file:
        for position in (0, 15, 17, 262_127, 262_144):
            file.seek(position)
            assert file.read(100) == LARGE[position : position + 100]
        assert file.seek(-5, os.SEEK_END) == len(LARGE) - 5
        assert file.read() == LARGE[-5:]
        assert file.pread(70_000, 1_000_000) == LARGE[1_000_000:1_070_000]


def test_values_and_messages_are_changed_too(client, inner):
    record = client.store({"text": "tide"})
    text = b'{"text":"tide"}'
    assert record.size == len(text)
    assert client.retrieve(record.cid) == {"text": "tide"}
    assert plain((Client(inner).download(record.cid)).read()) == text
    message = client.send("alice", "hi")
    assert (client.receive(message.cid)).payload == "hi"


@everywhere
def test_folders_have_plain_files_and_sizes(client, inner, folder, tmp_path):
    steps = Steps()
    record = client.upload(folder, progress=steps)
    assert (record.size, steps[-1]) == (SIZE, (SIZE, SIZE))
    sizes = {"a.txt": 5, "empty": 0, "sub": None}
    entries = [entry for entry in client.iter_entries(record.cid, details=True)]
    assert {entry.name: entry.size for entry in entries} == sizes
    for entry in client.entries(record.cid):
        assert entry.size in {None, sizes[entry.name]}
    assert (client.stat(f"{record.cid}/sub/b.bin")).size == 300_001
    assert (client.download(f"{record.cid}/sub/b.bin")).read() == TREE["sub/b.bin"]
    steps, to = Steps(), tmp_path / "down"
    client.download_folder(record.cid, to, max_bytes=SIZE, progress=steps)
    assert (on_disk(to), steps[-1]) == (TREE, (SIZE, SIZE))
    with pytest.raises(TooLargeError):
        client.download_folder(record.cid, tmp_path / "more", max_bytes=SIZE - 1)
    stored = on_disk(Client(inner).download_folder(record.cid, tmp_path / "stored"))
    contents = {name: content and plain(content) for name, content in stored.items()}
    assert contents == TREE | {"empty": b""}
    prefixes = [content[:PREFIX] for content in stored.values() if content is not None]
    assert len({*prefixes}) == len(prefixes) == 3
    many = (client.upload(make_folder(tmp_path / "many", MANY))).cid
    assert on_disk(client.download_folder(many, tmp_path / "archive")) == MANY


def test_links_in_folders_stay_as_they_are(client, inner, folder, tmp_path):
    (folder / "link").symlink_to("sub/b.bin")
    cid = (client.upload(folder)).cid
    to = client.download_folder(cid, tmp_path / "down", symlinks=True)
    assert on_disk(to) == TREE | {"link": "sub/b.bin"}
    assert (client.stat(f"{cid}/link")).size == len("sub/b.bin")
    stored = Client(inner).download_folder(cid, tmp_path / "stored", symlinks=True)
    assert on_disk(stored)["link"] == "sub/b.bin"


@everywhere
def test_streams_that_can_be_read_once(client, inner):
    steps = Steps()
    pieces = (LARGE[at : at + 100_000] for at in range(0, len(LARGE), 100_000))
    record = client.upload(pieces, progress=steps)
    assert (record.size, steps[-1]) == (len(LARGE), (len(LARGE), None))
    assert (client.download(record.cid)).read() == LARGE
    record = client.upload(iter([]))
    assert (record.size, (client.download(record.cid)).read()) == (0, b"")
    assert (Client(inner).download(record.cid)).size == PREFIX


def test_content_of_another_program_is_a_clear_error_or_other_bytes(
    client, inner, folder, tmp_path
):
    stranger = Client(inner)
    short = (stranger.upload(b"short")).cid
    value = (stranger.store([1])).cid
    top = (stranger.upload(folder)).cid
    for to in (None, tmp_path / "a"):
        with pytest.raises(MalformedError, match="not stored by XORProvider"):
            client.download(short, to=to)
    with pytest.raises(MalformedError, match="not stored by XORProvider"):
        client.retrieve(value)
    with pytest.raises(MalformedError, match="not stored by XORProvider"):
        client.download_folder(top, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    assert (client.stat(short)).size == 0
    assert (client.open(short)).read() == b""
    assert len((client.download(f"{top}/sub/b.bin")).read()) == 300_001 - PREFIX


@pytest.mark.parametrize("inner", ["local", "pinning"], indirect=True)
def test_content_is_changed_back_without_verification_too(client, folder, tmp_path):
    quick = client.with_options(verify=False)
    cid = (quick.upload(LARGE)).cid
    assert (quick.download(cid)).read() == LARGE
    assert (quick.stat(cid)).size == len(LARGE)
    assert quick.retrieve((quick.store([1])).cid) == [1]
    top = (quick.upload(folder)).cid
    assert on_disk(quick.download_folder(top, tmp_path / "down")) == TREE


# Copies, which move what is stored


@pytest.mark.slow
@pytest.mark.parametrize("inner", ["local", "pinning"], indirect=True)
@pytest.mark.parametrize("kind", ["local", "pinning"])
def test_copies_between_two_that_change_content(inner, empty_node, tmp_path, folder, kind):
    is_local = kind == "local"
    target = local(tmp_path / "target") if is_local else PinProvider(empty_node.config)
    client = Client(XORProvider(LoggingProvider(inner), KEY))
    other = Client(LoggingProvider(XORProvider(target, KEY)))
    file = (client.upload(LARGE, name="large")).cid
    value = (client.store({"a": 1})).cid
    top = (client.upload(folder, name="photos")).cid
    how = "archive" if is_local else "upload"
    for cid in (file, value, top):
        copied = client.copy(cid, to=other)
        assert (copied.cid, copied.how, copied.duplicate) == (cid, how, False)
        assert Client(target).pins(cid=cid)
    assert (other.download(file)).read() == LARGE
    assert other.retrieve(value) == {"a": 1}
    assert on_disk(other.download_folder(top, tmp_path / "down")) == TREE
    target.close()


# Two providers, of which either may fail


@pytest.fixture
def unreachable(server):
    """A provider that cannot be connected to."""
    url = closed_port_url()
    return PinProvider(config_for(server, pin_api_url=url, gateway_url=f"{url}/ipfs"))


@pytest.mark.parametrize("place", ["first", "second"])
def test_a_mirror_goes_on_when_either_fails(unreachable, tmp_path, folder, place):
    sound = local(tmp_path / "sound")
    members = [unreachable, sound] if place == "first" else [sound, unreachable]
    client = Client(Mirror(*members))
    client.test_connection()
    value = (client.store({"a": 1}, name="value", keyvalues={"k": "v"})).cid
    pieces = (LARGE[at : at + 100_000] for at in range(0, len(LARGE), 100_000))
    stream = client.upload(pieces)
    top = (client.upload(folder)).cid
    assert (stream.cid, stream.size) == (compute_cid(LARGE), len(LARGE))
    assert client.retrieve(value) == {"a": 1}
    assert (client.download(stream.cid, to=tmp_path / "large")).read() == LARGE
    assert on_disk(client.download_folder(top, tmp_path / "down")) == TREE
    assert (client.stat(stream.cid)).size == len(LARGE)
    assert (client.pin(top, name="again", wait=1)).name == "again"
    assert (client.update(value, name="new")).name == "new"
    (pin,) = client.pins(keyvalues={"k": "v"})
    assert (pin.cid, pin.name) == (value, "new")
    assert client.revoke(value)
    assert {pin.cid for pin in Client(sound).pins()} == {stream.cid, top}
    client.provider.close()
    with pytest.raises(ClientClosedError):
        Client(sound).pins()


def test_if_both_of_a_mirror_fail_the_first_error_is_raised(server, unreachable):
    client = Client(Mirror(unreachable, PinProvider(config_for(server))))
    for call in (lambda: client.upload(SMALL), client.pins, client.test_connection):
        with pytest.raises(NetworkError):
            call()
    client.provider.close()


def test_both_of_a_mirror_have_the_content_in_one_layout(tmp_path, folder):
    stores = [local(tmp_path / "one"), local(tmp_path / "two")]
    mirror = Client(Mirror(*stores))
    copy = mirror.with_options(cid_version=0)
    steps = Steps()
    cids = {
        (copy.upload(LARGE, progress=steps)).cid,
        (copy.upload(iter([SMALL, SMALL]))).cid,
        (copy.upload(folder)).cid,
    }
    assert steps[-1] == (len(LARGE), len(LARGE))
    assert {cid[:2] for cid in cids} == {"Qm"}
    for member in map(Client, stores):
        assert {pin.cid for pin in member.pins()} == cids
    with pytest.raises(ConfigError, match="with_options cannot change path"):
        mirror.with_options(path=tmp_path / "three")
    older = stores[1].with_config(stores[1].config.with_options(cid_version=0))
    with pytest.raises(VerificationError, match="different CIDs"):
        Client(Mirror(stores[0], older)).upload(SMALL)
    mirror.provider.close()
    with pytest.raises(ClientClosedError):
        copy.upload(SMALL)
