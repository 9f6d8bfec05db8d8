"""`holdfast upload` of several files and of folders."""

import json
import re
import signal
import threading

import pytest

from holdfast import Client, compute_cid
from holdfast.sources.sources import TEXT_HINT
from holdfast.testing import Scripted, ScriptedServer
from tests.commands import plain, server_variables
from tests.support import pinned, wait_until


def write(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("dot_", ".")).write_text(content)


def lines(data):
    return data.decode().splitlines()


def test_several_files_and_folders_have_a_line_each(commands):
    write(commands.folder, a="1", b="2")
    write(commands.folder / "photos", c="3")
    shown = commands.text("upload", "a", "b", "photos").splitlines()
    cids = [compute_cid(commands.folder / name) for name in ("a", "b", "photos")]
    assert sorted(shown) == sorted([f"{cids[0]} a", f"{cids[1]} b", f"{cids[2]} photos"])

    result = commands.run("upload", "a", "b", "--keyvalue", "kind=test", "--json")
    rows = [json.loads(line) for line in lines(result.stdout)]
    expected = {"a": (cids[0], 1), "b": (cids[1], 1)}
    assert {row["path"]: (row["cid"], row["size"]) for row in rows} == expected
    assert {pin["name"] for pin in commands.json("list", "--keyvalue", "kind=test")} == {"a", "b"}


@pytest.mark.parametrize("others", [(), ("a",)], ids=["alone", "with another"])
def test_hidden_files_are_left_out_and_counted(commands, others):
    write(commands.folder, a="1")
    write(commands.folder / "photos", c="3", dot_d="4", dot_e="5")
    result = commands.run("upload", "photos", *others)
    assert (result.returncode, lines(result.stderr)) == (
        0,
        ["left out hidden files and folders: 2; --include-hidden uploads them"],
    )
    shown = commands.text("upload", "photos", *others, "--include-hidden")
    assert compute_cid(commands.folder / "photos", include_hidden=True) in shown
    result = commands.run("upload", "photos", *others, "--json")
    assert list(map(json.loads, lines(result.stderr))) == [
        {"warning": "left out hidden files and folders: 2; --include-hidden uploads them"}
    ]


def test_one_failure_does_not_stop_the_others(commands):
    write(commands.folder, a="1", b="2")
    result = commands.run("upload", "a", "nothing", "b")
    assert result.returncode == 1
    assert len(lines(result.stdout)) == 2
    assert lines(result.stderr) == [
        "error: No such file or directory: nothing",
        f"hint: {TEXT_HINT}",
        "uploaded 2 of 3 files; to upload the others, run the command again",
    ]
    result = commands.run("upload", "a", "nothing", "b", "--json")
    failure, summary = map(json.loads, lines(result.stderr))
    assert (failure["error"]["path"], failure["error"]["exitCode"]) == ("nothing", 1)
    assert summary["warning"].startswith("uploaded 2 of 3 files")
    result = commands.run("upload", "x" * 300, "a")
    assert (result.returncode, len(lines(result.stdout))) == (1, 1)
    assert lines(result.stderr)[0].startswith("error: File name too long: xxx")


def test_a_token_that_is_refused_ends_everything(commands):
    names = [f"{number}" for number in range(50)]
    write(commands.folder, **dict.fromkeys(names, "1"))
    with ScriptedServer(lambda _: Scripted(status=401)) as server:
        result = commands.run("upload", *names, **server_variables(server))
    assert result.returncode == 8
    assert lines(result.stderr)[-1].startswith("uploaded 0 of 50 files; ")
    assert len(server.requests) < 50


def test_ctrl_c_says_what_was_done(commands):
    names = [f"{number}" for number in range(2000)]
    write(commands.folder, **dict.fromkeys(names, "hello"))
    stopped = threading.Event()
    free = iter(range(37))

    def answer(_):
        if next(free, None) is None:
            stopped.wait(30)
        return Scripted(body=pinned())

    with ScriptedServer(answer) as server:
        process = commands.start("upload", *names, **server_variables(server))
        wait_until(lambda: len(server.requests) == 37 + 8)
        process.send_signal(signal.SIGINT)
        shown, errors = process.communicate(timeout=120)
        stopped.set()
    assert process.returncode == 130
    assert len(shown.splitlines()) == 37
    assert errors.splitlines() == [
        "uploaded 37 of 2,000 files; to upload the others, run the command again",
        "interrupted",
    ]
    assert len(server.requests) == 45


@pytest.mark.slow
def test_after_ctrl_c_there_is_a_line_for_all_that_was_done(commands):
    """Also for what was under way, and could not be stopped."""
    store = commands.folder / "store"
    names = [f"{number}" for number in range(1500)]
    write(commands.folder, **{name: name * 5000 for name in names})
    shown, _ = interrupted(commands, "upload", *names, "--path", store)
    with Client.init(path=store) as client:
        assert {line.split()[0] for line in shown} == {pin.cid for pin in client.iter_pins()}
        cids = [outcome.result().cid for outcome in client.upload_many(map(str.encode, names))]
        shown, errors = interrupted(commands, "revoke", *cids, "--path", store)
        left = {pin.cid for pin in client.iter_pins()}
    done = set(cids) - left
    assert {line.split()[1] for line in shown} == done
    assert errors == [f"revoked {len(done):,} of 1,500", "interrupted"]


def interrupted(commands, *arguments):
    """The lines of a command that was interrupted when it had written some."""
    with commands.start(*arguments) as process:
        shown = [process.stdout.readline()]
        process.send_signal(signal.SIGINT)
        shown += process.stdout.readlines()
        errors = process.stderr.read().splitlines()
    assert process.returncode == 130
    assert len(shown) < 1500
    return shown, errors


def test_one_bar_counts_the_files_and_their_bytes(commands):
    write(commands.folder, a="1" * 1000, b="2" * 2000)
    write(commands.folder / "c", d="3" * 3000, e="4" * 4000)
    commands.delay = 0
    code, shown = commands.on_terminal("upload", "a", "b", "c")
    assert code == 0
    assert re.search(r"3/3 files ━+ 9\.77 KiB of 9\.77 KiB", plain(shown))
    written = [line for line in plain(shown).splitlines() if line.startswith("baf")]
    assert sorted(line[-2:] for line in written) == [" a", " b", " c"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--name", "x", "a", "b"), "--name is for one file"),
        (("--keyvalue", "x", "a", "b"), "'x' is not a key-value"),
        (("a", "-"), '"-" cannot be one of several files'),
        (("a", ""), "it is empty"),
    ],
)
def test_wrong_usage(commands, words, message):
    write(commands.folder, a="1", b="2")
    code, errors = commands.failure("upload", *words)
    assert code == 2
    assert message in errors[0]
