"""Import a folder into IPFS: several files at once, with progress, and resumable.

Each file that is done gets a line in a manifest, `FOLDER.manifest.jsonl` unless you name another::

    pip install '.[async]'   # in a clone of Holdfast
    python examples/bulk_import.py photos
    python examples/bulk_import.py photos --at-once 16 --manifest done.jsonl

Run it again to go on after Ctrl-C or a fault: what the manifest has, and nobody has changed since,
is skipped. Files that failed are listed at the end, and the exit code is then 1; it is 130 after
Ctrl-C. The settings are those of `ClientConfig.from_env()`: `HOLDFAST_PROVIDER` and so on.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from holdfast import AsyncClient, ClientConfig
from holdfast.errors import AuthenticationError, ClientError, PermissionDeniedError


class Entry(NamedTuple):
    """A file as it was found; the time tells of changes that keep the size."""

    path: str
    size: int
    modified_ns: int


class Manifest:
    """What is done: one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: set[Entry] = set()
        path.touch()
        for line in path.read_bytes().splitlines(keepends=True):
            with suppress(ValueError, KeyError):  # cut short by a crash or a full disk: not done
                found = json.loads(line)
                self.entries.add(Entry(*(found[name] for name in Entry._fields)))
            if not line.endswith(b"\n"):
                self._append(b"\n")

    def add(self, entry: Entry, cid: str) -> None:
        """Write a line; it is on the disk when this returns."""
        self._append(json.dumps({**entry._asdict(), "cid": cid}).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())


class Import:
    """One run over a folder: what it found there, and how far it is."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder, self._manifest = folder, manifest
        self.todo: list[Entry] = []
        self.done: list[Entry] = []
        self.unchanged = 0
        self.failed: dict[str, Exception] = {}
        self._under_way: dict[Entry, int] = {}  # bytes sent so far
        self._started = time.monotonic()

    def scan(self) -> None:
        """Find out what is to be done. Links to folders are not followed."""
        walk = os.walk(self._folder, onerror=self._unreadable)
        for path in sorted(Path(where, name) for where, _, names in walk for name in names):
            try:
                found = path.stat()
            except OSError as error:
                self._unreadable(error)
                continue
            entry = Entry(str(path.relative_to(self._folder)), found.st_size, found.st_mtime_ns)
            if entry in self._manifest.entries:
                self.unchanged += 1
            elif path.is_file() and not path.samefile(self._manifest.path):
                self.todo.append(entry)

    def _unreadable(self, error: OSError) -> None:
        self.failed[str(error.filename)] = error

    async def run(self, at_once: int) -> None:
        """Keep `at_once` uploads under way until every file is done or has failed."""
        waiting = iter(self.todo)
        pause = 0.2 if sys.stderr.isatty() else 10
        client = await AsyncClient.init(ClientConfig.from_env())
        async with client, asyncio.TaskGroup() as group:
            workers = [group.create_task(self._work(client, waiting)) for _ in range(at_once)]
            while (await asyncio.wait(workers, timeout=pause))[1]:
                self.show()

    async def _work(self, client: AsyncClient, waiting: Iterator[Entry]) -> None:
        for entry in waiting:  # all workers share it: whoever is free takes the next
            try:
                sent = partial(self._sent, entry)
                record = await client.upload(self._folder / entry.path, progress=sent)
                await asyncio.to_thread(self._manifest.add, entry, record.cid)
                self.done.append(entry)
            except (ClientError, OSError) as error:  # the client has tried again by itself
                self.failed[entry.path] = error
                if isinstance(error, AuthenticationError | PermissionDeniedError):
                    list(waiting)  # leaves nothing to take: it would fare no better
            finally:
                self._under_way.pop(entry, None)

    def _sent(self, entry: Entry, sent: int, _total: int | None) -> None:
        self._under_way[entry] = sent  # not added up: what is sent again starts from nothing

    def show(self, end: str = "") -> None:
        """Files, bytes, rate and time left: on a terminal one line, which is written over."""
        size = sum(entry.size for entry in self.todo if entry.path not in self.failed)
        sent = sum(entry.size for entry in self.done) + sum(self._under_way.values())
        rate = sent / (time.monotonic() - self._started)
        left = f"{(size - sent) / rate:.0f} s left" if rate else "no rate yet"
        files = f"{len(self.done)}/{len(self.todo)} files"
        line = f"{files}, {sent / 1e6:.1f}/{size / 1e6:.1f} MB, {rate / 1e6:.1f} MB/s, {left}"
        before, after = ("\r\x1b[K", end) if sys.stderr.isatty() else ("", "\n")
        print(before + line, end=after, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Import a folder into IPFS.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--manifest", type=Path, help="by default FOLDER.manifest.jsonl")
    parser.add_argument("--at-once", type=int, default=8, choices=range(1, 101), metavar="N")
    given = parser.parse_args()
    folder: Path = given.folder.resolve()
    if not folder.is_dir():
        parser.error(f"{given.folder} is no folder")
    manifest = given.manifest or folder.with_name(f"{folder.name}.manifest.jsonl")
    job, interrupted = Import(folder, Manifest(manifest)), False
    try:
        job.scan()
        # It waits for its threads when Ctrl-C ends it: no line of the manifest is cut short.
        asyncio.run(job.run(given.at_once))
    except KeyboardInterrupt:
        interrupted = True
    except ClientError as error:  # the settings are wrong, say
        sys.exit(f"error: {error}")
    job.show(end="\n")
    for path, failure in job.failed.items():
        print(f"failed: {path!r}: {failure}", file=sys.stderr)
    print(f"{len(job.done)} uploaded, {job.unchanged} unchanged, {len(job.failed)} failed")
    return 130 if interrupted else 1 if job.failed else 0


if __name__ == "__main__":
    sys.exit(main())
