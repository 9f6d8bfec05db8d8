"""Paths of the file system, and the errors that its users expect.

A path whose first name is a CID is content that exists, and never changes. Any other path is a file
in the directory that a transaction writes.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from glob import has_magic
from itertools import takewhile
from typing import Any, Final, NamedTuple

from fsspec.implementations.local import LocalFileSystem, make_path_posix, trailing_sep
from fsspec.utils import other_paths, stringify_path

from holdfast import errors
from holdfast.content.cid import CID
from holdfast.content.reference import Reference

PREFIXES: Final = ("holdfast://", "holdfast::", "ipfs://")


class PutPath(NamedTuple):
    """One file or folder of a `put`.

    Attributes:
        source: Where it is on this machine.
        target: Where it goes.
        root: The folder that was searched for it; None if the user has named it.
    """

    source: str
    target: str
    root: str | None


def put_paths(
    sources: Any, target: Any, *, target_is_folder: bool, recursive: bool, maxdepth: int | None
) -> list[PutPath]:
    """Return what a `put` copies, by fsspec's rules for paths.

    Args:
        sources: A path, a pattern, or a list of them.
        target: The path for them; or a list, with one for each source.
        target_is_folder: Whether the target is a folder that exists, or ends with a slash.
        recursive: Whether folders are copied with everything in them.
        maxdepth: How deep to go.
    """
    if isinstance(sources, list) and isinstance(target, list):
        return [PutPath(*pair, None) for pair in zip(sources, target, strict=True)]
    is_one = not isinstance(sources, list | tuple | set)
    sources = make_path_posix(stringify_path(sources)) if is_one else sources
    files = _UnfollowedLinks(sources if not is_one else [sources])
    paths = files.expand_path(sources, recursive=recursive, maxdepth=maxdepth)
    if is_one and (not recursive or maxdepth is not None):
        paths = [path for path in paths if not files.isdir(path)]
    if not paths:
        return []
    if is_one and has_magic(sources):
        is_inside = len(paths) == 1
    else:
        is_inside = is_one and target_is_folder and not trailing_sep(sources)
    targets = other_paths(paths, target, exists=is_inside, flatten=not is_one)
    return [
        PutPath(path, target, files.root_of(path))
        for path, target in zip(paths, targets, strict=True)
    ]


class _UnfollowedLinks(LocalFileSystem):  # type: ignore[misc] # fsspec has no types
    """The files of this machine, with links that are not followed, unless the user names them."""

    cachable = False

    def __init__(self, sources: Any) -> None:
        super().__init__()
        paths = [self._strip_protocol(path) for path in sources]
        self._named = {path for path in paths if not has_magic(path)}
        self._roots = sorted(map(_fixed_part, paths), key=len, reverse=True)

    def info(self, path: Any, **options: Any) -> Any:
        info = super().info(path, **options)
        if info["islink"] and info["name"] not in self._named:
            info["type"] = "link"
        return info

    def isdir(self, path: str) -> bool:
        path = self._strip_protocol(path)
        return os.path.isdir(path) and (path in self._named or not self.islink(path))  # noqa: PTH112

    def expand_path(
        self,
        path: Any,
        recursive: bool = False,  # noqa: FBT001, FBT002 - as fsspec calls it
        maxdepth: int | None = None,
        **_: Any,
    ) -> list[str]:
        """Expand patterns as fsspec does. What a pattern matches is a name, and not a pattern.

        Before 2026.6, fsspec never ends with a name such as ``a[1].txt``.
        """
        names: set[str] = set()
        for source in map(
            self._strip_protocol, [path] if isinstance(path, str | os.PathLike) else path
        ):
            if has_magic(source):
                below, depth = self.glob(source, maxdepth=maxdepth), maxdepth and maxdepth - 1
                names.update(below)
            else:
                below, depth = [source], maxdepth
                if not recursive or self.exists(source):
                    names.add(source)
            if recursive and depth != 0:
                for name in below:
                    names.update(self.find(name, maxdepth=depth, withdirs=True))
        if not names:
            raise FileNotFoundError(path)
        return sorted(names)

    def root_of(self, path: str) -> str | None:
        """Return the folder below which `path` was found; None if the user has named it."""
        if path in self._named:
            return None
        above = (root for root in self._roots if path.startswith(f"{root.rstrip('/')}/"))
        return next(above, None)


def _fixed_part(path: str) -> str:
    """Return the folders of a pattern before its first wildcard; a path without one as it is."""
    return "/".join(takewhile(lambda name: not has_magic(name), path.split("/"))) or "/"


def plain_path(text: Any) -> str:
    """Return a path without protocol, ``/ipfs/``, and slashes at its ends.

    Example:
        >>> plain_path("holdfast:///ipfs/bafkqaaa/a/b.csv")
        'bafkqaaa/a/b.csv'
    """
    path: str = stringify_path(text)
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
    except errors.InvalidCIDError:
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
    except errors.InvalidCIDError:
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
    except errors.NotFoundError as error:
        raise no_such_file(path, error.message) from error
    except (errors.AuthenticationError, errors.PermissionDeniedError) as error:
        why = error.message or os.strerror(errno.EACCES)
        raise PermissionError(errno.EACCES, why, path) from error
