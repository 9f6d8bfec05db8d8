"""The page in a real browser: its token, and content that would like to have it."""

import json

import pytest
from playwright.sync_api import expect

from holdfast import Client
from holdfast.node.settings import NodeToken
from holdfast.testing import running_node
from tests.browser import PNG, Visit

pytestmark = pytest.mark.slow

LISTER = NodeToken(token="only-looks-0123456789", scopes=frozenset({"pinList"}))


@pytest.fixture
def node():
    with running_node(tokens=(LISTER,)) as node:
        yield node


@pytest.fixture
def client(node):
    with Client.init(node.config) as client:
        yield client


# Tokens


def test_without_a_token_it_asks_for_one(visit, node, client):
    client.upload(b"x", name="secret")
    tab = visit.open(f"{node.api_url}/")
    expect(tab.get_by_role("heading", name="Which token?")).to_be_visible()
    expect(tab.locator("#workspace")).to_be_hidden()
    tab.get_by_label("Token").fill("wrong")
    tab.get_by_role("button", name="Continue").click()
    expect(tab.get_by_text("The node does not accept this token.").first).to_be_visible()
    tab.get_by_label("Token").fill(f" {node.token} ")
    tab.get_by_role("button", name="Continue").click()
    expect(visit.row("secret")).to_be_visible()
    tab.reload()
    expect(visit.row("secret")).to_be_visible()
    other = visit.new_tab()
    other.goto(f"{node.api_url}/")
    expect(other.get_by_role("heading", name="Which token?")).to_be_visible()  # for one tab alone


def test_the_token_goes_to_the_api_alone(visit, node, client):
    client.upload(PNG, name="dot.png")
    tab = visit.open()
    tab.get_by_role("button", name="dot.png", exact=True).click()
    expect(tab.locator("#content img")).to_be_visible()
    with visit.context.expect_page() as opened:
        tab.get_by_text("Open in a tab").click()
    opened.value.wait_for_load_state()
    assert opened.value.evaluate("window.opener") is None
    with_token = {
        request.url.removeprefix(node.api_url).split("?")[0]
        for request in visit.requests
        if node.token in json.dumps(request.all_headers()) + request.url
    }
    assert with_token == {"/data/pinList", "/data/userPinnedDataTotal"}
    assert not [each for each in visit.requests if "referer" in each.all_headers()]
    assert tab.evaluate("history.length") == 2  # about:blank, and the address without the token
    assert node.token not in tab.content() + tab.evaluate("location.href")


def test_a_token_that_may_only_look(visit, node, client):
    client.upload(b"kept", name="kept")
    tab = visit.open(f"{node.api_url}/#token={LISTER.token}")
    expect(tab.get_by_text("does not have the required scopes")).to_be_visible()
    assert node.repository.totals().pins == 1


def test_a_refused_unpin_is_said_in_its_dialog(visit, node, client):
    client.upload(b"kept", name="kept")
    tab = visit.open()
    visit.row("kept").get_by_role("button", name="Unpin").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog).to_contain_text("kept")
    dialog.get_by_role("button", name="Keep").click()
    expect(visit.row("kept")).to_be_visible()
    visit.row("kept").get_by_role("button", name="Unpin").click()
    node.fail_next(status=403, body={"error": "not today"})
    dialog.get_by_role("button", name="Unpin").click()
    expect(tab.locator("#confirm-error")).to_have_text("not today")
    tab.keyboard.press("Escape")
    expect(visit.row("kept")).to_be_visible()


def test_a_node_that_is_gone(browser):
    with running_node() as node:
        visit = Visit(browser, node)
        tab = visit.open()
        expect(tab.locator("#empty")).to_be_visible()
    tab.get_by_role("button", name="Refresh").click()
    expect(tab.get_by_text("The node does not answer.")).to_be_visible()
    visit.close()


# What was pinned runs nothing

