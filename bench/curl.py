"""One transfer by curl: how long it took, by its own clock, and its peak of memory."""

import shutil
import subprocess
import time
from pathlib import Path

from bench.workers import Result

REASON = "not available: curl is not installed"


def has_curl() -> bool:
    """Tell whether curl is installed."""
    return shutil.which("curl") is not None


def upload(url: str, path: Path, *headers: str) -> tuple[Result, str]:
    """Send a file as a form, and return the result and the body of the reply."""
    options = [word for header in headers for word in ("--header", header)]
    return _run([*options, "--form", f"file=@{path}", url])


def download(url: str, to: Path) -> Result:
    """Get a file."""
    return _run(["--output", str(to), url])[0]


def _run(arguments: list[str]) -> tuple[Result, str]:
    command = ["curl", "--silent", "--show-error", "--fail", "--write-out", "\n%{time_total}"]
    process = subprocess.Popen(  # noqa: S603 - our own arguments
        [*command, *arguments], stdout=subprocess.PIPE, text=True
    )
    peak = 0
    while process.poll() is None:
        peak = max(peak, peak_memory(process.pid))
        time.sleep(0.02)
    output = process.communicate()[0]
    if process.returncode:
        raise RuntimeError(f"curl ended with code {process.returncode}: {output}")
    body, _, seconds = output.rpartition("\n")
    return Result(1, float(seconds), 0.0, peak), body


def peak_memory(process: int) -> int:
    """Return the most bytes that a process has had so far; 0 if it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    words = status.partition("VmHWM:")[2].split()
    return int(words[0]) * 1024 if words else 0
