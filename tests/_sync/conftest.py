# WARNING: this file is generated from tests/_async/conftest.py
# by scripts/generate_sync.py. Change the original instead.
import pytest

from holdfast import Client
from tests.support import config_for


@pytest.fixture
def client(server):
    with Client.init(config_for(server)) as client:
        yield client
