"""The speed of CIDs against that of SHA-256 itself: ratios of one run, and peak memory.

`make bench`, or `python bench/cids.py [MiB] [rounds]`. Candidates take turns within each round, so
that other work on the machine meets them alike; what counts are the medians over the rounds.
"""

import hashlib
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from holdfast import compute_cid
from holdfast.content.cid import CID
from holdfast.content.profiles import PROFILES
from holdfast.files.importing import import_content

MIB = 1 << 20


def plain_digest(path: Path) -> None:
    with path.open("rb") as file:
        hashlib.file_digest(file, "sha256")


def digest_on_threads(path: Path, threads: int) -> None:
    """SHA-256 of equal parts of the file, one for each thread: the best that threads can do."""
    size = path.stat().st_size

    def part(number: int) -> None:
        buffer = memoryview(bytearray(1 << 18))
        digest = hashlib.sha256()
        position, stop = size * number // threads, size * (number + 1) // threads
        while position < stop:
            count = os.preadv(descriptor, [buffer[: stop - position]], position)
            digest.update(buffer[:count])
            position += count

    descriptor = os.open(path, os.O_RDONLY)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(part, range(threads)))
    os.close(descriptor)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(rounds: int, candidates: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """The times of all candidates, in rounds, in an order that changes: the place counts too."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    names = list(candidates)
    for work in candidates.values():
        work()
    for _ in range(rounds):
        random.shuffle(names)
        for name in names:
            times[name].append(seconds(candidates[name]))
    return times


def ratio(times: dict[str, list[float]], name: str, base: str) -> float:
    """How fast `name` is, in units of `base`: of the medians over the rounds."""
    return statistics.median(times[base]) / statistics.median(times[name])


def report(what: str, value: float, target: float | None = None) -> bool:
    met = target is None or value >= target
    wanted = "" if target is None else f"   (at least {target}: {'met' if met else 'MISSED'})"
    print(f"  {what:<62} {value:6.2f}{wanted}")
    return met


def large_file(path: Path, rounds: int) -> bool:
    size = path.stat().st_size
    names = list(PROFILES)[:2]
    candidates: dict[str, Callable[[], object]] = {
        "sha": lambda: plain_digest(path),
        "sha 2": lambda: digest_on_threads(path, 2),
    }
    for name in names:
        for threads in (1, 2):
            candidates[f"{name} {threads}"] = lambda name=name, threads=threads: import_content(  # type: ignore[misc]
                path, PROFILES[name], threads=threads
            )
    times = compare(rounds, candidates)
    rate = size / statistics.median(times["sha"]) / 1e6
    print(f"\nCID of a file of {size // MIB} MiB, {rounds} rounds; SHA-256 of it: {rate:,.0f} MB/s")
    met = True
    for name in names:
        met &= report(f"{name}, 1 thread / file_digest", ratio(times, f"{name} 1", "sha"), 0.95)
        met &= report(
            f"{name}, 2 threads / SHA-256 on 2 threads", ratio(times, f"{name} 2", "sha 2"), 0.75
        )
        report(f"{name}, 2 threads / 1 thread", ratio(times, f"{name} 2", f"{name} 1"))
    return met


def small_documents(rounds: int) -> bool:
    document = os.urandom(1024)
    text = str(CID.of_raw(document))
    v0 = compute_cid(document, profile="unixfs-v0-2015")

    def repeat(work: Callable[[], object]) -> Callable[[], None]:
        def many() -> None:
            for _ in range(20_000):
                work()

        return many

    times = compare(
        rounds,
        {
            "sha": repeat(lambda: hashlib.sha256(document).digest()),
            "v1": repeat(lambda: compute_cid(document)),
            "v0": repeat(lambda: compute_cid(document, profile="unixfs-v0-2015")),
            "parse v1": repeat(lambda: CID.parse(text)),
            "parse v0": repeat(lambda: CID.parse(v0)),
        },
    )
    rate = 20_000 / statistics.median(times["sha"])
    print(f"\nDocuments of 1 KB, {rounds} rounds; SHA-256 of one: {rate:,.0f}/s")
    met = report("CID, unixfs-v1-2025 / sha256(document)", ratio(times, "v1", "sha"), 0.1)
    report("CID, unixfs-v0-2015 / sha256(document)", ratio(times, "v0", "sha"))
    met &= report("parsing a CIDv1 / sha256(document)", ratio(times, "parse v1", "sha"), 0.04)
    met &= report("parsing a CIDv0 / sha256(document)", ratio(times, "parse v0", "sha"), 0.04)
    return met


def peak_memory(path: Path) -> bool:
    """The growth of a fresh interpreter's memory over its own, in MiB, for each profile."""
    print("\nPeak memory over the interpreter's own, in MiB (at most 32)")
    met = True
    for profile in PROFILES:
        grown = int(
            subprocess.run(  # noqa: S603 - this very file
                [sys.executable, __file__, "--memory", str(path), profile],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        met &= grown <= 32 * 1024
        print(f"  {profile:<62} {grown / 1024:6.1f}")
    return met


def measure_memory(path: str, profile: str) -> None:
    before = peak_kib()
    compute_cid(Path(path), profile=profile)
    print(peak_kib() - before)


def peak_kib() -> int:
    # Not getrusage: its figure survives exec, and would be the parent's.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0])


def main() -> int:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 21
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data")
        with path.open("wb") as file:
            for _ in range(size):
                file.write(os.urandom(MIB))
        results = [large_file(path, rounds), small_documents(rounds), peak_memory(path)]
    print("\nFor comparison: the JavaScript importer reaches about 0.4 (v0) and 0.6 (v1) of the")
    print("in-memory hash rate; see docs/benchmarks.md for what was measured, and when.")
    return 0 if all(results) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        measure_memory(*sys.argv[2:])
    else:
        sys.exit(main())
