# WARNING: this file is generated from tests/_async/test_wrapped_providers.py
# by scripts/generate_sync.py. Change the original instead.
"""Providers over other providers, as clients use them: the three of the examples."""

import errno
import logging
import os
import shutil
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
from examples.logging_provider import LoggingProvider
from examples.mirror_provider import Mirror
from examples.xor_provider import PREFIX, Key, XORProvider

from holdfast import Client, ClientConfig, LocalProvider, PinProvider, compute_cid
from holdfast.content.cid import CID
from holdfast.errors import (
    ClientClosedError,
    ConfigError,
    MalformedError,
    NetworkError,
    NotAFileError,
    NotFoundError,
    ProviderError,
    SerializationError,
    TooLargeError,
    UnsupportedError,
    VerificationError,
)
from holdfast.protocol import pinata
from holdfast.provider import BaseProvider, WrappingProvider, WrappingReader
from holdfast.providers import KuboProvider, PinataProvider
from holdfast.testing import Scripted, ScriptedServer, forward_to
from tests.folder_dags import on_disk
from tests.support import closed_port_url, config_for
from tests.tus import LARGEST, LEGACY, PIECE, Between, broken, lost, random_bytes

KEY = b"a secret that is no secret"
SMALL = b"hello world\n"
LARGE = random_bytes(3_000_001)
TREE = {"a.txt": b"hello", "empty": b"", "sub": None, "sub/b.bin": random_bytes(300_001, 1)}
SIZE = sum(len(each or b"") for each in TREE.values())


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
    ["local", "pinning", "pinata", pytest.param("kubo", marks=pytest.mark.slow)],
    indirect=True,
)


@pytest.fixture
def client(inner):
    """A client whose provider changes content."""
    return Client(XORProvider(inner, KEY))


@pytest.fixture
def folder(tmp_path):
    top = tmp_path / "up"
    for name, content in TREE.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if content is None else path.write_bytes(content)
    return top


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
    calls = [name.strip() for name in names if not name.startswith("check_open")]
    assert [name for name in calls if name.startswith("call")] == [
        "call test_connection",
        "call store",
        f"call retrieve {value}",
        "call upload",
        f"call stat {cid}",
        *[f"call entries {cid}"] * 2,
        f"call download {cid}/a.txt",
        f"call open {cid}/sub/b.bin",
        f"call download_folder {cid}",
        f"call revoke {cid}",
    ]
    once = {"check_credentials", "add", "list_pins", "find_pins", f"update_pin {cid}"}
    assert once | {f"pin {cid}", f"url {cid}", f"unpin {cid}"} <= {*calls}
    for secret in (inner.config.provider_token.reveal(), "confidential", "Zoë"):
        assert secret not in caplog.text


def test_no_content_is_logged(inner, caplog):
    caplog.set_level(logging.INFO, "examples.logging_provider")
    provider = LoggingProvider(inner)
    cid = (Client(provider).store("confidential")).cid
    pieces = list(provider.export_car(cid))
    assert provider.import_car(pieces) == [cid]
    assert "confidential" not in caplog.text
    assert [record.getMessage().split()[1] for record in caplog.records][-2:] == [
        "export_car",
        "import_car",
    ]


@everywhere
def test_a_wrapper_supports_what_its_inner_provider_does(inner):
    supported = {name: inner.supports(name) for name in OPERATIONS}
    assert supported["put_file"]
    one = LoggingProvider(inner)
    two = WrappingProvider(one)
    for provider in (one, two, LoggingProvider(two)):
        assert {name: provider.supports(name) for name in OPERATIONS} == supported
        for name in (each for each in OPERATIONS if not supported[each]):
            with pytest.raises(UnsupportedError):
                provider.require(name)
    xor = XORProvider(LoggingProvider(inner), KEY)
    without = dict.fromkeys(("import_archive", "import_car", "signed_upload_url"), False)
    assert {name: xor.supports(name) for name in OPERATIONS} == supported | without
    assert not xor.supports("no such thing")


