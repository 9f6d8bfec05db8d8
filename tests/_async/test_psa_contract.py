"""The provider for the Pinning Services API keeps the contract of all providers, on the node.

It stores nothing. So content is stored by the pinning API of the same node, and everything else is
done by the provider: pins are found, listed, changed and removed, and content is read.
"""

import pytest

from holdfast import AsyncPinProvider, AsyncPSAProvider
from holdfast.provider import AsyncAnnotating
from holdfast.testing import AsyncProviderTests
from tests.contract import OnTheNode


class StoringElsewhere(AsyncPSAProvider):
    """Pins at the service, and stores through another API of the same node."""

    stores_content = True

    def __init__(self, config, node):
        super().__init__(config)
        self._storing = AsyncPinProvider(node.config)

    def supports(self, capability):
        return super().supports(capability) or capability is AsyncAnnotating

    async def add_json(self, text, info, call, /):
        return await self._storing.add_json(text, info, call)

    async def add_file(self, source, info, call, progress, /):
        return await self._storing.add_file(source, info, call, progress)

    async def aclose(self):
        await self._storing.aclose()
        await super().aclose()


@pytest.mark.slow  # the quick tests are in test_psa.py and test_psa_on_the_node.py
class TestPSA(OnTheNode, AsyncProviderTests):
    @pytest.fixture
    async def provider(self, node):
        config = node.config.with_options(provider="psa", pin_api_url=f"{node.api_url}/psa")
        provider = StoringElsewhere(config, node)
        yield provider
        await provider.aclose()
