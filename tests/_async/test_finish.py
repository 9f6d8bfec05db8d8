"""Sinks in two stages: a reader makes the content of files from their verified bytes."""

import errno
import json
import os

import pytest

from holdfast import AsyncClient
from holdfast._async.reads.state import commit
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.errors import NetworkError, ProviderError, SerializationError, TooLargeError
from holdfast.sinks.sinks import SPOOL_SIZE, Finish, MemorySink
from holdfast.testing import Scripted, ScriptedServer
from tests._async.masking import AsyncMaskingReader, unmasking
from tests.disks import mount
from tests.folder_dags import FolderDag, on_disk, serving
from tests.gateways import cut_at, gateway, kinds, pin
from tests.masks import FINISH, KEY, masked, unmask, unmasked_size
from tests.support import config_for

LARGE = os.urandom(SPOOL_SIZE + 805_696)
STORED = masked(LARGE)


def config(server, tmp_path, **changes):
    return config_for(server, cache_path=tmp_path / "cache", **changes)


def partials(tmp_path):
    return [path.stat().st_size for path in (tmp_path / "cache" / "partial").iterdir()]


def fail_in_the_middle(file):
    yield file.read(2_000_000)
    raise ValueError("no key opens this")


FAILING = Finish(fail_in_the_middle, unmasked_size)


# Wherever it goes


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"hello", LARGE[:3_000_000], LARGE])
@pytest.mark.parametrize("has_target", [True, False])
async def test_a_file_is_finished_wherever_it_goes(store_client, tmp_path, content, has_target):
    cid = (await store_client.upload(masked(content))).cid
    unmasking(store_client)
    seen = []
    to = tmp_path / "copy" if has_target else None
    blob = await store_client.download(
        cid, to=to, progress=lambda done, total: seen.append((done, total))
    )
    assert (blob.size, blob.read()) == (len(content), content)
    with blob.open() as stream:
        assert stream.read() == content
    assert seen[-1] == (len(content), len(content))
    assert seen == sorted(seen)
    assert [path.name for path in tmp_path.iterdir()] == (["copy"] if has_target else [])


async def test_finishes_nest_and_the_inner_one_runs_first(store_client, tmp_path):
    cid = (await store_client.upload(masked(masked(LARGE, b"other key of 16!")))).cid
    outer = Finish(lambda file: unmask(file, b"other key of 16!"), unmasked_size)
    unmasking(unmasking(store_client), outer)
    assert (await store_client.download(cid, to=tmp_path / "copy")).size == len(LARGE)
    assert (tmp_path / "copy").read_bytes() == LARGE
    assert (await store_client.download(cid)).read() == LARGE


