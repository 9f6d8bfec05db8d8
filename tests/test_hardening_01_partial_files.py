"""Partial downloads in the cache folder: no link is followed, no file of others is removed."""

import os
import time

import pytest

import holdfast.disk.folders
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.disk.partial import FORGOTTEN_AFTER, WORTH_KEEPING, PartialFile
from holdfast.sinks.sinks import TargetSink

REFERENCE = Reference.parse(str(CID.of_raw(b"hello")))
DATA = b"x" * WORTH_KEEPING
OLD = time.time() - FORGOTTEN_AFTER - 3600


@pytest.fixture(params=["descriptors", "lstat"], autouse=True)
def way(request, monkeypatch):
    """Both ways to reach a folder: the one of POSIX, and the one for systems without it."""
    if request.param == "lstat":
        monkeypatch.setattr(holdfast.disk.folders, "HAS_DIR_FD", False)


def interrupted(folder):
    """Leave a partial file behind; return its path."""
    partial = PartialFile(folder, REFERENCE)
    partial.open()
    partial.write(DATA)
    partial.close(verified=len(DATA))
    (path,) = folder.iterdir()
    return path


def download(tmp_path):
    """Download to a file by way of the cache folder; return how much was found of it before."""
    sink = TargetSink(tmp_path / "copy", cache=tmp_path / "cache", reference=REFERENCE)
    sink.open()
    kept = sink.saved_size
    sink.restart()
    sink.write(b"hello")
    sink.commit()
    sink.discard()
    assert (tmp_path / "copy").read_bytes() == b"hello"
    return kept


def test_a_partial_file_is_found_again(tmp_path):
    interrupted(tmp_path / "cache/partial")
    assert download(tmp_path) == len(DATA)
    assert list((tmp_path / "cache/partial").iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "dangling", "hard link", "pipe", "folder"])
def test_what_is_no_file_of_ours_is_neither_read_nor_written(tmp_path, kind):
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious" * 1000)
    path = interrupted(tmp_path / "cache/partial")
    path.unlink()
    match kind:
        case "link":
            path.symlink_to(outside)
        case "dangling":
            path.symlink_to(tmp_path / "new")
        case "hard link":
            os.link(outside, path)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
    assert download(tmp_path) == 0
    assert outside.read_bytes() == b"precious" * 1000
    assert not (tmp_path / "new").exists()
    assert os.path.lexists(path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs another user")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_belongs_to_another_user_is_not_used(tmp_path, what):
    path = interrupted(tmp_path / "cache/partial")
    os.chown(path if what == "file" else path.parent, 12345, 12345)
    assert download(tmp_path) == 0
    assert path.read_bytes() == DATA


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
    ours = [f"{'a' * 40}.part", f"{'b' * 40}.{'c' * 16}.part"]
    others = ["thesis.part", "a.part", f"{'A' * 40}.part", f"{'a' * 41}.part", f"{'a' * 40}.part~"]
    for name in (*ours, *others):
        (folder / name).write_bytes(b"x")
        os.utime(folder / name, (OLD, OLD))
    (folder / f"{'d' * 40}.part").write_bytes(b"x")  # young
    (folder / f"{'e' * 40}.part").symlink_to(folder / "thesis.part")
    download(tmp_path)
    left = {path.name for path in folder.iterdir()}
    assert left == {*others, f"{'d' * 40}.part", f"{'e' * 40}.part"}
