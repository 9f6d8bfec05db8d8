import io
import math
import struct
import wave
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


@pytest.fixture(
    params=[f"{scheme} {width}" for scheme in ("light", "dark") for width in (390, 820, 1280)]
)
def view(request, new_visit):
    """The page in both schemes, on a phone, a tablet and a desk."""
    scheme, width = request.param.split()
    visit = new_visit(color_scheme=scheme, viewport={"width": int(width), "height": 900})
    visit.width = int(width)
    return visit


@pytest.fixture(scope="session")
def axe(javascript_packages):
    return (javascript_packages / "axe-core" / "axe.min.js").read_text()


# Nothing is under way: the list is not dimmed, and what fades in has faded in.
STILL = """() => document.querySelector('#pins').ariaBusy !== 'true'
    && document.getAnimations().every((each) => each.playState === 'finished')"""


def violations(tab, axe):
    """What axe-core finds, each with the elements that it is about."""
    tab.wait_for_function(STILL)
    tab.evaluate(f"() => {{ {axe} }}")
    results = tab.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    rules = results["violations"]
    return [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in rules]


def tone(seconds):
    target = io.BytesIO()
    with wave.open(target, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        samples = (round(9000 * math.sin(at / 3)) for at in range(8000 * seconds))
        sound.writeframes(b"".join(struct.pack("<h", sample) for sample in samples))
    return target.getvalue()
