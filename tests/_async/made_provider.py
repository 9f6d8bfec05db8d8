"""The fixture of a provider for the contract suite, made from one other fixture."""

import pytest


class AsyncMade:
    """Tests of the provider that `make` returns for the value of the fixture `needs`."""

    needs = "node"

    @pytest.fixture
    async def provider(self, request):
        provider = self.make(request.getfixturevalue(self.needs))
        yield provider
        await provider.aclose()
