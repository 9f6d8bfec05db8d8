"""What is in the cache folder: verified blocks, and the verified bytes of interrupted downloads."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast.disk.block_cache import CachedFiles, size_on_disk
from holdfast.disk.folders import Folder
from holdfast.disk.partial import NAME, PARTIAL, open_locked


class Amount(NamedTuple):
    """A number of files, and the bytes of disk that they take."""

    files: int
    size: int


class CacheContent(NamedTuple):
    """What is in the cache folder, or was removed from it."""

    blocks: Amount
    downloads: Amount


def look_at_cache(folder: Path) -> CacheContent:
    """Return what is in the cache folder.

    Example:
        >>> import tempfile
        >>> look_at_cache(Path(tempfile.mkdtemp())).blocks
        Amount(files=0, size=0)
    """
    if not folder.exists():
        return CacheContent(Amount(0, 0), Amount(0, 0))
    blocks = (file.size for file in CachedFiles(folder).files())
    return CacheContent(_sum(blocks), _sum(size for _, size in _downloads(folder)))


def clear_cache(folder: Path) -> CacheContent:
    """Remove everything from the cache folder; return what was removed.

    Downloads that are under way, and files that are not ours, stay.
    """
    if not folder.exists():
        return CacheContent(Amount(0, 0), Amount(0, 0))
    blocks = CachedFiles(folder)
    removed = (file.size for file in blocks.files() if blocks.remove(file))
    parts = Folder(folder, PARTIAL)
    ended = (size for name, size in _downloads(folder) if _remove_download(parts, name))
    return CacheContent(_sum(removed), _sum(ended))


def _downloads(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the names and sizes of the files of interrupted downloads."""
    parts = Folder(folder, PARTIAL)
    if not parts.exists():
        return
    for name in filter(NAME.fullmatch, parts.entries().files):
        status = parts.status(name)
        if status is not None:
            yield name, size_on_disk(status.st_size)


def _remove_download(parts: Folder, name: str) -> bool:
    """Remove the file of a download, unless it is under way; return whether it was removed."""
    file = open_locked(parts, name)
    if file is None:
        return False
    with contextlib.closing(file):
        return parts.remove(name)


def _sum(sizes: Iterable[int]) -> Amount:
    files = total = 0
    for size in sizes:
        files += 1
        total += size
    return Amount(files, total)
