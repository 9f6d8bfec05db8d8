# WARNING: this file is generated from tests/_async/test_cluster_contract.py
# by scripts/generate_sync.py. Change the original instead.
"""The provider for IPFS Cluster keeps the contract of all providers, on a real cluster of three."""

import pytest

from holdfast.providers import ClusterProvider
from holdfast.testing import ProviderTests
from tests.contract import DIRECTORY_ARCHIVE, DIRECTORY_CID, SmallerFiles


@pytest.mark.slow  # the quick tests are in test_cluster.py
class TestCluster(SmallerFiles, ProviderTests):
    """A cluster keeps the contract."""

    @pytest.fixture
    def provider(self, cluster):
        provider = ClusterProvider(cluster.provider_config())
        yield provider
        provider.close()

    @pytest.fixture
    def directory_cid(self, cluster):
        cluster.peers[1].kubo.import_car(DIRECTORY_ARCHIVE)
        return DIRECTORY_CID
