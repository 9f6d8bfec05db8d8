"""Our own providers, and that of the guide, keep the contract that others are asked to keep."""

import pytest
from examples.folder_provider import AsyncFolderProvider

from holdfast import AsyncLocalProvider, AsyncPinProvider, ClientConfig
from holdfast.content.car import CarReader
from holdfast.testing import AsyncProviderTests
from tests.contract import DIRECTORY_ARCHIVE, OnTheNode, SmallerFiles


class TestLocal(SmallerFiles, AsyncProviderTests):
    @pytest.fixture
    async def provider(self, memory_folder):
        provider = AsyncLocalProvider(ClientConfig(path=memory_folder / "store"))
        yield provider
        await provider.aclose()

    @pytest.fixture
    async def directory_cid(self, provider):
        (root,) = await provider.import_car([DIRECTORY_ARCHIVE])
        return root


class TestPinning(OnTheNode, AsyncProviderTests):
    @pytest.fixture
    async def provider(self, node):
        provider = AsyncPinProvider(node.config)
        yield provider
        await provider.aclose()


@pytest.mark.slow  # another layout of blocks, for which test_on_the_node.py has quick tests
class TestPinningVersion0(TestPinning):
    @pytest.fixture
    async def provider(self, node):
        provider = AsyncPinProvider(node.config.with_options(cid_version=0))
        yield provider
        await provider.aclose()


class TestFolder(SmallerFiles, AsyncProviderTests):
    """The provider of the guide: `BaseProvider` over a folder of blocks."""

    @pytest.fixture
    async def provider(self, tmp_path_factory):
        folder = tmp_path_factory.mktemp("bucket")
        provider = AsyncFolderProvider(ClientConfig(provider_options={"folder": folder}))
        yield provider
        await provider.aclose()

    @pytest.fixture
    def directory_cid(self, provider):
        reader = CarReader()
        for cid, block in reader.update(DIRECTORY_ARCHIVE):
            provider._folder.put(cid, block)
        return str(reader.roots[0])
