"""Start the server that does nothing but answer: compiled if Go is there, else asyncio."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.workers import ROOT

PEERS = ROOT / "bench" / ".peers"
SOURCE = ROOT / "bench" / "server"


@dataclass(frozen=True, slots=True)
class NeutralServer:
    """The server in a process of its own."""

    kind: str
    url: str
    process: "subprocess.Popen[str]"

    def close(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def build_server() -> Path | None:
    """Return the compiled server; None if there is no Go."""
    if shutil.which("go") is None:
        return None
    binary = PEERS / "server"
    PEERS.mkdir(exist_ok=True)
    command = ["go", "build", "-o", str(binary), "."]
    subprocess.run(command, cwd=SOURCE, check=True)  # noqa: S603 - our own source
    return binary


def start_server(folder: Path) -> NeutralServer:
    """Serve the content of a folder."""
    binary = build_server()
    if binary is None:
        kind, command = "asyncio", [sys.executable, "-m", "bench.asyncio_server", str(folder)]
    else:
        kind, command = "Go", [str(binary), "serve", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)  # noqa: S603
    if process.stdout is None:
        raise RuntimeError("the server has no output")
    return NeutralServer(kind, process.stdout.readline().strip(), process)
