"""Large uploads to a real node, interrupted by the end of a process: they continue all the same."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from types import SimpleNamespace

import pytest

from holdfast import compute_cid
from holdfast.content.cid import CID
from holdfast.repository import Repository
from tests.commands import HOLDFAST, Commands
from tests.content import stream
from tests.forwarders import CountingProxy
from tests.node_process import ON_LINUX, NodeProcess
from tests.programs import run_measured
from tests.wrapping import unwrapped

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LEGACY = "kubo-legacy-cidv1"
PIECE = 48 << 20
SIZE = 2 * PIECE + 5_000_000  # more than a form may have
HEADERS = 1 << 14  # bytes of all headers, and more

CHILD = """
import asyncio, json, os, signal, sys
from holdfast import AsyncClient, Client
from holdfast.sources.sources import open_source
from tests.wrapping import PrefixedSource

url, token, path, colour, point, key = sys.argv[1:]

def content():
    return PrefixedSource(open_source(path), key.encode()) if key else path

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def hear(event):
    if event.kind == "resume":
        print(json.dumps({"from": event.position}), flush=True)
    if event.kind == "request" and event.status in (201, 204):
        if point == "after the first reply" and event.status == 201:
            kill()
        if point == "after a piece" and event.status == 204:
            kill()
        if point == "after the last piece" and done[0] == os.path.getsize(path):
            kill()

done = [0]
stopped = []

def progress(sent, _):
    done[0] = sent
    start = (sent - 1) // (48 << 20) * (48 << 20)
    if point == "in a piece" and sent - start > 20 << 20:
        kill()
    if point == "stop in a piece" and sent > 60 << 20 and not stopped:
        stopped.append(True)
        print(json.dumps({"in": "a piece"}), flush=True)

settings = dict(
    provider="pinata", provider_token=token, pin_api_url=url, gateway_url=url + "/ipfs",
    on_event=hear, **({} if point == "stop in a piece" else {"retries": {"attempts": 8}}),
)

async def upload():
    async with AsyncClient.init(**settings) as client:
        return await client.upload(content(), progress=progress)

if colour == "async":
    record = asyncio.run(upload())
else:
    with Client.init(**settings) as client:
        record = client.upload(content(), progress=progress)
