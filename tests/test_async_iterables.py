"""Async iterables of bytes, uploaded; and the conveniences that only the async client needs."""

import asyncio
import os
import tracemalloc
from contextlib import AbstractAsyncContextManager, AbstractContextManager

import pytest

from holdfast import AsyncClient, Client, ClientConfig, compute_cid
from holdfast._async.upload_sources import open_upload
from holdfast.errors import NetworkError, NotFoundError, VerificationError
from holdfast.sources.sources import CHUNK_SIZE
from tests.support import HELLO_CID, config_for, pinned, raw_cid

DATA = os.urandom(3 * CHUNK_SIZE + 12345)


async def pieces_of(data, size):
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("size", [65536, 2 * CHUNK_SIZE + 1])
async def test_the_pieces_are_one_file(node, tmp_path, size):
    calls = []
    for config in (node.config, ClientConfig(path=tmp_path)):
        async with AsyncClient.init(config) as client:
            pieces = pieces_of(DATA, size)
            record = await client.upload(pieces, progress=lambda *call: calls.append(call))
        assert (record.cid, record.size) == (compute_cid(DATA), len(DATA))
        assert calls[-1] == (len(DATA), None)


@pytest.mark.parametrize("pieces", [[], [b""], [b"", b"hello", b""], [b"he", bytearray(b"llo")]])
async def test_small_and_empty_pieces(tmp_path, pieces):
    async def source():
        for piece in pieces:
            yield piece

    async with AsyncClient.init(path=tmp_path) as client:
        record = await client.upload(source())
        assert record.cid == compute_cid(b"".join(pieces))
        pieces = [*pieces, "text"]
        with pytest.raises(TypeError, match="the iterable must give bytes"):
            await client.upload(source())


async def test_the_body_is_chunked_and_sent_once_and_its_cid_compared(server):
    server.reply(200, pinned())
    async with AsyncClient.init(config_for(server)) as client:
        assert (await client.upload(pieces_of(b"hello", 2))).cid == HELLO_CID
    (request,) = server.requests
    assert request.headers["transfer-encoding"] == "chunked"
    assert b"hello" in request.body

    server.reply(500)
    server.reply(200, pinned(raw_cid(b"other bytes")))
    async with AsyncClient.init(config_for(server, retries={"attempts": 3})) as client:
        with pytest.raises(Exception, match="500"):
            await client.upload(pieces_of(b"hello", 2))
    assert len(server.requests) == 2
    async with AsyncClient.init(config_for(server)) as client:
        with pytest.raises(VerificationError):
            await client.upload(pieces_of(b"hello", 2))


async def test_a_connection_that_breaks_is_an_error_and_closes_the_iterable(server):
    closed = []

    async def source():
        try:
            while True:
                yield bytes(65536)
        finally:
            closed.append(True)

    server.reply(hang_up=True, early=True)
    async with AsyncClient.init(config_for(server, retries={"attempts": 3})) as client:
        with pytest.raises(NetworkError):
            await client.upload(source())
    assert closed == [True]
    assert len(server.requests) == 1


class OddError(Exception):
    pass


@pytest.mark.parametrize("before", [0, 3 * CHUNK_SIZE])
async def test_an_error_of_the_iterable_is_raised_as_it_is(node, tmp_path, before):
    error = OddError("my own")

    async def source():
        yield bytes(before)
        raise error

    for config in (node.config, ClientConfig(path=tmp_path)):
        async with AsyncClient.init(config) as client:
            with pytest.raises(OddError) as raised:
                await client.upload(source())
            assert raised.value is error
            assert (await client.upload(b"hello")).cid == HELLO_CID


@pytest.mark.parametrize("blocked", ["in the iterable", "in the connection"])
async def test_cancelling_closes_the_iterable(server, tmp_path, blocked):
    closed = []
    asked = asyncio.Event()

    async def source():
        try:
            while True:
                asked.set()
                yield bytes(65536)
                if blocked == "in the iterable":
                    await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            closed.append(asyncio.current_task())

    server.reply(200, pinned(), delay=30, early=True)
    async with AsyncClient.init(config_for(server)) as client:
        task = asyncio.ensure_future(client.upload(source()))
        await asked.wait()
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(closed) == 1
        assert asyncio.all_tasks().isdisjoint(closed)


