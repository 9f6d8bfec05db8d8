"""Folders in memory, small file systems where the system lets us mount them, and pending files."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.content.reference import Reference
from holdfast.disk.atomic import PendingFile, SavedPlace

MEMORY = Path("/dev/shm")  # noqa: S108


def has_room(size: int) -> bool:
    """Tell whether there is a file system in memory with so much room.

    Its own limit says little: what it holds is taken from the memory of all processes.
    """
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < size:
        return False
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    return int(available) << 10 > size


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder in memory, where there is such a place: a store makes everything durable."""
    with tempfile.TemporaryDirectory(dir=MEMORY if has_room(4 << 30) else None) as folder:
        yield Path(folder)


def mount(folder: Path, *options: str) -> None:
    """Mount something on a folder; skip the test where that is not allowed."""
    command = ["mount", *options, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")


def unmount(folder: Path) -> None:
    subprocess.run(["umount", str(folder)], check=True)  # noqa: S603, S607


@contextmanager
def disk(folder: Path, options: str) -> Iterator[Path]:
    """A file system in memory, such as one with ``size=8m``, on a folder that is made for it."""
    folder.mkdir(exist_ok=True)
    mount(folder, "-t", "tmpfs", "-o", options, "tmpfs")
    try:
        yield folder
    finally:
        unmount(folder)


def fill_up(folder: Path, free: int = 0) -> Path:
    """Use up the disk of a folder but for `free` bytes, as another program would; the file."""
    status = os.statvfs(folder)
    filler = folder / "filler"
    filler.write_bytes(bytes(status.f_bavail * status.f_frsize - free))
    return filler


PLANTED: dict[str, Callable[[Path, Path], object]] = {
    "link": lambda path, target: path.symlink_to(target),
    "dangling": lambda path, target: path.symlink_to(target.with_name("new")),
    "hard link": lambda path, target: path.hardlink_to(target),
    "pipe": lambda path, _: os.mkfifo(path),
    "folder": lambda path, _: path.mkdir(),
}
"""What may stand in the place of a file: each is made at a path, and may lead to a target."""


def pending_download(cache: Path, cid: str, data: bytes) -> PendingFile:
    """The open file of a download to `copy` beside the cache folder, with its first bytes."""
    cache.parent.mkdir(parents=True, exist_ok=True)
    place = SavedPlace.of(cache, Reference.parse(cid))
    pending = PendingFile(cache.parent / "copy", place=place)
    pending.open()
    pending.write(data)
    return pending
