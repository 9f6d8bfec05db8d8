"""Writers and collectors are killed sixty times, and their clocks are a day ahead or behind."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.content.cid import CID
from holdfast.repository import Repository
from tests.stores import HALTED_UPLOAD

KILLS = 60
CLOCKS = (None, "+1d", "-1d")
WRITER = """
import os, sys, time
from holdfast import Client
print(time.time(), flush=True)
with Client.init(path=sys.argv[1]) as client:
    for number in range(100_000):
        kind = number % 4
        if kind == 0:
            record = client.store({"writer": sys.argv[2], "number": number})
        elif kind == 1:  # what others store and revoke as well
            record = client.upload(bytes([number % 5]) * 300_000 + sys.argv[2].encode())
        elif kind == 2:
            client.revoke(client.upload(bytes([number % 5]) * 300_000 + b"revoked").cid)
            continue
        else:  # several batches, leased in between
            record = client.upload(os.urandom(1 << 20) * 12 + os.urandom(64))
        print(record.cid, flush=True)
"""
COLLECTOR = """
import sys, time
from holdfast.repository import Repository
print(time.time(), flush=True)
with Repository(sys.argv[1]) as repository:
    while True:
        repository.collect_garbage()
        print("collected", flush=True)
"""


def find_libfaketime():
    """The library that gives a process another clock, if it is installed."""
    return next(iter(sorted(Path("/usr").glob("lib*/**/faketime/libfaketime.so.1"))), None)


def start(code, *arguments, clock=None, library=None):
    environment = dict(os.environ)
    if clock is not None and library is not None:
        # The monotonic clock stays, and so do the times of files: those are what a jump leaves.
        environment |= {
            "LD_PRELOAD": str(library),
            "FAKETIME": clock,
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def kill(process):
    """Kill it; what it had said by then. A last line that was cut was not said."""
    process.send_signal(signal.SIGKILL)
    output, errors = process.communicate()
    assert errors == ""
    return output.splitlines()[: output.count("\n")]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_sixty_kills_with_clocks_that_jump_lose_nothing_that_was_acknowledged(tmp_path):
    library = find_libfaketime()
    acknowledged, collections = [], 0
    stalled = start(HALTED_UPLOAD, tmp_path)
    assert stalled.stdout.readline() == "half\n"
    try:
        for turn in range(KILLS):
            clocks = CLOCKS[turn % 3], CLOCKS[(turn // 3 + 1) % 3]
            writer = start(WRITER, tmp_path, f"w{turn}", clock=clocks[0], library=library)
            collector = start(COLLECTOR, tmp_path, clock=clocks[1], library=library)
            for process, clock in zip((writer, collector), clocks, strict=True):
                offset = float(process.stdout.readline()) - time.time()
                expected = {None: 0, "+1d": 86400, "-1d": -86400}[clock] if library else 0
                assert abs(offset - expected) < 600
            time.sleep(random.uniform(0.1, 1.0))  # noqa: S311
            collections += len(kill(collector))
            acknowledged += kill(writer)
        cid, errors = stalled.communicate("\n")
        assert errors == ""
        acknowledged.append(cid.strip())
    finally:
        stalled.kill()
        stalled.communicate()
    assert len(acknowledged) > KILLS
    assert collections > KILLS
    with Repository(tmp_path) as repository:
        repository.collect_garbage()
        for cid in acknowledged:
            assert repository.find_pin(CID.parse(cid)) is not None
            assert sum(map(len, repository.read(CID.parse(cid)))) > 0
        assert list(repository.check()) == []
    # The second copy has followed all of it.
    (tmp_path / "holdfast.sqlite3").unlink()
    with Repository(tmp_path) as repository:
        assert repository.repair().lost == []
        assert all(repository.find_pin(CID.parse(cid)) is not None for cid in acknowledged)
        assert list(repository.check()) == []
    if library is None:
        pytest.skip("libfaketime is not installed (`make clock`): all clocks were right")
