"""Names of files and texts of symbolic links: which are refused.

Some systems take two names for one file, and some links lead out of the directory.
"""

import errno
import os
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from holdfast.hints import Hint, advise

LONGEST_NAME: Final = 255  # bytes, on nearly every file system
FORBIDDEN: Final = frozenset('<>:"/\\|?*')  # on Windows
NUMBERED: Final = "0123456789¹²³"
DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{port}{number}" for port in ("com", "lpt") for number in NUMBERED}
)
REFUSED: Final = "the entry is refused"
OTHER_ENTRIES: Final = Hint(
    "download the other entries one by one; `entries` lists them",
    "download the other entries one by one; `holdfast ls CID` lists them",
)
LONGEST_LINK: Final = 4095  # bytes of a link's text, on Linux
WRITE_LINKS: Final = Hint("pass symlinks=True to write links", "add --symlinks to write links")
ESCAPES: Final = "it is a symbolic link to {!r}, which may lead out of the folder"
EntryPath: TypeAlias = tuple[str, ...]


def refused(
    path: EntryPath, why: str, code: int = errno.EINVAL, *, hint: Hint = OTHER_ENTRIES
) -> OSError:
    """Return the error for an entry that is not written."""
    return advise(OSError(code, f"{REFUSED}: {why}", "/".join(path)), *hint)


def is_refusal(error: OSError) -> bool:
    """Return whether `error` is from `refused`, not from the disk."""
    return error.strerror is not None and error.strerror.startswith(REFUSED)


def why_not_portable(name: str) -> str | None:
    """Return why some system cannot have a file of this name; None if all can.

    Example:
        >>> why_not_portable("Aux.txt")
        'Aux.txt is a device on Windows'
        >>> why_not_portable("aux2.txt")
    """
    if forbidden := sorted(FORBIDDEN & set(name)):
        return f"Windows allows no {forbidden[0]!r} in a name"
    if any(character < " " or character == "\x7f" for character in name):
        return "it has a control character"
    if name.endswith((".", " ")):
        return "Windows drops the dot or space at its end"
    if name.partition(".")[0].rstrip(" ").lower() in DEVICES:
        return f"{name} is a device on Windows"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "it is not UTF-8"
    return None


def safe_part(name: str) -> str:
    """Return the last part of `name` that every system can have as a file; "" if there is none.

    A name that a pin has may come from anybody. So a part that begins with a dot, which hides a
    file, or with a hyphen, which makes it an option, is left out too.

    Example:
        >>> safe_part("photos/a.jpg"), safe_part("photos/.."), safe_part("../.bashrc")
        ('a.jpg', 'photos', '')
    """
    for part in reversed(name.split("/")):
        is_plain = part[:1] not in {"", ".", "-"} and why_not_portable(part) is None
        if is_plain and len(part.encode()) <= LONGEST_NAME:
            return part
    return ""


def folded(name: str, *, case: bool, forms: bool) -> str:
    """Return a text that is the same for all names that a file system may take for one.

    Args:
        name: The name.
        case: Whether names that differ only in case are one.
        forms: Whether names that differ only in their Unicode form, or in invisible characters,
            are one.

    Example:
        >>> folded("ÉTÉ", case=True, forms=False)
        'été'
    """
    if forms:
        name = unicodedata.normalize("NFD", name)
        name = "".join(character for character in name if unicodedata.category(character) != "Cf")
    if case:
        name = name.casefold()
    return unicodedata.normalize("NFC", name) if forms else name


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRules:
    """The names that may be written to one file system.

    Attributes:
        portable: Whether to refuse all names that some other system cannot have.
        merges_case: Whether names that differ only in case are one file here.
        merges_forms: The same for Unicode forms.
        longest: The largest number of bytes in a name.
        can_write: Returns whether a file of this name can be made, and then has this name.
    """

    portable: bool
    merges_case: bool
    merges_forms: bool
    longest: int
    can_write: Callable[[str], bool]

    def check(self, path: EntryPath) -> None:
        """Raise an error if the last name of `path` cannot be written."""
        name = path[-1]
        if name in {"", ".", ".."} or "/" in name or "\0" in name:
            raise refused(path, "it is not a valid name")
        size = len(name.encode("utf-8", "surrogateescape"))
        if size > self.longest:
            why = f"its name has {size} bytes, and at most {self.longest} are possible"
            raise refused(path, why, errno.ENAMETOOLONG)
        why_not = why_not_portable(name)
        if why_not is None:
            return
        if self.portable:
            raise refused(path, f"{why_not}; without portable it may work")
        if not self.can_write(name):
            raise refused(path, f"{why_not}, and this disk does not allow it; use another one")


class NamesOfDirectory:
    """Checks the names of one directory. It remembers them only where names can be merged."""

    def __init__(self, rules: NameRules) -> None:
        self._rules = rules
        self._case = rules.portable or rules.merges_case
        self._forms = rules.portable or rules.merges_forms
        self._seen: set[bytes] = set()

    def check(self, path: EntryPath) -> None:
        """Raise an error if `path` cannot be written, or not beside the ones before it."""
        self._rules.check(path)
        if not self._case and not self._forms:
            return
        key = folded(path[-1], case=self._case, forms=self._forms)
        digest = key.encode("utf-8", "surrogateescape")
        if digest in self._seen:
            why = "another name differs from it only in case or Unicode form, and they would be one"
            raise refused(path, f"{why} file; download its content by the CID")
        self._seen.add(digest)


def longest_name(descriptor: int) -> int:
    """Return how many bytes a name may have in the open folder, at most `LONGEST_NAME`."""
    try:
        return min(os.fpathconf(descriptor, "PC_NAME_MAX"), LONGEST_NAME)
    except (OSError, ValueError):  # a file system that does not say it
        return LONGEST_NAME


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
