# WARNING: this file is generated from tests/_async/test_provider_contract.py
# by scripts/generate_sync.py. Change the original instead.
"""Our own providers keep the contract that others are asked to keep."""

import pytest

from holdfast import ClientConfig, LocalProvider, PinProvider
from holdfast.testing import ProviderTests
from tests.content import DATA

ARCHIVE = DATA / "subdir-with-mixed-block-files.car"
FILE = ("subdir/hello.txt", b"hello world\n")


class TestLocal(ProviderTests):
    @pytest.fixture
    def provider(self, memory_folder):
        provider = LocalProvider(ClientConfig(path=memory_folder / "store"))
        yield provider
        provider.close()

    @pytest.fixture
    def directory_cid(self, provider):
        (root,) = provider.import_car([ARCHIVE.read_bytes()])
        return root

    @pytest.fixture
    def directory_file(self):
        return FILE


class TestPinning(ProviderTests):
    @pytest.fixture
    def provider(self, node):
        provider = PinProvider(node.config)
        yield provider
        provider.close()

    @pytest.fixture
    def directory_cid(self, node):
        (pin,) = node.repository.import_car([ARCHIVE.read_bytes()])
        return pin.cid

    @pytest.fixture
    def directory_file(self):
        return FILE


class TestPinningVersion0(TestPinning):
    @pytest.fixture
    def provider(self, node):
        provider = PinProvider(node.config.with_options(cid_version=0))
        yield provider
        provider.close()
