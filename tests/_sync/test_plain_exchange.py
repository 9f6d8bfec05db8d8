# WARNING: this file is generated from tests/_async/test_plain_exchange.py
# by scripts/generate_sync.py. Change the original instead.
"""Replies that are parsed on connections of the HTTP library, and the connections after them."""

import gc
import socket
import threading
import time

import pytest

from holdfast import Client
from holdfast._sync.runtime import sleep
from holdfast.calls import Call
from holdfast.config.secret import Secret
from holdfast.errors import NetworkError, ProviderError, RequestTimeoutError
from holdfast.protocol.http import Request
from tests.attackers import Attacker
from tests.support import config_for, raw_cid

TEXT = b"[1,2,3]"
CID = raw_cid(TEXT)
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n" + TEXT
OTHER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HASTY = {"connect": 2, "read": 1, "write": 0.3, "total": 4}
# More than the buffers of a connection take from a client whose peer does not read.
LARGE = "x" * 8_000_000

pytestmark = pytest.mark.timeout(120)


def retrieved(*pieces, times=1, pause=0.0, **changes):
    """What a gateway that sends `pieces` gives for each of `times` calls."""

    def reply():
        for piece in pieces:
            yield piece
            time.sleep(0.05)

    with Attacker(reply) as server:
        config = config_for(server, timeouts=HASTY, **changes)
        with Client.init(config) as client:
            values = []
            for _ in range(times):
                values.append(client.retrieve(CID))
                sleep(pause)  # a blocked loop would not see what comes
        return values


class DeafServer:
    """Takes a little of each request, sends `reply`, and keeps the connection open."""

    def __init__(self, reply=b""):
        self._reply = reply
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self):
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:  # the end of the listener
                return
            self.connections.append(caller)
            caller.recv(100)
            caller.sendall(self._reply)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)
        for each in self.connections:
            each.close()


@pytest.mark.parametrize("first", [b"7", b"1", b"9"])
def test_a_head_with_two_lengths_that_differ_is_not_http(first):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: " + first + b"\r\nContent-Length: 8\r\n\r\n"
    with pytest.raises(NetworkError, match="sent something that is not HTTP"):
        retrieved(head + TEXT + b" ")


def test_the_length_in_an_informational_reply_is_not_that_of_the_body():
    early = b"HTTP/1.1 103 Early Hints\r\nContent-Length: 4\r\n\r\n"
    pieces = (early + CHUNKED, b"3\r\n[1,\r\n", b"4\r\n2,3]\r\n0\r\n\r\n")
    assert retrieved(*pieces, times=2) == [[1, 2, 3]] * 2


def test_a_reply_that_nobody_asked_for_is_not_the_reply_to_the_next_request():
    assert retrieved(GOOD, OTHER, times=3, pause=0.2) == [[1, 2, 3]] * 3


def test_half_a_reply_that_nobody_asked_for_is_not_the_start_of_the_next():
    assert retrieved(GOOD, OTHER[:-4], times=3, pause=0.2) == [[1, 2, 3]] * 3


def test_a_peer_that_takes_no_more_of_a_request_ends_it_with_the_error_for_that():
    with DeafServer() as server:
        with Client.init(config_for(server, timeouts=HASTY)) as client:
            with pytest.raises(RequestTimeoutError, match="took no more of the upload") as caught:
                client.store(LARGE)
        assert caught.value.sent is False


def test_a_connection_on_which_half_a_request_was_sent_is_not_used_again():
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"
    with DeafServer(refusal) as server:
        with Client.init(config_for(server, timeouts=HASTY)) as client:
            with pytest.raises(ProviderError, match="413"):
                client.store(LARGE)
            with pytest.raises(ProviderError, match="413"):
                client.test_connection()
        assert len(server.connections) == 2


def test_as_many_fields_are_taken_in_one_piece_as_in_two():
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n" + b"X: y\r\n" * 99 + b"\r\n"
    outcomes = []
    for pieces in ((head + TEXT,), (head[:100], head[100:] + TEXT)):
        try:
            outcomes.append(retrieved(*pieces))
        except NetworkError:  # http.client takes 99 fields, aiohttp more
            outcomes.append("refused")
    assert outcomes[0] == outcomes[1]


def test_tokens_that_were_used_once_are_not_kept_for_ever(server):
    with Client.init(config_for(server)) as client:
        for number in range(60):
            server.reply(200, {"message": "Congratulations!"})
            client.with_options(provider_token=f"another-token-{number}").test_connection()
        gc.collect()
        tokens = [each for each in gc.get_objects() if isinstance(each, Secret)]
    assert sum(each.reveal().startswith("another-token") for each in tokens) <= 40


@pytest.mark.parametrize("options", [{}, {"chunked": True}])
def test_the_reply_to_head_has_no_body_whatever_its_head_says(server, options):
    server.reply(200, b"hello", headers={"X-Told": "yes"}, **options)
    server.reply(200, b"hello")
    with Client.init(config_for(server, timeouts=HASTY)) as client:
        call = Call("upload")
        session = client.provider._session
        head = session.fetch(Request("HEAD", f"{server.url}/a"), call)
        assert (head.status, head.headers["x-told"], head.body) == (200, "yes", b"")
        body = session.fetch(Request("GET", f"{server.url}/a"), call)
        assert body.body == b"hello"