def test_one_that_takes_no_archives_imports_none_by_any_method(inner):
    provider = XORProvider(inner, KEY)
    cid = (Client(inner).upload(SMALL)).cid
    pieces = list(inner.export_car(cid))
    Client(inner).revoke(cid)
    with pytest.raises(UnsupportedError, match="cannot import archives; upload the files"):
        provider.import_car(pieces)
    assert Client(inner).pins() == []


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
    for each in (provider, provider, middle):
        each.close()
    assert inner.closed == ["close", "release"]
    for each in (client, copy, Client(provider), Client(inner)):
        with pytest.raises(ClientClosedError):
            each.store([3])


class SecretNames(WrappingProvider):
    """Changes the names of pins, and shows the plain ones."""

    def add(self, content, info, call, progress):
        return super().add(content, replace(info, name=info.name[::-1]), call, progress)

    def find_pins(self, wanted, *, limit=None):
        for pin in super().find_pins(replace(wanted, name=None), limit=limit):
            yield replace(pin, name=pin.name[::-1])

    list_pins = BaseProvider.list_pins


def test_copies_move_the_names_that_are_stored(inner, tmp_path):
    here = Client(SecretNames(XORProvider(inner, KEY)))
    record = here.upload(SMALL, name="plain")
    other = here.upload(LARGE, name="words")
    assert {pin.name for pin in here.pins()} == {"plain", "words"}
    there = LocalProvider(ClientConfig(path=tmp_path / "there"))
    with Client(SecretNames(XORProvider(there, KEY))) as to:
        here.copy(record.cid, to=to)
        for outcome in here.copy_pins(to=to):
            outcome.result()
    assert {pin.cid: pin.name for pin in there.list_pins()} == {
        record.cid: "nialp",
        other.cid: "sdrow",
    }
    there.close()


def test_nobody_uploads_past_one_that_changes_content(node):
    inner = PinataProvider(node.config.with_options(provider="pinata"))
    provider = XORProvider(inner, KEY)
    assert inner.supports("signed_upload_url")
    assert not provider.supports("signed_upload_url")
    assert LoggingProvider(inner).supports("signed_upload_url")
    with pytest.raises(UnsupportedError, match="makes no signed links"):
        Client(provider).signed_upload_url(expires=60)
    with pytest.raises(UnsupportedError, match="makes no signed links"):
        provider.signed_upload_url(expires=60, max_bytes=None, types=())
    provider.close()


def test_a_block_of_the_provider_itself(inner):
    provider = LoggingProvider(inner)
    cid = CID.parse((Client(provider).upload(SMALL)).cid)
    assert provider.own_block(cid) == SMALL
    for missing in (CID.of_raw(b"kept by nobody"), replace(cid, codec=0x70)):
        with pytest.raises(NotFoundError):
            provider.own_block(missing)


def test_what_is_stored_depends_on_what_add_takes(inner):
    class Archives(XORProvider):
        def import_archive(self, cid, pieces, info):
            raise AssertionError("it takes no archives")

    assert not Archives(inner, KEY).supports("import_archive")
    with pytest.raises(UnsupportedError, match="has no operation 'fly'"):
        inner.require("fly")


def test_an_inner_provider_that_is_closed_closes_its_wrappers(inner):
    provider = XORProvider(LoggingProvider(inner), KEY)
    client = Client(provider)
    cid = (client.store([1])).cid
    inner.close()
    for call in (client.store, client.retrieve, client.revoke, client.stat, client.download):
        with pytest.raises(ClientClosedError):
            call(cid)
    provider.close()


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
    assert [(each.operation, each.provider) for each in events] == [("upload", "LocalProvider")]
    with pytest.raises(ConfigError, match="path belongs to the repository"):
        client.with_options(path=tmp_path / "other")
    provider.close()


def test_events_and_errors_name_the_provider_inside(node):
    events = []
    config = node.config.with_options(on_event=events.append)
    provider = LoggingProvider(XORProvider(PinProvider(config), KEY))
    client = Client(provider)
    cid = (client.upload(SMALL)).cid
    client.download(cid)
    client.pins()
    with pytest.raises(NotFoundError):
        client.revoke(compute_cid(b"nobody has this"))
    assert {each.provider for each in events} == {"PinProvider"}
    assert {"upload", "download", "pins", "revoke"} <= {each.operation for each in events}
    provider.close()


