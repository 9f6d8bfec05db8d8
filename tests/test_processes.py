"""Signals, forks, limits of the process, and clients that nobody closes (T11, T12).

Each case is a process of its own.
"""

import hashlib
import json
import os
import re
import signal
import time

import pytest

from holdfast import Client, compute_cid
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.protocol.gateway import RAW_TYPE
from holdfast.testing import Scripted, ScriptedServer
from tests.content import Blocks
from tests.programs import SETTINGS, in_both_colours, start_program
from tests.support import HELLO_CID, TOKEN, config_for, pinned, raw_cid, wait_until

DATA = hashlib.shake_128(b"interrupted").digest(3_500_000)
ROOT, BLOCKS = Blocks.of_file(DATA, UNIXFS_V1_2025)


def started(code, *arguments):
    environment = {**os.environ, "PYTHONWARNINGS": "default"}
    return start_program(SETTINGS + code, *arguments, env=environment)


def finished(process):
    """What a process printed and complained of, when it has ended by itself."""
    try:
        output, complaints = process.communicate(timeout=500)
    finally:
        process.kill()
    assert TOKEN not in output + complaints
    return output, complaints


def in_each_colour(code):
    codes = in_both_colours(code)
    return pytest.mark.parametrize("code", codes.values(), ids=codes)


# KeyboardInterrupt

INTERRUPTED = """
async def main():
    async with await AsyncClient.init(settings, cache_path=sys.argv[4]) as client:
        await client.download(sys.argv[3], to=sys.argv[5])
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
    raise
"""


@pytest.mark.slow
@in_each_colour(INTERRUPTED)
def test_an_interrupted_download_leaves_no_file_and_goes_on_next_time(tmp_path, code):
    def answer(request):
        if "format=raw" in request.target:
            return Scripted(body=BLOCKS[ROOT], headers={"Content-Type": RAW_TYPE})
        if "range" in request.headers:
            start = int(request.headers["range"].removeprefix("bytes=").partition("-")[0])
            headers = {"Content-Range": f"bytes {start}-{len(DATA) - 1}/{len(DATA)}"}
            return Scripted(status=206, body=DATA[start:], headers=headers)
        return Scripted(body=DATA, cut=3_300_000, ending="stall")

    target, cache = tmp_path / "target", tmp_path / "cache"
    with ScriptedServer(answer) as server:
        process = started(code, server.url, TOKEN, ROOT, cache, target)
        wait_until(lambda: any(path.stat().st_size >= 2 << 20 for path in cache.rglob("*.part")))
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        output, complaints = finished(process)
        # At once: neither the stall nor the time-out is waited for.
        assert time.monotonic() - begun < 20
        assert output == "interrupted\n"
        assert complaints.rstrip().endswith("KeyboardInterrupt")
        assert process.returncode == -signal.SIGINT
        assert not target.exists()
        (partial,) = cache.rglob("*.part")
        verified = partial.stat().st_size
        assert verified in {2 << 20, 3 << 20}

        before = len(server.requests)
        with Client.init(config_for(server, cache_path=cache)) as client:
            client.download(str(ROOT), to=target)
        assert target.read_bytes() == DATA
        # What was kept is not asked for again: of the body, only what comes behind it.
        requests = server.requests[before:]
        ranges = [
            request.headers["range"] for request in requests if "format=" not in request.target
        ]
        assert ranges == [f"bytes={verified}-"]
    assert list(cache.rglob("*.part")) == []


# Fork after use

FORKED = """
with Client.init(settings) as client:
    client.store("before")
    child = os.fork()
    name = "parent" if child else "child"
    if child and sys.argv[3] == "in turn":
        assert os.waitpid(child, 0)[1] == 0
    for number in range(25):
        record = client.store([name, number])
        assert client.retrieve(record.cid) == [name, number]
    if child:
        if sys.argv[3] == "at once":
            assert os.waitpid(child, 0)[1] == 0
        client.store("after")
        print("good")
"""


