"""Take the pictures of the page for the docs: docs/images/page*.png. Needs Chromium."""

import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Browser  # noqa: E402
from tests.browser import Visit, running_browser  # noqa: E402

from holdfast import Client  # noqa: E402
from holdfast.testing import RunningNode, running_node  # noqa: E402

WIDE = {"width": 1280, "height": 720}
VIEWS: dict[str, dict[str, Any]] = {
    "page.png": {"viewport": WIDE, "color_scheme": "light"},
    "page-dark.png": {"viewport": WIDE, "color_scheme": "dark"},
    "page-phone.png": {"viewport": {"width": 390, "height": 780}},
}


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with running_node() as node, running_browser() as browser:
        fill(browser, node)
        for name, options in VIEWS.items():
            visit = Visit(browser, node, **options)
            tab = visit.open()
            tab.wait_for_selector("#pins[aria-busy=false] tbody tr")
            tab.wait_for_timeout(300)  # what fades has faded
            tab.screenshot(path=IMAGES / name)
            if name == "page.png":
                tab.get_by_role("button", name="low-tide.png", exact=True).click()
                tab.wait_for_selector("#content img")
                tab.wait_for_timeout(300)
                tab.screenshot(path=IMAGES / "page-preview.png")
            visit.close()


def fill(browser: Browser, node: RunningNode) -> None:
    with Client.init(node.config) as client, tempfile.TemporaryDirectory() as folder:
        client.send("alice", "The tide tables are pinned.")
        client.store({"station": "Brest", "levels": [1.2, 3.4, 5.9, 6.4], "unit": "m"})
        client.upload(b"time,level\n" + b"00:00,1.24\n" * 90_000, name="levels-2026.csv")
        client.upload(b"# Field notes\n\nSaccharina on the lower shore.\n", name="notes.md")
        client.upload(shore(), name="low-tide.png")
        site = Path(folder, "site")
        (site / "images").mkdir(parents=True)
        (site / "index.html").write_text("<h1>Shore survey</h1>")
        (site / "images" / "shore.png").write_bytes(shore())
        visit = Visit(browser, node)  # folders come in by the page
        visit.open().set_input_files("#folder", site)
        visit.row("site").wait_for()
        visit.close()


def shore(width: int = 900, height: int = 420) -> bytes:
    """A picture: sky, sea and sand, one above the other."""
    sky, sea, sand = (214, 232, 240), (15, 118, 110), (226, 205, 168)
    rows = []
    for y in range(height):
        upper, lower, share = (sky, sea, y / 200) if y < 200 else (sea, sand, (y - 200) / 220)
        colour = bytes(round(a + (b - a) * share**2) for a, b in zip(upper, lower, strict=True))
        rows.append(b"\0" + colour * width)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(rows), 9)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    )


if __name__ == "__main__":
    main()
