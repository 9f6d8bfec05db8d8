"""How the embedded store behaves when it grows: from a thousand pins to a million.

`make bench`, or `python bench/growth.py [--quick] [--json FILE] [--folder FOLDER]`.

Stores are filled in large transactions. Then a thousand documents are stored one by one and pins
are listed, in turns at all sizes. Then everything is checked, a tenth of the pins is removed, and
garbage is collected, each in a process of its own. Each size is compared with the one below it:
`store` and `list` by the median time of one call, `gc` and `check` by the time for each block.
"""

import argparse
import base64
import contextlib
import hashlib
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs.files import FileImporter
from holdfast.repository import PinQuery, Repository

SIZES = (1_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 30_000)
TIMED = 1_000  # documents that are stored one by one, and timed
PAGE = 100
CALLS = 101  # of each list
TURN = 50  # stores of one size, before it is the turn of the next
MOST_SECONDS = 2.0  # for the calls of one list
BATCH = 100_000  # pins in one transaction
FILL_CACHE = -400_000  # KiB, so that a fill with random keys takes no minutes
FILE_LEAVES = 999  # of a file of many blocks; there is one for each 10,000 pins
SMALL_LEAVES = replace(UNIXFS_V1_2025, chunk_size=64)
RAW_SHA256 = bytes.fromhex("01551220")
GARBAGE = "UPDATE pins SET removed = 1 WHERE id % 10 = 0 AND removed IS NULL"

MOST = 1.5
MOST_MIB = 64  # of a process that collects garbage or checks, at any size

FIRST = f"list, first {PAGE}"
MIDDLE = f"list, {PAGE} from the middle"
BY_NAME = f"list by name, first {PAGE}"
NO_MATCH = "list by name, no match"
# An index finds the first page. It finds no text inside of names, and it does not know how many
# entries are before one: a page further on reads the entries of the pins before it.
NO_GOAL = {NO_MATCH, MIDDLE}


def document(number: int) -> bytes:
    """Return the JSON text of some 200 bytes for a number."""
    return json.dumps({"number": number, "text": f"document {number} " + "x" * 150}).encode()


