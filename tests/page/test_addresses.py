"""The places of the page have addresses: Back, Forward, reload, and links that are shared.

Nothing here waits for a time: each step waits for what the address says to be shown.
"""

import re

import pytest
from playwright.sync_api import expect

from holdfast.content.cid import CID
from tests.browser import PNG

pytestmark = pytest.mark.slow


@pytest.fixture
def album(client, tmp_path):
    """The CID of a folder with a folder in it."""
    folder = tmp_path / "album"
    (folder / "in%2Fner ü").mkdir(parents=True)
    (folder / "in%2Fner ü" / "deep #1?.txt").write_text("deep")
    (folder / "a.png").write_bytes(PNG)
    (folder / "b.txt").write_text("b")
    return client.upload(folder).cid


def at(tab, path=""):
    """Wait until the address names a path, or the list, and the viewer is as it says."""
    end = f"#{re.escape(path)}$" if path else r"/(\?[^#]*)?$"
    expect(tab).to_have_url(re.compile(end))
    preview = tab.locator("#preview")
    expect(preview).to_be_visible() if path else expect(preview).to_be_hidden()


def test_back_closes_forward_opens_and_a_reload_keeps_the_place(visit, client):
    path = f"/ipfs/{client.upload(b'content', name='note.txt').cid}"
    tab = visit.open()
    for _ in range(2):
        tab.get_by_role("button", name="note.txt", exact=True).click()
        at(tab, path)
        expect(tab.locator("#content pre")).to_have_text("content")
        tab.go_back()
        at(tab)
        tab.go_forward()
        at(tab, path)
        tab.reload()
        at(tab, path)
        expect(tab.locator("#preview-title")).to_have_text("note.txt")
        expect(tab.locator("#content pre")).to_have_text("content")
        tab.go_back()
        at(tab)
    assert visit.complaints == []


def test_each_way_to_close_leads_to_the_address_of_the_list(visit, client):
    path = f"/ipfs/{client.upload(b'content', name='note.txt').cid}"
    tab = visit.open(f"{visit.node.api_url}/?search=note#token={visit.node.token}")
    ways = (
        lambda: tab.get_by_role("button", name="Close").click(),
        lambda: tab.keyboard.press("Escape"),
        lambda: tab.mouse.click(2, 400),  # beside the dialog
        lambda: tab.evaluate("document.querySelector('#preview').close()"),  # a browser of its own
        lambda: tab.evaluate("location.hash = ''"),  # by hand
    )
    for close in ways:
        tab.get_by_role("button", name="note.txt", exact=True).click()
        at(tab, path)
        expect(tab.locator("#content pre")).to_be_visible()
        close()
        expect(tab.locator("#preview")).to_be_hidden()
        expect(tab).to_have_url(re.compile(r"/\?search=note#?$"))
        expect(tab.get_by_role("button", name="note.txt", exact=True)).to_be_focused()
    expect(tab.locator("#content")).to_be_empty()


def test_what_was_closed_needs_no_step_back(visit, client, album):
    note = f"/ipfs/{client.upload(b'content', name='note.txt').cid}"
    tab = visit.open()
    expect(tab).to_have_title("Holdfast")
    lengths = []
    for _ in range(3):
        tab.get_by_role("button", name="note.txt", exact=True).click()
        at(tab, note)
        expect(tab).to_have_title("note.txt - Holdfast")
        tab.keyboard.press("Escape")
        at(tab)
        expect(tab).to_have_title("Holdfast")
        lengths.append(tab.evaluate("history.length"))
    assert len(set(lengths)) == 1  # one step for all that was opened and closed
    tab.get_by_role("button", name="album", exact=True).click()
    tab.locator(".entry", has_text="in%2Fner").click()
    expect(tab.locator(".entry")).to_have_count(1)
    tab.keyboard.press("Escape")
    at(tab)
    tab.get_by_role("button", name="note.txt", exact=True).click()
    at(tab, note)
    tab.go_back()
    at(tab)  # and not the folder, which was closed


def test_folders_have_addresses(visit, album):
    root = f"/ipfs/{album}"
    inner = f"{root}/in%252Fner%20%C3%BC"
    deep = f"{inner}/deep%20%231%3F.txt"
    tab = visit.open()
    tab.get_by_role("button", name="album", exact=True).click()
    at(tab, root)
    tab.locator(".entry", has_text="in%2Fner").click()
    at(tab, inner)
    tab.locator(".entry").click()
    at(tab, deep)
    expect(tab.locator("#content pre")).to_have_text("deep")
    tab.reload()
    expect(tab.locator("#content pre")).to_have_text("deep")
    expect(tab.locator("#crumbs")).to_have_text("album / in%2Fner ü / deep #1?.txt")
    tab.go_back()
    at(tab, inner)
    tab.go_back()
    at(tab, root)
    tab.locator(".entry", has_text="a.png").click()
    at(tab, f"{root}/a.png")
    tab.reload()
    expect(tab.locator("#position")).to_have_text("1 of 3")  # beside the others of the folder
    tab.keyboard.press("ArrowRight")
    at(tab, f"{root}/b.txt")
    expect(tab.locator("#content pre")).to_have_text("b")
    tab.go_back()  # the steps to a neighbour are no places to go back to
    at(tab, root)
    tab.go_back()
    at(tab)
    assert visit.complaints == []


