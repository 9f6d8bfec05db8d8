"""The nodes of `examples/cluster/nodes.sh`, for tests."""

import os
import random
import socket
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from scripts.build_engines import CLUSTER, KUBO

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "examples/cluster/nodes.sh"
# Found before a test changes the environment.
PROGRAMS = {
    engine: Path(os.environ.get(f"HOLDFAST_{engine.name.upper()}") or engine.binary)
    for engine in (KUBO, CLUSTER)
}
PORTS = [10 * node + use for node in (1, 2, 3) for use in range(5)]  # above the first port


def engine_folder(folder):
    """Make a folder with the engines under their usual names; skip where they are not built."""
    folder.mkdir()
    for engine, path in PROGRAMS.items():
        if not path.exists():
            pytest.skip(f"{engine.title} is not built: make engines")
        (folder / engine.program).symlink_to(path)
    return folder


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
            "PATH": f"{engine_folder(folder / 'bin')}:{os.environ['PATH']}",
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


def shut_down_kubo(folder, nodes):
    """Stop the Kubo with a repository in `folder`, if it runs."""
    if (folder / "api").exists():
        variables = {**nodes.variables, "IPFS_PATH": str(folder)}
        subprocess.run(["ipfs", "shutdown"], env=variables, check=True)  # noqa: S607


@contextmanager
def example_nodes(folder):
    nodes = ExampleNodes(folder)
    try:
        yield nodes
    finally:
        nodes.check("stop")
