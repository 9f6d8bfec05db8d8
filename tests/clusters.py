"""A real IPFS Cluster for tests: several Kubos and their peers, private, on loopback ports."""

import json
import os
import random
import secrets
import socket
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import urllib3
from scripts.build_engines import CLUSTER

from holdfast import ClientConfig
from tests.engines import START_TIME, Kubo, end, engine_path, send_signal
from tests.support import wait_until

# For how long a peer is known to be there and to have room, after its last word.
METRICS = ("CLUSTER_DISK_METRICTTL", "CLUSTER_TAGS_METRICTTL")
# Shorter than the defaults, so that a test need not wait for minutes.
QUICK = {
    "CLUSTER_CRDT_TRUSTEDPEERS": "*",
    "CLUSTER_CRDT_REBROADCASTINTERVAL": "2s",
    "CLUSTER_MONITORPINGINTERVAL": "1s",
    **dict.fromkeys(METRICS, "10s"),
    "CLUSTER_MDNSINTERVAL": "0s",
    "CLUSTER_PEERWATCHINTERVAL": "1s",
    "CLUSTER_PUBSUB_HEARTBEATINTERVAL": "0.5s",
}


# Below the ports that systems give to connections: nobody takes one before an engine listens on it,
# or while that is down.
PORTS = range(20_000, 32_000)
_taken: set[int] = set()


def free_port() -> int:
    """Return a port of this machine that nobody listens on, each time another."""
    while True:
        port = random.choice(PORTS)  # noqa: S311
        if port not in _taken:
            _taken.add(port)
            with suppress(OSError), socket.create_server(("127.0.0.1", port)):
                return port


class ClusterPeer:
    """A peer of a cluster, and the Kubo in which it pins. Both keep their addresses.

    Attributes:
        name: Its name in the cluster.
        kubo: Its Kubo.
        api_url: The address of its REST API.
        service_url: The address of its Pinning Services API.
    """

    def __init__(self, folder: Path, name: str, variables: Mapping[str, str]) -> None:
        self.name = name
        self.folder = folder / name
        self.folder.mkdir()
        self.kubo = Kubo(folder / f"kubo-of-{name}", is_online=True)
        self._daemon: subprocess.Popen[bytes] | None = None
        self._kubo_api, self._kubo_gateway, self._swarm = (free_port() for _ in range(3))
        self._api, self._service, self._libp2p = (free_port() for _ in range(3))
        self.api_url = f"http://127.0.0.1:{self._api}"
        self.service_url = f"http://127.0.0.1:{self._service}"
        self._variables = {
            **QUICK,
            "IPFS_CLUSTER_PATH": str(self.folder),
            "CLUSTER_PEERNAME": name,
            "CLUSTER_LISTENMULTIADDRESS": _listen(self._libp2p),
            "CLUSTER_RESTAPI_HTTPLISTENMULTIADDRESS": _listen(self._api),
            "CLUSTER_PINSVCAPI_HTTPLISTENMULTIADDRESS": _listen(self._service),
            "CLUSTER_IPFSHTTP_NODEMULTIADDRESS": _listen(self._kubo_api),
            **variables,
        }

    def prepare(self) -> None:
        """Make the repositories of both."""

        def change(settings: dict[str, Any]) -> None:
            settings["Addresses"] |= {
                "API": _listen(self._kubo_api),
                "Gateway": _listen(self._kubo_gateway),
                "Swarm": [_listen(self._swarm)],
            }
            settings["Gateway"] |= {"NoFetch": False, "RetrievalTimeout": "1s"}

        self.kubo.prepare(change)
        command = [engine_path(CLUSTER), "init", "--consensus", "crdt"]
        subprocess.run(  # noqa: S603
            command, env=self._environment, check=True, capture_output=True
        )
        file = self.folder / "service.json"
        settings = json.loads(file.read_text())
        # Without another API, which no test needs.
        settings["api"] = {name: settings["api"][name] for name in ("restapi", "pinsvcapi")}
        file.write_text(json.dumps(settings))

    def start(self, *peers: "ClusterPeer") -> None:
        """Start both, and wait until they answer; the peer connects to `peers`."""
        self.kubo.start()
        self.start_peer(*peers)

    def start_peer(self, *peers: "ClusterPeer") -> None:
        """Start the peer alone."""
        log = self.folder / "daemon.log"
        bootstrap = ["--bootstrap", ",".join(peer.address for peer in peers)] if peers else []
        with log.open("wb") as output:
            self._daemon = subprocess.Popen(  # noqa: S603
                [engine_path(CLUSTER), "daemon", *bootstrap],
                env=self._environment,
                stdout=output,
                stderr=output,
            )
        wait_until(lambda: self._answers(log), START_TIME)

    def _answers(self, log: Path) -> bool:
        if self._daemon is None or self._daemon.poll() is not None:
            pytest.fail(f"{self.name} did not start: {log.read_text()}")
        try:
            return urllib3.request("GET", f"{self.api_url}/health", retries=False).status == 204
        except urllib3.exceptions.HTTPError:
            return False

    def stop(self, *, kill: bool = False) -> None:
        """Stop both, or kill them."""
        self.stop_peer(kill=kill)
        self.kubo.stop(kill=kill)

    def stop_peer(self, *, kill: bool = False) -> None:
        """Stop the peer alone, or kill it."""
        if self._daemon is not None:
            end(self._daemon, kill=kill)
            self._daemon = None

    def signal(self, name: str) -> None:
        """Send the process of the peer a signal, such as ``STOP``."""
        send_signal(self._daemon, name)

    def swarm_peer(self) -> dict[str, Any]:
        """Return its Kubo as one of the `Peering.Peers` of another Kubo."""
        identity = self.kubo.change(lambda settings: None)["Identity"]
        return {"ID": identity["PeerID"], "Addrs": [_listen(self._swarm)]}

    @property
    def address(self) -> str:
        """The address at which other peers reach it."""
        identity = json.loads((self.folder / "identity.json").read_text())
        return f"{_listen(self._libp2p)}/p2p/{identity['id']}"

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self._variables}


