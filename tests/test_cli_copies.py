"""The commands `health` and `drill`, and what `list` and `revoke` do with provider `copies`."""

import json
import re
import shutil
import signal
import threading
from contextlib import contextmanager

import pytest
import typer

from holdfast import Client
from holdfast.cli.copies import DrillReport
from holdfast.cli.run import Run
from holdfast.content.cid import CID
from holdfast.providers import CopiesProvider
from holdfast.records import Health
from holdfast.repository import Repository
from holdfast.repository.ledger import CopyState
from holdfast.testing import Scripted, ScriptedServer
from tests.commands import Commands, plain
from tests.support import wait_until

SAFE = ("--use", "safe")
HOSTILE = "a\x1b[31mb\nc"
SHOWN = r"a\x1b[31mb\nc"


def write_connections(commands, tmp_path, *, need=1, **more):
    """A file with the stores `one` and `two`, and `safe` over both; `more` are further members."""
    tables = [
        f'[connections.{name}]\nprovider = "local"\nsite = "{name}"\npath = "{tmp_path / name}"'
        for name in ("one", "two")
    ]
    tables += [f"[connections.{name}]\n{text}" for name, text in more.items()]
    names = json.dumps(["one", "two", *more])
    tables.append(
        f'[connections.safe]\nprovider = "copies"\npath = "{tmp_path / "ledger"}"\n'
        f"provider_options = {{ connections = {names}, need = {need} }}"
    )
    commands.write_user_file("\n".join(tables))


@pytest.fixture
def commands(tmp_path):
    commands = Commands(tmp_path)
    write_connections(commands, tmp_path)
    return commands


@contextmanager
def copies(tmp_path):
    """The provider of the connection `safe`."""
    names = ["one", "two"]
    with Client.init(path=tmp_path / "one") as one, Client.init(path=tmp_path / "two") as two:
        path = tmp_path / "ledger"
        provider = CopiesProvider([one, two], sites=names, names=names, path=path, patience=60)
        yield provider
        provider.close()


@pytest.fixture
def cids(tmp_path):
    with copies(tmp_path) as provider:
        client = Client(provider)
        return [client.store(n, name=name).cid for n, name in enumerate(("plain", HOSTILE))]


def lose(tmp_path, name, cid):
    """Remove the block of `cid`, but not the pin, from the store `name`."""
    with Repository(tmp_path / name) as repository, repository._database.writing() as connection:
        connection.execute("DELETE FROM blocks WHERE key = ?", (CID.parse(cid).key,))


def summary(one, two, totals):
    """What a run of `health` writes at its end: what is proven, claimed and missing, by member."""
    counts = {"one": one, "two": two}
    return [
        f"{name} (site {name}): proven {proven}, claimed {claimed}, missing {missing}"
        for name, (proven, claimed, missing) in counts.items()
    ] + [totals]


def run(commands, *words):
    """The exit code, the lines of the output, and those beside it, without times."""
    result = commands.run(*words, *SAFE)
    errors = [line.partition("; oldest proof: ")[0] for line in result.stderr.decode().splitlines()]
    return result.returncode, result.stdout.decode().splitlines(), errors


def test_health_is_a_summary_if_everything_has_its_copies(commands, cids):
    expected = summary((2, 0, 0), (2, 0, 0), "2 pins; all copies: 2")
    assert run(commands, "health") == (0, [], expected)
    code, lines, _ = run(commands, "health", "--json", "--sample", "1/1")
    reports = {report["cid"]: report for report in map(json.loads, lines)}
    assert (code, {*reports}) == (0, {*cids})
    report = reports[cids[1]]
    assert report.pop("last_proof") > 1_700_000_000_000
    states = {"claimed": [], "proven": ["one", "two"], "missing": []}
    assert report == {"cid": cids[1], "name": HOSTILE, "want": 2, **states}


