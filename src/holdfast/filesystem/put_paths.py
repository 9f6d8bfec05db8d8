"""Which files of this machine a `put` copies, and where to.

Links are treated as by `upload`: a path that the user names may be a link, and is followed. Links
below it, and those that a pattern matches, are not.
"""

import os
from glob import has_magic
from itertools import takewhile
from typing import Any, NamedTuple

from fsspec.implementations.local import LocalFileSystem, make_path_posix, trailing_sep
from fsspec.utils import other_paths, stringify_path


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
        for given in [path] if isinstance(path, str | os.PathLike) else path:
            each = self._strip_protocol(given)
            if has_magic(each):
                below, depth = self.glob(each, maxdepth=maxdepth), maxdepth and maxdepth - 1
                names.update(below)
            else:
                below, depth = [each], maxdepth
            if recursive and depth != 0:
                for name in below:
                    names.update(self.find(name, maxdepth=depth, withdirs=True))
            if not has_magic(each) and (not recursive or self.exists(each)):
                names.add(each)
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
