"""Content that is not UnixFS: values of dag-cbor, dag-json, cbor and json, and paths in them."""

import pytest

from holdfast import AsyncClient
from holdfast.content import CID, dag_cbor
from holdfast.content.cid import DAG_CBOR
from holdfast.errors import (
    MalformedError,
    NotAFolderError,
    NotFoundError,
    SerializationError,
    VerificationError,
)
from holdfast.testing import ScriptedServer
from tests._async.reading import client_of
from tests.folder_dags import serving
from tests.value_dags import NOTE, PHOTO, ValueDag

DAG = ValueDag()
VALUES = {
    "root": (f"{DAG.cbor}", DAG.value),
    "root of dag-json": (f"{DAG.json}", {"token": DAG.cbor, "n": [1, 2]}),
    "root of cbor": (f"{DAG.plain['cbor']}", {"a": [1, b"x"], "salt": ""}),
    "root of json": (f"{DAG.plain['json']}", {"a": [1, "x"], "salt": ""}),
    "inside": (f"{DAG.cbor}/files/1/size", 1.5),
    "inside, null": (f"/ipfs/{DAG.cbor}/files/1/none", None),
    "inside plain": (f"{DAG.plain['cbor']}/a/1", b"x"),
    "through a link": (f"{DAG.json}/token", DAG.value),
    "through a link, inside": (f"{DAG.json}/token/raw", b"\0\xff"),
    "value -> UnixFS": (f"{DAG.json}/token/files/0/note.json", {"note": True}),
    "UnixFS -> value": (f"{DAG.top}/cbor", DAG.value),
    "UnixFS -> value -> inside": (f"{DAG.top}/cbor/files/1", {"size": 1.5, "none": None}),
    "UnixFS -> value -> value -> inside": (f"{DAG.top}/json/token/name", "token "),
    "UnixFS -> value -> UnixFS": (f"{DAG.top}/json/token/files/0/note.json", {"note": True}),
}


@pytest.fixture
async def local(local):
    """A store that has the DAG."""
    for root in DAG.roots.values():
        local.provider.repository.import_car([DAG.archive(root)])
    return local


KINDS = {
    "gateway": ("raw", "car", "plain"),
    "blocks only": ("raw",),
    "no archives": ("raw", "plain"),
}


@pytest.fixture(params=["local", *KINDS])
async def reader(request, local):
    """A client that reads the DAG: from a store, or through a gateway of some kind."""
    if request.param == "local":
        yield local
        return
    server = ScriptedServer(serving(DAG, kinds=KINDS[request.param]))
    async with client_of(server) as (client, _):
        yield client


async def test_values_are_read_with_their_links_and_bytes(reader):
    retrieved = {name: await reader.retrieve(path) for name, (path, _) in VALUES.items()}
    assert retrieved == {name: value for name, (_, value) in VALUES.items()}
    assert type(retrieved["inside plain"]) is bytes


async def test_files_below_values_and_the_bytes_of_values_are_read(reader, tmp_path):
    assert (await reader.download(f"{DAG.cbor}/image")).read() == PHOTO
    assert (await reader.download(f"{DAG.top}/json/token/files/0/note.json")).read() == NOTE
    for path, block in (
        (DAG.cbor, DAG[DAG.cbor]),
        (f"{DAG.json}/token", DAG[DAG.cbor]),
        (f"{DAG.top}/plain-json", DAG[DAG.plain["json"]]),
    ):
        await reader.download(str(path), to=tmp_path / "block")
        assert (tmp_path / "block").read_bytes() == block
        async with reader.open(str(path)) as file:
            assert await file.read() == block
    async with reader.open(f"{DAG.cbor}/files/0/photo") as file:
        assert await file.read() == PHOTO
    await reader.download_folder(f"{DAG.cbor}/files/0", to=tmp_path / "folder")
    assert (tmp_path / "folder" / "photo").read_bytes() == PHOTO


