"""Draw what the command line shows on a terminal, from real runs: docs/images/cli-*.svg.

`python scripts/draw_terminals.py` runs the commands of `SCREENS` on a pseudo-terminal, in an empty
home folder, and writes one picture for each screen. With `--check` it writes nothing, and fails if
a picture shows other words than its commands write now; times and other digits may differ.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path
from typing import Final

IMAGES: Final = Path(__file__).resolve().parent.parent / "docs/images"
COLUMNS, ROWS = 84, 40
LETTER, LINE, EDGE, TOP = 8.4, 20, 16, 40  # pixels

SCREENS: Final = {
    "cli-start": (
        "The first screen, and a typing error",
        ("holdfast", "! holdfast dowload"),
    ),
    "cli-store": (
        "Store a value, find it, read it",
        (
            """holdfast store '{"title": "Kelp", "depth": 12}' --name kelp.json""",
            "holdfast list",
            "holdfast retrieve bafkreic3ve2yeilynkmoa3zhoqwwq6bajh7n4bq7mgmiaywcvlkm5sccma",
        ),
    ),
    "cli-folder": (
        "Upload a folder, list it, and download it",
        (
            "holdfast upload coast --keyvalue year=2026",
            "holdfast ls -l $(holdfast cid coast)",
            "holdfast download $(holdfast cid coast) copy",
        ),
    ),
    "cli-verify": (
        "Verify a file, and one that was changed",
        (
            "holdfast verify copy/tide.csv $(holdfast cid coast/tide.csv)",
            "echo changed > copy/tide.csv",
            "! holdfast verify copy/tide.csv $(holdfast cid coast/tide.csv)",
        ),
    ),
}
"""The pictures: a title, and the commands, which build on those of the pictures before.

