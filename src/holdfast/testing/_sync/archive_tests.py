# WARNING: this file is generated from src/holdfast/testing/_async/archive_tests.py
# by scripts/generate_sync.py. Change the original instead.
"""Tests of blocking providers: content as archives (CAR), to and from other providers.

A provider that lacks a capability skips its tests.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

from holdfast._sync.providers.foreign import as_provider
from holdfast.content.car import Block, CarReader, write_car
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs.files import FileImporter
from holdfast.errors import ClientError
from holdfast.records import PinFilter, PinInfo
from holdfast.testing._sync.provider_calls import ProviderCalls
from holdfast.testing.provider_cases import NOWHERE, check_blob, require

ODD: Final = replace(UNIXFS_V1_2025, name="odd", chunk_size=100_000, width=5)
"""A layout that no provider gives an upload."""


class ArchiveTests(ProviderCalls):
    """An archive keeps the CID of its content, and is stored whole or not at all."""

    def test_an_exported_archive_has_each_block_once(self, provider: Any) -> None:
        require(as_provider(provider), "export_archive")
        part = os.urandom(1 << 20)
        cid = self.put(provider, part * 3)
        reader = CarReader()
        blocks: list[Block] = []
        for piece in provider.export_archive(cid):
            blocks += reader.update(piece)
        reader.finish()
        assert reader.roots == [CID.parse(cid)], "the archive has another root"
        assert len({each for each, _ in blocks}) == len(blocks), "a block came twice"
        assert CID.parse(cid) in dict(blocks), "the root is missing"

    def test_an_archive_of_unknown_content_is_an_error(self, provider: Any) -> None:
        require(as_provider(provider), "export_archive")
        with pytest.raises(ClientError):
            self.export(provider, NOWHERE)

    def test_an_imported_archive_keeps_its_cid_and_name(self, provider: Any) -> None:
        require(as_provider(provider), "import_archive")
        data = os.urandom(1_500_000)
        root, blocks = odd_blocks(data)
        info = PinInfo(name="odd", given=True)
        added = provider.import_archive(str(root), pieces(root, blocks), info)
        assert CID.parse(added.cid) == root
        check_blob(provider.get_file(str(root)), data)
        if as_provider(provider).supports("find_pins"):
            (pin,) = [each for each in provider.find_pins(PinFilter(cid=str(root)))]
            assert pin.name == "odd"
        again = provider.import_archive(str(root), pieces(root, blocks), info)
        assert again.duplicate in {True, None}, "known content was added as new"
        provider.delete(str(root))

    def test_an_archive_that_lacks_a_block_is_not_pinned(self, provider: Any) -> None:
        require(as_provider(provider), "import_archive")
        root, blocks = odd_blocks(os.urandom(300_000))
        with pytest.raises(ClientError):
            provider.import_archive(str(root), pieces(root, blocks[1:]), PinInfo())
        with pytest.raises(ClientError):
            provider.delete(str(root))

    def test_an_archive_of_something_else_is_refused(self, provider: Any) -> None:
        require(as_provider(provider), "import_archive")
        root, blocks = odd_blocks(os.urandom(300_000))
        other, _ = odd_blocks(b"other")
        with pytest.raises(ClientError):
            provider.import_archive(str(other), pieces(root, blocks), PinInfo())
        for cid in (root, other):
            with pytest.raises(ClientError):
                provider.delete(str(cid))

    def export(self, provider: Any, cid: str) -> list[bytes]:
        """Return the pieces of an archive."""
        return [piece for piece in provider.export_archive(cid)]


def odd_blocks(data: bytes) -> tuple[CID, list[Block]]:
    """Return the root and the blocks of a file in a layout of its own."""
    blocks: list[Block] = []
    importer = FileImporter(ODD, lambda cid, block: blocks.append((cid, block)))
    importer.update(data)
    return importer.finish().cid, blocks


def pieces(root: CID, blocks: Iterable[Block]) -> Iterator[bytes]:
    """Yield an archive."""
    for piece in write_car([root], blocks):
        yield piece
