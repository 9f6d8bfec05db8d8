"""The page of the node: what is served, and one walk through it in a real browser."""

import re
from contextlib import closing
from importlib.resources import files

import pytest
import urllib3
from playwright.sync_api import expect

from holdfast import car, compute_cid
from holdfast.content.cid import CID
from holdfast.content.media_types import _types, named_type
from holdfast.records import PinInfo
from holdfast.repository.ledger import DATABASE, CopyState, Ledger


def ask(node, path, fields=None, **headers):
    headers["Authorization"] = f"Bearer {node.token}"
    url = f"{node.api_url}{path}"
    return urllib3.request("GET", url, fields=fields, headers=headers, timeout=60)


@pytest.mark.slow
def test_a_file_is_pinned_looked_at_and_unpinned(visit, node, tmp_path):
    (tmp_path / "note.txt").write_text("from the page")
    tab = visit.open()
    expect(tab.get_by_text("Nothing is pinned yet.")).to_be_visible()
    tab.set_input_files("#files", tmp_path / "note.txt")
    expect(visit.row("note.txt")).to_be_visible()
    expect(tab.locator("#totals")).to_have_text("1 pin, 13 B")
    cid = compute_cid(b"from the page")
    expect(visit.row("note.txt").locator(".cid")).to_have_text(cid)
    expect(visit.row("note.txt").locator(".type")).to_have_text("Text")

    tab.get_by_role("button", name="note.txt", exact=True).click()
    expect(tab.locator("#content pre")).to_have_text("from the page")
    tab.keyboard.press("Escape")

    visit.row("note.txt").get_by_role("button", name="Unpin").click()
    tab.get_by_role("dialog").get_by_role("button", name="Unpin").click()
    expect(tab.get_by_text("Nothing is pinned yet.")).to_be_visible()
    assert node.repository.totals() == (0, 0)

    # The token came by the fragment, and is in the address no longer; all went to the node alone.
    assert tab.url == f"{node.api_url}/"
    assert {request.url.split("/")[2] for request in visit.requests} == {node.api_url[7:]}
    assert visit.complaints == []


def test_the_page_and_its_files_are_served_with_a_policy(node):
    page = urllib3.request("GET", f"{node.api_url}/", timeout=60)
    assert page.status == 200
    policy = page.headers["content-security-policy"]
    nonce = re.search("script-src 'nonce-([\\w-]{20,})';", policy)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["referrer-policy"] == "no-referrer"
    text = page.data.decode()
    assert text.count(f'nonce="{nonce}"') == text.count('rel="stylesheet"') + 1
    again = urllib3.request("GET", f"{node.api_url}/", timeout=60)
    assert nonce not in again.data.decode()  # once each
    names = re.findall(r'"/page/([\w.]+)"', text)
    assert {"main.js", "colours.css", "style.css", "icon.svg"} <= set(names)
    for name in {*names, "pins.js", "api.js"}:
        part = urllib3.request("GET", f"{node.api_url}/page/{name}", timeout=60)
        assert part.status == 200
        assert part.headers["content-security-policy"] == "sandbox"
        assert part.headers["x-content-type-options"] == "nosniff"
    assert "://" not in text.replace("http://www.w3.org", "")  # nothing from elsewhere


@pytest.mark.parametrize(
    "name", ["index.html", "items.py", "__init__.py", "..%2Fapp.py", "nothing.js", "item/x", ""]
)
def test_nothing_else_is_served_as_a_part_of_it(node, name):
    assert urllib3.request("GET", f"{node.api_url}/page/{name}", timeout=60).status == 404


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("", 400),
        ("/ipfs/", 400),
        ("/ipfs/nonsense", 400),
        ("/ipfs/bafkqaaa/\0", 400),
        ("/ipfs/bafkqaaa/..", 400),
        ("/ipfs/bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq", 404),
        ("/ipfs/bafkqaaa/below-a-file", 404),
        ("/ipfs/bafyreib4pff766vhpbxbhjbqqnsh5emeznvujayjj4z2iu533cprgbz23m", 404),
        ("😀", 400),
    ],
)
def test_a_path_that_names_nothing_is_refused_in_words(node, path, status):
    reply = ask(node, "/page/item", {"path": path})
    assert reply.status == status
    assert reply.json()["error"].endswith(".")


