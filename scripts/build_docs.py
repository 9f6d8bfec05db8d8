"""Build the documentation site, strictly: a broken link, or any other warning, is a failure.

`python scripts/build_docs.py [FOLDER]` builds into the folder, by default `site/`. Links are
written as they work in the repository. The documents in its root become pages too, so links to and
from them are turned on the way. The logo and the colours are those of the page of the node.

Three things are changed in what the tool makes: the copy button of a block with commands or a
Python session copies what one types, without prompts and output; the search shows guides before the
reference, and decisions last; and the version is beside the name.
"""

import html
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "objects.inv"  # every site that was built has one
FROM_THE_PAGE = {"icon.svg": "logo.svg", "colours.css": "colours.css"}
ROOT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
SESSION = re.compile(
    r'(?P<start><div class="language-(?P<language>console|pycon) highlight")'
    r"(?P<rest>>.*?<code>(?P<code>.*?)</code>)",
    re.DOTALL,
)
PROMPTS = {"console": ("$ ", "> "), "pycon": (">>> ", "... ")}
# In the worker of the search: where it reads the index, and where it sorts what it has found.
READS, SORTS = "J=yield Zt(t.data.items,", "l.items.sort(ht(...s))"
RANKS = """self.ranks=t.data.items.map(({location:o})=>/[/]decisions[/]/.test(`/${o}`)?3:
/[/](guides[/]|(index|quick-start|examples)[.]html)/.test(`/${o}`)?0:
/[/](reference[/]|platforms[.]html)/.test(`/${o}`)?1:2);"""
BY_RANK = "l.items.sort(ht((x,y)=>self.ranks[x.id]-self.ranks[y.id],...s))"


def main() -> int:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site")
    if target.exists() and any(target.iterdir()) and not (target / MARK).exists():
        print(f"{target} holds something else: name another folder", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="holdfast-docs-") as folder:
        stage = Path(folder)
        lay_out(stage)
        result = subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--strict"],
            cwd=stage,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        # Strict as it is, it does not count what the plugins say.
        if result.returncode != 0 or re.search(r"warning|error", result.stdout, re.IGNORECASE):
            print(result.stdout, file=sys.stderr)
            return 1
        finish(stage / "site")
        if target.exists():
            shutil.rmtree(target)
        shutil.move(stage / "site", target)
    print(f"The documentation is in {target}; open {target / 'index.html'},")
    print(f"or, with its search: {Path(sys.executable).name} -m http.server -d {target}")
    return 0


def lay_out(stage: Path) -> None:
    """Put everything that the site is made of into `stage`."""
    shutil.copy(ROOT / "zensical.toml", stage)
    source = (ROOT / "src/holdfast/_version.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'__version__.* = "(.*)"', source)
    replace(stage / "zensical.toml", {'"Holdfast"': f'"Holdfast {version}"'})
    shutil.copytree(ROOT / "src", stage / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for module in (stage / "src").rglob("*.py"):
        replace(module, {" Example:\n": " Examples:\n"})  # the word that mkdocstrings knows
    shutil.copytree(ROOT / "docs", stage / "docs")
    (stage / "docs/assets").mkdir(exist_ok=True)
    for name, new_name in FROM_THE_PAGE.items():
        shutil.copy(stage / "src/holdfast/node/page" / name, stage / "docs/assets" / new_name)
    for page in (stage / "docs").rglob("*.md"):
        up = "../" * (len(page.relative_to(stage / "docs").parts) - 1)
        replace(page, {f"]({up}../{name}": f"]({up}{name}" for name in ROOT_PAGES})
    for name in ROOT_PAGES:
        replace(Path(shutil.copy(ROOT / name, stage / "docs")), {"](docs/": "]("})


def finish(site: Path) -> None:
    """Change in the built site what the tool has no settings for."""
    pages = [page for page in site.rglob("*.html") if add_copied_texts(page)]
    (worker,) = site.glob("assets/javascripts/workers/search.*.js")
    script = worker.read_text(encoding="utf-8")
    if not pages or script.count(READS) != 1 or script.count(SORTS) != 1:
        sys.exit("the tool makes other pages than before: change `finish`")
    replace(worker, {READS: RANKS + READS, SORTS: BY_RANK})


def add_copied_texts(page: Path) -> int:
    """Give each block with prompts the text that its copy button copies; return their number."""

    def add(block: re.Match[str]) -> str:
        text = html.unescape(re.sub(r"<[^>]*>", "", block["code"]))
        copied = html.escape(typed_lines(text, block["language"])).replace("\n", "&#10;")
        return f'{block["start"]} data-copy="{copied}"{block["rest"]}' if copied else block[0]

    text, count = SESSION.subn(add, page.read_text(encoding="utf-8"))
    page.write_text(text, encoding="utf-8")
    return count


def typed_lines(text: str, language: str) -> str:
    """Return the lines of a session that somebody typed, without their prompts."""
    first, further = PROMPTS[language]
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(first) or (lines and line.startswith(further)):
            lines.append(line[len(first) :] if line.startswith(first) else line[len(further) :])
        elif lines and lines[-1].endswith("\\"):
            lines.append(line)
        elif language == "pycon" and line == further.rstrip():
            lines.append("")
    return "\n".join(lines)


def replace(file: Path, words: dict[str, str]) -> None:
    """Replace each of `words` in `file`."""
    text = file.read_text(encoding="utf-8")
    for old, new in words.items():
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
