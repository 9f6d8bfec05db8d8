"""Looking into directories: entries, stat, and paths everywhere, from a store and by gateways."""

import json
from dataclasses import replace

import pytest

from holdfast import AsyncClient, compute_cid, errors
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.content.profiles import PROFILES, UNIXFS_V1_2025
from holdfast.protocol.gateway import RAW_TYPE
from holdfast.records import Entry
from holdfast.testing import Scripted, ScriptedServer
from tests._async.reading import client_of
from tests._async.test_base_provider import AsyncDictProvider
from tests.content import Blocks
from tests.dags import Dag, block_gateway
from tests.folder_dags import FolderDag
from tests.support import EMPTY_DIRECTORY_V0, HELLO_CID

DOCUMENT = {"name": "Zoë"}
LARGE = b"x" * 3_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("browsing") / "root"
    (root / "sub folder" / "deep").mkdir(parents=True)
    (root / "hello.txt").write_bytes(b"hello")
    (root / "large.bin").write_bytes(LARGE)
    (root / "link").symlink_to("sub folder/deep")
    (root / "sub folder" / "deep" / "a%20?.json").write_text(json.dumps(DOCUMENT))
    return root


@pytest.fixture(params=["local", "gateway"])
async def client(request, node):
    """A client that reads what `node.repository` has, from the store itself or by its gateway."""
    config = {"path": node.repository.path} if request.param == "local" else node.config
    async with await AsyncClient.init(config) as client:
        yield client


@pytest.fixture(params=[0, 1], ids=["v0", "v1"])
def stored(request, node, folder):
    """The CID of the folder in the store of the node."""
    profile = "unixfs-v1-2025" if request.param else "unixfs-v0-2015"
    pin, _ = node.repository.add(folder, PROFILES[profile])
    assert pin.cid == compute_cid(folder, profile=profile)
    return pin.cid


def put_sharded(node, files):
    """Put a sharded directory of `files` into the store of the node; return its CID."""
    dag = FolderDag()
    root = dag.shard(*((name, dag.file(content)) for name, content in files.items()))
    node.repository.import_car(write_car([root], dag.items()))
    return str(root)


# Entries


async def test_details_give_kinds_and_sizes(client, stored):
    entries = await client.entries(stored, details=True)
    assert [(entry.name, entry.kind, entry.size) for entry in entries] == [
        ("hello.txt", "file", 5),
        ("large.bin", "file", len(LARGE)),
        ("link", "symlink", len("sub folder/deep")),
        ("sub folder", "directory", None),
    ]
    for entry in entries:
        assert await client.stat(f"{stored}/{entry.name}") == entry


async def test_without_details_only_raw_blocks_have_a_size(client, stored):
    plain = await client.entries(stored)
    detailed = await client.entries(stored, details=True)
    first, *others = [replace(entry, kind=None, size=None) for entry in detailed]
    assert plain == [detailed[0] if stored.startswith("b") else first, *others]


@pytest.mark.slow
async def test_a_sharded_directory_streams_and_is_searched(client, node):
    files = {f"{number}.json": b'{"number": %d}' % number for number in range(1000)}
    cid = put_sharded(node, files | {"large": LARGE})
    names = [entry.name async for entry in client.iter_entries(cid)]
    assert sorted(names) == sorted([*files, "large"])
    details = {entry.name: entry async for entry in client.iter_entries(cid, details=True)}
    assert details["large"].size == len(LARGE)
    assert details["7.json"] == await client.stat(f"{cid}/7.json")
    assert await client.retrieve(f"{cid}/77.json") == {"number": 77}
    assert (await client.download(f"{cid}/large")).size == len(LARGE)
    async with await client.open(f"{cid}/large") as file:
        file.seek(-3, 2)
        assert await file.read() == b"xxx"
    assert (await client.stat(cid)).kind == "directory"
    with pytest.raises(errors.NotFoundError, match=r"there is no 'other'"):
        await client.stat(f"{cid}/other")


async def test_many_details_come_in_the_order_of_the_directory(client, node):
    dag = FolderDag()
    root = dag.folder(
        *((f"{n:03}", dag.folder() if n % 3 else dag.file(b"%d" % n)) for n in range(150))
    )
    node.repository.import_car(write_car([root], dag.items()))
    entries = await client.entries(str(root), details=True)
    assert [entry.name for entry in entries] == [f"{number:03}" for number in range(150)]
    assert [entry.kind for entry in entries] == ["file", "directory", "directory"] * 50


