"""A real browser for the tests of the page: Chromium, headless, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Request, expect, sync_playwright

from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.testing import RunningNode

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
    "53de0000000c49444154789c63e8e7c2070003180125a2ba2d0d0000000049454e44ae426082"
)

WAIT = 60_000  # milliseconds for what must happen; a machine may stall
expect.set_options(timeout=WAIT)

VARIABLE = "HOLDFAST_CHROMIUM"  # where it is; with it, a missing browser is no reason to skip
NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """The path of Chromium on this machine."""
    program = os.environ.get(VARIABLE) or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("Chromium is not installed: make browser")
    return program


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Chromium, for as long as the block lasts."""
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    arguments = ["--no-sandbox"] if is_root else []  # root has no sandbox to be in
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=arguments)
        yield browser
        browser.close()


def touch_screen(width: int, height: int) -> dict[str, Any]:
    """The options of a visit by a phone or a tablet."""
    return {
        "viewport": {"width": width, "height": height},
        "has_touch": True,
        "is_mobile": True,
    }


def written_files(folder: Path, count: int, size: int = 1) -> list[Path]:
    """Write this many files of this size, all different; return their paths."""
    files = [folder / f"{number:03}.bin" for number in range(count)]
    for number, file in enumerate(files):
        file.write_bytes(bytes([number]) * size)
    return files


class Visit:
    """A tab on the page of a node, and all that went on in it."""

    def __init__(self, browser: Browser, node: RunningNode, **options: Any) -> None:
        self.context = browser.new_context(
            permissions=["clipboard-read", "clipboard-write"], **options
        )
        self.node = node
        self.complaints: list[str] = []
        self.requests: list[Request] = []
        self.tab = self.new_tab()

    def new_tab(self) -> Page:
        tab = self.context.new_page()
        tab.set_default_timeout(WAIT)
        tab.on("console", lambda message: self.complaints.append(message.text))
        tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        tab.on("request", lambda request: self.requests.append(request))  # noqa: PLW0108 - a plain function is wanted
        return tab

    def open(self, address: str | None = None) -> Page:
        self.tab.goto(address or self.node.page_url)
        return self.tab

    def open_empty(self) -> Page:
        """Open the page of a node without pins, and wait until it says so."""
        tab = self.open()
        expect(tab.locator("#empty")).to_be_visible()
        return tab

    def show(self, *names: str) -> Page:
        """Pin a text for each name, open the page, and wait until the list shows the last one."""
        for name in names:
            self.node.repository.add(name.encode(), UNIXFS_V1_2025, name=name)
        tab = self.open()
        expect(self.row(names[-1])).to_be_visible()
        return tab

    def close(self) -> None:
        self.context.close()

    def row(self, name: str) -> Locator:
        """The row of a pin, by its name."""
        button = self.tab.get_by_role("button", name=name, exact=True)
        return self.tab.locator("#pins tbody tr").filter(has=button)

    def names(self) -> list[str]:
        """The names of the pins that are shown."""
        return self.tab.locator("#pins td.name button").all_inner_texts()

    def clipboard(self) -> str:
        return str(self.tab.evaluate("navigator.clipboard.readText()"))

    def drop(self, *paths: Path) -> None:
        """Drop files or folders of this machine on the page, as a user's hand does."""
        session = self.context.new_cdp_session(self.tab)
        data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            session.send(
                "Input.dispatchDragEvent", {"type": kind, "x": 300, "y": 110, "data": data}
            )