A command succeeds, or fails if it begins with `!`, which is not shown.
"""

STYLE: Final = """
  svg { --ground: #ffffff; --bar: #eff3f1; --text: #17211e; --quiet: #52605b; --line: #dfe5e2;
    --green: #0c6b63; --yellow: #8a5a12; --red: #b3261e; --blue: #1c51b4; --magenta: #7b3aa6 }
  @media (prefers-color-scheme: dark) { svg { --ground: #151b1a; --bar: #1d2624; --text: #e6ecea;
    --quiet: #9dafa8; --line: #293431; --green: #4fd1bd; --yellow: #e6b673; --red: #ff938a;
    --blue: #8fb7ff; --magenta: #cba6f2 } }
  text { font: 14px ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace }
  text { fill: var(--text) }
  .title { font-family: system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif }
  .title { fill: var(--quiet) } .bar { fill: var(--bar) } .dot { fill: var(--line) }
  .window { fill: var(--ground); stroke: var(--line) }
  .command, .bold { font-weight: 600 } .prompt, .dim { fill: var(--quiet) }
  .red { fill: var(--red) } .green, .cyan { fill: var(--green) } .yellow { fill: var(--yellow) }
  .blue { fill: var(--blue) } .magenta { fill: var(--magenta) }
"""
COLOURS: Final = ("", "red", "green", "yellow", "blue", "magenta", "cyan", "")
SEQUENCE: Final = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b\].*?(?:\x07|\x1b\\)")

Cell = tuple[str, str]
"""A character, and the classes of its style."""


class Screen:
    """What a terminal shows after some output. It knows what our commands write, and no more."""

    def __init__(self) -> None:
        self.lines: list[list[Cell]] = [[]]
        self._row = self._column = 0
        self._style = ""

    def write(self, text: str, style: str | None = None) -> None:
        """Show `text`, in its own colours or in `style`."""
        position = 0
        while position < len(text):
            if match := SEQUENCE.match(text, position):
                position = match.end()
                self._control(match[1] or "", match[2] or "")
                continue
            self._put(text[position], self._style if style is None else style)
            position += 1

    def _put(self, letter: str, style: str) -> None:
        if letter == "\r":
            self._column = 0
        elif letter == "\n":
            self._move(self._row + 1, 0)
        else:
            if self._column == COLUMNS:
                self._move(self._row + 1, 0)
            line = self.lines[self._row]
            line += [(" ", "")] * (self._column + 1 - len(line))
            line[self._column] = (letter, style)
            self._column += 1

    def _move(self, row: int, column: int) -> None:
        self._row, self._column = max(row, 0), column
        self.lines += [[] for _ in range(self._row + 1 - len(self.lines))]

    def _control(self, numbers: str, kind: str) -> None:
        count = int(numbers) if numbers.isdigit() else 0
        if kind == "m":
            self._set_style([int(number or 0) for number in numbers.split(";")])
        elif kind == "K":
            keep = self._column if count == 0 else 0
            del self.lines[self._row][keep:]
        elif kind == "A":
            self._move(self._row - max(count, 1), self._column)
        elif kind == "G":
            self._column = max(count, 1) - 1
        elif kind not in "hl" or not numbers.startswith("?"):  # the cursor is hidden and shown
            raise ValueError(f"nobody knows how to draw ESC[{numbers}{kind}")

    def _set_style(self, codes: list[int]) -> None:
        classes = set(self._style.split())
        if (
            codes[0] == 38
        ):  # another of 256 colours, or of all: of the bars, which are gone at the end
            codes = [39]
        for code in codes:
            if code == 0:
                classes.clear()
            elif code in {1, 2, 90}:
                classes.add("bold" if code == 1 else "dim")
            elif code == 22:
                classes -= {"bold", "dim"}
            elif 30 <= code <= 37 or 91 <= code <= 97 or code == 39:
                classes -= {*COLOURS, "dim"}
                classes |= {COLOURS[code % 10]} - {""} if code != 39 else set()
            else:
                raise ValueError(f"nobody knows how to draw the style {code}")
        self._style = " ".join(sorted(classes))


def main() -> int:
    failed = 0
    for name, picture in pictures():
        path = IMAGES / f"{name}.svg"
        if "--check" not in sys.argv[1:]:
            path.write_text(picture, encoding="utf-8")
        elif not path.exists() or words(path.read_text(encoding="utf-8")) != words(picture):
            print(f"{path.name} shows other words; run: python scripts/draw_terminals.py")
            failed = 1
    return failed


def pictures() -> Iterator[tuple[str, str]]:
    """Run all commands, and yield the name and the picture of each screen."""
    with tempfile.TemporaryDirectory(prefix="holdfast-terminals-") as home:
        folder = Path(home, "work")
        (folder / "coast").mkdir(parents=True)
        (folder / "coast/tide.csv").write_text("hour,metres\n6,0.4\n12,6.1\n")
        (folder / "coast/notes.md").write_text("# Kelp on the lower shore\n" * 100)
        for name, (title, commands) in SCREENS.items():
            screen = Screen()
            for command in commands:
                screen.write("$ ", "prompt")
                screen.write(f"{command.removeprefix('! ')}\n", "command")
                screen.write(run(command, folder))
            yield name, draw(title, [line for line in screen.lines if not has_bar(line)])


def has_bar(line: list[Cell]) -> bool:
    """Whether `line` is a bar of progress, which only slow machines show."""
    return any(letter == "━" for letter, _ in line)


def run(command: str, folder: Path) -> str:
    """Return what `command` writes on a terminal."""
    home = folder.parent
    environment = {
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TERM": "xterm-256color",
        "TZ": "UTC",
    }
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    with subprocess.Popen(  # noqa: S603 - the commands above
        ["bash", "-c", command],  # noqa: S607 - whichever it is
        cwd=folder,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        output = b"".join(received(ours)).decode()
    os.close(ours)
    if process.returncode != 0:
        raise RuntimeError(f"{command} ended with {process.returncode}:\n{output}")
    return output


def received(terminal: int) -> Iterator[bytes]:
    """Yield what comes, until the last program has closed the terminal."""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # Linux says so when the other end is closed
            return
        if not chunk:
            return
        yield chunk


def draw(title: str, lines: list[list[Cell]]) -> str:
    """Return the picture of a screen."""
    while lines and not any(letter != " " for letter, _ in lines[-1]):
        lines = lines[:-1]
    width, height = round(COLUMNS * LETTER + 2 * EDGE), TOP + LINE * len(lines) + EDGE
    text = "\n".join("".join(letter for letter, _ in line).rstrip() for line in lines)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="t d">',
        f'<title id="t">{escape(title)}</title>\n<desc id="d">{escape(text)}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="window" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        f'<path class="bar" d="M1 30V8.5a8 8 0 0 1 8-8h{width - 18}a8 8 0 0 1 8 8V30z"/>',
        *(
            f'<circle class="dot" cx="{EDGE + 4 + 18 * place}" cy="15" r="5"/>'
            for place in range(3)
        ),
        f'<text class="title" x="{width / 2}" y="20" text-anchor="middle">{escape(title)}</text>',
    ]
    for number, line in enumerate(lines):
        for start, style, letters in runs(line):
            place = f'x="{EDGE + start * LETTER:.1f}" y="{TOP + LINE * number + 14}"'
            fit = f'textLength="{len(letters) * LETTER:.1f}" lengthAdjust="spacingAndGlyphs"'
            kind = f' class="{style}"' if style else ""
            parts.append(f"<text{kind} {place} {fit}>{escape(letters)}</text>")
    return "\n".join([*parts, "</svg>\n"])


def runs(line: list[Cell]) -> Iterator[tuple[int, str, str]]:
    """Yield the parts of a line between spaces and changes of style: column, style, letters."""
    start = 0
    while start < len(line):
        end = start
        while end < len(line) and line[end][1] == line[start][1]:
            end += 1
        letters = "".join(letter for letter, _ in line[start:end])
        for word in re.finditer(r"\S+(?: \S+)*", letters):
            yield start + word.start(), line[start][1], word[0]
        start = end


def words(picture: str) -> str:
    """Return the words that a picture shows, without their digits."""
    match = re.search(r"<desc[^>]*>(.*?)</desc>", picture, re.DOTALL)
    return re.sub(r"\d+", "0", unescape(match[1] if match else ""))


if __name__ == "__main__":
    sys.exit(main())
