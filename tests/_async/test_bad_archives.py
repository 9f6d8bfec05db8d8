"""Archives and directories that lie, or bring nothing that is needed, or too slowly (T8, T10).

The decoders' own tests are in `test_bad_content.py`. Here a whole client meets them.
"""

import hashlib
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from holdfast import AsyncClient
from holdfast.content import varint
from holdfast.content.budgets import MAX_UNRELATED
from holdfast.content.car import MAX_SECTION, write_car
from holdfast.content.cid import CID, DAG_PB, IDENTITY, RAW, SHA2_256
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.errors import (
    InvalidCIDError,
    MalformedError,
    NotAFileError,
    NotFoundError,
    RequestTimeoutError,
    UnprovenError,
    VerificationError,
)
from holdfast.protocol.gateway import CAR_TYPE, RAW_TYPE
from holdfast.testing import Scripted, ScriptedServer
from tests.attackers import Attacker
from tests.content import Blocks
from tests.dags import MIB, Dag, archive_gateway, section
from tests.faulty import assert_shows_no_token, patient_config
from tests.folder_dags import FolderDag, on_disk, serving
from tests.support import GATEWAY_TOKEN, config_for

# No known layout cuts a file like this, so its plain body proves nothing.
ODD_CHUNKS = replace(UNIXFS_V1_2025, chunk_size=100_000)
CONTENT = hashlib.shake_128(b"odd").digest(250_000)
ROOT, BLOCKS = Blocks.of_file(CONTENT, ODD_CHUNKS)
LEAVES = [cid for cid in BLOCKS if cid != ROOT]

GOOD = b"".join(write_car([ROOT], [(cid, BLOCKS[cid]) for cid in (ROOT, *LEAVES)]))
HEADER, SECTIONS = GOOD[: GOOD[0] + 1], GOOD[GOOD[0] + 1 :]
CUT_ROOT = bytes(ROOT)[:-1]


def archive_of(*cids):
    return b"".join(write_car([ROOT], [(cid, BLOCKS[cid]) for cid in cids]))


def version_2(inner):
    """`inner` in the wrapping of the second version."""
    place = (51).to_bytes(8, "little") + len(inner).to_bytes(8, "little") + bytes(8)
    return bytes.fromhex("0aa16776657273696f6e02") + bytes(16) + place + inner


TINY = section(bytes(CID(1, RAW, IDENTITY, b"x")) + b"x") * 20_000
SHA1 = CID(1, RAW, 0x11, hashlib.sha1(CONTENT, usedforsecurity=False).digest())
BLAKE3 = CID(1, RAW, 0x1E, bytes(32))
INLINE_LIE = section(bytes(CID(1, RAW, IDENTITY, b"abc")) + b"abd")

BAD_ARCHIVES = {
    "header of 4 GiB": (varint.encode(1 << 32) + GOOD, MalformedError),
    "header of 0": (b"\0" + GOOD, MalformedError),
    "bad version": (section(b"\xa2\x65roots\x80\x67version\x03") + SECTIONS, MalformedError),
    "version 2 cut off": (version_2(GOOD)[:-1], MalformedError),
    "varint of more than ten bytes": (HEADER + b"\xff" * 11 + SECTIONS, MalformedError),
    "non-minimal varint": (HEADER + b"\xa9\x00" + SECTIONS, MalformedError),
    "section over the cap": (HEADER + varint.encode(MAX_SECTION + 1) + SECTIONS, MalformedError),
    "section cut off": (GOOD[:-1], MalformedError),
    "CID cut off": (HEADER + section(CUT_ROOT) + SECTIONS, MalformedError),
    "digest's length lies": (
        HEADER + section(bytes([1, DAG_PB, SHA2_256, 33]) + bytes(33)) + SECTIONS,
        MalformedError,
    ),
    "identity that lies": (HEADER + INLINE_LIE + SECTIONS, VerificationError),
    "block is another": (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), VerificationError),
    "root missing": (archive_of(*LEAVES), UnprovenError),
    "child missing": (archive_of(ROOT, *LEAVES[1:]), UnprovenError),
    "many tiny blocks and nothing else": (HEADER + TINY, UnprovenError),
    "trailing bytes": (GOOD + b"trailing", MalformedError),
    "no archive at all": (b"<html>sorry</html>", MalformedError),
    "empty": (b"", MalformedError),
}

