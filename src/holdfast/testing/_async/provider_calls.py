"""Tests of async providers: calls that several tests make."""

from typing import Any

from holdfast import AsyncStorageProvider
from holdfast._async.providers.foreign import as_provider
from holdfast._async.reads.reader import AsyncReader
from holdfast.content.cid import Reference
from holdfast.files.sinks import MemorySink
from holdfast.files.sources import Progress, Uploadable, open_source
from holdfast.testing.provider_cases import Contract, check_cid, form_of, unique_json

METHODS = ("put_json", "put_file", "get_json", "get_file", "delete", "test_authentication")
BY_CID = ("get_json", "get_file", "delete")


class AsyncProviderCalls(Contract):
    """Calls of a provider that several tests make."""

    async def put(
        self,
        provider: AsyncStorageProvider,
        file: Uploadable,
        *,
        name: str = "file.bin",
        progress: Progress | None = None,
    ) -> str:
        """Upload `file` and return its CID. Your own tests can use it too.

        Example:
            >>> from holdfast.testing import AsyncProviderTests
            >>> class TestMine(AsyncProviderTests):
            ...     async def test_that_is_mine(self, provider: AsyncStorageProvider) -> None:
            ...         cid = await self.put(provider, b"hello", name="greeting.txt")
            ...         assert (await provider.get_file(cid)).text() == "hello"
        """
        with open_source(file) as source:
            cid = await provider.put_file(source, name=name, progress=progress)
        return check_cid(cid, "put_file")

    async def stored(self, provider: AsyncStorageProvider, cid: str, data: bytes) -> bytes:
        """Return the bytes that `cid` names: `data`, unless the provider changes content."""
        if not form_of(provider):
            return data
        sink = MemorySink()
        adapted = as_provider(provider)
        async with adapted.call("read", cid) as call:
            await AsyncReader.read(adapted.reader, Reference.parse(cid), sink, call)
        return bytes(sink.data)

    def is_known(self, provider: AsyncStorageProvider, cid: str, again: str) -> bool:
        """Return whether the same bytes have the CID that they had the first time.

        They must, unless the provider changes content: an encrypted file is another one each time.
        """
        assert again == cid or form_of(provider), "the same bytes have another CID"
        return again == cid

    async def call(self, provider: AsyncStorageProvider, method: str, cid: str) -> Any:
        """Call `method`, with `cid` if it takes one."""
        if method == "put_json":
            return await provider.put_json(unique_json(), name="x")
        if method == "put_file":
            return await self.put(provider, b"[1]")
        if method == "test_authentication":
            return await provider.test_authentication()
        return await getattr(provider, method)(cid)
