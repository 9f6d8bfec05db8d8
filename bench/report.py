"""Write docs/benchmarks.md and its plots from the results: `python -m bench.report [FILE]`."""

import json
import re
import statistics
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.goals import AT_ONCE, GOALS, GROWTH, growth_work
from bench.plots import Bar, Group, bar_chart, shown
from bench.results import MOST_STEAL, SPARE_SECONDS, Figure, Results
from bench.workers import ROOT

RESULTS = ROOT / "bench" / "results" / "latest.json"
DOCS = ROOT / "docs"
NAMES = {
    "holdfast": "Holdfast",
    "urllib3": "urllib3, bare",
    "aiohttp": "aiohttp, bare",
    "httpx": "httpx, bare",
    "requests": "requests, bare",
    "pinata": "pinata (Node.js)",
    "pinata-web3": "pinata-web3 (Node.js)",
}

TEMPLATE = ROOT / "bench" / "page.md"
SERVERS = {
    "Go": "is written in Go and compiled (`bench/server/main.go`)",
    "asyncio": "is written with asyncio, as Go is not installed: it may be the bottleneck",
}
MANY = """## Many files

`upload_many` sends files of 10 kB to the node, 64 at a time. The workers by hand are 64
threads or tasks that take the same files and call `upload` of the same client."""

COPIES = """## Copies

Values of a few bytes, one after the other, to nodes that are 20 ms away: to one of them, and with
the provider `copies` to two of three (`want=2`, `need=1`), of which all are up, or one accepts
connections and never answers. And one run of `health` at 2 % over 100,000 pins of one block, which
two nodes have: the requests that the busier node got, its lists included, and how much memory the
client needed for it."""

ENCRYPTION = """## Encryption

The same client with and without its encrypted view: a large file to the server and back, and
`store` of 1 KB, 16 at once, to which aiohttp without encryption is compared. Everything is
verified. A download is decrypted when all of it is there."""

RESUMING = """## A very large upload

`Client.upload` sends a file of four times the size to a new node: with the provider `pinata` in
pieces of 48 MiB, so that it can be resumed (tus), and with `pinning` in one request. Both verify
the CID while they send. In pieces, the file is cut into leaves of 256 KiB, as at the service, else
into leaves of 1 MiB; each piece is on the disk of the node before it is acknowledged. Memory is the
peak of the client with its interpreter, and the growth of the node."""

PAGE = """## The page of the node

In Chromium, with 100,000 pins: from the start of the navigation to the first rows, and from a click
or a typed text to the rows that were asked for. And 200 files of 4 kB that are chosen together on
the page of an empty node, until the last is pinned."""

KUBO = """## Kubo as the provider

`AsyncClient.store` with the provider `kubo`, 16 at once, against `kubo-rpc-client` and Kubo's own
command `ipfs add`, which is a new process for each document. Each has a Kubo of its own. For each
document we send two requests: is it pinned under a name already, and the document itself.
`Client.download` verifies the file, and synchronises it to the disk before it gets its name;
`ipfs get` does neither. `Client.copy` copies a file of 128 MiB from one Kubo to another, and
verifies every block on the way; the other is `ipfs dag export | ipfs dag import`. `entries` lists a
directory of 6,000 files, which is sharded: a request for each of some hundred blocks."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot of some works, which have a heading each."""

    title: str
    unit: str
    works: dict[str, str]
    remark: str = ""
    less_is_better: bool = False
    common_scale: bool = True