GOOD_ARCHIVES = {
    "as it should be": GOOD,
    "version 2": version_2(GOOD),
    "every block three times": GOOD + SECTIONS * 2,
    "children before their parent": archive_of(*LEAVES, ROOT),
    "many tiny blocks before": HEADER + TINY + SECTIONS,
    "a block that is not needed, of an unknown hash": (
        HEADER + section(bytes(BLAKE3) + b"x") + SECTIONS
    ),
    "a block that is not needed, of sha1": HEADER + section(bytes(SHA1) + CONTENT) + SECTIONS,
}


def gateway_of(archive):
    """A gateway that has the right bytes, gives no blocks, and has this for an archive."""

    def answer(request):
        if "format=raw" in request.target:
            return Scripted(status=406)
        if "format=car" in request.target:
            return Scripted(body=archive, headers={"Content-Type": CAR_TYPE})
        return Scripted(body=CONTENT)

    return ScriptedServer(answer)


async def failed_download(server, reference, folder):
    """The error that a download ends with, having left nothing at its target or on its way."""
    (folder / "target").mkdir()
    config = patient_config(server, gateway_token=GATEWAY_TOKEN, cache_path=folder / "cache")
    start = time.monotonic()
    async with await AsyncClient.init(config) as client:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the caller looks at it
            await client.download(reference, to=folder / "target" / "file")
    assert time.monotonic() - start < 50
    assert list((folder / "target").iterdir()) == []
    assert list((folder / "cache").rglob("*.part")) == []
    assert_shows_no_token(caught.value)
    return caught.value


@pytest.mark.parametrize(("archive", "kind"), BAD_ARCHIVES.values(), ids=BAD_ARCHIVES)
async def test_a_bad_archive_ends_a_download_and_leaves_nothing(tmp_path, archive, kind):
    with gateway_of(archive) as server:
        error = await failed_download(server, str(ROOT), tmp_path)
    assert type(error) is kind
    # The plain body, a block and the archive, each once: what is wrong stays wrong.
    forms = [request.target.partition("format=")[2][:3] for request in server.requests]
    assert forms == ["", "raw", "car"]


@pytest.mark.parametrize("archive", GOOD_ARCHIVES.values(), ids=GOOD_ARCHIVES)
async def test_an_unusual_archive_is_read(tmp_path, archive):
    with gateway_of(archive) as server:
        async with await AsyncClient.init(patient_config(server)) as client:
            await client.download(str(ROOT), to=tmp_path / "file")
        assert len(server.requests) == 3
    assert (tmp_path / "file").read_bytes() == CONTENT


# T10: what stands under a name of a directory. This version writes single files, under names
# that the caller gives; so all that a directory can do is to lead astray.

LEAF = CID.of_raw(b"hello")


@asynccontextmanager
async def client_of(dag, **options):
    """A client of a gateway that has all blocks, and the file "hello"."""
    honest = serving(dag, kinds=("raw",))

    def answer(request):
        return honest(request) if "format=" in request.target else Scripted(body=b"hello")

    with ScriptedServer(answer) as server:
        async with await AsyncClient.init(patient_config(server, **options)) as client:
            yield client


async def failed_path(dag, path, folder):
    """The error of a download of a path from a gateway that has all blocks."""
    with ScriptedServer(serving(dag, kinds=("raw",))) as server:
        return await failed_download(server, path, folder)


@pytest.fixture
def dag():
    dag = FolderDag()
    dag.file(b"hello")
    return dag


