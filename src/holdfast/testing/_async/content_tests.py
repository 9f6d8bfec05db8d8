"""Tests of async providers: content is read back unchanged, under a CID that verifies it."""

import filecmp
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncClient, AsyncStorageProvider, verify
from holdfast.errors import SerializationError
from holdfast.testing._async.parallel import in_parallel
from holdfast.testing._async.provider_calls import AsyncProviderCalls
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


class AsyncContentTests(AsyncProviderCalls):
    """JSON and files, one at a time and in parallel."""

    async def test_it_has_the_methods_of_a_provider(self, provider: AsyncStorageProvider) -> None:
        check_methods(provider, AsyncStorageProvider)

    @pytest.mark.parametrize("value", VALUES, ids=lambda value: json.dumps(value)[:20])
    async def test_json_comes_back(self, provider: AsyncStorageProvider, value: Any) -> None:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        cid = check_cid(await provider.put_json(text, name="Zoë's 🌊 value"), "put_json")
        check_json(await provider.get_json(cid), value)
        stored = bytes_of(await provider.get_file(cid))
        assert json.loads(stored) == value
        assert verify(await self.stored(provider, cid, stored), cid)

    @pytest.mark.parametrize("size", SIZES)
    async def test_files_come_back(self, provider: AsyncStorageProvider, size: int) -> None:
        data = os.urandom(size)
        cid = await self.put(provider, data)
        check_blob(await provider.get_file(cid), data)

    @pytest.mark.parametrize("size", SIZES)
    async def test_the_cid_proves_the_file(self, provider: AsyncStorageProvider, size: int) -> None:
        data = os.urandom(size)
        cid = await self.put(provider, data)
        assert verify(await self.stored(provider, cid, data), cid)

    async def test_the_same_bytes_have_the_same_cid(self, provider: AsyncStorageProvider) -> None:
        cid = await self.put(provider, b"the same bytes", name="a.txt")
        again = await self.put(provider, b"the same bytes", name="b.txt")
        self.is_known(provider, cid, again)
        check_blob(await provider.get_file(again), b"the same bytes")

    async def test_the_same_json_has_the_same_cid(self, provider: AsyncStorageProvider) -> None:
        cid = await provider.put_json('["the same"]', name="a")
        again = await provider.put_json('["the same"]', name="b")
        self.is_known(provider, cid, again)
        check_json(await provider.get_json(again), ["the same"])

    async def test_names_may_be_in_any_language(self, provider: AsyncStorageProvider) -> None:
        for name in ('ünï "cøde" 🌊.txt', "a b;c=d%20.txt", "名前"):
            cid = await self.put(provider, name.encode(), name=name)
            check_blob(await provider.get_file(cid), name.encode())

    async def test_the_size_need_not_be_known(self, provider: AsyncStorageProvider) -> None:
        pieces = [os.urandom(700_000) for _ in range(3)]
        cid = await self.put(provider, iter(pieces))
        check_blob(await provider.get_file(cid), b"".join(pieces))

    @pytest.mark.parametrize("data", NO_JSON)
    async def test_files_are_no_json(self, provider: AsyncStorageProvider, data: bytes) -> None:
        cid = await self.put(provider, data)
        with pytest.raises(SerializationError):
            await provider.get_json(cid)

    async def test_large_files_take_little_memory(
        self, provider: AsyncStorageProvider, tmp_path: Path
    ) -> None:
        large, copy = tmp_path / "large", tmp_path / "copy"
        with large.open("wb") as file:
            for _ in range(self.large_size >> 20):
                file.write(os.urandom(1 << 20))
        with memory_below(self.memory_limit):
            cid = await self.put(provider, large)
        with memory_below(self.memory_limit):
            await provider.get_file(cid, to=copy)
        assert filecmp.cmp(large, copy, shallow=False)
        with memory_below(self.memory_limit):
            blob = await provider.get_file(cid)
        assert blob.size == self.large_size

    async def test_many_calls_at_once_do_not_mix(self, provider: AsyncStorageProvider) -> None:
        def round_trip(number: int) -> Callable[[], Awaitable[None]]:
            async def call() -> None:
                data = f"file {number}".encode() * 20_000
                stored = await provider.put_json(f'{{"number":{number}}}', name=f"n{number}")
                cid = await self.put(provider, data)
                assert await provider.get_json(stored) == {"number": number}
                check_blob(await provider.get_file(cid), data)

            return call

        await in_parallel(round_trip(number) for number in range(20))

    async def test_the_same_bytes_may_be_put_at_once(self, provider: AsyncStorageProvider) -> None:
        data = os.urandom(300_000)
        cids = await in_parallel([lambda: self.put(provider, data)] * 8)
        for cid in cids:
            self.is_known(provider, cids[0], cid)
        check_blob(await provider.get_file(cids[-1]), data)

    @pytest.mark.parametrize("size", [5, SPOOLED])
    async def test_a_blob_outlives_its_provider(
        self, provider: AsyncStorageProvider, size: int
    ) -> None:
        data = os.urandom(size)
        cid = await self.put(provider, data)
        blob = await provider.get_file(cid)
        await provider.delete(cid)
        check_blob(blob, data)
        await provider.aclose()
        check_blob(blob, data)

    async def test_a_client_can_use_it(self, provider: AsyncStorageProvider) -> None:
        value = {"a": [1, "ü"], **json.loads(unique_json())}
        async with AsyncClient(provider) as client:
            assert await client.test_connection() is True
            record = await client.store(value)
            assert await client.retrieve(f"ipfs://{record.cid}") == value
            note = await client.send("älice", "hi 🌊")
            assert await client.receive(note.cid) == note.data
            assert await client.revoke(record.cid) is True