def test_a_wrapper_overrides_the_primitive():
    with pytest.raises(TypeError, match=r"Half overrides put_file, .* override add"):

        class Half(WrappingProvider):
            def put_file(self, source, *, name, progress=None): ...


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
    assert (tmp_path / "copy").read_bytes() == LARGE
    with pytest.raises(TooLargeError) as caught:
        client.download(record.cid, max_bytes=len(LARGE) - 1)
    assert caught.value.size == len(LARGE)


@everywhere
def test_an_open_file_has_the_plain_positions(client):
    cid = (client.upload(LARGE)).cid
    with client.open(cid) as file:
        assert file.size == len(LARGE)
        for position in (0, 1, 15, 16, 17, 262_127, 262_144, 2_999_990):
            file.seek(position)
            assert file.read(100) == LARGE[position : position + 100]
        assert file.seek(-5, os.SEEK_END) == len(LARGE) - 5
        assert file.read() == LARGE[-5:]
        assert file.pread(70_000, 1_000_000) == LARGE[1_000_000:1_070_000]
        assert file.read() == b""
        file.seek(0)
        assert file.read() == LARGE


@everywhere
def test_values_and_messages_are_changed_too(client, inner):
    record = client.store({"text": "tide"})
    text = b'{"text":"tide"}'
    assert record.size == len(text)
    assert client.retrieve(record.cid) == {"text": "tide"}
    assert plain((Client(inner).download(record.cid)).read()) == text
    with pytest.raises(SerializationError):
        Client(inner).retrieve(record.cid)
    message = client.send("alice", "hi")
    assert (client.receive(message.cid)).payload == "hi"


def test_the_limit_of_values_counts_plain_bytes(client):
    cid = (client.store("a" * 98)).cid
    assert client.with_options(max_json_bytes=100).retrieve(cid) == "a" * 98
    with pytest.raises(SerializationError, match="max_json_bytes"):
        client.with_options(max_json_bytes=99).retrieve(cid)


@everywhere
def test_folders_have_plain_files_and_sizes(client, inner, folder, tmp_path):
    steps = Steps()
    record = client.upload(folder, progress=steps)
    assert (record.size, steps[-1]) == (SIZE, (SIZE, SIZE))
    sizes = {"a.txt": 5, "empty": 0, "sub": None}
    kinds = {"a.txt": "file", "empty": "file", "sub": "directory"}
    entries = [entry for entry in client.iter_entries(record.cid, details=True)]
    assert {each.name: each.size for each in entries} == sizes
    assert {each.name: each.kind for each in entries} == kinds
    for entry in client.entries(record.cid):
        assert entry.size in {None, sizes[entry.name]}
    (below,) = client.entries(f"{record.cid}/sub", details=True)
    assert (below.name, below.size) == ("b.bin", 300_001)
    assert (client.stat(f"{record.cid}/sub/b.bin")).size == 300_001
    assert (client.stat(record.cid)).kind == "directory"
    assert (client.download(f"{record.cid}/sub/b.bin")).read() == TREE["sub/b.bin"]
    with pytest.raises(NotAFileError):
        client.download(f"{record.cid}/sub")
    steps, to = Steps(), tmp_path / "down"
    client.download_folder(record.cid, to, max_bytes=SIZE, progress=steps)
    assert (on_disk(to), steps[-1]) == (TREE, (SIZE, SIZE))
    with pytest.raises(TooLargeError):
        client.download_folder(record.cid, tmp_path / "more", max_bytes=SIZE - 1)
    Client(inner).download_folder(record.cid, tmp_path / "stored")
    stored = on_disk(tmp_path / "stored")
    assert {name: each and plain(each) for name, each in stored.items()} == TREE | {"empty": b""}
    prefixes = [each[:PREFIX] for each in stored.values() if each is not None]
    assert len({*prefixes}) == len(prefixes) == 3


