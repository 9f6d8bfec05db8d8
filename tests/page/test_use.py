"""The page in a real browser: as it is used, by hand, by keyboard and on a phone."""

import json
import re

import pytest
from playwright.sync_api import expect

from holdfast import compute_cid
from holdfast.content.cid import CID
from tests.browser import PNG, written_files

pytestmark = pytest.mark.slow


# The list


def test_many_pins_are_paged_sorted_and_searched(visit, client):
    types = (".csv", ".json", ".txt")
    names = [f"pin-{number:03}{types[number % 3]}" for number in range(120)]
    for number, name in enumerate(names):
        client.upload(bytes(number + 1), name=name)
    tab = visit.open()
    where = tab.locator("#where")
    expect(where).to_have_text("1 to 50 of 120")
    expect(tab.locator("#totals")).to_have_text("120 pins, 7.09 KiB")
    assert visit.names() == names[:-51:-1]
    tab.get_by_role("button", name="Next").click()
    expect(where).to_have_text("51 to 100 of 120")
    tab.wait_for_function("document.querySelector('#list').getBoundingClientRect().top >= -1")
    tab.get_by_role("button", name="Last").click()
    expect(where).to_have_text("101 to 120 of 120")
    expect(tab.get_by_role("button", name="Next")).to_be_disabled()
    assert visit.names()[-1] == names[0]

    tab.reload()
    expect(where).to_have_text("101 to 120 of 120")  # as before
    tab.get_by_role("button", name="First").click()

    tab.get_by_role("button", name="Name", exact=True).click()
    expect(visit.row(names[0])).to_be_visible()
    tab.get_by_role("button", name="Size", exact=True).click()
    expect(visit.row(names[-1])).to_be_visible()
    expect(tab.locator("th[data-sort=size]")).to_have_attribute("aria-sort", "descending")
    tab.get_by_role("button", name="Size", exact=True).click()
    expect(visit.row(names[0])).to_be_visible()
    expect(tab.locator("th[data-sort=size]")).to_have_attribute("aria-sort", "ascending")
    tab.get_by_role("button", name="Type", exact=True).click()
    expect(tab.locator("#pins td.type").first).to_have_text("JSON")

    tab.fill("#search", "PIN-01")
    expect(where).to_have_text("1 to 10 of 10")
    cid = compute_cid(bytes(78))
    for text in (cid[4:30], f"{client.url(cid)}?download=true", f"ipfs://{cid}",
                 f"https://{cid}.ipfs.dweb.link/"):  # fmt: skip
        tab.fill("#search", "")
        expect(where).to_have_text("1 to 50 of 120")
        tab.fill("#search", text)
        expect(where).to_have_text("1 to 1 of 1")
        assert visit.names() == [names[77]]
    tab.fill("#search", "%")
    expect(tab.get_by_text("No name, CID or key-value contains “%”")).to_be_visible()
    assert visit.complaints == []


# Adding


def test_files_and_folders_are_dropped(visit, node, tmp_path):
    folder = tmp_path / "site"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (folder / "deep" / "er" / "b ü.txt").write_text("b")
    (tmp_path / "one.png").write_bytes(PNG)
    (tmp_path / 'two "x" <b>.json').write_text('{"two": 2}')
    tab = visit.open_empty()
    visit.drop(folder, tmp_path / "one.png", tmp_path / 'two "x" <b>.json')
    expect(tab.locator("#pins tbody tr")).to_have_count(3)
    expect(visit.row("site").locator(".type")).to_have_attribute("title", "folder with 2 files")
    expect(visit.row("site").locator(".cid")).to_have_text(compute_cid(folder))
    expect(visit.row("one.png").locator(".type")).to_have_text("PNG image")
    expect(visit.row('two "x" <b>.json').locator(".type")).to_have_text("JSON")
    expect(tab.locator("#uploads li")).to_have_count(0)
    assert visit.complaints == []


def test_json_is_pasted_and_kept_to_the_digit(visit, client):
    text = '{"big": 12345678901234567890, "b": 1, "a": [1.50, true, null, "é\\u0041"]}'
    tab = visit.open_empty()
    tab.evaluate("text => navigator.clipboard.writeText(text)", text)
    tab.keyboard.press("Control+V")
    expect(tab.locator("#json-text")).to_have_value(text)
    tab.keyboard.type("numbers")
    tab.get_by_role("button", name="Pin", exact=True).click()
    expect(visit.row("numbers")).to_be_visible()
    cid = visit.row("numbers").locator(".cid").text_content()
    assert client.retrieve(cid) == json.loads(text)
    tab.get_by_role("button", name="numbers", exact=True).click()
    expect(tab.locator("#content pre")).to_contain_text('"big": 12345678901234567890,')


