"""Downloads that are killed or interrupted: the next one fetches only the rest."""

import hashlib
import signal
import subprocess
import sys

import pytest

from holdfast import Client
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.protocol.gateway import RAW_TYPE
from holdfast.testing import Scripted, ScriptedServer
from tests._sync.masking import unmasking
from tests.content import Blocks
from tests.folder_dags import FolderDag, on_disk, serving
from tests.masks import masked
from tests.support import TOKEN, config_for, wait_until

pytestmark = pytest.mark.slow

CONTENT = hashlib.shake_128(b"killed").digest(9_000_000)
STORED = masked(CONTENT)
ROOT, BLOCKS = Blocks.of_file(STORED, UNIXFS_V1_2025)
COUNT = 400

# In the finish of a file of 9 MB, the process waits after the first pieces until it is killed.
PROGRAM = """
import asyncio, pathlib, sys, time
from holdfast import AsyncClient, Client
from holdfast.sinks.sinks import Finish
from tests._async.masking import unmasking as async_unmasking
from tests._sync.masking import unmasking
from tests.masks import unmask, unmasked_size

url, token, cid, cache, target, colour, method, option = sys.argv[1:]
fields = {"provider_token": token, "pin_api_url": url, "gateway_url": url + "/ipfs"}
fields |= {"cache_path": cache, "provider": "pinning"}

def slowly(file):
    for number, piece in enumerate(unmask(file)):
        yield piece
        if option == "waits" and number == 5:
            pathlib.Path(cache, "waiting").touch()
            time.sleep(3 if colour == "async" else 60)

finish = Finish(slowly, unmasked_size)

async def main():
    async with await AsyncClient.init(**fields) as client:
        async_unmasking(client, finish)
        await getattr(client, method)(cid, to=target)

if colour == "async":
    asyncio.run(main())
else:
    with Client.init(**fields) as client:
        if option != "plain":
            unmasking(client, finish)
        getattr(client, method)(cid, to=target)
"""


def started(server, cid, tmp_path, *, colour="sync", method="download", option="-"):
    (tmp_path / "cache").mkdir(exist_ok=True)
    arguments = [server.url, TOKEN, cid, tmp_path / "cache", tmp_path / "copy", colour, method]
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments), option]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)  # noqa: S603


def ended_by(process, number):
    process.send_signal(number)
    process.wait(120)
    assert process.returncode in {-number, 130}


def file_answer(request):
    """The file, from the byte that is asked for on."""
    if "format=raw" in request.target:
        return Scripted(body=BLOCKS[ROOT], headers={"Content-Type": RAW_TYPE})
    start = int(request.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
    headers = {"Content-Range": f"bytes {start}-{len(STORED) - 1}/{len(STORED)}"}
    return Scripted(status=206 if start else 200, body=STORED[start:], headers=headers)


def next_download(answer, cid, tmp_path, method, wrap=unmasking):
    """Download the rest; return the requests, without those for single blocks."""
    with ScriptedServer(answer) as server:
        config = config_for(server, cache_path=tmp_path / "cache")
        with Client.init(config) as client:
            getattr(wrap(client), method)(cid, to=tmp_path / "copy")
        return server.requests


def bodies(requests):
    return [request for request in requests if "format=raw" not in request.target]


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill", "ctrl-c"])
def test_a_file_that_is_stopped_while_it_is_fetched(tmp_path, colour, number):
    def stall(request):
        reply = file_answer(request)
        if "format=raw" in request.target:
            return reply
        return Scripted(body=STORED, cut=6_000_000, ending="stall")

    cache = tmp_path / "cache"
    with ScriptedServer(stall) as server:
        process = started(server, ROOT, tmp_path, colour=colour)
        wait_until(lambda: any(path.stat().st_size >= 4 << 20 for path in cache.rglob("*.part")))
        ended_by(process, number)
    assert not (tmp_path / "copy").exists()
    (request,) = bodies(next_download(file_answer, str(ROOT), tmp_path, "download"))
    assert int(request.headers["range"].removeprefix("bytes=")[:-1]) >= 3 << 20
    assert (tmp_path / "copy").read_bytes() == CONTENT
    assert not any(cache.rglob("*.part"))


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill", "ctrl-c"])
def test_a_file_that_is_stopped_while_it_is_finished_is_not_fetched_again(tmp_path, colour, number):
    with ScriptedServer(file_answer) as server:
        process = started(server, ROOT, tmp_path, colour=colour, option="waits")
        wait_until((tmp_path / "cache" / "waiting").exists)
        ended_by(process, number)
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    assert bodies(next_download(file_answer, str(ROOT), tmp_path, "download")) == []
    assert (tmp_path / "copy").read_bytes() == CONTENT


@pytest.mark.parametrize("kinds", [("raw", "plain"), ("raw", "car", "plain")])
@pytest.mark.parametrize("option", ["plain", "masked"])
def test_a_folder_that_is_killed_keeps_what_is_finished(tmp_path, kinds, option):
    mask, wrap = (masked, unmasking) if option == "masked" else (bytes, lambda client: client)
    dag = FolderDag()
    content = {f"{n}.txt": b"%d" % n * 2_000 for n in range(COUNT)}
    files = {name: dag.file(mask(plain)) for name, plain in content.items()}
    halves = [list(files.items())[: COUNT // 2], list(files.items())[COUNT // 2 :]]
    root = dag.folder(*((f"{n}", dag.folder(*half)) for n, half in enumerate(halves)))
    answer = serving(dag, kinds=kinds)
    with ScriptedServer(answer) as server:
        process = started(server, root, tmp_path, method="download_folder", option=option)
        wait_until(lambda: sum(1 for _ in tmp_path.glob(".copy.*/files/*/*")) > COUNT // 4)
        ended_by(process, signal.SIGKILL)
    finished = {path.name for path in tmp_path.glob(".copy.*/files/*/*")}
    assert COUNT // 4 < len(finished) < COUNT
    requests = next_download(answer, str(root), tmp_path, "download_folder", wrap)
    asked = {request.target[6:].partition("?")[0] for request in requests}
    assert not asked & {str(files[name]) for name in finished}
    assert len(requests) <= COUNT - len(finished) + 4  # directories, and an archive
    copied = {name.partition("/")[2]: plain for name, plain in on_disk(tmp_path / "copy").items()}
    assert {name: plain for name, plain in copied.items() if name} == content
