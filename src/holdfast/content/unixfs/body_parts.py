"""Cut a body at the borders of its leaves, so that several threads can verify them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.content.budgets import BATCH_SIZE
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.file_nodes import Segment
from holdfast.content.unixfs.held_bytes import HeldBytes


class BodyPart(NamedTuple):
    """The bytes of one leaf, or, without a leaf, any bytes of the body."""

    leaf: Segment | None
    content: list[Any]


class BodyCutter:
    """Cuts a body into parts, as far as the proof knows its leaves already.

    It only helps to verify them sooner: the proof gets all parts in order, however they are cut.
    """

    def __init__(self, proof: BodyProof) -> None:
        self._proof = proof
        self._position = proof.received
        self._held = HeldBytes()

    def cut(self, chunks: list[bytes]) -> Iterator[list[BodyPart]]:
        """Yield the parts of `chunks`, in lists of `BATCH_SIZE` bytes; hold back half a leaf."""
        held = self._held
        for chunk in chunks:
            held.append(chunk)
        parts: list[BodyPart] = []
        begun = self._position
        for leaf in self._proof.leaves_from(self._position):
            between = leaf.start - self._position
            if between and held.size >= between:
                parts.append(self._take(None, between))
            size = leaf.size or 0
            if leaf.start > self._position or held.size < size:
                break
            parts.append(self._take(leaf, size))
            if self._position - begun >= BATCH_SIZE:
                yield parts
                parts, begun = [], self._position
        else:
            if held.size:
                parts.append(self._take(None, held.size))
        if parts:
            yield parts
        held.take_accepted()

    def rest(self) -> list[BodyPart]:
        """Return what was held back: the body has ended."""
        return [self._take(None, self._held.size)] if self._held.size else []

    def _take(self, leaf: Segment | None, size: int) -> BodyPart:
        content = self._held.peek(size) or []
        self._held.accept()
        self._position += size
        return BodyPart(leaf, content)
