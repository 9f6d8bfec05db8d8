"""A real IPFS node for tests: Kubo, private and offline, on loopback ports that it chooses."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import urllib3
from scripts.build_engines import KUBO, Engine

from holdfast import ClientConfig
from holdfast.content import PROFILES
from tests.support import TOKEN, closed_port_url

START_TIME = 60  # seconds; it takes one or two on a quiet machine

# What `add` needs to lay files out as a profile of ours does. All of it is sent: what is left out
# comes from the node's configuration. Directories also depend on settings that `add` cannot send.
ADD_OPTIONS = {
    name: {
        "cid_version": profile.cid_version,
        "raw_leaves": profile.raw_leaves,
        "chunker": f"size-{profile.chunk_size}",
        "max_file_links": profile.width,
    }
    for name, profile in PROFILES.items()
}


def engine_path(engine: Engine) -> str:
    """Return the path of an engine on this machine, or skip the test where it is not built.

    Where its variable is set, such as `HOLDFAST_KUBO`, that is the path, and a missing engine is no
    skip.
    """
    named = os.environ.get(f"HOLDFAST_{engine.name.upper()}")
    if named is None and not engine.binary.exists():
        pytest.skip(f"{engine.title} is not built: make engines")
    return named or str(engine.binary)


def kubo_path() -> str:
    """Return the path of Kubo on this machine, or skip the test where it is not built."""
    return engine_path(KUBO)


def end(daemon: subprocess.Popen[bytes], *, kill: bool) -> None:
    """End a process in order, or kill it."""
    (daemon.kill if kill else daemon.terminate)()
    try:
        daemon.wait(30)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def send_signal(daemon: subprocess.Popen[bytes] | None, name: str) -> None:
    """Send a process a signal, such as ``STOP``."""
    assert daemon is not None
    daemon.send_signal(signal.Signals[f"SIG{name}"])
    if name == "STOP":  # all of its threads
        os.waitid(os.P_PID, daemon.pid, os.WSTOPPED | os.WNOWAIT)


@contextmanager
def stopped(engine: Any) -> Iterator[None]:
    """Stop the process of an engine for a while (SIGSTOP)."""
    engine.signal("STOP")
    try:
        yield
    finally:
        engine.signal("CONT")


class Kubo:
    """A Kubo node with a repository in `folder`, which runs from `start` to `stop`.

    Attributes:
        api_url: The address of its RPC API.
        gateway_url: The address of its gateway, with `/ipfs`.
        is_online: Whether it looks for content on the network, in which it has no peers.
    """

    def __init__(self, folder: Path, *, is_online: bool = False) -> None:
        self.folder = folder
        self.is_online = is_online
        self.api_url = self.gateway_url = ""
        self._http = urllib3.PoolManager(retries=False)
        self._daemon: subprocess.Popen[bytes] | None = None

    def prepare(self, change: Callable[[dict[str, Any]], object] | None = None) -> None:
        """Make its repository; `change` changes the settings in place."""
        self._run("init", "--profile=test,autoconf-off")
        self.change(_be_private)
        if change is not None:
            self.change(change)

    def change(self, change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Change its settings in place, and return them; they count from its next start."""
        file = self.folder / "config"
        settings: dict[str, Any] = json.loads(file.read_text())
        change(settings)
        file.write_text(json.dumps(settings))
        return settings

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = self.folder / "daemon.log"
        options = [] if self.is_online else ["--offline"]
        with log.open("wb") as output:
            self._daemon = subprocess.Popen(  # noqa: S603
                [kubo_path(), "daemon", *options],
                env=self._environment,
                stdout=output,
                stderr=output,
            )
        _wait_until_ready(self._daemon, log)
        self.api_url = _api_url(self.folder)
        self.gateway_url = f"{(self.folder / 'gateway').read_text().strip()}/ipfs"

    def stop(self, *, kill: bool = False) -> None:
        """Stop it, or kill it."""
        if self._daemon is not None:
            end(self._daemon, kill=kill)
            self._daemon = None

    def signal(self, name: str) -> None:
        """Send its process a signal, such as ``STOP``."""
        send_signal(self._daemon, name)

    def _run(self, *arguments: str) -> None:
        subprocess.run(  # noqa: S603
            [kubo_path(), *arguments], env=self._environment, check=True, capture_output=True
        )

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "IPFS_PATH": str(self.folder), "IPFS_TELEMETRY": "off"}

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

    def connect(self, other: "Kubo") -> None:
        """Connect it to another node, to exchange blocks."""
        self.call("swarm/connect", arg=json.loads(other.call("id"))["Addresses"][0])

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
def running_kubo(
    folder: Path,
    *,
    trustless_only: bool = False,
    is_online: bool = False,
    change: Callable[[dict[str, Any]], object] | None = None,
) -> Iterator[Kubo]:
    """Start a Kubo whose repository is in `folder`, and stop it at the end.

    With `trustless_only` its gateway gives blocks and CARs alone, and 406 to any other request.
    """

    def all_changes(settings: dict[str, Any]) -> None:
        settings["Gateway"]["DeserializedResponses"] = not trustless_only
        if change is not None:
            change(settings)

    node = Kubo(folder, is_online=is_online)
    node.prepare(all_changes)
    try:
        node.start()
        yield node
    finally:
        node.close()
        node.stop()


def _be_private(settings: dict[str, Any]) -> None:
    """Set loopback addresses with free ports, and no peers."""
    settings["Addresses"] |= {"API": "/ip4/127.0.0.1/tcp/0", "Gateway": "/ip4/127.0.0.1/tcp/0"}
    settings["Addresses"]["Swarm"] = []
    settings["Bootstrap"] = []
    settings["Routing"] = {"Type": "none"}
    settings["Gateway"] |= {"NoFetch": True}


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
