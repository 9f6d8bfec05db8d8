"""The generated pages of the reference: every command is in a task, and nothing has drifted."""

import re
import shutil
from pathlib import Path

import pytest
from scripts.draw_terminals import IMAGES, SCREENS

from tests.commands import run_python

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def copy(tmp_path):
    """The generator with what it reads, and a folder for what it writes."""
    (tmp_path / "scripts").mkdir()
    for name in ("generate_reference.py", "cli_reference.py", "cli_reference.md"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    shutil.copytree(ROOT / "docs/reference", tmp_path / "docs/reference")
    return tmp_path


def generate(folder, *options):
    result = run_python(folder / "scripts/generate_reference.py", *options)
    return result.returncode, result.stderr.splitlines()


@pytest.mark.slow
def test_the_reference_is_what_the_code_says(copy):
    assert generate(copy, "--check") == (0, [])


@pytest.mark.slow
def test_a_command_without_a_task_is_on_the_page_and_fails_the_check(copy):
    tasks = copy / "scripts/cli_reference.md"
    tasks.write_text(tasks.read_text().replace("::: upload\n", "::: uplaod\n::: ls\n"))
    missing = "`holdfast upload` belongs to no task: write `::: upload` into "
    messages = [
        "scripts/cli_reference.md and the help differ: Upload and download files and folders",
        f"{missing}scripts/cli_reference.md",
        "there is no `holdfast uplaod`, which scripts/cli_reference.md names",
        "scripts/cli_reference.md names `ls` twice",
    ]
    assert generate(copy) == (1, messages)
    page = (copy / "docs/reference/cli.md").read_text()
    more = page.partition("\n## More commands\n")[2].partition("\n## ")[0]
    assert "\n### upload\n" in more
    assert generate(copy, "--check") == (1, messages)


@pytest.mark.slow
def test_a_page_that_was_changed_by_hand_fails_the_check(copy):
    page = copy / "docs/reference/cli.md"
    page.write_text(page.read_text() + "Written by hand.\n")
    code, messages = generate(copy, "--check")
    assert (code, messages) == (1, ["cli.md is not what the code says; run: make generate"])


# The pictures of the command line

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow  # it runs a dozen commands
@pytest.mark.timeout(900)
def test_the_pictures_show_what_the_commands_write():
    result = run_python(ROOT / "scripts/draw_terminals.py", "--check")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_every_picture_is_in_a_document():
    pages = "".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    assert {path.stem for path in IMAGES.glob("cli-*.svg")} == set(SCREENS)
    for name in SCREENS:
        assert re.search(rf"!\[[^\]]+\]\(\S*images/{name}\.svg\)", pages), name
