"""How fast the page of the node is in Chromium: `python -m bench.node_page`.

With 100,000 pins: the time until the first rows are shown, are sorted, and are searched. Each has
to stay below a second. Then the time to upload 200 small files to an empty node.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page
from tests.browser import NAMES, Visit, running_browser

from bench import growth
from bench.goals import PAGE_LIMIT
from bench.plan import Plan
from holdfast.testing import running_node

PINS = 100_000
FILES = 200
FILE_BYTES = 4_000
SLOWEST = "the slowest with many pins"

# Notes the milliseconds after which the first row is shown.
NOTE_ROWS = """() => {
    const look = () => {
        if (document.querySelector("#pins tbody tr")) window.shownAfter = performance.now();
        else requestAnimationFrame(look);
    };
    look();
}"""
# Resolves with them. `wait_for_function` would need what the policy of the page forbids.
UNTIL_SHOWN = """() => new Promise((resolve) => {
    const look = () => {
        if (window.shownAfter) resolve(window.shownAfter);
        else requestAnimationFrame(look);
    };
    look();
})"""
# Resolves with the milliseconds until the first row has another name than `before`.
UNTIL_ROWS = """(before) => new Promise((resolve) => {
    const start = performance.now();
    const look = () => {
        const name = document.querySelector("#pins tbody td.name")?.textContent ?? "";
        const isBusy = document.querySelector("#pins")?.ariaBusy === "true";
        if (name && name !== before && !isBusy) resolve(performance.now() - start);
        else requestAnimationFrame(look);
    };
    act();
    look();
})"""


def run(plan: Plan) -> None:
    """Measure the page, if Chromium is installed."""
    if not any(map(shutil.which, NAMES)):
        plan.results.unavailable["page"] = "not available: Chromium is not installed"
        return
    shown = with_many_pins(PINS, 1 if plan.quick else 3)
    uploaded = upload_many(1 if plan.quick else 3)
    for work, seconds in {**shown, **uploaded}.items():
        for duration in seconds:
            plan.results.add("page", "page", work, "ms", duration * 1000)
    slowest = max(statistics.median(seconds) for seconds in shown.values())
    plan.results.add("page", "page", SLOWEST, "ms", slowest * 1000)
    plan.results.add("page", "page", "limit", "ms", PAGE_LIMIT)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.node_page", description=__doc__)
    parser.add_argument("--pins", type=int, default=PINS)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    figures = {**with_many_pins(options.pins, options.rounds), **upload_many(options.rounds)}
    for work, seconds in figures.items():
        print(f"{work:<32} {statistics.median(seconds):6.3f} s  (most {max(seconds):.3f})")


def with_many_pins(count: int, rounds: int) -> dict[str, list[float]]:
    """Return the seconds until rows are shown, sorted and found, with `count` pins."""
    with tempfile.TemporaryDirectory() as folder:
        growth.fill(Path(folder), count + growth.TIMED)
        with running_node(folder) as node, running_browser() as browser:
            taken: dict[str, list[float]] = {}
            for _ in range(rounds):
                visit = Visit(browser, node)
                tab = visit.tab
                taken.setdefault("first rows", []).append(open_seconds(visit))
                for column in ("name", "size", "mime_type"):
                    click = f'document.querySelector("th[data-sort={column}] button").click()'
                    work = f"sort by {column.replace('mime_', '')}"
                    taken.setdefault(work, []).append(seconds_until_rows(tab, click))
                for text in ("document 77777", "T 8888"):
                    typed = f"""const field = document.querySelector("#search");
                        field.value = {text!r};
                        field.dispatchEvent(new Event("input", {{bubbles: true}}))"""
                    taken.setdefault("search", []).append(seconds_until_rows(tab, typed))
                visit.close()
            return taken


def open_seconds(visit: Visit) -> float:
    """Return the seconds from the start of the navigation to the first rows."""
    visit.tab.add_init_script(f"({NOTE_ROWS})()")
    visit.open()
    return float(visit.tab.evaluate(UNTIL_SHOWN)) / 1000


def seconds_until_rows(tab: Page, act: str) -> float:
    """Return the seconds until other rows are shown after the statement `act`."""
    before = tab.locator("#pins td.name").first.text_content()
    script = UNTIL_ROWS.replace("act();", f"{act};")
    return float(tab.evaluate(script, before)) / 1000


def upload_many(rounds: int) -> dict[str, list[float]]:
    """Return the seconds from choosing many small files to the last pin."""
    taken = []
    with running_browser() as browser:
        for _ in range(rounds):
            with running_node() as node, tempfile.TemporaryDirectory() as folder:
                files = [Path(folder, f"{number}.bin") for number in range(FILES)]
                for number, file in enumerate(files):
                    file.write_bytes(number.to_bytes(4) * (FILE_BYTES // 4))
                visit = Visit(browser, node)
                visit.open().wait_for_selector("#empty:not([hidden])")
                start = time.perf_counter()
                visit.tab.set_input_files("#files", files)
                while node.repository.totals().pins < FILES:
                    time.sleep(0.005)
                taken.append(time.perf_counter() - start)
                visit.close()
    return {f"upload of {FILES} files": taken}


if __name__ == "__main__":
    main()
