"""Folders in a form: what a form can carry."""

import re
from typing import Final

from holdfast.errors import UnsupportedError
from holdfast.files.folder_source import FolderEntry, FolderSource
from holdfast.hints import advise

# Servers read quotes, backslashes and their escapes in different ways, and a line break ends the
# header. The name of a file would not arrive as it is, and the directory would have another CID.
AMBIGUOUS: Final = re.compile(r'["\\\x00-\x1f\x7f]|%22|%0[AaDd]')


def check_form(folder: FolderSource, provider: str) -> None:
    """Raise `UnsupportedError` for the first entry of `folder` that a form cannot carry."""
    for entry in folder.entries:
        if (words := _objection(entry)) is not None:
            is_empty = entry.kind == "directory"
            raise _not_carried(provider, words, folder.hidden if is_empty else 0)
    if not folder.entries:
        words = f"which cannot carry {folder.path}, an empty folder; add a file to it"
        raise _not_carried(provider, words, folder.hidden)


def _objection(entry: FolderEntry) -> str | None:
    path = ascii(entry.path)
    if entry.kind == "symlink":
        return f"which cannot carry {path}, a link; put a copy of the file in its place"
    if entry.kind == "directory" and not entry.size:
        return f"which cannot carry {path}, an empty folder; remove it, or add a file to it"
    if AMBIGUOUS.search(entry.name):
        return f"in which the name {path} would change; rename it"
    try:
        entry.name.encode()
    except UnicodeEncodeError:
        return f"in which the name {path}, which is not UTF-8, would change; rename it"
    return None


def _not_carried(provider: str, words: str, hidden: int) -> UnsupportedError:
    """Return the error. If `hidden` names were left out, these may be all that a folder has."""
    error = UnsupportedError(f"{provider} sends a form, {words}")
    if hidden:
        note = f"hidden names were left out: {hidden:,}; {{}} uploads them"
        advise(error, note.format("include_hidden=True"), note.format("--include-hidden"))
    return error