def test_links_in_folders_stay_as_they_are(client, inner, folder, tmp_path):
    (folder / "link").symlink_to("sub/b.bin")
    cid = (client.upload(folder)).cid
    to = client.download_folder(cid, tmp_path / "down", symlinks=True)
    assert on_disk(to) == TREE | {"link": "sub/b.bin"}
    assert (client.stat(f"{cid}/link")).size == len("sub/b.bin")
    entries = {each.name: each for each in client.entries(cid, details=True)}
    assert (entries["link"].kind, entries["link"].size) == ("symlink", len("sub/b.bin"))
    stored = Client(inner).download_folder(cid, tmp_path / "stored", symlinks=True)
    assert on_disk(stored)["link"] == "sub/b.bin"


@everywhere
def test_a_folder_of_many_small_files(client, tmp_path):
    """So many that a gateway is asked for an archive."""
    content = {f"{number}.txt": b"%d" % number * 100 for number in range(40)}
    top = tmp_path / "up"
    top.mkdir()
    for name, data in content.items():
        (top / name).write_bytes(data)
    cid = (client.upload(top)).cid
    assert on_disk(client.download_folder(cid, tmp_path / "down")) == content


@everywhere
def test_streams_that_can_be_read_once(client, inner):
    steps = Steps()
    pieces = (LARGE[at : at + 100_000] for at in range(0, len(LARGE), 100_000))
    record = client.upload(pieces, progress=steps)
    assert (record.size, steps[-1]) == (len(LARGE), (len(LARGE), None))
    assert (client.download(record.cid)).read() == LARGE
    read, write = os.pipe()
    os.write(write, SMALL)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        record = client.upload(pipe)
    assert (client.download(record.cid)).read() == SMALL
    record = client.upload(iter([]))
    assert (record.size, (client.download(record.cid)).read()) == (0, b"")
    assert (Client(inner).download(record.cid)).size == PREFIX


@everywhere
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
    assert [path.name for path in tmp_path.iterdir()] == ["up"]
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


def test_blocks_that_are_cached_are_those_that_are_stored(node, tmp_path):
    config = node.config.with_options(cache_path=tmp_path, cache_bytes=1 << 24)
    inner = PinProvider(config)
    client = Client(XORProvider(inner, KEY))
    cid = (client.upload(LARGE)).cid
    for _ in range(2):
        with client.open(cid) as file:
            assert file.read() == LARGE
    with Client(inner).open(cid) as file:
        assert plain(file.read()) == LARGE
    inner.close()


def test_wrappers_around_wrappers(inner, folder, tmp_path, caplog):
    caplog.set_level(logging.INFO, "examples.logging_provider")
    once = XORProvider(inner, b"first")
    client = Client(XORProvider(LoggingProvider(once), b"second"))
    record = client.upload(LARGE)
    assert "add" in caplog.text
    stored = (Client(inner).download(record.cid)).read()
    assert len(stored) == len(LARGE) + 2 * PREFIX
    assert plain((Client(once).download(record.cid)).read(), b"second") == LARGE
    assert plain(plain(stored, b"first"), b"second") == LARGE
    assert (client.download(record.cid)).read() == LARGE
    assert (client.stat(record.cid)).size == len(LARGE)
    with client.open(record.cid) as file:
        file.seek(1_000_000)
        assert file.read(10) == LARGE[1_000_000:1_000_010]
    cid = (client.upload(folder)).cid
    assert on_disk(client.download_folder(cid, tmp_path / "down")) == TREE


class NotingReader(WrappingReader):
    def __init__(self, inner, calls):
        super().__init__(inner)
        self.calls = calls

    def forward(self, name, /, *args, **options):
        self.calls.append(name)
        return super().forward(name, *args, **options)


class Noting(WrappingProvider):
    """Notes what its reader is asked for."""

    def __init__(self, inner):
        super().__init__(inner)
        self.calls = []

    @property
    def reader(self):
        return NotingReader(self.inner.reader, self.calls)


