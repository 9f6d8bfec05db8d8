"""Hints: what to do about an error.

The message of an error says what is wrong; some messages are fixed by the spec. A hint says what to
do. It is made where the error is made, once: a program sees it as a note of the error, and the
command line shows it below the message.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

E = TypeVar("E", bound=BaseException)

# How similar a misspelt word is, from 0 to 1. Two letters that changed places are 0.75 in a word of
# four letters. Below that, other words of the language are guessed too.
CUTOFF: Final = 0.73

# The methods of a client, and what other libraries and our command line call them, in lower case
# without underscores.
OTHER_METHODS: Final = {
    "`upload`, or `upload_many`": "add put save push addfile pinfile putfile putobject uploadfile "
    "uploadfiles uploadfolder uploaddir uploaddirectory pinfiletoipfs",
    "`store`": "addjson dump dumps pinjson pinjsontoipfs putjson uploadjson write",
    "`download`, or `retrieve` for JSON": "get cat fetch read load getfile getjson getobject "
    "downloadfile downloadfiles",
    "`entries` for a folder, `pins` for what is pinned": "ls list dir listdir listfiles files walk",
    "`pins`": "listpins pinlist pinls search find ispinned has",
    "`stat` for content, `pins` for what is pinned": "info exists head headobject status",
    "`revoke_many`": "unpinmany removemany deletemany",
    "`revoke`": "rm remove delete unpin pinrm removepin deletefile deleteobject",
    "`pin`": "addpin pinadd pinbycid pinbyhash pinmany",
    "`test_connection`": "ping",
    "`holdfast.compute_cid` or `holdfast.verify`": "cid computecid hash verify",
    "`holdfast car`, `holdfast backup` or `holdfast gc`": "backup exportcar gc importcar",
}


class Hint(NamedTuple):
    """What to do about an error: in Python, and on the command line."""

    note: str
    on_command_line: str


def advise(error: E, note: str, on_command_line: str | None = None) -> E:
    """Return `error` with a hint, unless it has one: who made the error knows most about it.

    Example:
        >>> error = advise(FileNotFoundError("a.txt"), "give bytes", "use `holdfast upload -`")
        >>> error.__notes__, hint_of(error).on_command_line
        (['give bytes'], 'use `holdfast upload -`')
    """
    if hint_of(error) is None:
        error.add_note(note)
        vars(error)["hint"] = Hint(note, on_command_line or note)
    return error


def hint_of(error: BaseException) -> Hint | None:
    """Return the hint of `error`, if it has one."""
    hint = vars(error).get("hint")
    return hint if isinstance(hint, Hint) else None


def did_you_mean(
    word: str, names: Iterable[str], meant: Mapping[str, tuple[str, ...]] | None = None
) -> str:
    """Return a question with the `names` that `word` may stand for, or "".

    `meant` holds other words for the names, in lower case without underscores and hyphens.

    Example:
        >>> did_you_mean("lokal", ["kubo", "local"])
        "did you mean 'local'?"
        >>> did_you_mean("disk", ["kubo", "local"], {"disk": ("local",)})
        "did you mean 'local'?"
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only for errors

    lower = word.lower().lstrip("-")  # the dashes of options would make all of them similar
    bare = lower.replace("_", "").replace("-", "")
    by_word = {name.lstrip("-"): name for name in names}
    likely = [name for name in (meant or {}).get(bare, ()) if name in by_word.values()]
    close = [word for word in by_word if lower[:1] in word[:2]]  # a link is not an unlink
    likely = likely or [by_word[word] for word in get_close_matches(lower, close, 1, CUTOFF)]
    return f"did you mean {' or '.join(map(repr, likely))}?" if likely else ""
