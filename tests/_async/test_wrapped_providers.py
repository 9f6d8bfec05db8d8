"""Providers over other providers, as clients use them: the three of the examples."""

import logging
import os
from dataclasses import replace

import pytest
from examples.logging_provider import AsyncLoggingProvider
from examples.mirror_provider import AsyncMirror
from examples.xor_provider import PREFIX, AsyncXORProvider, Key

from holdfast import AsyncClient, AsyncLocalProvider, AsyncPinProvider, ClientConfig, compute_cid
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
from holdfast.provider import AsyncBaseProvider, AsyncWrappingProvider, AsyncWrappingReader
from holdfast.providers import AsyncKuboProvider, AsyncPinataProvider
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
    [
        *("local", "pinning"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("pinata", "kubo")),
    ],
    indirect=True,
)


@pytest.fixture
def client(inner):
    """A client whose provider changes content."""
    return AsyncClient(AsyncXORProvider(inner, KEY))


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
async def test_a_wrapper_supports_what_its_inner_provider_does(inner):
    class AsyncArchives(AsyncXORProvider):
        async def import_archive(self, cid, pieces, info):
            raise AssertionError("it takes no archives")

    assert AsyncWrappingReader(inner.reader).finishes == ()
    supported = {name: inner.supports(name) for name in OPERATIONS}
    assert supported["put_file"]
    one = AsyncLoggingProvider(inner)
    for provider in (one, AsyncLoggingProvider(AsyncWrappingProvider(one))):
        assert {name: provider.supports(name) for name in OPERATIONS} == supported
        for name in (name for name in OPERATIONS if not supported[name]):
            with pytest.raises(UnsupportedError):
                provider.require(name)
    without = dict.fromkeys(("import_archive", "import_car", "signed_upload_url"), False)
    for kind in (AsyncXORProvider, AsyncArchives):
        xor = kind(one, KEY)
        assert {name: xor.supports(name) for name in OPERATIONS} == supported | without
    with pytest.raises(UnsupportedError, match="makes no signed links"):
        await xor.signed_upload_url(expires=60, max_bytes=None, types=())
    with pytest.raises(UnsupportedError, match="cannot import archives; upload the files"):
        await xor.import_car([b"an archive"])
    with pytest.raises(UnsupportedError, match="has no operation 'fly'"):
        xor.require("fly")
    if supported["import_car"]:
        archive = [*write_car([CID.of_raw(SMALL)], [])]
        with pytest.raises(UnprovenError):
            await one.import_car(archive)
        assert await one.import_car(archive, blocks_only=True) == [str(CID.of_raw(SMALL))]


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
    for wrapper in (provider, provider, middle):
        await wrapper.aclose()
    assert inner.closed == ["close", "release"]
    for later in (client, copy, AsyncClient(provider), AsyncClient(inner)):
        with pytest.raises(ClientClosedError):
            await later.store([3])


class AsyncSecretNames(AsyncWrappingProvider):
    """Changes the names of pins, and shows the plain ones."""

    async def add(self, content, info, call, progress):
        return await super().add(content, replace(info, name=info.name[::-1]), call, progress)

    async def find_pins(self, pin_filter, *, limit=None):
        async for pin in super().find_pins(replace(pin_filter, name=None), limit=limit):
            yield replace(pin, name=pin.name[::-1])

    list_pins = AsyncBaseProvider.list_pins


async def test_copies_move_the_names_that_are_stored(inner, tmp_path):
    here = AsyncClient(AsyncSecretNames(AsyncXORProvider(inner, KEY)))
    target = local(tmp_path / "target")
    record = await here.upload(SMALL, name="plain")
    other = await here.upload(LARGE, name="words")
    assert {pin.name for pin in await here.pins()} == {"plain", "words"}
    async with AsyncClient(AsyncSecretNames(AsyncXORProvider(target, KEY))) as to:
        await here.copy(record.cid, to=to)
        async for outcome in here.copy_pins(to=to):
            outcome.result()
    names = {pin.cid: pin.name for pin in await target.list_pins()}
    assert names == {record.cid: "nialp", other.cid: "sdrow"}
    await target.aclose()


