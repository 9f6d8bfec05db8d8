"""Requests as bytes: where each ends, and what is no request."""

import re

import pytest

from holdfast.content.car import CarReader
from holdfast.node.http_server.request_parser import (
    MAX_HEAD,
    MAX_HEADERS,
    BadRequestError,
    RequestParser,
)
from tests.node_caller import connect, head_of

GET = b"GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = b"5\r\nab\r\n\r\r\n4;name=value\r\n\n\r\n\r\r\n0\r\nTrailer: t\r\n\r\n"
CHUNKS_BODY = b"ab\r\n\r\n\r\n\r"
LENGTH = b"POST /d HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n"
UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: \r\n"


class Requests:
    """What a parser tells about some bytes: the target, the headers and the body of each."""

    def __init__(self):
        self.parser = RequestParser(self)
        self.heads = []
        self.bodies = []
        self.ended = 0

    def on_head(self, head):
        self.heads.append((head.target, head.headers))
        self.bodies.append(b"")

    def on_body(self, body):
        self.bodies[-1] += body

    def on_end(self):
        self.ended += 1

    def feed(self, data, size):
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            while piece:
                before = len(self.heads)
                piece = piece[self.parser.feed(piece) :]
                # No step goes beyond the end of a request.
                assert len(self.heads) <= before + 1
        return [(head[0], body) for head, body in zip(self.heads, self.bodies, strict=True)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
def test_requests_are_the_same_in_pieces_of_any_size(size):
    requests = Requests()
    data = GET + CHUNKED + CHUNKS + LENGTH + b"\r\n\r\nGE" + b"\r\n" + GET
    expected = [(b"/a?b", b""), (b"/c", CHUNKS_BODY), (b"/d", b"\r\n\r\nGE"), (b"/a?b", b"")]
    assert requests.feed(data, size) == expected
    assert (requests.ended, requests.parser.is_between) == (4, True)
    # What follows a chunked body is no header of the request.
    assert requests.heads[1][1] == [(b"host", b"x"), (b"transfer-encoding", b"chunked")]


@pytest.mark.parametrize("size", [1, 1000])
def test_a_request_that_offers_an_upgrade_keeps_its_body(size):
    requests = Requests()
    head = LENGTH.removesuffix(b"\r\n") + UPGRADE + b"\r\n"
    plain = GET.removesuffix(b"\r\n") + UPGRADE + b"\r\n"
    assert requests.feed(head + b"GET / " + plain + GET, size) == [
        (b"/d", b"GET / "),
        (b"/a?b", b""),
        (b"/a?b", b""),
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        *(
            b"GET / HTTP/1.1\r\nHost: x\r\n" + line + b"\r\n\r\n"
            for line in (b"Host: x", b" a: folded", b"a: b\x00c", b"b : x")
        ),
        *(
            b"POST / HTTP/1.1\r\nHost: x\r\n" + line + b"\r\n\r\n"
            for line in (
                *(b"Content-Length: 1\r\nContent-Length: 2", b"Content-Length: +1"),
                *(b"Content-Length: 1, 1", b"Transfer-Encoding: gzip, chunked"),
                b"Transfer-Encoding: xchunked",
            )
        ),
        b"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"GET /\xc3\xa4 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n",
        LENGTH.removesuffix(b"\r\n") + b"Transfer-Encoding: chunked\r\n\r\n",
        CHUNKED.removesuffix(b"\r\n") + b"Content-Length: 6\r\n\r\n",
        CHUNKED.removesuffix(b"\r\n") + b"Transfer-Encoding: chunked\r\n\r\n",
        CHUNKED.removesuffix(b"\r\n") + UPGRADE + b"\r\n",
        CHUNKED + b"-1\r\n",
        CHUNKED + b"1\nx\r\n0\r\n\r\n",
        CHUNKED + b"1\r\nxy\r\n0\r\n\r\n",
        CHUNKED + b"0\r\n" + b"a: b\r\n" * (MAX_HEADERS + 1) + b"\r\n",
        CHUNKED + b"0\r\na: " + b"b" * 3 * MAX_HEAD,
        CHUNKED + b"1;a=" + b"b" * 3 * MAX_HEAD,
        GET.removesuffix(b"\r\n") + b"a: b\r\n" * MAX_HEADERS + b"\r\n",
        b"GET /" + b"a" * 3 * MAX_HEAD,
        b"\r\n" * 2 * MAX_HEAD,
    ],
)
@pytest.mark.parametrize("size", [1, 16 << 10])
def test_what_could_be_read_in_two_ways_or_is_too_large_is_refused(data, size):
    with pytest.raises(BadRequestError):
        Requests().feed(data, size)


def converse(node, data):
    with connect(node) as peer, peer.makefile("rb") as file:
        peer.sendall(data)
        return file.read()


ONE = b"GET /ipfs/bafkqaaa HTTP/1.1\r\nHost: x\r\n\r\n"


def test_requests_that_are_sent_ahead_are_answered_in_turn(node):
    two = b"GET /missing HTTP/1.1\r\nHost: x\r\n\r\n"
    last = ONE.removesuffix(b"\r\n") + b"Connection: close\r\n\r\n"
    received = converse(node, (ONE + two) * 300 + last + ONE)
    assert re.findall(rb"HTTP/1.1 (\d+) ", received) == [b"200", b"404"] * 300 + [b"200"]
    received = converse(node, ONE + ONE + b"GET / HTTP/1.1\r\n\r\n" + ONE)
    assert re.findall(rb"HTTP/1.1 (\d+) ", received) == [b"200", b"200", b"400"]
    assert received.endswith(b"Invalid HTTP request received.")


def test_an_old_client_gets_a_body_without_chunks(node):
    reply = converse(node, b"GET /ipfs/bafkqaaa?format=car HTTP/1.0\r\nHost: x\r\n\r\n")
    head, _, body = reply.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head
    assert list(CarReader().update(body)) == []  # an inline block is not in an archive
    assert b"roots" in body[:20]


def test_a_client_that_waits_is_told_to_continue(node):
    fields = {"Connection": "close", "Content_Length": 2, "Expect": "100-continue"}
    with connect(node) as peer:
        peer.sendall(head_of(node, "/pinning/pinJSONToIPFS", **fields))
        assert peer.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        peer.sendall(b"{}")
        assert peer.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")
