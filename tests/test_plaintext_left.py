"""What a finish makes is plaintext: nothing of it is left behind, however a download ends."""

import asyncio
import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from functools import cache

import pytest

from holdfast import AsyncClient, Client
from holdfast.disk import atomic
from holdfast.disk.atomic import TEMPORARY, PendingFile
from holdfast.sinks.sinks import Finish
from holdfast.sinks.work_folder import TargetTree
from holdfast.testing import ScriptedServer
from tests._async.masking import unmasking as async_unmasking
from tests._sync.masking import unmasking
from tests.folder_dags import FolderDag, on_disk, serving
from tests.masks import masked, unmask, unmasked_size
from tests.plaintext import files_with_plaintext, killed, marked
from tests.support import TOKEN, config_for, wait_until

PIECE = 100_000
LARGE = marked(15 * PIECE)
FILES = {"large": LARGE, **{f"{number}.txt": marked(3_000 + number) for number in range(20)}}
TREE = {"sub": None, **{f"sub/{name}": content for name, content in FILES.items()}}
SIZES = ("SPOOL", "BESIDE")
METHODS = ["spool", "file", "folder"]


@cache
def folder_dag():
    dag = FolderDag()
    files = [(name, dag.file(masked(content))) for name, content in FILES.items()]
    return dag, str(dag.folder(("sub", dag.folder(*files))))


