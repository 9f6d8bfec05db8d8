"""Entries of directories."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

EntryKind: TypeAlias = Literal["file", "directory", "symlink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name in a directory, and the content under it.

    A directory's block holds names and CIDs only. So `size` and `kind` are None if the block of
    the entry itself was not read, except for raw blocks, which are files.

    Attributes:
        name: The name in the directory.
        cid: The CID of the content.
        size: The bytes of a file.
        kind: ``file``, ``directory`` or ``symlink``.

    Example:
        >>> Entry(name="a.txt", cid="bafkqaaa", size=0, kind="file").name
        'a.txt'
    """

    name: str
    cid: str
    size: int | None = None
    kind: EntryKind | None = None