def test_health_names_what_has_too_few_copies_and_fix_makes_them(commands, cids, tmp_path):
    lose(tmp_path, "two", cids[1])
    line = f"1 of 2  {cids[1]}  one: proven, two: missing  {SHOWN}"
    totals = "2 pins; all copies: 1; fewer than want: 1"
    assert run(commands, "health") == (20, [line], summary((2, 0, 0), (1, 0, 1), totals))
    code, lines, _ = run(commands, "health", "--json")
    assert code == 20
    missing = {report["cid"]: report["missing"] for report in map(json.loads, lines)}
    assert missing == {cids[0]: [], cids[1]: ["two"]}
    code, lines, errors = run(commands, "health", "--fix")
    assert (code, lines, errors[-1]) == (0, [], "2 pins; all copies: 2")
    with Client.init(path=tmp_path / "two") as client:
        assert client.retrieve(cids[1]) == 1


def test_a_pin_with_fewer_copies_than_are_needed_has_a_code_of_its_own(commands, cids, tmp_path):
    shutil.rmtree(tmp_path / "two")
    write_connections(commands, tmp_path, need=2)
    code, lines, errors = run(commands, "health")
    assert (code, errors[-1]) == (21, "2 pins; fewer than need: 2")
    assert f"1 of 2  {cids[0]}  one: proven, two: missing  plain" in lines
    write_connections(commands, tmp_path)
    shutil.rmtree(tmp_path / "one")
    code, lines, errors = run(commands, "health")
    assert (code, errors[-1]) == (21, "2 pins; fewer than need: 2")
    assert f"0 of 2  {cids[0]}  one: missing, two: missing  plain" in lines


def test_pins_that_only_a_member_has_are_foreign_until_they_are_adopted(commands, cids, tmp_path):
    with Client.init(path=tmp_path / "two") as client:
        foreign = client.store("theirs", name="theirs").cid
    assert foreign not in commands.text("list", *SAFE)
    (line,) = commands.text("list", "--foreign", *SAFE).splitlines()
    assert (line.split()[0], line.split()[-3:]) == (foreign, ["at", "two", "theirs"])
    (pin,) = commands.rows("list", "--foreign", *SAFE)
    assert (pin["cid"], pin["peers"]) == (foreign, {"two": "foreign"})
    assert run(commands, "health", "--fix")[2][-1] == "2 pins; all copies: 2"
    with Client.init(path=tmp_path / "one") as client:
        assert foreign not in {pin.cid for pin in client.pins()}
    assert run(commands, "health", "--adopt", "--fix")[2][-1] == "3 pins; all copies: 3"
    with Client.init(path=tmp_path / "one") as client:
        assert foreign in {pin.cid for pin in client.pins()}
    assert commands.text("list", "--foreign", *SAFE) == ""
    code, errors = commands.failure("list", "--foreign", "--name", "x", *SAFE)
    assert (code, errors[0]) == (
        2,
        "error: --foreign lists all such pins: leave the other options out",
    )


def test_an_empty_ledger_is_no_success_without_a_word(commands, cids, tmp_path):
    shutil.rmtree(tmp_path / "ledger")
    code, lines, errors = run(commands, "health")
    assert (code, lines) == (0, [])
    assert errors[-1] == "no pins; --adopt adds those of the members"
    code, errors = commands.failure("drill", "--without", "one", *SAFE)
    assert (code, errors[0]) == (
        10,
        "error: there is no pin that could be read",
    )
    assert run(commands, "health", "--adopt")[2][-1] == "2 pins; all copies: 2"


def test_a_lost_ledger_is_made_again_although_a_member_is_down(commands, cids, tmp_path):
    shutil.rmtree(tmp_path / "ledger")
    down = 'provider = "kubo"\npin_api_url = "http://127.0.0.1:1"\nretries = { attempts = 1 }'
    write_connections(commands, tmp_path, three=down)
    code, lines, errors = run(commands, "health", "--adopt")
    assert (code, lines) == (1, [])
    assert errors[-2:] == [
        "2 pins; all copies: 2",
        "some pins were not adopted: run --adopt again later",
    ]
    assert re.fullmatch(
        r"three \(site this machine\): proven 0, claimed 0, missing 0, failing since 2[-0-9 :]+: "
        r"cannot connect to 127\.0\.0\.1:1: Connection refused",
        errors[2],
    )
    code, errors = commands.failure("list", "--foreign", *SAFE)
    assert (code, errors[0]) == (6, "error: cannot connect to 127.0.0.1:1: Connection refused")


