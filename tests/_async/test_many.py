"""`store_many`, `upload_many` and `revoke_many`."""

import threading
import time
import warnings

import pytest

from holdfast import AsyncClient, Outcome, compute_cid
from holdfast.errors import ClientClosedError, InvalidCIDError, NotFoundError, SerializationError
from holdfast.protocol import json_text
from holdfast.testing import Scripted, ScriptedServer
from tests.support import config_for, pinned, raw_cid


def document_cid(value):
    return compute_cid(json_text.to_text(value).encode())


async def all_of(outcomes):
    done = [outcome async for outcome in outcomes]
    return sorted(done, key=lambda outcome: outcome.index)


async def collect(outcomes, items):
    async for outcome in outcomes:
        assert outcome.error is None
        items.append(outcome.item)


async def test_many_values_are_stored(local):
    values = [{"number": number} for number in range(50)]
    outcomes = await all_of(local.store_many(values))
    assert [(outcome.index, outcome.item, outcome.error) for outcome in outcomes] == [
        (index, value, None) for index, value in enumerate(values)
    ]
    assert [outcome.result().cid for outcome in outcomes] == list(map(document_cid, values))
    assert [outcome.record.data for outcome in outcomes] == values
    assert len(await local.pins()) == 50


async def test_many_files_of_all_kinds_are_uploaded(local, tmp_path):
    path = tmp_path / "on-disk.txt"
    path.write_bytes(b"1")
    files = [path, b"2", ("given.txt", b"3"), (b"4", b"5"), ["six"], iter([b"7"])]
    outcomes = await all_of(local.upload_many(files))
    assert all(outcome.item is file for outcome, file in zip(outcomes, files, strict=True))
    cids = [outcome.result().cid for outcome in outcomes if outcome.error is None]
    assert cids == list(map(compute_cid, [b"1", b"2", b"3", b"45", b"7"]))
    assert [type(outcome.error) for outcome in outcomes if outcome.error] == [TypeError]
    names = {pin.name for pin in await local.pins()}
    assert names == {"on-disk.txt", "given.txt", "client-file"}


async def test_many_pins_are_revoked(local):
    record = await local.store(1)
    outcomes = await all_of(local.revoke_many([record.cid, record.cid[:-1], document_cid(2)]))
    assert outcomes[0] == Outcome(index=0, item=record.cid, record=True)
    assert [type(outcome.error) for outcome in outcomes[1:]] == [InvalidCIDError, NotFoundError]
    assert await local.pins() == []


async def test_one_failure_does_not_stop_the_others(local):
    outcomes = await all_of(local.store_many([1, {2}, 3], concurrency=1))
    assert [outcome.error is None for outcome in outcomes] == [True, False, True]
    with pytest.raises(SerializationError):
        outcomes[1].result()


async def test_several_are_under_way_at_once_and_connections_are_reused():
    together = threading.Barrier(5)
    connections = set()  # the server has a thread for outcome

    def answer(request):
        connections.add(threading.get_ident())
        together.wait(30)  # all of five, or nobody
        # aiohttp keeps a connection only once its own task for the request has ended, which may be
        # a moment after the server has read the request.
        time.sleep(0.1)
        return Scripted(body=pinned(raw_cid(request.body)))

    with ScriptedServer(answer) as server:
        async with await AsyncClient.init(config_for(server, verify=False)) as client:
            outcomes = await all_of(client.upload_many([b"x"] * 20, concurrency=5))
    assert [outcome.error for outcome in outcomes] == [None] * 20
    assert len(connections) == 5


async def test_outcomes_come_when_they_are_done():
    released = threading.Event()

    def answer(request):
        if b"slow" in request.body:
            released.wait(30)
        return Scripted(body=pinned())

    with ScriptedServer(answer) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            order = []
            async for outcome in client.store_many(["slow", "a", "b", "c"], concurrency=2):
                order.append(outcome.item)
                if len(order) == 3:
                    released.set()
    assert order == ["a", "b", "c", "slow"]


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_no_more_items_are_taken_than_are_under_way(local, concurrency):
    taken = received = most = 0

    def values():
        nonlocal taken
        while True:
            taken += 1
            yield taken

    async with local.store_many(values(), concurrency=concurrency) as outcomes:
        assert taken == 0
        async for _ in outcomes:
            received += 1
            most = max(most, taken - received)
            if received == 30:
                break
    assert most <= concurrency
    assert taken <= 30 + concurrency


