"""Patterns for the names in a folder that are left out, in the syntax of gitignore.

They mean what they mean to git, byte by byte. They become regular expressions that never try a star
again after the text that follows it was found. So every pattern is fast, whoever wrote it.

    *a*b*c      (?>[^/]*?a)(?>[^/]*?b)[^/]*c      if not with the first "a", then not with any
    **/a/**/b   (?>(?:.*?/)??a/)(?:.*/)?b         the same for folders
"""

import os
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final

RANGE: Final = rb"(?:-(\\.|[^\]\\]))?+"
MEMBER: Final = re.compile(rb"\[:([^\]]*):\]|(\\.|[^\\])" + RANGE, re.DOTALL)
MEMBERS: Final = rb"(?:\]%b)?+(?:\[:[^\]]*:\]|(?:\\.|[^\]\\])%b)*+" % (RANGE, RANGE)
TOKEN: Final = re.compile(
    rb"(?P<text>[^\\*?\[]+)|\\(?P<escaped>.)|(?P<stars>\*+)|(?P<any>\?)"
    rb"|\[(?P<negated>[!^]?+)(?P<members>%b)\]" % MEMBERS,
    re.DOTALL,
)
MEMBERS_OF_CLASSES: Final = rb"""
    alnum=0-9A-Za-z alpha=A-Za-z blank=\x20\t cntrl=\x00-\x1f\x7f digit=0-9 graph=!-~ lower=a-z
    print=\x20-~ punct=!-/:-@\[-`{-~ space=\x20\t\n\r upper=A-Z xdigit=0-9A-Fa-f
"""  # "space" is without the other two of C, as git has it
CLASSES: Final[dict[bytes, bytes]] = dict(re.findall(rb"(\w+)=(\S+)", MEMBERS_OF_CLASSES))


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
        rules = groupby(map(_rule, reversed(list(patterns))), key=itemgetter(0))
        self._runs = [(negated, *_compiled(list(run))) for negated, run in rules]

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


def _rule(pattern: bytes) -> tuple[bool, bool, bytes]:
    """Return whether names that match stay, whether only the name is compared, and with what.

    The regular expression begins with the kind: "/" for a folder, "." for all else.
    """
    body = pattern.removeprefix(b"!")
    path = body.removesuffix(b"/")
    kind = b"[./]" if path == body else b"/"
    try:
        return body != pattern, b"/" not in path, kind + _expression(path.removeprefix(b"/"))
    except (ValueError, KeyError):
        text = repr(os.fsdecode(pattern[:200]))
        remedy = "close the [, name a known [:class:], or write \\[ or \\\\ for the character"
        raise ValueError(f"the pattern {text} can match nothing: {remedy}") from None


def _compiled(rules: list[tuple[bool, bool, bytes]]) -> Iterator[re.Pattern[bytes]]:
    """Yield an expression for names, and one for paths."""
    for by_name in (True, False):
        expressions = [rule[2] for rule in rules if rule[1] is by_name]
        yield re.compile(b"|".join(expressions) or b"(?!)", re.DOTALL)


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
        return CLASSES[name]
    first = rb"\x%02x" % low[-1]
    return first + rb"%b-\x%02x" % (first, high[-1]) if high and low[-1] <= high[-1] else first
