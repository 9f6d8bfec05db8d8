"""The page on a phone, a tablet and a desk, light and dark: one walk for each part of it."""

import io
import tarfile

import pytest
from playwright.sync_api import expect

from holdfast import car, compute_cid
from holdfast.content.cid import CID
from holdfast.records import PinInfo
from holdfast.repository.ledger import CopyState, Ledger
from tests.browser import PNG
from tests.page.conftest import violations

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

# What is outside of the window, what is cut by its box, and buttons without words. A CID is
# shortened on purpose, and at a desk long names are.
POOR = """() => {
    const root = document.querySelector("dialog[open]") ?? document.body;
    const isDesk = innerWidth > 900;
    const BOXES = "button, .button, td";
    const OTHERS = ".hidden, svg, input, .cid, .fold, #notices";
    const poor = [];
    for (const each of root.querySelectorAll("*")) {
        const box = each.getBoundingClientRect();
        if (!each.checkVisibility({ opacityProperty: true }) || each.closest(OTHERS)) continue;
        const style = getComputedStyle(each);
        const isLost = box.width && (box.left < -1 || box.right > innerWidth + 1);
        const hides = ["hidden", "clip"].includes(style.overflowX) && !(isDesk && each.title);
        const isFull = each.clientWidth && each.scrollWidth > each.clientWidth + 1;
        const isCut = isFull && (hides || each.matches("#start pre"));
        const spills = isFull && style.overflowX === "visible" && each.matches(BOXES);
        const isDumb = each.matches("button") && !each.innerText.trim() && !isDesk;
        if (isLost || isCut || spills || isDumb) poor.push(each.outerHTML.slice(0, 120));
    }
    return poor;
}"""


@pytest.fixture
def sound(view, axe):
    """Checks that nothing is cut off, that buttons have words, and that axe-core is content."""

    def sound():
        assert violations(view.tab, axe) == []
        assert view.tab.evaluate(POOR) == []

    return sound


def test_the_list(view, node, client, sound):
    """Types are words; key-values are shown, searched and set; the ledger's places are shown."""
    client.store([1], name="list.json", keyvalues={"kind": "test", "rank": 7})
    client.upload(PNG, name="a picture with a long name, as cameras and people write them.png")
    ledger = Ledger(node.repository.path / "copies")
    for text, states in {b"[1]": ("proven", "claimed"), PNG: ("proven", "missing")}.items():
        cid = CID.parse(compute_cid(text))
        ledger.intend(cid, PinInfo(), ["disk", "pinata"], want=2)
        ledger.note(cid, dict(zip(("disk", "pinata"), map(CopyState, states), strict=True)))
    tab = view.open()
    row = view.row("list.json")
    expect(row.locator(".type")).to_have_text("JSON")
    expect(tab.locator("#pins .type").first).to_have_text("PNG image")
    tags = ["claimed: pinata", "proven: disk", "kind: test", "rank: 7"]
    expect(row.locator(".tag")).to_have_text(tags)
    expect(tab.locator("#pins tr").nth(1).locator(".tag.missing")).to_have_text("missing: pinata")
    ways = tab.locator("#sort:visible, th[data-sort]:visible button")
    expect(ways).to_have_count(1 if view.width < 900 else 4)
    sound()

    tab.fill("#search", "KIND=te")
    expect(tab.locator("#pins tbody tr")).to_have_count(1)
    expect(row).to_be_visible()
    tab.fill("#search", "nothing has this")
    expect(tab.locator("#empty-title")).to_contain_text("contains “nothing has this”")
    sound()
    tab.get_by_role("button", name="Clear search").click()
    expect(tab.locator("#pins tbody tr")).to_have_count(2)
    expect(tab.locator("#search")).to_have_value("")

    tab.get_by_role("button", name="list.json", exact=True).click()
    expect(tab.locator("#facts dd", has_text="pinata")).to_be_visible()
    sound()
    tab.locator("#preview").get_by_role("button", name="Edit").click()
    tab.locator("#pairs li").nth(0).get_by_label("Value").fill("other")
    sound()
    tab.get_by_role("button", name="Save").click()
    expect(tab.locator("#facts dd", has_text="other")).to_be_visible()
    (pin,) = (pin for pin in node.repository.pins() if pin.name == "list.json")
    assert pin.keyvalues == {"kind": "other", "rank": 7}
    ledger.note(CID.parse(pin.cid), {"pinata": CopyState("proven")})
    tab.keyboard.press("Escape")
    expect(row.locator(".tag").first).to_have_text("proven: disk, pinata")  # the ledger's news
    ledger.close()


def test_uploads_and_pins_by_cid(view, node, client, sound, tmp_path):
    """An upload says when it is done, with a link; an archive is imported; typed text stays."""
    folder = tmp_path / "album"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    archive = tmp_path / "album.car"
    root = car.pack(folder, archive)
    tab = view.open_empty()
    sound()
    for name in ("Upload files", "Upload folder"):
        expect(tab.get_by_role("button", name=name)).to_be_visible()
    (tmp_path / "note.txt").write_text("from the page")
    tab.set_input_files("#files", tmp_path / "note.txt")
    expect(tab.locator("#uploaded")).to_contain_text("note.txt is uploaded")
    tab.get_by_role("button", name="Copy link", exact=True).first.click()
    expect(tab.locator("#notices")).to_contain_text("Link copied")
    assert view.clipboard() == client.url(compute_cid(b"from the page"))
    sound()
    tab.get_by_role("button", name="Dismiss").click()
    expect(tab.locator("#uploaded")).to_be_hidden()
    view.drop(archive)
    expect(view.row("album").locator(".type")).to_have_text("Folder")
    expect(tab.locator("#uploaded")).to_contain_text("album.car is uploaded")
    assert {pin.cid for pin in node.repository.pins()} >= {root}

    missing = compute_cid(b"nobody has this")
    tab.get_by_role("button", name="Pin by CID").click()
    tab.get_by_label("CID or link").fill(missing)
    tab.get_by_role("textbox", name="Name", exact=True).fill("wanted")
    tab.get_by_role("button", name="Pin", exact=True).click()
    expect(tab.locator("#by-cid-error")).to_contain_text("none of the node's gateways has it")
    expect(tab.get_by_label("CID or link")).to_have_value(missing)
    expect(tab.get_by_role("textbox", name="Name", exact=True)).to_have_value("wanted")
    sound()