def rows(first: int, last: int) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Yield the rows of the tables blocks and pins for the documents `first` to `last`."""
    for number in range(first, last):
        data = document(number)
        key = RAW_SHA256 + hashlib.sha256(data).digest()
        cid = "b" + base64.b32encode(key).decode().rstrip("=").lower()
        metadata = (f"document {number}", '{"number": 1}', len(data), 0, "application/json", number)
        yield (key, len(data), data), (str(uuid.UUID(int=number)), cid, key, *metadata)


def fill(folder: Path, size: int) -> None:
    """Make a store in `folder` with `size` pins, less the thousand that will be timed."""
    chosen = random.Random(size)  # noqa: S311 - the same in each run
    with Repository(folder) as repository:
        for number in range(size // 10_000):
            with repository.adding() as adding:
                importer = FileImporter(SMALL_LEAVES, adding.put)
                importer.update(chosen.randbytes(64 * FILE_LEAVES))
                adding.pin(importer.finish().cid, size=1, name=f"file {number}")
        with repository._database.writing() as connection:  # noqa: SLF001 - the fast way in
            connection.execute(f"PRAGMA cache_size = {FILL_CACHE}")
        for first in range(0, size - TIMED, BATCH):
            blocks, pins = zip(*rows(first, min(first + BATCH, size - TIMED)), strict=True)
            with repository._database.writing() as connection:  # noqa: SLF001
                connection.executemany(
                    "INSERT INTO blocks (key, size, data) VALUES (?, ?, ?)", blocks
                )
                connection.executemany(
                    "INSERT INTO pins (uuid, cid, key, name, keyvalues, size, files, type, created)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    pins,
                )


def store_seconds(stores: dict[int, Repository]) -> dict[int, float]:
    """Return the median time of the last thousand stores for each size, in turns."""
    taken: dict[int, list[float]] = {size: [] for size in stores}
    for first in range(0, TIMED, TURN):
        for size, repository in stores.items():
            for number in range(size - TIMED + first, size - TIMED + first + TURN):
                metadata = {"name": f"document {number}", "keyvalues": {"number": number}}
                data = document(number)
                start = time.perf_counter()
                repository.add(data, UNIXFS_V1_2025, **metadata)
                taken[size].append(time.perf_counter() - start)
    return {size: statistics.median(times) for size, times in taken.items()}


def queries(size: int, repository: Repository) -> dict[str, Callable[[], object]]:
    """Return the lists and counts that are timed."""
    lists = {
        FIRST: PinQuery(limit=PAGE),
        f"{FIRST}, with unpinned": PinQuery(limit=PAGE, pinned=None),
        BY_NAME: PinQuery(limit=PAGE, name_contains="7"),
        MIDDLE: PinQuery(limit=PAGE, offset=size // 2),
        NO_MATCH: PinQuery(limit=PAGE, name_contains="no such name"),
    }
    return {
        **{work: partial(repository.pins, query) for work, query in lists.items()},
        "count, with unpinned": partial(repository.count_pins, PinQuery(pinned=None)),
        "number and size of pins": repository.totals,
    }


def query_seconds(calls: dict[int, Callable[[], object]]) -> dict[int, float]:
    """Return the median time of some calls for each size, in turns."""
    taken: dict[int, list[float]] = {size: [] for size in calls}
    for call in calls.values():
        call()
    start = time.perf_counter()
    for _ in range(CALLS):
        for size, call in calls.items():
            before = time.perf_counter()
            call()
            taken[size].append(time.perf_counter() - before)
        if time.perf_counter() - start > MOST_SECONDS:
            break
    return {size: statistics.median(times) for size, times in taken.items()}


def work_here(work: str, folder: Path) -> None:
    """Collect garbage or check a store in this process, and print what it took as JSON."""
    with Repository(folder) as repository:
        start = time.perf_counter()
        if work == "gc":
            count: object = repository.collect_garbage().blocks
        else:
            count = len(list(repository.check()))
        taken = time.perf_counter() - start
    print(json.dumps({"seconds": taken, "found": count, "peak_rss_mib": _peak_mib()}))


def _peak_mib() -> float:
    with contextlib.suppress(OSError):  # `ru_maxrss` of a child counts the parent too
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1 << 20 if sys.platform == "darwin" else 1 << 10
    )


def work_apart(work: str, folder: Path) -> dict[str, Any]:
    """Collect garbage or check a store in a process of its own."""
    command = [sys.executable, __file__, "--work", work, "--folder", str(folder)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603
    result: dict[str, Any] = json.loads(output)
    return result


def measure(base: Path, sizes: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """Fill a store for each size, and yield what each work took."""
    folders = {size: base / str(size) for size in sizes}
    for size, folder in folders.items():
        start = time.perf_counter()
        fill(folder, size)
        yield {"work": "fill", "size": size, "seconds": time.perf_counter() - start}
    os.sync()  # what the fills wrote must not slow down the stores
    with contextlib.ExitStack() as stack:
        stores = {size: stack.enter_context(Repository(folders[size])) for size in sizes}
        for size, seconds in store_seconds(stores).items():
            yield {"work": "store", "size": size, "seconds": seconds}
        calls = {size: queries(size, repository) for size, repository in stores.items()}
        for work in calls[sizes[0]]:
            times = query_seconds({size: calls[size][work] for size in sizes})
            for size, seconds in times.items():
                yield {"work": work, "size": size, "seconds": seconds}
        for size, folder in folders.items():
            result = work_apart("check", folder)
            if result.pop("found"):
                raise RuntimeError("the store is damaged")
            yield {"work": "check", "size": size, **result}
        for size, repository in stores.items():
            with repository._database.writing() as connection:  # noqa: SLF001
                connection.execute(GARBAGE)
            result = work_apart("gc", folders[size])
            if result.pop("found") < size // 10:
                raise RuntimeError("the collection left garbage")
            yield {"work": "gc", "size": size, **result}


def compare(result: dict[str, Any], before: dict[str, Any] | None) -> str:
    """Add the ratio to the size below to `result`; return the line of the table."""
    work, size, seconds = result["work"], result["size"], result["seconds"]
    unit, amount = ("s", seconds) if seconds > 1 else ("ms", seconds * 1000)
    line = f"  {work:<34} {size:>9,} {amount:>10,.3f} {unit:<2}"
    if "peak_rss_mib" in result:
        line += f" {result['peak_rss_mib']:>6,.0f} MiB (at most {MOST_MIB})"
    if before is None or work == "fill":
        return line
    blocks = size if work in {"gc", "check"} else 1
    ratio = (seconds / blocks) / (before["seconds"] / (before["size"] if blocks > 1 else 1))
    result["ratio"] = ratio
    goal = "no goal" if work in NO_GOAL else f"at most {MOST}"
    line += f"   {'per block ' if blocks > 1 else ''}{ratio:.2f} ({goal})"
    return line


def holds(result: dict[str, Any]) -> bool:
    """Return whether a result is within its goals."""
    is_fast = result["work"] in NO_GOAL or result.get("ratio", 0) <= MOST
    return bool(is_fast and result.get("peak_rss_mib", 0) <= MOST_MIB)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="1,000 and 30,000 pins only")
    parser.add_argument("--json", type=Path, help="write the results to this file as well")
    parser.add_argument(
        "--folder", type=Path, help="make the stores here, not with temporary files"
    )
    parser.add_argument("--work", choices=["gc", "check"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        work_here(options.work, options.folder)
        return 0
    results: list[dict[str, Any]] = []
    print("Growth; each size against the one below it")
    with tempfile.TemporaryDirectory(dir=options.folder) as base:
        before: dict[str, dict[str, Any]] = {}
        for result in measure(Path(base), QUICK_SIZES if options.quick else SIZES):
            print(compare(result, before.get(result["work"])), flush=True)
            before[result["work"]] = result
            results.append(result)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0 if all(map(holds, results)) else 1


if __name__ == "__main__":
    sys.exit(main())
