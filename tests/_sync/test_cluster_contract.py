# WARNING: this file is generated from tests/_async/test_cluster_contract.py
# by scripts/generate_sync.py. Change the original instead.
"""The provider for IPFS Cluster keeps the contract of all providers, on a real cluster of three."""

import pytest

from holdfast import ClusterProvider
from holdfast.testing import ProviderTests
from tests.content import DATA

ARCHIVE = DATA / "subdir-with-mixed-block-files.car"
DIRECTORY = "bafybeidh6k2vzukelqtrjsmd4p52cpmltd2ufqrdtdg6yigi73in672fwu"
FILE = ("subdir/hello.txt", b"hello world\n")


@pytest.mark.slow  # the quick tests are in test_cluster.py
class TestCluster(ProviderTests):
    """A cluster keeps the contract."""

    large_size, memory_limit = 32 << 20, 24 << 20

    @pytest.fixture
    def provider(self, cluster):
        provider = ClusterProvider(cluster.provider_config())
        yield provider
        provider.close()

    @pytest.fixture
    def directory_cid(self, cluster):
        cluster.peers[1].kubo.import_car(ARCHIVE.read_bytes())
        return DIRECTORY

    @pytest.fixture
    def directory_file(self):
        return FILE
