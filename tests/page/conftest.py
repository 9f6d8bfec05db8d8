from contextlib import ExitStack

import pytest

from holdfast import Client
from tests.browser import Visit


@pytest.fixture
def node(empty_node):
    """A node of each test's own, because the page shows all that a node holds."""
    return empty_node


@pytest.fixture
def client(node):
    with Client.init(node.config) as client:
        yield client


@pytest.fixture
def new_visit(browser, node):
    """A function that starts a visit with options of its own. All are closed after the test."""
    with ExitStack() as visits:

        def new_visit(**options):
            visit = Visit(browser, node, **options)
            visits.callback(visit.close)
            return visit

        yield new_visit