async def test_a_value_is_a_file_among_entries(reader):
    stat = await reader.stat(str(DAG.cbor))
    assert (stat.kind, stat.size, stat.cid) == ("file", len(DAG[DAG.cbor]), str(DAG.cbor))
    stat = await reader.stat(f"{DAG.json}/token/files/0")
    assert (stat.kind, stat.cid) == ("directory", str(DAG.folder_cid))
    names = [entry.name for entry in await reader.entries(f"{DAG.cbor}/files/0")]
    assert names == ["note.json", "photo"]
    entries = {entry.name: entry for entry in await reader.entries(str(DAG.top), details=True)}
    assert {entry.kind for entry in entries.values()} == {"file"}
    assert entries["cbor"].cid == str(DAG.cbor)
    with pytest.raises(NotAFolderError, match="is not a directory"):
        await reader.entries(str(DAG.cbor))


INSIDE = [f"{DAG.cbor}/files/1/size", f"{DAG.top}/cbor/name"]


@pytest.mark.parametrize("path", INSIDE, ids=["value", "UnixFS -> value"])
async def test_what_is_inside_a_value_is_no_file(local, path, tmp_path):
    """The hint names `retrieve`."""
    to = {"to": tmp_path / "x"}
    for method, options in (
        (local.download, {}),
        (local.download, to),
        (local.download_folder, to),
        (local.stat, {}),
        (local.entries, {}),
    ):
        with pytest.raises(NotFoundError, match="is a value inside") as caught:
            await method(path, **options)
        assert "`retrieve` returns it" in str(caught.value.__notes__)
    assert not (tmp_path / "x").exists()


NOWHERE = [
    f"{DAG.cbor}/nothing",
    f"{DAG.cbor}/files/2",
    f"{DAG.cbor}/name/x",
    f"{DAG.json}/token/files/0/nothing",
    f"{DAG.top}/cbor/nothing",
    f"{DAG.top}/nothing",
]


async def test_a_path_that_leads_nowhere_is_not_found(reader):
    for path in NOWHERE:
        for call in (reader.retrieve, reader.download):
            with pytest.raises(NotFoundError):
                await call(path)


async def test_a_gateway_that_lies_about_a_value_is_caught():
    other = dag_cbor.encode({**DAG.value, "name": "tokem "})
    lies = ValueDag()
    lies[DAG.cbor] = other
    liar = serving(lies, kinds=("raw",))
    async with client_of(*map(ScriptedServer, (liar, serving(DAG)))) as (
        client,
        *_,
    ):
        assert await client.retrieve(str(DAG.cbor)) == DAG.value
        assert await client.retrieve(f"{DAG.json}/token/name") == "token "
    async with client_of(ScriptedServer(liar)) as (client, _):
        for path in (f"{DAG.cbor}", f"{DAG.cbor}/name", f"{DAG.json}/token/name"):
            with pytest.raises(VerificationError):
                await client.retrieve(path)


async def test_a_block_that_is_not_of_its_codec_is_malformed(local):
    """Its bytes can still be downloaded: they match the CID."""
    dag = ValueDag()
    broken = dag.put(b"\xa2\x61b\x01\x61a\x02", DAG_CBOR)
    async with client_of(ScriptedServer(serving(dag))) as (client, _):
        for path in (f"{broken}", f"{broken}/a"):
            with pytest.raises(MalformedError, match="not in order"):
                await client.retrieve(path)
        assert (await client.download(str(broken))).read() == dag[broken]
    with pytest.raises(MalformedError, match="not in order"):
        local.provider.repository.import_car([dag.archive(broken)])


async def test_a_value_has_the_size_limit_of_json(local, tmp_path):
    async with AsyncClient.init(path=tmp_path / "store", max_json_bytes=100) as client:
        with pytest.raises(SerializationError):
            await client.retrieve(str(DAG.cbor))
        with pytest.raises(SerializationError):
            await client.retrieve(f"{DAG.cbor}/name")


async def test_json_that_was_stored_stays_json(local):
    """A map that would be a link in dag-json is a map in the JSON that `store` writes."""
    value = {"/": str(DAG.cbor), "b": {"/": {"bytes": "aGk"}}}
    record = await local.store(value)
    assert await local.retrieve(record.cid) == value
    assert CID.parse(record.cid).codec != DAG_CBOR
    with pytest.raises(SerializationError):
        await local.store({"link": DAG.cbor})
