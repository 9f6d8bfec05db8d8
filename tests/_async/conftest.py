import pytest

from holdfast import AsyncClient
from tests.support import config_for


@pytest.fixture
async def client(server):
    async with await AsyncClient.init(config_for(server)) as client:
        yield client


@pytest.fixture(params=["local", "pinning"])
async def store_client(request, memory_folder):
    """Each test once on the embedded store, and once through a node."""
    if request.param == "local":
        config = {"path": memory_folder / "store"}
    else:
        config = request.getfixturevalue("empty_node").config
    async with await AsyncClient.init(config) as client:
        yield client


@pytest.fixture
async def here(tmp_path):
    """One of two stores, to copy from."""
    async with AsyncClient.init(path=tmp_path / "here") as client:
        yield client


@pytest.fixture
async def there(tmp_path):
    """The other one, to copy to."""
    async with AsyncClient.init(path=tmp_path / "there") as client:
        yield client
