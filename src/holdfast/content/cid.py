"""The CID: names a block by its codec and its hash. Parsing is strict."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any, Final

from holdfast.content import multibase, varint
from holdfast.content.hashes import (
    FUNCTIONS,
    IDENTITY,
    MAX_DIGEST,
    SHA2_256,
    Hasher,
    IdentityHash,
    has_wrong_length,
)
from holdfast.errors import InvalidCIDError

RAW: Final = 0x55
DAG_PB: Final = 0x70
CBOR: Final = 0x51
DAG_CBOR: Final = 0x71
JSON: Final = 0x0200
DAG_JSON: Final = 0x0129

SHA2_256_SIZE: Final = 32
MAX_TEXT: Final = 256  # base58 takes quadratic time, so longer texts are not decoded
V0_TEXT: Final = 46
V0_PREFIX: Final = bytes([SHA2_256, SHA2_256_SIZE])
V0_SIZE: Final = len(V0_PREFIX) + SHA2_256_SIZE
RAW_PREFIX: Final = bytes([1, RAW]) + V0_PREFIX
V1_SIZE: Final = len(RAW_PREFIX) + SHA2_256_SIZE

# The codecs of nearly all CIDs, by the first four bytes of a CIDv1 with SHA-256.
_COMMON: Final = {RAW_PREFIX: RAW, bytes([1, DAG_PB]) + V0_PREFIX: DAG_PB}
_PREFIXES: Final = {codec: prefix for prefix, codec in _COMMON.items()}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CID:
    """A content identifier.

    Two CIDs are equal when they name the same content: the same codec and the same hash, whatever
    the version and the text form.

    Example:
        >>> cid = CID.parse("bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq")
        >>> cid == CID.of_raw(b"hello")
        True
    """

    version: int
    codec: int
    hash_code: int
    digest: bytes

    @classmethod
    def of_raw(cls, data: bytes) -> "CID":
        """Return the CID of `data` as one raw block."""
        return cls(1, RAW, SHA2_256, hashlib.sha256(data).digest())

    @classmethod
    def parse(cls, text: str) -> "CID":
        """Return the CID in `text`; raise `InvalidCIDError` if it is not one.

        `text` is a CIDv0, or a CIDv1 in base32 (lower or upper case), base36 or base58btc.
        """
        if len(text) > MAX_TEXT:
            reason = f"a CID has at most {MAX_TEXT} characters"
            raise InvalidCIDError(reason=reason, value=text)
        version = 0 if len(text) == V0_TEXT and text.startswith("Qm") else 1
        try:
            data = _decode_v1_text(text) if version else multibase.base58_decode(text)
            cid, end = cls.read(data)
        except ValueError as error:
            is_cut = "…" in text or "..." in text  # copied from a list on a terminal or a page
            reason = "its middle is missing: copy all of it" if is_cut else str(error)
            raise InvalidCIDError(reason=reason, value=text) from None
        if cid.version != version or end != len(data):
            reason = "the text is not exactly one CID of its version"
            raise InvalidCIDError(reason=reason, value=text)
        return cid

    @classmethod
    def from_bytes(cls, data: bytes) -> "CID":
        """Return the CID in `data`; raise `ValueError` if it is not exactly one CID."""
        cid, end = cls.read(bytes(data))
        if end != len(data):
            raise ValueError("bytes follow the CID")
        return cid

    @classmethod
    def read(cls, data: bytes, start: int = 0) -> tuple["CID", int]:
        """Return the CID that begins at `start`, and the position after it.

        Raise `ValueError` if there is none.
        """
        common = _COMMON.get(data[start : start + len(RAW_PREFIX)])
        if common is not None and len(data) >= start + V1_SIZE:
            end = start + V1_SIZE
            return cls(1, common, SHA2_256, data[start + len(RAW_PREFIX) : end]), end
        if data[start : start + len(V0_PREFIX)] == V0_PREFIX:
            end = start + V0_SIZE
            if len(data) < end:
                raise ValueError("the CID is cut off")
            return cls(0, DAG_PB, SHA2_256, data[start + len(V0_PREFIX) : end]), end
        version, position = varint.decode(data, start)
        if version != 1:
            raise ValueError(f"unknown CID version {version}")
        codec, position = varint.decode(data, position)
        hash_code, position = varint.decode(data, position)
        size, position = varint.decode(data, position)
        if size > MAX_DIGEST or has_wrong_length(hash_code, size):
            raise ValueError("wrong digest length for this hash function")
        end = position + size
        if len(data) < end:
            raise ValueError("the CID is cut off")
        return cls(1, codec, hash_code, data[position:end]), end

    @property
    def is_provable(self) -> bool:
        """Whether its hash function is supported, so that content can be verified."""
        return self.hash_code in FUNCTIONS or self.hash_code == IDENTITY

    def new_hash(self, data: Any = b"") -> Hasher:
        """Start the digest of a block that begins with `data`; it must be provable."""
        if self.hash_code == IDENTITY:
            return IdentityHash(data)
        return FUNCTIONS[self.hash_code].new(data)

    @property
    def key(self) -> bytes:
        """Bytes that are the same for equal CIDs: those of the CID in version 1."""
        return bytes(self if self.version == 1 else replace(self, version=1))

    def in_other_version(self) -> "CID | None":
        """Return the equal CID of the other version; None if there is only one version of it."""
        if self.codec != DAG_PB or self.hash_code != SHA2_256:
            return None
        return replace(self, version=1 - self.version)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CID):
            return NotImplemented
        return (
            self.digest == other.digest
            and self.codec == other.codec
            and self.hash_code == other.hash_code
        )

    def __hash__(self) -> int:
        return hash(self.digest)

    def __bytes__(self) -> bytes:
        if self.version == 1 and self.hash_code == SHA2_256 and len(self.digest) == SHA2_256_SIZE:
            prefix = _PREFIXES.get(self.codec)
            if prefix is not None:
                return prefix + self.digest
        multihash = varint.encode(self.hash_code) + varint.encode(len(self.digest)) + self.digest
        return multihash if self.version == 0 else b"\x01" + varint.encode(self.codec) + multihash

    def __str__(self) -> str:
        if self.version == 0:
            return multibase.base58_encode(bytes(self))
        return "b" + multibase.base32_encode(bytes(self))

    def __repr__(self) -> str:
        return f"CID({str(self)!r})"


def raw_text(digest: bytes) -> str:
    """Return the text of the CID of one raw block with the SHA-256 `digest`.

    The same as `str` of the CID, but faster.
    """
    return "b" + multibase.base32_encode(RAW_PREFIX + digest)


def _decode_v1_text(text: str) -> bytes:
    prefix, payload = text[:1], text[1:]
    match prefix:
        case "b":
            return multibase.base32_decode(payload)
        case "B":
            if payload.lower().upper() != payload:
                raise ValueError("mixed case in upper-case base32")
            return multibase.base32_decode(payload.lower())
        case "k":
            return multibase.base36_decode(payload)
        case "z":
            return multibase.base58_decode(payload)
        case _:
            raise ValueError("neither a CIDv0 nor a CIDv1 in base32, base36 or base58btc")
