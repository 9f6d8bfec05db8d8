"""Providers over other providers, as clients use them: the three of the examples."""

import errno
import logging
import os
import shutil
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
from examples.logging_provider import AsyncLoggingProvider
from examples.mirror_provider import AsyncMirror
from examples.xor_provider import PREFIX, AsyncXORProvider, Key

from holdfast import AsyncClient, AsyncLocalProvider, AsyncPinProvider, ClientConfig, compute_cid
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
from holdfast.provider import AsyncBaseProvider, AsyncWrappingProvider, AsyncWrappingReader
from holdfast.providers import AsyncKuboProvider, AsyncPinataProvider
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
async def inner(request, memory_folder):
    """The provider that does the work; local, unless a test says otherwise."""
    name = getattr(request, "param", "local")
    if name == "kubo":
        provider = AsyncKuboProvider(request.getfixturevalue("kubo").provider_config())
    elif name == "local":
        provider = AsyncLocalProvider(ClientConfig(path=memory_folder / "store"))
    else:
        config = request.getfixturevalue("node").config.with_options(provider=name)
        provider = (AsyncPinProvider if name == "pinning" else AsyncPinataProvider)(config)
    yield provider
    await provider.aclose()


everywhere = pytest.mark.parametrize(
    "inner",
    ["local", "pinning", "pinata", pytest.param("kubo", marks=pytest.mark.slow)],
    indirect=True,
)


@pytest.fixture
def client(inner):
    """A client whose provider changes content."""
    return AsyncClient(AsyncXORProvider(inner, KEY))


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
    return AsyncLocalProvider(ClientConfig(path=folder, **fields))


OPERATIONS = [name for name, method in vars(AsyncBaseProvider).items() if hasattr(method, "mark")]


# One that logs


@pytest.mark.parametrize("inner", ["pinning", "pinata"], indirect=True)
async def test_every_call_is_logged_and_nothing_secret(inner, folder, tmp_path, caplog):
    caplog.set_level(logging.INFO, "examples.logging_provider")
    client = AsyncClient(AsyncLoggingProvider(inner))
    await client.test_connection()
    value = (await client.store({"text": "confidential"}, keyvalues={"owner": "Zoë"})).cid
    await client.retrieve(value)
    cid = (await client.upload(folder)).cid
    await client.stat(cid)
    await client.entries(cid, details=True)
    await client.download(f"{cid}/a.txt", to=tmp_path / "a.txt")
    await (await client.open(f"{cid}/sub/b.bin")).read(10)
    await client.download_folder(cid, tmp_path / "copy")
    await client.pins()
    await client.pins(cid=cid)
    await client.update(cid, name="new")
    await client.pin(cid, wait=60)
    client.url(cid)
    await client.revoke(cid)
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


async def test_no_content_is_logged(inner, caplog):
    caplog.set_level(logging.INFO, "examples.logging_provider")
    provider = AsyncLoggingProvider(inner)
    cid = (await AsyncClient(provider).store("confidential")).cid
    pieces = list(provider.export_car(cid))
    assert await provider.import_car(pieces) == [cid]
    assert "confidential" not in caplog.text
    assert [record.getMessage().split()[1] for record in caplog.records][-2:] == [
        "export_car",
        "import_car",
    ]


@everywhere
async def test_a_wrapper_supports_what_its_inner_provider_does(inner):
    supported = {name: inner.supports(name) for name in OPERATIONS}
    assert supported["put_file"]
    one = AsyncLoggingProvider(inner)
    two = AsyncWrappingProvider(one)
    for provider in (one, two, AsyncLoggingProvider(two)):
        assert {name: provider.supports(name) for name in OPERATIONS} == supported
        for name in (each for each in OPERATIONS if not supported[each]):
            with pytest.raises(UnsupportedError):
                provider.require(name)
    xor = AsyncXORProvider(AsyncLoggingProvider(inner), KEY)
    without = dict.fromkeys(("import_archive", "import_car", "signed_upload_url"), False)
    assert {name: xor.supports(name) for name in OPERATIONS} == supported | without
    assert not xor.supports("no such thing")


async def test_one_that_takes_no_archives_imports_none_by_any_method(inner):
    provider = AsyncXORProvider(inner, KEY)
    cid = (await AsyncClient(inner).upload(SMALL)).cid
    pieces = list(inner.export_car(cid))
    await AsyncClient(inner).revoke(cid)
    with pytest.raises(UnsupportedError, match="cannot import archives; upload the files"):
        await provider.import_car(pieces)
    assert await AsyncClient(inner).pins() == []