RATE = "Requests a second"
PLOTS = {
    "small-requests": Plot(
        "JSON of 1 KB, async, 64 requests at once",
        RATE,
        {"store-async-64": "store", "retrieve-async-64": "retrieve"},
        "Holdfast verifies what it reads",
    ),
    "store": Plot(
        "store: JSON of 1 KB, async",
        RATE,
        {f"store-async-{count}": f"{count} at once" for count in AT_ONCE},
    ),
    "retrieve": Plot(
        "retrieve: JSON of 1 KB, async",
        RATE,
        {f"retrieve-async-{count}": f"{count} at once" for count in AT_ONCE},
        "Holdfast verifies, and so does verified-fetch",
    ),
    "blocking": Plot(
        "JSON of 1 KB, blocking",
        RATE,
        {"store-blocking": "store", "retrieve-blocking": "retrieve"},
        "Holdfast verifies",
    ),
    "transfers": Plot(
        "Upload and download of a large file",
        "MB/s",
        {"upload": "upload", "download": "download"},
        "The others do not verify",
    ),
    "memory": Plot(
        "Peak memory of the client in a large transfer",
        "MiB, with the interpreter",
        {"upload-memory": "upload", "download-memory": "download"},
        less_is_better=True,
    ),
    "cids": Plot("CID of a large file", "MB/s", {"cid": "all find the same CID"}),
    "node": Plot(
        "The node against Kubo",
        "Requests a second, MB/s",
        {
            "node-store": "JSON of 1 KB, 16 stores at once: requests a second",
            "node-upload": "upload of a large file by curl: MB/s",
            "node-download": "download of it by curl: MB/s",
        },
        common_scale=False,
    ),
    "startup": Plot(
        "Start of a new process",
        "Milliseconds",
        {"import": "import", "command": "command line"},
        less_is_better=True,
    ),
    "growth": Plot(
        "The embedded store as it grows",
        "Microseconds",
        {
            growth_work(work): f"{work}: {'one block' if work in ('check', 'gc') else 'one call'}"
            for work in GROWTH
        },
        less_is_better=True,
        common_scale=False,
    ),
}


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    write_report(Results.from_json(json.loads(path.read_bytes())), DOCS)


def write_report(results: Results, docs: Path) -> None:
    """Write the page, and the plots that have figures."""
    images = docs / "images"
    images.mkdir(parents=True, exist_ok=True)
    plots = make_plots(results)
    for name, svg in plots.items():
        images.joinpath(f"benchmark-{name}.svg").write_text(svg, encoding="utf-8")
    docs.joinpath("benchmarks.md").write_text(make_page(results, plots), encoding="utf-8")


def make_plots(results: Results) -> dict[str, str]:
    """Return the SVG of each plot by its name."""
    plots = {}
    for name, plot in PLOTS.items():
        works = [make_group(results, work, title) for work, title in plot.works.items()]
        groups = [group for group in works if group is not None]
        if groups:
            subtitle = f"{plot.unit}; {'less' if plot.less_is_better else 'more'} is better"
            subtitle += f". {plot.remark}" if plot.remark else ""
            plots[name] = bar_chart(plot.title, subtitle, groups, common_scale=plot.common_scale)
    return plots


def make_group(results: Results, work: str, title: str) -> Group | None:
    """Return the bars of a work, and the goal of the first that has one; None without figures."""
    figures = [figure for figure in results.figures.values() if figure.work == work]
    if not figures:
        return None
    goals: dict[str, float] = {}
    for goal in GOALS:
        limits = [results.median(*other) for other in goal.against]
        if goal.work == work and None not in limits:
            limit = min(median for median in limits if median is not None)
            goals.setdefault(goal.ours, goal.goal * limit)
    bars = [
        Bar(
            NAMES.get(figure.candidate, figure.candidate.replace("holdfast,", "Holdfast,")),
            figure.median,
            min(figure.values),
            max(figure.values),
            is_ours=is_ours(figure),
            is_pale="unverified" in figure.candidate,
            goal=goals.get(figure.candidate),
        )
        for figure in figures
    ]
    return Group(title, sorted(bars, key=lambda bar: not bar.is_ours))


def is_ours(figure: Figure) -> bool:
    """Return whether a candidate is Holdfast."""
    return figure.candidate.startswith("holdfast") or figure.section == "growth"


