"""Prepare the standard streams, which may be closed, and flush them at the end."""

import os
import sys


def prepare() -> None:
    """Make all characters writable, and open closed streams on the null device.

    Otherwise the next file that is opened would get the number of the closed descriptor, and
    messages would be written into it. `sys.stdin` stays None if it is closed, so that reading from
    it is an error.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)  # noqa: FBT003 - takes no keyword
            if name != "stdin":
                nowhere = open(descriptor, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
                setattr(sys, name, nowhere)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a caller of `main` may have set another object
            stream.reconfigure(errors="backslashreplace")


def flush() -> None:
    """Flush the streams; discard what cannot be written, so that Python does not try again."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