NAMES = {
    "backslashes": rb"..\x",
    "drive": rb"C:\x",
    "256 bytes": b"n" * 256,
    "device": b"CON",
    "trailing dot": b"x.",
    "trailing space": b"x ",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_a_name_that_some_system_has_trouble_with_does_not_choose_the_target(
    dag, tmp_path, name
):
    root = dag.folder((name, LEAF))
    quoted = "".join(f"%{byte:02x}" for byte in name)
    async with client_of(dag, cache_path=tmp_path / "cache") as client:
        await client.download(f"{root}/{quoted}", to=tmp_path / "target")
    assert on_disk(tmp_path) == {"target": b"hello", "cache": None, "cache/partial": None}


@pytest.mark.parametrize(
    "name",
    ["..", "%2e%2e", "..%2fx", "%2fabs", "%2f%2func", "a%00b", ".", "%2e", "a%0ab"],
)
async def test_a_path_cannot_ask_for_an_unsafe_name(server, tmp_path, name):
    async with await AsyncClient.init(config_for(server)) as client:
        with pytest.raises(InvalidCIDError, match=r"^Invalid CID$"):
            await client.download(f"{ROOT}/{name}/x", to=tmp_path / "file")
    assert server.requests == []
    assert list(tmp_path.iterdir()) == []


LOOKALIKES = {
    "case": ("File", "file"),
    "NFC and NFD": ("é", "e\u0301"),
}


@pytest.mark.parametrize("names", LOOKALIKES.values(), ids=LOOKALIKES)
async def test_names_that_look_alike_are_two_names(dag, tmp_path, names):
    root = dag.folder((names[0], dag.file(b"other")), (names[1], LEAF))
    async with client_of(dag) as client:
        await client.download(f"{root}/{names[1]}", to=tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"hello"
    assert [entry.cid for entry in dag.list(root)] == [CID.of_raw(b"other"), LEAF]


async def test_a_file_and_a_directory_of_one_name_are_refused(dag, tmp_path):
    root = dag.folder(("a", LEAF), ("a", dag.folder(b=LEAF)))
    error = await failed_path(dag, f"{root}/a/b", tmp_path)
    assert type(error) is MalformedError
    assert "doubled name" in str(error)


@pytest.mark.parametrize("target", ["/etc", "../../etc/passwd", "dir"])
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("link", (NotAFileError, "{} is a symbolic link, not a file")),
        ("link/x", (NotFoundError, "{} is not a directory")),
    ],
    ids=["it", "through it"],
)
async def test_a_symbolic_link_is_not_followed(dag, tmp_path, target, path, expected):
    link = dag.link(target)
    root = dag.folder(("dir", dag.folder(x=LEAF)), ("link", link))
    error = await failed_path(dag, f"{root}/{path}", tmp_path)
    assert (type(error), str(error)) == (expected[0], expected[1].format(link))


@pytest.mark.parametrize("cached", [True, False], ids=["by the cache", "beside the target"])
@pytest.mark.parametrize("exists", [True, False], ids=["to a file", "to nothing"])
async def test_a_symbolic_link_at_the_target_is_replaced_and_not_followed(
    server, tmp_path, cached, exists
):
    victim, target = tmp_path / "victim", tmp_path / "target"
    if exists:
        victim.write_bytes(b"precious")
    target.symlink_to(victim)
    # A file where the cache folder should be: then the download lies beside its target.
    (tmp_path / "no folder").write_bytes(b"")
    cache = tmp_path / ("cache" if cached else "no folder")
    server.reply(200, b"hello")
    async with await AsyncClient.init(config_for(server, cache_path=cache)) as client:
        await client.download(str(LEAF), to=target)
    assert not target.is_symlink()
    assert target.read_bytes() == b"hello"
    assert victim.exists() is exists
    if exists:
        assert victim.read_bytes() == b"precious"


# Archives and open files that bring nothing that is needed, or too slowly

REFUSED = b"HTTP/1.1 406 No\r\nContent-Length: 0\r\n\r\n"
CAR_HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: {CAR_TYPE}\r\n\r\n".encode()
READ = 0.3


def replies(*attacks):
    """An attack that has another reply for each request, and the last one for all further ones."""
    left = list(attacks)

    def attack():
        yield from (left.pop(0) if len(left) > 1 else left[0])()

    return attack


def refused():
    yield REFUSED


def small_file():
    dag = Dag()
    leaf = dag.raw(b"x")
    return dag, leaf, dag.inner((leaf, 1))


