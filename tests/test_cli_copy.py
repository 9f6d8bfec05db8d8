"""The command `copy`."""

import json
import re
import shutil
import signal
import threading

import pytest

from holdfast import Client, compute_cid
from holdfast.content.cid import CID
from holdfast.repository import Repository
from holdfast.sources.sources import TEXT_HINT
from holdfast.testing import Scripted, ScriptedServer
from tests.commands import Commands, plain, server_variables
from tests.gateways import ODD_LAYOUT
from tests.support import pinned, wait_until

PLACES = ("--from", "here", "--to", "there")


@pytest.fixture
def commands(tmp_path):
    """Commands with two connections, `here` and `there`."""
    commands = Commands(tmp_path)
    connections = [
        f'[connections.{name}]\nprovider = "local"\npath = "{tmp_path / name}"\n'
        for name in ("here", "there")
    ]
    commands.write_user_file("\n".join(connections))
    return commands


def stored(tmp_path, count=3):
    with Client.init(path=tmp_path / "here") as client:
        return [
            client.store({"n": n}, name=f"pin {n}", keyvalues={"even": n % 2 == 0}).cid
            for n in range(count)
        ]


def pins(tmp_path, name="there"):
    with Client.init(path=tmp_path / name) as client:
        return {pin.cid: pin.name for pin in client.iter_pins()}


def test_all_pins_are_copied_and_a_line_is_written_for_each(commands, tmp_path):
    cids = stored(tmp_path)
    result = commands.run("copy", *cids, cids[0], *PLACES)
    assert result.returncode == 0
    expected = {f"copied   {cid}  pin {n}" for n, cid in enumerate(cids)}
    assert set(result.stdout.decode().splitlines()) == expected
    assert result.stderr.decode() == "copied to there: 3 pins\n"
    assert pins(tmp_path) == pins(tmp_path, "here")
    again = commands.run("copy", *PLACES, "--json")
    assert [json.loads(line)["duplicate"] for line in again.stdout.splitlines()] == [True] * 3
    warning = {"warning": "copied to there: 0 pins; there already: 3"}
    assert json.loads(again.stderr) == warning


def test_what_the_target_claims_and_lacks_is_repaired_with_a_proof(commands, tmp_path):
    cids = stored(tmp_path)
    assert commands.run("copy", *PLACES, "--proof").stderr.decode() == (
        "copied to there: 3 pins; proven: 3\n"
    )
    with (
        Repository(tmp_path / "there") as repository,
        repository._database.writing() as connection,
    ):
        connection.execute("DELETE FROM blocks WHERE key = ?", (CID.parse(cids[1]).key,))
    result = commands.run("copy", *PLACES, "--sample", "1/1")
    assert f"repaired  {cids[1]}  pin 1" in result.stdout.decode().splitlines()
    words = "copied to there: 0 pins; there already: 2; repaired: 1; proven: 3\n"
    assert (result.returncode, result.stderr.decode()) == (0, words)
    result = commands.run("copy", *PLACES, "--sample", "1/999999")
    assert result.returncode == 0  # none of the three blocks is in that part
    assert "not proven: no block of it is in the sample" in result.stderr.decode()
    result = commands.run("copy", *PLACES, "--proof", "--sample", "many")
    assert result.returncode == 2
    assert "'many' is not a sample" in result.stderr.decode()


def test_blocks_that_stay_missing_end_with_1_and_the_remedy(commands, tmp_path):
    """The service says that it has the content, and its gateway does not have a block of it."""
    cids = stored(tmp_path, 1)
    row = {"id": "1", "ipfs_pin_hash": cids[0], "size": 9, "date_pinned": "2026-01-01T00:00:00Z"}
    row |= {"date_unpinned": None, "metadata": {"name": "pin 0", "keyvalues": {"even": True}}}

    def service(request):
        if request.target.startswith("/data/pinList"):
            rows = [row] if cids[0] in request.target else []
            return Scripted(body={"count": len(rows), "rows": rows})
        if request.target.startswith("/ipfs/"):
            return Scripted(status=412)
        return Scripted(body={"IpfsHash": cids[0], "PinSize": 9, "isDuplicate": True})

    with ScriptedServer(service) as server:
        commands.write_user_file(
            f'[connections.here]\nprovider = "local"\npath = "{tmp_path / "here"}"\n'
            f'[connections.there]\nprovider = "pinning"\nprovider_token = "x"\n'
            f'pin_api_url = "{server.url}"\nwitness = "{server.url}"\n'
        )
        result = commands.run("copy", *PLACES, "--proof")
    assert result.returncode == 1
    remedy = "(1 of 1 blocks are missing: unpin it there and send it again)"
    assert result.stdout.decode() == f"missing  {cids[0]}  pin 0  {remedy}\n"
    assert result.stderr.decode().endswith("blocks missing at the target: 1\n")