@everywhere
def test_content_and_sizes_are_read_by_the_upper_level_alone(inner, folder, tmp_path):
    client = Client(Noting(inner))
    calls = client.provider.calls
    large, value = (client.upload(LARGE)).cid, (client.store([1])).cid
    top = (client.upload(folder)).cid
    assert calls == []
    for call, name in (
        (lambda: client.download(large), "read"),
        (lambda: client.retrieve(value), "read"),
        (lambda: client.open(large), "open"),
        (lambda: client.stat(large), "stat"),
        (lambda: client.entries(top, details=True), "pages"),
    ):
        calls.clear()
        call()
        assert calls == [name]
    calls.clear()
    client.download_folder(top, tmp_path / "down")
    assert calls.count("read") == 3
    assert {*calls} <= {"read", "blocks", "archive"}
    calls.clear()
    assert [piece for piece in client.provider.export_archive(top)]
    assert {*calls} == {"blocks", "archive"}


# The same bytes, however often they are sent


@pytest.fixture
def shaky(node):
    """A client of a node behind a proxy that fails twice, and the bodies that were sent."""
    forward = forward_to(node.api_url)
    bodies = []

    def answer(request):
        if request.method == "POST":
            bodies.append(request.body)
            if len(bodies) < 3:
                return Scripted(hang_up=True) if len(bodies) == 1 else Scripted(status=503)
        return forward(request)

    with ScriptedServer(answer) as server:
        config = node.config.with_options(pin_api_url=server.url)
        provider = XORProvider(PinProvider(config), KEY)
        yield Client(provider), Client(provider.inner), bodies
        provider.close()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_retry_after_a_broken_connection_sends_the_same_bytes(shaky, folder, kind):
    client, inner, bodies = shaky
    record = client.upload(LARGE if kind == "file" else folder)
    paths = [""] if kind == "file" else ["/a.txt", "/empty", "/sub/b.bin"]
    for path in paths:
        stored = (inner.download(record.cid + path)).read()
        assert plain(stored) == (LARGE if kind == "file" else TREE[path[1:]])
        assert [stored in body for body in bodies] == [True, True, True]


def test_a_stream_that_was_read_is_not_sent_again(shaky):
    client, _, bodies = shaky
    with pytest.raises(NetworkError, match="broke"):
        client.upload(iter([LARGE]))
    assert len(bodies) == 1


@pytest.fixture
def between(node, monkeypatch, tmp_path):
    """A proxy of a node, for resumable uploads in small pieces."""
    monkeypatch.setattr("holdfast._sync.providers.pinata.LARGEST_FORM", LARGEST)
    monkeypatch.setattr(pinata, "PIECE_SIZE", PIECE)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    between = Between(node)
    with between.server:
        yield between


@pytest.fixture
def resumable(node, between):
    config = node.config.with_options(provider="pinata", pin_api_url=between.server.url)
    provider = XORProvider(PinataProvider(config), KEY)
    yield Client(provider)
    provider.close()


def sent(between):
    """The bytes of all pieces, of which those that were sent again must be the same."""
    content = b""
    for request in between.server.requests:
        if request.method == "PATCH":
            start = int(request.headers["upload-offset"])
            again = content[start : start + len(request.body)]
            assert request.body.startswith(again)
            content += request.body[len(again) :]
    return content


@pytest.mark.parametrize("kind", ["path", "stream"])
def test_broken_pieces_of_a_resumable_upload_are_sent_again(resumable, between, tmp_path, kind):
    data = random_bytes(3 * PIECE + 1000, kind)
    path = tmp_path / "large.bin"
    path.write_bytes(data)
    between.on("PATCH", None, broken, lost)
    given = path if kind == "path" else (data[at : at + 9000] for at in range(0, len(data), 9000))
    record = resumable.upload(given)
    assert len(between.pieces) > 4
    assert record.cid == compute_cid(sent(between), profile=LEGACY)
    assert plain(sent(between)) == data
    assert (resumable.download(record.cid)).read() == data


