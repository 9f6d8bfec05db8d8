"""Write the output of a command as text or JSON, and numbers as people read them."""

import contextlib
import json
import sys
from datetime import datetime
from typing import Any, Final

from holdfast.cli.colours import paint
from holdfast.files.readable_size import readable_size

CID_WIDTH: Final = 59  # characters of a CID of version 1; those of version 0 have 46
LABELS: Final = {"error": "red", "warning": "yellow", "hint": "cyan", "note": "dim"}
"""The words with which lines on standard error begin, and their colours."""


def say(*lines: str) -> None:
    """Write lines, with line breaks and control characters in them escaped."""
    for line in lines:
        sys.stdout.write(f"{printable(line)}\n")


def say_content(text: str) -> None:
    """Write content unchanged; to a terminal, with control characters escaped."""
    if sys.stdout.isatty():
        text = "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))
    sys.stdout.write(f"{text}\n")


def say_json(value: Any) -> None:
    """Write `value` as one line of JSON, in ASCII so that every encoding can carry it."""
    sys.stdout.write(f"{json.dumps(value)}\n")


def write_error(*lines: str) -> None:
    """Write lines to standard error; ignore that it cannot be written."""
    with contextlib.suppress(OSError):
        for line in lines:
            label, colon, rest = printable(line).partition(": ")
            if colon and label in LABELS:
                label, colon = paint(f"{label}:", LABELS[label], sys.stderr), " "
            sys.stderr.write(f"{label}{colon}{rest}\n")
        sys.stderr.flush()


def write_error_json(value: Any) -> None:
    """Write `value` as one line of JSON to standard error."""
    write_error(json.dumps(value))


def printable(text: str) -> str:
    r"""Return `text` on one line, with its control characters escaped.

    Example:
        >>> print(printable("a\x1b[31mb\nc"))
        a\x1b[31mb\nc
    """
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def size_text(size: int | None) -> str:
    """Return a number of bytes for people; "-" if it is not known.

    Example:
        >>> size_text(1500), size_text(None)
        ('1.46 KiB', '-')
    """
    return "-" if size is None else readable_size(size)


def count_text(number: int, thing: str) -> str:
    """Return a number of things for people.

    Example:
        >>> count_text(1, "pin"), count_text(2000, "pin")
        ('1 pin', '2,000 pins')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def cid_column(cid: str) -> str:
    """Return a CID for a line with more behind it, as wide as the longest usual one.

    Example:
        >>> len(cid_column("QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn"))
        59
    """
    return f"{cid:<{CID_WIDTH}}"


def time_text(milliseconds: int | None) -> str:
    """Return a time in this machine's time zone; as its number if no calendar has it."""
    if milliseconds is None:
        return "-"
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return moment.strftime("%Y-%m-%d %H:%M")
