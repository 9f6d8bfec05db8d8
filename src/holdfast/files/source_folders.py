"""Folders that are read for an upload: opened in a way that follows no link below the top folder.

Somebody may put a link in the place of a folder while it is uploaded, and files from elsewhere
would be published. So each folder is opened by its name, relative to the open folder above it
(``O_NOFOLLOW``). Windows cannot do that: there, such a link is followed.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.files.open_folders import DIRECTORY, HAS_DIR_FD, LINK_ERRORS, NO_FOLLOW, OpenFolder
from holdfast.files.sources import changed_while_read

LONGEST: Final = 4096  # characters of a path; Linux opens no longer one at once


@contextmanager
def open_source_folder(root: Path, path: str) -> Iterator[OpenFolder]:
    """Open the folder `path` below `root`; "" is `root` itself, which may be a link.

    Example:
        >>> import tempfile
        >>> root = Path(tempfile.mkdtemp())
        >>> (root / "photos").mkdir()
        >>> with open_source_folder(root, "photos") as place:
        ...     names_in(place)
        []
    """
    if not HAS_DIR_FD:
        yield OpenFolder(os.path.join(root, path, ""), None)  # noqa: PTH118 - with a slash at the end
        return
    if len(path) > LONGEST:  # other programs could not open it
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), str(root / path))
    descriptor = os.open(root, DIRECTORY)
    try:
        for name in filter(None, path.split("/")):
            inner = os.open(name, DIRECTORY | NO_FOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
    except OSError as error:
        os.close(descriptor)
        raise _with_path(error, str(root / path)) from None
    try:
        yield OpenFolder("", descriptor)
    finally:
        os.close(descriptor)


def _with_path(error: OSError, path: str) -> OSError:
    if error.errno in LINK_ERRORS:
        return changed_while_read(path, "was replaced")
    error.filename = path
    return error


def names_in(place: OpenFolder) -> list[str]:
    """Return the names in an open folder."""
    return os.listdir(place.prefix if place.dir_fd is None else place.dir_fd)  # noqa: PTH208
