# WARNING: this file is generated from tests/_async/test_pinata_contract.py
# by scripts/generate_sync.py. Change the original instead.
"""The provider for v3 keeps the contract of all providers, in both networks of a node."""

import pytest

from holdfast.providers import PinataProvider
from holdfast.testing import ProviderTests
from tests.contract import OnTheNode


@pytest.mark.slow  # the quick tests are in test_pinata.py and test_on_the_node.py
class TestPublic(OnTheNode, ProviderTests):
    changes = {}  # noqa: RUF012 - read only

    @pytest.fixture
    def provider(self, node):
        config = node.config.with_options(provider="pinata", **self.changes)
        provider = PinataProvider(config)
        yield provider
        provider.close()


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
