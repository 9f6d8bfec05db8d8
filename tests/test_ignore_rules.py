"""Patterns of names to leave out of folders: what git does with them, and nothing else."""

import os
import random
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from holdfast import compute_cid, verify
from holdfast.hints import hint_of
from holdfast.sources.folder_source import IGNORE_FILE_BYTES, FolderSource
from holdfast.sources.ignore_rules import CLASSES, IgnoreRules, read_patterns
from tests.content import make_folder

NAMES = [
    *(b"a", b"b", b"ab", b"ba", b"aa", b"abc", b"A", b"z", b"0", b"-", b":", b"^", b"+"),
    *(b".a", b"a.b", b"b.tmp", b"a ", b"a\nb", b"!a", b"#a", b"a*b", b"*", b"?", b"[", b"]", b"\\"),
    *(b"a\\b", b"\xff", b"\xc3\xa9", b"a\xc3\xa9"),
]
PIECES = [
    *(b"a", b"b", b"c", b".", b"A", b"tmp", b"-", b" ", b"\\ ", b"\t", b"!", b"#", b"]", b"\xff"),
    *(b"*", b"*", b"**", b"***", b"?", b"/", b"/", b"/**/", b"**/", b"/**", b"\xc3\xa9", b"\\*"),
    *(b"[a-c]", b"[!a]", b"[^b]", b"[]a]", b"[!]a]", b"[a-]", b"[[:alpha:]]", b"[![:digit:]]"),
    *(b"[\\]a]", b"[z-a]", b"[[:]", b"[a-[:x:]", b"[+--]", b"[/]", b"[a/b]", b"[\xc3\xa9]"),
    *(b"[]-a]", b"[--z]", b"[a\\-z]", b"\\a", b"[", b"\\", b"[[:foo:]]"),
]


QUIRKS = (
    b"a**/b a[/]b a[!x]b a?b /a** !/a** a** **/b **/ /**/b a/**/b a/** *b/ /b b a//b a// /".split()
)


def make_tree(rng, folder, depth=0):
    Path(os.fsdecode(folder)).mkdir()
    for name in rng.sample(NAMES, rng.randint(2, 6)):
        path, kind = folder + b"/" + name, rng.random()
        if kind < 0.45 and depth < 3:
            make_tree(rng, path, depth + 1)
        elif kind < 0.55:
            Path(os.fsdecode(path)).symlink_to(".")
        else:
            Path(os.fsdecode(path)).touch()


def make_line(rng):
    pieces = (rng.choice(PIECES) for _ in range(rng.choice([1, 1, 2, 2, 3, 4, 5])))
    ends = [b"!"], [b"/"], [b"".join(pieces)], [b"/"], [b" ", b"  "], [b"\r"]
    line = b"".join(
        rng.choice(end) for number, end in enumerate(ends) if number == 2 or rng.random() < 0.15
    )
    return line.replace(b"**\\/", b"**/")  # which git takes for something of its own


def is_valid(line):
    try:
        IgnoreRules(read_patterns(line))
    except ValueError:
        return False
    return True


def listed_by_us(folder, lines, rng):
    """Return what is left. Without lines that are errors; the last may become an argument."""
    lines = [line for line in lines if is_valid(line)]
    exclude = []
    if lines and lines[-1][:1] not in b"#" and lines[-1][-1:] not in b" \r" and rng.random() < 0.3:
        exclude.append(os.fsdecode(lines.pop()))
    content = rng.choice([b"", b"\xef\xbb\xbf"]) + b"\n".join(lines) + rng.choice([b"", b"\n"])
    (folder / ".rules").write_bytes(content)
    source = FolderSource.of(folder, include_hidden=True, exclude=exclude, ignore_file=".rules")
    return {os.fsencode(entry.path) for entry in source.entries if entry.kind != "directory"}


