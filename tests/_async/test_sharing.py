"""More readers for encrypted content: a new header and a new root, wherever the layout is ours."""

import json
import os
import traceback
from contextlib import ExitStack
from urllib.parse import parse_qs

import pyrage
import pytest
import urllib3

from holdfast import AsyncClient, AsyncLocalProvider, ClientConfig
from holdfast.config.secret import Secret
from holdfast.content.age.keys import Identity
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.content.codecs import links_of
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import Part
from holdfast.disk.key_files import key_path, write_key
from holdfast.errors import (
    ClientError,
    ConfigError,
    NoKeyError,
    NotAFileError,
    NotEncryptedError,
    ProviderError,
    RequestTimeoutError,
    UnprovenError,
    UnsupportedError,
)
from holdfast.protocol import pinata
from holdfast.provider import AsyncWrappingProvider
from holdfast.providers import AsyncCopiesProvider
from holdfast.testing import Scripted, ScriptedServer, forward_to, running_node
from tests.fleet import Proxy
from tests.gateways import gateway, kinds
from tests.pinata import files, uploaded, v3_config
from tests.psa import psa_config
from tests.support import config_for, form_parts

MINE, YOURS = (Identity.generate(classic=True) for _ in range(2))
QUANTUM = Identity.generate()
STRANGER = Identity.generate(classic=True)
CONTENT = os.urandom(300_000)
NO_JOBS = {"data": {"jobs": []}}
YOU = [YOURS.recipient.text]


def mine(client):
    return client.encrypted(identities=[MINE.text])


def yours(client):
    return client.encrypted(identities=[YOURS.text])


async def read(view, cid):
    return (await view.download(cid)).read()


async def assert_shared(client, old, new, content):
    """The new CID opens for both of us, the old one for me alone, and both are pinned."""
    assert await read(yours(client), new) == await read(mine(client), new) == content
    assert await read(mine(client), old) == content
    with pytest.raises(NoKeyError):
        await read(yours(client), old)
    assert await mine(client).readers(new) == {"X25519": 2}


def blocks_of(client, cid):
    """The links of the node `cid`, and the size of its block."""
    block = client.provider.repository.block(CID.parse(cid))
    return [link.cid for link in links_of(CID.parse(cid), block)], len(block)


def blocks_in(client):
    """How many blocks a store has, and their bytes."""
    with client.provider.repository._database.reading() as connection:
        return connection.execute("SELECT count(*), sum(size) FROM blocks").fetchone()


def fetch(url):
    return urllib3.request("GET", url).data


class CountingProxy(Proxy):
    """Counts the bytes in the bodies of the requests that it forwards."""

    def __init__(self, target):
        super().__init__(target)
        self.bodies = 0
        self.fault = self._count

    def _count(self, request, forward):
        self.bodies += len(request.body)
        return forward(request)


async def test_a_new_reader_is_a_new_header_and_a_new_root(local):
    view, seen = mine(local), []
    record = await view.upload(CONTENT)
    count, size = blocks_in(local)
    shared = await view.share(record.cid, YOU, progress=lambda *args: seen.append(args))
    assert (shared.size, shared.data, shared.duplicate) == (len(CONTENT), None, False)
    assert seen == [(0, 1), (1, 1)]
    (_, payload), _ = blocks_of(local, record.cid)
    (header, new_payload), root_size = blocks_of(local, shared.cid)
    assert new_payload == payload
    header_size = len(local.provider.repository.block(header))
    assert blocks_in(local) == (count + 2, size + header_size + root_size)
    assert header_size + root_size < 500
    await assert_shared(local, record.cid, shared.cid, CONTENT)
    assert {pin.cid for pin in await local.pins()} == {record.cid, shared.cid}


