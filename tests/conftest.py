import pytest

from holdfast.testing import ScriptedServer, running_node
from tests.browser import Visit, running_browser
from tests.commands import Commands


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


@pytest.fixture
def commands(tmp_path):
    return Commands(tmp_path)


@pytest.fixture(scope="module")
def browser():
    with running_browser() as browser:
        yield browser


@pytest.fixture
def visit(browser, node):
    visit = Visit(browser, node)
    yield visit
    visit.close()