def gateway():
    return ScriptedServer(serving(folder_dag()[0], kinds=("raw", "plain")))


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Every folder that a download may write to is below this one."""
    for name in ("home", "temporary", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    for name in ("tests.masks.PIECE", *map("holdfast.sinks.sinks.{}_SIZE".format, SIZES)):
        monkeypatch.setattr(name, PIECE)  # so that a small file is written in many steps
    return tmp_path


@pytest.fixture
def named(monkeypatch):
    """A system on which every file has a name."""
    monkeypatch.setattr(atomic, "NO_NAME", None)


@pytest.fixture(params=["no name", "a name"])
def names(request):
    """A system with files without a name, and one without them."""
    if request.param == "a name":
        request.getfixturevalue("named")
    elif atomic.NO_NAME is None:
        pytest.skip("needs files without a name")


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def config(server, home):
    return config_for(server, cache_path=home / "cache", cache_bytes=100_000_000)


def download(client, method, home):
    _, root = folder_dag()
    to = home / "here" / "copy"
    if method == "folder":
        return client.download_folder(root, to)
    return client.download(f"{root}/sub/large", to=to if method == "file" else None)


def stopping(stop):
    """A finish that calls `stop` in the middle of the large file."""

    def make(file):
        for number, piece in enumerate(unmask(file)):
            if number == 10:
                stop()
            yield piece

    return Finish(make, unmasked_size)


# A finish that fails, Ctrl-C, a cancelled task


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.usefixtures("names")
def test_an_error_in_a_finish_leaves_no_plaintext(home, method, error):
    seen = []

    def stop():
        seen.append(files_with_plaintext(home))
        raise error

    with gateway() as server, Client.init(config(server, home)) as client:
        plain_reader = client.provider.reader
        with pytest.raises(error):
            download(unmasking(client, stopping(stop)), method, home)
        assert len(seen) == 1
        assert files_with_plaintext(home) == set()
        assert list((home / "here").glob("[!.]*")) == []
        before = len(server.requests)
        client.provider._reader = plain_reader
        download(unmasking(client), method, home)
    if method == "folder":
        assert seen[0]  # the other files, which were removed again
        assert on_disk(home / "here" / "copy") == TREE
        assert len(server.requests) == before
    expected = {"spool": 0, "file": 1, "folder": len(FILES)}
    left = files_with_plaintext(home)
    assert len(left) == expected[method]
    assert all(path.is_relative_to(home / "here" / "copy") for path in left)


@pytest.mark.parametrize("method", ["file", "folder"])
async def test_a_cancelled_call_leaves_no_plaintext(home, method):
    begun, cancelled = threading.Event(), threading.Event()

    def stop():
        begun.set()
        cancelled.wait(10)

    with gateway() as server:
        async with await AsyncClient.init(config(server, home)) as client:
            async_unmasking(client, stopping(stop))
            task = asyncio.ensure_future(download(client, method, home))
            await asyncio.to_thread(begun.wait)
            task.cancel()
            cancelled.set()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert files_with_plaintext(home) == set()
    assert list((home / "here").glob("[!.]*")) == []


# One file


@pytest.mark.usefixtures("named")
def test_the_next_call_removes_the_file_that_a_killed_one_has_left(tmp_path):
    target = tmp_path / "copy"
    killed(target)
    killed(tmp_path / "other")
    left = files_with_plaintext(tmp_path)
    assert {stat.S_IMODE(path.stat().st_mode) for path in left} == {0o600}
    assert len(list(filter(TEMPORARY.fullmatch, names_in(tmp_path)))) == 2
    with PendingFile(target):
        assert len(files_with_plaintext(tmp_path) & left) == 1
    with PendingFile(tmp_path / "other"):
        assert files_with_plaintext(tmp_path) == set()
    assert names_in(tmp_path) == []


@pytest.mark.usefixtures("names")
def test_two_calls_for_one_target_do_not_disturb_each_other(tmp_path):
    target = tmp_path / "copy"
    for content in (b"first", b"second"):
        with PendingFile(target) as one, PendingFile(target) as two:
            one.write(b"one " + content)
            two.write(b"two " + content)
            one.commit()
            assert target.read_bytes() == b"one " + content
            two.commit()
            assert target.read_bytes() == b"two " + content
        assert names_in(tmp_path) == ["copy"]


@pytest.mark.usefixtures("named")
def test_a_file_that_another_process_removes_before_its_lock_is_made_again(tmp_path, monkeypatch):
    """The other process has taken it for one that was left, and has made one of its own."""
    others = []

    def try_lock(descriptor, **options):
        if not others:
            others.append(None)
            (path,) = tmp_path.iterdir()
            path.unlink()
            others[0] = path
            path.write_bytes(b"of the other")
        return lock(descriptor, **options)

    lock = atomic.try_lock
    monkeypatch.setattr(atomic, "try_lock", try_lock)
    with PendingFile(tmp_path / "copy") as pending:
        pending.write(b"mine")
        pending.commit()
    assert (tmp_path / "copy").read_bytes() == b"mine"
    assert others[0].read_bytes() == b"of the other"


@pytest.mark.parametrize("before", [None, 0o640, 0o666])
@pytest.mark.usefixtures("names")
def test_only_the_owner_reads_a_file_before_it_is_complete(tmp_path, before):
    target = tmp_path / "copy"
    if before is not None:
        target.write_bytes(b"old")
        target.chmod(before)
    (tmp_path / "usual").write_bytes(b"")
    usual = stat.S_IMODE((tmp_path / "usual").stat().st_mode)
    with PendingFile(target) as pending:
        pending.write(b"new")
        assert stat.S_IMODE(os.fstat(pending.fileno()).st_mode) == 0o600
        pending.commit()
    assert stat.S_IMODE(target.stat().st_mode) == (usual if before is None else before)


# Folders whose download was killed while it was finished


@pytest.fixture
def begun(home):
    """The folder that such a download leaves behind, with some of the finished files."""
    with gateway() as server, Client.init(config(server, home)) as client:

        def stop():
            raise ValueError("no key")

        with pytest.raises(ValueError, match="no key"):
            download(unmasking(client, stopping(stop)), "folder", home)
    (work,) = (home / "here").glob(".copy.*")
    assert not (work / "begun").exists()
    (work / "begun").mkdir()
    folder = home / "here" / "copy" / "sub"
    folder.mkdir(parents=True)
    for name in ("3.txt", "4.txt"):
        (folder / name).write_bytes(FILES[name])
    return folder


def again(home, wrap=unmasking):
    with gateway() as server, Client.init(config(server, home)) as client:
        download(wrap(client), "folder", home)
    assert server.requests == []


def test_the_next_call_completes_the_folder_without_a_request(begun, home):
    before = (begun / "3.txt").stat()
    again(home)
    assert on_disk(home / "here" / "copy") == TREE
    assert (begun / "3.txt").stat().st_ino == before.st_ino
    assert names_in(home / "here") == ["copy"]


@pytest.mark.parametrize("content", [b"mine", FILES["3.txt"][:-1], FILES["3.txt"] + b"."])
def test_a_file_that_was_changed_is_an_error_and_stays(begun, home, content):
    (begun / "3.txt").write_bytes(content)
    with pytest.raises(FileExistsError, match="remove it") as caught:
        again(home)
    assert caught.value.filename == str(begun / "3.txt")
    assert (begun / "3.txt").read_bytes() == content
    (begun / "3.txt").unlink()
    again(home)
    assert on_disk(home / "here" / "copy") == TREE


@pytest.mark.parametrize("name", ["sub/mine", "mine"])
def test_a_file_of_others_is_an_error_and_stays(begun, home, name):
    path = home / "here" / "copy" / name
    path.write_bytes(b"precious")
    with pytest.raises(FileExistsError, match="another program writes here"):
        again(home)
    assert path.read_bytes() == b"precious"
    assert files_with_plaintext(home) == set()
    path.unlink()
    again(home)
    assert on_disk(home / "here" / "copy") == TREE


@pytest.mark.parametrize("name", ["sub", "sub/5.txt"])
def test_nothing_is_written_through_a_link(begun, home, name):
    outside = home / "outside"
    outside.mkdir()
    path = home / "here" / "copy" / name
    if name == "sub":
        begun.rename(home / "moved")
    path.symlink_to(outside if name == "sub" else outside / "new")
    with pytest.raises(OSError, match="remove it"):
        again(home)
    assert list(outside.iterdir()) == []
    assert path.is_symlink()


def test_a_folder_that_becomes_a_link_is_not_followed(home, monkeypatch):
    """Not even if that happens after the look whether there is a file."""
    folder, outside = home / "here" / "copy" / "sub", home / "outside"
    outside.mkdir()
    look = TargetTree.open

    def look_and_change(tree, path, *flags):
        file = look(tree, path, *flags)
        if (tree.path, path) == (folder.parent, ("sub", "large")):
            folder.rename(home / "moved")
            folder.symlink_to(outside)
        return file

    monkeypatch.setattr(TargetTree, "open", look_and_change)
    with (
        gateway() as server,
        Client.init(config(server, home)) as client,
        pytest.raises(FileExistsError, match="remove it"),
    ):
        download(unmasking(client), "folder", home)
    assert folder.is_symlink()
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("why", ["it was not begun", "no finish"])
def test_other_folders_are_not_changed(begun, home, why):
    if why == "no finish":
        wrap = lambda client: client  # noqa: E731
    else:
        wrap = unmasking
        (work,) = (home / "here").glob(".copy.*")
        (work / "begun").rmdir()
    with pytest.raises(FileExistsError, match="not empty"):
        again(home, wrap)
    assert names_in(begun) == ["3.txt", "4.txt"]


# Kills

PROGRAM = """
import logging, pathlib, sys, time
from holdfast import Client
from holdfast.disk import atomic
from holdfast.sinks import sinks
from tests import masks
from tests._sync.masking import unmasking