async def test_a_new_reader_can_share_too_and_a_pin_has_only_the_name_that_is_given(local):
    record = await mine(local).store({"tide": "high"})
    shared = await mine(local).share(record.cid, YOU)
    (newest, _) = await local.pins()
    assert newest.name.endswith(".age")
    third = [STRANGER.recipient.text, MINE.recipient.text, MINE.recipient.text]
    again = await yours(local).share(shared.cid, third, name="tides", keyvalues={"kind": "sea"})
    assert await local.encrypted(identities=[STRANGER.text]).retrieve(again.cid) == {"tide": "high"}
    assert await mine(local).readers(again.cid) == {"X25519": 4}
    (newest, *_) = await local.pins()
    assert (newest.cid, newest.name, newest.keyvalues) == (again.cid, "tides", {"kind": "sea"})


async def test_post_quantum_readers_are_added_to_their_like(local):
    view = local.encrypted(identities=[QUANTUM.text])
    record = await view.upload(b"hello")
    other = Identity.generate()
    shared = await view.share(record.cid, [other.recipient.text])
    assert await read(local.encrypted(identities=[other.text]), shared.cid) == b"hello"
    assert await view.readers(shared.cid) == {"mlkem768x25519": 2}
    with pytest.raises(ConfigError, match="cannot share a file"):
        await view.share(record.cid, YOU)


@pytest.mark.parametrize("layout", [{"cid_version": 0}, {"profile": "unixfs-v1-2025"}])
async def test_a_file_in_another_layout_is_stored_again_in_ours(local, layout):
    """It stays encrypted. From then on, a new reader is two blocks."""
    record = await mine(local).upload(CONTENT)
    encrypted = await read(local, record.cid)
    plain = await local.with_options(**layout).upload(encrypted)
    shared = await mine(local).share(plain.cid, YOU)
    await assert_shared(local, plain.cid, shared.cid, CONTENT)
    assert len(blocks_of(local, shared.cid)[0]) == 2
    count, _ = blocks_in(local)
    await mine(local).share(shared.cid, [STRANGER.recipient.text])
    assert blocks_in(local)[0] == count + 2


@pytest.fixture
def folder(tmp_path):
    """A folder with a large directory, which is sharded, links, and a file that is there twice."""
    folder = tmp_path / "folder"
    (folder / "below/deep").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "below/deep/a.bin").write_bytes(CONTENT)
    (folder / "below/link").symlink_to("deep/a.bin")
    (folder / "ö.txt").write_text("hello")
    return folder


def contents(folder):
    paths = sorted(folder.rglob("*"))
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else path.is_dir()
        for path in paths
    }


async def test_a_folder_gets_a_new_header_for_every_file(local, folder, tmp_path):
    seen = []
    record = await mine(local).upload(folder)
    shared = await mine(local).share(
        record.cid, YOU, name="for you", progress=lambda *args: seen.append(args)
    )
    assert seen == [(0, 2), (1, 2), (2, 2)]
    assert shared.size == len(CONTENT) + len("hello")
    await yours(local).download_folder(shared.cid, to=tmp_path / "out", symlinks=True)
    assert contents(tmp_path / "out") == contents(folder)
    with pytest.raises(NoKeyError):
        await read(yours(local), f"{record.cid}/ö.txt")
    (newest, _) = await local.pins()
    assert (newest.name, newest.type) == ("for you", "directory")
    with pytest.raises(NotAFileError, match="read a file in it by its path"):
        await mine(local).readers(shared.cid)
    assert await mine(local).readers(f"{shared.cid}/below/deep/a.bin") == {"X25519": 2}


async def test_one_file_of_a_folder_is_shared_by_its_path(local, folder):
    record = await mine(local).upload(folder)
    shared = await mine(local).share(f"{record.cid}/below/deep/a.bin", YOU)
    assert await read(yours(local), shared.cid) == CONTENT