def test_the_list_is_searched_and_sorted_by_the_node(node, client):
    sizes = {"Beta.json": 30, "alpha.txt": 10, "gamma.png": 20}
    cids = {name: client.upload(bytes(size), name=name).cid for name, size in sizes.items()}

    def names(**query):
        reply = ask(node, "/data/pinList", query)
        assert reply.status == 200
        return [row["metadata"]["name"] for row in reply.json()["rows"]]

    assert names() == ["gamma.png", "alpha.txt", "Beta.json"]
    assert names(sortOrder="ASC") == ["Beta.json", "alpha.txt", "gamma.png"]
    assert names(sortBy="name", sortOrder="ASC") == ["alpha.txt", "Beta.json", "gamma.png"]
    assert names(sortBy="size") == ["Beta.json", "gamma.png", "alpha.txt"]
    assert names(sortBy="mime_type", sortOrder="ASC") == ["Beta.json", "gamma.png", "alpha.txt"]
    assert names(search="BETA") == ["Beta.json"]
    assert names(search=cids["gamma.png"][-20:].upper()) == ["gamma.png"]
    assert names(search="a", sortBy="size", pageLimit="1", pageOffset="1") == ["gamma.png"]
    assert names(search="100%_") == []


def test_letters_of_all_alphabets_are_found_in_any_case(client):
    for number, name in enumerate(["Ärger.txt", "ЖУРНАЛ", "cafe\u0301", "STRASSE"]):
        client.upload(bytes([number]), name=name)
    for text, name in {"ärg": "Ärger.txt", "журнал": "ЖУРНАЛ", "CAFÉ": "cafe\u0301"}.items():
        assert [pin.name for pin in client.pins(name=text)] == [name]
    assert [pin.name for pin in client.pins(name="straße")] == ["STRASSE"]


def test_a_list_that_has_not_changed_is_not_sent_again(node, client):
    record = client.upload(b"x", name="first")
    path = "/data/pinList?sortBy=name"
    first = ask(node, path)
    etag = first.headers["etag"]
    again = ask(node, path, **{"If-None-Match": etag})
    assert (again.status, again.data, again.headers["etag"]) == (304, b"", etag)
    changes = (
        lambda: client.update(record.cid, name="second"),
        lambda: client.upload(b"y"),
        lambda: client.revoke(record.cid),
    )
    for change in changes:
        change()
        reply = ask(node, path, **{"If-None-Match": etag})
        assert reply.status == 200
        assert reply.headers["etag"] != etag
        etag = reply.headers["etag"]
    for unknown in ("", '""', "*", 'W/"x"'):
        assert ask(node, path, **{"If-None-Match": unknown}).status == 200


def test_the_totals_have_the_space_of_the_disk_on_request(node, client):
    client.upload(b"x")
    plain = ask(node, "/data/userPinnedDataTotal").json()
    assert set(plain) == {"pin_count", "pin_size_total", "pin_size_with_replications_total"}
    with_disk = ask(node, "/data/userPinnedDataTotal?disk=true").json()
    assert plain.items() < with_disk.items()
    assert 0 < with_disk["disk_free"] < with_disk["disk_total"]


def test_the_entries_of_a_directory_have_their_types_and_sizes(node, client, tmp_path):
    (tmp_path / "inner.png").mkdir()  # a directory, whatever its name says
    (tmp_path / "inner.png" / "file").write_bytes(b"x")
    (tmp_path / "dot.png").write_bytes(b"x")
    (tmp_path / "large.txt").write_bytes(bytes(3_000_000))  # its root is not a raw block
    (tmp_path / "unknown").write_bytes(b"x")
    cid = client.upload(tmp_path).cid
    reply = ask(node, "/page/item", {"path": f"/ipfs/{cid}"})
    entries = {entry["name"]: entry for entry in reply.json()["entries"]}
    assert {name: entry["type"] for name, entry in entries.items()} == {
        "dot.png": "image/png",
        "inner.png": "directory",
        "large.txt": "text/plain; charset=utf-8",
        "unknown": "",
    }
    # As in the file's own facts; the directory's block counts the blocks between, too.
    for name, size in {"large.txt": 3_000_000, "unknown": 1}.items():
        item = ask(node, "/page/item", {"path": f"/ipfs/{cid}/{name}"}).json()
        assert entries[name]["size"] == item["size"] == size


