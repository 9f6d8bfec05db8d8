"""Make a text that came from outside safe to show and to log, on one line."""

import re
from typing import Final

UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters: C0, DEL, C1
    "\u2028\u2029"  # line and paragraph separators
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # change the direction of the text around them
    "\ud800-\udfff]"  # halves of characters, which cannot be written to a file
)
QUERY: Final = re.compile(r"(\b\w+://[^\s?#]*|\b\w{46,}(?:/[^\s?#]*)?)[?#][^\s'\"`]*")  # of a link
SECRET: Final = re.compile(r"eyJ[\w-]*\.|AGE-SECRET-KEY-", re.IGNORECASE)  # a JWT, an identity
USER: Final = re.compile(r"(\b\w+://)[^\s/?#]*@")  # of a link, with its password
LONGEST: Final = 80  # characters of a link or reference


def single_line(text: str) -> str:
    r"""Return `text` with escapes for characters that could change how other text is shown.

    A peer could forge a line of a log with them. They are not removed: a credential that was masked
    only where it is in one piece would become one piece. Other text is returned unchanged.

    Example:
        >>> print(single_line("no\n2026-01-01 INFO all  is well\x1b[2J"))
        no\n2026-01-01 INFO all  is well\x1b[2J
    """
    return UNSAFE.sub(lambda match: ascii(match[0])[1:-1], text)


def short(text: str, most: int = LONGEST) -> str:
    """Return a link or reference on one line, cut to 80 characters or to `most`.

    Example:
        >>> short("bafkqaaa/" + "a" * 100)
        'bafkqaaa/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'
    """
    line = single_line(text)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def quoted(text: str) -> str:
    """Return what a user gave as a CID or link, in quotes, for a message.

    The query and the fragment are left out, and so is everything of a text that may be a secret.

    Example:
        >>> quoted("https://me:pw@example.com/ipfs/bafy…?token=x")
        "'https://example.com/ipfs/bafy…'"
        >>> quoted("eyJhbGciOi.J9")
        'a text that looks like a secret'
    """
    bare = without_queries(re.split(r"[?#]", text.strip(), maxsplit=1)[0])
    return "a text that looks like a secret" if SECRET.search(bare) else f"'{short(bare)}'"


def without_queries(text: str) -> str:
    """Return `text` without the parts of links and CIDs that may be secret.

    These are user names and passwords, queries, and fragments.

    Example:
        >>> without_queries("there is no file 'https://me:pw@example.com/ipfs/bafkqaaa?token=x#y'")
        "there is no file 'https://example.com/ipfs/bafkqaaa'"
        >>> without_queries("notes/#1?.txt")
        'notes/#1?.txt'
    """
    return QUERY.sub(r"\1", USER.sub(r"\1", text))
