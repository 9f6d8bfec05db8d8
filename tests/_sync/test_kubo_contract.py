# WARNING: this file is generated from tests/_async/test_kubo_contract.py
# by scripts/generate_sync.py. Change the original instead.
"""The provider for Kubo keeps the contract of all providers, on a real Kubo."""

import pytest

from holdfast import KuboProvider
from holdfast.testing import ProviderTests
from tests.content import DATA

ARCHIVE = DATA / "subdir-with-mixed-block-files.car"
DIRECTORY = "bafybeidh6k2vzukelqtrjsmd4p52cpmltd2ufqrdtdg6yigi73in672fwu"
FILE = ("subdir/hello.txt", b"hello world\n")


@pytest.mark.slow  # the quick tests are in test_kubo.py
class TestByBlocks(ProviderTests):
    """Reads block by block through the RPC API."""

    large_size, memory_limit = 32 << 20, 24 << 20

    @pytest.fixture
    def provider(self, kubo):
        provider = KuboProvider(kubo.provider_config(**self.settings(kubo)))
        yield provider
        provider.close()

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