class AsyncCountingStore(AsyncLocalProvider):
    """Notes when it is closed."""

    def __init__(self, config, **options):
        super().__init__(config, **options)
        self.closed = []

    async def aclose(self):
        self.closed.append("close")
        await super().aclose()

    async def release(self):
        self.closed.append("release")
        await super().release()


async def test_what_a_wrapper_was_given_is_closed_exactly_once(tmp_path):
    inner = AsyncCountingStore(ClientConfig(path=tmp_path))
    middle = AsyncLoggingProvider(inner)
    provider = AsyncLoggingProvider(AsyncXORProvider(middle, KEY))
    async with AsyncClient(provider) as client:
        copy = client.with_options(cid_version=0)
        async with copy:
            await copy.store([1])
        await copy.provider.aclose()
        await client.store([2])
    assert inner.closed == []
    for each in (provider, provider, middle):
        await each.aclose()
    assert inner.closed == ["close", "release"]
    for each in (client, copy, AsyncClient(provider), AsyncClient(inner)):
        with pytest.raises(ClientClosedError):
            await each.store([3])


class AsyncSecretNames(AsyncWrappingProvider):
    """Changes the names of pins, and shows the plain ones."""

    async def add(self, content, info, call, progress):
        return await super().add(content, replace(info, name=info.name[::-1]), call, progress)

    async def find_pins(self, wanted, *, limit=None):
        async for pin in super().find_pins(replace(wanted, name=None), limit=limit):
            yield replace(pin, name=pin.name[::-1])

    list_pins = AsyncBaseProvider.list_pins


async def test_copies_move_the_names_that_are_stored(inner, tmp_path):
    here = AsyncClient(AsyncSecretNames(AsyncXORProvider(inner, KEY)))
    record = await here.upload(SMALL, name="plain")
    other = await here.upload(LARGE, name="words")
    assert {pin.name for pin in await here.pins()} == {"plain", "words"}
    there = AsyncLocalProvider(ClientConfig(path=tmp_path / "there"))
    async with AsyncClient(AsyncSecretNames(AsyncXORProvider(there, KEY))) as to:
        await here.copy(record.cid, to=to)
        async for outcome in here.copy_pins(to=to):
            outcome.result()
    assert {pin.cid: pin.name for pin in await there.list_pins()} == {
        record.cid: "nialp",
        other.cid: "sdrow",
    }
    await there.aclose()


async def test_nobody_uploads_past_one_that_changes_content(node):
    inner = AsyncPinataProvider(node.config.with_options(provider="pinata"))
    provider = AsyncXORProvider(inner, KEY)
    assert inner.supports("signed_upload_url")
    assert not provider.supports("signed_upload_url")
    assert AsyncLoggingProvider(inner).supports("signed_upload_url")
    with pytest.raises(UnsupportedError, match="makes no signed links"):
        await AsyncClient(provider).signed_upload_url(expires=60)
    with pytest.raises(UnsupportedError, match="makes no signed links"):
        await provider.signed_upload_url(expires=60, max_bytes=None, types=())
    await provider.aclose()


async def test_a_block_of_the_provider_itself(inner):
    provider = AsyncLoggingProvider(inner)
    cid = CID.parse((await AsyncClient(provider).upload(SMALL)).cid)
    assert await provider.own_block(cid) == SMALL
    for missing in (CID.of_raw(b"kept by nobody"), replace(cid, codec=0x70)):
        with pytest.raises(NotFoundError):
            await provider.own_block(missing)


async def test_what_is_stored_depends_on_what_add_takes(inner):
    class AsyncArchives(AsyncXORProvider):
        async def import_archive(self, cid, pieces, info):
            raise AssertionError("it takes no archives")

    assert not AsyncArchives(inner, KEY).supports("import_archive")
    with pytest.raises(UnsupportedError, match="has no operation 'fly'"):
        inner.require("fly")


async def test_an_inner_provider_that_is_closed_closes_its_wrappers(inner):
    provider = AsyncXORProvider(AsyncLoggingProvider(inner), KEY)
    client = AsyncClient(provider)
    cid = (await client.store([1])).cid
    await inner.aclose()
    for call in (client.store, client.retrieve, client.revoke, client.stat, client.download):
        with pytest.raises(ClientClosedError):
            await call(cid)
    await provider.aclose()


