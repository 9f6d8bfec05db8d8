"""The machine, the versions and the date of a run."""

import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.nodes import KUBO, KUBO_VERSION
from bench.peers import NODE_22, NPM, PYTHON, node_version
from holdfast import __version__


def describe_run(server: str) -> dict[str, Any]:
    """Return what a reader must know to compare the figures."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": {
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "memory": f"{_memory_gib():.0f} GiB",
            "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        },
        "server": server,
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    versions = {
        "Holdfast": __version__,
        "Python": platform.python_version(),
        "typer": version("typer"),
    }
    versions |= PYTHON | NPM
    if node := shutil.which("node"):
        versions["Node.js"] = node_version(node)
        versions["Node.js for verified-fetch"] = NODE_22[1]
    if KUBO.exists():
        versions["Kubo"] = KUBO_VERSION.removeprefix("v")
    for name, command in (("Go", ["go", "env", "GOVERSION"]), ("curl", ["curl", "--version"])):
        if tool := shutil.which(command[0]):
            done = subprocess.run(  # noqa: S603 - our own commands
                [tool, *command[1:]], capture_output=True, text=True, check=True
            )
            versions[name] = done.stdout.removeprefix("curl").removeprefix("go").split()[0]
    return versions


def _cpu() -> str:
    """Return the name of the processor, and whether it has instructions for SHA-256."""
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    flags = (fields.get("flags") or fields.get("Features", "")).split()
    without = "" if {"sha_ni", "sha2"} & {*flags} else " without instructions for SHA-256"
    return fields.get("model name", platform.machine()) + without


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
