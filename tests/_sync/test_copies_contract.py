# WARNING: this file is generated from tests/_async/test_copies_contract.py
# by scripts/generate_sync.py. Change the original instead.
"""The provider over other providers keeps the contract: over two stores, over Kubo and the node."""

from typing import ClassVar

import pytest

from holdfast import ClientConfig, LocalProvider, PinProvider
from holdfast.providers import CopiesProvider, KuboProvider
from holdfast.testing import ProviderTests
from tests._sync.made_provider import Made
from tests.contract import DIRECTORY_ARCHIVE, SmallerFiles


@pytest.mark.slow  # the quick tests are in test_copies.py
class TestTwoStores(SmallerFiles, Made, ProviderTests):
    needs = "memory_folder"
    large_size: ClassVar = 64 << 20
    memory_limit: ClassVar = 48 << 20  # two members get a large file at the same time

    def make(self, folder):
        self.stores = [LocalProvider(ClientConfig(path=folder / name)) for name in "ab"]
        return CopiesProvider(self.stores, sites=["a", "b"], path=folder / "copies", need=2)

    @pytest.fixture
    def provider(self, request):
        provider = self.make(request.getfixturevalue(self.needs))
        yield provider
        provider.close()
        for store in self.stores:
            store.close()

    @pytest.fixture
    def directory_cid(self, provider):
        (root,) = provider.import_car([DIRECTORY_ARCHIVE])
        return root


@pytest.mark.slow
class TestKuboAndTheNode(TestTwoStores):
    needs = "memory_folder"

    @pytest.fixture
    def provider(self, memory_folder, kubo, node):
        self.stores = [
            KuboProvider(ClientConfig(provider="kubo", pin_api_url=kubo.api_url)),
            PinProvider(node.config),
        ]
        path = memory_folder / "copies"
        provider = CopiesProvider(self.stores, sites=["a", "b"], path=path, patience=30)
        yield provider
        provider.close()
        for store in self.stores:
            store.close()
