"""The files of the cache of blocks: what stays, what goes, and the command that shows them."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Client
from holdfast.content.cid import CID
from holdfast.disk.atomic import WORTH_KEEPING
from holdfast.disk.block_cache import Amount, CachedFiles, DiskBlockCache, cache_content
from tests.disks import pending_download
from tests.programs import start_program
from tests.support import raw_cid

SIZE = 100_000  # bytes of a block; on disk it takes a little more
ON_DISK = 102_400


def block(number):
    return number.to_bytes(4, "big") * (SIZE // 4)


def fill(cache, numbers):
    for number in numbers:
        cache.put(CID.of_raw(block(number)), block(number))


def cached(cache, numbers):
    return [number for number in numbers if cache.get(CID.of_raw(block(number))) is not None]


def sizes(folder):
    return [path.stat().st_size for path in folder.rglob("*") if path.is_file()]


def make_older(folder, seconds):
    for path in folder.rglob("*"):
        if path.is_file():
            moment = path.stat().st_mtime - seconds
            os.utime(path, (moment, moment))


def test_the_blocks_that_were_used_longest_ago_go_first(tmp_path):
    cache = DiskBlockCache(tmp_path, 10 * ON_DISK)
    for number in range(8):
        make_older(tmp_path, 10)
        fill(cache, [number])
    make_older(tmp_path, 10)
    assert cached(cache, [0, 1]) == [0, 1]
    fill(cache, range(8, 12))
    numbers = cached(cache, range(12))
    assert numbers == [0, 1, *range(14 - len(numbers), 12)]
    assert len(numbers) >= 8


def test_the_limit_holds_at_every_moment(tmp_path):
    limit = 10 * ON_DISK
    cache = DiskBlockCache(tmp_path, limit)
    for number in range(60):
        fill(cache, [number])
        assert cache_content(tmp_path).blocks.size <= limit
    assert cache_content(tmp_path).blocks.files >= 8


def test_a_small_block_takes_a_whole_unit_of_the_disk(tmp_path):
    cache = DiskBlockCache(tmp_path, 40_960)
    for number in range(100):
        cache.put(CID.of_raw(bytes([number])), bytes([number]))
    assert len(sizes(tmp_path)) <= 10


def test_what_is_larger_than_the_cache_or_in_the_cid_itself_is_not_kept(tmp_path):
    cache = DiskBlockCache(tmp_path, 4096)
    cache.put(CID.of_raw(bytes(5000)), bytes(5000))
    cache.put(CID.parse("bafkqabtimvwgy3yk"), b"hello\n")
    assert sizes(tmp_path) == []


def test_a_smaller_limit_is_kept_from_the_next_block_on(tmp_path):
    fill(DiskBlockCache(tmp_path, 100 * ON_DISK), range(30))
    smaller = DiskBlockCache(tmp_path, 5 * ON_DISK)
    fill(smaller, [40])
    assert cache_content(tmp_path).blocks.size <= 5 * ON_DISK
    another = DiskBlockCache(tmp_path, 5 * ON_DISK)  # as of another process
    assert cached(another, [40]) == [40]


def test_more_files_than_are_considered_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.disk.block_cache.CANDIDATES", 3)
    fill(DiskBlockCache(tmp_path, 100 * ON_DISK), range(30))
    CachedFiles(tmp_path).evict(4 * ON_DISK)
    assert cache_content(tmp_path).blocks == (4, 4 * ON_DISK)


def test_files_that_are_not_ours_stay(tmp_path):
    cache = DiskBlockCache(tmp_path, 3 * ON_DISK)
    fill(cache, range(3))
    group = next((tmp_path / "blocks").iterdir())
    (group / "notes.txt").write_text("mine")
    fill(cache, range(3, 30))
    cache_content(tmp_path, clear=True)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["notes.txt"]


@pytest.mark.slow
def test_threads_share_a_cache(tmp_path):
    cache = DiskBlockCache(tmp_path, 10 * ON_DISK)

    def work(first):
        for number in range(first, first + 20):
            fill(cache, [number % 25])
            cached(cache, [number % 25, (number * 7) % 25])

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(0, 30, 5)))
    assert cache_content(tmp_path).blocks.size <= 10 * ON_DISK
    assert set(sizes(tmp_path)) == {SIZE}


WRITER = """
import itertools, sys
from pathlib import Path
from holdfast.content.cid import CID
from holdfast.disk.block_cache import DiskBlockCache
cache = DiskBlockCache(Path(sys.argv[1]), 20 * 102_400)
print("ready", flush=True)
for number in itertools.count(int(sys.argv[2])):
    block = number.to_bytes(4, "big") * 25_000
    cache.put(CID.of_raw(block), block)
"""


@pytest.mark.slow
def test_processes_that_are_killed_leave_whole_blocks(tmp_path):
    for turn in range(4):
        writers = [start_program(WRITER, tmp_path, 1000 * turn + 500 * place) for place in range(2)]
        for writer in writers:
            with writer:
                assert writer.stdout.readline() == "ready\n"
                time.sleep(0.05 + 0.02 * turn)
                writer.kill()
    names = [path for path in tmp_path.rglob("*-*") if path.is_file()]
    assert names
    for path in names:
        data = path.read_bytes()
        assert path.name == f"12-{CID.of_raw(data).digest.hex()}"
    # What a killed process was writing is removed when nobody can be writing it any more.
    leftover = tmp_path / "blocks" / "00" / "0123456789abcdef.tmp"
    leftover.parent.mkdir(exist_ok=True)
    leftover.write_bytes(bytes(10))
    cache_content(tmp_path, clear=True)
    assert leftover.exists()
    make_older(tmp_path, 7200)
    cache_content(tmp_path, clear=True)
    assert sizes(tmp_path) == []


def test_the_command_shows_and_clears_the_cache(commands):
    cache = commands.folder.parent / "cache" / "holdfast"
    empty = {"files": 0, "size": 0}
    assert commands.json("cache") == {
        "folder": str(cache),
        "cleared": False,
        "limit": 0,
        "blocks": empty,
        "downloads": empty,
    }
    assert not cache.exists()
    cache.mkdir(parents=True)
    fill(DiskBlockCache(cache, 10 * ON_DISK), range(2))
    pending_download(cache, raw_cid(b"a"), bytes(2 << 20)).discard(verified=2 << 20)
    shown = commands.text("cache", HOLDFAST_CACHE_BYTES="1000000")
    assert shown.splitlines() == [
        str(cache),
        "blocks: 2 files, 200 KiB of 977 KiB",
        "interrupted downloads: 1 file, 2.00 MiB",
    ]
    under_way = pending_download(cache, raw_cid(b"b"), bytes(WORTH_KEEPING))
    under_way.save()
    removed = commands.json("cache", "--clear")
    assert removed["blocks"] == {"files": 2, "size": 2 * ON_DISK}
    assert removed["downloads"] == {"files": 1, "size": 2 << 20}
    shown = commands.json("cache", "--cache-path", cache)
    assert shown["downloads"] == {"files": 1, "size": WORTH_KEEPING}
    under_way.discard()
    assert cache_content(cache) == (Amount(0, 0), Amount(0, 0))


def test_a_size_that_is_none_is_refused():
    for wrong in (-1, 1.5, "1 GB", True):
        with pytest.raises(ValueError, match="cache_bytes must be a number of bytes"):
            Client.init(cache_bytes=wrong)
