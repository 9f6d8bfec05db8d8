# WARNING: this file is generated from tests/_async/conftest.py
# by scripts/generate_sync.py. Change the original instead.
import pytest

from holdfast import Client
from tests.support import config_for


@pytest.fixture
def client(server):
    with Client.init(config_for(server)) as client:
        yield client


@pytest.fixture
def local(tmp_path):
    """A client of an embedded store."""
    with Client.init(path=tmp_path / "store") as client:
        yield client


@pytest.fixture(params=["local", "pinning"])
def store_client(request, memory_folder):
    """Each test once on the embedded store, and once through a node."""
    if request.param == "local":
        config = {"path": memory_folder / "store"}
    else:
        config = request.getfixturevalue("empty_node").config
    with Client.init(config) as client:
        yield client


@pytest.fixture
def source(tmp_path):
    """One of two stores, to copy from."""
    with Client.init(path=tmp_path / "source") as client:
        yield client


@pytest.fixture
def target(tmp_path):
    """The other one, to copy to."""
    with Client.init(path=tmp_path / "target") as client:
        yield client


@pytest.fixture
def without_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