async def test_a_block_of_the_provider_itself(inner):
    provider = AsyncLoggingProvider(inner)
    cid = CID.parse((await AsyncClient(provider).upload(SMALL)).cid)
    assert await provider.own_block(cid) == SMALL
    for missing in (CID.of_raw(b"nowhere"), replace(cid, codec=0x70)):
        with pytest.raises(NotFoundError):
            await provider.own_block(missing)


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
    assert [(event.operation, event.provider) for event in events] == [
        ("upload", "AsyncLocalProvider")
    ]
    with pytest.raises(ConfigError, match="with_options cannot change path"):
        client.with_options(path=tmp_path / "other")
    await provider.aclose()


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
    async with await client.open(record.cid) as file:
        for position in (0, 15, 17, 262_127, 262_144):
            file.seek(position)
            assert await file.read(100) == LARGE[position : position + 100]
        assert file.seek(-5, os.SEEK_END) == len(LARGE) - 5
        assert await file.read() == LARGE[-5:]
        assert await file.pread(70_000, 1_000_000) == LARGE[1_000_000:1_070_000]


async def test_values_and_messages_are_changed_too(client, inner):
    record = await client.store({"text": "tide"})
    text = b'{"text":"tide"}'
    assert record.size == len(text)
    assert await client.retrieve(record.cid) == {"text": "tide"}
    assert plain((await AsyncClient(inner).download(record.cid)).read()) == text
    message = await client.send("alice", "hi")
    assert (await client.receive(message.cid)).payload == "hi"


@everywhere
async def test_folders_have_plain_files_and_sizes(client, inner, folder, tmp_path):
    steps = Steps()
    record = await client.upload(folder, progress=steps)
    assert (record.size, steps[-1]) == (SIZE, (SIZE, SIZE))
    sizes = {"a.txt": 5, "empty": 0, "sub": None}
    entries = [entry async for entry in client.iter_entries(record.cid, details=True)]
    assert {entry.name: entry.size for entry in entries} == sizes
    for entry in await client.entries(record.cid):
        assert entry.size in {None, sizes[entry.name]}
    assert (await client.stat(f"{record.cid}/sub/b.bin")).size == 300_001
    assert (await client.download(f"{record.cid}/sub/b.bin")).read() == TREE["sub/b.bin"]
    steps, to = Steps(), tmp_path / "down"
    await client.download_folder(record.cid, to, max_bytes=SIZE, progress=steps)
    assert (on_disk(to), steps[-1]) == (TREE, (SIZE, SIZE))
    with pytest.raises(TooLargeError):
        await client.download_folder(record.cid, tmp_path / "more", max_bytes=SIZE - 1)
    stored = on_disk(await AsyncClient(inner).download_folder(record.cid, tmp_path / "stored"))
    contents = {name: content and plain(content) for name, content in stored.items()}
    assert contents == TREE | {"empty": b""}
    prefixes = [content[:PREFIX] for content in stored.values() if content is not None]
    assert len({*prefixes}) == len(prefixes) == 3
    many = (await client.upload(make_folder(tmp_path / "many", MANY))).cid
    assert on_disk(await client.download_folder(many, tmp_path / "archive")) == MANY


async def test_links_in_folders_stay_as_they_are(client, inner, folder, tmp_path):
    (folder / "link").symlink_to("sub/b.bin")
    cid = (await client.upload(folder)).cid
    to = await client.download_folder(cid, tmp_path / "down", symlinks=True)
    assert on_disk(to) == TREE | {"link": "sub/b.bin"}
    assert (await client.stat(f"{cid}/link")).size == len("sub/b.bin")
    stored = await AsyncClient(inner).download_folder(cid, tmp_path / "stored", symlinks=True)
    assert on_disk(stored)["link"] == "sub/b.bin"


@everywhere
async def test_streams_that_can_be_read_once(client, inner):
    steps = Steps()
    pieces = (LARGE[at : at + 100_000] for at in range(0, len(LARGE), 100_000))
    record = await client.upload(pieces, progress=steps)
    assert (record.size, steps[-1]) == (len(LARGE), (len(LARGE), None))
    assert (await client.download(record.cid)).read() == LARGE
    record = await client.upload(iter([]))
    assert (record.size, (await client.download(record.cid)).read()) == (0, b"")
    assert (await AsyncClient(inner).download(record.cid)).size == PREFIX


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
    assert not (tmp_path / "copy").exists()
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


# Copies, which move what is stored