def listed_by_git(root):
    def git(*arguments):
        command = ["git", "-c", "core.excludesFile=/dev/null", *arguments]
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C"}
        return subprocess.run(  # noqa: S603
            command, cwd=root, env=environment, check=True, capture_output=True
        ).stdout

    git("init", "-q", "--template=")
    return set(git("ls-files", "-o", "-z", "--exclude-standard").split(b"\0"))


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 101))]
)
def test_patterns_mean_what_they_mean_to_git(memory_folder, seed):
    rng = random.Random(seed)  # noqa: S311
    cases, ours = {}, set()
    for number in range(60):
        folder = memory_folder / f"case-{number}"
        if number < len(QUIRKS):
            lines = [QUIRKS[number]]
            make_folder(folder, dict.fromkeys(("b", "ab", "ax/b", "x/ab", "a/b", "a/x/b"), b""))
        else:
            lines = [make_line(rng) for _ in range(rng.choice([1, 1, 2, 3, 6]))]
            make_tree(rng, os.fsencode(folder))
        cases[number] = lines
        own = listed_by_us(folder, lines, rng)
        ours |= {b"case-%d/%b" % (number, path) for path in own if path != b".rules"}
        (folder / ".rules").unlink()
        (folder / ".gitignore").write_bytes(b"\n".join(lines))
    listed = {path for path in listed_by_git(memory_folder) if not path.endswith(b"/.gitignore")}
    different = sorted((ours ^ listed) - {b""})
    assert [(path, cases[int(path[5 : path.index(b"/")])]) for path in different] == []


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_classes_of_characters_are_those_of_git(memory_folder):
    names = [bytes([code]) for code in range(1, 256) if code not in b"/."]
    ours = set()
    for name in CLASSES:
        contents = {os.fsdecode(character): b"" for character in names}
        folder = make_folder(memory_folder / os.fsdecode(name), contents)
        rules = IgnoreRules([b"[[:%b:]]" % name])
        ours |= {name + b"/" + path for path in names if not rules.exclude(path)}
        (folder / ".gitignore").write_bytes(b"[[:%b:]]\n" % name)
    listed = {path for path in listed_by_git(memory_folder) if not path.endswith(b"/.gitignore")}
    assert listed - {b""} == ours


@pytest.mark.parametrize(
    "pattern", ["a[", "[]", "[!]", "a\\", "[[:nothing:]]", "[[:alpha:]", "a\\/"]
)
def test_a_pattern_that_git_never_matches_is_an_error(tmp_path, pattern):
    words = r"the pattern '.*' can match nothing"
    with pytest.raises(ValueError, match=words):
        compute_cid(tmp_path, exclude=[pattern])
    (tmp_path / ".ipfsignore").write_text(f"*.tmp\n{pattern}\n")
    with pytest.raises(ValueError, match=words):
        verify(tmp_path, compute_cid(b""))


@pytest.mark.parametrize("exclude", ["*.tmp", b"*.tmp", iter(["*.tmp"]), {"*.tmp"}, None])
def test_patterns_are_a_list_or_tuple(tmp_path, exclude):
    with pytest.raises(TypeError, match="exclude must be a list or tuple of patterns, not "):
        compute_cid(tmp_path, exclude=exclude)


LONG = "/".join(["a" * 255] * 15)
NESTED = "/".join(["a"] * 2000)
PATHOLOGICAL = {
    "*a*a*a*a*b": "a" * 255,
    "*a" * 120 + "b": "a" * 255,
    "**/" + "*a" * 120 + "b": LONG,
    "**/a*/" * 30 + "b": NESTED,
    "**/*a*a/" * 30 + "b": LONG,
    "a**/" * 30 + "b": NESTED,
    "?*" * 100 + "b": "a" * 255,
    "[a-z]*" * 100 + "b": "a" * 255,
    "*" * 20_000 + "b": "a" * 255,
    "a" * 20_000: "a" * 255,
}


@pytest.mark.parametrize(("pattern", "path"), PATHOLOGICAL.items(), ids=range(len(PATHOLOGICAL)))
def test_no_pattern_takes_long(pattern, path):
    # Tried in all ways, most of these would take years: the test would not end.
    rules = IgnoreRules([pattern.encode()])
    assert not rules.exclude(path.encode())
    assert not rules.exclude(path.encode(), is_folder=True)


@pytest.mark.slow
def test_ten_thousand_patterns():
    patterns = [b"*.%d" % number for number in range(5000)]
    patterns += [
        b"!name-%d" % number if number % 2 else b"/x/%d*" % number for number in range(5000)
    ]
    rules = IgnoreRules(patterns)
    assert [rules.exclude(path) for path in (b"a/b.4999", b"x/42c", b"y/42c", b"name-1")] == [
        True,
        True,
        False,
        False,
    ]


