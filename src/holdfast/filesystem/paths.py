"""Paths of the file system, and the errors that its users expect.

A path whose first name is a CID is content that exists, and never changes. Any other path is a file
in the directory that a transaction writes.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from fsspec.utils import stringify_path

from holdfast.content.cid import CID, Reference
from holdfast.errors import (
    AuthenticationError,
    InvalidCIDError,
    NotFoundError,
    PermissionDeniedError,
)

PREFIXES: Final = ("holdfast://", "holdfast::", "ipfs://")


def plain_path(given: Any) -> str:
    """Return a path without protocol, ``/ipfs/``, and slashes at its ends.

    Example:
        >>> plain_path("holdfast:///ipfs/bafkqaaa/a/b.csv")
        'bafkqaaa/a/b.csv'
    """
    path: str = stringify_path(given)
    for prefix in PREFIXES:
        path = path.removeprefix(prefix)
    names = [name for name in path.split("/") if name]
    if len(names) > 1 and names[0] == "ipfs" and is_cid(names[1]):
        del names[0]
    return "/".join(names)


def is_cid(name: str) -> bool:
    """Return whether `name` is a CID.

    Example:
        >>> is_cid("bafkqaaa"), is_cid("data")
        (True, False)
    """
    try:
        CID.parse(name)
    except InvalidCIDError:
        return False
    return True


def reference_to(path: str) -> Reference | None:
    """Return the reference to existing content; None for a path that does not begin with a CID.

    Raise `FileNotFoundError` for a name that no file can have.
    """
    root, *names = path.split("/")
    if any(name in {".", ".."} or "\0" in name for name in (root, *names)):
        raise no_such_file(path, "no file can have this name")
    try:
        return Reference(root, CID.parse(root), tuple(names))
    except InvalidCIDError:
        return None
    except UnicodeError:
        raise no_such_file(path, "the name is not UTF-8") from None


def no_such_file(path: str, why: str) -> FileNotFoundError:
    """Return the error for a path at which nothing is."""
    return FileNotFoundError(errno.ENOENT, why, path)


def cannot_write(path: str, *, is_async: bool = False) -> PermissionError:
    """Return the error for a path that cannot be written, by an instance that may be async."""
    if reference_to(path) is not None:
        why = "content under a CID cannot be changed; write to a path that begins with another name"
    elif is_async:
        why = (
            "files are written in a transaction, and this instance is asynchronous, with "
            "transactions of its own; use `async with fs.transaction:`"
        )
    else:
        why = (
            "files are written in a transaction; use `with fs.transaction:`, where `fs` has the "
            "same options, in the same process"
        )
    return PermissionError(errno.EACCES, why, path)


@contextmanager
def os_errors(path: str) -> Iterator[None]:
    """Turn errors of the client into those of the operating system that fsspec users expect.

    Other errors are raised as they are. Many are such errors already: a `NetworkError` is a
    `ConnectionError`, and a directory that is read as a file is an `IsADirectoryError`.
    """
    try:
        yield
    except NotFoundError as error:
        raise no_such_file(path, error.message) from error
    except (AuthenticationError, PermissionDeniedError) as error:
        raise PermissionError(errno.EACCES, error.message or os.strerror(errno.EACCES), path) from (
            error
        )
