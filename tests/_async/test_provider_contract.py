"""Our own providers, and that of the guide, keep the contract that others are asked to keep."""

import pytest
from examples.folder_provider import AsyncFolderProvider

from holdfast import AsyncLocalProvider, AsyncPinProvider, ClientConfig
from holdfast.content.car import CarReader
from holdfast.providers import AsyncPinataProvider, AsyncPSAProvider
from holdfast.testing import AsyncProviderTests
from tests._async.made_provider import AsyncMade
from tests.contract import DIRECTORY_ARCHIVE, OnTheNode, SmallerFiles


class TestLocal(SmallerFiles, AsyncMade, AsyncProviderTests):
    needs = "memory_folder"

    def make(self, folder):
        return AsyncLocalProvider(ClientConfig(path=folder / "store"))

    @pytest.fixture
    async def directory_cid(self, provider):
        (root,) = await provider.import_car([DIRECTORY_ARCHIVE])
        return root


class TestPinning(OnTheNode, AsyncMade, AsyncProviderTests):
    def make(self, node):
        return AsyncPinProvider(node.config)


@pytest.mark.slow  # another layout of blocks, for which test_on_the_node.py has quick tests
class TestPinningVersion0(TestPinning):
    def make(self, node):
        return AsyncPinProvider(node.config.with_options(cid_version=0))


@pytest.mark.slow  # an example for those who write providers
class TestFolder(SmallerFiles, AsyncMade, AsyncProviderTests):
    """The provider of the guide: `BaseProvider` over a folder of blocks."""

    needs = "memory_folder"

    def make(self, folder):
        return AsyncFolderProvider(ClientConfig(provider_options={"folder": folder}))

    @pytest.fixture
    def directory_cid(self, provider):
        reader = CarReader()
        for cid, block in reader.update(DIRECTORY_ARCHIVE):
            provider._folder.put(cid, block)
        return str(reader.roots[0])


@pytest.mark.slow  # the quick tests are in test_pinata.py and test_on_the_node.py
class TestPinata(OnTheNode, AsyncMade, AsyncProviderTests):
    def make(self, node, **changes):
        return AsyncPinataProvider(node.config.with_options(provider="pinata", **changes))


@pytest.mark.slow
class TestPinataVersion0(TestPinata):
    def make(self, node):
        return super().make(node, cid_version=0)


@pytest.mark.slow
class TestPinataPrivate(TestPinata):
    """Reads go through signed links. There are no private directories."""

    def make(self, node):
        return super().make(node, provider_options={"network": "private"})

    @pytest.fixture
    def directory_cid(self):
        pytest.skip("there are no private directories")

    @pytest.fixture
    def directory_file(self):
        pytest.skip("there are no private directories")


class StoringElsewhere(AsyncPSAProvider):
    """Stores content by the pinning API of the same node. PSA itself can only pin it."""

    def __init__(self, config, node):
        super().__init__(config)
        self._storing = AsyncPinProvider(node.config)

    async def add(self, content, info, call, progress, /):
        return await self._storing.add(content, info, call, progress)

    async def aclose(self):
        await self._storing.aclose()
        await super().aclose()


@pytest.mark.slow  # the quick tests are in test_psa.py and test_on_the_node.py
class TestPSA(OnTheNode, AsyncMade, AsyncProviderTests):
    def make(self, node):
        config = node.config.with_options(provider="psa", pin_api_url=f"{node.api_url}/psa")
        return StoringElsewhere(config, node)
