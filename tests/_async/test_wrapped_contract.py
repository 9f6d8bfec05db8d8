"""Kubo, IPFS Cluster, and the providers over others of the examples keep the contract."""

import pytest
from examples.logging_provider import AsyncLoggingProvider
from examples.mirror_provider import AsyncMirror
from examples.xor_provider import AsyncXORProvider

from holdfast import AsyncLocalProvider, AsyncPinProvider, ClientConfig
from holdfast._async.providers.encrypted import AsyncEncryptedProvider
from holdfast.content.age.keyring import Keyring
from holdfast.content.age.keys import Identity
from holdfast.providers import AsyncClusterProvider, AsyncKuboProvider
from holdfast.records import PinInfo
from holdfast.sources.folder_source import FolderSource
from holdfast.testing import AsyncProviderTests
from tests._async.made_provider import AsyncMade
from tests.contract import DIRECTORY_ARCHIVE, DIRECTORY_CID, SmallerFiles

pytestmark = pytest.mark.slow  # the quick tests are in test_wrapped_providers.py, test_kubo.py, …
KEY = b"a secret that is no secret"
KEYS = Keyring(identities=[Identity.generate()])


def local(folder):
    return AsyncLocalProvider(ClientConfig(path=folder))


class OverAnother(SmallerFiles, AsyncMade):
    @pytest.fixture
    def directory_file(self):
        return "sub/hello.txt", b"hello world\n"

    @pytest.fixture
    async def directory_cid(self, provider, tmp_path_factory, directory_file):
        path, data = directory_file
        top = tmp_path_factory.mktemp("folder")
        (top / path).parent.mkdir(parents=True)
        (top / path).write_bytes(data)
        folder = FolderSource.of(top)
        return (await provider.add_directory(folder, PinInfo(name="folder"))).cid


class TestLogging(OverAnother, AsyncProviderTests):
    needs = "memory_folder"

    def make(self, folder):
        return AsyncLoggingProvider(local(folder))


class TestXORLocal(OverAnother, AsyncProviderTests):
    needs = "memory_folder"

    def make(self, folder):
        return AsyncXORProvider(local(folder), KEY)


class TestXORPinning(OverAnother, AsyncProviderTests):
    def make(self, node):
        return AsyncXORProvider(AsyncPinProvider(node.config), KEY)


class TestEncryptedLocal(OverAnother, AsyncProviderTests):
    needs = "memory_folder"

    def make(self, folder):
        return AsyncEncryptedProvider(local(folder), KEYS)


class TestEncryptedKubo(OverAnother, AsyncProviderTests):
    needs = "kubo"

    def make(self, kubo):
        return AsyncEncryptedProvider(AsyncKuboProvider(kubo.provider_config()), KEYS)


class TestMirror(OverAnother, AsyncProviderTests):
    needs = "memory_folder"

    def make(self, folder):
        return AsyncMirror(local(folder / "one"), local(folder / "two"))


class TestKubo(SmallerFiles, AsyncMade, AsyncProviderTests):
    """Reads block by block through the RPC API."""

    needs = "kubo"

    def make(self, kubo):
        return AsyncKuboProvider(kubo.provider_config())

    @pytest.fixture
    def directory_cid(self, kubo):
        kubo.import_car(DIRECTORY_ARCHIVE)
        return DIRECTORY_CID


class TestKuboByGateway(TestKubo):
    """Reads through the node's gateway; the older layout of blocks."""

    def make(self, kubo):
        settings = {"gateway_url": kubo.gateway_url, "cid_version": 0}
        return AsyncKuboProvider(kubo.provider_config(**settings))


class TestCluster(SmallerFiles, AsyncMade, AsyncProviderTests):
    needs = "cluster"

    def make(self, cluster):
        return AsyncClusterProvider(cluster.provider_config())

    @pytest.fixture
    def directory_cid(self, cluster):
        cluster.peers[1].kubo.import_car(DIRECTORY_ARCHIVE)
        return DIRECTORY_CID
