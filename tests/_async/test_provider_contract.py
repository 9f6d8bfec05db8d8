"""Our own providers, and that of the guide, keep the contract that others are asked to keep."""

import pytest
from examples.folder_provider import AsyncFolderProvider

from holdfast import AsyncLocalProvider, AsyncPinProvider, ClientConfig
from holdfast.content.car import CarReader
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
