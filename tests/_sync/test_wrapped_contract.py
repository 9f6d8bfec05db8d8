# WARNING: this file is generated from tests/_async/test_wrapped_contract.py
# by scripts/generate_sync.py. Change the original instead.
"""Providers over other providers: those of the examples keep the contract of all providers."""

import pytest
from examples.logging_provider import LoggingProvider
from examples.mirror_provider import Mirror
from examples.xor_provider import XORProvider

from holdfast import ClientConfig, LocalProvider, PinProvider
from holdfast.providers import KuboProvider, PinataProvider
from holdfast.records import PinInfo
from holdfast.sources.folder_source import FolderSource
from holdfast.testing import ProviderTests
from tests.contract import SmallerFiles

KEY = b"a secret that is no secret"


class OverAnother(SmallerFiles):
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

    @pytest.fixture
    def provider(self, inner):
        provider = XORProvider(inner, KEY)
        yield provider
        provider.close()


class TestLogging(OverAnother, ProviderTests):
    @pytest.fixture
    def provider(self, memory_folder):
        provider = LoggingProvider(LocalProvider(ClientConfig(path=memory_folder)))
        yield provider
        provider.close()


class TestXORLocal(OverAnother, ProviderTests):
    @pytest.fixture
    def inner(self, memory_folder):
        return LocalProvider(ClientConfig(path=memory_folder / "store"))


class TestXORPinning(OverAnother, ProviderTests):
    @pytest.fixture
    def inner(self, node):
        return PinProvider(node.config)


@pytest.mark.slow
class TestXORPinata(OverAnother, ProviderTests):
    @pytest.fixture
    def inner(self, node):
        return PinataProvider(node.config.with_options(provider="pinata"))


@pytest.mark.slow
class TestXORKubo(OverAnother, ProviderTests):
    @pytest.fixture
    def inner(self, kubo):
        return KuboProvider(kubo.provider_config())


class TestMirror(OverAnother, ProviderTests):
    @pytest.fixture
    def provider(self, memory_folder):
        folders = (memory_folder / "one", memory_folder / "two")
        members = [LocalProvider(ClientConfig(path=folder)) for folder in folders]
        provider = Mirror(*members)
        yield provider
        provider.close()


@pytest.mark.slow
class TestMirrorOfServices(OverAnother, ProviderTests):
    @pytest.fixture
    def provider(self, node, memory_folder):
        local = LocalProvider(ClientConfig(path=memory_folder / "one"))
        provider = Mirror(PinProvider(node.config), local)
        yield provider
        provider.close()
