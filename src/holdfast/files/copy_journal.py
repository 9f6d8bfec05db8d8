"""The journal of a copy: which pins earlier calls have copied, and how.

Each line is a JSON object: first what is copied from where to where, then one line for each pin.
A line is written by one system call, when its pin is at the target. After a crash the last line may
be incomplete; it is removed. The target may lose pins later, so a line does not prove that it has
a pin: whoever reads a journal asks the target as well.
"""

import hashlib
import json
import os
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.config.secret import Secret
from holdfast.errors import ConfigError
from holdfast.files.locks import try_lock
from holdfast.records import Copied, CopyMethod

KIND: Final = "holdfast copy 1"
BEGINNING: Final = f'{{"kind":"{KIND}"'.encode()
ROUNDS: Final = 100_000  # of the hash that tells two tokens apart
LONGEST_LINE: Final = 1 << 20


class Place(NamedTuple):
    """Where content is copied from or to.

    Attributes:
        name: The provider, and the address of a service or the id of a local store.
        token: What tells two accounts apart: the token, and options that the provider has. Only a
            part of a slow hash is written.
        folder: The folder of a local store, which tells it from a copy of it. It is not written.
    """

    name: str
    token: Secret | None = None
    folder: str = ""

    def fingerprint(self, salt: str) -> str:
        """Return enough of a slow hash to notice another token, and too little to find this one."""
        if self.token is None:
            return ""
        digest = hashlib.pbkdf2_hmac("sha256", self.token.reveal().encode(), _bytes(salt), ROUNDS)
        return digest[:3].hex()


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLine:
    """What a journal says about a pin, as in `Copied`. A line has these fields and no others."""

    how: CopyMethod | None
    duplicate: bool
    size: int
    dropped: tuple[str, ...]


FIELDS: Final = tuple(field.name for field in fields(JournalLine))


class CopyJournal:
    """A file that lists what is copied from one place to another. One process may use it.

    Args:
        path: The file. `open` makes it if it is missing.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "journal")
        >>> journal = CopyJournal(path)
        >>> journal.open(Place("local 1f0e"), Place("local 92cd"))
        >>> journal.add("bafkqaaa", Copied(cid="bafkqaaa", how="archive", size=40))
        >>> journal.find("bafkqaaa")
        JournalLine(how='archive', duplicate=False, size=40, dropped=())
        >>> journal.close()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._places: dict[str, Place] = {}
        self._descriptor: int | None = None
        self._lines: dict[bytes, int] = {}  # where the line of each pin begins
        self._end = 0
        self._lock = threading.Lock()

    def open(self, source: Place, target: Place) -> None:
        """Read the file, or begin it; raise ConfigError if it belongs to another copy."""
        self._places = {"source": source, "target": target}
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(self._path, flags, 0o600)
        try:
            self._read(self._descriptor)
        except BaseException:
            self.close()
            raise

    def _read(self, descriptor: int) -> None:
        if not try_lock(descriptor):
            raise ConfigError(f"the journal {self._path} is in use by another copy; wait for it")
        number = 0
        with open(descriptor, "rb", closefd=False) as file:
            file.seek(0)
            while line := file.readline(LONGEST_LINE):
                if not line.endswith(b"\n") and len(line) < LONGEST_LINE:
                    # The process was killed while it wrote the line; or this is another file.
                    if not number and line[: len(BEGINNING)] != BEGINNING[: len(line)]:
                        self._check_header(None)
                    break
                self._take(number, line)
                self._end += len(line)
                number += 1
        os.ftruncate(descriptor, self._end)
        if not number:
            self._write(self._header(secrets.token_hex(8)))

    def _take(self, number: int, line: bytes) -> None:
        if not number:
            self._check_header(_parsed(line))
            return
        try:
            pin, _ = _read_line(line)
        except ValueError as error:
            raise ConfigError(
                f"line {number + 1} of the journal {self._path} {error}: remove the file to "
                "begin again; what is at the target is not sent again"
            ) from None
        self._lines[_key(pin)] = self._end

    def _check_header(self, value: Mapping[str, Any] | None) -> None:
        if value is None or value.get("kind") != KIND:
            raise ConfigError(f"{self._path} is not the journal of a copy: give another path")
        if value != self._header(str(value.get("salt"))):
            wanted = " to ".join(place.name for place in self._places.values())
            found = f"{value.get('source')} to {value.get('target')}"
            raise ConfigError(
                f"the journal {self._path} is of another copy, from {found}, not from {wanted} "
                "with the same tokens: give another path, or remove the file"
            )

    def _header(self, salt: str) -> dict[str, Any]:
        names = {role: place.name for role, place in self._places.items()}
        tokens = [place.fingerprint(salt) for place in self._places.values()]
        return {"kind": KIND, **names, "salt": salt, "tokens": tokens}

    def find(self, pin: str) -> JournalLine | None:
        """Return what `add` noted for a pin; None if it is not in the journal."""
        with self._lock:
            start = self._lines.get(_key(pin))
            if start is None or self._descriptor is None:
                return None
            with open(self._descriptor, "rb", closefd=False) as file:
                file.seek(start)
                line = file.readline(LONGEST_LINE)
        try:
            return _read_line(line)[1]
        except ValueError:
            raise ConfigError(f"the journal {self._path} was changed by another program") from None

    def add(self, pin: str, copied: Copied) -> None:
        """Note that a pin is copied."""
        facts = {name: getattr(copied, name) for name in FIELDS}
        with self._lock:
            start = self._end
            self._write({"pin": pin, **facts})
            self._lines[_key(pin)] = start

    def _write(self, value: Mapping[str, Any]) -> None:
        if self._descriptor is None:
            return
        line = json.dumps(value, separators=(",", ":")).encode() + b"\n"
        written = os.write(self._descriptor, line)
        if written != len(line):
            os.ftruncate(self._descriptor, self._end)
            raise OSError(f"the journal {self._path} could not be written: the disk may be full")
        self._end += written

    def close(self) -> None:
        """Close the file, for others to use it. A second time does nothing."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.close()


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _read_line(line: bytes) -> tuple[str, JournalLine]:
    """Return what a line calls the pin, and what it says; raise ValueError if it is not as written.

    The error says what is wrong with the line.
    """
    value = _parsed(line) or {}
    unknown = [*value.keys() - {"pin", *FIELDS}]
    if unknown:
        raise ValueError(f"has the unknown field {min(unknown)!r}")
    match value:
        case {
            "pin": str(pin),
            "how": None | "archive" | "upload" | "pin" as how,
            "duplicate": bool(duplicate),
            "size": int(size),
            "dropped": [*dropped],
        } if type(size) is int and all(isinstance(name, str) for name in dropped):
            names = tuple(dropped)
            return pin, JournalLine(how=how, duplicate=duplicate, size=size, dropped=names)
    raise ValueError("is damaged")


def _key(pin: str) -> bytes:
    """Return a short key: there may be millions of pins."""
    return hashlib.sha256(_bytes(pin)).digest()[:16]


def _bytes(text: str) -> bytes:
    """Return `text` as bytes, whatever JSON had in it."""
    return text.encode("utf-8", "surrogatepass")
