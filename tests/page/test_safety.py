"""The page in a real browser: its token, and content that would like to have it."""

import json
from collections import Counter

import pytest
from playwright.sync_api import expect

from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.node.settings import NodeToken
from holdfast.testing import running_node
from tests.browser import PNG

pytestmark = pytest.mark.slow

LISTER = NodeToken(token="only-looks-0123456789", scopes=frozenset({"pinList"}))
WRITER = NodeToken(token="only-writes-0123456789", scopes=frozenset({"pinJSONToIPFS"}))


@pytest.fixture
def empty_node():
    with running_node(tokens=(LISTER, WRITER)) as node:
        yield node


# Tokens


def test_without_a_token_it_asks_for_one(visit, node, client):
    client.upload(b"x", name="secret")
    tab = visit.open(f"{node.api_url}/")
    expect(tab.get_by_role("heading", name="Enter a token")).to_be_visible()
    expect(tab.locator("#workspace")).to_be_hidden()
    tab.get_by_label("Token").fill("cut\u2026")
    tab.get_by_role("button", name="Continue").click()
    expect(tab.get_by_text("This is not a token")).to_be_visible()
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
    expect(other.get_by_role("heading", name="Enter a token")).to_be_visible()  # for one tab alone


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
    api = ("pinList", "userPinnedDataTotal", "testAuthentication")
    assert with_token == {f"/data/{call}" for call in api}
    assert not [request for request in visit.requests if "referer" in request.all_headers()]
    assert tab.evaluate("history.length") == 3  # about:blank, the list without the token, the pin
    assert node.token not in tab.content() + tab.evaluate("location.href")


def test_tokens_that_may_only_look_or_not_look(visit, node, client):
    client.upload(b"kept", name="kept")
    tab = visit.open(f"{node.api_url}/#token={LISTER.token}")
    expect(visit.row("kept")).to_be_visible()
    expect(tab.locator("#totals")).to_have_text("")  # which it may not ask for
    visit.row("kept").get_by_role("button", name="Unpin").click()
    tab.get_by_role("dialog").get_by_role("button", name="Unpin").click()
    expect(tab.locator("#confirm-error")).to_contain_text("does not have the required scopes")
    dialog = tab.get_by_role("dialog")
    dialog.get_by_role("button", name="Keep").click()
    expect(visit.row("kept")).to_be_visible()
    assert node.repository.totals().pins == 1
    tab.get_by_role("button", name="Change token").click()
    expect(visit.row("kept")).to_be_hidden()
    tab.get_by_label("Token").fill("wrong")
    tab.get_by_role("button", name="Continue").click()
    expect(tab.locator("#sign-in-error")).to_contain_text("does not accept this token")
    tab.get_by_role("button", name="Cancel").click()
    expect(visit.row("kept")).to_be_visible()  # with the token from before
    tab.get_by_role("button", name="Change token").click()
    tab.get_by_label("Token").fill(WRITER.token)
    tab.get_by_role("button", name="Continue").click()
    expect(tab.locator("#list-error")).to_contain_text("does not have the required scopes")
    expect(tab.locator("#paging")).to_be_hidden()


@pytest.mark.parametrize("token", ["wrong", "cut\u2026", "a b"])
def test_a_link_with_a_bad_token_ends_no_session(visit, node, token):
    tab = visit.show("mine")
    tab.evaluate("token => { location.hash = `token=${encodeURIComponent(token)}` }", token)
    expect(tab.locator("#notices .failed")).to_be_visible()
    expect(visit.row("mine")).to_be_visible()
    tab.reload()
    expect(visit.row("mine")).to_be_visible()
    assert "#" not in tab.url


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<!DOCTYPE html><p>captive portal", "The node replied with status 502."),
        ({}, "The node replied with status 502."),
        ({"error": {"foo": 1}}, "The node replied with status 502."),
        ({"error": {"reason": "R", "details": "in words"}}, "in words"),
    ],
    ids=["page", "empty", "other shape", "ours"],
)
def test_refusals_of_all_shapes_are_words(visit, node, body, words):
    tab = visit.open_empty()
    reply = {"status": 502, "body": body if isinstance(body, bytes) else json.dumps(body)}
    tab.route("**/data/pinList?*", lambda route: route.fulfill(**reply))
    tab.get_by_role("button", name="Refresh").click()
    expect(tab.locator("#list-error")).to_have_text(words)


def test_replies_that_are_none_of_the_nodes(visit, node, tmp_path):
    (tmp_path / "file").write_text("x")
    tab = visit.open_empty()
    tab.route("**/pinning/*", lambda route: route.fulfill(status=200, body="<p>portal"))
    tab.set_input_files("#files", tmp_path / "file")
    expect(tab.get_by_text("file: The server at this address is not the node")).to_be_visible()
    tab.keyboard.press("j")
    tab.keyboard.type("[1]")
    tab.get_by_role("button", name="Pin", exact=True).click()
    expect(tab.locator("#json-error")).to_contain_text("The server at this address is not the node")