async def test_what_a_slow_iterable_has_given_is_sent_at_once(tmp_path):
    sent = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def source():
        yield b"first"
        async with asyncio.timeout(30):  # an iterable may depend on its task
            await sent.wait()
            yield b"last"

    async with AsyncClient.init(path=tmp_path) as client:
        record = await client.upload(
            source(), progress=lambda *_: loop.call_soon_threadsafe(sent.set)
        )
    assert record.size == 9


def test_a_source_that_is_read_after_its_loop_has_ended_is_an_error_and_no_warning():
    async def open_source():
        return await open_upload(pieces_of(DATA, 65536))

    source = asyncio.run(open_source())
    with pytest.raises(RuntimeError, match="closed"):
        list(source.chunks())


async def test_an_item_that_was_taken_before_the_client_closes_is_stored(tmp_path):
    async with AsyncClient.init(path=tmp_path) as client:
        closing = []

        def values():
            closing.append(asyncio.create_task(client.aclose()))  # runs before the item's task
            yield [1, 2, 3]

        outcome = await anext(client.store_many(values()))
        await closing[0]
    assert outcome.error is None


@pytest.mark.slow
async def test_the_memory_is_bounded(tmp_path):
    async def source():
        for _ in range(64):
            yield bytes(CHUNK_SIZE)

    async with AsyncClient.init(path=tmp_path) as client:
        await client.upload(b"warm")
        tracemalloc.start()
        try:
            await client.upload(source())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 16 * CHUNK_SIZE


async def test_a_provider_that_reads_on_the_event_loop_is_told_so():
    class Careless:
        async def put_file(self, source, *, name, progress=None):
            return compute_cid(b"".join(source.chunks()))

        async def put_json(self, text, *, name): ...
        async def get_json(self, cid): ...
        async def get_file(self, cid, *, to=None, progress=None): ...
        async def delete(self, cid): ...
        async def test_authentication(self): ...
        async def aclose(self): ...

    client = AsyncClient(Careless())
    assert (await client.upload(b"hello")).cid == HELLO_CID
    with pytest.raises(RuntimeError, match=r"on another thread, with asyncio\.to_thread"):
        await client.upload(pieces_of(b"hello", 2))


# Opening and closing


async def test_clients_and_files_open_with_and_without_await(tmp_path):
    async with AsyncClient.init(path=tmp_path) as client:
        record = await client.upload(b"one\ntwo\n")
        async with client.open(record.cid) as file:
            assert await file.readline() == b"one\n"
        assert file.closed
        async with await client.open(record.cid) as file:
            assert await file.read() == b"one\ntwo\n"
        opened = await asyncio.create_task(client.open(record.cid))
        assert await opened.read(3) == b"one"
        first, second = await asyncio.gather(client.open(record.cid), client.open(record.cid))
        assert first is not second
    assert "closed" in repr(client)
    client = await asyncio.create_task(AsyncClient.init(path=tmp_path))
    await client.close()
    assert "closed" in repr(client)


async def test_an_error_while_opening_is_raised_by_async_with(tmp_path):
    async with AsyncClient.init(path=tmp_path) as client:
        with pytest.raises(NotFoundError, match="not in this store"):
            async with client.open(HELLO_CID):
                pass
    with pytest.raises(ValueError, match="provder"):
        async with AsyncClient.init(provder="x"):
            pass


async def test_the_wrong_kind_of_with_says_which_to_use(tmp_path):
    opening = AsyncClient.init(path=tmp_path)
    async with AsyncClient.init(path=tmp_path) as client:
        for wrong in (opening, client):  # from Python 3.14 on, the errors are those of Python
            words = r"^AsyncClient(\.init)? is .*use .async with.|'async with'"
            with pytest.raises((AttributeError, TypeError), match=words), wrong:
                pass
            assert not hasattr(wrong, "__enter__")
            assert not isinstance(wrong, AbstractContextManager)
    opening.close()
    with Client.init(path=tmp_path) as blocking:
        with pytest.raises((AttributeError, TypeError), match=r"use .with."):
            async with blocking:
                pass
        assert not hasattr(blocking, "__aenter__")
        assert not isinstance(blocking, AbstractAsyncContextManager)


async def test_a_forgotten_await_is_named(tmp_path):
    async with AsyncClient.init(path=tmp_path) as client:
        with pytest.warns(RuntimeWarning, match="coroutine 'close' was never awaited"):
            client.close()
    opening = AsyncClient.init(path=tmp_path)
    with pytest.raises(AttributeError, match=r"^a call has no 'store': use what `await` returns"):
        opening.store([1])
    assert not hasattr(opening, "__len__")
    async with opening as client:
        assert (await client.store([1])).size == 3
