# WARNING: this file is generated from tests/_async/test_kubo_contract.py
# by scripts/generate_sync.py. Change the original instead.
"""The provider for Kubo keeps the contract of all providers, on a real Kubo."""

import pytest

from holdfast.providers import KuboProvider
from holdfast.testing import ProviderTests
from tests.contract import DIRECTORY_ARCHIVE, DIRECTORY_CID, SmallerFiles


@pytest.mark.slow  # the quick tests are in test_kubo.py
class TestByBlocks(SmallerFiles, ProviderTests):
    """Reads block by block through the RPC API."""

    @pytest.fixture
    def provider(self, kubo):
        provider = KuboProvider(kubo.provider_config(**self.settings(kubo)))
        yield provider
        provider.close()

    def settings(self, kubo):
        return {}

    @pytest.fixture
    def directory_cid(self, kubo):
        kubo.import_car(DIRECTORY_ARCHIVE)
        return DIRECTORY_CID


@pytest.mark.slow
class TestByGateway(TestByBlocks):
    """Reads through the node's gateway; the older layout of blocks."""

    def settings(self, kubo):
        return {"gateway_url": kubo.gateway_url, "cid_version": 0}
