"""What pins cost on Kubo and in a cluster, for the guide "Outgrowing one machine".

`python -m bench.sizing WHAT COUNT`, with `ipfs` and `ipfs-cluster-service` on the PATH. WHAT is

- `kubo` or `cluster`: store so many documents, 16 at a time, and list them;
- `pins`: give the cluster so many pins of blocks that its nodes have;
- `return`: kill a node of a cluster with so many documents, and start it again;
- `replace`: kill a node, and let the others make new copies.

The nodes are those of `examples/cluster/nodes.sh`, in a new folder below `--folder`. Each figure is
a line of JSON. It is not part of `make bench`: an hour would not be enough for large numbers.
"""

import argparse
import json
import os
import random
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import urllib3

from bench.workers import ROOT
from holdfast import Client, ClientConfig
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.events import Event

SCRIPT = ROOT / "examples" / "cluster" / "nodes.sh"
NODES = (1, 2, 3)
KUBO_API, GATEWAY, CLUSTER_API = 0, 1, 3  # what a port of the script is for
FIRST_PORT = 18_400
SIZE = 1000  # bytes of a document
AT_ONCE = 16
LONGEST = 100.0  # seconds to wait for copies
SOON = 12.0  # seconds in which a dead node is noticed


class Nodes:
    """The nodes of the script, in a folder."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        places = {"NODES": str(folder), "FIRST_PORT": str(FIRST_PORT)}
        self._variables = {**os.environ, **variables, **places}
        self.http = urllib3.PoolManager(maxsize=2 * AT_ONCE, retries=False)

    def run(self, *words: str) -> None:
        """Run the script."""
        subprocess.run(  # noqa: S603 - our own
            [str(SCRIPT), *words], env=self._variables, check=True, stdout=subprocess.DEVNULL
        )

    def url(self, node: int, use: int) -> str:
        """Return an address of a node."""
        return f"http://127.0.0.1:{FIRST_PORT + 10 * node + use}"

    def config(self, provider: str) -> ClientConfig:
        """Return the configuration for the Kubo of the first node, or for the cluster."""
        if provider == "kubo":
            return ClientConfig(provider="kubo", pin_api_url=self.url(1, KUBO_API))
        return ClientConfig(
            provider="cluster",
            provider_token=self._token,
            pin_api_url=[self.url(node, CLUSTER_API) for node in NODES],
            gateway_url=[self.url(node, GATEWAY) for node in NODES],
        )

    @property
    def _token(self) -> str:
        return (self.folder / "token").read_text(encoding="ascii").strip()

    def ask(self, method: str, path: str) -> bytes:
        """Ask the cluster's API on the first node."""
        headers = urllib3.make_headers(basic_auth=self._token)
        reply = self.http.request(method, self.url(1, CLUSTER_API) + path, headers=headers)
        if reply.status not in {200, 204}:
            raise RuntimeError(f"{path}: {reply.status} {reply.data!r}")
        return reply.data

    def copies(self) -> Counter[int]:
        """Return how many pins have how many copies."""
        lines = map(json.loads, self.ask("GET", "/pins").splitlines())
        return Counter(
            sum(peer["status"] == "pinned" for peer in pin["peer_map"].values()) for pin in lines
        )

    def disk(self, part: str) -> int:
        """Return the bytes on disk of all Kubos or all peers."""
        files = (path for node in NODES for path in (self.folder / str(node) / part).rglob("*"))
        return sum(path.stat().st_blocks * 512 for path in files if path.is_file())

    def memory(self, part: str) -> int:
        """Return the most bytes that a Kubo or a peer has in memory."""
        return max(self._memory(self.folder / str(node) / f"{part}.pid") for node in NODES)

    @staticmethod
    def _memory(file: Path) -> int:
        process = file.read_text(encoding="ascii").strip()
        status = Path("/proc", process, "status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0]) << 10


def documents(count: int) -> Iterator[dict[str, Any]]:
    """Yield different documents of SIZE bytes."""
    chance = random.Random(1)  # noqa: S311 - the same each time
    for number in range(count):
        digits = SIZE - len(json.dumps({"n": number, "text": ""}, separators=(",", ":")))
        yield {"n": number, "text": f"{chance.getrandbits(4 * digits):0{digits}x}"}


def tell(**figures: object) -> None:
    """Write some figures."""
    print(json.dumps(figures), flush=True)


def store(nodes: Nodes, provider: str, count: int) -> None:
    """Measure stores and the list, and what they cost on disk and in memory."""
    kinds: Counter[str] = Counter()

    def on_event(event: Event) -> None:
        kinds[event.kind] += 1

    before = {part: nodes.disk(part) for part in ("kubo", "peer")}
    with Client.init(nodes.config(provider).with_options(on_event=on_event)) as client:
        seconds = _store_all(client, count, AT_ONCE)
        tell(stored=count, a_second=round(count / seconds), requests=kinds["request"] / count)
        start = time.monotonic()
        listed = sum(1 for _ in client.iter_pins())
        tell(listed=listed, each_us=round(1e6 * (time.monotonic() - start) / listed, 1))
        tell(alone_ms=round(1e3 * _store_all(client, 200, 1) / 200, 2))
    _tell_cost(nodes, before, count)


def _store_all(client: Client, count: int, concurrency: int) -> float:
    start = time.monotonic()
    for outcome in client.store_many(documents(count), concurrency=concurrency):
        outcome.result()
    return time.monotonic() - start


def _tell_cost(nodes: Nodes, before: dict[str, int], count: int) -> None:
    memory = {part: nodes.memory(part) >> 20 for part in before}
    nodes.run("stop")
    nodes.run("start")  # the logs of the peers' databases become smaller
    nodes.run("stop")
    for part, size in before.items():
        bytes_of_one = round((nodes.disk(part) - size) / count)
        tell(part=part, disk_of_all_each=bytes_of_one, memory_of_one_mib=memory[part])


def pin(nodes: Nodes, count: int) -> None:
    """Measure how fast a cluster takes and makes pins, without sending content."""
    blocks = [(CID.of_raw(data), data) for data in (b"%0100d" % number for number in range(count))]
    archive = b"".join(write_car([], blocks))
    for node in NODES:
        nodes.http.request(
            "POST",
            f"{nodes.url(node, KUBO_API)}/api/v0/dag/import?stats=true&pin-roots=false",
            fields={"file": ("blocks.car", archive, "application/vnd.ipld.car")},
        )
    before = {part: nodes.disk(part) for part in ("kubo", "peer")}
    start = time.monotonic()
    with ThreadPoolExecutor(2 * AT_ONCE) as pool:
        for _ in pool.map(lambda block: nodes.ask("POST", f"/pins/{block[0]}?name=pin"), blocks):
            pass
    tell(accepted=count, a_second=round(count / (time.monotonic() - start)))
    tell(pinned_after=round(wait_for_copies(nodes, start, LONGEST), 1))
    for path in ("/allocations", "/pins"):
        start = time.monotonic()
        size = len(nodes.ask("GET", path))
        microseconds = round(1e6 * (time.monotonic() - start) / count)
        tell(listed=path, each_us=microseconds, each_bytes=round(size / count))
    _tell_cost(nodes, before, count)


def kill(nodes: Nodes, count: int, *, is_replaced: bool) -> None:
    """Kill the second node; measure until all pins have two copies, with or without it."""
    with Client.init(nodes.config("cluster")) as client:
        _store_all(client, count, AT_ONCE)
    nodes.run("kill", "2")
    start = time.monotonic()
    tell(copies=nodes.copies())
    wait_for_copies(nodes, start, LONGEST if is_replaced else SOON)
    tell(after_its_death=round(time.monotonic() - start, 1), copies=nodes.copies())
    start = time.monotonic()
    nodes.run("start")
    wait_for_copies(nodes, start, LONGEST)
    tell(after_its_start=round(time.monotonic() - start, 1), copies=nodes.copies())


def wait_for_copies(nodes: Nodes, start: float, longest: float) -> float:
    """Wait until each pin has two copies, or for `longest`; return the seconds since `start`."""
    while set(nodes.copies()) != {2} and time.monotonic() - start < longest:
        time.sleep(0.5)
    return time.monotonic() - start


def main() -> None:
    """Start the nodes, measure, and stop them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["kubo", "cluster", "pins", "return", "replace"])
    parser.add_argument("count", type=int)
    parser.add_argument("--folder", help="on the disk that is measured")
    options = parser.parse_args()
    variables = {"CLUSTER_DISABLEREPINNING": "false"} if options.what == "replace" else {}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        nodes = Nodes(Path(folder, "nodes"), **variables)
        try:
            nodes.run("start")
            if options.what == "pins":
                pin(nodes, options.count)
            elif options.what in {"return", "replace"}:
                kill(nodes, options.count, is_replaced=options.what == "replace")
            else:
                store(nodes, options.what, options.count)
        finally:
            nodes.run("stop")
            nodes.http.clear()


if __name__ == "__main__":
    main()
