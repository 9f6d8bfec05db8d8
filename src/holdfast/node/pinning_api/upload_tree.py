"""The files of an upload by path, and the directories that the paths form.

Only whole paths are kept. Sorted paths list the files of each directory one after the other, so
that the directories are built in one pass::

    a/b/x      open a, open b, add x to b
    a/b/y      add y to b
    a/z        close b: build it and add it to a; add z to a
               close a: build it
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from holdfast.content.unixfs.files import Part
from holdfast.node.http_server.refusals import bad_request

MAX_FILES: Final = 100_000
MAX_FOLDERS: Final = 1_000_000
MAX_LEVELS: Final = 64
MAX_PATHS: Final = 32 << 20  # bytes of all paths together
PART_WEIGHT: Final = 450  # bytes of memory for a file, besides its path

Entries: TypeAlias = list[tuple[bytes, Part]]


class UploadTree:
    """Collects the files of an upload, then builds their directories.

    Its limits keep it under 128 MiB, including the memory for building the directories.
    """

    def __init__(self) -> None:
        self._parts: dict[bytes, Part] = {}  # by path, with zero bytes between its names
        self._root: str | None = None
        self._bytes = 0
        self._folders = 0

    @property
    def count(self) -> int:
        """The number of files."""
        return len(self._parts)

    @property
    def held(self) -> int:
        """The approximate bytes of memory that the files and their paths take."""
        return self._bytes + len(self._parts) * PART_WEIGHT

    def check(self, filename: str) -> bytes:
        """Return the path for `add` of the file with this name.

        Raise a `Refusal` if the name is not a valid path, exists already, or exceeds a limit. As
        with Kubo, slashes at the start and doubled slashes do not count: some clients send the
        whole path of a file.
        """
        names = [name for name in filename.removeprefix("./").split("/") if name]
        if len(names) > MAX_LEVELS:
            raise bad_request(f"A filename may have at most {MAX_LEVELS} levels")
        if not names or filename.endswith("/"):
            raise bad_request("A filename must end with the name of a file")
        if any(name in {".", ".."} or "\0" in name for name in names):
            raise bad_request("A filename must be a path without '.', '..' or zero bytes")
        if len(self._parts) >= MAX_FILES:
            raise bad_request(f"An upload may have at most {MAX_FILES} files")
        if self._root is None:
            self._root = names[0]
        elif self._root != names[0]:
            raise bad_request("More than one file and/or directory was provided for pinning.")
        path = "\0".join(names).encode()
        self._bytes += len(path)
        if self._bytes > MAX_PATHS:
            raise bad_request(
                f"The filenames of an upload may have at most {MAX_PATHS} bytes together"
            )
        if path in self._parts:
            raise bad_request(f"The filename {names[-1]} occurs twice")
        return path

    def add(self, path: bytes, part: Part) -> None:
        """Add the file at `path`, which `check` returned."""
        self._parts[path] = part

    def build(
        self, finish: Callable[[Part], Part], build_directory: Callable[[Entries], Part]
    ) -> tuple[bytes, Part]:
        """Return the name and the node of the file or directory at the top.

        Call `finish` with each file and `build_directory` with the entries of each directory. The
        tree is empty afterwards.
        """
        opened: list[bytes] = []
        levels: list[Entries] = [[]]

        def close_down_to(depth: int) -> None:
            while len(opened) > depth:
                built = build_directory(levels.pop())
                levels[-1].append((opened.pop(), built))

        for path in sorted(self._parts):
            *folders, name = path.split(b"\0")
            depth = _common(opened, folders)
            close_down_to(depth)
            for folder in folders[depth:]:
                self._open(levels, folder)
                opened.append(folder)
            levels[-1].append((name, finish(self._parts.pop(path))))
        close_down_to(0)
        return levels[0][0]

    def _open(self, levels: list[Entries], folder: bytes) -> None:
        # In sorted order, a file is followed directly by a directory of the same name.
        if levels[-1] and levels[-1][-1][0] == folder:
            raise bad_request(f"{folder.decode()} is both a file and a directory")
        self._folders += 1
        if self._folders > MAX_FOLDERS:
            raise bad_request(f"An upload may have at most {MAX_FOLDERS} folders")
        levels.append([])


def _common(one: list[bytes], other: list[bytes]) -> int:
    """Return how many names two paths have in common at their start."""
    count = 0
    for mine, yours in zip(one, other, strict=False):
        if mine != yours:
            break
        count += 1
    return count
