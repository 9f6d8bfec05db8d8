"""A node in a process of its own, whose memory can be looked at."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


class NodeProcess:
    def __init__(self, folder, *options):
        self.process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "holdfast.node", "--port", "0", "--path", str(folder), *options],
            env={**os.environ, "HOLDFAST_NODE_TOKEN": "token-0123456789"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        lines = [self.process.stdout.readline().split() for _ in range(4)]
        self.api_url = lines[0][-1]
        self.token = "token-0123456789"

    def memory(self):
        with open(f"/proc/{self.process.pid}/statm") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * 4096

    def peak_memory(self):
        with open(f"/proc/{self.process.pid}/status") as file:  # noqa: PTH123
            (line,) = (line for line in file if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def node_process(folder, *options):
    process = NodeProcess(folder, *options)
    try:
        yield process
    finally:
        process.close()