def make_page(results: Results, plots: Collection[str]) -> str:
    """Return the page: the template, with its marks replaced."""
    template = TEMPLATE.read_text(encoding="utf-8")
    parts = {**results.environment, **results.environment["machine"]}
    parts["steal"] = _steal(results)
    parts["minutes"] = f"{results.environment['seconds'] / 60:.1f}"
    parts["server"] = SERVERS[results.environment["server"]]
    parts["versions"] = ", ".join(f"{name} {of}" for name, of in parts["versions"].items())
    parts["goals"] = _goal_table(results)
    parts["unavailable"] = _unavailable(results)
    pieces = [figure.work for figure in results.figures.values() if figure.section == "pieces"]
    parts["many"] = _section(MANY, results, ["upload_many-blocking", "upload_many-async-64"])
    parts["copies"] = _section(
        COPIES, results, ["copies-store", "health-requests", "health-memory"]
    )
    parts["encryption"] = _section(
        ENCRYPTION,
        results,
        ["encrypted-upload", "encrypted-download", "encrypted-store", "encrypted-upload-memory"],
    )
    parts["resuming"] = _section(
        RESUMING,
        results,
        ["very-large-upload", "very-large-upload-memory", "very-large-upload-node-memory"],
    )
    parts["page"] = _section(PAGE, results, ["page"])
    parts["kubo"] = _section(
        KUBO, results, ["kubo-store", "kubo-download", "kubo-copy", "kubo-entries"]
    )
    parts["pieces"] = _table(results, list(dict.fromkeys(pieces)))
    growth = [growth_work(work) for work in GROWTH]
    parts["growth"] = _table(results, [*growth, *(f"{work}-memory" for work in growth)])

    def replace(mark: re.Match[str]) -> str:
        kind, *names = mark[1].split()
        if kind == "table":
            return _table(results, names)
        if kind == "plot":
            title = PLOTS[names[0]].title
            return f"![{title}](images/benchmark-{names[0]}.svg)" if names[0] in plots else ""
        return str(parts[kind])

    return re.sub("\n{3,}", "\n\n", re.sub(r"\{\{(.+?)\}\}", replace, template))


def _section(text: str, results: Results, works: Sequence[str]) -> str:
    """Return a section with the figures of some works, if they were measured."""
    table = _table(results, works)
    return f"{text}\n\n{table}" if table else ""


def _goal_table(results: Results) -> str:
    lines = ["| | ours | against | ratio | goal | |", "|---|--:|--:|--:|--:|---|"]
    for ratio in results.ratios():
        sign = "≤" if ratio.at_most else "≥"
        met = "met" if ratio.met else "**missed**"
        figures = f"{shown(ratio.ours)} | {shown(ratio.against)} | {ratio.ratio:.2f}"
        lines.append(f"| {ratio.title} | {figures} | {sign} {ratio.goal} | {met} |")
    return "\n".join(lines)


def _table(results: Results, works: Sequence[str]) -> str:
    """Return the figures of some works; small requests with the CPU time of the client."""
    rows = [
        (figure, results.median(f"{work}-cpu", figure.candidate))
        for work in works
        for figure in results.figures.values()
        if figure.work == work
    ]
    if not rows:
        return ""
    has_cpu = any(cpu is not None for _, cpu in rows)
    extra = (" CPU time of the client |", "--:|") if has_cpu else ("", "")
    lines = [f"| work | | median | spread |{extra[0]}", f"|---|---|--:|--:|{extra[1]}"]
    for figure, cpu in rows:
        spread = f"{figure.spread:.0%}" if len(figure.values) > 1 else ""
        cells = [
            in_words(figure.work),
            figure.candidate,
            f"{shown(figure.median)} {figure.unit}",
            spread,
        ]
        if has_cpu:
            cells.append("" if cpu is None else f"{shown(cpu)} µs")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def in_words(work: str) -> str:
    """Return the name of a work as readers see it."""
    name, is_async, count = work.partition("-async-")
    words = f"{name}, {count} at once" if is_async else work
    return (
        words.removeprefix("node-")
        .removeprefix("kubo-")
        .replace("-blocking", "")
        .replace("very-large-", "very large ")
        .replace("-", ", ")
    )


def _steal(results: Results) -> str:
    rule = (
        f"In a virtual machine, a round for which the host took more than {MOST_STEAL:.0%} of the "
        "processors' time away is measured again, at most once, and for at most "
        f"{SPARE_SECONDS:.0f} seconds in the whole run"
    )
    if not results.steal:
        return f"{rule}."
    usual, most = statistics.median(results.steal), max(results.steal)
    rule = f"{rule}. Of the rounds that count, the median is {usual:.1%}, the most {most:.1%}."
    if not results.paces:
        return rule
    longer = [pace / min(results.paces) for pace in results.paces]
    return (
        f"{rule} Others may also slow the processors down: a fixed piece of work before each round "
        f"took {statistics.median(longer):.2f} times as long as the shortest one (median), "
        f"{max(longer):.2f} times at most."
    )


def _unavailable(results: Results) -> str:
    rows = [f"- {name}: {reason}." for name, reason in results.unavailable.items()]
    return "\n".join(rows) or "Everything ran."


if __name__ == "__main__":
    main()
