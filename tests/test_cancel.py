"""An async call that is cancelled leaves nothing behind."""

import asyncio
import hashlib
import threading
import time

import pytest

from holdfast import AsyncClient, ClientConfig
from holdfast._async.runtime import run_blocking, run_interruptible
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.protocol.gateway import RAW_TYPE
from holdfast.sinks.sinks import Finish
from holdfast.testing import Scripted, ScriptedServer
from tests._async.masking import unmasking
from tests.content import Blocks
from tests.support import config_for, pinned, raw_cid

DATA = hashlib.shake_128(b"cancelled").digest(3_500_000)
ROOT, BLOCKS = Blocks.of_file(DATA, UNIXFS_V1_2025)
SMALL = b"hello"


async def test_a_cancelled_upload_does_not_wait_for_a_silent_source(server, tmp_path):
    released = threading.Event()

    class Silent:
        def read(self, size=-1):
            if size == 0:
                return b""
            released.wait(10)
            return b""

    for config in (config_for(server), ClientConfig(path=tmp_path)):
        async with await AsyncClient.init(config) as client:
            task = asyncio.ensure_future(client.upload(Silent()))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, timeout=8)
    released.set()


async def test_a_cancelled_call_waits_for_its_thread():
    started, finished = threading.Event(), threading.Event()

    def work():
        started.set()
        threading.Event().wait(0.2)
        finished.set()

    task = asyncio.ensure_future(run_blocking(work))
    await asyncio.to_thread(started.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert finished.is_set()


async def test_a_result_without_a_truth_value_ends_the_wait_for_its_thread():
    class Odd:
        def __bool__(self):
            raise ValueError("neither true nor false")

    with pytest.raises(ValueError, match="neither"):
        await asyncio.wait_for(run_interruptible(Odd), 10)


def test_a_client_in_a_second_event_loop_says_so(server):
    async def make():
        client = await AsyncClient.init(config_for(server))
        server.reply(200, pinned())
        await client.store(1)
        return client

    async def use_and_close(client):
        with pytest.raises(RuntimeError, match="one client for each loop"):
            await client.store(1)

    with asyncio.Runner() as first, asyncio.Runner() as second:
        client = first.run(make())
        second.run(use_and_close(client))
        first.run(client.aclose())


async def test_a_cancelled_download_does_not_wait_for_the_end_of_its_finish(tmp_path):
    begun = threading.Event()

    def endless(_):
        while True:
            yield bytes(4 << 20)
            begun.set()
            time.sleep(0.05)

    async with AsyncClient.init(path=tmp_path / "store") as client:
        cid = (await client.upload(DATA)).cid
        unmasking(client, Finish(endless, lambda size: size))
        task = asyncio.ensure_future(client.download(cid, to=tmp_path / "copy"))
        await run_blocking(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


# At each of its awaits in turn


class CancelledAt:
    """Runs a coroutine and cancels it where it waits for the `at`-th time."""

    def __init__(self, coroutine, at):
        self._coroutine = coroutine
        self._at = at
        self.waits = 0

    def __await__(self):
        waiting = self._coroutine.__await__()
        resume, value = waiting.send, None
        while True:
            try:
                future = resume(value)
            except StopIteration as end:
                return end.value
            self.waits += 1
            if self.waits == self._at:
                asyncio.current_task().cancel()
            try:
                value = yield future
                resume = waiting.send
            except BaseException as error:  # noqa: BLE001 - all that comes in goes on in
                resume, value = waiting.throw, error


@pytest.fixture
def flaky_server():
    """Has `DATA` and takes uploads; each address fails at first, so that calls are repeated."""
    failed = set()
    lock = threading.Lock()

    def answer(request):
        with lock:
            first = request.target not in failed
            failed.add(request.target)
        if first:
            return Scripted(status=503, headers={"Retry-After": "0"})
        if request.method == "POST":
            with lock:
                failed.clear()
            return Scripted(body=pinned(raw_cid(SMALL)))
        if "format=raw" in request.target:
            return Scripted(body=BLOCKS[ROOT], headers={"Content-Type": RAW_TYPE})
        with lock:
            failed.clear()
        return Scripted(body=DATA)

    with ScriptedServer(answer) as server:
        yield server


CALLS = {
    "store": lambda client, target: client.store({"a": 1}),
    "upload": lambda client, target: client.upload(DATA),
    "download": lambda client, target: client.download(str(ROOT)),
    "download to a file": lambda client, target: client.download(str(ROOT), to=target),
    "retrieve": lambda client, target: client.retrieve(str(ROOT)),
    "test_connection": lambda client, target: client.test_connection(),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_cancelled_at_any_of_its_awaits_leaves_nothing_behind(
    flaky_server, tmp_path, monkeypatch, name
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    for folder in ("temporary", "target"):
        (tmp_path / folder).mkdir()
    target = tmp_path / "target" / "file"
    complaints = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    config = config_for(
        flaky_server,
        retries={"attempts": 4, "base": 0.001, "cap": 0.002, "budget": 10_000},
        timeouts={"connect": 5, "read": 5, "write": 5, "total": 10},
        cache_path=tmp_path / "cache",
    )
    cancelled = at = 0
    async with await AsyncClient.init(config) as client:
        while True:
            at += 1
            call = CancelledAt(CALLS[name](client, target), at)
            task = asyncio.ensure_future(_ended(call))
            done, _ = await asyncio.wait([task], timeout=10)
            assert done, f"it hangs when it is cancelled at its await number {at}"
            if call.waits < at:
                break  # it had no such await any more
            cancelled += task.cancelled()
            if task.cancelled():
                assert not target.exists()
            target.unlink(missing_ok=True)
        # After all that, the client works and nothing is under way.
        await client.upload(SMALL)
        del task, call
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=10)
        assert asyncio.all_tasks() == {asyncio.current_task()}
    assert cancelled >= 3
    assert complaints == []
    assert list((tmp_path / "temporary").iterdir()) == []
    assert list((tmp_path / "target").iterdir()) == []


async def test_a_download_of_a_folder_cancelled_at_any_of_its_awaits_can_be_repeated(tmp_path):
    (tmp_path / "tides").mkdir()
    (tmp_path / "tides" / "low").write_bytes(b"low")
    async with AsyncClient.init(path=tmp_path / "store") as client:
        cid = (await client.upload(tmp_path / "tides")).cid
        at, waits, cancellations = 0, 0, []
        while at <= waits:
            at += 1
            to = tmp_path / str(at)
            call = CancelledAt(client.download_folder(cid, to), at)
            try:
                await asyncio.ensure_future(_ended(call))
            except asyncio.CancelledError as error:
                cancellations.append(error)  # its frames would hold what is left open
            waits = call.waits
            if not to.exists():
                assert await client.download_folder(cid, to) == to
    assert len(cancellations) >= 3


async def _ended(call):
    """What the call came to does not matter, unless it was cancelled."""
    try:
        await call
    except Exception:  # noqa: BLE001 - DATA is no JSON, say
        return
