import pytest

from holdfast import AsyncClient
from tests.support import config_for


@pytest.fixture
async def client(server):
    async with await AsyncClient.init(config_for(server)) as client:
        yield client


@pytest.fixture
async def local(tmp_path):
    """A client of an embedded store."""
    async with await AsyncClient.init(path=tmp_path / "store") as client:
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
async def source(tmp_path):
    """One of two stores, to copy from."""
    async with AsyncClient.init(path=tmp_path / "source") as client:
        yield client


@pytest.fixture
async def target(tmp_path):
    """The other one, to copy to."""
    async with AsyncClient.init(path=tmp_path / "target") as client:
        yield client


@pytest.fixture
def without_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
