import pytest

from holdfast import AsyncClient
from tests.support import config_for


@pytest.fixture
async def client(server):
    async with await AsyncClient.init(config_for(server)) as client:
        yield client