STEAL = "document.title = 'owned'; fetch('/data/pinList'); parent.document.title = 'owned'"
HOSTILE = {
    "page.html": f"<!DOCTYPE html><title>t</title><script>{STEAL}</script><p>page",
    "handler.html": f'<!DOCTYPE html><img src=x onerror="{STEAL}"><svg onload="{STEAL}"></svg>',
    "image.svg": f'<svg xmlns="http://www.w3.org/2000/svg" onload="{STEAL}"><script>{STEAL}'
    '</script><rect width="9" height="9"/></svg>',
    "page.xhtml": f'<html xmlns="http://www.w3.org/1999/xhtml"><script>{STEAL}</script></html>',
    "frame.html": '<!DOCTYPE html><iframe src="/#token=x"></iframe><p>framed',
    "worker.html": "<!DOCTYPE html><script>navigator.serviceWorker.register('worker.js')</script>",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_pinned_content_runs_no_script(visit, client, name):
    record = client.upload(HOSTILE[name].encode(), name=name)
    tab = visit.open()
    tab.get_by_role("button", name=name, exact=True).click()
    expect(tab.locator("#content > *").first).to_be_visible()
    other = visit.new_tab()
    for address in (client.url(record.cid), f"{client.url(record.cid)}?filename={name}"):
        other.goto(address)
        other.wait_for_timeout(200)
        assert other.title() != "owned"
        for frame in other.frames[1:]:  # the page lets nobody frame it
            assert "Holdfast" not in frame.content()
    assert tab.title() == "Holdfast"
    assert not [
        each for each in visit.requests if each.frame.page is other and "/data/" in each.url
    ]


def test_names_are_only_text(visit, client, tmp_path):
    name = "<img src=x onerror=\"document.title='owned'\">"
    client.upload(b"{}", name=name)
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "<script>document.title='owned'<!--").write_text("<b>bold</b>")
    tab = visit.open()
    tab.set_input_files("#folder", folder)
    expect(visit.row("f")).to_be_visible()
    assert name in visit.names()
    visit.row(name).get_by_role("button", name="Unpin").click()
    expect(tab.locator("#confirm-name")).to_have_text(name)
    tab.keyboard.press("Escape")
    tab.get_by_role("button", name="f", exact=True).click()
    tab.locator("#content").get_by_role("button").click()
    expect(tab.locator("#content")).to_contain_text("<b>bold</b>")
    assert tab.title() == "Holdfast"


def test_the_policy_of_the_page(visit, client):
    script = client.upload(b"document.title = 'owned'", name="a.js")
    style = client.upload(b"body { display: none }", name="a.css")
    tab = visit.open()
    expect(visit.row("a.js")).to_be_visible()
    attempts = {
        "pinned script": f"""const s = document.createElement("script");
            s.setAttribute("src", "/ipfs/{script.cid}?filename=a.js"); document.body.append(s)""",
        "HTML": "document.body.innerHTML = '<b>x</b>'",
        "eval": "setTimeout('document.title = \"owned\"')",
        "another host": "await fetch('http://192.0.2.1/')",
        "image from another host": """const i = new Image(); i.src = "http://192.0.2.1/x";
            await new Promise((ok, no) => { i.onerror = () => no(new Error("blocked")) })""",
        "frame": f"""const f = document.createElement("iframe"); f.src = "/ipfs/{script.cid}";
            document.body.append(f); await new Promise(ok => setTimeout(ok, 200));
            if (!f.contentDocument) throw new Error("blocked")""",
        "pinned style": f"""const l = document.createElement("link"); l.rel = "stylesheet";
            l.href = "/ipfs/{style.cid}?filename=a.css"; document.head.append(l);
            await new Promise((ok, no) => {{ l.onerror = () => no(new Error("blocked")) }})""",
    }
    for what, attempt in attempts.items():
        tried = f"try {{ {attempt} }} catch (error) {{ return 'refused' }} return 'done'"
        outcome = tab.evaluate(f"async () => {{ {tried} }}")
        assert outcome == "refused" or what == "pinned script", what
    tab.wait_for_timeout(200)
    assert tab.title() == "Holdfast"
    expect(visit.row("a.js")).to_be_visible()
    assert len(visit.complaints) >= len(attempts) - 1  # the browser says why
    elsewhere = [request for request in visit.requests if "192.0.2.1" in request.url]
    assert {request.failure for request in elsewhere} <= {"csp"}
