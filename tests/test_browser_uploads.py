"""The example of uploads from browsers, in a real browser, against the node."""

import pytest
import urllib3
from playwright.sync_api import expect

from holdfast import compute_cid
from tests.browser import PNG
from tests.commands import node_variables
from tests.test_examples import running_service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def address(empty_node, tmp_path):
    variables = node_variables(empty_node, "pinata")
    with running_service(tmp_path, "browser_upload", **variables) as url:
        yield url


def choose(tab, name, media_type, content):
    file = {"name": name, "mimeType": media_type, "buffer": content}
    tab.locator("input[type=file]").set_input_files(file)
    return tab.get_by_role("status")


def test_an_image_goes_straight_to_the_service(visit, address, empty_node):
    tab = visit.open(address)
    cid = compute_cid(PNG, profile="kubo-legacy-cidv1")
    expect(choose(tab, "kelp.png", "image/png", PNG)).to_have_text(f"kelp.png is {cid}")
    assert empty_node.repository.totals().pins == 1
    assert visit.complaints == []
    # Neither the page nor any request of the browser has the key.
    sent = "".join(f"{request.url} {request.headers}" for request in visit.requests)
    assert empty_node.token not in sent + tab.content()


def test_what_the_link_does_not_allow_is_refused(visit, address, empty_node):
    tab = visit.open(address)
    status = choose(tab, "x.html", "text/html", b"<p>")
    expect(status).to_contain_text("does not grant permissions to upload detected MIME type")
    status = choose(tab, "large.png", "image/png", PNG + bytes(5_000_001))
    expect(status).to_contain_text("larger than the 5000000 bytes")
    assert empty_node.repository.totals().pins == 0


def test_the_server_believes_no_cid(address):
    for cid, status in (("nonsense", 422), (compute_cid(b"never uploaded"), 404)):
        reply = urllib3.request("POST", f"{address}/images/{cid}", retries=False)
        assert (reply.status, list(reply.json())) == (status, ["detail"])
