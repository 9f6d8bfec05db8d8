# WARNING: this file is generated from tests/_async/test_wrapped_contract.py
# by scripts/generate_sync.py. Change the original instead.
"""Kubo, IPFS Cluster, and the providers over others of the examples keep the contract."""

import pytest
from examples.logging_provider import LoggingProvider
from examples.mirror_provider import Mirror
from examples.xor_provider import XORProvider

from holdfast import ClientConfig, LocalProvider, PinProvider
from holdfast._sync.providers.encrypted import EncryptedProvider
from holdfast.content.age.keyring import Keyring
from holdfast.content.age.keys import Identity
from holdfast.providers import ClusterProvider, KuboProvider
from holdfast.records import PinInfo
from holdfast.sources.folder_source import FolderSource
from holdfast.testing import ProviderTests
from tests._sync.made_provider import Made
from tests.contract import DIRECTORY_ARCHIVE, DIRECTORY_CID, SmallerFiles

pytestmark = pytest.mark.slow  # the quick tests are in test_wrapped_providers.py, test_kubo.py, …
KEY = b"a secret that is no secret"
KEYS = Keyring(identities=[Identity.generate()])


def local(folder):
    return LocalProvider(ClientConfig(path=folder))


class OverAnother(SmallerFiles, Made):
    @pytest.fixture
    def directory_file(self):
        return "sub/hello.txt", b"hello world\n"

    @pytest.fixture
    def directory_cid(self, provider, tmp_path_factory, directory_file):
        path, data = directory_file
        top = tmp_path_factory.mktemp("folder")
        (top / path).parent.mkdir(parents=True)
        (top / path).write_bytes(data)
        folder = FolderSource.of(top)
        return (provider.add_directory(folder, PinInfo(name="folder"))).cid


class TestLogging(OverAnother, ProviderTests):
    needs = "memory_folder"

    def make(self, folder):
        return LoggingProvider(local(folder))


class TestXORLocal(OverAnother, ProviderTests):
    needs = "memory_folder"

    def make(self, folder):
        return XORProvider(local(folder), KEY)


class TestXORPinning(OverAnother, ProviderTests):
    def make(self, node):
        return XORProvider(PinProvider(node.config), KEY)


class TestEncryptedLocal(OverAnother, ProviderTests):
    needs = "memory_folder"

    def make(self, folder):
        return EncryptedProvider(local(folder), KEYS)


class TestEncryptedKubo(OverAnother, ProviderTests):
    needs = "kubo"

    def make(self, kubo):
        return EncryptedProvider(KuboProvider(kubo.provider_config()), KEYS)


class TestMirror(OverAnother, ProviderTests):
    needs = "memory_folder"

    def make(self, folder):
        return Mirror(local(folder / "one"), local(folder / "two"))


class TestKubo(SmallerFiles, Made, ProviderTests):
    """Reads block by block through the RPC API."""

    needs = "kubo"

    def make(self, kubo):
        return KuboProvider(kubo.provider_config())

    @pytest.fixture
    def directory_cid(self, kubo):
        kubo.import_car(DIRECTORY_ARCHIVE)
        return DIRECTORY_CID


class TestKuboByGateway(TestKubo):
    """Reads through the node's gateway; the older layout of blocks."""

    def make(self, kubo):
        settings = {"gateway_url": kubo.gateway_url, "cid_version": 0}
        return KuboProvider(kubo.provider_config(**settings))


class TestCluster(SmallerFiles, Made, ProviderTests):
    needs = "cluster"

    def make(self, cluster):
        return ClusterProvider(cluster.provider_config())

    @pytest.fixture
    def directory_cid(self, cluster):
        cluster.peers[1].kubo.import_car(DIRECTORY_ARCHIVE)
        return DIRECTORY_CID
