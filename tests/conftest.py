import pytest

from holdfast.testing import ScriptedServer, running_node


@pytest.fixture
def server():
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def other_server():
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def node():
    with running_node() as node:
        yield node
