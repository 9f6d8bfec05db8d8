"""The journal of a copy: which pins earlier calls have copied, and how.

The header says what is copied from where to where; then there is one line for each pin, which is
written when the pin is at the target. The target may lose pins later, so a line does not prove that
it has a pin: whoever reads a journal asks the target as well.
"""

import hashlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.config.secret import Secret
from holdfast.disk.closing import on_error
from holdfast.disk.journal import Journal
from holdfast.errors import ConfigError
from holdfast.records import Copied

KIND: Final = "holdfast copy 1"
ANY_TEXT: Final = ("utf-8", "surrogatepass")  # encodes whatever JSON had in it
FIELDS: Final = ("how", "duplicate", "size", "dropped", "gateways")  # of `Copied`, in a line
ROUNDS: Final = 100_000  # of the hash that tells two tokens apart


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

    def is_same(self, other: "Place") -> bool:
        """Return whether both are one place. Two local stores are if they have one folder."""
        return self.folder == other.folder if self.folder and other.folder else self == other

    def fingerprint(self, salt: str) -> str:
        """Return enough of a slow hash to notice another token, and too little to find this one."""
        if self.token is None:
            return ""
        digest = hashlib.pbkdf2_hmac(
            "sha256", self.token.reveal().encode(), salt.encode(*ANY_TEXT), ROUNDS
        )
        return digest[:3].hex()


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
        >>> journal.find("bafkqaaa").how
        'archive'
        >>> journal.close()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._journal = Journal(KIND, Path(path))
        self._places: dict[str, Place] = {}
        self._starts: dict[bytes, int] = {}  # where the line of each pin begins

    def open(self, source: Place, target: Place) -> None:
        """Read the file, or begin it; raise ConfigError if it belongs to another copy."""
        self._places = {"source": source, "target": target}
        path = self._journal.path
        if not self._journal.open():
            raise ConfigError(f"the journal {path} is in use by another copy; wait for it")
        with on_error(self.close):
            self._replay(path)

    def _replay(self, path: Path) -> None:
        for number, (start, value) in enumerate(self._journal.replay(), 1):
            if number == 1:
                self._check_header(value, path)
                continue
            try:
                pin = _read_line(value or {}).cid
            except ValueError as error:
                raise ConfigError(
                    f"line {number} of the journal {path} {error}: remove the file to "
                    "begin again; the target's content is not sent again"
                ) from None
            self._starts[_key(pin)] = start
        if not self._journal.size:
            self._journal.append(self._header(secrets.token_hex(8)))

    def _check_header(self, value: Mapping[str, Any] | None, path: Path) -> None:
        if value is None:
            raise ConfigError(f"{path} is not the journal of a copy: give another path")
        if value != self._header(str(value.get("salt"))):
            expected = " to ".join(place.name for place in self._places.values())
            actual = f"{value.get('source')} to {value.get('target')}"
            raise ConfigError(
                f"the journal {path} belongs to another copy, from {actual}, not from {expected} "
                "with the same tokens: give another path, or remove the file"
            )

    def _header(self, salt: str) -> dict[str, Any]:
        names = {role: place.name for role, place in self._places.items()}
        tokens = [place.fingerprint(salt) for place in self._places.values()]
        return {"kind": KIND, **names, "salt": salt, "tokens": tokens}

    def find(self, pin: str) -> Copied | None:
        """Return what `add` noted for a pin; None if it is not in the journal."""
        start = self._starts.get(_key(pin))
        value = None if start is None else self._journal.read(start)
        try:
            return None if value is None else _read_line(value)
        except ValueError:
            path = self._journal.path
            raise ConfigError(f"the journal {path} was changed by another program") from None

    def add(self, pin: str, copied: Copied) -> None:
        """Note that a pin is copied."""
        facts = {name: getattr(copied, name) for name in FIELDS}
        self._starts[_key(pin)] = self._journal.append({"pin": pin, **facts})

    def close(self) -> None:
        """Close the file, for others to use it. Closing it again has no effect."""
        self._journal.close()


def _read_line(value: Mapping[str, Any]) -> Copied:
    """Return what a line says, with what it calls the pin as the CID; raise ValueError if damaged.

    The error says what is wrong with the line.
    """
    unknown = [*value.keys() - {"pin", *FIELDS}]
    if unknown:
        raise ValueError(f"has the unknown field {min(unknown)!r}")
    match {"gateways": [], **value}:  # older journals do not have them
        case {
            "pin": str(pin),
            "how": None | "archive" | "upload" | "pin" as how,
            "duplicate": bool(duplicate),
            "size": int(size),
            "dropped": [*dropped],
            "gateways": [*hosts],
        } if type(size) is int and all(isinstance(name, str) for name in (*dropped, *hosts)):
            fields: dict[str, Any] = {"how": how, "duplicate": duplicate, "size": size}
            return Copied(cid=pin, **fields, dropped=tuple(dropped), gateways=tuple(hosts))
    raise ValueError("is damaged")


def _key(pin: str) -> bytes:
    """Return a short key: there may be millions of pins."""
    return hashlib.sha256(pin.encode(*ANY_TEXT)).digest()[:16]
