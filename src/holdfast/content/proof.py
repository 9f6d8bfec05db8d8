"""Proving bytes against the CID that names them, as they pass by.

A proof is fed a body and gives back what of it may go on: at once where each piece proves itself,
otherwise provisionally, and `finish` says whether all of it was right.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, Protocol

from holdfast.content.blocks import unsupported_hash
from holdfast.content.cid import CID, RAW
from holdfast.content.hashes import FUNCTIONS, IDENTITY
from holdfast.content.reference import Reference
from holdfast.errors import VerificationError

JOINED_SIZE: Final = 1 << 16  # pieces below this size are joined before they are written


class Proof(Protocol):
    """Is fed every byte of a body in order.

    Attributes:
        incremental: Whether what `update` gives is proven by then; otherwise only `finish` tells.
        has_more: Whether there is more to give now: then call `update` again, with nothing.
    """

    incremental: ClassVar[bool]
    has_more: bool

    @property
    def need(self) -> CID | None:
        """The block that must be fed before more of the body can be proven, or None."""

    @property
    def size(self) -> int | None:
        """The bytes of the whole file, where that is proven."""

    def feed_block(self, block: bytes) -> list[Any]:
        """Take the block that is needed; give what of the body is proven by it."""

    def update(self, data: bytes) -> list[Any]:
        """Take the next bytes; give those that may go on."""

    def finish(self) -> None:
        """Raise `VerificationError` unless all the bytes were right."""


class PassingProof:
    """What the proofs have in common that look at the bytes and let them pass provisionally."""

    incremental: ClassVar[bool] = False
    has_more: bool = False
    need: CID | None = None
    size: int | None = None

    def feed_block(self, block: bytes) -> list[Any]:  # noqa: ARG002 - as in the others
        """Never asked for."""
        raise ValueError("no block is needed")

    def update(self, data: bytes) -> list[Any]:
        """Look at the next bytes, and let them pass."""
        self._look(data)
        return [data]

    def finish(self) -> None:
        """Nothing."""

    def _look(self, data: bytes) -> None:
        pass


class NoProof(PassingProof):
    """For `verify=False`: everything passes."""


class HashProof(PassingProof):
    """For one raw block: compares the hash of all bytes with the CID's digest."""

    def __init__(self, reference: Reference, cid: CID) -> None:
        self._reference = reference
        self._digest = cid.digest
        self._hash = FUNCTIONS[cid.hash_code].new()

    def _look(self, data: bytes) -> None:
        self._hash.update(data)

    def finish(self) -> None:
        """Compare the digests."""
        if self._hash.digest() != self._digest:
            raise wrong_bytes(self._reference)


class IdentityProof(PassingProof):
    """For content that the CID itself carries."""

    def __init__(self, reference: Reference, cid: CID) -> None:
        self._reference = reference
        self._rest = cid.digest
        self._right = True

    def _look(self, data: bytes) -> None:
        self._right = self._right and self._rest.startswith(data)
        self._rest = self._rest[len(data) :]

    def finish(self) -> None:
        """Raise unless every byte of the CID's came, and no other."""
        if not self._right or self._rest:
            raise wrong_bytes(self._reference)


def block_proof(reference: Reference, cid: CID | None = None) -> Proof:
    """Return the proof for the one block `cid` that `reference` leads to; by default its own CID.

    Raise `UnprovenError` for a hash function that is not supported.
    """
    cid = cid or reference.cid
    if cid.hash_code in FUNCTIONS:
        return HashProof(reference, cid)
    if cid.hash_code == IDENTITY:
        return IdentityProof(reference, cid)
    raise unsupported_hash(cid)


def joined(pieces: Sequence[Any]) -> Iterator[Any]:
    """Yield the bytes of `pieces`, the small ones joined: a file may come in millions of them."""
    small: list[Any] = []
    size = 0
    for piece in pieces:
        if len(piece) < JOINED_SIZE:
            small.append(piece)
            size += len(piece)
        if size >= JOINED_SIZE or (small and len(piece) >= JOINED_SIZE):
            yield b"".join(small) if len(small) > 1 else small[0]
            small, size = [], 0
        if len(piece) >= JOINED_SIZE:
            yield piece
    if small:
        yield b"".join(small) if len(small) > 1 else small[0]


def is_raw(cid: CID) -> bool:
    """Whether `cid` names one raw block, whose hash is the whole proof."""
    return cid.codec == RAW


def wrong_bytes(reference: Reference) -> VerificationError:
    """The error for bytes that are not what `reference` names."""
    return VerificationError(
        f"the bytes that came for {reference} are not what this CID names", cid=str(reference)
    )
