"""A very large upload to the node: in pieces, so that it can be resumed, and in one request."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

from bench.content import MIB, mark_blocks
from bench.goals import IN_PIECES, ONE_REQUEST
from bench.nodes import start_ours
from bench.plan import Plan
from bench.workers import ROOT

PROVIDERS = {IN_PIECES: "pinata", ONE_REQUEST: "pinning"}


def run(plan: Plan) -> None:
    """Measure the rate, and the memory of the client and of the node."""
    folder = plan.folder / "resuming"
    folder.mkdir()
    path = folder / "file"
    with path.open("wb") as file:
        for _ in range(plan.very_large // plan.large_file.stat().st_size):
            with plan.large_file.open("rb") as part:
                shutil.copyfileobj(part, file, MIB)

    def measure(name: str, number: int) -> None:
        mark_blocks(path, f"{name} {number}")
        store = folder / "store"
        store.mkdir()
        with closing(start_ours(store)) as node:
            idle = node.peak_memory()
            os.sync()  # what others have written is not written during this upload
            result = upload(PROVIDERS[name], node.url, path, folder)
            rate = path.stat().st_size / result["seconds"] / 1e6
            grown = (node.peak_memory() - idle) / MIB
        plan.results.add("resuming", "very-large-upload", name, "MB/s", rate)
        plan.results.add("resuming", "very-large-upload-memory", name, "MiB", result["peak"] / MIB)
        plan.results.add("resuming", "very-large-upload-node-memory", name, "MiB", grown)
        shutil.rmtree(store)

    plan.results.take_turns(plan.very_large_rounds, [partial(measure, name) for name in PROVIDERS])
    shutil.rmtree(folder)


def upload(provider: str, url: str, path: Path, folder: Path) -> dict[str, float]:
    """Upload a file in a new process; return its `Result` as a mapping."""
    done = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", "bench.clients.large_upload", provider, url, str(path)],
        stdout=subprocess.PIPE,
        check=True,
        cwd=ROOT,
        env={**os.environ, "XDG_DATA_HOME": str(folder)},
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result
