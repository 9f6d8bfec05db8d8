"""No temporary file is left behind, however a process ends; and who may set the limit."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from unittest.mock import ANY

import pytest

from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.reference import Reference
from holdfast.disk import atomic
from holdfast.disk.atomic import FORGOTTEN_AFTER, PendingFile
from holdfast.disk.partial import NAME, WORTH_KEEPING, PartialFile
from holdfast.protocol.gateway import RAW_TYPE
from holdfast.sinks.sinks import SpoolSink
from holdfast.sources.blob import Blob
from holdfast.testing import Scripted, ScriptedServer
from tests.content import Blocks
from tests.support import raw_cid, wait_until

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
linux = pytest.mark.skipif(atomic.NO_NAME is None, reason="needs files without a name")

DATA = bytes(range(256)) * 100_000
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
        return named and any(each > size for each in open_files(process, folder))

    try:
        wait_until(has_it)
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    finally:
        process.kill()
        process.wait()


@posix
@linux
@pytest.mark.parametrize("by", ["script", "command"])
@pytest.mark.parametrize("where", ["spooled", "beside its target"])
@pytest.mark.parametrize(
    "cid",
    [
        pytest.param(str(ROOT), id="tree"),
        pytest.param(raw_cid(DATA), id="block", marks=pytest.mark.slow),
    ],
)
def test_sigterm_leaves_no_file(tmp_path, by, where, cid):
    folders = {name: tmp_path / name for name in ("temporary", "target", "home")}
    for folder in folders.values():
        folder.mkdir()
    # Without a cache folder, a download to a file is written beside its target.
    (folders["home"] / "cache").write_bytes(b"")
    target = "" if where == "spooled" else str(folders["target"] / "file")
    with ScriptedServer(answer) as server:
        environment = {
            **os.environ,
            "TMPDIR": str(folders["temporary"]),
            "HOME": str(folders["home"]),
            "HOLDFAST_PROVIDER": "pinning",
            "HOLDFAST_PROVIDER_TOKEN": "x",
            "HOLDFAST_GATEWAY_URL": f"{server.url}/ipfs",
            "HOLDFAST_CACHE_PATH": str(folders["home"] / "cache"),
        }
        if by == "script":
            arguments = [SCRIPT, server.url, cid, target, str(folders["home"] / "cache")]
        else:
            arguments = [COMMAND, "download", cid, target or "-"]
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        terminate_when_it_has(process, 4_000_000, tmp_path)
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert left == [folders["home"] / "cache"]


def without_blocks(request):
    return Scripted(status=406) if "format=raw" in request.target else answer(request)


@posix
@linux
@pytest.mark.parametrize(
    ("cid", "reply", "may_stay"),
    [
        pytest.param(raw_cid(DATA), answer, False, id="block"),
        pytest.param(str(ROOT), without_blocks, False, id="tree without blocks"),
        pytest.param(str(ROOT), answer, True, id="tree"),
    ],
)
@pytest.mark.parametrize("before", ["nothing", "kept"])
def test_sigterm_leaves_only_verified_bytes_in_the_cache(tmp_path, cid, reply, may_stay, before):
    cache = tmp_path / "cache"
    if before == "kept":  # by an earlier download
        partial = PartialFile(cache / "partial", Reference.parse(cid))
        partial.open()
        partial.write(DATA[: 2 << 20])
        partial.close(verified=2 << 20)
    with ScriptedServer(reply) as server:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", SCRIPT, server.url, cid, str(tmp_path / "copy"), str(cache)],
            stderr=subprocess.DEVNULL,
        )
        terminate_when_it_has(process, 8_000_000, tmp_path, named_in=cache if may_stay else None)
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(left) == may_stay
    for path in left:
        kept = path.read_bytes()
        assert len(kept) >= WORTH_KEEPING
        assert DATA.startswith(kept)


def test_a_partial_file_loses_its_name_when_what_it_holds_is_given_up(tmp_path):
    partial = PartialFile(tmp_path, Reference.parse(str(ROOT)))
    partial.open()
    partial.write(DATA[: 2 << 20])
    assert [NAME.fullmatch(path.name)["own"] for path in tmp_path.iterdir()] in ([], [ANY])
    partial.keep()
    assert [NAME.fullmatch(path.name)["own"] for path in tmp_path.iterdir()] == [None]
    partial.truncate(1000)
    partial.write(b"not verified")
    assert [NAME.fullmatch(path.name)["own"] for path in tmp_path.iterdir()] in ([], [ANY])
    partial.commit(tmp_path / "copy", None)
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]
    assert (tmp_path / "copy").read_bytes() == DATA[:1000] + b"not verified"


def test_of_two_downloads_one_keeps_its_bytes(tmp_path):
    first, second = (PartialFile(tmp_path, Reference.parse(str(ROOT))) for _ in range(2))
    for partial in (first, second):
        partial.open()
        partial.write(DATA[: 2 << 20])
    for partial in (first, second):
        partial.keep()
    second.write(b"more")
    second.commit(tmp_path / "copy", None)
    first.close(verified=2 << 20)
    assert (tmp_path / "copy").stat().st_size == (2 << 20) + 4
    (kept,) = [path for path in tmp_path.iterdir() if path.name != "copy"]
    assert kept.read_bytes() == DATA[: 2 << 20]


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
        one.seek(-1000, os.SEEK_END)
        assert one.read() == DATA[-1000:]
        assert two.read(5) == DATA[1000:1005]
        assert two.tell() == 1005


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
    long_ago = time.time() - FORGOTTEN_AFTER - 60
    names = {f".{digit * 16}.holdfast-part" for digit in "abc"}
    link, kept, left = sorted(names)
    (tmp_path / left).write_bytes(b"left")
    (tmp_path / "precious").write_bytes(b"mine")
    (tmp_path / link).symlink_to("precious")
    (tmp_path / ".x.holdfast-part").write_bytes(b"another's")
    for name in (left, "precious", ".x.holdfast-part"):
        os.utime(tmp_path / name, (long_ago, long_ago))
    (tmp_path / kept).write_bytes(b"of one that runs")
    with PendingFile(tmp_path / "file") as first:
        (own,) = {path.name for path in tmp_path.iterdir()} - {
            *(link, kept, "precious", ".x.holdfast-part")
        }
        os.utime(tmp_path / own, (long_ago, long_ago))
        Blob(b"other").save(tmp_path / "other")
        first.write(b"x")
        first.commit()
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {link, kept, "precious", ".x.holdfast-part", "file", "other"}


def test_a_project_does_not_set_the_limit(commands):
    (commands.folder / "holdfast.toml").write_text("max_unverified_bytes = 9\n")
    code, lines = commands.failure("store", "1")
    assert code == 3
    assert "max_unverified_bytes" in lines[0]
    (commands.folder / "holdfast.toml").unlink()
    shown = commands.json("config", HOLDFAST_MAX_UNVERIFIED_BYTES="9")
    told = {"value": 9, "source": "HOLDFAST_MAX_UNVERIFIED_BYTES"}
    assert shown["max_unverified_bytes"] == told