# The file in a folder


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "site", {"a.txt": b"a", "b.tmp": b"b", "deep/c.tmp": b"c"})


def paths(folder, **selection):
    source = FolderSource.of(folder, ignore_file=".ipfsignore", **selection)
    return [entry.path for entry in source.entries], source.hidden, source.excluded


def test_the_file_counts_only_at_the_top_and_is_hidden_itself(folder):
    (folder / ".ipfsignore").write_text("*.tmp\n")
    assert paths(folder) == (["a.txt", "deep"], 1, 2)
    assert paths(folder, include_hidden=True) == ([".ipfsignore", "a.txt", "deep"], 0, 2)
    assert paths(folder, exclude=["!b.tmp", ".*"]) == (["a.txt", "b.tmp", "deep"], 1, 1)
    (folder / ".ipfsignore").rename(folder / "deep/.ipfsignore")
    assert paths(folder)[2] == 0


def test_all_that_is_excluded_costs_nothing_and_raises_no_error(folder):
    (folder / "node_modules").mkdir()
    for pipe in ("node_modules/pipe", "pipe.tmp"):  # an error of the scan, unless it is left out
        os.mkfifo(folder / pipe)
    (folder / "link.tmp").symlink_to("nowhere")
    (folder / "unreadable.tmp").touch(0)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(folder / "socket.tmp"))
    assert paths(folder, exclude=("*.tmp", "node_modules/")) == (["a.txt", "deep"], 0, 7)
    (folder / "node_modules").chmod(0)
    assert paths(folder, exclude=["*"]) == ([], 0, 8)  # as with Kubo, the folder is empty
    (folder / "node_modules").chmod(0o700)
    with pytest.raises(OSError, match="node_modules/pipe is a named pipe"):
        paths(folder, exclude=["*.tmp"])


def test_an_excluded_file_may_vanish_during_the_scan(folder, monkeypatch):
    monkeypatch.setattr(os, "listdir", lambda _: ["a.txt", "gone.tmp"])
    assert paths(folder, exclude=["*.tmp"]) == (["a.txt"], 0, 1)
    with pytest.raises(FileNotFoundError, match=r"gone\.tmp"):
        paths(folder)


def make_link(path):
    path.symlink_to("/etc/passwd")


def make_large(path):
    path.write_bytes(b"#" * (IGNORE_FILE_BYTES + 1))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (make_link, "is not a regular file"),
        (os.mkfifo, "is not a regular file"),
        (os.mkdir, "is not a regular file"),
        (make_large, "is not UTF-8 text of at most 256 KiB"),
        (lambda path: path.write_text("*.tmp", "utf-16"), "is not UTF-8 text of at most 256 KiB"),
    ],
    ids=["link", "pipe", "folder", "large", "utf-16"],
)
def test_a_file_of_patterns_that_cannot_be_read(folder, make, words):
    plain = compute_cid(folder)
    make(folder / ".ipfsignore")
    with pytest.raises(OSError, match=rf"\.ipfsignore, .* {words}") as caught:
        compute_cid(folder)
    assert (
        hint_of(caught.value).on_command_line
        == "--no-ignore uploads the folder without its patterns"
    )
    assert compute_cid(folder, ignore_file=None) == plain


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_a_file_of_patterns_without_permission(public_folder):
    (public_folder / ".ipfsignore").touch(0)
    os.seteuid(65534)
    try:
        with pytest.raises(PermissionError, match=rf"{public_folder}/\.ipfsignore"):
            compute_cid(public_folder)
    finally:
        os.seteuid(0)


def test_another_file_of_patterns_must_exist(folder):
    with pytest.raises(FileNotFoundError, match=r"site/\.gitignore"):
        compute_cid(folder, ignore_file=".gitignore")
    for name in ("", "deep/rules", "/etc/passwd"):
        with pytest.raises(
            ValueError, match="ignore_file must be the name of a file in the folder"
        ):
            compute_cid(folder, ignore_file=name)
    (folder / ".gitignore").write_text("*.tmp\n")
    expected = compute_cid(folder, exclude=["*.tmp"])
    assert compute_cid(folder, ignore_file=".gitignore") == expected
    assert verify(folder, expected, ignore_file=".gitignore")
