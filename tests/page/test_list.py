"""The list of the page in a real browser: layout, live updates, selection, editing and uploads."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from holdfast import Client, compute_cid
from holdfast.testing import running_node
from tests.browser import PNG, Visit, written_files
from tests.support import SIZES

pytestmark = pytest.mark.slow


def box(locator):
    return locator.first.bounding_box()


# Layout


@pytest.mark.parametrize("width", [320, 768, 901, 1024, 1440, 2560])
def test_every_width_shows_names_cids_and_sizes(new_visit, client, width):
    client.upload(PNG, name="a-very-long-name-without-any-space-in-it-" * 5 + ".png")
    client.store({"a": 1}, name="small.json")
    visit = new_visit(viewport={"width": width, "height": 800})
    tab = visit.open()
    expect(visit.row("small.json")).to_be_visible()
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for row in tab.locator("#pins tbody tr").all():
        assert box(row.locator("td.cid"))["width"] >= 70
        assert box(row.locator("td.size"))["width"] >= 15
        if width > 900:  # below, a long name has several lines
            assert box(row.locator("td.name button"))["height"] < 40
            assert box(row)["height"] < 60
    if width > 900:
        right = tab.locator("td.size").evaluate_all(
            "cells => cells.map((cell) => getComputedStyle(cell).textAlign)"
        )
        assert right == ["right", "right"]
    for button in map(box, tab.locator("#toolbar button").all()):
        assert 0 <= button["x"] <= width - button["width"]


def test_a_row_shows_what_it_is_and_when_it_came(visit, client, tmp_path):
    client.upload(PNG, name="dot.png")
    client.upload(b"no image", name="broken.png")
    client.store([1], name="list.json")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("x")
    tab = visit.open()
    tab.set_input_files("#folder", tmp_path / "folder")
    image = visit.row("dot.png").locator(".thumbnail img")
    expect(image).to_be_visible()
    assert image.evaluate("async image => { await image.decode(); return image.naturalWidth }") == 1
    expect(visit.row("broken.png").locator(".thumbnail use")).to_have_attribute("href", "#i-image")
    expect(visit.row("list.json").locator(".thumbnail use")).to_have_attribute("href", "#i-json")
    expect(visit.row("folder").locator(".thumbnail use")).to_have_attribute("href", "#i-folder")
    expect(visit.row("dot.png").locator("time")).to_have_text("just now")
    moment = visit.row("dot.png").locator("time").get_attribute("datetime")
    exact = {size: text for size, text in SIZES.items() if size < 2**53}  # in JavaScript
    times, sizes = tab.evaluate(
        """async ([moment, sizes]) => {
            const { readableSize, relativeTime } = await import("/page/format.js");
            const after = (seconds) => relativeTime(moment, Date.parse(moment) + seconds * 1000);
            const times = [90, 3 * 3600, 26 * 3600, 20 * 86400, 800 * 86400].map(after);
            return [times, sizes.map(readableSize)];
        }""",
        [moment, list(exact)],
    )
    assert sizes == list(exact.values())  # as the commands write them
    assert times == ["2 min. ago", "3 hr. ago", "yesterday", "3 wk. ago", "2 yr. ago"]


def test_a_name_is_cut_after_its_key_values(view, client):
    """A name is shown whole if it fits, however many key-values the pin has; so is its focus."""
    keyvalues = {f"key{number}": "x" * 60 for number in range(9)} | {"k" * 200: "y"}
    client.upload(b"x", name="Annual report 2025.pdf", keyvalues=keyvalues)
    tab = view.open()
    name = tab.get_by_role("button", name="Annual report 2025.pdf", exact=True)
    assert name.evaluate("name => name.scrollWidth <= name.clientWidth")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if view.width < 900:
        expect(tab.locator("td.name")).to_have_css("overflow", "visible")  # else the outline is cut
    name.click()
    expect(tab.locator("#facts dt").last).to_be_visible()
    assert tab.locator("aside").evaluate("aside => aside.scrollWidth <= aside.clientWidth")


def test_json_without_a_name_shows_its_beginning(visit, node, client):
    client.store({"kind": "tide", "level": 1.5})
    client.store("x" * 500)
    tab = visit.open()
    lines = ['"' + "x" * 59 + "…", '{"kind":"tide","level":1.5}']
    expect(tab.locator("#pins td.name button")).to_have_text(lines)
    visit.row(lines[1]).get_by_role("button", name="Edit").click()
    expect(tab.locator("#edit-name")).to_have_value(re.compile(r"^client-\d+$"))
    tab.keyboard.press("Escape")
    assert [pin.name[:7] for pin in node.repository.pins()] == ["client-"] * 2


def test_actions_appear_with_the_pointer_or_the_focus(visit, client):
    client.upload(b"1", name="one")
    client.upload(b"2", name="two")
    tab = visit.open()
    actions = visit.row("one").locator("td.row-actions > div")
    expect(actions).to_have_css("opacity", "0")
    visit.row("one").locator("td.cid").hover()
    expect(actions).to_have_css("opacity", "1")
    tab.mouse.move(5, 5)
    expect(actions).to_have_css("opacity", "0")
    visit.row("one").get_by_role("button", name="Copy link").focus()
    expect(actions).to_have_css("opacity", "1")
    visit.row("one").locator("td.size").click()  # the whole row opens the pin
    expect(tab.locator("#preview-title")).to_have_text("one")


def test_the_menu_has_the_theme_the_keys_and_the_way_out(visit):
    tab = visit.show("mine")
    expect(tab.locator("#menu")).to_be_hidden()
    tab.get_by_role("button", name="Menu").click()
    backgrounds = set()
    for theme in ("Dark", "Light"):
        tab.get_by_role("radio", name=theme).check()
        expect(tab.locator("html")).to_have_css("color-scheme", theme.lower())
        backgrounds.add(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(backgrounds) == 2
    tab.reload()
    expect(tab.locator("html")).to_have_css("color-scheme", "light")
    tab.get_by_role("button", name="Menu").click()
    tab.get_by_role("button", name="Keyboard shortcuts").click()
    expect(tab.get_by_role("heading", name="Keyboard shortcuts")).to_be_visible()
    tab.keyboard.press("Escape")
    tab.get_by_role("button", name="Menu").click()
    tab.keyboard.press("Escape")
    expect(tab.locator("#menu")).to_be_hidden()
    tab.get_by_role("button", name="Menu").click()
    tab.get_by_role("button", name="Sign out").click()
    expect(tab.get_by_role("heading", name="Enter a token")).to_be_visible()
    assert tab.evaluate("sessionStorage.length") == 0
    tab.reload()
    expect(tab.get_by_role("heading", name="Enter a token")).to_be_visible()


def test_an_error_stands_above_the_list_where_it_is_seen(browser):
    with running_node() as node, Client.init(node.config) as client:
        for number in range(50):
            client.upload(str(number).encode(), name=f"n{number}")
        visit = Visit(browser, node, viewport={"width": 1280, "height": 600})
        tab = visit.open()
        tab.locator("#pins tbody tr").last.scroll_into_view_if_needed()
    # Nobody did anything: the page noticed by itself.
    expect(tab.get_by_text("The node does not reply.")).to_be_in_viewport()
    expect(tab.locator("#pins tbody tr")).to_have_count(50)  # what was known stays
    visit.close()


# Live


def test_what_others_do_is_shown_without_a_hand(visit, node, client):
    tab = visit.open()
    expect(tab.get_by_text("Nothing is pinned yet.")).to_be_visible()
    expect(tab.locator("#disk-free")).to_have_text(re.compile(r"^[\d.]+ [KMGT]iB free$"))
    disk = re.compile(r"The disk is \d+ % full")
    expect(tab.locator("#disk-bar")).to_have_attribute("aria-label", disk)
    record = client.upload(b"1", name="first")
    expect(visit.row("first")).to_be_visible()
    expect(tab.locator("#totals")).to_have_text("1 pin, 1 B")
    client.update(record.cid, name="renamed")
    expect(visit.row("renamed")).to_be_visible()
    with tab.expect_response(lambda reply: reply.status == 304):
        pass  # nothing has changed
    client.revoke(record.cid)
    expect(tab.get_by_text("Nothing is pinned yet.")).to_be_visible()
    assert visit.complaints == []
    tab.route("**/data/pinList?*", lambda route: route.abort())
    expect(tab.locator("#problem")).to_be_visible()
    tab.unroute_all()
    tab.get_by_role("button", name="Try again").click()
    expect(tab.locator("#problem")).to_be_hidden()


def test_nothing_is_asked_behind_a_dialog(visit, client):
    tab = visit.show("first")
    tab.get_by_role("button", name="first", exact=True).click()
    expect(tab.locator("#content pre")).to_be_visible()
    before = len(visit.requests)
    tab.wait_for_timeout(2500)
    assert len(visit.requests) == before
    client.upload(b"2", name="second")
    tab.keyboard.press("Escape")
    expect(visit.row("second")).to_be_visible(timeout=1500)  # at once


def test_a_change_of_the_order_is_not_lost_when_a_dialog_closes(visit):
    """The list is asked for changes then, which must not be those of the order before."""
    tab = visit.show("ant", "cat", "bee")
    tab.get_by_role("button", name="ant", exact=True).click()
    expect(tab.locator("#content pre")).to_be_visible()
    waiting = []
    tab.route("**/data/pinList?*", lambda route: waiting.append(route))  # noqa: PLW0108
    tab.evaluate("document.querySelector('th[data-sort=name] button').click()")
    tab.wait_for_timeout(200)
    tab.unroute_all(behavior="ignoreErrors")
    tab.keyboard.press("Escape")
    expect(tab.locator("#pins td.name")).to_have_text(["ant", "bee", "cat"])
    assert len(waiting) == 1  # that was cancelled


# Selection


def test_selected_pins_are_unpinned_together(visit, node):
    tab = visit.show(*(f"n{number}" for number in range(8)))
    check = {f"n{number}": visit.row(f"n{number}").get_by_role("checkbox") for number in range(8)}
    check["n7"].click()
    check["n5"].click(modifiers=["Shift"])
    expect(tab.locator("#selected")).to_have_text("3 pins selected")
    check["n6"].click()
    expect(tab.locator("#selected")).to_have_text("2 pins selected")
    tab.get_by_role("button", name="Copy CIDs").click()
    expect(tab.get_by_text("CIDs copied")).to_be_visible()
    assert visit.clipboard().split("\n") == [compute_cid(b"n7"), compute_cid(b"n5")]
    tab.get_by_role("button", name="Unpin selected").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog).to_contain_text("Unpin 2 pins?")
    expect(tab.locator("#confirm-name")).to_have_text("n7, n5")
    dialog.get_by_role("button", name="Unpin").click()
    expect(tab.get_by_text("2 pins are unpinned")).to_be_visible()
    expect(tab.locator("#selection")).to_be_hidden()
    assert {pin.name for pin in node.repository.pins()} == {"n0", "n1", "n2", "n3", "n4", "n6"}

    tab.get_by_role("checkbox", name="Select all").check()
    expect(tab.locator("#selected")).to_have_text("6 pins selected")
    tab.keyboard.press("Escape")
    expect(tab.locator("#selection")).to_be_hidden()
    expect(check["n0"]).not_to_be_checked()
    tab.get_by_role("checkbox", name="Select all").check()
    tab.get_by_role("button", name="Unpin selected").click()
    node.fail_next(status=403, body={"error": "not today"}, method="DELETE")
    dialog.get_by_role("button", name="Unpin").click()
    expect(tab.locator("#confirm-error")).to_have_text("1 pin not unpinned: not today")
    dialog.get_by_role("button", name="Unpin").click()  # again, for the one that stayed
    expect(tab.locator("#empty")).to_be_visible()
    assert node.repository.totals().pins == 0


def test_pins_are_selected_by_keys_and_on_several_pages(visit, node):
    tab = visit.show(*(f"n{number}" for number in range(52)))
    press = tab.keyboard.press
    press("ArrowDown")
    press("x")
    press("ArrowDown")
    press("ArrowDown")
    press("Shift+X")
    expect(tab.locator("#selected")).to_have_text("3 pins selected")
    press("ArrowRight")
    expect(visit.row("n1")).to_be_visible()
    tab.get_by_role("checkbox", name="Select: n1", exact=True).check()
    expect(tab.locator("#selected")).to_have_text("4 pins selected")
    press("Delete")
    tab.get_by_role("dialog").get_by_role("button", name="Unpin").click()
    expect(tab.get_by_text("4 pins are unpinned")).to_be_visible()
    expect(tab.locator("#pins tbody tr")).to_have_count(48)
    assert node.repository.totals().pins == 48


# Editing


def test_name_and_key_values_are_changed(visit, node, client):
    record = client.upload(b"x", name="before", keyvalues={"kind": "test", "rank": 7, "old": "yes"})
    tab = visit.open()
    visit.row("before").get_by_role("button", name="Edit").click()
    tab.get_by_role("textbox", name="Name", exact=True).fill("after")
    inputs = tab.locator("#pairs li input").all()
    values = [field.input_value() for field in inputs]
    assert values == ["kind", "test", "rank", "7", "old", "yes"]
    tab.locator("#pairs li").nth(2).get_by_role("button", name="Remove").click()
    tab.locator("#pairs li").nth(0).get_by_label("Value").fill("proof")
    tab.get_by_role("button", name="Add a key-value").click()
    tab.keyboard.type("rank")
    tab.keyboard.press("Control+Enter")
    expect(tab.locator("#edit-error")).to_have_text("Each key can be used only once.")
    tab.locator("#pairs li").nth(2).get_by_label("Key").fill("new")
    tab.locator("#pairs li").nth(2).get_by_label("Value").fill("<b>")
    tab.keyboard.press("Control+Enter")
    expect(visit.row("after")).to_be_visible()
    (pin,) = node.repository.pins()
    assert (pin.name, pin.cid) == ("after", record.cid)
    assert pin.keyvalues == {"kind": "proof", "rank": 7, "new": "<b>"}  # the number is one still
    expect(visit.row("after").get_by_role("button", name="Edit")).to_be_focused()


def test_a_pin_is_edited_and_unpinned_in_the_viewer(visit, node):
    tab = visit.show("before")
    tab.get_by_role("button", name="before", exact=True).click()
    tab.locator("#preview").get_by_role("button", name="Edit").click()
    tab.get_by_role("textbox", name="Name", exact=True).fill("after")
    node.fail_next(status=503, body={"error": "come back later"}, method="PUT")
    tab.get_by_role("button", name="Save").click()
    expect(tab.locator("#edit-error")).to_have_text("come back later")
    tab.get_by_role("button", name="Save").click()
    expect(tab.locator("#preview-title")).to_have_text("after")
    tab.locator("#preview").get_by_role("button", name="Unpin").click()
    tab.locator("#confirm-yes").click()
    expect(tab.locator("#preview")).to_be_hidden()
    expect(tab.locator("#empty")).to_be_visible()


def test_a_cid_is_pinned(visit, node, client):
    record = client.upload(b"again", name="once")
    client.revoke(record.cid)  # its blocks are still here
    tab = visit.open_empty()
    tab.keyboard.press("p")
    tab.keyboard.type("nonsense")
    tab.keyboard.press("Enter")
    expect(tab.locator("#by-cid-error")).to_contain_text("Invalid CID")
    tab.get_by_label("CID or link").fill(f"ipfs://{record.cid}")
    tab.get_by_role("textbox", name="Name", exact=True).fill("twice")
    tab.get_by_role("button", name="Pin", exact=True).click()
    expect(tab.get_by_text("twice is pinned")).to_be_visible()
    expect(visit.row("twice").locator(".cid")).to_have_text(record.cid)

    tab.get_by_role("button", name="Pin by CID").click()
    tab.get_by_label("CID or link").fill(compute_cid(b"nobody has this"))
    tab.get_by_role("button", name="Pin", exact=True).click()
    expect(tab.locator("#by-cid-error")).to_contain_text("none of the node's gateways has it")
    expect(tab.get_by_label("CID or link")).to_have_value(compute_cid(b"nobody has this"))


# Adding


def test_files_are_uploaded_several_at_a_time_with_one_bar(visit, node, tmp_path):
    files = written_files(tmp_path, 60, 10_000)
    tab = visit.open_empty()
    waiting, is_waiting = [], [True]

    def wait(route):
        waiting.append(route) if is_waiting else route.continue_()

    tab.route("**/pinFileToIPFS", wait)
    tab.set_input_files("#files", files)
    expect(tab.locator("#upload-words")).to_contain_text("0 of 60 uploads")
    while len(waiting) < 5:
        tab.wait_for_timeout(20)
    assert len(waiting) == 5  # at once
    expect(tab.locator("#upload-list li")).to_have_count(0)  # many small ones have no rows
    for route in waiting[:3]:
        route.continue_()
    expect(tab.locator("#upload-words")).to_contain_text("3 of 60 uploads")
    assert 0 < tab.locator("#upload-bar").evaluate("bar => bar.value") < 1
    is_waiting.clear()
    for route in waiting[3:]:
        route.continue_()
    expect(tab.locator("#uploaded-words")).to_have_text("60 items are uploaded")
    expect(tab.locator("#uploads")).to_be_hidden()
    assert node.repository.totals().pins == 60
    assert {pin.name for pin in node.repository.pins()} == {file.name for file in files}
    for before in (1, 2):
        (tmp_path / f"new-{before}").write_text(f"new {before}")
        tab.set_input_files("#files", [*files[:before], tmp_path / f"new-{before}"])
        were = "1 of them was" if before == 1 else "2 of them were"
        words = f"{before + 1} items are uploaded; {were} already pinned"
        expect(tab.locator("#uploaded-words")).to_have_text(words)


def test_who_signs_out_uploads_nothing_more(visit, node, tmp_path):
    tab = visit.open_empty()
    waiting = []
    tab.route("**/pinFileToIPFS", lambda route: waiting.append(route))  # noqa: PLW0108
    tab.set_input_files("#files", written_files(tmp_path, 12))
    expect(tab.locator("#upload-words")).to_contain_text("0 of 12 uploads")
    tab.get_by_role("button", name="Menu").click()
    tab.get_by_role("button", name="Sign out").click()
    expect(tab.locator("#sign-in-error")).to_be_hidden()
    expect(tab.get_by_role("heading", name="Enter a token")).to_be_visible()
    assert len(waiting) <= 5
    assert node.repository.totals().pins == 0


def test_text_that_is_no_json_becomes_a_file_after_a_word(visit, client):
    tab = visit.open_empty()
    tab.evaluate("navigator.clipboard.writeText('Dear diary,\\n\\n  no JSON.\\n')")
    tab.keyboard.press("Control+V")
    expect(tab.locator("#json-error")).to_contain_text("This is not JSON")
    expect(tab.locator("#json-name")).to_be_focused()
    tab.keyboard.type("diary.txt")
    tab.get_by_role("button", name="Pin as a text file").click()
    expect(visit.row("diary.txt").locator(".type")).to_have_text("Text")
    cid = visit.row("diary.txt").locator(".cid").text_content()
    assert client.download(cid).read() == b"Dear diary,\n\n  no JSON.\n"
    tab.keyboard.press("j")
    expect(tab.locator("#json-text")).to_have_value("")
    tab.keyboard.type("A name is not a path.")
    tab.fill("#json-name", "2026/diary.txt")
    tab.keyboard.press("Control+Enter")
    expect(tab.get_by_role("button", name="Pin as a text file")).to_be_visible()
    tab.fill("#json-text", '{"a": 1}')
    expect(tab.get_by_role("button", name="Pin as a text file")).to_be_hidden()
    tab.fill("#json-text", "A name is not a path.")
    tab.keyboard.press("Control+Enter")
    tab.get_by_role("button", name="Pin as a text file").click()
    expect(visit.row("2026/diary.txt").locator(".type")).to_have_text("Text")


def test_the_command_and_the_snippet_of_an_empty_page_run_as_they_are_copied(
    view, node, client, tmp_path
):
    tab = view.open_empty()
    binaries = str(Path(sys.executable).parent)
    environment = {"PATH": f"{binaries}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    programs = {"Copy the command": ["sh", "-ec"], "Copy the Python code": [sys.executable, "-c"]}
    for name, program in programs.items():
        tab.get_by_role("button", name=name).click()
        expect(tab.locator("#notices")).to_contain_text("and token copied")
        assert node.token not in tab.content()
        text = view.clipboard()
        assert node.token in text
        subprocess.run([*program, text], cwd=tmp_path, env=environment, check=True, timeout=60)  # noqa: S603
        (pin,) = node.repository.pins()
        assert client.retrieve(pin.cid) == {"hello": "world"}
        client.revoke(pin.cid)
        expect(tab.locator("#empty")).to_be_visible()