def test_a_dry_run_shows_what_is_missing_and_copies_nothing(commands, tmp_path):
    cids = stored(tmp_path)
    commands.run("copy", cids[0], *PLACES)
    result = commands.run("copy", *PLACES, "--dry-run")
    words = sorted(line.split()[0] for line in result.stdout.decode().splitlines())
    assert words == ["missing", "missing", "there"]
    assert result.stderr.decode() == "missing: 2 pins (14 B); there already: 1\n"
    result = commands.run("copy", f"/ipfs/{cids[2]}", *PLACES, "--dry-run", "--json")
    facts = {"cid": cids[2], "name": "pin 2", "size": 7, "duplicate": False}
    assert json.loads(result.stdout) == facts
    assert list(pins(tmp_path)) == cids[:1]


def test_pins_can_be_chosen(commands, tmp_path):
    cids = stored(tmp_path)
    commands.run("copy", *PLACES, "--keyvalue", "even=true")
    assert set(pins(tmp_path)) == {cids[0], cids[2]}
    commands.run("copy", *PLACES, "--name", "pin 1")
    assert set(pins(tmp_path)) == set(cids)
    result = commands.run("copy", cids[0], *PLACES, "--name", "x")
    assert (result.returncode, b"give these or CIDs, not both" in result.stderr) == (2, True)


def test_a_source_that_is_missing(commands, tmp_path):
    code, lines = commands.failure("copy", *PLACES)
    assert (code, lines[0]) == (3, f"error: there is no store in {tmp_path / 'here'}")
    assert lines[1] == "hint: change the path of 'here', or give another --from"
    assert not (tmp_path / "here").exists()


def test_failures_are_told_for_each_cid_and_the_rest_is_copied(commands, tmp_path):
    (cid,) = stored(tmp_path, 1)
    unknown = "bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq"
    result = commands.run("copy", cid, unknown, *PLACES)
    assert result.returncode == 10
    assert result.stdout.decode() == f"copied   {cid}  pin 0\n"
    lines = result.stderr.decode().splitlines()
    assert lines[0].startswith(f"error: {unknown} is not in this store")
    assert lines[-1] == "copied to there: 1 pin; failed: 1 (not found: 1)"


def test_what_the_target_cannot_have_is_named(commands, tmp_path, node):
    with Repository(tmp_path / "here") as repository:
        pin, _ = repository.add(bytes(range(256)) * 1000, ODD_LAYOUT, name="odd")
    service(commands, tmp_path, node, node.token)
    result = commands.run("copy", "--from", "here", "--to", "service", "--json")
    assert result.returncode == 3
    error = json.loads(result.stderr.splitlines()[0])["error"]
    assert (error["name"], error["cid"]) == ("UnsupportedError", pin.cid)
    assert error["remedy"] == "if it can be fetched anyway, use `holdfast copy --pin-by-cid`"


def service(commands, tmp_path, node, token):
    """Add the connection `service`."""
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text(token)
    commands.write_user_file(
        f'[connections.here]\nprovider = "local"\npath = "{tmp_path / "here"}"\n'
        f'[connections.service]\nprovider = "pinning"\ntoken_file = "{tmp_path / "token"}"\n'
        f'pin_api_url = "{node.config.pin_api_url}"\n'
        f'gateway_url = "{node.config.gateway_url[0]}"\n'
    )


def test_a_command_that_broke_off_leaves_no_journal(commands, tmp_path, node):
    """The next one asks the target what it has."""
    cids = stored(tmp_path)
    arguments = ("copy", "--from", "here", "--to", "service")
    service(commands, tmp_path, node, "an-expired-token-of-mine")
    result = commands.run(*arguments)
    assert result.returncode == 8
    assert "to continue, run the same command again" in result.stderr.decode()
    assert list(tmp_path.rglob("*.journal")) == []
    service(commands, tmp_path, node, node.token)
    assert commands.run(*arguments).returncode == 0
    with Client.init(node.config) as client:
        assert {pin.cid for pin in client.iter_pins()} >= set(cids)
        client.revoke(cids[0])
        result = commands.run(*arguments)
        assert result.stderr.decode() == "copied to service: 1 pin; there already: 2\n"
        assert {pin.cid for pin in client.iter_pins()} >= set(cids)


