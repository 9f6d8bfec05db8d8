"""The hash functions with which CIDs can be verified, by their multicodec codes.

A digest must have the full length of its function: a CID with a truncated one is refused. SHA-1 and
MD5 are missing because collisions can be made for them. BLAKE3 needs the package ``blake3``, which
the extra of this name installs. Content under other CIDs cannot be verified.
"""

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, Protocol

IDENTITY: Final = 0x00  # no hash function: the digest is the block itself
SHA2_256: Final = 0x12
BLAKE3: Final = 0x1E
MAX_DIGEST: Final = 128  # Kubo's limit for identity digests, which are the longest


class Hasher(Protocol):
    """A hash computation that takes bytes step by step."""

    def update(self, data: Any, /) -> object:
        """Add the next bytes."""

    def digest(self) -> bytes:
        """Return the digest of all bytes so far."""


class HashFunction(NamedTuple):
    """A hash function: its name, the size of its digest in bytes, and its constructor."""

    name: str
    size: int
    new: Callable[..., Hasher]


class IdentityHash:
    """The digest of an identity CID: the bytes themselves, as many as tell too many from enough."""

    def __init__(self, data: Any = b"") -> None:
        self._data = bytearray(data)

    def update(self, data: Any, /) -> None:
        """Add the next bytes."""
        if len(self._data) <= MAX_DIGEST:
            self._data += data

    def digest(self) -> bytes:
        """Return the bytes so far."""
        return bytes(self._data)


def _new_blake3(data: Any = b"") -> Hasher:
    from blake3 import blake3  # noqa: PLC0415 - an extra, and most content needs it never

    return blake3(data)


FUNCTIONS: Final[Mapping[int, HashFunction]] = {
    SHA2_256: HashFunction("sha2-256", 32, hashlib.sha256),
    0x13: HashFunction("sha2-512", 64, hashlib.sha512),
    0x14: HashFunction("sha3-512", 64, hashlib.sha3_512),
    0x15: HashFunction("sha3-384", 48, hashlib.sha3_384),
    0x16: HashFunction("sha3-256", 32, hashlib.sha3_256),
    0x17: HashFunction("sha3-224", 28, hashlib.sha3_224),
    0xB220: HashFunction("blake2b-256", 32, partial(hashlib.blake2b, digest_size=32)),
    0xB260: HashFunction("blake2s-256", 32, hashlib.blake2s),
    **({BLAKE3: HashFunction("blake3", 32, _new_blake3)} if find_spec("blake3") else {}),
}

# Names for error messages. Content under these is refused.
REFUSED_NAMES: Final[Mapping[int, str]] = {0x11: "sha1", 0xD5: "md5", BLAKE3: "blake3"}


def has_wrong_length(code: int, size: int) -> bool:
    """Return whether the hash function `code` is known and its digests do not have `size` bytes."""
    function = FUNCTIONS.get(code)
    return function is not None and function.size != size


def why_unsupported(code: int) -> str:
    """Return what an error says of content under a hash function that is not in `FUNCTIONS`."""
    name = REFUSED_NAMES.get(code, f"{code:#x}")
    need = "needs the extra blake3: pip install 'holdfast[blake3]'"
    return f"its hash function ({name}) {need if code == BLAKE3 else 'is not supported'}"
