"""Calls that the blocking client makes at the same time: on threads that are used again."""

import contextvars
import signal
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from holdfast import Client
from holdfast._sync import runtime
from holdfast._sync.reads import read_through
from holdfast._sync.runtime import together
from holdfast._sync.session import open_session
from holdfast.errors import ClientClosedError
from holdfast.protocol.http import Request
from holdfast.testing import Scripted, ScriptedServer
from tests.folder_dags import FolderDag, serving
from tests.programs import run_program, start_program
from tests.support import HELLO_CID, wait_until

value = contextvars.ContextVar("value", default=0)


def test_threads_are_used_again():
    started = set()

    def call(number):
        started.add(threading.current_thread())
        return number

    for _ in range(100):
        assert together([partial(call, number) for number in range(8)]) == list(range(8))
    assert len(started) < 100  # of 800 calls


def test_errors_come_in_the_place_of_results():
    outcomes = together([lambda: 1, lambda: 1 // 0, lambda: 3])
    assert (outcomes[0], outcomes[2]) == (1, 3)
    assert isinstance(outcomes[1], ZeroDivisionError)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_is_raised(error):
    def end():
        raise error

    with pytest.raises(error):
        together([end, lambda: 1])
    assert together([lambda: 1, lambda: 2]) == [1, 2]


def test_a_call_may_wait_for_other_calls():
    def inner(number):
        return sum(together([lambda: number, lambda: 1, lambda: 2]))

    def outer(number):
        return together([partial(inner, number + place) for place in range(8)])

    outcomes = together([partial(outer, number) for number in range(8)])
    assert outcomes == [[number + place + 3 for place in range(8)] for number in range(8)]


def test_forty_threads_make_calls_at_once():
    def work(number):
        return [together([partial(divmod, number, place) for place in (2, 3, 5)])] * 20

    with ThreadPoolExecutor(40) as pool:
        results = list(pool.map(work, range(40)))
    assert results == [[[divmod(n, 2), divmod(n, 3), divmod(n, 5)]] * 20 for n in range(40)]


def test_a_call_sees_the_context_of_its_caller_and_leaves_nothing_in_it():
    def call():
        before = value.get()
        value.set(before + 10)
        return before

    value.set(7)
    assert together([call] * 8) == [7] * 8
    assert together([call] * 8) == [7] * 8
    assert value.get() == 7


def test_threads_without_a_call_end(monkeypatch):
    monkeypatch.setattr(runtime, "IDLE", 0.05)
    monkeypatch.setattr(runtime, "_threads", runtime._Threads())
    threads = together([threading.current_thread] * 8)
    wait_until(lambda: not any(thread.is_alive() for thread in threads))
    assert together([lambda: 1] * 8) == [1] * 8


def test_a_thread_that_waits_holds_nothing():
    class Thing:
        pass

    ended = []

    def use_things():
        things = [Thing() for _ in range(8)]
        for thing in things:
            weakref.finalize(thing, ended.append, 1)
        together([partial(id, thing) for thing in things])

    use_things()
    wait_until(lambda: len(ended) == 8)


def test_a_forked_child_has_threads_of_its_own_and_the_program_ends():
    code = """
import os, signal, warnings
from holdfast._sync.runtime import together
warnings.simplefilter("ignore", DeprecationWarning)  # since 3.12, of each fork beside threads
together([os.getpid] * 8)
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(0 if together([os.getpid] * 8) == [os.getpid()] * 8 else 1)
status = os.waitpid(child, 0)[1]
print(os.waitstatus_to_exitcode(status), together([os.getpid] * 8) == [os.getpid()] * 8)
"""
    # Threads that wait do not keep the program from its end.
    assert run_program(code) == "0 True\n"


@pytest.mark.slow
def test_ctrl_c_ends_calls_that_wait_for_a_gateway():
    dag = FolderDag()
    root = dag.shard(*((f"{number}", dag.file(b"x")) for number in range(2000)))
    honest = serving(dag, kinds=("raw",))

    def script(request):
        return honest(request) if str(root) in request.target else Scripted(delay=600)

    code = """
import sys
from holdfast import Client
with Client.init(provider="pinning", provider_token="x", gateway_url=sys.argv[1]) as client:
    client.entries(sys.argv[2])
"""
    with (
        ScriptedServer(script) as server,
        start_program(code, f"{server.url}/ipfs", root) as process,
    ):
        wait_until(lambda: len(server.requests) == 9)  # the root, and eight shards
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert errors.endswith("KeyboardInterrupt\n")


def test_threads_that_need_gateways_at_the_same_moment_share_connections(tmp_path, monkeypatch):
    """`with_options` may be called on several threads; all connections are closed at the end."""
    both = threading.Barrier(2)
    opened = []

    def open_together(config):
        session = open_session(config)
        opened.append(session)
        both.wait(60)
        return session

    monkeypatch.setattr(read_through, "open_session", open_together)
    with ScriptedServer(lambda _: Scripted(body=b"hello")) as server:
        with Client.init(path=tmp_path) as client:

            def read(_):
                return client.with_options(gateway_url=server.url).download(HELLO_CID).read()

            with ThreadPoolExecutor(2) as pool:
                assert list(pool.map(read, range(2))) == [b"hello"] * 2
            assert read(None) == b"hello"
        assert len(opened) == 2
        for session in opened:
            with pytest.raises(ClientClosedError):
                session.transport.send(Request("GET", server.url), timeouts=client.config.timeouts)