# Types that other programs send, and what clients of the node make up.
TYPES = {
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "Word document",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "Excel spreadsheet",
    "application/vnd.oasis.opendocument.text": "OpenDocument text",
    "application/vnd.ms-excel.sheet.macroEnabled.12": "Excel spreadsheet",
    "application/vnd.ms-fontobject": "Fontobject file",
    "application/vnd.debian.binary-package": "Binary package file",
    "application/vnd.rar": "RAR file",
    "x-world/x-vrml": "VRML file",
    "font/woff2; charset=utf-8": "WOFF2 font",
    "model/gltf-binary": "glTF model",
    "model/gltf+json": "glTF model",
    "message/rfc822": "Email",
    "application/x-7z-compressed": "7-Zip archive",
    "application/x-troff-man": "troff document",
    "application/x-toString": "Tostring file",
    "__proto__": "File",
    "/": "File",
    "": "File",
    "text/<b>": "B text",
}


@pytest.mark.slow
def test_all_types_are_words(browser):
    """The words of one type, and the rule for all that files can have by their names."""
    source = (files("holdfast.node.page") / "types.js").read_text()
    own_types = {named_type(f"x{end}") for end in _types()}
    types = sorted(own_types | set(TYPES))
    with closing(browser.new_page()) as tab:
        shown = tab.evaluate(
            "async ([source, types]) => {"
            "  const code = `data:text/javascript,${encodeURIComponent(source)}`;"
            "  return types.map((await import(code)).typeWords);"
            "}",
            [source, types],
        )
    words = dict(zip(types, shown, strict=True))
    assert {name: words[name] for name in TYPES} == TYPES
    for name, text in words.items():
        assert re.fullmatch(r"\w[\w-]*( \w+){0,3}", text), (name, text)
        assert not re.search(r"compressed|vnd|\bx-|\bms\b|[A-Z]{7}|[A-Z]-[A-Z]{2}", text), (
            name,
            text,
        )


def test_a_symbolic_link_has_one_type_and_size(node, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to("to/elsewhere")
    cid = car.pack(tmp_path / "folder", tmp_path / "folder.car")
    node.repository.import_car([(tmp_path / "folder.car").read_bytes()])
    (entry,) = ask(node, "/page/item", {"path": f"/ipfs/{cid}"}).json()["entries"]
    item = ask(node, "/page/item", {"path": f"/ipfs/{cid}/{entry['name']}"}).json()
    assert (entry["type"], entry["size"]) == (item["type"], item["size"])
    assert (item["type"], item["size"]) == ("inode/symlink", len("to/elsewhere"))


def test_key_values_are_searched(node, client):
    client.upload(b"1", name="one", keyvalues={"kind": "Ärger", "rank": 7, "done": True})
    client.upload(b"2", name="two", keyvalues={"other": "[]"})

    def names(search):
        rows = ask(node, "/data/pinList", {"search": search}).json()["rows"]
        return [row["metadata"]["name"] for row in rows]

    texts = ("kind=ä", "kind: ä", "RANK", "rank: 7", "done=true", "one")
    assert [names(text) for text in texts] == [["one"]] * len(texts)
    assert (names("[]"), names("{"), names('"')) == (["two"], [], [])


def test_the_list_has_the_places_of_copies_on_request(node, client):
    cid = CID.parse(client.upload(b"x").cid)
    client.upload(b"elsewhere")
    path = "/data/pinList?copies=true&sortOrder=ASC"
    assert [row.get("copies") for row in ask(node, path).json()["rows"]] == [None, None]
    with closing(Ledger(node.repository.path / "copies")) as ledger:
        ledger.intend(cid, PinInfo(), ["disk", "pinata"], want=2)
        ledger.note(cid, {"disk": CopyState("proven"), "pinata": CopyState("missing")})
        first = ask(node, path)
        places = {"disk": "proven", "pinata": "missing"}
        assert [row.get("copies") for row in first.json()["rows"]] == [places, None]
        etag = {"If-None-Match": first.headers["etag"]}
        assert ask(node, path, **etag).status == 304
        ledger.note(cid, {"pinata": CopyState("proven")})
    again = ask(node, path, **etag)
    assert (again.status, again.json()["rows"][0]["copies"]["pinata"]) == (200, "proven")
    assert "copies" not in ask(node, "/data/pinList").json()["rows"][0]
    (node.repository.path / "copies" / DATABASE).write_bytes(b"no ledger")
    assert "copies" not in ask(node, path).json()["rows"][0]  # and the list is there