def test_what_the_target_still_fetches_is_not_counted_as_copied(commands, tmp_path, node):
    with Repository(tmp_path / "here") as repository:
        pin, _ = repository.add(b"to be fetched" * 50_000, ODD_LAYOUT, name="odd")
    service(commands, tmp_path, node, node.token)
    arguments = ("copy", "--from", "here", "--to", "service", "--pin-by-cid", "--wait", "0")
    result = commands.run(*arguments, "--json")
    facts = json.loads(result.stdout)
    assert (facts["cid"], facts["how"], facts["state"]) == (pin.cid, "pin", "queued")
    note = {"warning": "copied to service: 0 pins; not fetched yet: 1"}
    assert json.loads(result.stderr) == note


def test_the_copy_of_a_store_is_another_place(commands, tmp_path):
    cids = stored(tmp_path)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    with Client.init(path=tmp_path / "there") as client:
        client.revoke(cids[0])
    result = commands.run("copy", *PLACES)
    assert result.stderr.decode() == "copied to there: 1 pin; there already: 2\n"


def test_connections_must_be_known(commands, tmp_path):
    stored(tmp_path)
    result = commands.run("copy", "--from", "here", "--to", "nowhere")
    assert result.returncode == 3
    assert result.stderr.decode().startswith("error: --to: unknown connection 'nowhere'")
    assert commands.run("copy", "--from", "here").returncode == 2


@pytest.mark.parametrize("to", ["here", "again"])
def test_source_and_target_must_differ(commands, to, tmp_path):
    again = f"[connections.again]\nprovider = 'local'\npath = '{tmp_path}/there/../here'\n"
    commands.write_user_file(commands.user_file.read_text() + again)
    stored(tmp_path)
    result = commands.run("copy", "--from", "here", "--to", to)
    assert result.returncode == 2
    assert f"--from here and --to {to} are the same place" in result.stderr.decode()
    assert result.stdout == b""


# Uploads of several files and of folders


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
    assert {pin["name"] for pin in commands.rows("list", "--keyvalue", "kind=test")} == {"a", "b"}


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


@pytest.mark.parametrize("others", [(), ("a",)], ids=["alone", "with another"])
def test_excluded_files_are_left_out_and_counted(commands, others):
    write(commands.folder, a="1")
    photos = commands.folder / "photos"
    write(photos, c="3", d="4", e="5", dot_ipfsignore="d\n")
    note = "left out by patterns of --exclude and .ipfsignore: "
    hidden = "left out hidden files and folders: 1; --include-hidden uploads them"
    result = commands.run("upload", "photos", *others, "--exclude", "e", "--exclude", "x")
    assert (result.returncode, lines(result.stderr)) == (0, [hidden, f"{note}2"])
    assert compute_cid(photos, exclude=["e"]) in result.stdout.decode()
    result = commands.run("upload", "photos", *others, "--json")
    rows = {row["path"]: row for row in map(json.loads, lines(result.stdout))}
    assert [row.get("excluded") for _, row in sorted(rows.items())] == [*(None for _ in others), 1]
    result = commands.run("upload", "photos", *others, "--no-ignore")
    assert lines(result.stderr) == [hidden]
    assert compute_cid(photos, ignore_file=None) in result.stdout.decode()


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


@pytest.mark.slow
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


def test_one_bar_counts_the_files_and_their_bytes(commands):
    write(commands.folder, a="1" * 1000, b="2" * 2000)
    write(commands.folder / "c", d="3" * 3000, e="4" * 4000)
    commands.delay = 0
    code, shown = commands.on_terminal("upload", "a", "b", "c")
    assert code == 0
    assert re.search(r"3/3 files ━+ 9\.77 KiB of 9\.77 KiB", plain(shown))
    written = [line for line in plain(shown).splitlines() if line.startswith("baf")]
    assert sorted(line[-2:] for line in written) == [" a", " b", " c"]
