"""The provider for the Pinning Services API keeps the contract of all providers, on the node.

It stores nothing. So content is stored by the pinning API of the same node, and everything else is
done by the provider: pins are found, listed, changed and removed, and content is read.
"""

import pytest

from holdfast import AsyncPinProvider
from holdfast.providers import AsyncPSAProvider
from holdfast.testing import AsyncProviderTests
from tests.contract import OnTheNode


class StoringElsewhere(AsyncPSAProvider):
    """Pins at the service, and stores through another API of the same node."""

    def __init__(self, config, node):
        super().__init__(config)
        self._storing = AsyncPinProvider(node.config)

    async def add(self, content, info, call, progress, /):
        return await self._storing.add(content, info, call, progress)

    async def aclose(self):
        await self._storing.aclose()
        await super().aclose()


@pytest.mark.slow  # the quick tests are in test_psa.py and test_on_the_node.py
class TestPSA(OnTheNode, AsyncProviderTests):
    @pytest.fixture
    async def provider(self, node):
        config = node.config.with_options(provider="psa", pin_api_url=f"{node.api_url}/psa")
        provider = StoringElsewhere(config, node)
        yield provider
        await provider.aclose()
