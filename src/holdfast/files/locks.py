"""File locks of the operating system, which releases them when the process ends."""

import errno
import os
import sys
from typing import Final

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# Beyond the end of every file: on Windows nobody can read a locked byte.
LOCKED_BYTE: Final = 1 << 62
TAKEN: Final = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK}


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file and return True; return False if somebody else holds the lock.

    Several may hold a `shared` lock at the same time, but on Windows only one.

    The lock belongs to the open file, not to the process: a second `open` of the same file in the
    same process does not have it, a forked child does. Raise `OSError` if the file system has no
    locks.
    """
    try:
        if sys.platform == "win32":
            os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in TAKEN:
            return False
        raise
    return True
