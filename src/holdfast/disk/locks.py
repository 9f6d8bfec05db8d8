"""File locks of the operating system, which releases them when the process ends."""

import errno
import os
from typing import Final

TAKEN: Final = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK}


def try_lock(descriptor: int, *, shared: bool = False, unsupported: bool | None = None) -> bool:
    """Lock an open file and return True; return False if somebody else holds the lock.

    Several may hold a `shared` lock at the same time.

    The lock belongs to the open file, not to the process: a second `open` of the same file in the
    same process does not have it, a forked child does. If the file system has no locks, return
    `unsupported`, or raise `OSError` if that is None.
    """
    import fcntl  # noqa: PLC0415 - clients of services work on systems without it

    try:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in TAKEN:
            return False
        if unsupported is None:
            raise
        return unsupported
    return True


def unlock(descriptor: int) -> None:
    """End the lock of an open file, which a forked child may have open too, and close the file."""
    import fcntl  # noqa: PLC0415

    try:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)
