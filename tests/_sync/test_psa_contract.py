# WARNING: this file is generated from tests/_async/test_psa_contract.py
# by scripts/generate_sync.py. Change the original instead.
"""The provider for the Pinning Services API keeps the contract of all providers, on the node.

It stores nothing. So content is stored by the pinning API of the same node, and everything else is
done by the provider: pins are found, listed, changed and removed, and content is read.
"""

import pytest

from holdfast import PinProvider
from holdfast.providers import PSAProvider
from holdfast.testing import ProviderTests
from tests.contract import OnTheNode


class StoringElsewhere(PSAProvider):
    """Pins at the service, and stores through another API of the same node."""

    def __init__(self, config, node):
        super().__init__(config)
        self._storing = PinProvider(node.config)

    def add(self, content, info, call, progress, /):
        return self._storing.add(content, info, call, progress)

    def close(self):
        self._storing.close()
        super().close()


@pytest.mark.slow  # the quick tests are in test_psa.py and test_on_the_node.py
class TestPSA(OnTheNode, ProviderTests):
    @pytest.fixture
    def provider(self, node):
        config = node.config.with_options(provider="psa", pin_api_url=f"{node.api_url}/psa")
        provider = StoringElsewhere(config, node)
        yield provider
        provider.close()
