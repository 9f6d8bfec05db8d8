"""Proving bytes against the CID that names them, as they pass by.

A proof is fed a body and gives back what of it may go on: at once where each piece proves itself,
otherwise provisionally, and `finish` says whether all of it was right.
"""

import hashlib
from typing import Any, ClassVar, Protocol

from holdfast.content.blocks import unsupported_hash
from holdfast.content.cid import CID, IDENTITY, RAW, SHA2_256
from holdfast.content.reference import Reference
from holdfast.errors import VerificationError


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
    """For one raw block: its hash is the CID's."""

    def __init__(self, reference: Reference, cid: CID) -> None:
        self._reference = reference
        self._digest = cid.digest
        self._hash = hashlib.sha256()

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
    """The proof for the one block `cid` that `reference` leads to; by default its own CID.

    `UnprovenError` for a hash that we cannot compute.
    """
    cid = cid or reference.cid
    if cid.hash_code == SHA2_256:
        return HashProof(reference, cid)
    if cid.hash_code == IDENTITY:
        return IdentityProof(reference, cid)
    raise unsupported_hash(cid)


def is_raw(cid: CID) -> bool:
    """Whether `cid` names one raw block, whose hash is the whole proof."""
    return cid.codec == RAW


def wrong_bytes(reference: Reference) -> VerificationError:
    """The error for bytes that are not what `reference` names."""
    return VerificationError(
        f"the bytes that came for {reference} are not what this CID names", cid=str(reference)
    )