url, token, method, cid, home, named = sys.argv[1:]
home = pathlib.Path(home)
logging.basicConfig(filename=home / "log", level=logging.DEBUG)
fields = {"provider_token": token, "pin_api_url": url, "gateway_url": url + "/ipfs"}
fields |= {"provider": "pinning", "cache_path": home / "cache", "cache_bytes": 100_000_000}
if named == "a name":
    atomic.NO_NAME = None
masks.PIECE = sinks.SPOOL_SIZE = sinks.BESIDE_SIZE = 100_000

def slowly(file):
    for piece in masks.unmask(file):
        (home / "finishing").touch()
        time.sleep(0.02)
        yield piece

with Client.init(**fields) as client:
    unmasking(client, sinks.Finish(slowly, masks.unmasked_size))
    to = home / "here" / "copy"
    if method == "folder":
        client.download_folder(cid, to)
    else:
        client.download(cid + "/sub/large", to=to if method == "file" else None)
    (home / "done").touch()
"""


def kill_at_random(server, method, home, chance, named):
    """Start a download, and kill it some time after its finish begins, or before."""
    (home / "finishing").unlink(missing_ok=True)
    environment = {**os.environ, "TMPDIR": str(home / "temporary")}
    arguments = [server.url, TOKEN, method, folder_dag()[1], str(home), named]
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", PROGRAM, *arguments], env=environment, stderr=subprocess.PIPE
    )
    if chance.random() < 0.2:
        time.sleep(chance.uniform(0.3, 0.8))
    else:
        wait_until((home / "finishing").exists)
        time.sleep(chance.uniform(0, 0.5 if method == "folder" else 0.15))
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) in {-signal.SIGKILL, 0}, process.stderr.read()
    process.stderr.close()


@pytest.mark.slow
@pytest.mark.parametrize("names", ["no name", "a name"])
@pytest.mark.parametrize("method", METHODS)
def test_kills_leave_plaintext_only_in_complete_files_of_the_target(home, method, names):
    chance = random.Random(f"{method} {names}")  # noqa: S311
    target = home / "here" / "copy"
    paths = {target / name: content for name, content in TREE.items() if content}
    complete = {"spool": {}, "file": {target: LARGE}, "folder": paths}[method]
    interrupted = 0
    with gateway() as server:
        for _ in range(10):
            kill_at_random(server, method, home, chance, names)
            left = files_with_plaintext(home)
            interrupted += not (home / "done").exists()
            if names == "a name":
                others = {path for path in left if TEMPORARY.fullmatch(path.name)}
                assert len(others) <= 1
                assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in others)
                left -= others
            assert left <= complete.keys()
            assert all(path.read_bytes() == complete[path] for path in left)
            (home / "done").unlink(missing_ok=True)
            if method == "file":
                target.unlink(missing_ok=True)
    assert interrupted >= 3
    with gateway() as server, Client.init(config(server, home)) as client:
        download(unmasking(client), method, home)
    assert files_with_plaintext(home) == complete.keys()
    assert method != "folder" or on_disk(target) == TREE
