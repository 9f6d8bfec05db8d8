# WARNING: this file is generated from tests/_async/test_download_folder.py
# by scripts/generate_sync.py. Change the original instead.
"""Directories on disk: complete and verified, or not there; what is there is not fetched again."""

import errno
import hashlib
from dataclasses import replace

import pytest

from holdfast import Client, ClientConfig
from holdfast.content.car import CarReader, write_car
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.disk.locks import try_lock
from holdfast.errors import (
    NotAFolderError,
    NotFoundError,
    ProviderError,
)
from holdfast.testing import Scripted, ScriptedServer
from tests.folder_dags import FolderDag, on_disk, serving
from tests.gateways import kind_of, kinds
from tests.support import config_for

LARGE = hashlib.shake_128(b"large").digest(3_000_000)
ODD = replace(UNIXFS_V1_2025, chunk_size=100_000, name="odd")


@pytest.fixture
def dag():
    return FolderDag()


def everything(dag):
    """A directory with all that a directory can have, but links."""
    return dag.folder(
        ("a.txt", dag.file(b"hello")),
        ("empty", dag.folder()),
        ("nothing.txt", dag.file(b"")),
        ("large", dag.file(LARGE)),
        ("old", dag.file(b"old", UNIXFS_V0_2015)),
        ("old large", dag.file(LARGE, UNIXFS_V0_2015)),
        ("odd", dag.file(LARGE, ODD)),
        (
            "sub",
            dag.folder(("ä b.txt", dag.file(b"again")), ("deep", dag.folder(x=dag.file(b"x")))),
        ),
        ("many", dag.shard(*((f"{n}.txt", dag.file(b"%d" % n)) for n in range(600)))),
        ("same.txt", dag.file(b"hello")),
        ("\ud8ff".encode("utf-8", "surrogatepass"), dag.file(b"not UTF-8")),
    )


def interrupted(dag, root, broken, target):
    """Download until the file `broken`, which the gateway does not give; the work folder."""
    honest = serving(dag)

    def script(request):
        return Scripted(status=500) if str(broken) in request.target else honest(request)

    with ScriptedServer(script) as server, pytest.raises(ProviderError, match="500") as caught:
        download(server, root, target)
    assert not target.exists()
    (left,) = target.parent.iterdir()
    assert left.name.startswith(f".{target.name}.holdfast-")
    assert str(left) in caught.value.__notes__[-1]
    return left


def download(server, cid, target, *, on_event=None, **options):
    with Client.init(config_for(server), on_event=on_event) as client:
        return client.download_folder(str(cid), target, **options)


@pytest.mark.parametrize(
    "missing",
    ["", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("car", "raw", "plain"))],
)
def test_a_directory_is_written_as_it_is(dag, tmp_path, missing):
    root = everything(dag)
    served = {"raw", "car", "plain"} - {missing}
    with ScriptedServer(serving(dag, kinds=served)) as server:
        path = download(server, root, tmp_path / "photos")
    assert path == tmp_path / "photos"
    assert on_disk(path) == dag.tree(root)
    assert list(tmp_path.iterdir()) == [tmp_path / "photos"]


@pytest.mark.slow
def test_a_directory_of_the_embedded_store(dag, tmp_path):
    root = everything(dag)
    config = ClientConfig(path=tmp_path / "store")
    with Client.init(config) as client:
        client.provider.import_car(write_car([root], dag.items()))
        client.download_folder(str(root), tmp_path / "photos")
        client.download_folder(f"{root}/sub/deep", tmp_path / "deep")
        with pytest.raises(NotFoundError, match="is not in this store"):
            client.download_folder(str(CID.of_raw(b"other")), tmp_path / "other")
    assert on_disk(tmp_path / "photos") == dag.tree(root)
    assert on_disk(tmp_path / "deep") == {"x": b"x"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "photos", "store"]


