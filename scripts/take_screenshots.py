"""Take the pictures of the page for the docs: docs/images/page*.png. Needs Chromium.

With `--all FOLDER`, take every state in light and dark at three widths instead, to look at them.
"""

import argparse
import math
import struct
import sys
import tempfile
import wave
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Browser, Page  # noqa: E402
from tests.browser import Visit, running_browser  # noqa: E402

from holdfast import Client  # noqa: E402
from holdfast.content.cid import CID  # noqa: E402
from holdfast.repository import PinQuery  # noqa: E402
from holdfast.testing import RunningNode, running_node  # noqa: E402

SIZES = {390: 780, 820: 1180, 1280: 800}
WIDE = {"width": 1280, "height": 720}
UPLOADED = "measurements"  # the beginning of the names of what is uploaded in a picture
UPLOADS = tempfile.TemporaryDirectory(prefix="holdfast-pictures-")  # until all pictures are taken
PHONE = {"width": 390, "height": 780}
DOCS: dict[str, tuple[str, str, dict[str, int]]] = {
    "page": ("full", "light", WIDE),
    "page-dark": ("full", "dark", WIDE),
    "page-empty": ("empty", "light", WIDE),
    "page-uploading": ("uploading", "light", WIDE),
    "page-preview": ("preview", "light", WIDE),
    "page-folder": ("folder", "dark", WIDE),
    "page-phone": ("full", "light", PHONE),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="take every state into FOLDER")
    parser.add_argument("--only", choices=STATES, action="append", help="a state; may repeat")
    options = parser.parse_args()
    pictures = DOCS
    if options.all:
        pictures = {
            f"{state}-{width}-{scheme}": (state, scheme, {"width": width, "height": height})
            for state in STATES
            for width, height in SIZES.items()
            for scheme in ("light", "dark")
        }
    folder = options.all or IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    with running_browser() as browser, running_node() as empty, running_node() as node:
        fill(browser, node)
        for name, (state, scheme, viewport) in pictures.items():
            if not options.only or state in options.only:
                shown = empty if state == "empty" else node
                picture = take(browser, shown, state, scheme, viewport)
                folder.joinpath(f"{name}.png").write_bytes(picture)


def take(
    browser: Browser, node: RunningNode, state: str, scheme: str, viewport: dict[str, int]
) -> bytes:
    """Open the page, bring it into a state, and take the picture."""
    options: dict[str, Any] = {"viewport": viewport, "color_scheme": scheme}
    if viewport["width"] < 500:
        options |= {"has_touch": True, "is_mobile": True, "device_scale_factor": 2}
    visit = Visit(browser, node, reduced_motion="reduce", **options)
    tab = visit.open()
    tab.wait_for_selector("#pins[aria-busy=false]", state="attached")
    STATES[state](visit, tab)
    tab.wait_for_timeout(400)  # images are decoded
    picture = tab.screenshot()
    visit.close()
    for pin in node.repository.pins(PinQuery(name_contains=UPLOADED)):
        node.repository.unpin(CID.parse(pin.cid))
    return picture


def show_empty(_: Visit, tab: Page) -> None:
    tab.wait_for_selector("#empty:not([hidden])")


def show_full(_: Visit, tab: Page) -> None:
    tab.wait_for_selector("#pins tbody tr")
    tab.locator("#pins tbody tr").nth(2).hover()


def show_uploading(visit: Visit, tab: Page) -> None:
    tab.wait_for_selector("#pins tbody tr")
    session = visit.context.new_cdp_session(tab)
    line = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 3_000_000}
    session.send("Network.enable")
    session.send("Network.emulateNetworkConditions", line)
    files = [Path(UPLOADS.name, f"{UPLOADED}-{number:02}.dat") for number in range(24)]
    for number, file in enumerate(files):
        file.write_bytes(bytes([number]) * (16_000_000 if number < 2 else 20_000))
    tab.set_input_files("#files", files)
    tab.wait_for_timeout(2500)


def show_error(_: Visit, tab: Page) -> None:
    tab.wait_for_selector("#pins tbody tr")
    tab.route("**/data/*", lambda route: route.abort())
    tab.get_by_role("button", name="Refresh").click()
    tab.wait_for_selector("#problem:not([hidden])")


def show_preview(_: Visit, tab: Page) -> None:
    tab.get_by_role("button", name="brest.json", exact=True).click()
    tab.wait_for_selector("#content .json")


