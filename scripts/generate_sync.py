"""Generate the blocking tree from the async one, for the package and for its tests.

`python scripts/generate_sync.py` writes; with `--check` it writes nothing and fails on any drift.
It also fails when a rule matches nothing in all trees, and when a file of HAND_WRITTEN is missing.
"""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
TREES = ("src/holdfast/_async", "src/holdfast/testing/_async", "tests/_async")
HAND_WRITTEN = frozenset(
    {
        "src/holdfast/_async/__init__.py",
        "src/holdfast/_async/connections.py",
        "src/holdfast/_async/opening.py",
        "src/holdfast/_async/runtime.py",
        "src/holdfast/_async/transport.py",
        "src/holdfast/_async/upload_sources.py",
        "src/holdfast/_async/workers.py",
        "src/holdfast/testing/_async/__init__.py",
        "src/holdfast/testing/_async/parallel.py",
        "src/holdfast/testing/_async/provider_tests.py",
        "tests/_async/__init__.py",
    }
)

HEADER = """\
# WARNING: this file is generated from {source}
# by scripts/generate_sync.py. Change the original instead.
"""

# Applied in this order.
RULES = (
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b(_?)Async([A-Z]\w*)", r"\1\2"),
    (r"\b(build|holdfast)_async_", r"\1_"),
    (r"\b_async\b", "_sync"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\baclos(e|ing)\b", r"clos\1"),
    (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
    (r"\banext\(", "next("),
    (r"\bAwaitable\[([\w |]+)\]", r"\1"),
    (r"\bAwaitable, ", ""),
    (r"\basync\b", "blocking"),
    (r"\btasks\b", "threads"),
)


def apply_rules(text: str) -> tuple[str, Counter[str]]:
    """Return the blocking text for `text`, and how often each rule has matched."""
    matches: Counter[str] = Counter()
    for pattern, replacement in RULES:
        text, matches[pattern] = re.subn(pattern, replacement, text)
    return text, matches


def formatted(texts: dict[Path, str]) -> dict[Path, str]:
    """Return the text of each path as ruff formats it: shorter names change lines and their order.

    Ruff is started twice for all files, in a copy of the folders with our settings.
    """
    with TemporaryDirectory() as folder:
        copies = {path: Path(folder, path) for path in texts}
        for path, text in texts.items():
            copies[path].parent.mkdir(parents=True, exist_ok=True)
            copies[path].write_text(text, encoding="utf-8")
        # Ruff sorts imports of `tests` with ours because it is the package of the file.
        for name in ("pyproject.toml", "tests/__init__.py", "tests/_sync/__init__.py"):
            copyfile(ROOT / name, Path(folder, name))
        for command in (["check", "--select", "I", "--fix-only"], ["format"]):
            subprocess.run(  # noqa: S603 - ruff, on files of ours
                [sys.executable, "-m", "ruff", *command, "--quiet", "--no-cache", "."],
                check=True,
                cwd=folder,
            )
        return {path: copy.read_text(encoding="utf-8") for path, copy in copies.items()}


def target_of(source: Path) -> Path:
    """Return the path of the blocking twin of `source`."""
    return Path(*("_sync" if part == "_async" else part for part in source.parts))


def problems(sources: set[str], matches: Counter[str]) -> list[str]:
    """Return what is wrong with RULES and HAND_WRITTEN, one line for each."""
    unused = [f"rule matches nothing: {pattern}" for pattern, _ in RULES if not matches[pattern]]
    return unused + [f"no such file: {path}" for path in sorted(HAND_WRITTEN - sources)]


def main() -> int:
    """Write or check all files. Return 1 on drift and for a rule or file name without use."""
    check = "--check" in sys.argv[1:]
    matches: Counter[str] = Counter()
    generated = {}
    drifted = []
    sources = {path.relative_to(ROOT) for tree in TREES for path in (ROOT / tree).rglob("*.py")}
    for source in sorted(sources):
        if source.as_posix() in HAND_WRITTEN:
            continue
        text, counts = apply_rules((ROOT / source).read_text(encoding="utf-8"))
        matches += counts
        generated[target_of(source)] = HEADER.format(source=source.as_posix()) + text
    for path, text in formatted(generated).items():
        target = ROOT / path
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            drifted.append(target)
            if not check:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
    expected = {ROOT / target_of(source) for source in sources}
    for tree in TREES:
        for stray in set((ROOT / target_of(Path(tree))).rglob("*.py")) - expected:
            drifted.append(stray)
            if not check:
                stray.unlink()
    for path in drifted:
        print(f"{'differs from its source' if check else 'wrote'}: {path.relative_to(ROOT)}")
    wrong = problems({source.as_posix() for source in sources}, matches)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return int(bool(wrong) or (check and bool(drifted)))


if __name__ == "__main__":
    sys.exit(main())
