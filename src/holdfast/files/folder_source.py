"""A folder to upload: what is in it, and what was left out."""

import os
from dataclasses import dataclass
from pathlib import Path

from holdfast.files.sources import existing_path


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSource:
    """A folder to upload.

    Attributes:
        path: The folder.
        include_hidden: Whether names that begin with a dot are uploaded too.
    """

    path: Path
    include_hidden: bool = False

    @classmethod
    def of(cls, given: str | os.PathLike[str], *, include_hidden: bool = False) -> "FolderSource":
        """Return the folder at `given`, which exists."""
        return cls(path=existing_path(given), include_hidden=include_hidden)
