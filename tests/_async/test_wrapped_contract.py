"""Providers over other providers: those of the examples keep the contract of all providers."""

import pytest
from examples.logging_provider import AsyncLoggingProvider
from examples.mirror_provider import AsyncMirror
from examples.xor_provider import AsyncXORProvider

from holdfast import AsyncLocalProvider, AsyncPinProvider, ClientConfig
from holdfast.providers import AsyncKuboProvider, AsyncPinataProvider
from holdfast.records import PinInfo
from holdfast.sources.folder_source import FolderSource
from holdfast.testing import AsyncProviderTests
from tests.contract import SmallerFiles

KEY = b"a secret that is no secret"


class OverAnother(SmallerFiles):
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

    @pytest.fixture
    async def provider(self, inner):
        provider = AsyncXORProvider(inner, KEY)
        yield provider
        await provider.aclose()


class TestLogging(OverAnother, AsyncProviderTests):
    @pytest.fixture
    async def provider(self, memory_folder):
        provider = AsyncLoggingProvider(AsyncLocalProvider(ClientConfig(path=memory_folder)))
        yield provider
        await provider.aclose()


class TestXORLocal(OverAnother, AsyncProviderTests):
    @pytest.fixture
    def inner(self, memory_folder):
        return AsyncLocalProvider(ClientConfig(path=memory_folder / "store"))


class TestXORPinning(OverAnother, AsyncProviderTests):
    @pytest.fixture
    def inner(self, node):
        return AsyncPinProvider(node.config)


@pytest.mark.slow
class TestXORPinata(OverAnother, AsyncProviderTests):
    @pytest.fixture
    def inner(self, node):
        return AsyncPinataProvider(node.config.with_options(provider="pinata"))


@pytest.mark.slow
class TestXORKubo(OverAnother, AsyncProviderTests):
    @pytest.fixture
    def inner(self, kubo):
        return AsyncKuboProvider(kubo.provider_config())


class TestMirror(OverAnother, AsyncProviderTests):
    @pytest.fixture
    async def provider(self, memory_folder):
        folders = (memory_folder / "one", memory_folder / "two")
        members = [AsyncLocalProvider(ClientConfig(path=folder)) for folder in folders]
        provider = AsyncMirror(*members)
        yield provider
        await provider.aclose()


@pytest.mark.slow
class TestMirrorOfServices(OverAnother, AsyncProviderTests):
    @pytest.fixture
    async def provider(self, node, memory_folder):
        local = AsyncLocalProvider(ClientConfig(path=memory_folder / "one"))
        provider = AsyncMirror(AsyncPinProvider(node.config), local)
        yield provider
        await provider.aclose()
