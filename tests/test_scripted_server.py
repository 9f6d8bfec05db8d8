"""The scripted server: what goes wrong in it by mistake is told."""

import http.client
import socket
from dataclasses import fields

import pytest

from holdfast.testing import Scripted, ScriptedServer, forward_to
from holdfast.testing.scripted_server import ReplyOptions


def ask(server, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request(method, "/")
        reply = connection.getresponse()
        return reply.status, reply.getheader("content-length"), reply.read()
    finally:
        connection.close()


def say(server, data):
    """What the server says to `data`, to its end."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(data)
        return b"".join(iter(lambda: connection.recv(4096), b""))


@pytest.mark.parametrize(
    ("request_bytes", "message"),
    [
        (b"garbage\r\n\r\n", "this is not an HTTP request: 'garbage'"),
        (b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "the Content-Length .* is 'x'"),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "the Content-Length .* is '-1'"),
        (
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            "invalid literal for int",
        ),
    ],
)
def test_a_request_that_is_none_is_told_at_the_end(request_bytes, message):
    server = ScriptedServer()
    assert say(server, request_bytes) == b""
    with pytest.raises(ValueError, match=message):
        server.close()


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 5\r\n\r\nab", b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"]
)
def test_a_request_that_ends_early_is_not_recorded(framing):
    with (
        ScriptedServer() as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection,
    ):
        connection.sendall(b"POST / HTTP/1.1\r\n" + framing)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
        assert server.requests == []


def test_what_a_script_raises_does_not_hide_what_the_test_raised():
    with (  # noqa: PT012
        pytest.raises(KeyError) as caught,
        ScriptedServer(lambda request: 1 / 0) as server,
    ):
        ask(server)
        raise KeyError
    assert caught.value.__notes__ == [
        "The scripted server failed as well: ZeroDivisionError('division by zero')"
    ]


@pytest.mark.parametrize(
    ("script", "error", "words"),
    [
        (lambda request: 1 / 0, ZeroDivisionError, "division"),
        (lambda request: "oops", TypeError, "a script returns a Scripted, not 'oops'"),
    ],
    ids=["error", "no reply"],
)
def test_what_a_script_does_wrong_is_told_when_the_server_is_left(script, error, words):
    with pytest.raises(error, match=words), ScriptedServer(script) as server:
        assert ask(server)[0] == 500


def test_a_reply_that_cannot_be_sent_is_told():
    server = ScriptedServer()
    server.reply(200, object())
    with pytest.raises(http.client.RemoteDisconnected):
        ask(server)
    with pytest.raises(TypeError, match="not JSON serializable"):
        server.close()
    server.close()


def test_a_reply_to_head_keeps_its_length_and_has_no_body():
    with ScriptedServer(lambda request: Scripted(body=b"x" * 1000)) as real:
        assert ask(real, "HEAD") == (200, "1000", b"")
        with ScriptedServer(forward_to(real.url)) as between:
            assert ask(between, "HEAD") == (200, "1000", b"")
            assert ask(between) == (200, "1000", b"x" * 1000)


def test_nothing_follows_the_head_of_a_reply_to_head(server):
    server.reply(200, b"hello")
    server.reply(200, b"again", framed=False)
    data = b"HEAD / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    assert say(server, data) == head + b"HTTP/1.1 200 OK\r\n\r\nagain"


def test_every_field_of_a_reply_is_a_keyword_of_reply():
    names = {field.name for field in fields(Scripted)} - {"status", "body"}
    assert ReplyOptions.__annotations__.keys() == names
