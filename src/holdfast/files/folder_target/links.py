"""Symbolic links in a directory: which of them stay inside it."""

from typing import Final

from holdfast.files.folder_target.names import EntryPath, refused, why_not_portable
from holdfast.hints import Hint

LONGEST_LINK: Final = 4095  # bytes of a link's text, on Linux
WRITE_LINKS: Final = Hint("pass symlinks=True to write links", "add --symlinks to write links")
ESCAPES: Final = "it is a symbolic link to {!r}, which may lead out of the folder"


def check_link(path: EntryPath, text: str, *, portable: bool) -> None:
    """Raise an error unless the link at `path` stays inside the directory.

    A link is relative, and ``..`` stands only at its beginning. Each further name is then below a
    folder that is inside, even if other links lead there.

    Example:
        >>> check_link(("a", "link"), "../b/c", portable=False)
        >>> try:
        ...     check_link(("a", "link"), "../../b", portable=False)
        ... except OSError as error:
        ...     error.filename
        'a/link'
    """
    names = text.split("/")
    is_text = text and "\0" not in text and not text.startswith("/")
    if not is_text or len(text.encode("utf-8", "surrogateescape")) > LONGEST_LINK:
        raise refused(path, ESCAPES.format(text[:200]))
    ups = 0
    while ups < len(names) and names[ups] == "..":
        ups += 1
    if ups >= len(path) or ".." in names[ups:] or _is_drive(names[ups:]):
        raise refused(path, ESCAPES.format(text[:200]))
    for name in names[ups:]:
        why = why_not_portable(name) if portable and name not in {"", "."} else None
        if why is not None:
            raise refused(path, f"it is a symbolic link to {text!r}: {why}")


def _is_drive(names: list[str]) -> bool:
    """Return whether Windows would take the link for an absolute one."""
    return any("\\" in name or (len(name) > 1 and name[1] == ":") for name in names)