def test_equal_folders_and_links_that_come_at_the_same_time(dag, tmp_path):
    equal = [dag.folder(), dag.folder(a=dag.file(b"x")), dag.link("a")]
    root = dag.folder(*((f"{n}", equal[n // 30]) for n in range(90)))
    with ScriptedServer(serving(dag, kinds=("raw", "plain"))) as server:
        download(server, root, tmp_path / "photos", symlinks=True)
    assert on_disk(tmp_path / "photos") == dag.tree(root)


@pytest.mark.slow
def test_a_gateway_that_serves_only_what_is_below_a_root(dag, tmp_path):
    """A restricted one: all of it by paths, and verified all the same."""
    names = (f"{n}.txt" for n in range(600))
    root = dag.folder(
        ("a.txt", dag.file(b"hello")),
        ("old", dag.file(b"old", UNIXFS_V0_2015)),
        ("large", dag.file(LARGE)),
        ("sub", dag.folder(("many", dag.shard(*((name, dag.file(b"x")) for name in names))))),
    )
    with ScriptedServer(serving(dag, roots={root})) as server:
        download(server, root, tmp_path / "photos")
        assert len(server.requests) < 30
    assert on_disk(tmp_path / "photos") == dag.tree(root)


@pytest.mark.slow
@pytest.mark.parametrize("repeats", [True, False], ids=["with repeats", "each block once"])
def test_many_small_files_come_with_one_archive(dag, tmp_path, repeats):
    files = {f"{n:03}.txt": dag.file(b"%d" % n) for n in range(200)}
    root = dag.folder(*files.items(), ("sub", dag.folder(*files.items())))
    script = serving(dag)

    def as_kubo(request):
        reply = script(request)
        if kind_of(request) != "car":
            return reply
        blocks = dict(CarReader().update(reply.body))
        return replace(reply, body=b"".join(write_car([], blocks.items())))

    with ScriptedServer(script if repeats else as_kubo) as server:
        download(server, root, tmp_path / "photos")
        assert kinds(server) == ["raw", "car"]
    assert on_disk(tmp_path / "photos") == dag.tree(root)


def test_an_archive_that_ends_too_early_is_continued_file_by_file(dag, tmp_path):
    files = {f"{n:03}.txt": dag.file(b"%05d" % n * 10_000) for n in range(100)}
    root = dag.folder(*files.items())
    with ScriptedServer(serving(dag, cut_archives=4_500_000)) as server:
        download(server, root, tmp_path / "photos")
        asked = kinds(server)
    assert asked[:2] == ["raw", "car"]
    assert 0 < asked.count("plain") < 80
    assert on_disk(tmp_path / "photos") == dag.tree(root)


def test_an_archive_with_wrong_bytes_is_not_believed(dag, tmp_path):
    files = {f"{n:03}.txt": dag.file(b"%d" % n) for n in range(50)}
    root = dag.folder(*files.items())
    honest = serving(dag)

    def lying(request):
        reply = honest(request)
        if "format=car" in request.target:
            return replace(reply, body=reply.body.replace(b"49", b"48"))
        return reply

    with ScriptedServer(lying) as server:
        download(server, root, tmp_path / "photos")
    assert on_disk(tmp_path / "photos") == dag.tree(root)


def test_what_is_there_is_not_fetched_again(dag, tmp_path):
    """After an error: the next call sends a request for what is missing, and for nothing else."""
    files = {f"{n}.txt": dag.file(b"%d" % n) for n in range(12)}
    files["old"] = dag.file(LARGE, UNIXFS_V0_2015)
    root = dag.folder(*files.items(), ("sub", dag.folder(("x", dag.file(b"x")))))
    left = interrupted(dag, root, files["5.txt"], tmp_path / "photos")
    finished = set(on_disk(left / "files"))
    saved = sum(path.stat().st_size for path in (left / "files").rglob("*") if path.is_file())
    events = []
    with ScriptedServer(serving(dag)) as server:
        download(server, root, tmp_path / "photos", on_event=events.append)
        asked = [request.target.partition("?")[0][6:] for request in server.requests]
    missing = {str(cid) for name, cid in files.items() if name not in finished}
    assert str(root) not in asked
    assert not {str(files[name]) for name in finished & set(files)} & set(asked)
    assert missing <= set(asked)
    assert on_disk(tmp_path / "photos") == dag.tree(root)
    assert list(tmp_path.iterdir()) == [tmp_path / "photos"]
    resumed = [(event.cid, event.position) for event in events if event.kind == "resume"]
    assert (resumed, saved > 0) == ([(str(root), saved)], True)


def test_a_file_that_was_changed_meanwhile_is_fetched_again(dag, tmp_path):
    files = {name: dag.file(name.encode() * 9) for name in ("a", "b", "c")}
    files["odd"] = dag.file(LARGE, ODD)
    root = dag.folder(*files.items(), ("last", dag.folder(("x", dag.file(b"x")))))
    left = interrupted(dag, root, dag.file(b"x"), tmp_path / "photos")
    (left / "files" / "b").write_bytes(b"forged")
    (left / "files" / "odd").write_bytes(LARGE[:2_000_000] + b"forged")
    for block in (left / "blocks").iterdir():
        block.write_bytes(b"forged")
    with ScriptedServer(serving(dag)) as server:
        download(server, root, tmp_path / "photos")
        asked = {request.target[6:].partition("?")[0] for request in server.requests}
    assert str(files["b"]) in asked
    assert str(files["a"]) not in asked
    assert on_disk(tmp_path / "photos") == dag.tree(root)


def test_a_work_folder_with_more_in_it_is_not_taken_over(dag, tmp_path):
    root = dag.folder(("a", dag.file(b"a")), ("b", dag.file(b"b")))
    left = interrupted(dag, root, dag.file(b"b"), tmp_path / "photos")
    (left / "files" / "planted").write_bytes(b"evil")
    with (
        ScriptedServer(serving(dag)) as server,
        pytest.raises(OSError, match="remove this folder"),
    ):
        download(server, root, tmp_path / "photos")
    assert not (tmp_path / "photos").exists()


def test_nothing_is_sent_or_left_if_the_target_cannot_be_written(dag, server, tmp_path):
    root = dag.folder(("a", dag.file(b"a")))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "linked").symlink_to(tmp_path / "full")
    before = on_disk(tmp_path)
    for name, error in {
        "full": FileExistsError,
        "file": NotADirectoryError,
        "link": FileExistsError,
        "linked": FileExistsError,
        "missing/photos": FileNotFoundError,
        "full/mine.txt/photos": FileNotFoundError,
        "/": FileExistsError,
    }.items():
        with pytest.raises(error):
            download(server, root, tmp_path / name)
    assert server.requests == []
    assert on_disk(tmp_path) == before


def test_an_empty_folder_is_replaced_and_keeps_its_mode(dag, tmp_path):
    root = dag.folder(("a", dag.file(b"a")))
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos").chmod(0o711)
    with ScriptedServer(serving(dag)) as server:
        download(server, root, f"{tmp_path}/photos/")
    assert on_disk(tmp_path) == {"photos": None, "photos/a": b"a"}
    assert (tmp_path / "photos").stat().st_mode & 0o777 == 0o711


def test_the_current_folder_is_not_replaced(dag, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match="in use") as caught:
        download(server, dag.folder(), ".")
    assert caught.value.errno == errno.EBUSY


def test_a_second_download_to_the_same_folder_is_told_to_wait(dag, tmp_path):
    root = dag.folder(("a", dag.file(b"a")), ("b", dag.file(b"b")))
    left = interrupted(dag, root, dag.file(b"b"), tmp_path / "photos")
    with ScriptedServer(serving(dag)) as server:
        with (left / "lock").open("r+b") as lock:
            assert try_lock(lock.fileno())  # as another process that uses the work folder
            with pytest.raises(BlockingIOError, match="wait until it ends"):
                download(server, root, tmp_path / "photos")
        assert server.requests == []
        download(server, root, tmp_path / "photos")
    assert on_disk(tmp_path) == {"photos": None, "photos/a": b"a", "photos/b": b"b"}


def test_a_file_is_no_folder(dag, tmp_path):
    for cid in (dag.file(b"hello"), dag.file(LARGE), dag.link("a")):
        with ScriptedServer(serving(dag)) as server:
            with pytest.raises(NotADirectoryError) as caught:
                download(server, cid, tmp_path / "photos")
            with Client.init(config_for(server)) as client:
                with pytest.raises(NotADirectoryError) as same:
                    client.entries(str(cid))
        for error in (caught.value, same.value):
            assert type(error) is NotAFolderError
            assert str(error) == f"{cid} is not a directory"
            assert error.__notes__ == ["use download, which is for files"]
    assert list(tmp_path.iterdir()) == []


def test_links_are_written_only_on_demand(dag, tmp_path):
    root = dag.folder(
        ("a.txt", dag.file(b"hello")),
        ("sub", dag.folder(("up", dag.link("../a.txt")), ("here", dag.link("./up")))),
        ("to sub", dag.link("sub")),
        ("dangling", dag.link("nowhere")),
    )
    with ScriptedServer(serving(dag)) as server:
        with pytest.raises(OSError, match="it is a symbolic link to") as caught:
            download(server, root, tmp_path / "photos")
        assert caught.value.__notes__ == ["pass symlinks=True to write links"]
        assert list(tmp_path.iterdir()) == []
        download(server, root, tmp_path / "photos", symlinks=True)
    assert on_disk(tmp_path / "photos") == dag.tree(root)
    assert (tmp_path / "photos" / "to sub" / "here").read_bytes() == b"hello"
