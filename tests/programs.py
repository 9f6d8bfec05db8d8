"""Programs of the tests, each in a process of its own; they can measure their own memory."""

import subprocess
import sys

# `idle = start_measuring()`, then `peak_since(idle)`: bytes. Linux only.
MEASURING = """
from pathlib import Path

def _memory(field):
    return int(Path("/proc/self/status").read_text().partition(field + ":")[2].split()[0]) << 10

def start_measuring():
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here on
    return _memory("VmRSS")

def peak_since(idle):
    return _memory("VmHWM") - idle
"""

# The settings of a client of a service, whose address and token are the arguments.
SETTINGS = """
import asyncio, gc, os, resource, sys, time
from holdfast import AsyncClient, Client
settings = {
    "provider": "pinning",
    "provider_token": sys.argv[2],
    "pin_api_url": sys.argv[1],
    "gateway_url": sys.argv[1] + "/ipfs",
    "retries": {"attempts": 4, "base": 0.01, "cap": 0.05},
    "timeouts": {"connect": 30, "read": 30, "write": 30, "total": 60},
}
"""


def run_program(code, *arguments, **options):
    """Run Python code, which must end well and write no error; return what it writes."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # noqa: S603
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def run_measured(code, *arguments):
    """Run `code`, which may use the functions above; return what it writes."""
    return run_program(MEASURING + code, *arguments)


def start_program(code, *arguments, **options):
    """Start Python code with a pipe for each of its streams."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, text=True, **{**pipes, **options})  # noqa: S603


def in_both_colours(code):
    """Return a program that runs `main` of the async client, and the same for the blocking one."""
    blocking = code
    for word, other in {
        "AsyncClient": "Client",
        "asyncio.run(main())": "main()",
        "asyncio.sleep": "time.sleep",
        "await ": "",
        "async ": "",
    }.items():
        blocking = blocking.replace(word, other)
    return {"blocking": blocking, "async": code}
