"""A real IPFS node for tests: Kubo, private and offline, on loopback ports that it chooses."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import urllib3
from scripts.build_engines import kubo_binary

from holdfast import ClientConfig
from tests.support import TOKEN, closed_port_url

VARIABLE = "HOLDFAST_KUBO"  # the path of the binary; where it is set, a missing Kubo is no skip
START_TIME = 60  # seconds; it takes one or two on a quiet machine

# What `add` needs to lay files out as a profile of ours does. All of it is sent: what is left out
# comes from the node's configuration. Directories also depend on settings that `add` cannot send.
ADD_OPTIONS = {
    "unixfs-v1-2025": {
        "cid_version": 1,
        "raw_leaves": True,
        "chunker": "size-1048576",
        "max_file_links": 1024,
    },
    "unixfs-v0-2015": {
        "cid_version": 0,
        "raw_leaves": False,
        "chunker": "size-262144",
        "max_file_links": 174,
    },
    "kubo-legacy-cidv1": {
        "cid_version": 1,
        "raw_leaves": True,
        "chunker": "size-262144",
        "max_file_links": 174,
    },
}


def kubo_path() -> str:
    """Return the path of Kubo on this machine, or skip the test where it is not built."""
    named = os.environ.get(VARIABLE)
    if named is None and not kubo_binary().exists():
        pytest.skip("Kubo is not built: make engines")
    return named or str(kubo_binary())


class Kubo:
    """A running Kubo node.

    Attributes:
        api_url: The address of its RPC API.
        gateway_url: The address of its gateway, with `/ipfs`.
    """

    def __init__(self, api_url: str, gateway_url: str) -> None:
        self.api_url = api_url
        self.gateway_url = gateway_url
        self._http = urllib3.PoolManager(retries=False)

    def call(self, command: str, *files: tuple[str, bytes], **options: Any) -> bytes:
        """Call a command of the RPC API, with files of these names, and return the body."""
        fields = {name.replace("_", "-"): _spelled(value) for name, value in options.items()}
        form = [("file", (name, data, "application/octet-stream")) for name, data in files]
        address = f"{self.api_url}/api/v0/{command}?{urlencode(fields)}"
        reply = self._http.request("POST", address, fields=form or None)
        assert reply.status == 200, f"{command}: {reply.status} {reply.data!r}"
        return reply.data

    def add(self, data: bytes, **options: Any) -> str:
        """Add a file, with Kubo's options for its layout, and return its CID."""
        lines = self.call("add", ("file", data), **options).splitlines()
        return json.loads(lines[-1])["Hash"]

    def import_car(self, archive: bytes) -> None:
        """Store the blocks of a CAR."""
        lines = self.call("dag/import", ("car", archive), stats=True, pin_roots=False).splitlines()
        assert "Stats" in json.loads(lines[-1])  # the only sign of a whole import

    def config(self, **changes: Any) -> ClientConfig:
        """Return the configuration of a client that reads through this node's gateway."""
        fields: dict[str, Any] = {
            "provider": "pinning",
            "provider_token": TOKEN,
            "pin_api_url": closed_port_url(),
            "gateway_url": self.gateway_url,
            "retries": {"attempts": 1},
        }
        return ClientConfig(**{**fields, **changes})

    def provider_config(self, **changes: Any) -> ClientConfig:
        """Return the configuration of a client that stores on this node, and reads from it."""
        fields = {"provider": "kubo", "pin_api_url": self.api_url, "retries": {"attempts": 1}}
        return ClientConfig(**{**fields, **changes})

    def close(self) -> None:
        """Close the connections to it."""
        self._http.clear()


@contextmanager
def running_kubo(folder: Path, *, trustless_only: bool = False) -> Iterator[Kubo]:
    """Start a Kubo whose repository is in `folder`, and stop it at the end.

    With `trustless_only` its gateway gives blocks and CARs alone, and 406 to any other request.
    """
    binary = kubo_path()
    environment = {**os.environ, "IPFS_PATH": str(folder), "IPFS_TELEMETRY": "off"}

    def run(*arguments: str) -> None:
        subprocess.run([binary, *arguments], env=environment, check=True, capture_output=True)  # noqa: S603

    run("init", "--profile=test,autoconf-off")
    settings = json.loads((folder / "config").read_text())
    settings["Addresses"] |= {"API": "/ip4/127.0.0.1/tcp/0", "Gateway": "/ip4/127.0.0.1/tcp/0"}
    settings["Addresses"]["Swarm"] = []
    settings["Bootstrap"] = []
    settings["Routing"] = {"Type": "none"}
    settings["Gateway"] |= {"DeserializedResponses": not trustless_only, "NoFetch": True}
    (folder / "config").write_text(json.dumps(settings))
    log = folder / "daemon.log"
    with log.open("wb") as output:
        daemon = subprocess.Popen(  # noqa: S603
            [binary, "daemon", "--offline"], env=environment, stdout=output, stderr=output
        )
    try:
        _wait_until_ready(daemon, log)
        gateway = (folder / "gateway").read_text().strip()
        node = Kubo(_api_url(folder), f"{gateway}/ipfs")
        yield node
        node.close()
    finally:
        daemon.terminate()
        try:
            daemon.wait(30)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


def _wait_until_ready(daemon: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_TIME
    while b"Daemon is ready" not in log.read_bytes():
        if daemon.poll() is not None or time.monotonic() > end:
            pytest.fail(f"Kubo did not start: {log.read_text()}")
        time.sleep(0.02)


def _api_url(folder: Path) -> str:
    """Return the address in the file `api`, written as ``/ip4/127.0.0.1/tcp/5001``."""
    _, _, host, _, port = (folder / "api").read_text().strip().split("/")
    return f"http://{host}:{port}"


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
