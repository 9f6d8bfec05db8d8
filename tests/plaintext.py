"""Plaintext that can be found again: every 16 bytes of it contain a mark."""

import os

from holdfast.disk.atomic import PendingFile

MARK = os.urandom(6)
PERIOD = 10  # bytes from one mark to the next


def marked(size):
    """Return so many bytes of plaintext, no two parts of which are the same."""
    count = size // PERIOD + 1
    return b"".join(MARK + number.to_bytes(4, "big") for number in range(count))[:size]


def files_with_plaintext(*folders):
    """Return the paths of all files below the folders in which there are 16 bytes of plaintext."""
    paths = (path for folder in folders for path in folder.rglob("*"))
    return {path for path in paths if _is_file(path) and MARK in path.read_bytes()}


def _is_file(path):
    return path.is_file() and not path.is_symlink()


def killed(target):
    """Leave behind what a process that is killed while it writes to `target` leaves."""
    pending = PendingFile(target)
    pending.open()
    pending.write(marked(10_000))
    pending._opened().close()  # nothing else, so that its name stays
