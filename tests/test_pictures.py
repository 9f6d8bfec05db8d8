"""The pictures of the command line: drawn by a script from real runs, and still true."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.draw_terminals import IMAGES, SCREENS, Screen, draw, words

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow  # it runs a dozen commands
@pytest.mark.timeout(240)
def test_the_pictures_show_what_the_commands_write():
    result = subprocess.run(  # noqa: S603 - a script of ours
        [sys.executable, ROOT / "scripts/draw_terminals.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_every_picture_is_in_a_document():
    pages = "".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    assert {path.stem for path in IMAGES.glob("cli-*.svg")} == set(SCREENS)
    for name in SCREENS:
        assert re.search(rf"!\[[^\]]+\]\(\S*images/{name}\.svg\)", pages), name


def test_a_screen_shows_what_a_terminal_would():
    screen = Screen()
    screen.write("10 %\r\x1b[K\x1b[1mdone\x1b[0m in \x1b[32m2 s\x1b[39m\r\nnext\x1b[1A\rDONE")
    assert ["".join(letter for letter, _ in line) for line in screen.lines] == [
        "DONE in 2 s",
        "next",
    ]
    assert [style for _, style in screen.lines[0]] == [""] * 8 + ["green"] * 3
    with pytest.raises(ValueError, match="ESC"):
        screen.write("\x1b[5S")
    assert words(draw("<a title>", screen.lines)) == "DONE in 0 s\nnext"
