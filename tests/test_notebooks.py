"""What notebooks show of values: tables of HTML, in which nothing of a peer is markup."""

import base64
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from holdfast import Blob, Client, ClientRecord, Pin
from holdfast.notebook import MOST_ROWS
from holdfast.records import Entry, EntryList, Health, Pins, Usage

EVIL = "<script>alert(1)</script><img src=x onerror=\"a('b')\">&amp;\x1b[2J"
PLAIN_TAGS = {"table", "tr", "td", "th", "p"}


class Reading(HTMLParser):
    """The tags and the text of a piece of HTML."""

    def __init__(self, html):
        super().__init__()
        self.tags = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


VALUES = {
    "record": ClientRecord(cid=EVIL, timestamp=1_700_000_000_000, size=3, data={"a": EVIL}),
    "upload": ClientRecord(cid=EVIL, timestamp=-5, size=3),
    "pin": Pin(id=EVIL, cid=EVIL, name=EVIL, keyvalues={EVIL: EVIL}, size=None),
    "pins": Pins([Pin(id="1", cid=EVIL, name=EVIL, keyvalues={EVIL: 1})]),
    "entry": Entry(name=EVIL, cid=EVIL, kind="file"),
    "entries": EntryList([Entry(name=EVIL, cid=EVIL, size=3)]),
    "usage": Usage(pins=1),
    "health": Health(cid=EVIL, name=EVIL, want=2, proven=(EVIL,)),
    "blob": Blob(EVIL.encode(), type=EVIL, name=EVIL),
    "page": Blob(EVIL.encode(), type="text/html"),
    "svg": Blob(b"<svg onload='alert(1)'/>", type="image/svg+xml", name=EVIL),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_nothing_of_a_value_is_markup(value):
    html = value._repr_html_()
    reading = Reading(html)
    assert {tag for tag, _ in reading.tags} <= PLAIN_TAGS
    assert not any(attributes for _, attributes in reading.tags)
    assert "\x1b" not in html
    assert "<svg" not in reading.text


def test_a_record_and_a_pin_are_a_table():
    record = ClientRecord(cid="bafkqaaa", timestamp=1_700_000_000_000, size=1234, data=[1])
    assert record._repr_html_() == (
        "<table><tr><td>CID</td><td>bafkqaaa</td></tr><tr><td>Size</td><td>1.21 KiB</td></tr>"
        "<tr><td>Time</td><td>2023-11-14 22:13 UTC</td></tr><tr><td>Data</td><td>[1]</td></tr>"
        "</table>"
    )
    assert (
        "{&#x27;z&#x27;: 1, &#x27;a&#x27;: 2}"
        in replace(record, data={"z": 1, "a": 2})._repr_html_()
    )  # the order is a part of the CID
    pin = Pin(id="1", cid="bafkqaaa", name="a", size=2048)
    cells = ("a", "2.00 KiB", "-", "bafkqaaa", "pinned")
    assert "".join(f"<td>{cell}</td>" for cell in cells) in pin._repr_html_()
    assert "Key-values" not in pin._repr_html_()
    html = Pins([pin, replace(pin, keyvalues={"a": 1.0, "b": True})])._repr_html_()
    assert "<th>State</th><th>Key-values</th>" in html
    assert "<td>pinned</td><td></td>" in html
    assert "<td>pinned</td><td>a=1 b=true</td>" in html


def test_a_list_of_pins_from_a_client_is_a_table_of_some_of_them(tmp_path):
    with Client.init(path=tmp_path) as client:
        client.store([1], name="one")
        client.store([2], name="two")
        pins = client.pins()
        assert pins == client.pins(name="o") == [*client.iter_pins()]
        assert client.pins(cid=pins[0].cid)._repr_html_().count("<tr>") == 2
    html = pins._repr_html_()
    assert html.index("<td>two</td>") < html.index("<td>one</td>")
    many = Pins([*pins] * MOST_ROWS)._repr_html_()
    assert (many.count("<tr>"), f"and {MOST_ROWS} more" in many) == (MOST_ROWS + 1, True)


def test_entries_of_a_folder_and_the_usage_are_tables(tmp_path):
    (tmp_path / "tides").mkdir()
    (tmp_path / "tides/low.txt").write_bytes(b"low")
    with Client.init(path=tmp_path / "store") as client:
        entries = client.entries(client.upload(tmp_path / "tides").cid)
        usage = client.usage()
    row = "".join(f"<td>{cell}</td>" for cell in ("low.txt", "3 B", "file", entries[0].cid))
    assert row in entries._repr_html_()
    assert "<td>kind</td><td>file</td>" in entries[0]._repr_html_()
    assert "<td>pins</td><td>1</td>" in usage._repr_html_()


@pytest.mark.parametrize(
    ("size", "is_shown"), [(10, True), (1 << 20, True), ((1 << 20) + 1, False)]
)
def test_an_image_is_shown_if_it_is_not_too_large(size, is_shown):
    blob = Blob(bytes(size), type="image/png", name="a.png")
    (_, attributes) = Reading(blob._repr_html_()).tags[-1]
    data = base64.b64encode(blob.read()).decode()
    assert attributes == ({"src": f"data:image/png;base64,{data}"} if is_shown else {})
