"""Connections of one of the two clients, where the other behaves otherwise."""

import asyncio
import logging
import ssl
import time

import aiohttp
import pytest

from holdfast import AsyncClient, Client
from holdfast._async.transport import TABLE as ASYNC_TABLE
from holdfast._sync.transport import TABLE
from holdfast.errors import ClientClosedError
from holdfast.protocol import transport_errors
from holdfast.protocol.http import PLAIN_URL
from holdfast.testing import ScriptedServer
from tests._async.test_transport import CID, GOOD, LARGE, TEXT, DeafServer
from tests.attackers import Attacker
from tests.support import TOKEN, config_for, pinned

# No time-out ends these: only the closing does.
PATIENT = {"connect": 10, "read": 60, "write": 60, "total": 60}

CALLS = {
    "the head": (b"", lambda client: client.store([1])),
    "the body": (GOOD[:-3], lambda client: client.retrieve(CID)),
    "sending": (b"", lambda client: client.store(LARGE)),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("waits_for", CALLS)
async def test_closing_the_client_ends_what_waits_for_the_peer(waits_for):
    reply, call = CALLS[waits_for]
    with DeafServer(reply) as server:
        client = await AsyncClient.init(config_for(server, timeouts=PATIENT))
        task = asyncio.create_task(call(client))
        await asyncio.sleep(0.2)
        start = time.monotonic()
        await client.aclose()
        with pytest.raises(ClientClosedError):
            await task
        assert time.monotonic() - start < 20


async def test_a_connection_is_used_again_after_a_redirect_whose_body_is_not_read():
    with ScriptedServer() as server:
        server.reply(302, b"it is elsewhere", headers={"Location": f"/ipfs/{CID}?again"})
        server.reply(200, TEXT)
        async with await AsyncClient.init(config_for(server)) as client:
            assert await client.retrieve(CID) == [1, 2, 3]
        assert len(server.requests) == 2
        assert server.connections == 1


def test_blocking_tls_that_breaks_in_the_body_is_not_tried_again():
    error = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")
    translated = transport_errors.translate(error, TABLE, "example.com", sent=True)
    assert str(translated).startswith("no secure connection to example.com: [SSL: WRONG_VERSION")
    assert translated.transient is False


@pytest.mark.parametrize("number", [None, 2546])
def test_an_address_in_the_words_of_the_library_is_not_shown(number):
    words = "Can not write request body for https://example.com/a?signature=5f2a"
    error = aiohttp.ClientOSError(number, words)
    translated = transport_errors.translate(error, ASYNC_TABLE, "example.com")
    assert str(translated) == "the connection to example.com broke"


def test_blocking_a_length_may_be_repeated_in_one_field():
    reply = GOOD.replace(b"7", b"7, 7", 1)
    with Attacker(lambda: iter([reply])) as server, Client.init(config_for(server)) as client:
        assert client.retrieve(CID) == [1, 2, 3]


@pytest.mark.parametrize("code", range(0x20, 0x7F))
def test_a_url_with_characters_that_must_be_quoted_is_left_to_the_library(code):
    legal = chr(code).isalnum() or chr(code) in "-._~!$&'()*+,;=:@/?%"
    assert bool(PLAIN_URL.fullmatch(f"https://example.com/a{chr(code)}")) is legal


async def test_a_cancelled_request_shows_no_token_in_variables():
    with DeafServer() as server:
        async with await AsyncClient.init(config_for(server, timeouts=PATIENT)) as client:
            task = asyncio.create_task(client.store([1]))
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
    frames = [entry.frame.f_locals for entry in caught.traceback]
    assert len(frames) > 5
    assert TOKEN not in repr(frames)


async def test_the_debug_mode_of_asyncio_shows_no_token(caplog):
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    loop.slow_callback_duration = 0.0  # it logs every callback then
    with ScriptedServer() as server, caplog.at_level(logging.DEBUG):
        server.reply(200, pinned(CID))
        async with await AsyncClient.init(config_for(server)) as client:
            await client.store([1, 2, 3])
        assert TOKEN in server.requests[0].headers["authorization"]
    assert any("_Sending" in message for message in caplog.messages)
    assert TOKEN not in caplog.text
