"""`holdfast.car.pack`: an archive of a file or folder, without a store."""

import io
import os

import pytest

from holdfast import Client, car, compute_cid
from holdfast.content.car import CarReader
from holdfast.sources.folder_source import FolderSource
from tests.content import stream

LARGE = b"".join(stream("pack", 3_000_000))


def read(data):
    """The roots and the blocks of an archive, all verified."""
    reader = CarReader()
    blocks = reader.update(data)
    reader.finish()
    return [str(root) for root in reader.roots], [str(cid) for cid, _ in blocks]


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    for name in ("a", "sub/again"):
        (folder / name).write_bytes(LARGE)
    (folder / "zeros").write_bytes(bytes(5 << 20))
    (folder / ".hidden").write_bytes(b"hidden")
    (folder / "link").symlink_to("a")
    return folder


@pytest.mark.parametrize("profile", ["unixfs-v1-2025", "unixfs-v0-2015", "kubo-legacy-cidv1"])
@pytest.mark.parametrize("include_hidden", [False, True])
def test_a_folder_is_packed_with_each_block_once_and_its_root_last(
    folder, tmp_path, profile, include_hidden
):
    how = {"profile": profile, "include_hidden": include_hidden}
    reports = []
    root = car.pack(
        folder, tmp_path / "x.car", progress=lambda *report: reports.append(report), **how
    )
    assert root == compute_cid(folder, **how)
    roots, blocks = read((tmp_path / "x.car").read_bytes())
    assert (roots, blocks[-1]) == ([root], root)
    assert len(set(blocks)) == len(blocks)
    total = 2 * FolderSource.of(folder, include_hidden=include_hidden).size
    assert reports == sorted(reports)
    assert reports[-1] == (total, total)
    with Client.init(provider="car", path=tmp_path / "x.car") as client:
        client.download_folder(root, tmp_path / "copy", symlinks=True)
    assert compute_cid(tmp_path / "copy", **how) == root


def only_once(data):
    yield from (data[:1_000_000], data[1_000_000:])


@pytest.mark.parametrize("content", [LARGE, b"", b"hello"], ids=len)
@pytest.mark.parametrize("make", [bytes, io.BytesIO, only_once], ids=["bytes", "file", "iterable"])
def test_any_content_is_packed_to_an_open_file(content, make):
    out = io.BytesIO()
    root = car.pack(make(content), out)
    assert root == compute_cid(content)
    assert read(out.getvalue())[0] == [root]


@pytest.mark.parametrize("name", ["folder", "folder/a"])
def test_content_that_changes_between_the_readings_leaves_what_was_there(folder, tmp_path, name):
    target = tmp_path / "x.car"
    target.write_bytes(b"older")
    status = (folder / "a").stat()

    def change(done, total):
        """Change a byte in the second reading, and make it look as before."""
        if done >= total // 2:
            (folder / "a").write_bytes(b"x" + LARGE[1:])
            os.utime(folder / "a", ns=(status.st_atime_ns, status.st_mtime_ns))

    with pytest.raises(OSError, match=r"^(folder|a) was written to while it was read"):
        car.pack(tmp_path / name, target, progress=change)
    assert target.read_bytes() == b"older"
    assert {entry.name for entry in tmp_path.iterdir()} == {"folder", "x.car"}


def test_an_archive_does_not_replace_a_file_that_is_part_of_it(folder, monkeypatch):
    monkeypatch.chdir(folder)
    root = car.pack(".", "x.car")  # it is not there yet when the folder is scanned
    with pytest.raises(OSError, match=r"^x\.car is in the folder itself"):
        car.pack(".", "x.car")
    assert car.pack("sub", "x.car") != root


@pytest.mark.parametrize("target", ["missing/x.car", "."])
def test_a_target_that_cannot_be_written_is_an_error_before_anything_is_read(tmp_path, target):
    def content():
        pytest.fail("it was read")
        yield b""

    with pytest.raises(OSError, match=r"No such folder|[Ii]s a directory"):
        car.pack(content(), tmp_path / target)


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["unixfs-v1-2025", "unixfs-v0-2015"])
def test_kubo_reads_what_was_packed(folder, tmp_path, kubo, profile):
    root = car.pack(folder, tmp_path / "x.car", profile=profile)
    kubo.import_car((tmp_path / "x.car").read_bytes())
    kubo.call("pin/add", arg=root)  # it follows all links, and fails if a block is missing
    assert kubo.call("cat", arg=f"{root}/sub/again") == LARGE


@pytest.mark.slow
def test_an_archive_of_kubo_is_read(folder, tmp_path, kubo):
    root = car.pack(folder, tmp_path / "x.car")
    kubo.import_car((tmp_path / "x.car").read_bytes())
    (tmp_path / "kubo.car").write_bytes(kubo.call("dag/export", arg=root))
    with Client.init(provider="car", path=tmp_path / "kubo.car") as client:
        client.download_folder(root, tmp_path / "copy", symlinks=True)
    assert compute_cid(tmp_path / "copy") == root
