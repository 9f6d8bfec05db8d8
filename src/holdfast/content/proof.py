"""Proofs, which verify a body against its CID while it arrives.

Feed a proof the body. It returns the bytes that may be used. If each piece can be verified alone,
these are verified bytes. Otherwise they are all bytes, and `finish` raises an error if they were
wrong.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

from holdfast.content.blocks import check_provable
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.errors import VerificationError
from holdfast.single_line import short

JOINED_SIZE: Final = 1 << 16  # pieces below this size are joined before they are written


class Proof(ABC):
    """Verifies a body whose bytes are fed to it in order.

    The defaults here are for a proof that needs no blocks besides the body. Subclasses override
    what differs.

    Attributes:
        incremental: Whether `update` returns verified bytes. Otherwise only `finish` verifies them.
        has_more: Whether `update` can return more bytes at once. Then call it with b"".
    """

    incremental: ClassVar[bool] = True
    has_more: bool = False

    @property
    def need(self) -> CID | None:
        """The block that must be fed before more of the body can be verified, or None."""
        return None

    @property
    def size(self) -> int | None:
        """The size of the whole file in bytes, if it is verified."""
        return None

    @property
    def progress(self) -> int | None:
        """A number that grows only with bytes that are needed; None if unknown.

        It does not grow with blocks of an archive that do not belong to the file.
        """
        return None

    @abstractmethod
    def update(self, data: bytes) -> list[Any]:
        """Feed the next bytes and return those that may be used."""

    def update_all(self, chunks: Sequence[bytes]) -> list[Any]:
        """Feed several chunks, or none while `has_more`; return the bytes that may be used."""
        pieces: list[Any] = []
        for chunk in chunks or [b""]:
            pieces += self.update(chunk)
        return pieces

    @abstractmethod
    def finish(self) -> None:
        """Raise `VerificationError` unless all the bytes were right."""


class NoProof(Proof):
    """For ``verify=False``: any bytes are right."""

    incremental: ClassVar[bool] = False

    def update(self, data: bytes) -> list[Any]:
        """Return the bytes."""
        return [data]

    def finish(self) -> None:
        """Do nothing."""


class HashProof(NoProof):
    """For one raw block: compares the hash of all bytes with the digest in the CID.

    Args:
        reference: What is read, for errors.
        cid: The block at its end; by default its own CID. Raise `UnprovenError` if its hash
            function is not supported.
    """

    def __init__(self, reference: Reference, cid: CID | None = None) -> None:
        cid = cid or reference.cid
        check_provable(cid)
        self._reference = reference
        self._digest = cid.digest
        self._hash = cid.new_hash()

    def update(self, data: bytes) -> list[Any]:
        """Hash the next bytes and return them."""
        self._hash.update(data)
        return [data]

    def finish(self) -> None:
        """Raise `VerificationError` unless the digests are equal."""
        if self._hash.digest() != self._digest:
            raise wrong_bytes(self._reference)


def joined(pieces: Iterable[Any]) -> Iterator[Any]:
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


def wrong_bytes(reference: Reference | CID) -> VerificationError:
    """Return the error for bytes that are not what `reference` names."""
    words = f"the content does not match the CID {short(str(reference))}"
    return VerificationError(words, cid=str(reference))