def unrelated(size):
    """Blocks that nothing links to, without an end."""
    number = 0
    while True:
        block = number.to_bytes(4, "big") * (size // 4)
        yield section(CID.of_raw(block), block)
        number += 1


@pytest.mark.parametrize("size", [4, MIB])
async def test_an_archive_of_endless_unrelated_blocks_is_given_up(size):
    dag, _, root = small_file()

    def endless():
        yield CAR_HEAD + b"".join(write_car([], [(root, dag.blocks[root])]))
        yield from unrelated(size)

    with Attacker(replies(refused, endless, refused)) as attacker:
        async with await AsyncClient.init(config_for(attacker)) as client:
            with pytest.raises(UnprovenError, match="bytes of blocks that the file does not need"):
                await client.download(str(root))
        assert attacker.sent < MAX_UNRELATED + 16 * MIB  # buffers of the sockets, too


async def test_a_drip_of_unrelated_blocks_ends_after_the_time_for_a_read():
    dag, _, root = small_file()
    read = 1.2  # a machine that stalls must not look like an attacker that says nothing

    def dripping():
        yield CAR_HEAD + b"".join(write_car([], [(root, dag.blocks[root])]))
        for block in unrelated(8):
            time.sleep(read / 40)
            yield block

    begun = time.monotonic()
    with Attacker(replies(refused, dripping)) as attacker:
        config = config_for(attacker, timeouts={"read": read})
        async with await AsyncClient.init(config) as client:
            with pytest.raises(RequestTimeoutError, match=r"nothing that .* needs in time"):
                await client.download(str(root))
    assert time.monotonic() - begun < 15


async def test_an_archive_that_comes_slowly_is_read_to_its_end():
    """The bytes of a block that is wanted count, also before it is whole."""
    dag = Dag()
    root = dag.inner((dag.raw(bytes(100_000)), 100_000))
    archive = dag.archive()

    def slow():
        yield CAR_HEAD
        for start in range(0, len(archive), 10_000):
            time.sleep(READ / 2)
            yield archive[start : start + 10_000]

    def slow_and_closed():
        yield from slow()
        raise OSError

    with Attacker(replies(refused, slow_and_closed)) as attacker:
        config = config_for(attacker, timeouts={"read": READ * 4})
        async with await AsyncClient.init(config) as client:
            assert (await client.download(str(root))).read() == bytes(100_000)


async def test_what_follows_a_file_in_its_archive_does_not_matter():
    dag, _, root = small_file()

    def endless():
        yield CAR_HEAD + dag.archive()
        yield from unrelated(MIB)

    with Attacker(replies(refused, endless)) as attacker:
        async with await AsyncClient.init(config_for(attacker)) as client:
            assert (await client.download(str(root))).read() == b"x"


async def test_blocks_that_an_archive_repeats_are_not_unrelated():
    """As for a file of zeros from a gateway that sends a block for every link to it."""
    dag = Dag()
    zeros, end = dag.raw(bytes(MIB)), dag.raw(b"end")
    count = MAX_UNRELATED // MIB + 4
    root = dag.inner(*[(zeros, MIB)] * count, (end, 3))
    order = [root, *[zeros] * count, end]
    archive = b"".join(write_car([], [(cid, dag.blocks[cid]) for cid in order]))
    with ScriptedServer(archive_gateway(archive)) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            assert (await client.download(str(root))).size == count * MIB + 3


async def test_each_range_of_an_open_file_has_its_total():
    data = bytes(range(256)) * 12_000
    root, blocks = Blocks.of_file(data, UNIXFS_V1_2025)
    slow = []

    def answer(request):
        if "format=raw" in request.target:
            return Scripted(body=blocks[root], headers={"Content-Type": RAW_TYPE})
        if "format=car" in request.target:
            return Scripted(status=406)
        start, stop = map(int, request.headers["range"].removeprefix("bytes=").split("-"))
        headers = {"Content-Range": f"bytes {start}-{stop}/{len(data)}"}
        body = data[start : stop + 1]
        return Scripted(status=206, body=body, headers=headers, drip=0.01 if slow else 0)

    with ScriptedServer(answer) as server:
        config = config_for(server, timeouts={"read": 5, "total": 1.5})
        async with await AsyncClient.init(config) as client, await client.open(str(root)) as file:
            slow.append(True)
            begun = time.monotonic()
            with pytest.raises(RequestTimeoutError):
                await file.read(10)
            assert time.monotonic() - begun < 6
            slow.clear()
            assert await file.read(10) == data[:10]


@pytest.mark.parametrize("way", ["block", "body"])
async def test_a_file_that_is_opened_whole_has_the_total_too(way):
    data = bytes(100_000)
    root = CID.of_raw(data) if way == "block" else Blocks.of_file(data * 20, UNIXFS_V1_2025)[0]

    def answer(request):
        return (
            Scripted(status=406) if "format=" in request.target else Scripted(body=data, drip=0.01)
        )

    with ScriptedServer(answer) as server:
        config = config_for(server, timeouts={"read": 5, "total": 0.6})
        begun = time.monotonic()
        async with await AsyncClient.init(config) as client:
            with pytest.raises(RequestTimeoutError):
                await client.open(str(root))
        assert time.monotonic() - begun < 12
