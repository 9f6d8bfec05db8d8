# WARNING: this file is generated from src/holdfast/testing/_async/content_tests.py
# by scripts/generate_sync.py. Change the original instead.
"""Tests of blocking providers: content is read back unchanged, under a CID that verifies it."""

import filecmp
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Client, StorageProvider, verify
from holdfast.errors import SerializationError
from holdfast.testing._sync.parallel import in_parallel
from holdfast.testing._sync.provider_calls import ProviderCalls
from holdfast.testing.provider_cases import (
    NO_JSON,
    SIZES,
    SPOOLED,
    VALUES,
    bytes_of,
    check_blob,
    check_cid,
    check_json,
    check_methods,
    memory_below,
    unique_json,
)


class ContentTests(ProviderCalls):
    """JSON and files, one at a time and in parallel."""

    def test_it_has_the_methods_of_a_provider(self, provider: StorageProvider) -> None:
        check_methods(provider, StorageProvider)

    @pytest.mark.parametrize("value", VALUES, ids=lambda value: json.dumps(value)[:20])
    def test_json_comes_back(self, provider: StorageProvider, value: Any) -> None:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        cid = check_cid(provider.put_json(text, name="Zoë's 🌊 value"), "put_json")
        check_json(provider.get_json(cid), value)
        stored = bytes_of(provider.get_file(cid))
        assert json.loads(stored) == value
        assert verify(self.stored(provider, cid, stored), cid)

    @pytest.mark.parametrize("size", SIZES)
    def test_files_come_back(self, provider: StorageProvider, size: int) -> None:
        data = os.urandom(size)
        cid = self.put(provider, data)
        check_blob(provider.get_file(cid), data)

    @pytest.mark.parametrize("size", SIZES)
    def test_the_cid_proves_the_file(self, provider: StorageProvider, size: int) -> None:
        data = os.urandom(size)
        cid = self.put(provider, data)
        assert verify(self.stored(provider, cid, data), cid)

    def test_the_same_bytes_have_the_same_cid(self, provider: StorageProvider) -> None:
        cid = self.put(provider, b"the same bytes", name="a.txt")
        again = self.put(provider, b"the same bytes", name="b.txt")
        self.is_known(provider, cid, again)
        check_blob(provider.get_file(again), b"the same bytes")

    def test_the_same_json_has_the_same_cid(self, provider: StorageProvider) -> None:
        cid = provider.put_json('["the same"]', name="a")
        again = provider.put_json('["the same"]', name="b")
        self.is_known(provider, cid, again)
        check_json(provider.get_json(again), ["the same"])

    def test_names_may_be_in_any_language(self, provider: StorageProvider) -> None:
        for name in ('ünï "cøde" 🌊.txt', "a b;c=d%20.txt", "名前"):
            cid = self.put(provider, name.encode(), name=name)
            check_blob(provider.get_file(cid), name.encode())

    def test_the_size_need_not_be_known(self, provider: StorageProvider) -> None:
        pieces = [os.urandom(700_000) for _ in range(3)]
        cid = self.put(provider, iter(pieces))
        check_blob(provider.get_file(cid), b"".join(pieces))

    @pytest.mark.parametrize("data", NO_JSON)
    def test_files_are_no_json(self, provider: StorageProvider, data: bytes) -> None:
        cid = self.put(provider, data)
        with pytest.raises(SerializationError):
            provider.get_json(cid)

    def test_large_files_take_little_memory(
        self, provider: StorageProvider, tmp_path: Path
    ) -> None:
        large, copy = tmp_path / "large", tmp_path / "copy"
        with large.open("wb") as file:
            for _ in range(self.large_size >> 20):
                file.write(os.urandom(1 << 20))
        with memory_below(self.memory_limit):
            cid = self.put(provider, large)
        with memory_below(self.memory_limit):
            provider.get_file(cid, to=copy)
        assert filecmp.cmp(large, copy, shallow=False)
        with memory_below(self.memory_limit):
            blob = provider.get_file(cid)
        assert blob.size == self.large_size

    def test_many_calls_at_once_do_not_mix(self, provider: StorageProvider) -> None:
        def round_trip(number: int) -> Callable[[], None]:
            def call() -> None:
                data = f"file {number}".encode() * 20_000
                stored = provider.put_json(f'{{"number":{number}}}', name=f"n{number}")
                cid = self.put(provider, data)
                assert provider.get_json(stored) == {"number": number}
                check_blob(provider.get_file(cid), data)

            return call

        in_parallel(round_trip(number) for number in range(20))

    def test_the_same_bytes_may_be_put_at_once(self, provider: StorageProvider) -> None:
        data = os.urandom(300_000)
        cids = in_parallel([lambda: self.put(provider, data)] * 8)
        for cid in cids:
            self.is_known(provider, cids[0], cid)
        check_blob(provider.get_file(cids[-1]), data)

    @pytest.mark.parametrize("size", [5, SPOOLED])
    def test_a_blob_outlives_its_provider(self, provider: StorageProvider, size: int) -> None:
        data = os.urandom(size)
        cid = self.put(provider, data)
        blob = provider.get_file(cid)
        provider.delete(cid)
        check_blob(blob, data)
        provider.close()
        check_blob(blob, data)

    def test_a_client_can_use_it(self, provider: StorageProvider) -> None:
        value = {"a": [1, "ü"], **json.loads(unique_json())}
        with Client(provider) as client:
            assert client.test_connection() is True
            record = client.store(value)
            assert client.retrieve(f"ipfs://{record.cid}") == value
            note = client.send("älice", "hi 🌊")
            assert client.receive(note.cid) == note.data
            assert client.revoke(record.cid) is True
