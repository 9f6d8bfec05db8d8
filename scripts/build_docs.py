"""Build the documentation site, strictly: a broken link, or any other warning, is a failure.

`python scripts/build_docs.py [FOLDER]` builds into the folder, by default `site/`. Links are
written as they work in the repository. The documents in its root become pages too, so links to and
from them are turned on the way. The logo and the colours are those of the page of the node.
"""

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
        if target.exists():
            shutil.rmtree(target)
        shutil.move(stage / "site", target)
    print(f"The documentation is in {target}; open {target / 'index.html'},")
    print(f"or, with its search: {Path(sys.executable).name} -m http.server -d {target}")
    return 0


def lay_out(stage: Path) -> None:
    """Put everything that the site is made of into `stage`."""
    shutil.copy(ROOT / "zensical.toml", stage)
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


def replace(file: Path, words: dict[str, str]) -> None:
    """Replace each of `words` in `file`."""
    text = file.read_text(encoding="utf-8")
    for old, new in words.items():
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