async def test_the_mode_of_the_file_that_is_replaced_stays(store_client, tmp_path):
    (tmp_path / "copy").write_bytes(b"old")
    (tmp_path / "copy").chmod(0o640)
    cid = (await store_client.upload(STORED)).cid
    await unmasking(store_client).download(cid, to=tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == LARGE
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o640


# Limits


@pytest.mark.parametrize("has_target", [True, False])
@pytest.mark.parametrize("size", [1000, len(LARGE)])
async def test_max_bytes_is_for_the_finished_content(store_client, tmp_path, has_target, size):
    cid = (await store_client.upload(masked(LARGE[:size]))).cid
    to = tmp_path / "copy" if has_target else None
    unmasking(store_client)
    assert (await store_client.download(cid, to=to, max_bytes=size)).size == size
    with pytest.raises(TooLargeError) as caught:
        await store_client.download(cid, to=to, max_bytes=size - 1)
    assert (caught.value.size, caught.value.limit) == (size, size - 1)


async def test_a_finish_that_makes_more_than_it_said_is_stopped(store_client, tmp_path):
    cid = (await store_client.upload(STORED)).cid
    unmasking(store_client, Finish(lambda file: [file.read(9)] * 1000, lambda size: 0))
    for to in (None, tmp_path / "copy"):
        with pytest.raises(TooLargeError):
            await store_client.download(cid, to=to, max_bytes=8_999)
        assert (await store_client.download(cid, to=to, max_bytes=9_000)).size == 9_000


async def test_max_json_bytes_is_for_the_finished_content(tmp_path):
    text = json.dumps("x" * 98).encode()
    async with AsyncClient.init(path=tmp_path, max_json_bytes=len(text)) as client:
        cid = (await client.upload(masked(text))).cid
        longer = (await client.upload(masked(text + b" "))).cid
        unmasking(client)
        assert await client.retrieve(cid) == "x" * 98
        with pytest.raises(SerializationError):
            await client.retrieve(longer)


# Interrupted downloads of a file


async def interrupted(node, cid, tmp_path, *, is_masked):
    """Leave some verified bytes behind; return how many."""
    with gateway(node, cut_at(3_500_000)) as server:
        async with await AsyncClient.init(config(server, tmp_path)) as client:
            if is_masked:
                unmasking(client)
            with pytest.raises(NetworkError):
                await client.download(cid, to=tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    (size,) = partials(tmp_path)
    assert 2_000_000 < size < 3_500_000
    return size


@pytest.mark.parametrize(("before", "after"), [(True, True), (False, True), (True, False)], ids=str)
async def test_the_next_download_continues_after_the_verified_bytes(node, tmp_path, before, after):
    cid = pin(node, STORED, UNIXFS_V1_2025)
    size = await interrupted(node, cid, tmp_path, is_masked=before)
    with gateway(node) as server:
        async with await AsyncClient.init(config(server, tmp_path)) as client:
            if after:
                unmasking(client)
            blob = await client.download(cid, to=tmp_path / "copy")
    assert blob.read() == (LARGE if after else STORED)
    ranges = [request.headers.get("range") for request in server.requests]
    assert ranges == [None, f"bytes={size}-"]
    assert partials(tmp_path) == []


async def test_a_finish_that_fails_leaves_no_target_and_loses_no_verified_bytes(node, tmp_path):
    cid = pin(node, STORED, UNIXFS_V1_2025)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "copy").write_bytes(b"old")
    with gateway(node) as server:
        async with await AsyncClient.init(config(server, tmp_path)) as client:
            plain_reader = client.provider.reader
            unmasking(client, FAILING)
            for to in (tmp_path / "here" / "copy", None):
                with pytest.raises(ValueError, match="no key"):
                    await client.download(cid, to=to)
            assert on_disk(tmp_path / "here") == {"copy": b"old"}
            assert partials(tmp_path) == [len(STORED)]
            before = len(server.requests)
            client.provider._reader = plain_reader
            unmasking(client)
            await client.download(cid, to=tmp_path / "here" / "copy")
    assert kinds(server)[before:] == ["raw"]  # the root, to verify the bytes that were saved
    assert on_disk(tmp_path / "here") == {"copy": LARGE}
    assert partials(tmp_path) == []


async def test_a_disk_without_space_for_both_stages_is_refused_before_the_download(
    node, small_disk
):
    cid = pin(node, STORED, UNIXFS_V1_2025)
    with gateway(node) as server:
        async with await AsyncClient.init(config(server, small_disk)) as client:
            unmasking(client)
            with pytest.raises(OSError, match="are free") as caught:
                await client.download(cid, to=small_disk / "copy")
    assert caught.value.errno == errno.ENOSPC
    assert set(kinds(server)) <= {"raw", "plain"}
    assert not (small_disk / "copy").exists()


async def test_a_disk_that_is_full_in_the_finish_loses_no_verified_bytes(node, small_disk):
    cid = pin(node, STORED, UNIXFS_V1_2025)
    with gateway(node) as server:
        async with await AsyncClient.init(config(server, small_disk)) as client:
            plain_reader = client.provider.reader
            unmasking(client, Finish(unmask, lambda size: 0))
            with pytest.raises(OSError, match=r"[Nn]o space left"):
                await client.download(cid, to=small_disk / "copy")
            assert partials(small_disk) == [len(STORED)]
            assert not (small_disk / "copy").exists()
            mount(small_disk, "-o", "remount,size=40m")
            before = len(server.requests)
            client.provider._reader = plain_reader
            assert (await unmasking(client).download(cid, to=small_disk / "copy")).read() == LARGE
    assert kinds(server)[before:] == ["raw"]


# Folders

CONTENT = {
    "a.txt": b"hello",
    "empty": b"",
    "large": LARGE[:3_000_000],
    **{f"{number}.txt": b"%d" % number * 100 for number in range(20)},
}


def masked_folder(dag, content=CONTENT):
    files = [(name, dag.file(masked(plain))) for name, plain in content.items()]
    return str(dag.folder(("sub", dag.folder(*files)), ("b.txt", dag.file(masked(b"b")))))


def tree(content=CONTENT):
    below = {f"sub/{name}": plain for name, plain in content.items()}
    return {"sub": None, "b.txt": b"b", **below}


async def test_every_file_of_a_folder_is_finished(store_client, tmp_path):
    for name, stored in tree().items():
        path = tmp_path / "up" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if stored is not None:
            path.write_bytes(masked(stored))
    cid = (await store_client.upload(tmp_path / "up")).cid
    seen = []
    size = sum(len(content or b"") for content in tree().values())
    unmasking(store_client)
    await store_client.download_folder(
        cid,
        tmp_path / "down",
        max_bytes=size,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert on_disk(tmp_path / "down") == tree()
    assert seen[-1] == (size, size)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    with pytest.raises(TooLargeError):
        await store_client.download_folder(cid, tmp_path / "again", max_bytes=size - 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["down", "up"]


async def test_a_finish_that_makes_more_than_it_said_is_stopped_in_a_folder(store_client, tmp_path):
    (tmp_path / "up").mkdir()
    (tmp_path / "up" / "file").write_bytes(STORED)
    cid = (await store_client.upload(tmp_path / "up")).cid
    unmasking(store_client, Finish(lambda file: [file.read(9)] * 1000, lambda size: 0))
    with pytest.raises(TooLargeError):
        await store_client.download_folder(cid, tmp_path / "down", max_bytes=8_999)
    assert [path.name for path in tmp_path.iterdir()] == ["up"]
    await store_client.download_folder(cid, tmp_path / "down", max_bytes=9_000)


@pytest.mark.parametrize("kinds", ["raw plain", "raw car plain", "plain car", "only paths"])
async def test_a_folder_from_any_gateway(tmp_path, kinds):
    dag = FolderDag()
    root = masked_folder(dag)
    # A gateway that serves only paths gets a second request, but there is one finish.
    options = {"roots": {CID.parse(root)}} if kinds == "only paths" else {"kinds": kinds.split()}
    with ScriptedServer(serving(dag, **options)) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            await unmasking(client).download_folder(root, tmp_path / "copy")
    assert on_disk(tmp_path / "copy") == tree()


async def test_symbolic_links_and_empty_folders_stay_as_they_are(tmp_path):
    dag = FolderDag()
    inner = dag.folder(("link", dag.link("./a//b")), ("a.txt", dag.file(masked(b"hello"))))
    root = dag.folder(("sub", inner), ("empty", dag.folder()))
    with ScriptedServer(serving(dag)) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            unmasking(client)
            await client.download_folder(str(root), tmp_path / "copy", symlinks=True)
    assert os.readlink(tmp_path / "copy/sub/link") == "./a//b"  # noqa: PTH115 - the text as it is
    assert (tmp_path / "copy/sub/a.txt").read_bytes() == b"hello"
    assert list((tmp_path / "copy/empty").iterdir()) == []


async def stopped_before(dag, root, missing, tmp_path, *, finish=FINISH):
    """Download a folder until the file `missing` is asked for, which the gateway has not."""
    whole = serving(dag, kinds=("raw", "plain"))

    def answer(request):
        is_missing = missing in request.target or "/last" in request.target
        return Scripted(status=404) if is_missing else whole(request)

    with ScriptedServer(answer) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            if finish:
                unmasking(client, finish)
            with pytest.raises((ProviderError, ValueError)):
                await client.download_folder(root, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


async def continued(dag, root, tmp_path, finish=FINISH):
    """Download all of a folder; return which CIDs were asked for."""
    with ScriptedServer(serving(dag, kinds=("raw", "plain"))) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            if finish:
                unmasking(client, finish)
            await client.download_folder(root, tmp_path / "copy")
    return {request.target[6:].partition("?")[0] for request in server.requests}


def flat_folder(dag):
    """A folder whose last file is the only one that a test withholds."""
    content = {f"{number}.txt": b"%d" % number * 1000 for number in range(20)}
    files = {name: dag.file(masked(plain)) for name, plain in content.items()}
    last = dag.file(masked(b"last"))
    inner = dag.folder(("last", last))
    root = dag.folder(*files.items(), ("sub", inner))
    return str(root), str(last), {name: str(cid) for name, cid in files.items()}, content


async def test_files_that_are_there_are_not_fetched_again_and_changed_ones_are(tmp_path):
    dag = FolderDag()
    root, last, files, content = flat_folder(dag)
    await stopped_before(dag, root, last, tmp_path)
    (work,) = tmp_path.glob(".copy.*")
    stored = on_disk(work / "files")
    assert {name: str(dag.file(data)) for name, data in stored.items() if data} == files
    (work / "files" / "3.txt").write_bytes(masked(b"3" * 999 + b"4"))
    (work / "files" / "4.txt").write_bytes(b"4")
    (work / "files" / "5.txt").unlink()
    asked = await continued(dag, root, tmp_path)
    assert asked == {last, files["3.txt"], files["4.txt"], files["5.txt"]}
    assert on_disk(tmp_path / "copy") == {**content, "sub": None, "sub/last": b"last"}
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


OTHER = Finish(lambda file: unmask(file, KEY[::-1]), unmasked_size)


@pytest.mark.parametrize(
    ("before", "after"), [(None, FINISH), (FINISH, None), (OTHER, FINISH)], ids=["on", "off", "key"]
)
async def test_verified_files_are_used_whatever_is_made_of_them(tmp_path, before, after):
    dag = FolderDag()
    root, last, _, content = flat_folder(dag)
    await stopped_before(dag, root, last, tmp_path, finish=before)
    assert await continued(dag, root, tmp_path, after) == {last}
    written = on_disk(tmp_path / "copy")
    if after:
        assert written == {**content, "sub": None, "sub/last": b"last"}
    else:
        assert str(dag.file(written["sub/last"])) == last
        assert written["3.txt"] != content["3.txt"]


async def test_a_finish_that_fails_in_a_folder_keeps_the_verified_bytes(tmp_path):
    dag = FolderDag()
    large = dag.file(STORED)
    root = str(dag.folder(("large", large)))
    await stopped_before(dag, root, "nothing", tmp_path, finish=FAILING)
    (file,) = tmp_path.glob(".copy.*/files/*")
    assert file.read_bytes() == STORED
    assert await continued(dag, root, tmp_path) == set()
    assert on_disk(tmp_path / "copy") == {"large": LARGE}


async def test_a_reader_whose_finish_is_not_among_its_finishes_cannot_download_folders(tmp_path):
    class AsyncOneFile(AsyncMaskingReader):
        finishes = ()

    dag = FolderDag()
    root = masked_folder(dag)
    with ScriptedServer(serving(dag)) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            client.provider._reader = AsyncOneFile(client.provider.reader)
            with pytest.raises(TypeError, match="finishes"):
                await client.download_folder(root, tmp_path / "copy")


async def test_a_sink_that_is_restarted_has_nothing_of_the_finish_before():
    sink = MemorySink()
    sink.add_finish(Finish(lambda _: [b"half", 5], lambda size: size))
    sink.write(b"masked")
    with pytest.raises(TypeError):
        [*sink.finish()]
    sink.restart()
    sink.write(b"plain")
    assert bytes((await commit(sink)).data) == b"plain"
    assert (sink.verified, sink.final) == (0, None)
