"""Nodes to measure, each in a process of its own: ours, and Kubo, private and offline."""

import json
import os
import runpy
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench import curl
from bench.clients import TOKEN
from bench.workers import ROOT, WorkerError

ENGINES = runpy.run_path(str(ROOT / "scripts" / "build_engines.py"))
KUBO: Path = ENGINES["KUBO"].binary
KUBO_VERSION: str = ENGINES["KUBO"].version
START_TIME = 60.0  # seconds
AUTHORIZATION = f"Authorization: Bearer {TOKEN}"
# The layout of our uploads. For other options Kubo uses its configuration.
KUBO_LAYOUT = "cid-version=1&raw-leaves=true&chunker=size-1048576&max-file-links=1024"


@dataclass(frozen=True, slots=True)
class Node:
    """A running node: its addresses, and how it is asked.

    Attributes:
        store: The kind of request that stores a document (`load` in server/main.go).
        upload_url: Where a file is sent to.
        cid_member: The member of the reply that has its CID.
    """

    process: "subprocess.Popen[str]"
    store: str
    url: str
    upload_url: str
    cid_member: str
    gateway_url: str

    def upload(self, path: Path) -> tuple[float, str]:
        """Send a file by curl; return the seconds and its CID."""
        result, body = curl.upload(self.upload_url, path, AUTHORIZATION)
        return result.seconds, json.loads(body.splitlines()[-1])[self.cid_member]

    def download(self, cid: str, to: Path) -> float:
        """Get a file by curl; return the seconds."""
        return curl.download(f"{self.gateway_url}/ipfs/{cid}", to).seconds

    def peak_memory(self) -> int:
        """Return the most bytes that it has had so far."""
        return curl.peak_memory(self.process.pid)

    def close(self) -> None:
        """Stop it."""
        self.process.terminate()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def start_ours(folder: Path, source: Path | None = None) -> Node:
    """Start our node with a new store in `folder`; the package may be another one, in `source`."""
    process = subprocess.Popen(  # noqa: S603 - this very package
        [sys.executable, "-m", "holdfast.node", "--port", "0", "--path", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "HOLDFAST_NODE_TOKEN": TOKEN,
            **({"PYTHONPATH": str(source)} if source else {}),
        },
    )
    line = process.stdout.readline() if process.stdout is not None else ""
    if not line:
        raise WorkerError(f"failed: the node ended with code {process.wait()}")
    url = line.split()[-1]
    return Node(process, "store", url, f"{url}/pinning/pinFileToIPFS", "IpfsHash", url)


def kubo_reason() -> str | None:
    """Return why Kubo is not measured; None if it is there."""
    if KUBO.exists():
        return None
    return f"not available: `make engines` builds version {KUBO_VERSION}"


def init_kubo(folder: Path) -> dict[str, str]:
    """Make a repository in `folder`, with Kubo's own datastore; return the variables for it."""
    environment = {**os.environ, "IPFS_PATH": str(folder), "IPFS_TELEMETRY": "off"}
    init = [str(KUBO), "init", "--profile=test,autoconf-off"]
    subprocess.run(init, env=environment, check=True, capture_output=True)  # noqa: S603
    return environment


def start_kubo(folder: Path, *, safe: bool = False) -> Node:
    """Start Kubo with a new repository in `folder`.

    By default, Kubo synchronises its pins and not its blocks, which a crash of the machine may
    lose, and does not verify the blocks that it reads. With `safe` it does both, as ours.
    """
    environment = init_kubo(folder)
    settings = json.loads((folder / "config").read_text())
    if safe:
        settings["Datastore"]["HashOnRead"] = True
        (blocks,) = (
            mount for mount in settings["Datastore"]["Spec"]["mounts"] if mount["type"] == "flatfs"
        )
        blocks["sync"] = True
    settings["Addresses"] |= {"API": "/ip4/127.0.0.1/tcp/0", "Gateway": "/ip4/127.0.0.1/tcp/0"}
    settings["Addresses"]["Swarm"] = []
    settings["Routing"] = {"Type": "none"}
    settings["Gateway"] |= {"NoFetch": True}
    (folder / "config").write_text(json.dumps(settings))
    log = folder / "daemon.log"
    with log.open("w") as output:
        process = subprocess.Popen(  # noqa: S603
            [str(KUBO), "daemon", "--offline"],
            env=environment,
            stdout=output,
            stderr=output,
            text=True,
        )
    end = time.monotonic() + START_TIME
    while "Daemon is ready" not in log.read_text():
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"Kubo did not start: {log.read_text()}")
        time.sleep(0.02)
    host, port = (folder / "api").read_text().strip().split("/")[2::2]
    url = f"http://{host}:{port}"
    gateway = (folder / "gateway").read_text().strip()
    return Node(process, "kubo-add", url, f"{url}/api/v0/add?{KUBO_LAYOUT}", "Hash", gateway)