def test_an_interrupted_upload_continues_with_the_same_bytes(resumable, between, tmp_path):
    class StopError(Exception):
        pass

    def stop(done, _):
        if done > PIECE + 1000:
            raise StopError

    def stop_at_second_attempt(done, _):
        if done < max(seen, default=0):
            raise StopError
        seen.append(done)

    data = random_bytes(3 * PIECE + 1000, "interrupted")
    path = tmp_path / "large.bin"
    path.write_bytes(data)
    seen = []
    between.on("PATCH", broken)
    for progress in (stop_at_second_attempt, stop):
        with pytest.raises(StopError):
            resumable.upload(path, progress=progress)
    record = resumable.upload(path, progress=lambda *done: seen.append(done))
    assert between.methods.count("POST") == 1
    assert seen[-1] == (len(data), len(data))
    assert plain(sent(between)) == data
    assert record.cid == compute_cid(sent(between), profile=LEGACY)


# Copies, which move what is stored


@pytest.mark.parametrize("inner", ["local", "pinning"], indirect=True)
@pytest.mark.parametrize("wrapped", ["source", "target", "both"])
def test_copies_through_a_wrapper_that_logs(inner, tmp_path, folder, wrapped, caplog):
    caplog.set_level(logging.INFO, "examples.logging_provider")
    there = local(tmp_path / "there")
    source = inner if wrapped == "target" else LoggingProvider(inner)
    target = there if wrapped == "source" else LoggingProvider(there)
    client, other = Client(source), Client(target)
    cid = (client.upload(folder, name="photos")).cid
    caplog.clear()
    copied = client.copy(cid, to=other)
    assert (copied.how, copied.name) == ("archive", "photos")
    assert (f"call export {cid}" in caplog.text) == (wrapped != "target")
    assert ("call import" in caplog.text) == (wrapped != "source")
    assert (other.copy(cid, to=client)).duplicate
    assert on_disk(other.download_folder(cid, tmp_path / "down")) == TREE
    there.close()


@pytest.mark.parametrize("inner", ["local", "pinning"], indirect=True)
@pytest.mark.parametrize("target", ["local", "pinning"])
def test_copies_between_two_that_change_content(inner, empty_node, tmp_path, folder, target):
    is_local = target == "local"
    there = local(tmp_path / "there") if is_local else PinProvider(empty_node.config)
    client = Client(XORProvider(LoggingProvider(inner), KEY))
    other = Client(LoggingProvider(XORProvider(there, KEY)))
    file = (client.upload(LARGE, name="large")).cid
    value = (client.store({"a": 1})).cid
    top = (client.upload(folder, name="photos")).cid
    how = "archive" if is_local else "upload"
    for cid in (file, value, top):
        copied = client.copy(cid, to=other)
        assert (copied.cid, copied.how, copied.duplicate) == (cid, how, False)
        assert Client(there).pins(cid=cid)
    assert (other.download(file)).read() == LARGE
    assert other.retrieve(value) == {"a": 1}
    assert on_disk(other.download_folder(top, tmp_path / "down")) == TREE
    stored = (Client(there).download(file)).read()
    assert stored == (Client(inner).download(file)).read()
    there.close()


def test_copies_from_one_that_changes_content_to_one_that_does_not(client, node, folder):
    with Client.init(node.config) as other:
        cid = (client.upload(SMALL, name="a.txt")).cid
        copied = client.copy(cid, to=other)
        assert (copied.cid, copied.how, copied.size) == (cid, "upload", len(SMALL) + PREFIX)
        assert plain((other.download(cid)).read()) == SMALL
        top = (client.upload(folder)).cid
        assert (client.copy(top, to=other)).cid == top
        assert plain((other.download(f"{top}/a.txt")).read()) == b"hello"


