"""Run the benchmarks: `python -m bench --help`."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench import (
    against,
    cids,
    copies,
    encryption,
    health,
    kubo,
    many,
    node,
    node_page,
    pieces,
    pins,
    resuming,
    small,
    startup,
    transfers,
)
from bench.about import describe_run
from bench.content import write_documents, write_large
from bench.neutral_server import start_server
from bench.plan import Plan
from bench.report import DOCS, write_report
from bench.results import Results

SECTIONS = {
    "small": small.run,
    "transfers": transfers.run,
    "cids": cids.run,
    "node": node.run,
    "resuming": resuming.run,
    "kubo": kubo.run,
    "many": many.run,
    "copies": copies.run,
    "encryption": encryption.run,
    "health": health.run,
    "pieces": pieces.run,
    "startup": startup.run,
    "growth": pins.run,
    "page": node_page.run,
}
NOT_QUICK = frozenset(
    {"resuming", "kubo", "many", "copies", "encryption", "health", "page"}
)  # unless they are asked for


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and sections")
    parser.add_argument("--bare", action="store_true", help="without peers that are installed")
    parser.add_argument("--only", choices=SECTIONS, action="append", help="a section; may repeat")
    parser.add_argument("--output", type=Path, help="write the results to this file, as JSON")
    parser.add_argument("--page", action="store_true", help="write docs/benchmarks.md and plots")
    parser.add_argument("--against", metavar="REVISION", help="compare with an older version")
    parser.add_argument(
        "--case",
        choices=against.CASES,
        action="append",
        metavar="NAME",
        help=f"with --against, a case; may repeat: {', '.join(against.CASES)}",
    )
    options = parser.parse_args()
    if options.against is not None:
        sys.exit(against.run(options.against, options.case or ()))
    results = Results(spare=0.0) if options.quick else Results()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        write_documents(folder)
        mebibytes = 128 if options.quick else 512
        large_file = write_large(folder, mebibytes)
        server = start_server(folder)
        try:
            results.environment |= describe_run(server.kind)
            results.environment["size"] = f"{mebibytes} MiB"
            plan = Plan(server, folder, large_file, results, quick=options.quick, bare=options.bare)
            plan.peers.install_all()
            start = time.perf_counter()
            usual = [
                section for section in SECTIONS if not (options.quick and section in NOT_QUICK)
            ]
            for section in options.only or usual:
                began = time.perf_counter()
                SECTIONS[section](plan)
                print(f"{section}: {time.perf_counter() - began:.0f} seconds", flush=True)
        finally:
            server.close()
    for name in results.unavailable:
        results.environment["versions"].pop(name, None)
    results.environment["seconds"] = round(time.perf_counter() - start)
    print_results(results)
    if options.output:
        results.write(options.output)
    if options.page:
        write_report(results, DOCS)


def print_results(results: Results) -> None:
    """Print every figure with its spread, then every ratio beside its goal."""
    for figure in results.figures.values():
        row = f"{figure.work:<26} {figure.candidate:<14} {figure.median:>10,.1f} {figure.unit:<12}"
        print(f"{row} spread {figure.spread:4.0%}")
    print()
    for ratio in results.ratios():
        sign = "at most" if ratio.at_most else "at least"
        met = "met" if ratio.met else "MISSED"
        print(f"{ratio.title:<46} {ratio.ratio:6.2f}   {sign} {ratio.goal}: {met}")
        if ratio.by_cpu is not None:
            print(f"{'by the CPU time of the client':>46} {ratio.by_cpu:6.2f}")
    for name, reason in results.unavailable.items():
        print(f"{name}: {reason}")
    print(f"\n{results.environment['seconds']} seconds")


if __name__ == "__main__":
    main()