def test_the_token(view, node, client, sound):
    """A change of the token can be cancelled, and drops nothing before the new one works."""
    client.upload(b"x", name="kept")
    tab = view.open()
    tab.get_by_role("checkbox", name="Select: kept").check()
    change = tab.get_by_role("button", name="Change token")
    change.click()
    tab.get_by_label("Token").fill("wrong")
    tab.get_by_role("button", name="Continue").click()
    expect(tab.locator("#sign-in-error")).to_contain_text("does not accept this token")
    sound()
    tab.get_by_role("button", name="Cancel").click()
    expect(tab.locator("#selected")).to_have_text("1 pin selected")
    sound()
    change.click()
    tab.keyboard.press("Escape")
    expect(tab.locator("#selected")).to_have_text("1 pin selected")
    client.upload(b"y", name="new")
    expect(view.row("new")).to_be_visible()  # the old token still works
    change.click()
    tab.get_by_label("Token").fill(node.token)
    tab.get_by_role("button", name="Continue").click()
    expect(view.row("kept")).to_be_visible()


def test_a_folder(view, node, client, sound, tmp_path):
    """A folder is a list or a grid in natural order, is downloaded as tar, and has an address."""
    folder = tmp_path / "album"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "deep.txt").write_text("deep")
    for number in (1, 2, 10):
        (folder / f"{number}.txt").write_text(str(number))
    client.upload(folder)
    tab = view.open()
    tab.get_by_role("button", name="album", exact=True).click()
    names = tab.locator("#content .entry-name")
    expect(names).to_have_text(["1.txt", "2.txt", "10.txt", "inner"])
    sound()
    tab.get_by_role("button", name="List").click()
    expect(tab.locator("#content .entry-type").first).to_have_text("Text")
    expect(tab.locator("#content .entry-type").first).to_be_visible()
    sound()
    with tab.expect_download() as download:
        tab.get_by_role("link", name="Download tar").click()
    assert download.value.suggested_filename == "album.tar"
    with tarfile.open(fileobj=io.BytesIO(download.value.path().read_bytes())) as archive:
        assert {"10.txt", "deep.txt"} <= {name.split("/")[-1] for name in archive.getnames()}
    tab.locator(".entry", has_text="inner").click()
    expect(tab.locator("#content .as-list")).to_be_visible()  # the choice is kept
    tab.locator(".entry", has_text="deep").click()
    expect(tab.locator("#content pre")).to_have_text("deep")
    sound()
    tab.reload()
    expect(tab.locator("#content pre")).to_have_text("deep")  # the address keeps the place
    for names_shown in (["deep.txt"], ["1.txt", "2.txt", "10.txt", "inner"]):
        tab.go_back()
        expect(names).to_have_text(names_shown)
    tab.go_back()
    expect(tab.locator("#preview")).to_be_hidden()


def test_an_item_has_one_size(view, client, sound, tmp_path):
    """Of a pin, that of all its blocks; of a file in a folder, its bytes."""
    folder = tmp_path / "album"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "deep.txt").write_text("deep")
    (folder / "film.bin").write_bytes(bytes(5_248_100))  # all its blocks are 5.01 MiB
    (folder / "small.txt").write_text("small")
    client.upload(folder)
    client.upload(folder / "film.bin")
    tab = view.open()
    facts = tab.locator("#facts dt:text-is('Size') + dd span")
    for name in ("film.bin", "album"):
        cell = view.row(name).locator("td.size")
        shown, exact = cell.inner_text(), cell.get_attribute("title")
        tab.get_by_role("button", name=name, exact=True).click()
        expect(facts).to_have_text(shown)
        expect(facts).to_have_attribute("title", exact)
        if name == "film.bin":
            assert shown == "5.01 MiB"
            tab.keyboard.press("Escape")
    tab.get_by_role("button", name="List").click()
    sound()
    sizes = {"film.bin": ("5.00 MiB", "5,248,100 bytes"), "small.txt": ("5 B", "5 bytes")}
    for name, (shown, exact) in sizes.items():
        row = tab.locator(".entry", has_text=name)
        expect(row.locator(".entry-size")).to_have_text(shown)
        expect(row.locator(".entry-size")).to_have_attribute("title", exact)
        row.click()
        expect(facts).to_have_text(shown)
        expect(facts).to_have_attribute("title", exact)
        tab.go_back()
    expect(tab.locator(".entry", has_text="inner").locator(".entry-size")).to_have_text("")
    tab.locator(".entry", has_text="inner").click()
    expect(tab.locator("#content .entry-name")).to_have_text("deep.txt")
    expect(facts).to_have_count(0)  # a folder in a folder has a size in neither place