def test_a_drill_says_whether_a_member_could_be_left(commands, cids, tmp_path):
    words = "you could leave two today: 2 pins can be read without it"
    later = "; 2 would be at fewer than 2 sites: add a member and run `holdfast health --fix`"
    assert run(commands, "drill", "--without", "two") == (0, [], [f"{words}{later}"])
    code, lines, _ = run(commands, "drill", "--without", "two", "--json")
    assert code == 0
    reports = sorted(map(json.loads, lines), key=lambda report: report["name"])
    assert [(report["cid"], report["proven"]) for report in reports] == [
        (cids[1], ["one"]),
        (cids[0], ["one"]),
    ]
    lose(tmp_path, "two", cids[1])
    code, lines, errors = run(commands, "drill", "--without", "one")
    assert code == 21
    assert [line.split()[:4] for line in lines] == [["0", "of", "2", cids[1]]]
    assert lines[0].endswith(SHOWN)
    assert errors == ["you cannot leave one today: too few other copies of 1 of 2 pins"]


def test_a_drill_counts_the_copies_that_are_needed(commands, cids, tmp_path):
    write_connections(commands, tmp_path, need=2)
    code, lines, errors = run(commands, "drill", "--without", "two")
    assert code == 21
    assert f"1 of 2  {cids[0]}  one: proven  plain" in lines
    assert errors == ["you cannot leave two today: too few other copies of 2 of 2 pins"]


@pytest.fixture
def report(tmp_path):
    """That of a drill without `one`, which has seen a pin that could not be read."""
    with copies(tmp_path) as provider:
        report = DrillReport(Run({}, as_json=False, fields=None), provider, "one")
        report.check(Health(cid="bafkqaaa", name="tide", want=2, claimed=("two",)))
        yield report


def test_a_pin_that_was_not_read_has_no_copy_whatever_the_ledger_says(report, capsys):
    with pytest.raises(typer.Exit) as end, report.shown("drill"):
        report.is_over = True
    shown = capsys.readouterr()
    assert end.value.exit_code == 21
    assert shown.out.split() == ["0", "of", "2", "bafkqaaa", "two:", "claimed", "tide"]
    assert shown.err == "you cannot leave one today: too few other copies of 1 of 1 pin\n"


def test_after_an_interrupt_nothing_is_concluded(report, capsys):
    with pytest.raises(KeyboardInterrupt), report.shown("drill"):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "stopped after 1 pin; run the same command again\n"


def test_a_member_that_does_not_exist_is_an_error(commands, cids):
    code, errors = commands.failure("drill", "--without", "three", *SAFE)
    assert (code, errors[0]) == (3, "error: 'three' is not a member: the members are one, two")
    code, errors = commands.failure("revoke", cids[0], "--only-at", "three", *SAFE)
    assert code == 3
    assert "three" in errors[0]


def test_a_copy_is_removed_at_one_member_only_if_the_others_have_it(commands, cids, tmp_path):
    done = commands.text("revoke", cids[0], "--only-at", "two", *SAFE)
    assert done == f"unpinned at two  {cids[0]}"
    done = commands.text("revoke", "-f", cids[0], "--only-at", "two", *SAFE)
    assert done == f"not pinned at two  {cids[0]}"
    with Client.init(path=tmp_path / "two") as client:
        assert [pin.cid for pin in client.pins()] == [cids[1]]
    code, errors = commands.failure("revoke", cids[0], "--only-at", "one", *SAFE)
    assert code == 3
    assert errors[0].startswith(f"error: {cids[0]} stays at one: ")
    with Client.init(path=tmp_path / "one") as client:
        assert cids[0] in {pin.cid for pin in client.pins()}
    result = commands.run("revoke", *cids, "--only-at", "one", "--json", *SAFE)
    assert result.returncode == 3
    assert json.loads(result.stdout) == {"cid": cids[1], "revoked": True}