async def test_an_error_of_the_input_is_raised_after_the_outcomes(local):
    def values():
        yield 1
        yield 2
        raise RuntimeError("the input ended badly")

    outcomes = local.store_many(values())
    stored = []
    with pytest.raises(RuntimeError, match="ended badly"):
        await collect(outcomes, stored)
    assert sorted(stored) == [1, 2]
    assert await all_of(outcomes) == []


async def test_closing_waits_for_what_is_under_way_and_starts_nothing_new(server, client):
    for _ in range(3):
        server.reply(200, pinned(), delay=0.3)
    server.reply(200, pinned())
    async with client.store_many(iter(range(100)), concurrency=3) as outcomes:
        async for outcome in outcomes:
            assert outcome.error is None
            break
    done = len(server.requests)
    assert 3 <= done <= 4
    assert await all_of(outcomes) == []
    await outcomes.aclose()
    server.reply(200, pinned())
    await client.store("the client works on")
    assert len(server.requests) == done + 1


async def test_closing_the_client_waits_too_and_then_the_input_is_refused(local):
    outcomes = local.store_many(iter(range(1000)), concurrency=4)
    assert (await anext(outcomes)).error is None
    await local.aclose()
    rest = []
    with pytest.raises(ClientClosedError):
        await collect(outcomes, rest)
    assert len(rest) <= 4
    with pytest.raises(ClientClosedError):
        local.store_many([])


async def test_a_subclass_may_have_another_constructor_and_attributes(local):
    class Named(AsyncClient):
        def __init__(self, provider, prefix):
            super().__init__(provider)
            self.prefix = prefix

        async def upload(self, file, *, name=None, **selection):
            return await super().upload(file, name=self.prefix + name, **selection)

    client = Named(local.provider, "tides-")
    outcomes = await all_of(client.upload_many([("low", b"low")]))
    outcomes += await all_of(client.store_many([1]))
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert await local.pins(name="tides-low")


async def test_outcomes_that_nobody_asks_for_say_that_nothing_has_started(local):
    outcomes = local.store_many([1, 2])
    assert "loop over it to start the calls" in repr(outcomes)
    await outcomes.aclose()
    with pytest.warns(RuntimeWarning, match="nothing was done: <.*: loop over it"):
        del outcomes
    with pytest.warns(RuntimeWarning, match="nothing was done"):
        local.store_many([1, 2])
    with pytest.warns(RuntimeWarning, match="nothing was done"):
        async with local.store_many([1, 2]):
            pass
    assert await local.pins() == []


async def test_no_warning_comes_when_an_error_left_the_block_before_the_loop(local):
    with warnings.catch_warnings(record=True) as warned, pytest.raises(LookupError):
        async with local.store_many([1, 2]):
            raise LookupError
    assert warned == []


@pytest.mark.parametrize(
    ("items", "concurrency", "error", "words"),
    [
        ([], 0, ValueError, "concurrency must be from 1 to 100, which is how many calls a client"),
        ([], 101, ValueError, "not 101"),
        ([], True, TypeError, "concurrency must be a whole number, not bool"),
        ([], 2.0, TypeError, "concurrency must be a whole number, not float"),
        ("photos", 8, TypeError, "for one item, use `upload`"),
        (b"bytes", 8, TypeError, "cannot iterate over bytes here"),
        ({"a": b"1"}, 8, TypeError, "cannot iterate over dict here"),
        (5, 8, TypeError, "not iterable"),
    ],
)
async def test_bad_arguments_are_refused_at_once(local, items, concurrency, error, words):
    with pytest.raises(error, match=words):
        local.upload_many(items, concurrency=concurrency)


async def test_what_is_not_pinned_may_be_missing(local):
    record = await local.store([1])
    gone = document_cid(2)
    outcomes = await all_of(local.revoke_many([record.cid, gone], missing_ok=True))
    assert {outcome.item: outcome.result() for outcome in outcomes} == {
        record.cid: True,
        gone: False,
    }
    assert await local.revoke(gone, missing_ok=True) is False
    with pytest.raises(NotFoundError):
        await local.revoke(gone)
    with pytest.raises(InvalidCIDError):
        await local.revoke(gone[:-1], missing_ok=True)