@pytest.mark.parametrize("text", ["{", "hello", "{} {}", '1}, "pinataContent": {', "NaN", "'a'"])
def test_what_is_no_json_is_not_sent(visit, node, text):
    tab = visit.open()
    tab.get_by_role("button", name="Write JSON").click()
    tab.fill("#json-text", text)
    tab.get_by_role("button", name="Pin", exact=True).click()
    expect(tab.locator("#json-error")).to_contain_text("This is not JSON")
    expect(tab.locator("#json-text")).to_have_value(text)  # nothing is lost
    assert node.repository.totals().pins == 0


def test_uploads_show_how_far_they_are_and_can_be_cancelled(visit, node, tmp_path):
    (tmp_path / "large.bin").write_bytes(bytes(20_000_000))
    (tmp_path / "small.bin").write_bytes(b"small")
    tab = visit.open_empty()
    session = visit.context.new_cdp_session(tab)
    slow_line = {"offline": False, "latency": 0, "downloadThroughput": -1}
    session.send("Network.enable")
    session.send("Network.emulateNetworkConditions", {**slow_line, "uploadThroughput": 2_000_000})
    tab.set_input_files("#files", [tmp_path / "large.bin", tmp_path / "small.bin"])
    expect(tab.locator("#uploads")).to_contain_text(
        re.compile(r"large.bin: [\d.]+ MiB of 19.1 MiB")
    )
    assert 0 < tab.locator("#uploads progress").first.evaluate("bar => bar.value") < 1
    tab.locator("#uploads li").first.get_by_role("button", name="Cancel").click()
    expect(tab.get_by_text("large.bin: cancelled")).to_be_visible()
    expect(visit.row("small.bin")).to_be_visible()  # the next one has its turn
    assert visit.names() == ["small.bin"]
    tab.get_by_role("button", name="Dismiss: large.bin").click()
    expect(tab.locator("#uploads li")).to_have_count(0)

    tab.set_input_files("#files", written_files(tmp_path, 30, 400_000))
    expect(tab.locator("#upload-words")).to_have_text(
        re.compile(r"of 30 uploads · [\d.]+ \w+ of 11\.4 MiB · [\d.]+ [KM]iB/s · \d+ s left")
    )
    tab.get_by_role("button", name="Cancel all").click()
    expect(tab.locator("#uploads")).to_be_hidden()
    expect(tab.get_by_text("uploads cancelled")).to_be_visible()
    pinned = node.repository.totals().pins
    tab.wait_for_timeout(1000)
    assert node.repository.totals().pins <= pinned + 5  # those that the node had received
    assert node.repository.totals().pins < 30


def test_what_is_pinned_twice_is_said_to_be(visit, client, tmp_path):
    client.upload(b"same", name="first name")
    (tmp_path / "second").write_bytes(b"same")
    tab = visit.open()
    expect(visit.row("first name")).to_be_visible()
    tab.set_input_files("#files", tmp_path / "second")
    expect(tab.get_by_text("second was already pinned and keeps its earlier name")).to_be_visible()


# Looking