@pytest.mark.slow
@pytest.mark.parametrize("inner", ["local", "pinning"], indirect=True)
@pytest.mark.parametrize("kind", ["local", "pinning"])
async def test_copies_between_two_that_change_content(inner, empty_node, tmp_path, folder, kind):
    is_local = kind == "local"
    target = local(tmp_path / "target") if is_local else AsyncPinProvider(empty_node.config)
    client = AsyncClient(AsyncXORProvider(AsyncLoggingProvider(inner), KEY))
    other = AsyncClient(AsyncLoggingProvider(AsyncXORProvider(target, KEY)))
    file = (await client.upload(LARGE, name="large")).cid
    value = (await client.store({"a": 1})).cid
    top = (await client.upload(folder, name="photos")).cid
    how = "archive" if is_local else "upload"
    for cid in (file, value, top):
        copied = await client.copy(cid, to=other)
        assert (copied.cid, copied.how, copied.duplicate) == (cid, how, False)
        assert await AsyncClient(target).pins(cid=cid)
    assert (await other.download(file)).read() == LARGE
    assert await other.retrieve(value) == {"a": 1}
    assert on_disk(await other.download_folder(top, tmp_path / "down")) == TREE
    await target.aclose()


# Two providers, of which either may fail


@pytest.fixture
async def unreachable(server):
    """A provider that cannot be connected to."""
    url = closed_port_url()
    return AsyncPinProvider(config_for(server, pin_api_url=url, gateway_url=f"{url}/ipfs"))


@pytest.mark.parametrize("place", ["first", "second"])
async def test_a_mirror_goes_on_when_either_fails(unreachable, tmp_path, folder, place):
    sound = local(tmp_path / "sound")
    members = [unreachable, sound] if place == "first" else [sound, unreachable]
    client = AsyncClient(AsyncMirror(*members))
    await client.test_connection()
    value = (await client.store({"a": 1}, name="value", keyvalues={"k": "v"})).cid
    pieces = (LARGE[at : at + 100_000] for at in range(0, len(LARGE), 100_000))
    stream = await client.upload(pieces)
    top = (await client.upload(folder)).cid
    assert (stream.cid, stream.size) == (compute_cid(LARGE), len(LARGE))
    assert await client.retrieve(value) == {"a": 1}
    assert (await client.download(stream.cid, to=tmp_path / "large")).read() == LARGE
    assert on_disk(await client.download_folder(top, tmp_path / "down")) == TREE
    assert (await client.stat(stream.cid)).size == len(LARGE)
    assert (await client.pin(top, name="again", wait=1)).name == "again"
    assert (await client.update(value, name="new")).name == "new"
    (pin,) = await client.pins(keyvalues={"k": "v"})
    assert (pin.cid, pin.name) == (value, "new")
    assert await client.revoke(value)
    assert {pin.cid for pin in await AsyncClient(sound).pins()} == {stream.cid, top}
    await client.provider.aclose()
    with pytest.raises(ClientClosedError):
        await AsyncClient(sound).pins()


async def test_if_both_of_a_mirror_fail_the_first_error_is_raised(server, unreachable):
    client = AsyncClient(AsyncMirror(unreachable, AsyncPinProvider(config_for(server))))
    for call in (lambda: client.upload(SMALL), client.pins, client.test_connection):
        with pytest.raises(NetworkError):
            await call()
    await client.provider.aclose()


async def test_both_of_a_mirror_have_the_content_in_one_layout(tmp_path, folder):
    stores = [local(tmp_path / "one"), local(tmp_path / "two")]
    mirror = AsyncClient(AsyncMirror(*stores))
    copy = mirror.with_options(cid_version=0)
    steps = Steps()
    cids = {
        (await copy.upload(LARGE, progress=steps)).cid,
        (await copy.upload(iter([SMALL, SMALL]))).cid,
        (await copy.upload(folder)).cid,
    }
    assert steps[-1] == (len(LARGE), len(LARGE))
    assert {cid[:2] for cid in cids} == {"Qm"}
    for member in map(AsyncClient, stores):
        assert {pin.cid for pin in await member.pins()} == cids
    with pytest.raises(ConfigError, match="with_options cannot change path"):
        mirror.with_options(path=tmp_path / "three")
    older = stores[1].with_config(stores[1].config.with_options(cid_version=0))
    with pytest.raises(VerificationError, match="different CIDs"):
        await AsyncClient(AsyncMirror(stores[0], older)).upload(SMALL)
    await mirror.provider.aclose()
    with pytest.raises(ClientClosedError):
        await copy.upload(SMALL)
