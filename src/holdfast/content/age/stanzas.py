"""One part of a header: the file key, wrapped for one reader.

    -> X25519 XEl0dJ6y3C7KZkgmgWUicg63EyXJiwBJW8PdYJ/cYBE      the kind, and its arguments
    qRS0AMjdjPvZ/WT08U2KL4G+PIooA3hy38SvLpvaC1E                the body, in lines of 64 characters

The last line of the body is shorter than 64 characters, and may be empty.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final

from holdfast.errors import MalformedError

COLUMNS: Final = 64
WRAPPED_KEY_SIZE: Final = 32  # the file key and its tag, in all kinds that we know
# A possessive quantifier never gives back what it matched, so that no input takes long.
_STANZA: Final = re.compile(
    rb"-> ([!-~]+(?: [!-~]+)*+)\n((?:[A-Za-z0-9+/]{64}\n)*+[A-Za-z0-9+/]{0,63}\n)"
)


@dataclass(frozen=True, slots=True)
class Stanza:
    r"""A stanza of a header.

    Example:
        >>> stanza = Stanza("X25519", ("AAAA",), b"secret")
        >>> bytes(stanza)
        b'-> X25519 AAAA\nc2VjcmV0\n'
        >>> Stanza.read(bytes(stanza), 0) == (stanza, 24)
        True
    """

    kind: str
    arguments: tuple[str, ...]
    body: bytes

    @classmethod
    def read(cls, header: bytes, start: int) -> "tuple[Stanza, int]":
        """Return the stanza at `start` and its end."""
        match = _STANZA.match(header, start)
        if match is None:
            raise MalformedError("age: the header is malformed")
        kind, *arguments = match[1].decode("ascii").split(" ")
        body = decode_base64(match[2].replace(b"\n", b"").decode("ascii"))
        return cls(kind, tuple(arguments), body), match.end()

    def __bytes__(self) -> bytes:
        body = encode_base64(self.body)
        lines = (body[start : start + COLUMNS] for start in range(0, len(body) + 1, COLUMNS))
        return "\n".join((" ".join(("->", self.kind, *self.arguments)), *lines, "")).encode("ascii")

    def check(self, *sizes: int) -> tuple[bytes, ...]:
        """Return the decoded arguments, which must have these sizes, and check that of the body.

        The size of the body is checked before anybody decrypts it: a longer one could be made to
        open with several keys.
        """
        values = tuple(map(decode_base64, self.arguments))
        if tuple(map(len, values)) != sizes or len(self.body) != WRAPPED_KEY_SIZE:
            raise MalformedError(f"age: a stanza of the kind {self.kind} is malformed")
        return values


def encode_base64(data: bytes) -> str:
    """Return `data` in base64 without padding."""
    return base64.b64encode(data).decode("ascii").rstrip("=")


def decode_base64(text: str) -> bytes:
    """Return the bytes of `text`; raise `MalformedError` unless it is canonical and unpadded."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        data = b""
    if encode_base64(data) != text:
        raise MalformedError("age: the header holds malformed base64")
    return data
