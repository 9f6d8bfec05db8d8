"""What a user waits for and stores on disk: start-up, imports, packages and their bytes."""

import compileall
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.peers import PYTHON, installed_size
from bench.plan import Plan
from bench.workers import ROOT

OURS = ROOT / "src" / "holdfast"
HOLDFAST = Path(sys.executable).parent / "holdfast"
IMPORTS = {
    "holdfast": "from holdfast import Client",
    "holdfast, async": "from holdfast import AsyncClient",
    "urllib3": "import urllib3",
    "aiohttp": "import aiohttp",
    "requests": "import requests",
    "httpx": "import httpx",
    "pinatapy-vourhey": "import pinatapy",
}
INSTALLED = frozenset({"holdfast", "holdfast, async", "urllib3", "aiohttp"})  # in our environment
NEEDS = {"holdfast": ("urllib3",), "holdfast, async": ("urllib3", "aiohttp")}


def run(plan: Plan) -> None:
    """Measure the start of fresh processes; count the packages and bytes installed."""
    folders = {name: folder for name in PYTHON if (folder := plan.peers.python(name))}
    compileall.compile_dir(OURS, quiet=1)  # as pip does it for packages that it installs
    works: list[Callable[[int], None]] = []
    for name, statement in IMPORTS.items():
        if name in folders or name in INSTALLED:
            command = [sys.executable, "-c", statement]
            packages = None if name in INSTALLED else folders[name]
            works.append(partial(_start, plan, "import", name, command, packages))
    version, typer = [str(HOLDFAST), "--version"], [sys.executable, "-c", "import typer"]
    works.append(partial(_start, plan, "command", "holdfast --version", version, None))
    works.append(partial(_start, plan, "command", "import typer", typer, None))
    plan.results.take_turns(plan.start_rounds, works)
    own = sum(
        path.stat().st_size
        for path in OURS.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    for name, folder in folders.items():
        _count(plan, name, *installed_size(folder))
    for name, needed in NEEDS.items():
        if all(package in folders for package in needed):
            sizes = [installed_size(folders[package]) for package in needed]
            packages, size = (sum(amounts) for amounts in zip(*sizes, strict=True))
            _count(plan, name, 1 + packages, own + size)


def _start(
    plan: Plan, work: str, name: str, command: list[str], packages: Path | None, _: int
) -> None:
    environment = {**os.environ, **({"PYTHONPATH": str(packages)} if packages else {})}
    start = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)  # noqa: S603
    milliseconds = (time.perf_counter() - start) * 1000
    plan.results.add("startup", work, name, "ms", milliseconds)


def _count(plan: Plan, name: str, packages: int, size: int) -> None:
    plan.results.add("startup", "packages", name, "packages", packages)
    plan.results.add("startup", "installed", name, "MB", size / 1e6)