@pytest.mark.slow
@pytest.mark.parametrize("order", ["in turn", "at once"])
def test_a_client_in_a_forked_child_does_not_use_the_parents_connection(order):
    documents = {}

    def answer(request):
        if request.method == "GET":
            return Scripted(body=documents[request.target.rpartition("/")[2]])
        text = json.dumps(request.json()["pinataContent"]).encode()
        documents[raw_cid(text)] = text
        return Scripted(body=pinned(raw_cid(text)))

    with ScriptedServer(answer) as server:
        process = started(FORKED, server.url, TOKEN, order)
        output, complaints = finished(process)
    # One that reads the other's replies gets wrong bytes, or waits for ever.
    assert (output, process.returncode) == ("good\n", 0), complaints
    assert len(server.requests) == 2 + 2 * 2 * 25
    assert server.connections == 2


# Descriptors

LIMITED = """
from pathlib import Path
from holdfast import compute_cid
folder = Path(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
with Client.init(settings) as client:
    for path in sorted(folder.iterdir()):
        client.upload(path)
with Client.init(path=sys.argv[4]) as client:
    for path in sorted(folder.iterdir()):
        client.upload(path)
print(compute_cid(folder) == sys.argv[5])
"""


@pytest.mark.parametrize(
    "files",
    [100, pytest.param(20_000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])],
)
def test_more_files_than_descriptors(tmp_path, files):
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(files):
        (folder / f"{number:05d}").write_bytes(b"hello")
    with ScriptedServer(lambda request: Scripted(body=pinned())) as server:
        arguments = (server.url, TOKEN, folder, tmp_path / "store", compute_cid(folder))
        process = started(LIMITED, *arguments)
        output, complaints = finished(process)
    assert (output, process.returncode) == ("True\n", 0), complaints
    assert len(server.requests) == files


EXHAUSTED = """
async def main():
    async with await AsyncClient.init(settings) as client:
        await client.store(1)
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        taken = []
        try:
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        for _ in range(2):
            try:
                await client.upload(sys.argv[3])
            except OSError as error:
                print(error.errno)
            try:
                await client.download(sys.argv[4], to=sys.argv[5])
            except OSError as error:
                print(error.errno)
            while taken:
                os.close(taken.pop())
asyncio.run(main())
"""


@pytest.mark.slow
@in_each_colour(EXHAUSTED)
def test_no_descriptor_left_is_the_systems_error_and_passes(tmp_path, code):
    (tmp_path / "file").write_bytes(b"hello")

    def answer(request):
        return Scripted(body=b"hello" if request.method == "GET" else pinned())

    with ScriptedServer(answer) as server:
        target = tmp_path / "target"
        process = started(code, server.url, TOKEN, tmp_path / "file", HELLO_CID, target)
        output, complaints = finished(process)
    # EMFILE, twice: from opening the file, and from making the one to download to.
    assert (output, process.returncode) == ("24\n24\n", 0), complaints
    assert target.read_bytes() == b"hello"
    # The one before, and the two when there was room again.
    assert len(server.requests) == 3


# Clients that nobody closes

FORGOTTEN = """
async def use(config):
    client = await AsyncClient.init(config)
    await client.store(1)
async def main():
    for _ in range(20):
        await use(settings)
        await use({"path": sys.argv[3]})
    gc.collect()
    await asyncio.sleep(0.1)
    print(len(os.listdir("/proc/self/fd")))
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")  # noqa: PTH112
@in_each_colour(FORGOTTEN)
def test_clients_that_nobody_closes_go_with_their_last_reference(tmp_path, code):
    with ScriptedServer(lambda request: Scripted(body=pinned())) as server:
        process = started(code, server.url, TOKEN, tmp_path)
        output, complaints = finished(process)
    assert process.returncode == 0, complaints
    assert "Traceback" not in complaints
    # Forty clients were made: their sockets and files are gone.
    assert int(output) < 25
    # The HTTP library may say that it was not closed, once or twice for each, and no more.
    assert len(re.findall("ResourceWarning: unclosed", complaints, re.IGNORECASE)) <= 40
