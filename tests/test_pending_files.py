"""Files that appear when they are complete: what an interruption leaves, and what is not touched.

No temporary file is left behind, however a process ends. In the cache folder, no link is followed,
and no file of others is removed.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.reference import Reference
from holdfast.disk import atomic
from holdfast.disk.atomic import (
    SAVED,
    SAVED_FORGOTTEN_AFTER,
    TEMPORARY,
    TEMPORARY_FORGOTTEN_AFTER,
    WORTH_KEEPING,
    PendingFile,
)
from holdfast.protocol.gateway import RAW_TYPE
from holdfast.sinks.sinks import SpoolSink, TargetSink
from holdfast.sources.blob import Blob
from holdfast.testing import Scripted, ScriptedServer
from tests.content import Blocks
from tests.disks import PLANTED, pending_download
from tests.programs import start_program
from tests.support import raw_cid, wait_until

linux = pytest.mark.skipif(atomic.NO_NAME is None, reason="needs files without a name")

DATA = bytes(range(256)) * 100_000
HELLO_CID = raw_cid(b"hello")
OLD = time.time() - SAVED_FORGOTTEN_AFTER - 3600
ROOT, BLOCKS = Blocks.of_file(DATA, UNIXFS_V1_2025)

SCRIPT = """
import sys
from holdfast import Client
url, cid, target, cache = sys.argv[1:]
settings = {
    "provider": "pinning", "provider_token": "x", "pin_api_url": url,
    "gateway_url": url + "/ipfs", "cache_path": cache,
}
with Client.init(settings) as client:
    client.download(cid, to=target or None)