def test_a_link_can_be_shared(view, node, client, album):
    link = f"{node.api_url}/#/ipfs/{album}/b.txt"
    view.open()
    tab = view.tab = view.new_tab()
    view.open(link)
    expect(tab.get_by_role("heading", name="Enter a token")).to_be_visible()
    expect(tab.locator("#preview")).to_be_hidden()
    menu = tab.get_by_role("button", name="Menu").bounding_box()
    assert view.width - 50 < menu["x"] + menu["width"] <= view.width  # at the right, as always
    tab.get_by_label("Token").fill(node.token)
    tab.get_by_role("button", name="Continue").click()
    expect(tab.locator("#content pre")).to_have_text("b")
    assert tab.url == link
    tab.evaluate(f"location.hash = '/ipfs/{album}/'")  # a slash at the end means nothing
    expect(tab.locator("#content .entry")).to_have_count(3)


def test_what_is_not_pinned_or_not_here_has_an_address_too(visit, node, client):
    record = client.upload(b"not pinned", name="x")
    client.revoke(record.cid)
    tab = visit.open_empty()
    tab.evaluate(f"location.hash = '/ipfs/{record.cid}'")
    expect(tab.locator("#content pre")).to_have_text("not pinned")
    expect(tab.locator("#preview-title")).to_have_text(record.cid)
    expect(tab.locator("#preview").get_by_role("button", name="Unpin")).to_have_count(0)
    tab.evaluate("location.hash = '/ipfs/nonsense'")
    expect(tab.locator("#content [role=alert]")).to_be_visible()
    tab.evaluate("location.hash = '/other'")
    expect(tab.locator("#preview")).to_be_hidden()


def test_a_late_answer_for_another_place_is_ignored(visit, client):
    paths = {
        name: f"/ipfs/{client.upload(name.encode(), name=name).cid}" for name in ("ant", "bee")
    }
    tab = visit.open()
    waiting = []
    tab.route(
        lambda url: "/page/item" in url and paths["ant"][6:] in url,
        lambda route: waiting.append(route),  # noqa: PLW0108
    )
    tab.get_by_role("button", name="ant", exact=True).click()
    at(tab, paths["ant"])
    with tab.expect_event("requestfailed"):  # the request for the old place is cancelled
        tab.go_back()
    at(tab)
    tab.get_by_role("button", name="bee", exact=True).click()
    expect(tab.locator("#content pre")).to_have_text("bee")
    tab.unroute_all(behavior="ignoreErrors")
    expect(tab.locator("#preview-title")).to_have_text("bee")
    expect(tab.locator("#facts")).to_contain_text(paths["bee"][6:])


@pytest.mark.parametrize("gone", ["the next", "all"])
def test_the_viewer_stays_where_the_next_page_has_become_empty(visit, node, gone):
    """The last pin of the first page is shown, and others unpin what comes after it, or all."""
    tab = visit.show(*(f"{number:03}" for number in range(51)))
    tab.get_by_role("button", name="001", exact=True).click()
    title, position = tab.locator("#preview-title"), tab.locator("#position")
    expect(position).to_have_text("50 of 51")
    place = tab.evaluate("location.hash")
    for pin in list(node.repository.pins()):
        if gone == "all" or pin.name == "000":
            node.repository.unpin(CID.parse(pin.cid))
    tab.keyboard.press("ArrowRight")
    expect(tab.locator("#after")).to_be_disabled()
    expect(position).to_have_text("" if gone == "all" else "50 of 50")
    expect(title).to_have_text(place.removeprefix("#/ipfs/") if gone == "all" else "001")
    expect(tab.locator("#content pre")).to_have_text("001")
    assert tab.evaluate("location.hash") == place
    if gone != "all":
        tab.keyboard.press("ArrowLeft")
        expect(title).to_have_text("002")
    tab.keyboard.press("Escape")
    expect(tab.locator("#empty") if gone == "all" else visit.row("001")).to_be_visible()
    assert visit.complaints == []


AS_ADDRESSED = """() => {
    const path = location.hash.slice(1);
    const isOpen = document.querySelector("#preview").open;
    const cid = document.querySelector("#facts code")?.textContent;
    const isEmpty = !document.querySelector("#content").firstChild;
    return path ? isOpen && path === `/ipfs/${cid}` : !isOpen && isEmpty;
}"""
STORM = """(round) => {
    const names = [...document.querySelectorAll("td.name button")];
    const close = document.querySelector("#preview .close");
    names[round % 2].click();
    close.click();
    history.back();
    names[0].click();
    names[1].click();
    history.go(-2);
    document.querySelector("#after").click();
    history.forward();
    round % 3 || close.click();
}"""


def test_many_changes_at_once_end_where_the_address_says(visit):
    """All of a round is one task: no answer and no event comes in between."""
    tab = visit.show("ant", "bee")
    for round_ in range(12):
        tab.evaluate(STORM, round_)
        tab.wait_for_function(AS_ADDRESSED)
    tab.wait_for_function(AS_ADDRESSED)
    assert visit.complaints == []