async def test_with_options_reaches_through_wrappers(tmp_path, caplog):
    caplog.set_level(logging.INFO, "examples.logging_provider")
    events = []
    provider = AsyncLoggingProvider(AsyncXORProvider(local(tmp_path), KEY))
    client = AsyncClient(provider)
    assert client.provider is provider
    copy = client.with_options(cid_version=0, on_event=events.append)
    assert copy.provider.config == copy.config
    assert copy.provider.inner.inner.config.cid_version == 0
    assert (client.config.cid_version, provider.config.cid_version) == (1, 1)
    record = await copy.upload(SMALL)
    assert record.cid.startswith("Qm")
    assert (await client.download(record.cid)).read() == SMALL
    assert "upload" in caplog.text
    assert [(each.operation, each.provider) for each in events] == [
        ("upload", "AsyncLocalProvider")
    ]
    with pytest.raises(ConfigError, match="path belongs to the repository"):
        client.with_options(path=tmp_path / "other")
    await provider.aclose()


async def test_events_and_errors_name_the_provider_inside(node):
    events = []
    config = node.config.with_options(on_event=events.append)
    provider = AsyncLoggingProvider(AsyncXORProvider(AsyncPinProvider(config), KEY))
    client = AsyncClient(provider)
    cid = (await client.upload(SMALL)).cid
    await client.download(cid)
    await client.pins()
    with pytest.raises(NotFoundError):
        await client.revoke(compute_cid(b"nobody has this"))
    assert {each.provider for each in events} == {"AsyncPinProvider"}
    assert {"upload", "download", "pins", "revoke"} <= {each.operation for each in events}
    await provider.aclose()


async def test_a_wrapper_overrides_the_primitive():
    with pytest.raises(TypeError, match=r"Half overrides put_file, .* override add"):

        class Half(AsyncWrappingProvider):
            async def put_file(self, source, *, name, progress=None): ...


# One that changes content


@everywhere
async def test_files_are_changed_on_the_way_and_plain_for_the_user(client, inner, tmp_path):
    steps = Steps()
    record = await client.upload(LARGE, progress=steps)
    assert record.size == len(LARGE)
    assert steps[-1] == (len(LARGE), len(LARGE))
    stored = (await AsyncClient(inner).download(record.cid)).read()
    assert len(stored) == len(LARGE) + PREFIX
    assert LARGE[:100] not in stored
    assert plain(stored) == LARGE
    assert (await client.stat(record.cid)).size == len(LARGE)
    for to in (None, tmp_path / "copy"):
        steps = Steps()
        blob = await client.download(record.cid, to=to, max_bytes=len(LARGE), progress=steps)
        assert (blob.size, blob.read()) == (len(LARGE), LARGE)
        assert steps[-1] == (len(LARGE), len(LARGE))
    assert (tmp_path / "copy").read_bytes() == LARGE
    with pytest.raises(TooLargeError) as caught:
        await client.download(record.cid, max_bytes=len(LARGE) - 1)
    assert caught.value.size == len(LARGE)


@everywhere
async def test_an_open_file_has_the_plain_positions(client):
    cid = (await client.upload(LARGE)).cid
    async with await client.open(cid) as file:
        assert file.size == len(LARGE)
        for position in (0, 1, 15, 16, 17, 262_127, 262_144, 2_999_990):
            file.seek(position)
            assert await file.read(100) == LARGE[position : position + 100]
        assert file.seek(-5, os.SEEK_END) == len(LARGE) - 5
        assert await file.read() == LARGE[-5:]
        assert await file.pread(70_000, 1_000_000) == LARGE[1_000_000:1_070_000]
        assert await file.read() == b""
        file.seek(0)
        assert await file.read() == LARGE


@everywhere
async def test_values_and_messages_are_changed_too(client, inner):
    record = await client.store({"text": "tide"})
    text = b'{"text":"tide"}'
    assert record.size == len(text)
    assert await client.retrieve(record.cid) == {"text": "tide"}
    assert plain((await AsyncClient(inner).download(record.cid)).read()) == text
    with pytest.raises(SerializationError):
        await AsyncClient(inner).retrieve(record.cid)
    message = await client.send("alice", "hi")
    assert (await client.receive(message.cid)).payload == "hi"


async def test_the_limit_of_values_counts_plain_bytes(client):
    cid = (await client.store("a" * 98)).cid
    assert await client.with_options(max_json_bytes=100).retrieve(cid) == "a" * 98
    with pytest.raises(SerializationError, match="max_json_bytes"):
        await client.with_options(max_json_bytes=99).retrieve(cid)