print(json.dumps({"cid": record.cid, "duplicate": record.duplicate}), flush=True)
"""

POINTS = (
    *("before the first reply", "after the first reply", "in a piece", "after a piece"),
    "after the last piece",
)


@pytest.fixture
def node(tmp_path):
    with closing(NodeProcess(tmp_path / "store")) as node:
        yield node


@pytest.fixture
def proxy(node):
    with CountingProxy(node.api_url) as proxy:
        yield proxy


def write_file(path, seed, size=SIZE):
    with path.open("wb") as file:
        for piece in stream(seed, size):
            file.write(piece)
    return path


def start(proxy, node, path, colour="blocking", point="", *, key=""):
    environment = {**os.environ, "XDG_DATA_HOME": str(path.parent / "data")}
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", CHILD, proxy.url, node.token, str(path), colour, point, key],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def outcome(process):
    """The exit code of an upload, from where it continued or None, and its result or None."""
    output, _ = process.communicate(timeout=120)
    lines = [json.loads(line) for line in output.splitlines()]
    resumed = next((line["from"] for line in lines if "from" in line), None)
    return process.returncode, resumed, next((line for line in lines if "cid" in line), None)


def left_over(path):
    folder = path.parent / "data/holdfast/unfinished-uploads"
    return sorted(folder.iterdir()) if folder.exists() else []


def kill_at(point, proxy, node, path, colour, *, key=""):
    """Run an upload that is killed at `point`."""
    process = start(proxy, node, path, colour, point, key=key)
    if point == "before the first reply":
        proxy.on_reply = process.kill
    code, resumed, _ = outcome(process)
    proxy.on_reply = None
    assert code == -signal.SIGKILL, f"it was not killed {point}"
    return resumed


def test_thirty_kills_at_all_points_send_at_most_one_piece_twice(node, proxy, tmp_path):
    for number in range(6):  # and five points
        folder = tmp_path / str(number)
        folder.mkdir()
        path = write_file(folder / "large.bin", f"kills {number}")
        cid = compute_cid(path, profile=LEGACY)
        colour = ("blocking", "async")[number % 2]
        before = proxy.sent
        positions = [kill_at(point, proxy, node, path, colour) for point in POINTS]
        sent = proxy.sent
        code, resumed, record = outcome(start(proxy, node, path, colour))
        assert (code, record) == (0, {"cid": cid, "duplicate": False})
        # It began with the second reply; each later run continued where the node was.
        assert positions[:3] == [None, None, None]
        assert 0 <= positions[3] <= PIECE
        assert positions[4] == positions[3] + PIECE
        # After the last piece, nothing was left to be sent.
        assert resumed is None
        assert proxy.sent - sent < HEADERS
        assert proxy.sent - before <= SIZE + PIECE + HEADERS
        assert left_over(path) == []
        path.unlink()
    node.close()
    with Repository(tmp_path / "store") as repository:
        assert list(repository.check()) == []
        assert repository.totals().pins == 6


def test_a_wrapped_source_sends_the_same_bytes_after_each_kill(node, proxy, tmp_path):
    """Its random prefix is sent by later processes, of either colour, as the first one did."""
    path = write_file(tmp_path / "large.bin", "wrapped")
    before = proxy.sent
    for point, colour in (("in a piece", "blocking"), ("after a piece", "async")):
        kill_at(point, proxy, node, path, colour, key="a key")
    code, resumed, record = outcome(start(proxy, node, path, key="a key"))
    assert (code, resumed >= PIECE, record["duplicate"]) == (0, True, False)
    assert proxy.sent - before <= SIZE + PIECE + HEADERS
    node.close()
    with Repository(tmp_path / "store") as repository:
        content = b"".join(repository.read(CID.parse(record["cid"])))
    assert unwrapped(content, b"a key") == path.read_bytes()


@pytest.mark.parametrize("colour", ["blocking", "async", "interrupted"])
def test_a_killed_node_that_is_away_for_a_while_is_waited_for(node, tmp_path, colour):
    """The upload goes to the node itself, which is away for longer than the usual retries."""
    path = write_file(tmp_path / "large.bin", f"away {colour}")
    port = node.api_url.rpartition(":")[2]
    process = start(SimpleNamespace(url=node.api_url), node, path, colour, "stop in a piece")
    assert json.loads(process.stdout.readline()) == {"in": "a piece"}
    node.process.kill()
    node.process.wait()
    time.sleep(8)  # the default retries last for 1.75 seconds at most
    assert process.poll() is None, "the upload did not wait"
    if colour == "interrupted":
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode == -signal.SIGINT
        assert len(left_over(path)) >= 1
    else:
        with closing(NodeProcess(tmp_path / "store", "--port", port)):
            code, _, record = outcome(process)
            assert (code, record["cid"]) == (0, compute_cid(path, profile=LEGACY))
        assert left_over(path) == []


def test_two_processes_continue_the_same_upload(node, proxy, tmp_path):
    path = write_file(tmp_path / "large.bin", "two again")
    kill_at("after a piece", proxy, node, path, "blocking")
    processes = [start(proxy, node, path, colour) for colour in ("blocking", "async")]
    outcomes = [outcome(process) for process in processes]
    cid = compute_cid(path, profile=LEGACY)
    assert [(code, record["cid"]) for code, _, record in outcomes] == [(0, cid), (0, cid)]
    assert PIECE in [resumed for _, resumed, _ in outcomes]
    assert left_over(path) == []


# The command line


@pytest.fixture
def commands(tmp_path, node, proxy):
    return Commands(
        tmp_path / "commands",
        HOLDFAST_PROVIDER="pinata",
        HOLDFAST_PROVIDER_TOKEN=node.token,
        HOLDFAST_PIN_API_URL=proxy.url,
        HOLDFAST_GATEWAY_URL=f"{proxy.url}/ipfs",
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_command_continues_and_says_from_where(commands, proxy, number):
    path = write_file(commands.folder / "large.bin", str(number))
    proxy.hold_after = PIECE + (20 << 20)
    process = subprocess.Popen(  # noqa: S603
        [HOLDFAST, "upload", "large.bin"],
        env=commands.environment,
        cwd=commands.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert proxy.is_holding.wait(60)
    (row,) = commands.rows("uploads")
    assert (row["path"], row["size"], row["sent"]) == (str(path), SIZE, PIECE)
    assert row["underWay"]
    assert commands.text("uploads", "--clear").startswith("under way  48.0 MiB of 101 MiB")
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    proxy.release()
    if number is signal.SIGINT:
        assert (process.returncode, output) == (130, "")
        assert errors.splitlines()[0] == "interrupted"
        assert "upload the same file again to resume" in errors.splitlines()[1]
    line = commands.text("uploads")
    assert line.startswith("48.0 MiB of 101 MiB  ")
    assert line.endswith(f"  {path}")
    if number is signal.SIGKILL:
        assert commands.text("uploads", "--clear").startswith("removed  48.0 MiB of 101 MiB")
    result = commands.run("upload", "large.bin")
    cid = compute_cid(path, profile=LEGACY)
    assert (result.returncode, result.stdout.decode()) == (0, f"{cid}\n")
    continues = result.stderr.decode().startswith("large.bin: continues after ")
    assert continues is (number is signal.SIGINT)
    assert commands.text("uploads") == ""
    assert not continues or proxy.sent <= SIZE + PIECE + 2 * HEADERS


# Memory


MEASURED = """
import sys
from holdfast import Client

url, token, path = sys.argv[1:]
with Client.init(provider="pinata", provider_token=token, pin_api_url=url) as client:
    client.test_connection()
    idle = start_measuring()
    client.upload(path)
    print(peak_since(idle))
"""


@ON_LINUX
def test_a_large_upload_takes_little_memory(node, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = write_file(tmp_path / "large.bin", "memory", 512 << 20)
    before = node.peak_memory()
    assert int(run_measured(MEASURED, node.api_url, node.token, path)) < 24 << 20
    assert node.peak_memory() - before < 64 << 20
    assert left_over(path) == []