async def test_entries_that_cannot_be_read_have_no_kind():
    """Of another codec, or with a hash function that is not supported."""
    blocks = FolderDag()
    cids = [CID(1, 0x78, 0x12, bytes(32)), CID(1, 0x70, 0x1D, bytes(32))]
    root = blocks.folder(*((str(n), cid) for n, cid in enumerate(cids)))
    async with client_of(serving(blocks)) as (client, _):
        entries = await client.entries(str(root), details=True)
    assert entries == [Entry(name=str(n), cid=str(cid)) for n, cid in enumerate(cids)]


# One entry


async def test_the_content_of_an_identity_cid(client):
    assert await client.stat("bafkqaaa") == Entry(name="", cid="bafkqaaa", kind="file", size=0)
    with pytest.raises(errors.InvalidCIDError):
        await client.stat("bafkqabik")


async def test_stat_of_the_content_itself(client, node, stored):
    assert await client.stat(stored) == Entry(name="", cid=stored, kind="directory")
    pin, _ = node.repository.add(b"hello", UNIXFS_V1_2025)
    assert await client.stat(f"/ipfs/{pin.cid}") == Entry(
        name="", cid=HELLO_CID, kind="file", size=5
    )
    with pytest.raises(errors.NotFoundError):
        await client.stat(compute_cid(b"nobody has this"))


async def test_only_the_root_of_a_large_file_is_read():
    root, blocks = Blocks.of_file(LARGE, UNIXFS_V1_2025)
    async with client_of(serving(blocks)) as (client, server):
        assert (await client.stat(str(root))).size == len(LARGE)
        assert len(server.requests) == 1


# Files and directories in each other's place


async def test_a_directory_is_no_file(client, stored):
    for path in (stored, f"{stored}/sub folder"):
        for read in (client.retrieve, client.download, client.open):
            with pytest.raises(errors.NotAFileError, match=r"is a directory; .*download_folder"):
                await read(path)


async def test_a_path_through_a_file_leads_nowhere(client, stored):
    for read in (client.retrieve, client.download, client.open, client.stat, client.entries):
        with pytest.raises(errors.NotFoundError, match="is not a directory"):
            await read(f"{stored}/hello.txt/x")
    with pytest.raises(errors.NotFoundError, match="is not a directory"):
        await client.entries(f"{stored}/hello.txt")


async def test_folders_and_documents_are_read_by_their_paths(client, stored):
    (deep,) = await client.entries(f"https://ipfs.io/ipfs/{stored}/sub%20folder/?x=1")
    (entry,) = await client.entries(f"{stored}/sub folder/deep")
    assert (deep.name, entry.name) == ("deep", "a%20?.json")
    path = f"{stored}/sub folder/deep/a%2520%3F.json"
    assert await client.retrieve(path) == DOCUMENT
    assert (await client.download(path)).name == "a%20?.json"
    assert (await client.stat(path)).name == "a%20?.json"


# Arguments, and providers without it


async def test_wrong_arguments_are_errors_before_the_first_entry(client):
    with pytest.raises(errors.InvalidCIDError):
        client.iter_entries("nonsense")
    with pytest.raises(errors.InvalidCIDError):
        await client.stat("nonsense")
    await client.aclose()
    with pytest.raises(errors.ClientClosedError):
        client.iter_entries(HELLO_CID)


class Blind(AsyncDictProvider):
    def supports(self, operation):
        return operation not in ("iter_entries", "stat") and super().supports(operation)


async def test_a_provider_that_cannot_look_says_so():
    client = AsyncClient(Blind())
    with pytest.raises(errors.UnsupportedError, match="cannot list directories"):
        client.iter_entries(HELLO_CID)
    with pytest.raises(errors.UnsupportedError, match="cannot list directories"):
        await client.stat(HELLO_CID)


# Gateways, which are asked block by block


def serving(blocks):
    return ScriptedServer(block_gateway(blocks))


@pytest.fixture
def dag():
    """A directory with a file, in another directory: `dag.root`, `dag.inner_root`."""
    dag = Dag()
    dag.inner_root = dag.directory(a=dag.raw(b"hello"))
    dag.root = dag.directory(sub=dag.inner_root)
    return dag


