"""The provider for Kubo keeps the contract of all providers, on a real Kubo."""

import pytest

from holdfast.providers import AsyncKuboProvider
from holdfast.testing import AsyncProviderTests
from tests.contract import DIRECTORY_ARCHIVE, DIRECTORY_CID, SmallerFiles


@pytest.mark.slow  # the quick tests are in test_kubo.py
class TestByBlocks(SmallerFiles, AsyncProviderTests):
    """Reads block by block through the RPC API."""

    @pytest.fixture
    async def provider(self, kubo):
        provider = AsyncKuboProvider(kubo.provider_config(**self.settings(kubo)))
        yield provider
        await provider.aclose()

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
