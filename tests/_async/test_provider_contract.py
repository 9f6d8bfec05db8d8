"""Our own providers, and that of the guide, keep the contract that others are asked to keep."""

import pytest
from examples.folder_provider import AsyncFolderProvider

from holdfast import AsyncLocalProvider, AsyncPinProvider, ClientConfig
from holdfast.content.car import CarReader
from holdfast.testing import AsyncProviderTests
from tests.content import DATA

ARCHIVE = DATA / "subdir-with-mixed-block-files.car"
FILE = ("subdir/hello.txt", b"hello world\n")


class SmallerFiles(AsyncProviderTests):
    """The contract, with files of half the size: they show as well that none is held whole."""

    large_size, memory_limit = 32 << 20, 24 << 20


class TestLocal(SmallerFiles):
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


class TestPinning(SmallerFiles):
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


@pytest.mark.slow  # another layout of blocks, for which test_on_the_node.py has quick tests
class TestPinningVersion0(TestPinning):
    @pytest.fixture
    async def provider(self, node):
        provider = AsyncPinProvider(node.config.with_options(cid_version=0))
        yield provider
        await provider.aclose()


class TestFolder(SmallerFiles):
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
        for cid, block in reader.update(ARCHIVE.read_bytes()):
            provider._folder.put(cid, block)
        return str(reader.roots[0])

    @pytest.fixture
    def directory_file(self):
        return FILE
