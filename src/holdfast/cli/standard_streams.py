"""The three standard streams, in whatever state the command finds them."""

import os
import sys


def prepare() -> None:
    """See to it that writing cannot fail for a character, nor hit a file of somebody else's.

    The number of a descriptor that was closed goes to whatever is opened next: it is taken here.
    A missing standard input stays None, since to read nothing from it would not be what was meant.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)  # noqa: FBT003 - as the system has it
            if name != "stdin":
                nowhere = open(descriptor, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
                setattr(sys, name, nowhere)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # somebody who calls `main` may have put in another
            stream.reconfigure(errors="backslashreplace")


def settle() -> None:
    """Drop what nobody takes: Python must not try once more when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
