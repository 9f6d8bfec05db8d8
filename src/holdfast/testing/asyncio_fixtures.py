"""The async fixture of the pytest plugin, which is loaded only if pytest-asyncio is active."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest_asyncio

if TYPE_CHECKING:
    from holdfast import AsyncClient
    from holdfast.testing import RunningNode


@pytest_asyncio.fixture
async def holdfast_async_client(holdfast_node: "RunningNode") -> "AsyncIterator[AsyncClient]":
    """An async client of `holdfast_node`."""
    from holdfast import AsyncClient  # noqa: PLC0415

    async with AsyncClient.init(holdfast_node.config) as client:
        yield client
