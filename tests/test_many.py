"""Work on many items where the two colours differ: leaving a loop, cancelling, Ctrl-C, threads."""

import asyncio
import gc
import signal
import subprocess
import sys
import threading
import time

import pytest

from holdfast import AsyncClient, Client
from holdfast.testing import Scripted, ScriptedServer
from tests.support import config_for, pinned, wait_until


class Gate:
    """A server that answers requests only when the gate is open, but for one that says "free"."""

    def __init__(self):
        self.opened = threading.Event()
        self.server = ScriptedServer(self._answer)

    def _answer(self, request):
        if b"free" not in request.body:
            self.opened.wait(30)
        return Scripted(body=pinned())

    @property
    def count(self):
        return len(self.server.requests)

    def open_soon(self):
        threading.Timer(0.3, self.opened.set).start()


@pytest.fixture
def gate():
    gate = Gate()
    with gate.server:
        yield gate
        gate.opened.set()


def many_threads():
    return [thread for thread in threading.enumerate() if thread.name == "holdfast-many"]


# Blocking


def test_leaving_a_blocking_loop_waits_for_what_is_under_way():
    answered = []

    def answer(request):
        wait_until(lambda: len(server.requests) == 4)
        if b"first" not in request.body:
            time.sleep(0.3)
        answered.append(request)
        return Scripted(body=pinned())

    with ScriptedServer(answer) as server, Client.init(config_for(server)) as client:
        for _ in client.store_many(["first", *range(100)], concurrency=4):
            break
        assert len(answered) == 4
        assert many_threads() == []


def test_a_cycle_of_garbage_closes_too(tmp_path):
    with Client.init(path=tmp_path) as client:
        cycle = [client.store_many(iter(range(100)))]
        cycle.append(cycle)
        next(cycle[0])
        assert many_threads() != []
        del cycle
        gc.collect()
        assert many_threads() == []


def test_there_are_no_more_threads_than_items_under_way(tmp_path):
    with Client.init(path=tmp_path) as client:
        for _ in client.store_many(range(2), concurrency=50):
            assert len(many_threads()) <= 2
        for _ in client.store_many(range(200), concurrency=5):
            assert len(many_threads()) <= 5
    assert many_threads() == []


def test_the_input_is_read_on_the_callers_thread(tmp_path):
    seen = set()

    def values():
        for number in range(20):
            seen.add(threading.current_thread())
            yield number

    with Client.init(path=tmp_path) as client:
        list(client.store_many(values()))
    assert seen == {threading.current_thread()}


def test_an_interrupt_of_the_input_ends_everything(gate):
    def values():
        yield 1
        wait_until(lambda: gate.count == 1)
        raise KeyboardInterrupt

    with Client.init(config_for(gate.server)) as client:
        with pytest.raises(KeyboardInterrupt):
            list(client.store_many(values()))
        assert many_threads() == []  # its connection was shut


SCRIPT = """
import itertools, sys
from holdfast import Client
with Client.init(provider="pinning", provider_token="x", pin_api_url=sys.argv[1]) as client:
    outcomes = client.store_many(itertools.count(), concurrency=3)
    {wait}
"""


@pytest.mark.slow
@pytest.mark.parametrize("wait", ["next(outcomes)", "with outcomes: next(outcomes)"])
def test_ctrl_c_ends_a_script_at_once(gate, wait):
    process = subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-c", SCRIPT.format(wait=wait), gate.server.url],
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: gate.count == 3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode in (-signal.SIGINT, 130)
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert "Exception ignored" not in errors
    assert gate.count == 3


def test_threads_that_wait_do_not_hold_up_the_end_of_the_interpreter(gate):
    script = """
import itertools, sys, threading
from holdfast import Client
client = Client.init(provider="pinning", provider_token="x", pin_api_url=sys.argv[1])
outcomes = client.store_many(itertools.count(), concurrency=3)
threading.Thread(target=next, args=(outcomes,), daemon=True).start()
sys.stdin.read()
"""
    process = subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-c", script, gate.server.url],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: gate.count == 3)
    _, errors = process.communicate("", timeout=120)
    assert (process.returncode, errors) == (0, "")


# Async


async def test_after_a_break_nothing_new_starts_and_the_client_waits(gate):
    taken = []

    async def values():
        for value in ["free", *range(100)]:
            taken.append(value)
            yield value

    client = await AsyncClient.init(config_for(gate.server))
    async for outcome in client.store_many(values(), concurrency=4):
        assert outcome.item == "free"
        break
    await asyncio.to_thread(wait_until, lambda: gate.count >= 4)
    gate.open_soon()
    await client.aclose()
    assert gate.opened.is_set()
    assert len(taken) <= 5


async def test_async_with_waits_at_the_end_of_the_loop(gate):
    async with AsyncClient.init(config_for(gate.server)) as client:
        async with client.store_many(["free", *range(100)], concurrency=4) as outcomes:
            async for _ in outcomes:
                gate.open_soon()
                break
        assert gate.opened.is_set()
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_cancelled_loop_cancels_what_is_under_way(gate):
    closed = []

    async def values():
        try:
            for number in range(100):
                yield number
        finally:
            closed.append(True)

    async def run(client):
        async for _ in client.store_many(values(), concurrency=4):
            pass

    async with AsyncClient.init(config_for(gate.server)) as client:
        task = asyncio.ensure_future(run(client))
        await asyncio.to_thread(wait_until, lambda: gate.count == 4)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert closed == [True]
        assert asyncio.all_tasks() == {asyncio.current_task()}
    assert gate.count == 4


async def test_async_with_in_a_cancelled_task_cancels_too(gate):
    async def run(client):
        async with client.store_many(range(100), concurrency=4) as outcomes:
            task = asyncio.ensure_future(anext(outcomes))
            await asyncio.to_thread(wait_until, lambda: gate.count == 4)
            waiting.set()
            await asyncio.sleep(60)
            await task

    waiting = asyncio.Event()
    async with AsyncClient.init(config_for(gate.server)) as client:
        task = asyncio.ensure_future(run(client))
        await waiting.wait()
        task.cancel()
        started = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - started < 20  # not the time of the gate
    assert not gate.opened.is_set()


async def test_async_input_is_iterated_by_one_task_while_outcomes_come(tmp_path):
    tasks = set()
    received = asyncio.Event()

    async def values():
        tasks.add(asyncio.current_task())
        async with asyncio.timeout(30):  # belongs to one task
            yield 1
            await received.wait()  # the outcome of 1 comes before there is a second item
            tasks.add(asyncio.current_task())
            yield 2
        raise LookupError("no more")

    async with AsyncClient.init(path=tmp_path) as client:
        outcomes = client.store_many(values())
        assert (await anext(outcomes)).item == 1
        received.set()
        assert (await anext(outcomes)).item == 2
        with pytest.raises(LookupError, match="no more"):
            await anext(outcomes)
    assert len(tasks) == 1


def test_outcomes_outlive_their_event_loop(gate):
    async def begin():
        client = await AsyncClient.init(config_for(gate.server))
        outcomes = client.store_many(range(10))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(outcomes), 0.2)
        return outcomes, client

    outcomes, client = asyncio.run(begin())
    del outcomes
    asyncio.run(client.aclose())