@everywhere
async def test_folders_have_plain_files_and_sizes(client, inner, folder, tmp_path):
    steps = Steps()
    record = await client.upload(folder, progress=steps)
    assert (record.size, steps[-1]) == (SIZE, (SIZE, SIZE))
    sizes = {"a.txt": 5, "empty": 0, "sub": None}
    kinds = {"a.txt": "file", "empty": "file", "sub": "directory"}
    entries = [entry async for entry in client.iter_entries(record.cid, details=True)]
    assert {each.name: each.size for each in entries} == sizes
    assert {each.name: each.kind for each in entries} == kinds
    for entry in await client.entries(record.cid):
        assert entry.size in {None, sizes[entry.name]}
    (below,) = await client.entries(f"{record.cid}/sub", details=True)
    assert (below.name, below.size) == ("b.bin", 300_001)
    assert (await client.stat(f"{record.cid}/sub/b.bin")).size == 300_001
    assert (await client.stat(record.cid)).kind == "directory"
    assert (await client.download(f"{record.cid}/sub/b.bin")).read() == TREE["sub/b.bin"]
    with pytest.raises(NotAFileError):
        await client.download(f"{record.cid}/sub")
    steps, to = Steps(), tmp_path / "down"
    await client.download_folder(record.cid, to, max_bytes=SIZE, progress=steps)
    assert (on_disk(to), steps[-1]) == (TREE, (SIZE, SIZE))
    with pytest.raises(TooLargeError):
        await client.download_folder(record.cid, tmp_path / "more", max_bytes=SIZE - 1)
    await AsyncClient(inner).download_folder(record.cid, tmp_path / "stored")
    stored = on_disk(tmp_path / "stored")
    assert {name: each and plain(each) for name, each in stored.items()} == TREE | {"empty": b""}
    prefixes = [each[:PREFIX] for each in stored.values() if each is not None]
    assert len({*prefixes}) == len(prefixes) == 3


async def test_links_in_folders_stay_as_they_are(client, inner, folder, tmp_path):
    (folder / "link").symlink_to("sub/b.bin")
    cid = (await client.upload(folder)).cid
    to = await client.download_folder(cid, tmp_path / "down", symlinks=True)
    assert on_disk(to) == TREE | {"link": "sub/b.bin"}
    assert (await client.stat(f"{cid}/link")).size == len("sub/b.bin")
    entries = {each.name: each for each in await client.entries(cid, details=True)}
    assert (entries["link"].kind, entries["link"].size) == ("symlink", len("sub/b.bin"))
    stored = await AsyncClient(inner).download_folder(cid, tmp_path / "stored", symlinks=True)
    assert on_disk(stored)["link"] == "sub/b.bin"


@everywhere
async def test_a_folder_of_many_small_files(client, tmp_path):
    """So many that a gateway is asked for an archive."""
    content = {f"{number}.txt": b"%d" % number * 100 for number in range(40)}
    top = tmp_path / "up"
    top.mkdir()
    for name, data in content.items():
        (top / name).write_bytes(data)
    cid = (await client.upload(top)).cid
    assert on_disk(await client.download_folder(cid, tmp_path / "down")) == content


@everywhere
async def test_streams_that_can_be_read_once(client, inner):
    steps = Steps()
    pieces = (LARGE[at : at + 100_000] for at in range(0, len(LARGE), 100_000))
    record = await client.upload(pieces, progress=steps)
    assert (record.size, steps[-1]) == (len(LARGE), (len(LARGE), None))
    assert (await client.download(record.cid)).read() == LARGE
    read, write = os.pipe()
    os.write(write, SMALL)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        record = await client.upload(pipe)
    assert (await client.download(record.cid)).read() == SMALL
    record = await client.upload(iter([]))
    assert (record.size, (await client.download(record.cid)).read()) == (0, b"")
    assert (await AsyncClient(inner).download(record.cid)).size == PREFIX


