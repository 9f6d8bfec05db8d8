"""The provider for IPFS Cluster keeps the contract of all providers, on a real cluster of three."""

import pytest

from holdfast.providers import AsyncClusterProvider
from holdfast.testing import AsyncProviderTests
from tests.contract import DIRECTORY_ARCHIVE, DIRECTORY_CID, SmallerFiles


@pytest.mark.slow  # the quick tests are in test_cluster.py
class TestCluster(SmallerFiles, AsyncProviderTests):
    """A cluster keeps the contract."""

    @pytest.fixture
    async def provider(self, cluster):
        provider = AsyncClusterProvider(cluster.provider_config())
        yield provider
        await provider.aclose()

    @pytest.fixture
    def directory_cid(self, cluster):
        cluster.peers[1].kubo.import_car(DIRECTORY_ARCHIVE)
        return DIRECTORY_CID