def test_all_pins_are_copied_with_a_journal(client, tmp_path, memory_folder):
    there = local(memory_folder / "there")
    other = Client(XORProvider(there, KEY))
    cids = {(client.upload(b"%d" % number)).cid for number in range(5)}
    for earlier in (False, True):
        outcomes = client.copy_pins(to=other, journal=tmp_path / "journal")
        copied = [outcome.result() for outcome in outcomes]
        assert {each.cid for each in copied} == cids
        assert {each.earlier for each in copied} == {earlier}
    assert {(other.download(cid)).read() for cid in cids} == {b"%d" % n for n in range(5)}
    there.close()


# Two providers, of which either may fail

FAILURES = ("closed", "unreachable", "disk gone", "refuses")


class Gone(WrappingProvider):
    """A store whose disk may go: then every call is an I/O error, whatever files are still open."""

    is_gone = False

    def forward(self, name, /, *args, **options):
        if self.is_gone:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().forward(name, *args, **options)


@pytest.fixture
def failing(request, memory_folder):
    """A provider, and a function that makes it fail, unless it does from the start."""
    kind = request.param
    with ScriptedServer() as server:  # which replies 500 to everything
        if kind in {"closed", "disk gone"}:
            provider = Gone(local(memory_folder / "failing"))
        else:
            url = closed_port_url() if kind == "unreachable" else server.url
            config = config_for(server, pin_api_url=url, gateway_url=f"{url}/ipfs")
            provider = PinProvider(config)

        def fail():
            if kind == "closed":
                provider.close()
            elif kind == "disk gone":
                shutil.rmtree(memory_folder / "failing")
                provider.is_gone = True

        yield SimpleNamespace(provider=provider, fail=fail)
        with suppress(OSError):
            provider.close()


@pytest.mark.parametrize("place", ["first", "second"])
@pytest.mark.parametrize("failing", FAILURES, indirect=True)
def test_a_mirror_goes_on_when_either_fails(failing, memory_folder, folder, tmp_path, place):
    sound = local(memory_folder / "sound")
    members = [failing.provider, sound] if place == "first" else [sound, failing.provider]
    client = Client(Mirror(*members))
    before = (client.upload(b"before")).cid
    failing.fail()
    client.test_connection()
    value = (client.store({"a": 1}, name="value", keyvalues={"k": "v"})).cid
    pieces = (LARGE[at : at + 100_000] for at in range(0, len(LARGE), 100_000))
    stream = client.upload(pieces)
    top = (client.upload(folder)).cid
    assert (stream.cid, stream.size) == (compute_cid(LARGE), len(LARGE))
    assert (client.download(before)).read() == b"before"
    assert client.retrieve(value) == {"a": 1}
    assert (client.download(stream.cid, to=tmp_path / "large")).read() == LARGE
    assert on_disk(client.download_folder(top, tmp_path / "down")) == TREE
    assert {each.name for each in client.entries(top)} == {"a.txt", "empty", "sub"}
    assert (client.stat(stream.cid)).size == len(LARGE)
    with client.open(stream.cid) as file:
        file.seek(2_000_000)
        assert file.read(5) == LARGE[2_000_000:2_000_005]
    assert (client.pin(before, name="again", wait=1)).name == "again"
    assert (client.update(value, name="new")).name == "new"
    assert {pin.cid for pin in client.pins()} == {before, value, stream.cid, top}
    (pin,) = client.pins(keyvalues={"k": "v"})
    assert (pin.cid, pin.name) == (value, "new")
    assert client.revoke(value)
    assert len(Client(sound).pins()) == 3
    with suppress(OSError):
        client.provider.close()
    with pytest.raises(ClientClosedError):
        Client(sound).pins()


@pytest.fixture
def stores(memory_folder):
    """Two providers."""
    return [local(memory_folder / "one"), local(memory_folder / "two")]


@pytest.fixture
def mirror(stores):
    """A client of a mirror of both."""
    client = Client(Mirror(*stores))
    yield client
    client.provider.close()


