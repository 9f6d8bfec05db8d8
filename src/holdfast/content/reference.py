"""What people hand in as "a CID": the CID itself, a path, or a gateway's or native URL."""

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError

_NATIVE = re.compile(r"^ipfs://(?P<rest>.*)$", re.IGNORECASE | re.DOTALL)
_SUBDOMAIN = re.compile(
    r"^https?://(?P<cid>[^./?#]+)\.ipfs\.[^/?#]+(?P<rest>.*)$", re.IGNORECASE | re.DOTALL
)
MAX_REFERENCE = 8192


@dataclass(frozen=True, slots=True)
class Reference:
    """A CID as it was given, and the path under it, name by name."""

    text: str
    cid: CID
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The CID and path as they go behind a gateway's address: every name quoted whole."""
        return "/".join((self.text, *(quote(name, safe="") for name in self.path)))

    @classmethod
    def parse(cls, given: object) -> "Reference":
        """The reference that `given` spells, by the spec's rules; else `InvalidCIDError`.

        Trimmed first; what follows the first ``/ipfs/`` counts, as do ``ipfs://CID`` and
        ``https://CID.ipfs.host``; query, fragment and trailing slashes go; names in a path are
        percent-decoded. What comes from outside
        never shapes a request: only a sound CID and plain names are let through.

        Example:
            >>> str(Reference.parse(" https://ipfs.io/ipfs/bafkqaaa/a%20b.json?download=1 "))
            'bafkqaaa/a%20b.json'
        """
        if not isinstance(given, str):
            raise InvalidCIDError(reason=f"a CID is a string, not {type(given).__name__}")
        if len(given) > MAX_REFERENCE:
            raise InvalidCIDError(reason=f"longer than {MAX_REFERENCE} characters")
        # The query goes first: what stands in it is somebody else's.
        address = re.split(r"[?#]", given.strip(), maxsplit=1)[0]
        text, *names = _after_ipfs(address).rstrip("/").split("/")
        return cls(text, CID.parse(text), tuple(map(_name, names)))

    @classmethod
    def parse_cid(cls, given: object) -> str:
        """The bare CID that `given` spells; with a path under it, `InvalidCIDError`."""
        reference = cls.parse(given)
        if reference.path:
            raise InvalidCIDError(reason="a path inside a CID cannot be used here, only a CID")
        return reference.text


def _after_ipfs(text: str) -> str:
    """`text` from its CID on."""
    _, found, rest = text.partition("/ipfs/")
    if found:
        return rest
    if match := _NATIVE.match(text):
        return match["rest"]
    if match := _SUBDOMAIN.match(text):
        return match["cid"] + match["rest"]
    return text


def _name(quoted: str) -> str:
    """One name of the path, percent-decoded; it must be a name, not a way out of the path."""
    try:
        name = unquote(quoted, errors="strict")
        name.encode()
    except UnicodeError:
        raise InvalidCIDError(reason="the path is not UTF-8") from None
    if name in {"", ".", ".."} or "/" in name or any(c < " " or c == "\x7f" for c in name):
        raise InvalidCIDError(reason=f"{name!r} is no name of a file in a directory")
    return name