def test_previews(visit, client, node):
    client.upload(PNG, name="dot.png")
    client.upload(b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>', name="v.svg")
    client.upload(b"0123456789abcdef" * 20_000, name="long.txt")
    client.upload(b"\0\1\2", name="bytes.bin")
    client.upload(b"", name="nothing.txt")
    client.upload(b"no image", name="broken.png")
    tab = visit.open()

    def look(name):
        tab.get_by_role("button", name=name, exact=True).click()
        return tab.locator("#content")

    def leave():
        tab.keyboard.press("Escape")
        expect(tab.locator("#preview")).to_be_hidden()

    for name in ("dot.png", "v.svg"):
        image = look(name).locator("img")
        expect(image).to_be_visible()
        assert image.evaluate("async image => { await image.decode(); return image.naturalWidth }")
        leave()
    content = look("long.txt")
    expect(content.locator(".note")).to_have_text("The first 256 KiB of 313 KiB.")
    assert len(content.locator("pre").inner_text()) == 256 * 1024
    leave()
    expect(look("bytes.bin")).to_contain_text("There is no preview for this type.")
    node.fail_next(status=503, body={"error": "come back later"})
    tab.get_by_role("button", name="Show as text").click()
    expect(tab.locator("#content")).to_have_text("come back later")
    leave()
    look("bytes.bin")
    tab.get_by_role("button", name="Show as text").click()
    expect(tab.locator("#content pre")).to_be_visible()
    expect(tab.locator("#facts")).to_contain_text("Size3 B")
    leave()
    expect(look("nothing.txt")).to_have_text("It is empty.")
    leave()
    expect(look("broken.png")).to_have_text("The browser cannot show this image.")
    leave()


def test_content_that_is_not_here_any_more(visit, client, node):
    record = client.upload(b"gone", name="gone.txt")
    tab = visit.open()
    expect(visit.row("gone.txt")).to_be_visible()
    node.repository.unpin(CID.parse(record.cid))
    node.repository.collect_garbage()
    tab.get_by_role("button", name="gone.txt", exact=True).click()
    expect(tab.locator("#content")).to_contain_text("is missing")


def test_a_view_without_a_reply_is_tried_again(visit, client):
    client.upload(b"content", name="note.txt")
    tab = visit.open()
    tab.route("**/page/item?*", lambda route: route.abort())
    tab.get_by_role("button", name="note.txt", exact=True).click()
    expect(tab.locator("#content [role=alert]")).to_contain_text("The node does not reply")
    tab.unroute_all()
    tab.locator("#content").get_by_role("button", name="Try again").click()
    expect(tab.locator("#content pre")).to_have_text("content")


def test_cid_and_link_are_copied(visit, client, node):
    record = client.upload(b"copied", name="copy me")
    tab = visit.open()
    visit.row("copy me").get_by_role("button", name="Copy CID").click()
    expect(tab.get_by_text("CID copied")).to_be_visible()
    assert visit.clipboard() == record.cid
    visit.row("copy me").get_by_role("button", name="Copy link").click()
    expect(tab.get_by_text("Link copied")).to_be_visible()
    assert visit.clipboard() == client.url(record.cid)
    # From another machine over plain HTTP there is no clipboard API.
    tab.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    visit.row("copy me").get_by_role("button", name="Copy CID").click()
    expect(tab.get_by_text("CID copied").nth(1)).to_be_visible()
    tab.get_by_role("button", name="copy me", exact=True).click()
    dialog = tab.get_by_role("dialog")
    dialog.get_by_role("button", name="Copy CID").click()
    expect(dialog.get_by_text("CID copied").last).to_be_visible()
    other = visit.new_tab()
    other.goto(f"{node.api_url}/page/icon.svg")
    other.goto(visit.node.page_url)
    assert other.evaluate("navigator.clipboard.readText()") == record.cid


@pytest.mark.parametrize("text", ["[" * 10_000 + "]" * 10_000, f"[{'[' * 99}{'1,' * 99_999}1]"])
def test_json_that_would_grow_without_end_is_shown_as_it_is(visit, client, text):
    text += "]" * (text.count("[") - text.count("]"))
    client.upload(text.encode(), name="deep.json")
    tab = visit.open()
    tab.get_by_role("button", name="deep.json", exact=True).click()
    expect(tab.locator("#content pre")).to_be_visible()
    assert tab.locator("#content pre").evaluate("part => part.textContent") == text


# When replies are slow


@pytest.fixture
def hold_back(visit):
    """Holds requests for a path back; the function that it gives lets them go."""

    def hold(path):
        waiting = []
        visit.tab.route(lambda url: path in url, lambda route: waiting.append(route))  # noqa: PLW0108

        def let_go():
            for route in waiting:
                route.continue_()
            visit.tab.unroute_all()

        return let_go

    return hold


def test_a_slow_unpin_leaves_the_next_question_alone(visit, hold_back, node):
    tab = visit.show("one", "two")
    let_go = hold_back("/pinning/unpin/")
    dialog = tab.get_by_role("dialog")
    visit.row("one").get_by_role("button", name="Unpin").click()
    dialog.get_by_role("button", name="Unpin").click()
    tab.keyboard.press("Escape")
    visit.row("two").get_by_role("button", name="Unpin").click()
    expect(dialog.get_by_role("button", name="Unpin")).to_be_enabled()
    let_go()
    expect(tab.get_by_text("one is unpinned")).to_be_visible()
    expect(dialog).to_contain_text("two")
    assert [pin.name for pin in node.repository.pins()] == ["two"]


def test_what_is_written_is_not_lost(visit, hold_back):
    tab = visit.open_empty()
    let_go = hold_back("/pinning/pinJSONToIPFS")
    tab.keyboard.press("j")
    tab.keyboard.type("[1]")
    tab.keyboard.press("Escape")
    expect(tab.locator("#json")).to_be_hidden()
    expect(tab.locator("#json-text")).not_to_be_focused()
    tab.keyboard.press("j")
    expect(tab.locator("#json-text")).to_have_value("[1]")
    tab.mouse.click(5, 5)  # beside the dialog
    expect(tab.locator("#json")).to_be_visible()
    tab.get_by_role("button", name="Pin", exact=True).click()
    tab.fill("#json-text", "[2]")
    let_go()
    expect(tab.locator("#pins tbody tr")).to_have_count(1)
    expect(tab.locator("#json-text")).to_have_value("[2]")


def test_the_focus_follows_the_pin(visit, client):
    tab = visit.show("ant", "bee")
    link = visit.row("ant").get_by_role("button", name="Copy link")
    link.focus()
    client.upload(b"cat", name="cat")
    tab.keyboard.press("r")
    expect(visit.row("cat")).to_be_visible()
    expect(link).to_be_focused()

    visit.row("ant").get_by_role("button", name="ant", exact=True).press("Enter")
    expect(tab.locator("#content pre")).to_be_visible()
    client.upload(b"dog", name="dog")
    tab.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(visit.row("dog")).to_be_attached()
    tab.keyboard.press("Escape")
    expect(visit.row("ant").get_by_role("button", name="ant", exact=True)).to_be_focused()

    tab.keyboard.press("Delete")
    tab.get_by_role("dialog").get_by_role("button", name="Unpin").click()
    expect(tab.get_by_role("button", name="bee", exact=True)).to_be_focused()  # the last row now


def test_enter_waits_for_what_it_looks_for(visit):
    tab = visit.show("ant", "bee", "cat")
    tab.keyboard.press("/")
    tab.keyboard.type("ant")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("button", name="ant", exact=True)).to_be_focused()
    assert visit.names() == ["ant"]


