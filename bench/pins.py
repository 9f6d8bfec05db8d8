"""The growth of the embedded store: the figures of bench/growth.py."""

import json
import subprocess
import sys

from bench.goals import GROWTH, growth_work
from bench.plan import Plan
from bench.workers import ROOT

SCRIPT = ROOT / "bench" / "growth.py"
FOR_EACH_BLOCK = frozenset({"check", "gc"})


def run(plan: Plan) -> None:
    """Measure calls with few pins and with many."""
    if not SCRIPT.exists():
        plan.results.unavailable["growth"] = "not available: bench/growth.py is missing"
        return
    file = plan.folder / "growth.json"
    options = ["--quick"] if plan.quick else []
    # It ends with 1 where it misses a goal; the goals are judged here.
    command = [sys.executable, str(SCRIPT), "--json", str(file), *options]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False, cwd=ROOT)  # noqa: S603
    for row in json.loads(file.read_bytes()):
        work, size = row["work"], row["size"]
        if work not in GROWTH:
            continue
        candidate = f"{size:,} pins"
        calls = size if work in FOR_EACH_BLOCK else 1
        seconds = row["seconds"] / calls
        plan.results.add("growth", growth_work(work), candidate, "us", seconds * 1e6)
        if "peak_rss_mib" in row:
            memory = f"{growth_work(work)}-memory"
            plan.results.add("growth", memory, candidate, "MiB", row["peak_rss_mib"])
