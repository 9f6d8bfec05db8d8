# WARNING: this file is generated from tests/_async/test_provider_contract.py
# by scripts/generate_sync.py. Change the original instead.
"""Our own providers, and that of the guide, keep the contract that others are asked to keep."""

import pytest
from examples.folder_provider import FolderProvider

from holdfast import ClientConfig, LocalProvider, PinProvider
from holdfast.content.car import CarReader
from holdfast.testing import ProviderTests
from tests.contract import DIRECTORY_ARCHIVE, OnTheNode, SmallerFiles


class TestLocal(SmallerFiles, ProviderTests):
    @pytest.fixture
    def provider(self, memory_folder):
        provider = LocalProvider(ClientConfig(path=memory_folder / "store"))
        yield provider
        provider.close()

    @pytest.fixture
    def directory_cid(self, provider):
        (root,) = provider.import_car([DIRECTORY_ARCHIVE])
        return root


class TestPinning(OnTheNode, ProviderTests):
    @pytest.fixture
    def provider(self, node):
        provider = PinProvider(node.config)
        yield provider
        provider.close()


@pytest.mark.slow  # another layout of blocks, for which test_on_the_node.py has quick tests
class TestPinningVersion0(TestPinning):
    @pytest.fixture
    def provider(self, node):
        provider = PinProvider(node.config.with_options(cid_version=0))
        yield provider
        provider.close()


class TestFolder(SmallerFiles, ProviderTests):
    """The provider of the guide: `BaseProvider` over a folder of blocks."""

    @pytest.fixture
    def provider(self, tmp_path_factory):
        folder = tmp_path_factory.mktemp("bucket")
        provider = FolderProvider(ClientConfig(provider_options={"folder": folder}))
        yield provider
        provider.close()

    @pytest.fixture
    def directory_cid(self, provider):
        reader = CarReader()
        for cid, block in reader.update(DIRECTORY_ARCHIVE):
            provider._folder.put(cid, block)
        return str(reader.roots[0])