def test_both_of_a_mirror_have_the_content(memory_folder, node, folder, tmp_path):
    members = [local(memory_folder / "one"), PinProvider(node.config)]
    steps = Steps()
    client = Client(Mirror(*members))
    cids = [
        (client.upload(LARGE, progress=steps)).cid,
        (client.upload(iter([SMALL, SMALL]))).cid,
        (client.upload(folder)).cid,
        (client.store({"mirror": 1})).cid,
    ]
    assert steps[-1] == (len(LARGE), len(LARGE))
    for member in map(Client, members):
        assert {*cids} <= {pin.cid for pin in member.pins()}
        assert (member.download(cids[0])).read() == LARGE
        assert (member.download(cids[1])).read() == 2 * SMALL
        assert on_disk(member.download_folder(cids[2], tmp_path / "down")) == TREE
        shutil.rmtree(tmp_path / "down")
    assert client.revoke(cids[0])
    for member in map(Client, members):
        assert member.pins(cid=cids[0]) == []
    with pytest.raises(NotFoundError):
        client.revoke(cids[0])
    client.provider.close()


def test_a_mirror_copies_and_takes_archives(mirror, stores, memory_folder, folder):
    with Client.init(path=memory_folder / "three") as other:
        cid = (other.upload(folder)).cid
        assert (other.copy(cid, to=mirror)).how == "archive"
        for member in map(Client, stores):
            assert [pin.cid for pin in member.pins()] == [cid]
        large = (mirror.upload(LARGE)).cid
        mirror.copy(large, to=other)
        assert (other.download(large)).read() == LARGE


def test_a_pin_of_a_mirror_that_takes_a_while_is_waited_for(mirror, monkeypatch):
    def pin(self, cid, info, pin=LocalProvider.pin):
        return replace(pin(self, cid, info), state="queued")

    def check_pin(self, pin):
        return replace(pin, state="pinned")

    monkeypatch.setattr(LocalProvider, "pin", pin)
    monkeypatch.setattr(LocalProvider, "check_pin", check_pin)
    cid = (mirror.upload(SMALL)).cid
    assert (mirror.pin(cid)).state == "queued"
    assert (mirror.pin(cid, wait=60)).state == "pinned"


def test_different_cids_of_a_mirror_are_an_error(memory_folder):
    members = [local(memory_folder / "one"), local(memory_folder / "two", cid_version=0)]
    client = Client(Mirror(*members))
    with pytest.raises(VerificationError, match="different CIDs"):
        client.upload(SMALL)
    client.provider.close()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_if_both_of_a_mirror_fail_the_first_error_is_raised(server, order):
    url = closed_port_url()
    refusing = PinProvider(config_for(server))
    unreachable = PinProvider(config_for(server, pin_api_url=url, gateway_url=f"{url}/ipfs"))
    members = ((refusing, ProviderError), (unreachable, NetworkError))
    error = members[order[0]][1]
    client = Client(Mirror(*(members[number][0] for number in order)))
    cid = compute_cid(SMALL)
    for call in (
        lambda: client.store([1]),
        lambda: client.upload(SMALL),
        lambda: client.upload(iter([SMALL])),
        lambda: client.download(cid),
        client.pins,
        lambda: client.pin(cid),
        lambda: client.revoke(cid),
        client.test_connection,
    ):
        with pytest.raises(error):
            call()
    client.provider.close()


def test_options_of_a_mirror_are_those_of_both(mirror, stores, memory_folder):
    copy = mirror.with_options(cid_version=0)
    cid = (copy.upload(SMALL)).cid
    assert cid.startswith("Qm")
    for member in map(Client, stores):
        assert [pin.cid for pin in member.pins()] == [cid]
    with pytest.raises(ConfigError, match="path belongs to the repository"):
        mirror.with_options(path=memory_folder / "three")
    mirror.provider.close()
    with pytest.raises(ClientClosedError):
        copy.upload(SMALL)


def test_a_mirror_below_one_that_changes_content(mirror, stores, folder, tmp_path):
    client = Client(XORProvider(mirror.provider, KEY))
    cid = (client.upload(LARGE)).cid
    top = (client.upload(folder)).cid
    stores[0].close()
    assert (client.download(cid)).read() == LARGE
    assert on_disk(client.download_folder(top, tmp_path / "down")) == TREE
    assert plain((Client(stores[1]).download(cid)).read()) == LARGE
