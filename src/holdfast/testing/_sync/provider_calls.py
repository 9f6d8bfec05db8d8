# WARNING: this file is generated from src/holdfast/testing/_async/provider_calls.py
# by scripts/generate_sync.py. Change the original instead.
"""Tests of blocking providers: calls that several tests make."""

from typing import Any

from holdfast import StorageProvider
from holdfast._sync.providers.foreign import as_provider
from holdfast._sync.reads.reader import Reader
from holdfast.content.cid import Reference
from holdfast.files.sinks import MemorySink
from holdfast.files.sources import Progress, Uploadable, open_source
from holdfast.testing.provider_cases import Contract, check_cid, form_of, unique_json

METHODS = ("put_json", "put_file", "get_json", "get_file", "delete", "test_authentication")
BY_CID = ("get_json", "get_file", "delete")


class ProviderCalls(Contract):
    """Calls of a provider that several tests make."""

    def put(
        self,
        provider: StorageProvider,
        file: Uploadable,
        *,
        name: str = "file.bin",
        progress: Progress | None = None,
    ) -> str:
        """Upload `file` and return its CID. Your own tests can use it too.

        Example:
            >>> from holdfast.testing import ProviderTests
            >>> class TestMine(ProviderTests):
            ...     def test_that_is_mine(self, provider: StorageProvider) -> None:
            ...         cid = self.put(provider, b"hello", name="greeting.txt")
            ...         assert (provider.get_file(cid)).text() == "hello"
        """
        with open_source(file) as source:
            cid = provider.put_file(source, name=name, progress=progress)
        return check_cid(cid, "put_file")

    def stored(self, provider: StorageProvider, cid: str, data: bytes) -> bytes:
        """Return the bytes that `cid` names: `data`, unless the provider changes content."""
        if not form_of(provider):
            return data
        sink = MemorySink()
        adapted = as_provider(provider)
        with adapted.call("read", cid) as call:
            Reader.read(adapted.reader, Reference.parse(cid), sink, call)
        return bytes(sink.data)

    def is_known(self, provider: StorageProvider, cid: str, again: str) -> bool:
        """Return whether the same bytes have the CID that they had the first time.

        They must, unless the provider changes content: an encrypted file is another one each time.
        """
        assert again == cid or form_of(provider), "the same bytes have another CID"
        return again == cid

    def call(self, provider: StorageProvider, method: str, cid: str) -> Any:
        """Call `method`, with `cid` if it takes one."""
        if method == "put_json":
            return provider.put_json(unique_json(), name="x")
        if method == "put_file":
            return self.put(provider, b"[1]")
        if method == "test_authentication":
            return provider.test_authentication()
        return getattr(provider, method)(cid)
