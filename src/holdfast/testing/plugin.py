"""The pytest plugin: a node for each test, clients for it, and nothing to set up.

It is loaded in every run of pytest where Holdfast is installed. So it imports nothing of Holdfast
before a fixture is asked for.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from holdfast import Client
    from holdfast.testing import RunningNode

# So that a failure in the contract of providers shows its values.
pytest.register_assert_rewrite(
    "holdfast.testing._async", "holdfast.testing._sync", "holdfast.testing.provider_cases"
)

# By its entry point, and by `-p` where plugins are not looked for.
ASYNCIO = ("asyncio", "pytest_asyncio.plugin")
NO_ASYNCIO = (
    "the fixture holdfast_async_client needs pytest-asyncio, which is not active here: "
    "pip install pytest-asyncio"
)


@pytest.fixture
def holdfast_node() -> "Iterator[RunningNode]":
    """A node on this machine, empty, for this test alone; it fails as it is told.

    ``holdfast_node.config`` is for the clients of your application.
    """
    from holdfast.testing import running_node  # noqa: PLC0415

    with running_node() as node:
        yield node


@pytest.fixture
def holdfast_client(holdfast_node: "RunningNode") -> "Iterator[Client]":
    """A blocking client of `holdfast_node`."""
    from holdfast import Client  # noqa: PLC0415

    with Client.init(holdfast_node.config) as client:
        yield client


class WithoutAsyncio:
    """What stands in for the async fixture where nobody can run it."""

    @pytest.fixture
    def holdfast_async_client(self) -> NoReturn:
        """An async client of `holdfast_node`; needs pytest-asyncio."""
        pytest.fail(NO_ASYNCIO, pytrace=False)


# Quoted: pytest 6 has no such name, and its users, who may want nothing of us, load this file too.
def pytest_configure(config: "pytest.Config") -> None:
    """Offer the async fixture in the way that can be had."""
    if any(config.pluginmanager.hasplugin(name) for name in ASYNCIO):
        from holdfast.testing import asyncio_fixtures  # noqa: PLC0415

        config.pluginmanager.register(asyncio_fixtures, "holdfast-asyncio")
    else:
        config.pluginmanager.register(WithoutAsyncio(), "holdfast-without-asyncio")