class Cluster:
    """Several peers, each with its Kubo, that know each other.

    Attributes:
        peers: The peers.
    """

    def __init__(self, folder: Path, *, size: int, user: str | None, **variables: str) -> None:
        self._headers = urllib3.make_headers(basic_auth=user)
        common = {
            "CLUSTER_SECRET": secrets.token_hex(32),
            **({"CLUSTER_RESTAPI_BASICAUTHCREDENTIALS": user} if user else {}),
            "CLUSTER_REPLICATIONFACTORMIN": str(min(2, size)),
            "CLUSTER_REPLICATIONFACTORMAX": str(min(2, size)),
            # A single peer must not take itself for dead when the machine stalls.
            **(dict.fromkeys(METRICS, "10m") if size == 1 else {}),
            **variables,
        }
        self.peers = [ClusterPeer(folder, f"peer{number}", common) for number in range(size)]

    def prepare(self) -> None:
        """Make all repositories; the Kubos know each other."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(ClusterPeer.prepare, self.peers))
        peers = [peer.swarm_peer() for peer in self.peers]
        for one in self.peers:
            others = [peer for peer in peers if peer != one.swarm_peer()]
            one.kubo.change(
                lambda settings, others=others: settings["Peering"].update(Peers=others)
            )

    def start(self) -> None:
        """Start all, and wait until every peer knows the others."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(Kubo.start, [peer.kubo for peer in self.peers]))
        for number, peer in enumerate(self.peers):
            peer.start_peer(*self.peers[:number])
        wait_until(self.is_complete, START_TIME)

    def is_complete(self) -> bool:
        """Tell whether every peer can put content on all of them."""
        return all(
            self._count(peer, metric) == len(self.peers)
            for peer in self.peers
            for metric in ("freespace", "tag:group")  # which decide where content goes
        )

    def _count(self, peer: ClusterPeer, metric: str) -> int:
        url = f"{peer.api_url}/monitor/metrics/{metric}"
        values = urllib3.request("GET", url, headers=self._headers).json()
        return sum(value["valid"] for value in values)

    @property
    def api_urls(self) -> list[str]:
        """The addresses of the REST APIs."""
        return [peer.api_url for peer in self.peers]

    @property
    def gateway_urls(self) -> list[str]:
        """The addresses of the Kubos' gateways."""
        return [peer.kubo.gateway_url for peer in self.peers]

    def provider_config(self, **changes: Any) -> ClientConfig:
        """Return the configuration of a client of this cluster."""
        fields = {
            "provider": "cluster",
            "pin_api_url": self.api_urls,
            "gateway_url": self.gateway_urls,
            "retries": {"attempts": 1},
        }
        return ClientConfig(**{**fields, **changes})

    def stop(self) -> None:
        """Stop all."""
        for peer in self.peers:
            peer.stop()
            peer.kubo.close()


@contextmanager
def running_cluster(
    folder: Path, *, size: int = 3, user: str | None = None, **variables: str
) -> Iterator[Cluster]:
    """Start a cluster whose repositories are in `folder`, and stop it at the end.

    Its API asks for the credentials of `user`, ``name:password``. `variables` are further settings.
    """
    cluster = Cluster(folder, size=size, user=user, **variables)
    cluster.prepare()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _listen(port: int) -> str:
    return f"/ip4/127.0.0.1/tcp/{port}"
