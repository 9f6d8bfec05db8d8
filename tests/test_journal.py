"""The journal under copies and unfinished uploads."""

import os
import stat

import pytest

from holdfast.disk.journal import LONGEST_LINE, Journal
from tests.programs import run_program, start_program

HEADER = {"kind": "example 1"}

# Opens the journal, prints whether it has the lock, and waits.
OPEN = """
import sys, time
from pathlib import Path
from holdfast.disk.journal import Journal

journal = Journal("example 1", Path(sys.argv[1]))
print(journal.open(), flush=True)
"""

WRITE_UNTIL_KILLED = (
    OPEN
    + """
list(journal.replay())
journal.compact([{"kind": "example 1"}])
number = 0
while True:
    number += 1
    journal.append({"n": number, "text": "x" * 3000})
    if number % 50 == 0:
        print(number, flush=True)
    if number % 500 == 0:
        journal.compact([{"kind": "example 1"}, {"n": number, "text": "x" * 3000}])
"""
)

ON_A_FULL_DISK = (
    OPEN
    + """
import resource
list(journal.replay())
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    journal.append({"text": "x" * 200})
except OSError as error:
    print(error)
try:
    journal.compact([{"text": "x" * 200}])
except OSError as error:
    print(type(error).__name__)
print(journal.append({"n": 2}))
"""
)


def values(journal):
    return [value for _, value in journal.replay()]


@pytest.fixture
def journal(tmp_path):
    journal = Journal("example 1", tmp_path / "journal")
    assert journal.open()
    assert values(journal) == []
    journal.append(HEADER)
    journal.append({"n": 1})
    yield journal
    journal.close()


def test_a_compacted_journal_has_the_new_lines_takes_more_and_is_its_users_alone(journal):
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
    journal.path.chmod(0o644)  # copied from elsewhere, for example
    journal.compact([HEADER, {"n": 5}])
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
    start = journal.append({"n": 6})
    assert journal.read(start) == {"n": 6}
    assert values(journal) == [HEADER, {"n": 5}, {"n": 6}]
    journal.append({"n": 7})
    journal.close()
    assert values(Journal("example 1", journal.path)) == [HEADER, {"n": 5}, {"n": 6}, {"n": 7}]
    assert [path.name for path in journal.path.parent.iterdir()] == ["journal"]


def test_other_processes_are_kept_out_also_after_it_was_compacted(journal):
    assert run_program(OPEN, journal.path) == "False\n"
    journal.compact([HEADER])
    assert run_program(OPEN, journal.path) == "False\n"
    assert values(Journal("example 1", journal.path)) == [HEADER]  # without the lock
    journal.close()
    assert run_program(OPEN, journal.path) == "True\n"


def test_a_file_that_was_removed_before_it_was_locked_is_not_used(tmp_path):
    path = tmp_path / "journal"

    def opener(flags, mode):
        descriptor = os.open(path, flags, mode)
        if len(opened) < 3:
            path.unlink()
        opened.append(descriptor)
        return descriptor

    opened = []
    journal = Journal("example 1", path, opener)
    assert journal.open()
    assert len(opened) == 4
    journal.append(HEADER)
    assert path.read_bytes() == b'{"kind":"example 1"}\n'
    journal.close(remove=True)
    assert not path.exists()
    path.write_text("of another process")
    journal.close(remove=True)
    assert path.exists()


@pytest.mark.parametrize("line", [b"{", b"[]\n", b"\xff\n", b"[" * 100_000 + b"\n"])
def test_a_damaged_line_is_none_and_an_incomplete_one_is_removed(journal, line):
    journal.close()
    before = journal.path.read_bytes()
    journal.path.write_bytes(before + line)
    again = Journal("example 1", journal.path)
    assert again.open()
    damaged = [None] if line.endswith(b"\n") else []
    assert values(again) == [HEADER, {"n": 1}, *damaged]
    assert journal.path.read_bytes() == before + line * len(damaged)
    again.close()


def test_a_line_that_is_too_long_is_damaged(journal):
    journal.append({"text": "x" * LONGEST_LINE})
    assert None in values(journal)


@pytest.mark.parametrize("content", [b"my notes", b'{"kind":"example 2"}\n', b"\n"])
def test_another_file_is_one_damaged_line_and_stays(tmp_path, content):
    path = tmp_path / "journal"
    path.write_bytes(content)
    journal = Journal("example 1", path)
    assert journal.open()
    assert values(journal) == [None]
    journal.close()
    assert path.read_bytes() == content


def test_after_close_nothing_is_read_or_written(journal):
    journal.close()
    journal.append({"n": 2})
    assert journal.read(0) is None
    assert values(journal) == [HEADER, {"n": 1}]


def test_on_a_full_disk_the_lines_stay_whole(journal):
    journal.close()
    lines = run_program(ON_A_FULL_DISK, journal.path).splitlines()
    text = f"the journal {journal.path} could not be written: the disk may be full"
    assert lines == ["True", text, "OSError", "29"]
    assert values(journal) == [HEADER, {"n": 1}, {"n": 2}]


@pytest.mark.slow
def test_after_a_kill_every_line_that_was_written_is_there(tmp_path):
    path = tmp_path / "journal"
    for _ in range(20):
        with start_program(WRITE_UNTIL_KILLED, path) as process:
            lines = [process.stdout.readline() for _ in range(30)]
            process.kill()
            lines += process.stdout.readlines()
        journal = Journal("example 1", path)
        assert journal.open()
        header, *rows = values(journal)
        journal.close()
        numbers = [row["n"] for row in rows]
        assert header == HEADER
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert numbers[-1] >= int(lines[-1])
