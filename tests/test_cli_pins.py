"""Pins from the command line: by CID, changed, and listed by all filters."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from holdfast import compute_cid
from tests.commands import Commands, node_variables
from tests.support import HELLO_CID


@pytest.fixture(params=["local", "pinning"])
def commands(request, tmp_path):
    """Each test once on the embedded store, and once through a node."""
    if request.param == "local":
        return Commands(tmp_path)
    return Commands(tmp_path, **node_variables(request.getfixturevalue("empty_node")))


def test_a_pin_is_changed(commands):
    cid = commands.text("upload", "-", "--name", "first", given=b"1")
    assert commands.text("update", cid, "--name", "second") == f"updated {cid}"
    pin = commands.json("update", cid, "--keyvalue", "a=1", "--keyvalue", "b==x=")
    assert (pin["cid"], pin["name"], pin["keyvalues"]) == (cid, "second", {"a": "1", "b": "=x="})
    pin = commands.json("update", cid, "--remove", "a", "--keyvalue", "c=")
    assert pin["keyvalues"] == {"b": "=x=", "c": ""}
    assert commands.json("list") == [pin]
    code, lines = commands.failure("update", cid)
    assert (code, lines[0]) == (
        2,
        "error: there is nothing to change: give --name, --keyvalue or --remove",
    )
    code, lines = commands.failure("update", HELLO_CID, "--name", "x")
    assert code == 10
    assert lines[0] == f"error: The current user has not pinned the cid: {HELLO_CID}"


def test_pins_are_listed_by_all_filters(commands):
    one = commands.text("upload", "-", "--name", "one", given=b"1")
    two = commands.text("upload", "-", "--name", "two", given=b"2")
    commands.text("update", one, "--keyvalue", "kind=a", "--keyvalue", "n=1")
    commands.text("update", two, "--keyvalue", "kind=a", "--keyvalue", "n=2")

    def found(*options, **variables):
        text = commands.text("list", *options, **variables)
        return [line.split()[0] for line in text.splitlines()]

    assert found() == [two, one]
    assert found("--name", "ONE") == [one]
    assert found("--cid", f"ipfs://{one}") == [one]
    assert found("--keyvalue", "kind=a") == [two, one]
    assert found("--keyvalue", "kind=a", "--keyvalue", "n=2") == [two]
    assert found("--limit", "1") == [two]
    assert [pin["cid"] for pin in commands.json("list", "--keyvalue", "n=1")] == [one]
    now = datetime.now(UTC)
    today, yesterday = (now.date() - timedelta(days=n) for n in (0, 1))
    assert found("--since", str(yesterday), "--until", str(today), TZ="UTC") == [two, one]
    assert found("--until", str(yesterday - timedelta(days=1)), TZ="UTC") == []
    assert found("--since", (now + timedelta(hours=1)).isoformat()) == []
    assert found("--until", (now + timedelta(hours=1)).isoformat()) == [two, one]


@pytest.mark.parametrize("commands", ["local"], indirect=True)  # the same code for all providers
def test_columns_of_a_list_are_in_line_for_cids_of_both_versions(commands):
    commands.text("upload", "-", "--name", "one", given=b"1")
    commands.text("upload", "-", "--name", "two", "--cid-version", "0", given=b"2")
    old, new = commands.text("list").splitlines()
    assert (old.split()[0][:2], new.split()[0][:4]) == ("Qm", "bafk")
    assert old.index("two") == new.index("one")


@pytest.mark.parametrize("commands", ["local"], indirect=True)  # the same code for all providers
def test_a_date_without_a_zone_is_local_time(commands):
    """The local day is another one than the day in UTC for some hours."""
    cid = commands.text("upload", "-", given=b"1")
    made = datetime.fromtimestamp(commands.json("list")[0]["created"] / 1000, UTC)
    in_five_hours = (made + timedelta(hours=5)).replace(tzinfo=None)
    earlier, later = (in_five_hours + timedelta(minutes=n) for n in (-1, 1))

    def count(option, moment):
        return len(commands.json("list", option, moment.isoformat(), TZ="XXX-5"))

    assert (count("--since", earlier), count("--since", later)) == (1, 0)
    assert (count("--until", earlier), count("--until", later)) == (0, 1)
    day = in_five_hours.date().isoformat()
    assert [pin["cid"] for pin in commands.json("list", "--until", day, TZ="XXX-5")] == [cid]
    assert [pin["cid"] for pin in commands.json("list", "--since", day, TZ="XXX-5")] == [cid]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["list", "--since", "yesterday"], "'yesterday' is not a date: write 2026-01-31 or"),
        (["list", "--until", "2026-13-01"], "'2026-13-01' is not a date"),
        (["list", "--until", "9999-12-31"], "'9999-12-31' is too late"),
        (["list", "--keyvalue", "a"], "'a' is not a key-value: write --keyvalue KEY=VALUE"),
        (["list", "--keyvalue", "=a"], "'=a' is not a key-value"),
        (["update", HELLO_CID, "--keyvalue", "a"], "'a' is not a key-value"),
        (["pin", HELLO_CID, "--keyvalue", "a"], "'a' is not a key-value"),
        (["pin", HELLO_CID, "--wait", "-1"], "--wait"),
    ],
)
def test_wrong_options_are_wrong_usage(tmp_path, arguments, words):
    code, lines = Commands(tmp_path).failure(*arguments)
    assert code == 2
    assert words in lines[0]


def test_what_is_no_cid_is_told(commands):
    for arguments in (["pin", "x"], ["update", "x", "--name", "y"], ["list", "--cid", "x"]):
        code, lines = commands.failure(*arguments)
        assert (code, lines[0].partition(" (")[0]) == (4, "error: Invalid CID")


def test_the_embedded_store_pins_what_it_has(tmp_path):
    commands = Commands(tmp_path)
    cid = commands.text("upload", "-", given=b"1")
    commands.text("revoke", cid)
    assert commands.text("pin", cid, "--name", "again") == f"pinned {cid}"
    pin = commands.json("pin", cid, "--keyvalue", "a=b", "--wait", "1")
    assert (pin["state"], pin["name"], pin["keyvalues"]) == ("pinned", "again", {"a": "b"})
    code, lines = commands.failure("pin", HELLO_CID)
    assert code == 10
    assert lines[0].startswith("error: the embedded store does not have all of")


def test_a_node_pins_in_the_background(tmp_path, empty_node):
    commands = Commands(tmp_path, **node_variables(empty_node))
    missing = compute_cid(str(time.time_ns()).encode())
    assert commands.text("pin", missing) == f"queued {missing}"
    code, lines = commands.failure("pin", missing, "--wait", "30")
    assert code == 12
    assert lines[0].startswith(f"error: the provider could not pin {missing}: it did not find")
