"""The node under load: small stores, a large file both ways, and many pins. Ratios of one run.

`make bench`, or `python bench/node.py [pins]`.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from holdfast import AsyncClient, Client, ClientConfig
from holdfast.content.cid import CID
from holdfast.repository import PinQuery, Repository

MIB = 1 << 20
LARGE = 512 * MIB
RUNS = 2000
TOKEN = "bench-token-0123456789"  # noqa: S105 - for a node of this very run


class NodeProcess:
    """A node in a process of its own, whose memory can be watched."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - this very package
            [sys.executable, "-m", "holdfast.node", "--port", "0", "--path", str(path)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "HOLDFAST_NODE_TOKEN": TOKEN},
        )
        if self._process.stdout is None:
            raise RuntimeError("the node has no output")
        self.url = self._process.stdout.readline().split()[-1]
        self.config = ClientConfig(
            provider="pinning", provider_token=TOKEN, pin_api_url=self.url, gateway_url=self.url
        )

    def peak_mib(self) -> float:
        """The most memory that it had so far."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()


async def small_stores(config: ClientConfig, count: int, parallel: int) -> float:
    """Stores a second, with so many under way at once."""
    async with await AsyncClient.init(config) as client:
        numbers = iter(range(count))

        async def worker(name: int) -> None:
            for number in numbers:
                await client.store({"bench": name, "number": number, "stamp": time.time_ns()})

        start = time.perf_counter()
        await asyncio.gather(*(worker(name) for name in range(parallel)))
        return count / (time.perf_counter() - start)


def large_file(node: NodeProcess, folder: Path) -> bool:
    path = folder / "large"
    with path.open("wb") as file:
        for _ in range(LARGE // MIB):
            file.write(os.urandom(MIB))
    idle = node.peak_mib()
    with Client.init(node.config) as client:
        start = time.perf_counter()
        record = client.upload(path)
        up = LARGE / (time.perf_counter() - start) / 1e6
        start = time.perf_counter()
        client.download(record.cid, to=folder / "copy")
        down = LARGE / (time.perf_counter() - start) / 1e6
    grown = node.peak_mib() - idle
    print(f"  upload of {LARGE // MIB} MiB, MB/s {up:>34,.0f}")
    print(f"  download of it, MB/s {down:>41,.0f}")
    print(f"  memory above idle, MiB (at most 96) {grown:>26,.0f}")
    return grown <= 96


def fill(repository: Repository, upto: int) -> None:
    """Pin small documents until there are so many."""
    have = repository.totals().pins
    while have < upto:
        batch = [f"filler {have + number}".encode() for number in range(min(500, upto - have))]
        with repository.adding() as adding:
            for data in batch:
                adding.put(CID.of_raw(data), data)
            adding.flush()
            for data in batch:
                repository.pin(CID.of_raw(data), name=f"item {have}")
        have += len(batch)


def median_times(repository: Repository) -> dict[str, float]:
    """The median of many runs of each thing that people wait for."""

    def store(number: int) -> None:
        data = f"measured {time.time_ns()} {number}".encode()
        with repository.adding() as adding:
            adding.put(CID.of_raw(data), data)
            adding.pin(CID.of_raw(data), name="measured", size=len(data))

    def list_page(_: int) -> None:
        repository.pins(PinQuery(limit=10))

    def look_up(number: int) -> None:
        repository.find_pin(CID.of_raw(f"filler {number % 1000}".encode()))

    found = {}
    for work in (store, list_page, look_up):
        times = []
        for number in range(RUNS):
            start = time.perf_counter()
            work(number)
            times.append(time.perf_counter() - start)
        found[work.__name__] = statistics.median(times)
    return found


def many_pins(folder: Path, most: int) -> bool:
    """Times with few pins and with many, in one repository that grows."""
    met = True
    with Repository(folder) as repository:
        fill(repository, 1000)
        few = median_times(repository)
        fill(repository, most)
        many = median_times(repository)
    for name, before in few.items():
        ratio = many[name] / before
        met &= ratio <= 1.5
        times = f"{before * 1e6:,.0f} us, then {many[name] * 1e6:,.0f} us"
        print(f"  {name:<12} {times:<30} {ratio:6.2f} (at most 1.5)")
    return met


def main() -> int:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        node = NodeProcess(Path(folder, "store"))
        try:
            rate = asyncio.run(small_stores(node.config, 3000, 16))
            print(
                f"The node over loopback\n  small JSON stores a second, 16 at once {rate:>23,.0f}"
            )
            met = large_file(node, Path(folder))
        finally:
            node.stop()
        print(f"A repository with 1,000 pins, then with {most:,}")
        met &= many_pins(Path(folder, "pins"), most)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
