"""The provider over other providers keeps the contract: over two stores, over Kubo and the node."""

from typing import ClassVar

import pytest

from holdfast import AsyncLocalProvider, AsyncPinProvider, ClientConfig
from holdfast.providers import AsyncCopiesProvider, AsyncKuboProvider
from holdfast.testing import AsyncProviderTests
from tests._async.made_provider import AsyncMade
from tests.contract import DIRECTORY_ARCHIVE, SmallerFiles


@pytest.mark.slow  # the quick tests are in test_copies.py
class TestTwoStores(SmallerFiles, AsyncMade, AsyncProviderTests):
    needs = "memory_folder"
    large_size: ClassVar = 64 << 20
    memory_limit: ClassVar = 48 << 20  # two members get a large file at the same time

    def make(self, folder):
        self.stores = [AsyncLocalProvider(ClientConfig(path=folder / name)) for name in "ab"]
        return AsyncCopiesProvider(self.stores, sites=["a", "b"], path=folder / "copies", need=2)

    @pytest.fixture
    async def provider(self, request):
        provider = self.make(request.getfixturevalue(self.needs))
        yield provider
        await provider.aclose()
        for store in self.stores:
            await store.aclose()

    @pytest.fixture
    async def directory_cid(self, provider):
        (root,) = await provider.import_car([DIRECTORY_ARCHIVE])
        return root


@pytest.mark.slow
class TestKuboAndTheNode(TestTwoStores):
    needs = "memory_folder"

    @pytest.fixture
    async def provider(self, memory_folder, kubo, node):
        self.stores = [
            AsyncKuboProvider(ClientConfig(provider="kubo", pin_api_url=kubo.api_url)),
            AsyncPinProvider(node.config),
        ]
        path = memory_folder / "copies"
        provider = AsyncCopiesProvider(self.stores, sites=["a", "b"], path=path, patience=30)
        yield provider
        await provider.aclose()
        for store in self.stores:
            await store.aclose()
