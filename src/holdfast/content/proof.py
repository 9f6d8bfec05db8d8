"""Proving bytes against the CID that names them, as they pass by."""

import hashlib
from typing import Protocol

from holdfast.content.blocks import unsupported_hash
from holdfast.content.cid import IDENTITY, RAW, SHA2_256
from holdfast.content.reference import Reference
from holdfast.errors import VerificationError


class Proof(Protocol):
    """Is fed every byte in order; `finish` raises where they are not what the CID names."""

    def update(self, data: bytes) -> None:
        """Take the next bytes."""

    def finish(self) -> None:
        """Raise `VerificationError` unless all the bytes were right."""


class HashProof:
    """For one raw block: its hash is the CID's."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._hash = hashlib.sha256()

    def update(self, data: bytes) -> None:
        """Hash the next bytes."""
        self._hash.update(data)

    def finish(self) -> None:
        """Compare the digests."""
        if self._hash.digest() != self._reference.cid.digest:
            raise wrong_bytes(self._reference)


class IdentityProof:
    """For content that the CID itself carries."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._rest = reference.cid.digest
        self._right = True

    def update(self, data: bytes) -> None:
        """Compare with what the CID carries at this place."""
        self._right = self._right and self._rest.startswith(data)
        self._rest = self._rest[len(data) :]

    def finish(self) -> None:
        """Raise unless every byte of the CID's came, and no other."""
        if not self._right or self._rest:
            raise wrong_bytes(self._reference)


def block_proof(reference: Reference) -> Proof:
    """The proof for one block; `UnprovenError` for a hash that we cannot compute."""
    if reference.cid.hash_code == SHA2_256:
        return HashProof(reference)
    if reference.cid.hash_code == IDENTITY:
        return IdentityProof(reference)
    raise unsupported_hash(reference.cid)


def is_raw(reference: Reference) -> bool:
    """Whether `reference` names one raw block, whose hash is the whole proof."""
    return reference.cid.codec == RAW and not reference.path


def wrong_bytes(reference: Reference) -> VerificationError:
    """The error for bytes that are not what `reference` names."""
    return VerificationError(
        f"the bytes that came for {reference} are not what this CID names", cid=str(reference)
    )
