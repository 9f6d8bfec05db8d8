# WARNING: this file is generated from tests/_async/made_provider.py
# by scripts/generate_sync.py. Change the original instead.
"""The fixture of a provider for the contract suite, made from one other fixture."""

import pytest


class Made:
    """Tests of the provider that `make` returns for the value of the fixture `needs`."""

    needs = "node"

    @pytest.fixture
    def provider(self, request):
        provider = self.make(request.getfixturevalue(self.needs))
        yield provider
        provider.close()