@everywhere
async def test_content_of_another_program_is_a_clear_error_or_other_bytes(
    client, inner, folder, tmp_path
):
    stranger = AsyncClient(inner)
    short = (await stranger.upload(b"short")).cid
    value = (await stranger.store([1])).cid
    top = (await stranger.upload(folder)).cid
    for to in (None, tmp_path / "a"):
        with pytest.raises(MalformedError, match="not stored by XORProvider"):
            await client.download(short, to=to)
    with pytest.raises(MalformedError, match="not stored by XORProvider"):
        await client.retrieve(value)
    with pytest.raises(MalformedError, match="not stored by XORProvider"):
        await client.download_folder(top, tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["up"]
    assert (await client.stat(short)).size == 0
    assert await (await client.open(short)).read() == b""
    assert len((await client.download(f"{top}/sub/b.bin")).read()) == 300_001 - PREFIX


@pytest.mark.parametrize("inner", ["local", "pinning"], indirect=True)
async def test_content_is_changed_back_without_verification_too(client, folder, tmp_path):
    quick = client.with_options(verify=False)
    cid = (await quick.upload(LARGE)).cid
    assert (await quick.download(cid)).read() == LARGE
    assert (await quick.stat(cid)).size == len(LARGE)
    assert await quick.retrieve((await quick.store([1])).cid) == [1]
    top = (await quick.upload(folder)).cid
    assert on_disk(await quick.download_folder(top, tmp_path / "down")) == TREE


async def test_blocks_that_are_cached_are_those_that_are_stored(node, tmp_path):
    config = node.config.with_options(cache_path=tmp_path, cache_bytes=1 << 24)
    inner = AsyncPinProvider(config)
    client = AsyncClient(AsyncXORProvider(inner, KEY))
    cid = (await client.upload(LARGE)).cid
    for _ in range(2):
        async with await client.open(cid) as file:
            assert await file.read() == LARGE
    async with await AsyncClient(inner).open(cid) as file:
        assert plain(await file.read()) == LARGE
    await inner.aclose()


async def test_wrappers_around_wrappers(inner, folder, tmp_path, caplog):
    caplog.set_level(logging.INFO, "examples.logging_provider")
    once = AsyncXORProvider(inner, b"first")
    client = AsyncClient(AsyncXORProvider(AsyncLoggingProvider(once), b"second"))
    record = await client.upload(LARGE)
    assert "add" in caplog.text
    stored = (await AsyncClient(inner).download(record.cid)).read()
    assert len(stored) == len(LARGE) + 2 * PREFIX
    assert plain((await AsyncClient(once).download(record.cid)).read(), b"second") == LARGE
    assert plain(plain(stored, b"first"), b"second") == LARGE
    assert (await client.download(record.cid)).read() == LARGE
    assert (await client.stat(record.cid)).size == len(LARGE)
    async with await client.open(record.cid) as file:
        file.seek(1_000_000)
        assert await file.read(10) == LARGE[1_000_000:1_000_010]
    cid = (await client.upload(folder)).cid
    assert on_disk(await client.download_folder(cid, tmp_path / "down")) == TREE


class AsyncNotingReader(AsyncWrappingReader):
    def __init__(self, inner, calls):
        super().__init__(inner)
        self.calls = calls

    def forward(self, name, /, *args, **options):
        self.calls.append(name)
        return super().forward(name, *args, **options)


class AsyncNoting(AsyncWrappingProvider):
    """Notes what its reader is asked for."""

    def __init__(self, inner):
        super().__init__(inner)
        self.calls = []

    @property
    def reader(self):
        return AsyncNotingReader(self.inner.reader, self.calls)


@everywhere
async def test_content_and_sizes_are_read_by_the_upper_level_alone(inner, folder, tmp_path):
    client = AsyncClient(AsyncNoting(inner))
    calls = client.provider.calls
    large, value = (await client.upload(LARGE)).cid, (await client.store([1])).cid
    top = (await client.upload(folder)).cid
    assert calls == []
    for call, name in (
        (lambda: client.download(large), "read"),
        (lambda: client.retrieve(value), "read"),
        (lambda: client.open(large), "open"),
        (lambda: client.stat(large), "stat"),
        (lambda: client.entries(top, details=True), "pages"),
    ):
        calls.clear()
        await call()
        assert calls == [name]
    calls.clear()
    await client.download_folder(top, tmp_path / "down")
    assert calls.count("read") == 3
    assert {*calls} <= {"read", "blocks", "archive"}
    calls.clear()
    assert [piece async for piece in client.provider.export_archive(top)]
    assert {*calls} == {"blocks", "archive"}


# The same bytes, however often they are sent


@pytest.fixture
async def shaky(node):
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
        provider = AsyncXORProvider(AsyncPinProvider(config), KEY)
        yield AsyncClient(provider), AsyncClient(provider.inner), bodies
        await provider.aclose()


@pytest.mark.parametrize("kind", ["file", "folder"])
async def test_a_retry_after_a_broken_connection_sends_the_same_bytes(shaky, folder, kind):
    client, inner, bodies = shaky
    record = await client.upload(LARGE if kind == "file" else folder)
    paths = [""] if kind == "file" else ["/a.txt", "/empty", "/sub/b.bin"]
    for path in paths:
        stored = (await inner.download(record.cid + path)).read()
        assert plain(stored) == (LARGE if kind == "file" else TREE[path[1:]])
        assert [stored in body for body in bodies] == [True, True, True]


async def test_a_stream_that_was_read_is_not_sent_again(shaky):
    client, _, bodies = shaky
    with pytest.raises(NetworkError, match="broke"):
        await client.upload(iter([LARGE]))
    assert len(bodies) == 1


@pytest.fixture
def between(node, monkeypatch, tmp_path):
    """A proxy of a node, for resumable uploads in small pieces."""
    monkeypatch.setattr("holdfast._async.providers.pinata.LARGEST_FORM", LARGEST)
    monkeypatch.setattr(pinata, "PIECE_SIZE", PIECE)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    between = Between(node)
    with between.server:
        yield between


@pytest.fixture
async def resumable(node, between):
    config = node.config.with_options(provider="pinata", pin_api_url=between.server.url)
    provider = AsyncXORProvider(AsyncPinataProvider(config), KEY)
    yield AsyncClient(provider)
    await provider.aclose()


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
async def test_broken_pieces_of_a_resumable_upload_are_sent_again(
    resumable, between, tmp_path, kind
):
    data = random_bytes(3 * PIECE + 1000, kind)
    path = tmp_path / "large.bin"
    path.write_bytes(data)
    between.on("PATCH", None, broken, lost)
    given = path if kind == "path" else (data[at : at + 9000] for at in range(0, len(data), 9000))
    record = await resumable.upload(given)
    assert len(between.pieces) > 4
    assert record.cid == compute_cid(sent(between), profile=LEGACY)
    assert plain(sent(between)) == data
    assert (await resumable.download(record.cid)).read() == data


async def test_an_interrupted_upload_continues_with_the_same_bytes(resumable, between, tmp_path):
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
            await resumable.upload(path, progress=progress)
    record = await resumable.upload(path, progress=lambda *done: seen.append(done))
    assert between.methods.count("POST") == 1
    assert seen[-1] == (len(data), len(data))
    assert plain(sent(between)) == data
    assert record.cid == compute_cid(sent(between), profile=LEGACY)


# Copies, which move what is stored


@pytest.mark.parametrize("inner", ["local", "pinning"], indirect=True)
@pytest.mark.parametrize("wrapped", ["source", "target", "both"])
async def test_copies_through_a_wrapper_that_logs(inner, tmp_path, folder, wrapped, caplog):
    caplog.set_level(logging.INFO, "examples.logging_provider")
    there = local(tmp_path / "there")
    source = inner if wrapped == "target" else AsyncLoggingProvider(inner)
    target = there if wrapped == "source" else AsyncLoggingProvider(there)
    client, other = AsyncClient(source), AsyncClient(target)
    cid = (await client.upload(folder, name="photos")).cid
    caplog.clear()
    copied = await client.copy(cid, to=other)
    assert (copied.how, copied.name) == ("archive", "photos")
    assert (f"call export {cid}" in caplog.text) == (wrapped != "target")
    assert ("call import" in caplog.text) == (wrapped != "source")
    assert (await other.copy(cid, to=client)).duplicate
    assert on_disk(await other.download_folder(cid, tmp_path / "down")) == TREE
    await there.aclose()


@pytest.mark.parametrize("inner", ["local", "pinning"], indirect=True)
@pytest.mark.parametrize("target", ["local", "pinning"])
async def test_copies_between_two_that_change_content(inner, empty_node, tmp_path, folder, target):
    is_local = target == "local"
    there = local(tmp_path / "there") if is_local else AsyncPinProvider(empty_node.config)
    client = AsyncClient(AsyncXORProvider(AsyncLoggingProvider(inner), KEY))
    other = AsyncClient(AsyncLoggingProvider(AsyncXORProvider(there, KEY)))
    file = (await client.upload(LARGE, name="large")).cid
    value = (await client.store({"a": 1})).cid
    top = (await client.upload(folder, name="photos")).cid
    how = "archive" if is_local else "upload"
    for cid in (file, value, top):
        copied = await client.copy(cid, to=other)
        assert (copied.cid, copied.how, copied.duplicate) == (cid, how, False)
        assert await AsyncClient(there).pins(cid=cid)
    assert (await other.download(file)).read() == LARGE
    assert await other.retrieve(value) == {"a": 1}
    assert on_disk(await other.download_folder(top, tmp_path / "down")) == TREE
    stored = (await AsyncClient(there).download(file)).read()
    assert stored == (await AsyncClient(inner).download(file)).read()
    await there.aclose()


async def test_copies_from_one_that_changes_content_to_one_that_does_not(client, node, folder):
    async with AsyncClient.init(node.config) as other:
        cid = (await client.upload(SMALL, name="a.txt")).cid
        copied = await client.copy(cid, to=other)
        assert (copied.cid, copied.how, copied.size) == (cid, "upload", len(SMALL) + PREFIX)
        assert plain((await other.download(cid)).read()) == SMALL
        top = (await client.upload(folder)).cid
        assert (await client.copy(top, to=other)).cid == top
        assert plain((await other.download(f"{top}/a.txt")).read()) == b"hello"


async def test_all_pins_are_copied_with_a_journal(client, tmp_path, memory_folder):
    there = local(memory_folder / "there")
    other = AsyncClient(AsyncXORProvider(there, KEY))
    cids = {(await client.upload(b"%d" % number)).cid for number in range(5)}
    for earlier in (False, True):
        outcomes = client.copy_pins(to=other, journal=tmp_path / "journal")
        copied = [outcome.result() async for outcome in outcomes]
        assert {each.cid for each in copied} == cids
        assert {each.earlier for each in copied} == {earlier}
    assert {(await other.download(cid)).read() for cid in cids} == {b"%d" % n for n in range(5)}
    await there.aclose()


# Two providers, of which either may fail

FAILURES = ("closed", "unreachable", "disk gone", "refuses")


class AsyncGone(AsyncWrappingProvider):
    """A store whose disk may go: then every call is an I/O error, whatever files are still open."""

    is_gone = False

    def forward(self, name, /, *args, **options):
        if self.is_gone:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().forward(name, *args, **options)


@pytest.fixture
async def failing(request, memory_folder):
    """A provider, and a function that makes it fail, unless it does from the start."""
    kind = request.param
    with ScriptedServer() as server:  # which replies 500 to everything
        if kind in {"closed", "disk gone"}:
            provider = AsyncGone(local(memory_folder / "failing"))
        else:
            url = closed_port_url() if kind == "unreachable" else server.url
            config = config_for(server, pin_api_url=url, gateway_url=f"{url}/ipfs")
            provider = AsyncPinProvider(config)

        async def fail():
            if kind == "closed":
                await provider.aclose()
            elif kind == "disk gone":
                shutil.rmtree(memory_folder / "failing")
                provider.is_gone = True

        yield SimpleNamespace(provider=provider, fail=fail)
        with suppress(OSError):
            await provider.aclose()


@pytest.mark.parametrize("place", ["first", "second"])
@pytest.mark.parametrize("failing", FAILURES, indirect=True)
async def test_a_mirror_goes_on_when_either_fails(failing, memory_folder, folder, tmp_path, place):
    sound = local(memory_folder / "sound")
    members = [failing.provider, sound] if place == "first" else [sound, failing.provider]
    client = AsyncClient(AsyncMirror(*members))
    before = (await client.upload(b"before")).cid
    await failing.fail()
    await client.test_connection()
    value = (await client.store({"a": 1}, name="value", keyvalues={"k": "v"})).cid
    pieces = (LARGE[at : at + 100_000] for at in range(0, len(LARGE), 100_000))
    stream = await client.upload(pieces)
    top = (await client.upload(folder)).cid
    assert (stream.cid, stream.size) == (compute_cid(LARGE), len(LARGE))
    assert (await client.download(before)).read() == b"before"
    assert await client.retrieve(value) == {"a": 1}
    assert (await client.download(stream.cid, to=tmp_path / "large")).read() == LARGE
    assert on_disk(await client.download_folder(top, tmp_path / "down")) == TREE
    assert {each.name for each in await client.entries(top)} == {"a.txt", "empty", "sub"}
    assert (await client.stat(stream.cid)).size == len(LARGE)
    async with await client.open(stream.cid) as file:
        file.seek(2_000_000)
        assert await file.read(5) == LARGE[2_000_000:2_000_005]
    assert (await client.pin(before, name="again", wait=1)).name == "again"
    assert (await client.update(value, name="new")).name == "new"
    assert {pin.cid for pin in await client.pins()} == {before, value, stream.cid, top}
    (pin,) = await client.pins(keyvalues={"k": "v"})
    assert (pin.cid, pin.name) == (value, "new")
    assert await client.revoke(value)
    assert len(await AsyncClient(sound).pins()) == 3
    with suppress(OSError):
        await client.provider.aclose()
    with pytest.raises(ClientClosedError):
        await AsyncClient(sound).pins()


@pytest.fixture
async def stores(memory_folder):
    """Two providers."""
    return [local(memory_folder / "one"), local(memory_folder / "two")]


@pytest.fixture
async def mirror(stores):
    """A client of a mirror of both."""
    client = AsyncClient(AsyncMirror(*stores))
    yield client
    await client.provider.aclose()


async def test_both_of_a_mirror_have_the_content(memory_folder, node, folder, tmp_path):
    members = [local(memory_folder / "one"), AsyncPinProvider(node.config)]
    steps = Steps()
    client = AsyncClient(AsyncMirror(*members))
    cids = [
        (await client.upload(LARGE, progress=steps)).cid,
        (await client.upload(iter([SMALL, SMALL]))).cid,
        (await client.upload(folder)).cid,
        (await client.store({"mirror": 1})).cid,
    ]
    assert steps[-1] == (len(LARGE), len(LARGE))
    for member in map(AsyncClient, members):
        assert {*cids} <= {pin.cid for pin in await member.pins()}
        assert (await member.download(cids[0])).read() == LARGE
        assert (await member.download(cids[1])).read() == 2 * SMALL
        assert on_disk(await member.download_folder(cids[2], tmp_path / "down")) == TREE
        shutil.rmtree(tmp_path / "down")
    assert await client.revoke(cids[0])
    for member in map(AsyncClient, members):
        assert await member.pins(cid=cids[0]) == []
    with pytest.raises(NotFoundError):
        await client.revoke(cids[0])
    await client.provider.aclose()


async def test_a_mirror_copies_and_takes_archives(mirror, stores, memory_folder, folder):
    async with AsyncClient.init(path=memory_folder / "three") as other:
        cid = (await other.upload(folder)).cid
        assert (await other.copy(cid, to=mirror)).how == "archive"
        for member in map(AsyncClient, stores):
            assert [pin.cid for pin in await member.pins()] == [cid]
        large = (await mirror.upload(LARGE)).cid
        await mirror.copy(large, to=other)
        assert (await other.download(large)).read() == LARGE


async def test_a_pin_of_a_mirror_that_takes_a_while_is_waited_for(mirror, monkeypatch):
    async def pin(self, cid, info, pin=AsyncLocalProvider.pin):
        return replace(await pin(self, cid, info), state="queued")

    async def check_pin(self, pin):
        return replace(pin, state="pinned")

    monkeypatch.setattr(AsyncLocalProvider, "pin", pin)
    monkeypatch.setattr(AsyncLocalProvider, "check_pin", check_pin)
    cid = (await mirror.upload(SMALL)).cid
    assert (await mirror.pin(cid)).state == "queued"
    assert (await mirror.pin(cid, wait=60)).state == "pinned"


async def test_different_cids_of_a_mirror_are_an_error(memory_folder):
    members = [local(memory_folder / "one"), local(memory_folder / "two", cid_version=0)]
    client = AsyncClient(AsyncMirror(*members))
    with pytest.raises(VerificationError, match="different CIDs"):
        await client.upload(SMALL)
    await client.provider.aclose()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_if_both_of_a_mirror_fail_the_first_error_is_raised(server, order):
    url = closed_port_url()
    refusing = AsyncPinProvider(config_for(server))
    unreachable = AsyncPinProvider(config_for(server, pin_api_url=url, gateway_url=f"{url}/ipfs"))
    members = ((refusing, ProviderError), (unreachable, NetworkError))
    error = members[order[0]][1]
    client = AsyncClient(AsyncMirror(*(members[number][0] for number in order)))
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
            await call()
    await client.provider.aclose()


async def test_options_of_a_mirror_are_those_of_both(mirror, stores, memory_folder):
    copy = mirror.with_options(cid_version=0)
    cid = (await copy.upload(SMALL)).cid
    assert cid.startswith("Qm")
    for member in map(AsyncClient, stores):
        assert [pin.cid for pin in await member.pins()] == [cid]
    with pytest.raises(ConfigError, match="path belongs to the repository"):
        mirror.with_options(path=memory_folder / "three")
    await mirror.provider.aclose()
    with pytest.raises(ClientClosedError):
        await copy.upload(SMALL)


async def test_a_mirror_below_one_that_changes_content(mirror, stores, folder, tmp_path):
    client = AsyncClient(AsyncXORProvider(mirror.provider, KEY))
    cid = (await client.upload(LARGE)).cid
    top = (await client.upload(folder)).cid
    await stores[0].aclose()
    assert (await client.download(cid)).read() == LARGE
    assert on_disk(await client.download_folder(top, tmp_path / "down")) == TREE
    assert plain((await AsyncClient(stores[1]).download(cid)).read()) == LARGE
