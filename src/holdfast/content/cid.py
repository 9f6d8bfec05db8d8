"""The CID: what names a block by its codec and its hash. Parsed strictly, compared by content."""

import hashlib
from dataclasses import dataclass
from typing import Final

from holdfast.content import multibase, varint
from holdfast.errors import InvalidCIDError

RAW: Final = 0x55
DAG_PB: Final = 0x70
SHA2_256: Final = 0x12
IDENTITY: Final = 0x00

SHA2_256_SIZE: Final = 32
MAX_DIGEST: Final = 128  # what Kubo allows for the longest, an inlined identity digest
MAX_TEXT: Final = 256  # base58 takes quadratic time: nothing longer is even looked at
V0_TEXT: Final = 46
V0_PREFIX: Final = bytes([SHA2_256, SHA2_256_SIZE])


@dataclass(frozen=True, slots=True)
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
        """The CID of `data` as one raw block."""
        return cls(1, RAW, SHA2_256, hashlib.sha256(data).digest())

    @classmethod
    def parse(cls, text: str) -> "CID":
        """The CID that `text` spells; `InvalidCIDError` where it spells none.

        Taken are CIDv0 and CIDv1 in base32 (lower or upper case), base36 and base58btc.
        """
        if len(text) > MAX_TEXT:
            raise InvalidCIDError(reason=f"a CID has at most {MAX_TEXT} characters")
        try:
            if len(text) == V0_TEXT and text.startswith("Qm"):
                return cls._from_v0(multibase.base58_decode(text))
            return cls._from_v1(_decode_v1_text(text))
        except ValueError as error:
            raise InvalidCIDError(reason=str(error)) from None

    @classmethod
    def _from_v0(cls, data: bytes) -> "CID":
        if len(data) != len(V0_PREFIX) + SHA2_256_SIZE or not data.startswith(V0_PREFIX):
            raise ValueError("not the sha2-256 multihash that a CIDv0 is")
        return cls(0, DAG_PB, SHA2_256, data[len(V0_PREFIX) :])

    @classmethod
    def _from_v1(cls, data: bytes) -> "CID":
        version, position = varint.decode(data)
        if version != 1:
            raise ValueError(f"unknown CID version {version}")
        codec, position = varint.decode(data, position)
        hash_code, position = varint.decode(data, position)
        size, position = varint.decode(data, position)
        digest = data[position:]
        if len(digest) != size:
            raise ValueError("the digest's length is not the one declared")
        if size > MAX_DIGEST or (hash_code == SHA2_256 and size != SHA2_256_SIZE):
            raise ValueError("no digest of this hash has this length")
        return cls(1, codec, hash_code, digest)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CID):
            return NotImplemented
        return (self.codec, self.hash_code, self.digest) == (
            other.codec,
            other.hash_code,
            other.digest,
        )

    def __hash__(self) -> int:
        return hash((self.codec, self.hash_code, self.digest))

    def __bytes__(self) -> bytes:
        multihash = varint.encode(self.hash_code) + varint.encode(len(self.digest)) + self.digest
        return multihash if self.version == 0 else b"\x01" + varint.encode(self.codec) + multihash

    def __str__(self) -> str:
        if self.version == 0:
            return multibase.base58_encode(bytes(self))
        return "b" + multibase.base32_encode(bytes(self))


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
            raise ValueError("not a CIDv0, and no base32, base36 or base58btc prefix")
