"""Patterns for the names in a folder that are left out, in the syntax of gitignore.

They mean what they mean to git, byte by byte. They become regular expressions that never try a star
again after the text that follows it was found. So every pattern is fast, whoever wrote it.

    *a*b*c      (?>[^/]*?a)(?>[^/]*?b)[^/]*c      if not with the first "a", then not with any
    **/a/**/b   (?>(?:.*?/)??a/)(?:.*/)?b         the same for folders
"""

import os
import re
from collections.abc import Iterable
from itertools import groupby
from typing import Final, NamedTuple

RANGE: Final = rb"(?:-(\\.|[^\]\\]))?+"
MEMBER: Final = re.compile(rb"\[:([^\]]*):\]|(\\.|[^\\])" + RANGE, re.DOTALL)
MEMBERS: Final = rb"(?:\]%b)?+(?:\[:[^\]]*:\]|(?:\\.|[^\]\\])%b)*+" % (RANGE, RANGE)
TOKEN: Final = re.compile(
    rb"(?P<text>[^\\*?\[]+)|\\(?P<escaped>.)|(?P<stars>\*+)|(?P<any>\?)"
    rb"|\[(?P<negated>[!^]?+)(?P<members>%b)\]" % MEMBERS,
    re.DOTALL,
)
CLASSES: Final = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"!-~",
    b"lower": rb"a-z",
    b"print": rb" -~",
    b"punct": rb"!-/:-@\[-`{-~",
    b"space": rb" \t\n\r",  # without the other two of C, as git has it
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}


class Rule(NamedTuple):
    """One pattern.

    Attributes:
        negated: Whether names that match are not left out.
        by_name: Whether it is compared with the name only, in every folder.
        only_folders: Whether only folders match.
        expression: The regular expression for all of the name or path.
    """

    negated: bool
    by_name: bool
    only_folders: bool
    expression: bytes

    @classmethod
    def of(cls, pattern: bytes) -> "Rule":
        """Return the rule of a pattern; raise ValueError if git would never match it."""
        body = pattern.removeprefix(b"!")
        path = body.removesuffix(b"/")
        try:
            expression = _expression(path.removeprefix(b"/"))
        except ValueError:
            raise ValueError(
                f"the pattern {os.fsdecode(pattern[:200])!r} can match nothing, because of a [ "
                "without ], an unknown [:class:] or a backslash at the end: write \\[ or \\\\ for "
                "the character itself"
            ) from None
        return cls(body != pattern, b"/" not in path, path != body, expression)


class IgnoreRules:
    """Patterns, of which the last one that matches decides.

    Example:
        >>> rules = IgnoreRules([b"*.log", b"/build/", b"!keep.log"])
        >>> rules.exclude(b"a/b.log"), rules.exclude(b"a/keep.log")
        (True, False)
        >>> rules.exclude(b"build"), rules.exclude(b"build", is_folder=True)
        (False, True)
    """

    def __init__(self, patterns: Iterable[bytes] = ()) -> None:
        rules = [Rule.of(pattern) for pattern in patterns]
        runs = groupby(reversed(rules), key=lambda rule: rule.negated)
        self._runs = [(negated, *_compiled(list(run))) for negated, run in runs]

    def exclude(self, path: bytes, *, is_folder: bool = False) -> bool:
        """Return whether a path is left out, if no folder above it is."""
        if not self._runs:
            return False
        kind = b"/" if is_folder else b"."
        name = kind + path.rpartition(b"/")[2]
        for negated, names, paths in self._runs:
            if names.fullmatch(name) or paths.fullmatch(kind + path):
                return not negated
        return False


def read_patterns(data: bytes) -> list[bytes]:
    """Return the patterns in a file: its lines, without comments and spaces at the end."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    trimmed = (_trimmed(line.removesuffix(b"\r")) for line in lines if line[:1] != b"#")
    return list(filter(None, trimmed))


def _trimmed(line: bytes) -> bytes:
    """Return `line` without spaces at its end, up to one that has a backslash before it."""
    bare = line.rstrip(b" ")
    backslashes = len(bare) - len(bare.rstrip(b"\\"))
    return line[: len(bare) + backslashes % 2]


def _compiled(rules: list[Rule]) -> list[re.Pattern[bytes]]:
    """Return an expression for names and one for paths, after "/" for a folder, "." for others."""
    compiled = []
    for by_name in (True, False):
        kinds: dict[bool, list[bytes]] = {False: [], True: []}
        for rule in rules:
            if rule.by_name == by_name:
                kinds[rule.only_folders].append(rule.expression)
        others, folders = (b"|".join(kind) or b"(?!)" for kind in kinds.values())
        compiled.append(re.compile(rb"[./](?:%b)|/(?:%b)" % (others, folders), re.DOTALL))
    return compiled


def _expression(pattern: bytes) -> bytes:
    """Return the regular expression of a pattern without "!" and the slashes around it."""
    chunks = [[bytearray()]]  # between "**/", and in each of them between "*"
    position, is_literal = 0, True
    while position < len(pattern):
        token = TOKEN.match(pattern, position)
        if token is None:
            raise ValueError
        before, position = pattern[max(position - 1, 0) : position], token.end()
        after = pattern[position : position + 1]
        # Git compares what is before the first wildcard by itself: for it, "a**/b" begins with "**"
        if len(token["stars"] or b"") > 1 and (before in b"/" or is_literal) and after in b"/":
            if after:
                chunks.append([bytearray()])
            else:
                chunks[-1][-1] += b".*"
            position += len(after)
        elif token["stars"]:
            chunks[-1].append(bytearray())
        else:
            chunks[-1][-1] += _one(token)
        is_literal = is_literal and token["text"] is not None
    parts = [_joined(list(map(bytes, chunk)), b"[^/]*?", b"[^/]*") for chunk in chunks]
    return _joined(parts, b"(?:.*?/)??", b"(?:.*/)?")


def _joined(parts: list[bytes], shortest: bytes, longest: bytes) -> bytes:
    """Return an expression for `parts` with a wildcard between them, as short as possible."""
    if len(parts) == 1:
        return parts[0]
    middle = b"".join(b"(?>%b%b)" % (shortest, part) for part in parts[1:-1])
    return b"%b%b%b%b" % (parts[0], middle, longest, parts[-1])


def _one(token: re.Match[bytes]) -> bytes:
    """Return the expression of a text, or of what stands for one character."""
    if token["any"]:
        return b"[^/]"
    if token["members"] is None:
        return re.escape(token["text"] or token["escaped"])
    members = b"".join(map(_member, MEMBER.finditer(token["members"])))
    return (b"[^/%b]" if token["negated"] else b"(?!/)[%b]") % members


def _member(member: re.Match[bytes]) -> bytes:
    """Return a class, a character or a range as it is written in a regular expression."""
    name, low, high = member.groups()
    if name is not None:
        if name not in CLASSES:
            raise ValueError
        return CLASSES[name]
    first = rb"\x%02x" % low[-1]
    return first + rb"%b-\x%02x" % (first, high[-1]) if high and low[-1] <= high[-1] else first
