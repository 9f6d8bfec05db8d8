"""The nodes of `examples/cluster/nodes.sh`, for tests."""

import os
import random
import socket
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path

from scripts.build_engines import CLUSTER, KUBO

from tests.engines import engine_path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "examples/cluster/nodes.sh"
PORTS = [10 * node + use for node in (1, 2, 3) for use in range(5)]  # after the first port


def engines_on_path(folder):
    """A PATH with the engines under their usual names; skip the test where they are not built."""
    folder.mkdir()
    for name, engine in (("ipfs", KUBO), ("ipfs-cluster-service", CLUSTER)):
        (folder / name).symlink_to(engine_path(engine))
    return f"{folder}:{os.environ['PATH']}"


def free_range():
    """A first port for the script: all ports that it needs are free."""
    while True:
        first = random.randrange(20_000, 32_000, 100)  # noqa: S311 - below those for connections
        with ExitStack() as stack:
            try:
                for port in PORTS:
                    stack.enter_context(socket.create_server(("127.0.0.1", first + port)))
            except OSError:
                continue
            return first


class ExampleNodes:
    """Runs the script in a folder.

    Attributes:
        variables: The environment in which it runs.
    """

    def __init__(self, folder):
        self.folder = folder
        self.first_port = free_range()
        self.variables = {
            **os.environ,
            "PATH": engines_on_path(folder / "bin"),
            "NODES": str(folder / "nodes"),
            "FIRST_PORT": str(self.first_port),
        }

    def run(self, *words):
        return subprocess.run(  # noqa: S603
            [SCRIPT, *words],
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def check(self, *words):
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@contextmanager
def example_nodes(folder):
    nodes = ExampleNodes(folder)
    try:
        yield nodes
    finally:
        nodes.check("stop")
