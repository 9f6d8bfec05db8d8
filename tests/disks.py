"""Small file systems of a test's own, where the system lets us mount them."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


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
    yield folder
    unmount(folder)
