"""Generate the blocking tree from the async one, for the package and for its tests.

`python scripts/generate_sync.py` writes; with `--check` it writes nothing and fails on any drift.
Written by hand on both sides are only the files in HAND_WRITTEN.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREES = (
    ROOT / "src/holdfast/_async",
    ROOT / "src/holdfast/testing/_async",
    ROOT / "tests/_async",
)
HAND_WRITTEN = {
    f"src/holdfast/_async/{name}.py" for name in ("connections", "runtime", "transport")
}
HAND_WRITTEN |= {"src/holdfast/_async/__init__.py", "tests/_async/__init__.py"}
HAND_WRITTEN |= {
    f"src/holdfast/testing/_async/{name}.py" for name in ("__init__", "parallel", "provider_tests")
}
# Nobody cancels a blocking call: it has no twin.
HAND_WRITTEN |= {"src/holdfast/testing/_async/cancel_tests.py"}

HEADER = """\
# WARNING: this file is generated from {source}
# by scripts/generate_sync.py. Change the original instead.
"""

SUBSTITUTIONS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\basync (def|with|for)\b", r"\1"),
        (r"\bawait ", ""),
        (r"\bAsync([A-Z]\w*)", r"\1"),
        (r"\b(build|holdfast)_async_", r"\1_"),
        (r"\b_async\b", "_sync"),
        (r"\basynccontextmanager\b", "contextmanager"),
        (r"\baclose\b", "close"),
        (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
        (r"\banext\(", "next("),
        (r"\bAwaitable\[(\w+)\]", r"\1"),
        (r"import Awaitable, Callable\b", "import Callable"),
        (r"\bgathered\b", "threaded"),
        (r"\basync\b", "blocking"),
        (r"\ban AsyncClient\b", "a Client"),
        (r"\bno AsyncStorageProvider\b", "no StorageProvider"),
        (r"\btasks\b", "threads"),
    )
]


def generate(source: Path) -> str:
    """The blocking text of `source`, formatted."""
    text = source.read_text(encoding="utf-8")
    for pattern, replacement in SUBSTITUTIONS:
        text = pattern.sub(replacement, text)
    text = HEADER.format(source=source.relative_to(ROOT).as_posix()) + text
    # The names are shorter now: imports sort, and lines break, in other places.
    for command in (["check", "--select", "I", "--fix-only", "--quiet"], ["format", "--quiet"]):
        text = subprocess.run(  # noqa: S603 - ruff, on a file of ours
            [
                sys.executable,
                "-m",
                "ruff",
                *command,
                "--stdin-filename",
                str(target_of(source)),
                "-",
            ],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
    return text


def target_of(source: Path) -> Path:
    """Where the blocking twin of `source` stands."""
    return Path(str(source).replace("/_async/", "/_sync/").replace("\\_async\\", "\\_sync\\"))


def main() -> int:
    """Write or check all files; 1 on drift."""
    check = "--check" in sys.argv[1:]
    drifted = []
    expected = set()
    for tree in TREES:
        for source in sorted(tree.rglob("*.py")):
            target = target_of(source)
            expected.add(target)
            if source.relative_to(ROOT).as_posix() in HAND_WRITTEN:
                continue
            text = generate(source)
            if not target.exists() or target.read_text(encoding="utf-8") != text:
                drifted.append(target)
                if not check:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_text(text, encoding="utf-8")
        for stray in set(target_of(tree / "x").parent.rglob("*.py")) - expected:
            drifted.append(stray)
            if not check:
                stray.unlink()
    for path in drifted:
        print(f"{'differs from its source' if check else 'wrote'}: {path.relative_to(ROOT)}")
    return int(check and bool(drifted))


if __name__ == "__main__":
    sys.exit(main())
