"""What proving costs: transfers with and without it, over loopback, against a bare fast server.

Ratios in one run, against the slower of the same transfer without the proof and of SHA-256 alone on
one thread. `python bench/transfers.py [MiB]`
"""

import asyncio
import hashlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

from bench.forked_server import ForkedServer
from holdfast import AsyncClient, Client, ClientConfig
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.files.importing import import_content

MIB = 1 << 20
ROUNDS = 7
READS = 2000
SMALL = b'{"text":"' + b"x" * 1000 + b'"}'


class BareServer(ForkedServer):
    """Sends one file by sendfile, one block, and takes uploads into the void."""

    def __init__(self, path: Path) -> None:
        blocks: dict[Any, bytes] = {}
        root = import_content(path, UNIXFS_V1_2025, _keeping_inner(blocks)).cid
        self.cid = str(root)
        self.size = path.stat().st_size
        self._path = path
        self._blocks = {f"{cid}?format=raw": block for cid, block in blocks.items()}
        self.start()

    def serve(self, connection: socket.socket) -> None:
        """Answer the requests of one connection: send the file or a block, and discard uploads."""
        buffer = bytearray(MIB)
        with connection, self._path.open("rb") as file:
            while head := _read_head(connection):
                lines, rest = head
                target = lines[0].split(" ")[1]
                if lines[0].startswith("POST"):
                    length = next(
                        int(line.split(":")[1])
                        for line in lines
                        if line.lower().startswith("content-length")
                    )
                    left = length - len(rest)
                    while left:
                        left -= connection.recv_into(buffer, min(left, MIB))
                    _reply(connection, f'{{"IpfsHash":"{self.cid}"}}'.encode())
                elif "format=raw" in target:
                    block = self._blocks[target.rpartition("/")[2]]
                    _reply(connection, block, "application/vnd.ipld.raw")
                elif target.endswith(self.cid):
                    _reply(connection, b"", length=self.size)
                    file.seek(0)
                    connection.sendfile(file)
                else:
                    _reply(connection, SMALL)


def _keeping_inner(blocks: dict[Any, bytes]) -> Callable[[Any, bytes], None]:
    def keep(cid: Any, block: bytes) -> None:
        if cid.codec != 0x55:
            blocks[cid] = block

    return keep


def _read_head(connection: socket.socket) -> tuple[list[str], bytes] | None:
    data = b""
    while b"\r\n\r\n" not in data:
        try:
            piece = connection.recv(1 << 16)
        except OSError:
            return None
        if not piece:
            return None
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head.decode("latin-1").split("\r\n"), rest


def _reply(
    connection: socket.socket, body: bytes, kind: str = "", *, length: int | None = None
) -> None:
    length = len(body) if length is None else length
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    connection.sendall(head.encode() + body)


def config_for(server: BareServer, folder: Path, *, verify: bool) -> ClientConfig:
    return ClientConfig(
        provider="pinning",
        provider_token="bench",  # noqa: S106 - of nobody
        pin_api_url=server.url,
        gateway_url=f"{server.url}/ipfs",
        cache_path=folder / "cache",
        verify=verify,
    )


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def hash_file(path: Path) -> None:
    with path.open("rb") as file:
        hashlib.file_digest(file, "sha256")


def transfers(config: ClientConfig, server: BareServer, path: Path) -> dict[str, float]:
    """One blocking upload and download; the seconds that they took."""
    target = path.with_name("copy")
    with Client.init(config) as client:
        up = timed(lambda: client.upload(path))
        down = timed(lambda: client.download(server.cid, to=target))
    target.unlink()
    return {"upload": up, "download": down}


async def async_transfers(config: ClientConfig, server: BareServer, path: Path) -> dict[str, float]:
    """One async upload and download; the seconds that they took."""
    target = path.with_name("copy")
    async with await AsyncClient.init(config) as client:
        start = time.perf_counter()
        await client.upload(path)
        middle = time.perf_counter()
        await client.download(server.cid, to=target)
        end = time.perf_counter()
    target.unlink()
    return {"upload": middle - start, "download": end - middle}


RUNS: dict[str, Callable[[ClientConfig, BareServer, Path], dict[str, float]]] = {
    "blocking": transfers,
    "async": lambda *args: asyncio.run(async_transfers(*args)),
}
WANTED = {"blocking": 0.8, "async": 0.7}


