"""One archive (CAR) that arrives in pieces: its blocks are added, and its roots are pinned."""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self, TypeAlias

from holdfast.content.car import CarReader
from holdfast.content.car_header import check_only_root
from holdfast.content.cid import CID
from holdfast.errors import ClientError, MalformedError
from holdfast.records import Pin
from holdfast.repository.adding import Adding

PinDags: TypeAlias = Callable[..., list[tuple[Pin, bool]]]
"""Pins roots, if all blocks below them are there: see `Repository.importing`."""


class ArchiveImport:
    """Takes the pieces of an archive, and pins its roots at the end. Use it in a ``with``.

    Blocks with a hash function that is not supported are left out. After an error, none of its
    blocks stays in the store, unless a pin or another add needs them.

    Args:
        adding: Takes the blocks.
        pin_dags: Pins the roots.
        root: The only root that the archive may have; None for any.
    """

    def __init__(self, adding: Adding, pin_dags: PinDags, root: CID | None = None) -> None:
        self._adding = adding
        self._pin_dags = pin_dags
        self._root = root
        self._reader = CarReader()
        self._count = 0

    @property
    def roots(self) -> list[CID]:
        """The roots that the header of the archive names, as far as it was read."""
        return list(dict.fromkeys(self._reader.roots))

    def update(self, piece: bytes) -> None:
        """Take the next bytes, and add the blocks that they complete, verified."""
        for cid, data in self._reader.update(piece):
            self._check_roots()
            self._adding.put(cid, data)
            self._count += 1

    def pin(self, **about: Any) -> list[tuple[Pin, bool]]:
        """Pin the roots; return the pins, and whether each existed.

        Raise `UnprovenError` if a root needs a block that is missing, and `MalformedError` if the
        archive is not valid or the sizes in a file contradict each other.
        """
        self._reader.finish()
        self._check_roots()
        self._adding.flush()
        roots = self.roots
        if not roots:
            raise MalformedError("CAR: the archive names no root, so there is nothing to pin")
        return self._pin_dags(roots, self._count, **about)

    def _check_roots(self) -> None:
        if self._root is not None:
            check_only_root(self._reader.roots, self._root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def discard(self) -> None:
        """End the import after an error, and remove its blocks."""
        # If this fails too, a collection of garbage removes the blocks.
        with suppress(OSError, sqlite3.Error, ClientError):
            self._adding.discard()
        self.close()

    def close(self) -> None:
        """End the import. After an error, use `discard`."""
        self._adding.close()
