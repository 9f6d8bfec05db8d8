"""The page for everybody: axe-core's rules, contrast, keyboard, motion and touch."""

import pytest
from playwright.sync_api import expect

from tests.browser import PNG, touch_screen
from tests.page.conftest import tone, violations

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def check(view, axe):
    """Compares what axe-core finds with nothing, then closes an open dialog."""

    def check():
        assert violations(view.tab, axe) == []
        if view.tab.locator("dialog[open]").count():
            view.tab.keyboard.press("Escape")
            expect(view.tab.locator("dialog[open]")).to_have_count(0)

    return check


# The walks of test_widths.py look at an empty list in all views.
in_two_views = pytest.mark.parametrize("view", ["light 390", "dark 820"], indirect=True)


@in_two_views
def test_axe_finds_nothing_before_there_are_pins(view, node, check):
    tab = view.open(f"{node.api_url}/")
    expect(tab.get_by_role("heading", name="Enter a token")).to_be_visible()
    check()
    view.open(f"{node.api_url}/#token={node.token}")
    expect(tab.locator("#empty")).to_be_visible()
    check()


def test_axe_finds_nothing_in_the_list(view, node, client, check, tmp_path):
    for number in range(60):
        client.upload(str(number).encode(), name=f"n{number}")
    tab = view.open()
    expect(tab.locator("#paging")).to_be_visible()
    check()
    tab.get_by_role("checkbox", name="Select: n59").check()
    check()
    tab.get_by_role("button", name="Menu").click()
    check()
    tab.keyboard.press("Escape")
    tab.route("**/pinFileToIPFS", lambda route: route.abort())
    (tmp_path / "file").write_text("x")
    tab.set_input_files("#files", tmp_path / "file")
    expect(tab.locator("#upload-list .failed")).to_be_visible()
    tab.route("**/data/pinList?*", lambda route: route.abort())
    tab.get_by_role("button", name="Refresh").click()
    expect(tab.locator("#problem")).to_be_visible()
    check()


def test_axe_finds_nothing_in_the_dialogs(view, client, check):
    client.upload(b"x", name="only", keyvalues={"kind": "test"})
    tab = view.open()
    expect(view.row("only")).to_be_visible()
    for key in ("j", "p", "?"):
        tab.keyboard.press(key)
        check()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Delete")
    check()
    tab.keyboard.press("e")
    tab.get_by_role("button", name="Add a key-value").click()
    check()


def test_axe_finds_nothing_in_the_viewer(view, client, check, tmp_path):
    client.upload(b"# Title\n\nText with a [link](https://example.com).\n", name="a.md")
    client.store({"a": [1, None, "x"]}, name="b.json", keyvalues={"kind": "test"})
    client.upload(b"a,b\n1,2\n", name="c.csv")
    client.upload(b"%PDF-1.7", name="d.pdf")
    client.upload(PNG, name="e.png")
    client.upload(tone(1), name="f.wav")
    client.upload(b"RIFF", name="g.wav")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file.txt").write_text("x")
    (tmp_path / "folder" / "dot.png").write_bytes(PNG)
    client.upload(tmp_path / "folder")
    tab = view.open()
    for name, shown in {
        "a.md": "article",
        "b.json": ".json",
        "c.csv": "table",
        "d.pdf": ".no-preview",
        "e.png": "img",
        "f.wav": "audio",
        "g.wav": ".note",
        "folder": ".entry",
    }.items():
        tab.get_by_role("button", name=name, exact=True).click()
        expect(tab.locator(f"#content {shown}").first).to_be_visible()
        check()
    tab.get_by_role("button", name="folder", exact=True).click()
    tab.locator(".entry").first.click()
    expect(tab.locator("#content img")).to_be_visible()
    check()


def test_everything_is_reached_by_the_tab_key(visit):
    tab = visit.show("only")
    names = []
    for _ in range(40):
        tab.keyboard.press("Tab")
        name = tab.evaluate("""() => {
            const focused = document.activeElement;
            return focused.ariaLabel || focused.textContent.trim() || focused.id;
        }""")
        outline = tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        if tab.evaluate("document.activeElement === document.body"):
            break
        assert outline != "none", name  # the focus is seen
        names.append(name)
    assert names == [
        *("Refresh", "Change token", "Menu", "Search names, CIDs and key-values"),
        *("Pin by CID", "Write JSON", "Upload folder", "Upload files"),
        *("Select all pins on this page", "Name", "Type", "Size", "Pinned"),
        *("Select: only", "only", "Copy CID: only", "Copy link: only"),
        *("Edit: only", "Unpin: only"),
    ]


def test_reduced_motion_is_respected(new_visit, client):
    client.upload(b"x", name="still")
    for motion, expected in (("reduce", 0), ("no-preference", 1)):
        tab = new_visit(reduced_motion=motion).open()
        tab.get_by_role("button", name="still", exact=True).click()
        expect(tab.locator("#content pre")).to_be_visible()
        script = "getComputedStyle(document.querySelector('#preview')).animationName !== 'none'"
        assert int(tab.evaluate(script)) == expected


def test_on_a_tablet_the_actions_are_always_there(new_visit, client):
    client.upload(b"x", name="touched")
    visit = new_visit(**touch_screen(1024, 768))
    tab = visit.open()
    actions = visit.row("touched").locator("td.row-actions > div")
    expect(actions).to_have_css("opacity", "1")
    date = visit.row("touched").locator("td.date").bounding_box()
    assert date["x"] + date["width"] <= actions.bounding_box()["x"]
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_on_a_phone_everything_is_in_the_preview(new_visit, client):
    client.upload(PNG, name="touched.png")
    client.store({"text": "x" * 500})
    visit = new_visit(**touch_screen(320, 640))
    tab = visit.open()
    expect(visit.row("touched.png")).to_be_visible()
    for button in tab.locator("#workspace button:visible").all():
        if button.evaluate("button => !button.classList.contains('plain')"):
            assert button.bounding_box()["height"] >= 40
    tab.select_option("#sort", "size DESC")
    expect(tab.locator("#pins td.name").first).to_contain_text('{"text":"xxx')
    visit.row("touched.png").locator("td.size").tap()
    expect(tab.locator("#content img")).to_be_visible()
    for name in ("Copy CID", "Copy link", "Edit", "Unpin"):
        button = tab.locator("#preview").get_by_role("button", name=name)
        expect(button).to_be_visible()
        assert button.bounding_box()["height"] >= 40
    dialog = tab.locator("#preview").bounding_box()
    assert 0 <= dialog["x"] <= 320 - dialog["width"]
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.locator("#preview").get_by_role("button", name="Unpin").tap()
    tab.locator("#confirm-yes").tap()
    expect(tab.locator("#pins tbody tr")).to_have_count(1)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