@pytest.mark.parametrize(
    "words",
    [
        ("health",),
        ("drill", "--without", "one"),
        ("list", "--foreign"),
        ("revoke", "bafkqaaa", "--only-at", "one"),
    ],
    ids=lambda words: words[0],
)
def test_another_provider_has_one_place(commands, tmp_path, words):
    code, errors = commands.failure(*words)
    assert (code, errors) == (
        3,
        [
            "error: provider 'local' has no copies at several members",
            "hint: choose a connection of provider copies with --use",
        ],
    )
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("words", [("health",), ("drill", "--without", "one")])
def test_a_sample_that_means_nothing_is_wrong_usage(commands, cids, words):
    code, errors = commands.failure(*words, "--sample", "many", *SAFE)
    assert code == 2
    assert errors[0].startswith("error: 'many' is not a sample")


def test_the_members_are_shown_where_others_have_an_address(commands, cids, tmp_path):
    (row,) = commands.rows("connections", "safe")
    assert (row["address"], row["connected"]) == ("one, two", True)
    status = commands.json("status", *SAFE)
    assert (status["address"], status["connected"]) == ("one, two", True)
    assert status["store"]["path"] == str(tmp_path / "data/holdfast")  # and not the ledger's folder
    commands.write_user_file(
        '[connections.safe]\nprovider = "copies"\nprovider_options = { connections = 5 }'
    )
    result = commands.run("connections", "--json")
    row = json.loads(result.stdout)
    assert (row["address"], row["error"]["exitCode"]) == ("-", 3)


def test_health_can_be_interrupted_while_a_member_is_silent(commands, cids, tmp_path):
    silent = threading.Event()

    def answer(_):
        silent.wait(60)
        return Scripted(status=500)

    with ScriptedServer(answer) as server:
        kubo = f'provider = "kubo"\npin_api_url = "{server.url}"\nsite = "elsewhere"'
        write_connections(commands, tmp_path, three=kubo)
        process = commands.start("health", *SAFE)
        wait_until(lambda: server.requests)
        process.send_signal(signal.SIGINT)
        shown, errors = process.communicate(timeout=120)
        silent.set()
    assert (process.returncode, shown, errors) == (130, "", "interrupted\n")


def test_a_terminal_shows_how_many_pins_were_looked_at(commands, cids):
    commands.delay = 0
    code, shown = commands.on_terminal("health", *SAFE)
    assert code == 0
    assert re.search(r"health .* 2/2 pins", plain(shown))
    assert "2 pins; all copies: 2; oldest proof: " in plain(shown).splitlines()[-1]


def test_health_says_why_a_member_fails_and_what_it_keeps(commands, cids, tmp_path):
    is_listing = [False]

    def answer(request):
        if is_listing[0] and request.method == "GET":
            return Scripted(body={"rows": [], "count": 0})
        return Scripted(status=403 if is_listing[0] else 401, body={"error": "no \x1b[31m"})

    with ScriptedServer(answer) as server:
        pinning = (
            f'provider = "pinning"\nprovider_token = "token-0123"\npin_api_url = "{server.url}"\n'
            'site = "elsewhere"'
        )
        write_connections(commands, tmp_path, three=pinning)
        code, _, errors = run(commands, "health")
        line = "three (site elsewhere): proven 0, claimed 0, missing 0, "
        assert code == 0
        assert re.fullmatch(
            re.escape(line) + r"failing since 2[-0-9 :]+: HTTP error 401", errors[2]
        )
        with copies(tmp_path) as provider:
            cid = CID.parse(cids[0])
            provider.ledger.note(cid, {"three": CopyState("claimed")})
        is_listing[0] = True
        commands.text("revoke", cids[0], *SAFE)
        code, _, errors = run(commands, "health")
        keeps = re.escape(f"{line}it keeps {cids[0]}, which was revoked: ") + r"no \\x1b\[31m"
        assert code == 0
        assert re.fullmatch(keeps, errors[2])
