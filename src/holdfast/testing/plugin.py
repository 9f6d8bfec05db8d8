"""The pytest plugin: fixtures for a node and for clients of it.

pytest loads it in every run where Holdfast is installed. So it imports Holdfast only when a fixture
is used.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from holdfast import Client
    from holdfast.testing import RunningNode

# So that a failed assertion in the tests of providers shows its values.
pytest.register_assert_rewrite(
    "holdfast.testing._async", "holdfast.testing._sync", "holdfast.testing.provider_cases"
)

# The name of its entry point, and its name when `-p` loads it.
ASYNCIO = ("asyncio", "pytest_asyncio.plugin")
NO_ASYNCIO = (
    "the fixture holdfast_async_client needs pytest-asyncio, which is not active here: "
    "pip install pytest-asyncio"
)


@pytest.fixture
def holdfast_node() -> "Iterator[RunningNode]":
    """An empty node on this machine for one test, with methods that inject faults.

    Create the clients of your application with ``holdfast_node.config``.
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
    """The async fixture in runs without pytest-asyncio: it fails with a remedy."""

    @pytest.fixture
    def holdfast_async_client(self) -> NoReturn:
        """An async client of `holdfast_node`; needs pytest-asyncio."""
        pytest.fail(NO_ASYNCIO, pytrace=False)


# The annotation is quoted because pytest 6 has no `pytest.Config`, and loads this file too.
def pytest_configure(config: "pytest.Config") -> None:
    """Register the async fixture, or the one that fails without pytest-asyncio."""
    if any(config.pluginmanager.hasplugin(name) for name in ASYNCIO):
        from holdfast.testing import asyncio_fixtures  # noqa: PLC0415

        config.pluginmanager.register(asyncio_fixtures, "holdfast-asyncio")
    else:
        config.pluginmanager.register(WithoutAsyncio(), "holdfast-without-asyncio")