"""
COMMAND = "from holdfast.cli.main import main; main()"


def answer(request):
    """All blocks, and a body that stops where it is nearly whole."""
    if "format=raw" in request.target:
        return Scripted(body=BLOCKS[ROOT], headers={"Content-Type": RAW_TYPE})
    if "format=" in request.target:
        return Scripted(status=406)
    return Scripted(body=DATA, cut=24_000_000, ending="stall")


def open_files(process, folder):
    """Return the sizes of the files below `folder` that a process has open.

    Other files do not count: at its start, Python has its library open, of 23 MB.
    """
    sizes = []
    for entry in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed meanwhile
            if entry.readlink().is_relative_to(folder):
                sizes.append(entry.stat().st_size)
    return sizes


def terminate_when_it_has(process, size, folder, *, named_in=None):
    """Send SIGTERM when a process has a file of over `size` bytes open in `folder`; wait for it.

    With `named_in`, wait until a file in that folder has a name, too.
    """

    def has_it():
        assert process.poll() is None
        named = named_in is None or any(path.is_file() for path in named_in.rglob("*"))
        return named and max(open_files(process, folder), default=0) > size

    try:
        wait_until(has_it)
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    finally:
        process.kill()
        process.communicate()


@linux
@pytest.mark.slow
@pytest.mark.parametrize("by", ["script", "command"])
@pytest.mark.parametrize("cid", [str(ROOT), raw_cid(DATA)], ids=["tree", "block"])
def test_sigterm_leaves_no_file(tmp_path, by, cid):
    """The script has a temporary file, the command one beside its target."""
    for name in ("temporary", "target"):
        (tmp_path / name).mkdir()
    # Without a cache folder, a download to a file is written beside its target.
    cache = tmp_path / "cache"
    cache.write_bytes(b"")
    with ScriptedServer(answer) as server:
        environment = {
            **os.environ,
            "TMPDIR": str(tmp_path / "temporary"),
            "HOLDFAST_PROVIDER": "pinning",
            "HOLDFAST_PROVIDER_TOKEN": "x",
            "HOLDFAST_GATEWAY_URL": f"{server.url}/ipfs",
            "HOLDFAST_CACHE_PATH": str(cache),
        }
        arguments = [SCRIPT, server.url, cid, "", cache]
        if by == "command":
            arguments = [COMMAND, "download", cid, tmp_path / "target/file"]
        process = start_program(*arguments, env=environment)
        terminate_when_it_has(process, 4_000_000, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [cache]


def without_blocks(request):
    return Scripted(status=406) if "format=raw" in request.target else answer(request)


@pytest.mark.slow
@linux
@pytest.mark.parametrize(
    ("cid", "reply", "may_stay"),
    [
        pytest.param(raw_cid(DATA), answer, False, id="block"),
        pytest.param(str(ROOT), without_blocks, False, id="tree without blocks"),
        pytest.param(str(ROOT), answer, True, id="tree"),
    ],
)
def test_sigterm_leaves_only_verified_bytes_in_the_cache(tmp_path, cid, reply, may_stay):
    cache = tmp_path / "cache"
    with ScriptedServer(reply) as server:
        process = start_program(SCRIPT, server.url, cid, tmp_path / "copy", cache)
        terminate_when_it_has(process, 8_000_000, tmp_path, named_in=cache if may_stay else None)
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(left) == may_stay
    for path in left:
        assert path.stat().st_size >= WORTH_KEEPING
        assert DATA.startswith(path.read_bytes())


def test_a_saved_file_loses_its_name_when_what_it_holds_is_given_up(tmp_path):
    cache = tmp_path / "cache"
    pending = pending_download(cache, str(ROOT), DATA[: 2 << 20])

    def saved():
        """Whether the file has the name of its place, and no other."""
        names = [path.name for path in (cache / "partial").iterdir()]
        assert len(names) <= 1
        assert all(SAVED.fullmatch(name) or TEMPORARY.fullmatch(name) for name in names)
        return any(map(SAVED.fullmatch, names))

    assert not saved()
    pending.save()
    assert saved()
    pending.truncate(1000)
    pending.write(b"not verified")
    assert not saved()
    pending.commit()
    assert list((cache / "partial").iterdir()) == []
    assert (tmp_path / "copy").read_bytes() == DATA[:1000] + b"not verified"


def test_of_two_downloads_one_keeps_its_bytes(tmp_path):
    cache = tmp_path / "cache"
    first, second = (pending_download(cache, str(ROOT), DATA[: 2 << 20]) for _ in range(2))
    for pending in (first, second):
        pending.save()
    second.write(b"more")
    second.commit()
    first.discard(verified=2 << 20)
    assert (tmp_path / "copy").stat().st_size == (2 << 20) + 4
    (path,) = (cache / "partial").iterdir()
    assert path.read_bytes() == DATA[: 2 << 20]


def test_a_download_under_way_keeps_its_file_whatever_the_clock_says(tmp_path):
    cache = tmp_path / "cache"
    used = pending_download(cache, str(ROOT), b"x" * 10)
    used.save()
    (path,) = (cache / "partial").iterdir()
    os.utime(path, (0, 0))
    pending_download(cache, raw_cid(b"other"), b"").discard()
    assert path.exists()
    used.commit()
    assert (tmp_path / "copy").read_bytes() == b"x" * 10
    path.write_bytes(b"left by a process that died")
    os.utime(path, (0, 0))
    pending_download(cache, raw_cid(b"other"), b"").discard()
    assert not path.exists()


@linux
def test_a_large_blob_has_no_name_and_is_read_by_several(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sink = SpoolSink()
    sink.write(DATA)
    sink.commit()
    blob = sink.blob(type="", name=None)
    sink.discard()
    assert list(tmp_path.iterdir()) == []
    with blob.open() as one, blob.open() as two:
        del blob
        assert one.read(1000) == two.read(1000) == DATA[:1000]
        assert one.seek(-1000, os.SEEK_END)
        assert (one.read(), two.read(5), two.tell()) == (DATA[-1000:], DATA[1000:1005], 1005)


@linux
def test_a_pending_file_has_no_name_until_it_is_whole(tmp_path):
    target = tmp_path / "file"
    for content in (b"first", b"second"):
        with PendingFile(target) as pending:
            pending.write(content)
            assert [path.name for path in tmp_path.iterdir()] == ["file"] * target.exists()
            pending.commit()
        assert target.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_where_files_have_names_those_of_ended_processes_are_swept(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "NO_NAME", None)
    long_ago = time.time() - TEMPORARY_FORGOTTEN_AFTER - 60
    names = {f".{digit * 16}.holdfast-part" for digit in "abc"}
    link, young, left = sorted(names)
    (tmp_path / left).write_bytes(b"left")
    (tmp_path / "precious").write_bytes(b"mine")
    (tmp_path / link).symlink_to("precious")
    (tmp_path / ".x.holdfast-part").write_bytes(b"another's")
    for name in (left, "precious", ".x.holdfast-part"):
        os.utime(tmp_path / name, (long_ago, long_ago))
    (tmp_path / young).write_bytes(b"of one that runs")
    with PendingFile(tmp_path / "file") as first:
        (own,) = {path.name for path in tmp_path.iterdir()} - {
            *(link, young, "precious", ".x.holdfast-part")
        }
        os.utime(tmp_path / own, (long_ago, long_ago))
        Blob(b"other").save(tmp_path / "other")
        first.write(b"x")
        first.commit()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {link, young, "precious", ".x.holdfast-part", "file", "other"}


def interrupted(cache):
    """Leave the file of an interrupted download in the cache folder; return its path."""
    pending_download(cache, HELLO_CID, DATA[:WORTH_KEEPING]).discard(verified=WORTH_KEEPING)
    (path,) = (cache / "partial").iterdir()
    return path


def download(tmp_path):
    """Download to a file by way of the cache folder; return how much was found of it before."""
    sink = TargetSink(
        tmp_path / "copy", cache=tmp_path / "cache", reference=Reference.parse(HELLO_CID)
    )
    sink.open()
    saved = sink.saved_size
    sink.restart()
    sink.write(b"hello")
    sink.commit()
    sink.discard()
    assert (tmp_path / "copy").read_bytes() == b"hello"
    return saved


def test_a_partial_file_is_found_again(tmp_path):
    interrupted(tmp_path / "cache")
    assert download(tmp_path) == WORTH_KEEPING
    assert list((tmp_path / "cache/partial").iterdir()) == []


@pytest.mark.parametrize("kind", PLANTED)
def test_what_is_no_file_of_ours_is_neither_read_nor_written(tmp_path, kind):
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious" * 1000)
    path = interrupted(tmp_path / "cache")
    path.unlink()
    PLANTED[kind](path, outside)
    assert download(tmp_path) == 0
    assert outside.read_bytes() == b"precious" * 1000
    assert not (tmp_path / "new").exists()
    assert os.path.lexists(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_belongs_to_another_user_is_not_used(tmp_path, what):
    path = interrupted(tmp_path / "cache")
    os.chown(path if what == "file" else path.parent, 12345, 12345)
    assert download(tmp_path) == 0
    assert path.read_bytes() == DATA[:WORTH_KEEPING]


def test_a_linked_folder_is_not_used_and_not_swept(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("thesis.part", f"{'a' * 40}.part"):
        (outside / name).write_bytes(b"precious")
        os.utime(outside / name, (OLD, OLD))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/partial").symlink_to(outside)
    assert download(tmp_path) == 0
    assert len(list(outside.iterdir())) == 2


def test_only_old_files_with_names_of_ours_are_swept(tmp_path):
    folder = tmp_path / "cache/partial"
    folder.mkdir(parents=True)
    ours = [f"{'a' * 40}.part", f".{'c' * 16}.holdfast-part"]
    others = ["thesis.part", "a.part", f"{'A' * 40}.part", f"{'a' * 41}.part", f"{'a' * 40}.part~"]
    for name in (*ours, *others):
        (folder / name).write_bytes(b"x")
        os.utime(folder / name, (OLD, OLD))
    (folder / f"{'d' * 40}.part").write_bytes(b"x")  # young
    (folder / f"{'e' * 40}.part").symlink_to(folder / "thesis.part")
    download(tmp_path)
    left = {path.name for path in folder.iterdir()}
    assert left == {*others, f"{'d' * 40}.part", f"{'e' * 40}.part"}
