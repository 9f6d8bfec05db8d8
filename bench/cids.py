"""The speed of CIDs against that of SHA-256 itself: ratios of one run, and peak memory.

`make bench`, or `python bench/cids.py [MiB] [rounds]`.
"""

import hashlib
import os
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
from holdfast.content.profiles import PROFILES, Profile
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


def ratio(base: Callable[[], object], work: Callable[[], object], rounds: int) -> float:
    """How fast `work` is, in units of `base`.

    Each run of `work` stands between two of `base`, with whose mean it is compared: so a machine
    that is faster now than a second ago favours neither. What counts is the median of the rounds.
    """
    base()
    work()
    before = seconds(base)
    found = []
    for _ in range(rounds):
        middle = seconds(work)
        after = seconds(base)
        found.append((before + after) / 2 / middle)
        before = after
    return statistics.median(found)


def report(what: str, value: float, target: float | None = None) -> bool:
    met = target is None or value >= target
    wanted = "" if target is None else f"   (at least {target}: {'met' if met else 'MISSED'})"
    print(f"  {what:<62} {value:6.2f}{wanted}")
    return met


def large_file(path: Path, rounds: int) -> bool:
    size = path.stat().st_size
    rate = size / min(seconds(lambda: plain_digest(path)) for _ in range(3)) / 1e6
    print(f"\nCID of a file of {size // MIB} MiB, {rounds} rounds; SHA-256 of it: {rate:,.0f} MB/s")

    def digest() -> None:
        plain_digest(path)

    def digest_2() -> None:
        digest_on_threads(path, 2)

    report("file_digest / itself: the noise of this machine", ratio(digest, digest, rounds))
    met = True
    for name in ("unixfs-v1-2025", "unixfs-v0-2015"):

        def on_threads(threads: int, profile: Profile = PROFILES[name]) -> Callable[[], object]:
            return lambda: import_content(path, profile, threads=threads)

        one, two = on_threads(1), on_threads(2)
        met &= report(f"{name}, 1 thread / file_digest", ratio(digest, one, rounds), 0.95)
        met &= report(
            f"{name}, 2 threads / SHA-256 on 2 threads", ratio(digest_2, two, rounds), 0.75
        )
        report(f"{name}, 2 threads / 1 thread", ratio(one, two, rounds))
    # Measured elsewhere, on a machine of this kind: it is not run here.
    report("ipfs-unixfs-importer 17 (JavaScript), v1 / SHA-256 in memory", 0.6)
    report("ipfs-unixfs-importer 17 (JavaScript), v0 / SHA-256 in memory", 0.4)
    return met


def small_documents(rounds: int) -> bool:
    document = os.urandom(1024)
    v1 = str(CID.of_raw(document))
    v0 = compute_cid(document, profile="unixfs-v0-2015")

    def repeat(work: Callable[[], object]) -> Callable[[], None]:
        def many() -> None:
            for _ in range(20_000):
                work()

        return many

    digest = repeat(lambda: hashlib.sha256(document).digest())

    def measure(what: str, work: Callable[[], object], target: float | None = None) -> bool:
        return report(f"{what} / sha256(document)", ratio(digest, repeat(work), rounds), target)

    print(f"\nDocuments of 1 KB; SHA-256 of one: {20_000 / seconds(digest):,.0f}/s")
    met = measure("CID, unixfs-v1-2025", lambda: compute_cid(document), 0.1)
    measure("CID, unixfs-v0-2015", lambda: compute_cid(document, profile="unixfs-v0-2015"))
    met &= measure("parsing a CIDv1", lambda: CID.parse(v1), 0.04)
    met &= measure("parsing a CIDv0", lambda: CID.parse(v0), 0.04)
    return met


def peak_memory(path: Path) -> bool:
    """The growth of a fresh interpreter's memory over its own, in MiB, for files of two sizes."""
    print("\nPeak memory over the interpreter's own, in MiB (at most 32)")
    sparse = path.with_name("sparse")
    with sparse.open("wb") as file:
        file.truncate(4 << 30)
    met = True
    for each, profile in [(path, name) for name in PROFILES] + [(sparse, "unixfs-v1-2025")]:
        grown = int(
            subprocess.run(  # noqa: S603 - this very file
                [sys.executable, __file__, "--memory", str(each), profile],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        met &= grown <= 32 * 1024
        what = f"{profile}, {each.stat().st_size // MIB:,} MiB"
        print(f"  {what:<62} {grown / 1024:6.1f}")
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
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 11
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data")
        with path.open("wb") as file:
            for _ in range(size):
                file.write(os.urandom(MIB))
        results = [large_file(path, rounds), small_documents(rounds), peak_memory(path)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        measure_memory(*sys.argv[2:])
    else:
        sys.exit(main())
