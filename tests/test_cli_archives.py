"""The commands `car pack`, `car ls` and `car unpack`, and others over an archive."""

import json

import pytest

from holdfast import compute_cid
from holdfast.content.car import write_car
from tests.commands import Commands
from tests.dags import Dag


@pytest.fixture
def commands(tmp_path):
    return Commands(tmp_path / "commands")


@pytest.fixture
def folder(commands):
    folder = commands.folder / "photos"
    (folder / "sub").mkdir(parents=True)
    (folder / "a b?.txt").write_text("hello")
    (folder / "sub/data").write_bytes(bytes(3_000_000))
    (folder / ".hidden").touch()
    return folder


@pytest.fixture
def root(commands, folder):
    assert commands.text("car", "pack", "photos", "-o", "x.car") == compute_cid(folder)
    return compute_cid(folder)


def test_a_folder_is_packed_listed_and_unpacked_without_a_store(commands, folder, root):
    assert commands.text("car", "ls", "x.car").splitlines() == ["a b?.txt", "sub"]
    assert commands.text("car", "ls", "x.car", "sub") == "data"
    assert commands.text("car", "ls", "x.car", f"{root}/sub", "-l").endswith("  data")
    assert commands.json("car", "ls", "x.car", "./sub/")["size"] is None
    assert commands.text("car", "unpack", "x.car", "-o", "out") == "out"
    assert compute_cid(commands.folder / "out") == root
    assert commands.text("car", "unpack", "x.car") == root
    assert commands.text("car", "unpack", "x.car", "a b?.txt") == "a b?.txt"
    assert (commands.folder / "a b?.txt").read_text() == "hello"
    assert commands.text("car", "unpack", "x.car", "a b?.txt", "-o", "-") == "hello"
    code, lines = commands.failure("car", "unpack", "x.car", "new folder")
    hint = "hint: `holdfast car unpack x.car -o 'new folder'` unpacks the whole archive there"
    assert (code, lines[1]) == (10, hint)
    assert not (commands.folder.parent / "data").exists()


def test_archives_go_through_pipes(commands, folder, root):
    packed = commands.run("car", "pack", "photos", "-", "--include-hidden")
    hidden = compute_cid(folder, include_hidden=True)
    assert (packed.returncode, packed.stderr.decode()) == (0, f"{hidden}\n")
    assert commands.text("car", "ls", "-", stdin=packed.stdout).startswith(".hidden\n")
    commands.text("car", "unpack", "-", "sub", "-o", "sub", stdin=packed.stdout)
    assert (commands.folder / "sub/data").stat().st_size == 3_000_000
    result = commands.run("car", "pack", "photos", "z.car", "--exclude", "sub")
    assert result.stderr.decode() == "left out by patterns of --exclude and .ipfsignore: 1\n"
    assert commands.text("car", "ls", "z.car") == "a b?.txt"
    value = commands.json("car", "pack", "-", "y.car", "--cid-version", "0", stdin=b"hello")
    assert value == {
        "cid": "QmWfVY9y3xjsixTgbd9AorQxH7VtMpzfx2HaWtsoUYecaX",
        "profile": "unixfs-v0-2015",
        "path": "y.car",
    }


@pytest.mark.slow
def test_roots_that_are_no_directory_or_several_are_listed(commands):
    dag = Dag()
    one, two = dag.raw(b"one"), dag.directory(two=dag.raw(b"two"))
    for roots in ([one], [one, two], []):
        (commands.folder / "x.car").write_bytes(b"".join(write_car(roots, dag.blocks.items())))
        texts = [str(root) for root in roots]
        assert commands.text("car", "ls", "x.car").splitlines() == texts
        assert commands.json("car", "ls", "x.car") == {"roots": texts}
        assert commands.text("car", "ls", "x.car", str(two)) == "two"
        assert commands.text("car", "unpack", "x.car", f"{two}/two", "-o", "-") == "two"
        if len(roots) != 1:
            code, lines = commands.failure("car", "unpack", "x.car")
            words = f"error: x.car has {len(roots)} roots: begin the path with a CID"
            assert (code, lines[0]) == (2, words)


def test_other_commands_read_an_archive(commands, root):
    over = ("--provider", "car", "--path", "x.car")
    assert commands.text("download", f"{root}/a b%3F.txt", "-", *over) == "hello"
    assert json.loads(commands.run("list", "--json", *over).stdout)["cid"] == root
    status = json.loads(commands.run("status", "--json", *over).stdout)
    assert (status["address"], status["connected"]) == ("x.car", True)
    assert status["store"]["path"].endswith("data/holdfast")
    result = commands.run("copy", "--from", "x.car", "--to", "local")
    assert (result.returncode, result.stderr.decode()) == (0, "copied to local: 1 pin\n")
    assert commands.text("ls", root).splitlines() == ["a b?.txt", "sub"]
    code, lines = commands.failure("store", "1", *over)
    assert lines[0].startswith(
        "error: provider 'car' only reads; to store or pin, use one of local,"
    )
    assert code != 0


def test_an_archive_that_cannot_be_read_is_told_in_a_sentence(commands, root):
    data = (commands.folder / "x.car").read_bytes()
    (commands.folder / "cut.car").write_bytes(data[:-200])
    (commands.folder / "text.car").write_text("hello")
    cases = {
        "cut.car": "error: cut.car cannot be read after byte ",
        "text.car": "error: text.car is not an archive (CAR)",
        "none.car": "error: path none.car cannot be read: No such file or directory",
        "photos": "error: path photos cannot be read: Is a directory",
    }
    for file, words in cases.items():
        for command in ("ls", "unpack"):
            _, lines = commands.failure("car", command, file)
            assert lines[0].startswith(words)
    assert commands.failure("car", "unpack", "x.car", "none")[1][0].startswith("error: ")
    assert not [*commands.folder.glob("baf*")]
