"""Our own providers keep the contract that others are asked to keep."""

import pytest

from holdfast import AsyncLocalProvider, AsyncPinProvider, ClientConfig
from holdfast.testing import AsyncProviderTests
from tests.content import DATA

ARCHIVE = DATA / "subdir-with-mixed-block-files.car"
FILE = ("subdir/hello.txt", b"hello world\n")


class TestLocal(AsyncProviderTests):
    @pytest.fixture
    async def provider(self, memory_folder):
        provider = AsyncLocalProvider(ClientConfig(path=memory_folder / "store"))
        yield provider
        await provider.aclose()

    @pytest.fixture
    async def directory_cid(self, provider):
        (root,) = await provider.import_car([ARCHIVE.read_bytes()])
        return root

    @pytest.fixture
    def directory_file(self):
        return FILE


class TestPinning(AsyncProviderTests):
    @pytest.fixture
    async def provider(self, node):
        provider = AsyncPinProvider(node.config)
        yield provider
        await provider.aclose()

    @pytest.fixture
    def directory_cid(self, node):
        (pin,) = node.repository.import_car([ARCHIVE.read_bytes()])
        return pin.cid

    @pytest.fixture
    def directory_file(self):
        return FILE


class TestPinningVersion0(TestPinning):
    @pytest.fixture
    async def provider(self, node):
        provider = AsyncPinProvider(node.config.with_options(cid_version=0))
        yield provider
        await provider.aclose()