async def test_a_sharded_directory_is_listed_shard_by_shard():
    blocks = FolderDag()
    names = [f"file {number}" for number in range(500)]
    root = blocks.shard(*((name, CID.of_raw(b"hello")) for name in names))
    async with client_of(serving(blocks)) as (client, server):
        entries = client.iter_entries(str(root))
        assert server.requests == []
        first = await anext(entries)
        assert len(server.requests) <= 10
        listed = [first, *[entry async for entry in entries]]
    assert len(server.requests) == len(blocks) > 50
    assert [entry.name for entry in listed] == [entry.name for entry in blocks.list(root)]
    assert sorted(entry.name for entry in listed) == sorted(names)


async def test_the_next_gateway_is_asked_where_one_lies_fails_or_has_no_blocks(dag):
    gateways = [
        serving(dict.fromkeys(dag.blocks, b"a lie")),
        ScriptedServer(lambda _: Scripted(status=406)),
        ScriptedServer(lambda _: Scripted(hang_up=True)),
        serving(dag.blocks),
    ]
    async with client_of(*gateways) as (client, liar, *others):
        assert [entry.name for entry in await client.entries(f"{dag.root}/sub")] == ["a"]
        # The gateway that gave a block is the first one to be asked for the next.
        assert [len(server.requests) for server in (liar, *others)] == [1, 1, 1, 2]
        await client.entries(str(dag.root))
    assert len(liar.requests) == 1  # it comes last for a while


async def test_a_gateway_that_is_busy_is_asked_again(dag):
    replies = [Scripted(status=503)]
    serve = block_gateway(dag.blocks)
    busy = ScriptedServer(lambda request: replies.pop() if replies else serve(request))
    retries = {"attempts": 3, "base": 0.01, "cap": 0.02}
    async with client_of(busy, retries=retries) as (client, server):
        assert [entry.name for entry in await client.entries(str(dag.root))] == ["sub"]
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        (Scripted(status=406), errors.ProviderError, "HTTP error 406"),
        (
            Scripted(body=b"<html>"),
            errors.UnprovenError,
            "cannot be listed: .* does not serve blocks",
        ),
        (
            Scripted(body=b"?", headers={"Content-Type": RAW_TYPE}),
            errors.VerificationError,
            "does not match its CID",
        ),
        (Scripted(hang_up=True), errors.NetworkError, "broke"),
    ],
    ids=["refused", "plain content", "wrong block", "broken"],
)
async def test_what_a_gateway_says_instead_of_a_block(reply, error, words):
    async with client_of(ScriptedServer(lambda _: reply)) as (client, server):
        with pytest.raises(error, match=words):
            await client.entries(EMPTY_DIRECTORY_V0)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Scripted(body=b"<html>"), errors.UnprovenError),
        (Scripted(status=403, body=b"ERR_ID:00006"), errors.PermissionDeniedError),
    ],
    ids=["plain content", "refused"],
)
async def test_a_gateway_without_the_blocks_is_told_clearly(dag, reply, error):
    """Such as one that gives only ROOT/PATH, and none of the CIDs below the root."""
    serve = block_gateway(dag.blocks)
    stingy = ScriptedServer(
        lambda request: serve(request) if str(dag.root) in request.target else reply
    )
    async with client_of(stingy) as (client, server):
        assert [entry.name for entry in await client.entries(str(dag.root))] == ["sub"]
        for look in (client.entries, client.stat):
            with pytest.raises(error) as caught:
                await look(f"{dag.root}/sub")
            words = " ".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
            assert "add a gateway that does" in words
            assert server.url in words


# Between two pages


@pytest.mark.slow
async def test_nothing_is_held_while_the_caller_works(node):
    cid = put_sharded(node, {f"{number}": b"%d" % number for number in range(300)})
    events = []
    async with await AsyncClient.init(node.config, on_event=events.append) as client:
        begun = []
        for _ in range(110):  # more than calls at once
            entries = client.iter_entries(cid)
            await anext(entries)
            begun.append(entries)
        assert len([entry async for entry in begun[0]]) == 299
        for entries in begun:
            await entries.aclose()
        assert (await client.stat(cid)).kind == "directory"
    # A page is a call of its own.
    calls = [(call.operation, call.cid, call.error) for call in events if call.kind == "call"]
    assert len(calls) > 111
    assert set(calls[:-1]) == {("entries", cid, None)}
    assert calls[-1] == ("stat", cid, None)
