# WARNING: this file is generated from tests/_async/test_provider_contract.py
# by scripts/generate_sync.py. Change the original instead.
"""Our own providers, and that of the guide, keep the contract that others are asked to keep."""

import pytest
from examples.folder_provider import FolderProvider

from holdfast import ClientConfig, LocalProvider, PinProvider
from holdfast.content.car import CarReader
from holdfast.testing import ProviderTests
from tests._sync.made_provider import Made
from tests.contract import DIRECTORY_ARCHIVE, OnTheNode, SmallerFiles


class TestLocal(SmallerFiles, Made, ProviderTests):
    needs = "memory_folder"

    def make(self, folder):
        return LocalProvider(ClientConfig(path=folder / "store"))

    @pytest.fixture
    def directory_cid(self, provider):
        (root,) = provider.import_car([DIRECTORY_ARCHIVE])
        return root


class TestPinning(OnTheNode, Made, ProviderTests):
    def make(self, node):
        return PinProvider(node.config)


@pytest.mark.slow  # another layout of blocks, for which test_on_the_node.py has quick tests
class TestPinningVersion0(TestPinning):
    def make(self, node):
        return PinProvider(node.config.with_options(cid_version=0))


class TestFolder(SmallerFiles, Made, ProviderTests):
    """The provider of the guide: `BaseProvider` over a folder of blocks."""

    needs = "memory_folder"

    def make(self, folder):
        return FolderProvider(ClientConfig(provider_options={"folder": folder}))

    @pytest.fixture
    def directory_cid(self, provider):
        reader = CarReader()
        for cid, block in reader.update(DIRECTORY_ARCHIVE):
            provider._folder.put(cid, block)
        return str(reader.roots[0])
