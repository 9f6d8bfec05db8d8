"""The provider for Kubo keeps the contract of all providers, on a real Kubo."""

import pytest

from holdfast import AsyncKuboProvider
from holdfast.testing import AsyncProviderTests
from tests.content import DATA

ARCHIVE = DATA / "subdir-with-mixed-block-files.car"
DIRECTORY = "bafybeidh6k2vzukelqtrjsmd4p52cpmltd2ufqrdtdg6yigi73in672fwu"
FILE = ("subdir/hello.txt", b"hello world\n")


@pytest.mark.slow  # the quick tests are in test_kubo.py
class TestByBlocks(AsyncProviderTests):
    """Reads block by block through the RPC API."""

    large_size, memory_limit = 32 << 20, 24 << 20

    @pytest.fixture
    async def provider(self, kubo):
        provider = AsyncKuboProvider(kubo.provider_config(**self.settings(kubo)))
        yield provider
        await provider.aclose()

    def settings(self, kubo):
        return {}

    @pytest.fixture
    def directory_cid(self, kubo):
        kubo.import_car(ARCHIVE.read_bytes())
        return DIRECTORY

    @pytest.fixture
    def directory_file(self):
        return FILE


@pytest.mark.slow
class TestByGateway(TestByBlocks):
    """Reads through the node's gateway; the older layout of blocks."""

    def settings(self, kubo):
        return {"gateway_url": kubo.gateway_url, "cid_version": 0}
