import pytest

from holdfast.testing import ScriptedServer, ScriptedService


@pytest.fixture
def server():
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def other_server():
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def service():
    with ScriptedService() as service:
        yield service