def test_uploads_that_wait_or_failed_can_be_dropped_or_tried_again(visit, node, tmp_path):
    tab = visit.open_empty()
    waiting, is_waiting = [], [True]
    tab.route(
        "**/pinFileToIPFS",
        lambda route: waiting.append(route) if is_waiting else route.abort(),
    )
    tab.set_input_files("#files", written_files(tmp_path, 7))
    uploads = tab.locator("#uploads li")
    expect(uploads).to_have_count(7)
    uploads.filter(has_text="006.bin: waiting").get_by_role("button", name="Cancel").click()
    expect(uploads).to_have_count(6)
    is_waiting.clear()
    for route in waiting:
        route.abort()
    expect(tab.locator("#upload-words")).to_have_text("6 failed")
    expect(uploads.first).to_contain_text("The upload failed")
    tab.unroute_all()
    tab.get_by_role("button", name="Dismiss: 003.bin").click()
    node.fail_next(status=503, body={"error": "come back later"}, method="POST")
    tab.get_by_role("button", name="Retry failed").click()
    expect(uploads).to_have_count(1)
    expect(uploads).to_contain_text("come back later")
    assert node.repository.totals().pins == 4
    tab.get_by_role("button", name="Retry").click()
    expect(uploads).to_have_count(0)
    expect(tab.locator("#pins tbody tr")).to_have_count(5)
    names = {f"{number:03}.bin" for number in (0, 1, 2, 4, 5)}
    assert {pin.name for pin in node.repository.pins()} == names


@pytest.mark.parametrize(
    "query",
    ["sort=constructor", "sort=__proto__", "page=99999999999999999999", "page=-5", "page=x"],
)
def test_an_odd_address_leads_to_the_list(visit, client, node, query):
    client.upload(b"x", name="here")
    visit.open(f"{node.api_url}/?{query}#token={node.token}")
    expect(visit.row("here")).to_be_visible()


# For everybody


def test_by_keyboard_alone(visit, client, node):
    cids = {name: client.upload(name.encode(), name=name).cid for name in ("ant", "bee", "cat")}
    tab = visit.open()
    expect(visit.row("cat")).to_be_visible()
    press = tab.keyboard.press
    press("/")
    tab.keyboard.type("be")
    expect(tab.locator("#pins tbody tr")).to_have_count(1)
    press("ArrowDown")
    press("c")
    expect(tab.get_by_text("CID copied")).to_be_visible()
    assert visit.clipboard() == cids["bee"]
    press("l")
    expect(tab.get_by_text("Link copied")).to_be_visible()
    press("Enter")
    expect(tab.locator("#content pre")).to_have_text("bee")
    press("Escape")
    press("Delete")
    expect(tab.get_by_role("button", name="Keep")).to_be_focused()
    press("Shift+Tab")
    press("Enter")
    expect(tab.get_by_text("No name, CID or key-value contains “be”")).to_be_visible()
    expect(tab.locator("#search")).to_be_focused()  # there is no row to go back to
    press("Control+A")
    press("Delete")
    expect(tab.locator("#pins tbody tr")).to_have_count(2)
    press("ArrowDown")
    expect(tab.get_by_role("button", name="cat", exact=True)).to_be_focused()
    press("ArrowDown")
    expect(tab.get_by_role("button", name="ant", exact=True)).to_be_focused()
    press("ArrowUp")
    expect(tab.get_by_role("button", name="cat", exact=True)).to_be_focused()
    press("End")
    expect(tab.get_by_role("button", name="ant", exact=True)).to_be_focused()
    press("?")
    expect(tab.get_by_role("heading", name="Keyboard shortcuts")).to_be_visible()
    assert {pin.name for pin in node.repository.pins()} == {"ant", "cat"}
