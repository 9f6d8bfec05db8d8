"""Programs that measure their own memory. Linux only."""

import subprocess
import sys

# `idle = start_measuring()`, then `peak_since(idle)`: bytes.
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


def run_measured(code, *arguments):
    """Run `code`, which may use the functions above, in a process; return what it writes."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", MEASURING + code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
