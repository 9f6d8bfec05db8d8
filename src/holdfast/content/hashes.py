"""The hash functions with which CIDs can be verified, by their multicodec codes.

A digest must have the full length of its function: a CID with a truncated one is refused. SHA-1 and
MD5 are missing because collisions can be made for them, BLAKE3 because Python does not have it.
Content under such a CID cannot be verified.
"""

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

IDENTITY: Final = 0x00  # no hash function: the digest is the block itself
SHA2_256: Final = 0x12
MAX_DIGEST: Final = 128  # Kubo's limit for identity digests, which are the longest


class Hasher(Protocol):
    """A hash computation that takes bytes step by step."""

    def update(self, data: Any, /) -> None:
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


FUNCTIONS: Final[Mapping[int, HashFunction]] = {
    SHA2_256: HashFunction("sha2-256", 32, hashlib.sha256),
    0x13: HashFunction("sha2-512", 64, hashlib.sha512),
    0x14: HashFunction("sha3-512", 64, hashlib.sha3_512),
    0x15: HashFunction("sha3-384", 48, hashlib.sha3_384),
    0x16: HashFunction("sha3-256", 32, hashlib.sha3_256),
    0x17: HashFunction("sha3-224", 28, hashlib.sha3_224),
    0xB220: HashFunction("blake2b-256", 32, partial(hashlib.blake2b, digest_size=32)),
    0xB260: HashFunction("blake2s-256", 32, hashlib.blake2s),
}

# Names for error messages. Content under these is refused.
REFUSED_NAMES: Final[Mapping[int, str]] = {0x11: "sha1", 0xD5: "md5", 0x1E: "blake3"}


def has_wrong_length(code: int, size: int) -> bool:
    """Return whether the hash function `code` is known and its digests do not have `size` bytes."""
    function = FUNCTIONS.get(code)
    return function is not None and function.size != size


def name_of(code: int) -> str:
    """Return the name of a hash function for a message, or its code if it is unknown."""
    function = FUNCTIONS.get(code)
    if function is not None:
        return function.name
    return REFUSED_NAMES.get(code, f"{code:#x}")