@pytest.mark.slow
async def test_a_sharded_directory_stays_one(local, tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(3000):
        (folder / f"{'name' * 20}-{number}").write_bytes(b"%d" % number)
    record = await mine(local).upload(folder)
    assert len(blocks_of(local, record.cid)[0]) == 256
    shared = await mine(local).share(record.cid, YOU)
    assert len(blocks_of(local, shared.cid)[0]) == 256
    assert await read(yours(local), f"{shared.cid}/{'name' * 20}-2999") == b"2999"
    names = {entry.name for entry in await local.entries(shared.cid)}
    assert names == {path.name for path in folder.iterdir()}


async def test_a_file_that_two_names_lead_to_is_shared_once(local):
    record = await mine(local).upload(b"hello")
    part = Part(CID.parse(record.cid), 0, 500)
    with local.provider.repository.adding() as adding:
        inner = build_directory([(b"a", part), (b"b", part)], UNIXFS_V1_2025, adding.put)
        outer = [(b"one", inner), (b"two", inner), (b"three", part)]
        root = build_directory(outer, UNIXFS_V1_2025, adding.put).cid
        adding.pin(root, size=1)
    seen = []
    shared = await mine(local).share(str(root), YOU, progress=lambda *args: seen.append(args))
    assert seen == [(0, 1), (1, 1)]
    for path in ("one/a", "two/b", "three"):
        assert await read(yours(local), f"{shared.cid}/{path}") == b"hello"


async def test_what_cannot_be_opened_is_an_error_and_nothing_is_pinned(local, folder):
    record = await mine(local).upload(folder)
    plain = await local.upload(folder)
    pins = await local.pins()
    with pytest.raises(NoKeyError):
        await yours(local).share(record.cid, YOU)
    with pytest.raises(NotEncryptedError) as caught:
        await mine(local).share(plain.cid, YOU)
    (note,) = caught.value.__notes__
    assert note.removeprefix(f"this error is about {plain.cid}/") in ("ö.txt", "below/deep/a.bin")
    with pytest.raises(NotEncryptedError):
        await mine(local).readers(f"{plain.cid}/ö.txt")
    assert await local.pins() == pins


async def test_a_client_without_keys_says_so(local):
    record = await mine(local).upload(b"hello")
    with pytest.raises(UnsupportedError, match="has no keys"):
        await local.share(record.cid, YOU)
    with pytest.raises(UnsupportedError, match="has no keys"):
        await local.readers(record.cid)


@pytest.mark.parametrize("form", [str, Secret, lambda text: [text], lambda text: [Secret(text)]])
async def test_an_identity_by_mistake_is_an_error_that_does_not_show_it(local, form):
    record = await mine(local).store("low tide")
    secret = YOURS.text.reveal()
    for client, cid in ((mine(local), record.cid), (mine(local), "wrong"), (local, record.cid)):
        with pytest.raises(ClientError) as caught:
            await client.share(cid, form(secret))
        frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
        ours = [frame for frame in frames if frame.f_code.co_filename != __file__]
        assert secret not in f"{caught.value}{[frame.f_locals for frame in ours]}"
        assert client is local or cid == "wrong" or "holds an identity" in str(caught.value)
    assert len(await local.pins()) == 1


async def test_recipients_that_are_none_are_an_error(local):
    record = await mine(local).store("low tide")
    for wrong in (None, [], "", [None], YOURS, [YOURS], ["age1wrong" * 50]):
        with pytest.raises(ConfigError, match="recipient"):
            await mine(local).share(record.cid, wrong)
    shared = await mine(local).share(record.cid, YOURS.recipient.text)
    assert await yours(local).retrieve(shared.cid) == "low tide"


async def test_nothing_is_pinned_if_the_payload_is_not_there_in_full(local):
    record = await mine(local).upload(CONTENT * 4)
    (_, payload), _ = blocks_of(local, record.cid)
    with local.provider.repository._database.writing() as connection:
        key = links_of(payload, local.provider.repository.block(payload))[1].cid.key
        connection.execute("DELETE FROM blocks WHERE key = ?", (key,))
    with pytest.raises(UnprovenError, match="is missing") as caught:
        await mine(local).share(record.cid, YOU)
    assert f"all of {record.cid} must be there; if it is not, pin it first" in str(
        caught.value.__notes__
    )
    assert [pin.cid for pin in await local.pins()] == [record.cid]


# Providers that cut files in their own way


@pytest.fixture(scope="module")
def cutting_node():
    with running_node() as node:
        yield node


async def test_a_provider_that_cuts_files_itself_says_what_to_do(server, cutting_node):
    private = v3_config(server, network="private")
    for config in (cutting_node.config, private, psa_config(server)):
        async with AsyncClient.init(config) as client:
            with pytest.raises(UnsupportedError, match=r"such as kubo"):
                await mine(client).share("bafkqaaa", YOU)
    assert server.requests == []


async def test_copies_name_the_member_that_is_in_the_way(cutting_node, local, tmp_path):
    async with AsyncClient.init(cutting_node.config) as other:
        provider = AsyncCopiesProvider(
            [local, other], names=["disk", "service"], sites=["a", "b"], path=tmp_path / "ledger"
        )
        async with AsyncClient(provider) as client:
            with pytest.raises(UnsupportedError, match="service cuts files in its own way; "):
                await mine(client).share("bafkqaaa", YOU)
        await provider.aclose()


async def test_a_service_gets_the_whole_archive_and_lists_it_later(cutting_node):
    config = cutting_node.config.with_options(provider="pinata")
    async with AsyncClient.init(config) as client:
        record = await mine(client).upload(CONTENT)
        shared = await mine(client).share(record.cid, YOU, name="for you", keyvalues={"a": "1"})
        await assert_shared(client, record.cid, shared.cid, CONTENT)
        (shared_pin,) = await client.pins(cid=shared.cid)
        assert (shared_pin.name, shared_pin.keyvalues) == ("for you", {"a": "1"})
        again = await yours(client).share(shared.cid, [STRANGER.recipient.text])
        assert await read(mine(client), again.cid) == CONTENT


async def test_a_service_that_does_not_list_the_archive_in_time_is_an_error(cutting_node):
    forward = forward_to(cutting_node.api_url)
    archives = []

    def script(request):
        if "/ipfs/" in request.target or (not archives and request.method == "GET"):
            return forward(request)
        if request.method == "GET":
            return Scripted(body=files() if "pin_by_cid" not in request.target else NO_JOBS)
        archives.append({head.split('name="')[1].split('"')[0] for head, _ in form_parts(request)})
        return Scripted(body=uploaded())

    async with AsyncClient.init(cutting_node.config) as client:
        record = await mine(client).upload(b"hello")
    with ScriptedServer(script) as server:
        config = v3_config(server, timeouts={"total": 0.5})
        async with AsyncClient.init(config) as client:
            with pytest.raises(RequestTimeoutError, match="has not listed"):
                await mine(client).share(record.cid, YOU)
    assert archives == [{"network", "cid_version", "name", "car", "file"}]


async def test_an_archive_that_is_too_large_for_a_form_is_refused_before_it_is_sent(
    cutting_node, monkeypatch
):
    config = cutting_node.config.with_options(provider="pinata")
    async with AsyncClient.init(config) as client:
        record = await mine(client).upload(CONTENT)
        monkeypatch.setattr(pinata, "LARGEST_FORM", 1000)
        with pytest.raises(UnsupportedError, match="upload it for all readers"):
            await mine(client).share(record.cid, YOU)
        assert [pin.cid for pin in await client.pins(name=".age", limit=1)] == [record.cid]


# Gateways that give neither blocks nor archives


@pytest.mark.parametrize("size", [0, 1_500_000])
async def test_a_gateway_of_plain_bytes_is_enough_to_verify_a_file_of_ours(
    local, cutting_node, size
):
    record = await mine(local).upload(bytes(size))
    archive = local.provider.repository.export_car(CID.parse(record.cid))
    cutting_node.repository.import_car(archive)
    for refused in (("raw", "car"), ("car",)):
        with gateway(cutting_node, refuse=refused) as server:
            config = config_for(server)
            async with AsyncClient.init(config) as client:
                blob = await client.encrypted(identities=[MINE.text]).download(record.cid)
                assert blob.read() == bytes(size)
            assert "plain" in kinds(server)


# Copies


class Receiving(AsyncWrappingProvider):
    """Counts the bytes of the archives that a store gets."""

    def __init__(self, inner):
        super().__init__(inner)
        self.archives = []  # copies of the wrapper share it

    async def add(self, content, info, call, progress, /):
        added = await super().add(content, info, call, progress)
        self.archives.append(content.bytes_read)
        return added


@pytest.fixture
async def copies(tmp_path):
    """A client of two stores, and the clients of both."""
    stores = [AsyncLocalProvider(ClientConfig(path=tmp_path / name)) for name in "ab"]
    members = [AsyncClient(Receiving(store)) for store in stores]
    provider = AsyncCopiesProvider(
        members, sites=["a", "b"], names=["a", "b"], path=tmp_path / "ledger", need=2
    )
    yield AsyncClient(provider), members
    await provider.aclose()
    for store in stores:
        await store.aclose()


async def test_every_copy_gets_the_new_blocks_alone(copies):
    client, members = copies
    record = await mine(client).upload(CONTENT)
    shared = await mine(client).share(record.cid, YOU, name="for you")
    for member in members:
        whole, part = member.provider.archives
        assert part < 1024 < len(CONTENT) < whole
    await assert_shared(client, record.cid, shared.cid, CONTENT)
    for member in members:
        (newest, _) = await member.pins()
        assert (newest.cid, newest.name) == (shared.cid, "for you")
        await assert_shared(member, record.cid, shared.cid, CONTENT)
    (listed, _) = await client.pins()
    assert listed.peers == {"a": "proven", "b": "proven"}
    assert (listed.size, listed.type) == (newest.size, "application/octet-stream")


async def test_a_copy_that_has_lost_the_payload_gets_all_of_it(copies):
    client, members = copies
    record = await mine(client).upload(CONTENT)
    await members[1].revoke(record.cid)
    members[1].provider.inner.repository.collect_garbage()
    shared = await mine(client).share(record.cid, YOU)
    assert [len(member.provider.archives) for member in members] == [2, 2]
    assert members[1].provider.archives[-1] > len(CONTENT) > members[0].provider.archives[-1]
    await assert_shared(members[0], record.cid, shared.cid, CONTENT)
    assert await read(yours(members[1]), shared.cid) == CONTENT


# Real engines


def header_size(data):
    """The bytes of the header of an age file."""
    return data.index(b"\n---") + 1 + 48


def nodes_of(client, cid):
    """An archive of a file that has only the first leaf of its payload."""
    (header, payload), _ = blocks_of(client, cid)
    some = [CID.parse(cid), header, payload, blocks_of(client, str(payload))[0][0]]
    repository = client.provider.repository
    return b"".join(write_car(some[:1], [(cid, repository.block(cid)) for cid in some]))


async def assert_little_is_sent(client, proxies, content):
    """Share `content` at a provider behind `proxies`; return both CIDs."""
    record = await mine(client).upload(content)
    before = [proxy.bodies for proxy in proxies]
    shared = await mine(client).share(record.cid, YOU)
    sent = sum(proxy.bodies for proxy in proxies) - sum(before)
    await assert_shared(client, record.cid, shared.cid, content)
    root_size = 109
    limit = header_size(await read(client, shared.cid)) + root_size + 1024
    assert 0 < sent < limit * len([proxy for proxy in proxies if proxy.bodies])
    return record.cid, shared.cid


async def test_kubo_gets_the_new_header_and_root_and_less_than_a_kibibyte_besides(kubo):
    with CountingProxy(kubo.api_url) as proxy:
        config = kubo.provider_config(pin_api_url=proxy.url)
        async with AsyncClient.init(config) as client:
            _, shared = await assert_little_is_sent(client, [proxy], CONTENT * 4)
    key = pyrage.x25519.Identity.from_str(YOURS.text.reveal())
    assert pyrage.decrypt(kubo.call("cat", arg=shared), [key]) == CONTENT * 4


async def test_kubo_pins_nothing_if_the_payload_is_not_there_in_full(kubo, local):
    record = await mine(local).upload(CONTENT * 4)
    archive = nodes_of(local, record.cid)
    kubo.call("dag/import", ("a.car", archive), pin_roots=False)
    async with AsyncClient.init(kubo.provider_config()) as client:
        before = {pin.cid for pin in await client.pins()}
        with pytest.raises(ProviderError, match="could not pin it: block was not found locally"):
            await mine(client).share(record.cid, YOU)
        assert {pin.cid for pin in await client.pins()} == before


@pytest.mark.slow
async def test_the_nodes_of_a_cluster_that_have_the_payload_get_the_new_blocks(cluster):
    with ExitStack() as stack:
        proxies = [stack.enter_context(CountingProxy(url)) for url in cluster.api_urls]
        config = cluster.provider_config(pin_api_url=[proxy.url for proxy in proxies])
        async with AsyncClient.init(config) as client:
            cids = await assert_little_is_sent(client, proxies, CONTENT * 4)
            (pin,) = await client.pins(cid=cids[1])
            assert [*pin.peers.values()] == ["pinned"] * 2
        old = json.loads(fetch(f"{cluster.api_urls[0]}/allocations/{cids[0]}"))
        targets = [target for proxy in proxies for _, target in proxy.seen]
        added = [parse_qs(target) for target in targets if target.startswith("/add?")]
        (chosen,) = [query["user-allocations"] for query in added if "user-allocations" in query]
        assert chosen == [",".join(old["allocations"])]


@pytest.mark.slow
async def test_a_cluster_pins_nothing_if_the_payload_is_nowhere(cluster, local):
    record = await mine(local).upload(CONTENT * 4)
    archive = nodes_of(local, record.cid)
    for peer in cluster.peers:
        peer.kubo.call("dag/import", ("a.car", archive), pin_roots=False)
    async with AsyncClient.init(cluster.provider_config(timeouts={"total": 4})) as client:
        before = {pin.cid for pin in await client.pins()}
        with pytest.raises(RequestTimeoutError, match="is on 0 of 2 peers"):
            await mine(client).share(record.cid, YOU)
        assert {pin.cid for pin in await client.pins()} == before


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_copies_on_kubo_and_cluster_get_the_new_blocks_alone(kubo, cluster, tmp_path):
    with ExitStack() as stack:
        proxies = [
            stack.enter_context(CountingProxy(url)) for url in (kubo.api_url, *cluster.api_urls)
        ]
        first, *others = [proxy.url for proxy in proxies]
        members = [
            await AsyncClient.init(kubo.provider_config(pin_api_url=first)),
            await AsyncClient.init(cluster.provider_config(pin_api_url=others)),
        ]
        provider = AsyncCopiesProvider(
            members, sites=["a", "b"], path=tmp_path / "ledger", need=2, want=2
        )
        client = AsyncClient(provider)
        old, new = await assert_little_is_sent(client, proxies, CONTENT * 4)
        for member in members:
            await assert_shared(member, old, new, CONTENT * 4)
        await provider.aclose()
        for member in members:
            await member.aclose()


@pytest.mark.usefixtures("home")
async def test_a_new_reader_may_be_the_name_of_a_key_or_a_key_file(tmp_path, local):
    write_key(key_path("yours"), YOURS)
    record = await mine(local).store([1])
    file = tmp_path / "key.txt"
    file.write_text(f"# {YOURS.recipient.text}\n{YOURS.recipient.text}\n")
    for name in ("yours", str(file)):
        shared = await mine(local).share(record.cid, name)
        assert await yours(local).retrieve(shared.cid) == [1]
    with pytest.raises(ConfigError, match=r"the key file .*/theirs\.txt: it cannot be read"):
        await mine(local).share(record.cid, ["theirs"])