def test_a_pin_that_is_gone_already_is_as_good_as_unpinned(visit, node, client):
    record = client.upload(b"gone", name="gone")
    tab = visit.open()
    visit.row("gone").get_by_role("button", name="Unpin").click()
    client.revoke(record.cid)
    tab.get_by_role("dialog").get_by_role("button", name="Unpin").click()
    expect(tab.get_by_text("gone is unpinned")).to_be_visible()
    expect(tab.locator("#empty")).to_be_visible()


# What was pinned runs nothing

STEAL = "document.title = 'owned'; fetch('/data/pinList'); parent.document.title = 'owned'"
HOSTILE = {
    "page.html": f"<!DOCTYPE html><title>t</title><script>{STEAL}</script><p>page",
    "handler.html": f'<!DOCTYPE html><img src=x onerror="{STEAL}"><svg onload="{STEAL}"></svg>',
    "image.svg": f'<svg xmlns="http://www.w3.org/2000/svg" onload="{STEAL}"><script>{STEAL}'
    '</script><rect width="9" height="9"/></svg>',
    "page.xhtml": f'<html xmlns="http://www.w3.org/1999/xhtml"><script>{STEAL}</script></html>',
    "frame.html": '<!DOCTYPE html><iframe src="/#token=x"></iframe><p>framed',
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
    assert tab.title().endswith(" - Holdfast")
    requests = [request.url for request in visit.requests if request.frame.page is other]
    assert not [url for url in requests if "/data/" in url]


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
    tab.locator("#content .entry").click()
    expect(tab.locator("#content")).to_contain_text("<b>bold</b>")
    assert tab.title().endswith(" - Holdfast")


def test_the_policy_of_the_page(visit, client):
    script = client.upload(b"document.title = 'owned'", name="a.js")
    style = client.upload(b"body { display: none }", name="a.css")
    tab = visit.open()
    expect(visit.row("a.js")).to_be_visible()
    tab.evaluate("""() => {
        window.violated = [];
        document.addEventListener(
            "securitypolicyviolation", (event) => violated.push(event.effectiveDirective));
    }""")
    pinned = f"/ipfs/{script.cid}?filename=a.js"
    attempts = {
        "script-src-elem": f"import('{pinned}').catch(() => {{}})",
        "require-trusted-types-for": f"""document.body.append(
            Object.assign(document.createElement("script"), {{src: "{pinned}"}}))""",
        "connect-src": "fetch('http://192.0.2.1/').catch(() => {})",
        "img-src": 'new Image().src = "http://192.0.2.1/x"',
        "frame-src": f"""const f = document.createElement("iframe"); f.src = "/ipfs/{script.cid}";
            document.body.append(f)""",
        "style-src-elem": f"""const l = document.createElement("link"); l.rel = "stylesheet";
            l.href = "/ipfs/{style.cid}?filename=a.css"; document.head.append(l)""",
        "style-src-attr": "document.body.setAttribute('style', 'display: none')",
        "form-action": """const f = document.createElement("form"); f.action = "/ipfs/x";
            document.body.append(f); f.submit()""",
        "base-uri": """const b = document.createElement("base"); b.href = "http://192.0.2.1/";
            document.head.append(b)""",
    }
    as_types = (
        "document.body.innerHTML = '<b>x</b>'",
        f"navigator.serviceWorker.register('{pinned}')",
        f"new Worker('{pinned}')",
    )
    for attempt in (*attempts.values(), *as_types):
        tab.evaluate(f"() => {{ try {{ {attempt} }} catch (error) {{}} }}")
    tab.wait_for_timeout(500)
    assert Counter(tab.evaluate("violated")) == Counter(
        [*attempts, *["require-trusted-types-for"] * len(as_types)]
    )
    assert tab.evaluate("document.title") == "Holdfast"
    assert tab.evaluate("document.body.innerText").count("bafkrei") == 2  # not styled away
    elsewhere = [request for request in visit.requests if "192.0.2.1" in request.url]
    assert {request.failure for request in elsewhere} <= {"csp"}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("   ", "(no name)"),
        ("\u200b", "(no name)"),
        ("\u202efdp.exe", "\ufffdfdp.exe"),
        ("a\nb", "a\ufffdb"),
        ("שלום.txt", "שלום.txt"),
    ],
    ids=["blank", "invisible", "reversed", "line", "hebrew"],
)
def test_names_that_hide_or_reorder_text_are_shown_plainly(visit, node, name, shown):
    node.repository.add(b"x", UNIXFS_V1_2025, name=name)
    tab = visit.open()
    button = visit.row(shown).get_by_role("button", name=shown, exact=True)
    expect(button).to_be_visible()
    assert button.bounding_box()["width"] > 20
    button.click()
    expect(tab.locator("#preview-title")).to_have_text(shown)
