"""The provider for v3 keeps the contract of all providers, in both networks of a node."""

import pytest

from holdfast import AsyncPinataProvider
from holdfast.testing import AsyncProviderTests
from tests.content import DATA

ARCHIVE = DATA / "subdir-with-mixed-block-files.car"
FILE = ("subdir/hello.txt", b"hello world\n")


@pytest.mark.slow  # the quick tests are in test_pinata.py and test_pinata_on_the_node.py
class TestPublic(AsyncProviderTests):
    large_size, memory_limit = 32 << 20, 24 << 20
    changes = {}  # noqa: RUF012 - read only

    @pytest.fixture
    async def provider(self, node):
        config = node.config.with_options(provider="pinata", **self.changes)
        provider = AsyncPinataProvider(config)
        yield provider
        await provider.aclose()

    @pytest.fixture
    def directory_cid(self, node):
        (pin,) = node.repository.import_car([ARCHIVE.read_bytes()])
        return pin.cid

    @pytest.fixture
    def directory_file(self):
        return FILE


@pytest.mark.slow
class TestPublicVersion0(TestPublic):
    changes = {"cid_version": 0}  # noqa: RUF012 - read only


@pytest.mark.slow
class TestPrivate(TestPublic):
    """Reads go through signed links. There are no private directories."""

    changes = {"provider_options": {"network": "private"}}  # noqa: RUF012 - read only

    @pytest.fixture
    def directory_cid(self):
        pytest.skip("there are no private directories")

    @pytest.fixture
    def directory_file(self):
        pytest.skip("there are no private directories")