def large(folder: Path, mebibytes: int) -> bool:
    """Large transfers with and without the proof; each round measures all, in turn."""
    path = folder / "large"
    pattern = os.urandom(8 * MIB)
    with path.open("wb") as file:
        for _ in range(mebibytes // 8):
            file.write(pattern)
    server = BareServer(path)
    met = True
    try:
        times: dict[tuple[str, ...], list[float]] = {}
        for _ in range(ROUNDS):
            times.setdefault(("sha256",), []).append(timed(lambda: hash_file(path)))
            for colour, run in RUNS.items():
                for verify in (False, True):
                    config = config_for(server, folder, verify=verify)
                    for name, took in run(config, server, path).items():
                        times.setdefault((colour, name, str(verify)), []).append(took)
        # The best of each: whatever else the machine does can only add to the others.
        best = {key: min(values) for key, values in times.items()}
        sha = best["sha256",]
        print(f"{mebibytes} MiB over loopback; SHA-256 alone {mebibytes / sha:,.0f} MiB/s")
        for colour in RUNS:
            for name in ("upload", "download"):
                plain, verified = best[colour, name, "False"], best[colour, name, "True"]
                ratio = max(plain, sha) / verified
                met &= ratio >= WANTED[colour]
                rates = f"{mebibytes / plain:,.0f}, verified {mebibytes / verified:,.0f} MiB/s"
                print(f"  {colour + ' ' + name:<20} {rates:<32} {ratio:6.2f} ({WANTED[colour]})")
    finally:
        server.close()
        path.unlink()
    return met


def small(folder: Path) -> bool:
    """Documents of 1 KB with and without the proof."""
    path = folder / "large"
    path.write_bytes(bytes(3 * MIB))
    cid = str(import_content(SMALL, UNIXFS_V1_2025).cid)
    server = BareServer(path)
    met = True
    try:
        configs = [config_for(server, folder, verify=verify) for verify in (False, True)]
        for colour, run in {"blocking": _small_sync, "async": _small_async}.items():
            plain, verified = map(statistics.median, run(configs, cid))
            ratio = plain / verified
            met &= ratio >= 0.9
            print(f"  {colour + ' retrieve of 1 KB':<53} {ratio:6.2f} (0.9)")
    finally:
        server.close()
        path.unlink()
    return met


def _small_sync(configs: list[ClientConfig], cid: str) -> list[list[float]]:
    """The seconds of many reads with each configuration, in turn."""
    times: list[list[float]] = [[] for _ in configs]
    with ExitStack() as stack:
        clients = [stack.enter_context(Client.init(config)) for config in configs]
        for _ in range(READS):
            for took, client in zip(times, clients, strict=True):
                start = time.perf_counter()
                client.retrieve(cid)
                took.append(time.perf_counter() - start)
    return times


def _small_async(configs: list[ClientConfig], cid: str) -> list[list[float]]:
    """The seconds of many reads with each configuration, in turn."""

    async def run() -> list[list[float]]:
        times: list[list[float]] = [[] for _ in configs]
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(await AsyncClient.init(config))
                for config in configs
            ]
            for _ in range(READS):
                for took, client in zip(times, clients, strict=True):
                    start = time.perf_counter()
                    await client.retrieve(cid)
                    took.append(time.perf_counter() - start)
        return times

    return asyncio.run(run())


def peak_memory(folder: Path) -> bool:
    """How far a 2 GiB transfer lifts the memory of a process above idle."""
    path = folder / "large"
    with path.open("wb") as file:
        file.truncate(2048 * MIB)
    server = BareServer(path)
    met = True
    try:
        for colour in RUNS:
            for name in ("upload", "download"):
                args = [sys.executable, __file__, "--memory", colour, name, server.url, server.cid]
                result = subprocess.run(  # noqa: S603 - ourselves
                    [*args, str(path)], capture_output=True, text=True, check=True
                )
                lifted = int(result.stdout) / MIB
                met &= lifted <= 48
                print(
                    f"  {colour + ' ' + name + ' of 2 GiB, MiB above idle':<53} {lifted:6.1f} (48)"
                )
    finally:
        server.close()
        path.unlink()
    return met


def measure_memory(colour: str, name: str, url: str, cid: str, path: Path) -> None:
    """In a process of its own: prints the bytes that the peak lies above idle."""
    folder = path.parent
    config = ClientConfig(
        provider="pinning",
        provider_token="bench",  # noqa: S106 - of nobody
        pin_api_url=url,
        gateway_url=f"{url}/ipfs",
        cache_path=folder / "cache",
    )
    target = folder / "copy"

    async def run_async() -> int:
        async with await AsyncClient.init(config) as client:
            await client.retrieve(str(import_content(SMALL, UNIXFS_V1_2025).cid))
            idle = most_memory()
            if name == "upload":
                await client.upload(path)
            else:
                await client.download(cid, to=target)
            return idle

    def run_blocking() -> int:
        with Client.init(config) as client:
            client.retrieve(str(import_content(SMALL, UNIXFS_V1_2025).cid))
            idle = most_memory()
            if name == "upload":
                client.upload(path)
            else:
                client.download(cid, to=target)
            return idle

    idle = run_blocking() if colour == "blocking" else asyncio.run(run_async())
    peak = most_memory()
    target.unlink(missing_ok=True)
    print(peak - idle)


def most_memory() -> int:
    """The most bytes that this process has had so far; getrusage counts its parent's too."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def main() -> int:
    if sys.argv[1:2] == ["--memory"]:
        colour, name, url, cid, path = sys.argv[2:]
        measure_memory(colour, name, url, cid, Path(path))
        return 0
    mebibytes = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        met = large(folder, mebibytes)
        met &= small(folder)
        met &= peak_memory(folder)
    print("All targets met." if met else "A target was missed.")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
