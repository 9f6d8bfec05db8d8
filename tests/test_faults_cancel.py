"""An async call that is cancelled, at each of its awaits in turn (T12)."""

import asyncio
import hashlib
import threading

import pytest

from holdfast import AsyncClient
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.protocol.gateway import RAW_TYPE
from holdfast.testing import Scripted, ScriptedServer
from tests.content import Blocks
from tests.support import config_for, pinned, raw_cid

DATA = hashlib.shake_128(b"cancelled").digest(3_500_000)
ROOT, BLOCKS = Blocks.of_file(DATA, UNIXFS_V1_2025)
SMALL = b"hello"


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


async def _ended(call):
    """What the call came to does not matter, unless it was cancelled."""
    try:
        await call
    except Exception:  # noqa: BLE001 - DATA is no JSON, say
        return