def show_folder(_: Visit, tab: Page) -> None:
    tab.get_by_role("button", name="shore survey", exact=True).click()
    tab.wait_for_selector("#content .entries img")


STATES: dict[str, Callable[[Visit, Page], None]] = {
    "empty": show_empty,
    "full": show_full,
    "uploading": show_uploading,
    "error": show_error,
    "preview": show_preview,
    "folder": show_folder,
}

STATION = {
    "station": "Brest",
    "position": {"latitude": 48.3829, "longitude": -4.4949},
    "unit": "m",
    "levels": [
        {"time": "2026-11-15T00:00:00Z", "level": 1.24, "checked": True},
        {"time": "2026-11-15T06:12:00Z", "level": 6.41, "checked": True},
        {"time": "2026-11-15T12:31:00Z", "level": 1.37, "checked": False},
    ],
    "remarks": None,
}
NOTES = b"""# Field notes

Saccharina on the lower shore, **denser** than in spring. See `levels-2026.csv`.

- holdfasts on bedrock
- none on sand
"""


def fill(browser: Browser, node: RunningNode) -> None:
    """Pin what the pictures show."""
    with Client.init(node.config) as client, tempfile.TemporaryDirectory() as folder:
        client.send("alice", "The tide tables are pinned.")
        client.upload(tone(), name="curlew.wav")
        client.upload(b"%PDF-1.7\n" + bytes(48_000), name="permit.pdf")
        client.upload(b"time,level\n" + b"00:00,1.24\n" * 90_000, name="levels-2026.csv")
        client.upload(NOTES, name="notes.md")
        client.upload(
            b"PK\3\4" + bytes(2_400_000), name="raw-images-of-the-drone-flight-over-the-bay.zip"
        )
        client.upload(shore(2), name="high-tide.png")
        survey = Path(folder, "shore survey")
        (survey / "2025").mkdir(parents=True)
        (survey / "2025" / "old.png").write_bytes(shore(5))
        (survey / "index.html").write_text("<h1>Shore survey</h1>")
        (survey / "species.csv").write_text("name,count\nSaccharina latissima,41\n")
        (survey / "notes.md").write_bytes(NOTES)
        for number, name in enumerate(("dawn", "low-tide", "pools", "rocks", "sandbank")):
            (survey / f"{name}.png").write_bytes(shore(number))
        visit = Visit(browser, node)  # folders come in by the page
        visit.open().set_input_files("#folder", survey)
        visit.row("shore survey").wait_for()
        visit.close()
        client.store(STATION, name="brest.json", keyvalues={"kind": "tides", "year": "2026"})
        client.upload(shore(1), name="low-tide.png")


def tone(seconds: float = 2.0, rate: int = 8000) -> bytes:
    """A sound of one rising note."""
    target = BytesIO()
    with wave.open(target, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        samples = (
            round(9000 * math.sin(at * at / 9e3 + at / 3)) for at in range(int(rate * seconds))
        )
        sound.writeframes(b"".join(struct.pack("<h", sample) for sample in samples))
    return target.getvalue()


SKIES = (
    (214, 232, 240),
    (246, 214, 182),
    (190, 214, 232),
    (250, 236, 210),
    (205, 196, 222),
    (180, 200, 190),
)


def shore(number: int, width: int = 900, height: int = 540) -> bytes:
    """A picture: sky, sea and sand, one above the other, with a sun."""
    sky, sea, sand = SKIES[number], (15, 118 - 8 * number, 110 + 6 * number), (226, 205, 168)
    horizon = 180 + 24 * number
    sun_x, sun_y = 140 + 130 * number, 90 + 8 * number
    rows = []
    for y in range(height):
        upper, lower, share = (
            (sky, sky, 0.0)
            if y < horizon
            else (sea, sand, min(1.0, (y - horizon) / (height - horizon)) ** 3)
        )
        colour = bytes(round(a + (b - a) * share) for a, b in zip(upper, lower, strict=True))
        row = bytearray(colour * width)
        half = 45**2 - (y - sun_y) ** 2
        if half > 0:
            reach = math.isqrt(half)
            row[3 * (sun_x - reach) : 3 * (sun_x + reach)] = bytes((255, 246, 214)) * (2 * reach)
        rows.append(b"\0" + bytes(row))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(rows), 9)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    )


if __name__ == "__main__":
    main()
