# WARNING: this file is generated from src/holdfast/testing/_async/transfer_tests.py
# by scripts/generate_sync.py. Change the original instead.
"""Tests of blocking providers: progress, interrupted transfers, and downloads to files."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import StorageProvider
from holdfast.errors import ClientError, ProviderError
from holdfast.files.sources import CHUNK_SIZE
from holdfast.testing._sync.provider_calls import ProviderCalls
from holdfast.testing.provider_cases import (
    NOWHERE,
    Interrupted,
    check_blob,
    check_bytes,
    check_progress,
    interrupt,
    interrupted,
    names_in,
    possible_cids,
)


class TransferTests(ProviderCalls):
    """Transfers report progress, and leave a whole file or none."""

    @pytest.mark.parametrize("size", [0, 5, 3_000_000])
    def test_progress_is_told(self, provider: StorageProvider, tmp_path: Path, size: int) -> None:
        calls: list[tuple[int, int | None]] = []

        def note(done: int, total: int | None) -> None:
            calls.append((done, total))

        cid = self.put(provider, os.urandom(size), progress=note)
        check_progress(calls, size, "put_file")
        calls.clear()
        provider.get_file(cid, progress=note)
        check_progress(calls, size, "get_file")
        calls.clear()
        provider.get_file(cid, to=tmp_path / "copy", progress=note)
        check_progress(calls, size, "get_file with to=")

    def test_what_progress_raises_ends_the_call(self, provider: StorageProvider) -> None:
        data = os.urandom(3_000_000)
        with interrupted("put_file"):
            self.put(provider, data, progress=interrupt)
        cid = self.put(provider, data)
        with interrupted("get_file"):
            provider.get_file(cid, progress=interrupt)
        check_blob(provider.get_file(cid), data)

    def test_a_source_that_fails_ends_the_call(self, provider: StorageProvider) -> None:
        with pytest.raises(Interrupted):
            self.put(provider, half_of_a_file(b"a" * CHUNK_SIZE))
        cid = self.put(provider, b"afterwards")
        check_blob(provider.get_file(cid), b"afterwards")

    def test_half_a_file_is_not_kept(self, provider: StorageProvider) -> None:
        half = os.urandom(CHUNK_SIZE)
        with pytest.raises(Interrupted):
            self.put(provider, half_of_a_file(half))
        for cid in possible_cids(half):
            with pytest.raises(ProviderError):
                provider.delete(cid)

    @pytest.mark.parametrize("kind", [Path, str])
    def test_a_download_may_go_to_a_file(
        self,
        provider: StorageProvider,
        tmp_path: Path,
        kind: Callable[[Path], str | os.PathLike[str]],
    ) -> None:
        for data in (b"", b"short", os.urandom(3_000_000)):
            cid = self.put(provider, data)
            target = tmp_path / "cöpy.bin"  # replaced each time
            blob = provider.get_file(cid, to=kind(target))
            check_blob(blob, data)
            check_bytes(target.read_bytes(), data, "get_file wrote")
            assert names_in(tmp_path) == [target.name]

    def test_a_failed_download_leaves_no_file(
        self, provider: StorageProvider, tmp_path: Path
    ) -> None:
        cid = self.put(provider, os.urandom(3_000_000))
        with interrupted("get_file with to="):
            provider.get_file(cid, to=tmp_path / "copy", progress=interrupt)
        with pytest.raises(ClientError):
            provider.get_file(NOWHERE, to=tmp_path / "copy")
        assert names_in(tmp_path) == []

    def test_a_failed_download_leaves_the_old_file(
        self, provider: StorageProvider, tmp_path: Path
    ) -> None:
        old = tmp_path / "copy"
        old.write_bytes(b"old")
        cid = self.put(provider, os.urandom(3_000_000))
        with interrupted("get_file with to="):
            provider.get_file(cid, to=old, progress=interrupt)
        with pytest.raises(ClientError):
            provider.get_file(NOWHERE, to=old)
        assert old.read_bytes() == b"old"
        assert names_in(tmp_path) == [old.name]

    def test_a_folder_that_is_not_there_is_an_os_error(
        self, provider: StorageProvider, tmp_path: Path
    ) -> None:
        cid = self.put(provider, b"hello")
        with pytest.raises(FileNotFoundError):
            provider.get_file(cid, to=tmp_path / "nowhere" / "copy")


def half_of_a_file(half: bytes) -> Iterator[bytes]:
    """Yield `half`, then raise `Interrupted`."""
    yield half
    raise Interrupted
