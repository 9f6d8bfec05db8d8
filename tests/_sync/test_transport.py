# WARNING: this file is generated from tests/_async/test_transport.py
# by scripts/generate_sync.py. Change the original instead.
"""What both transports do: TLS, proxies, and the connections after replies of any kind."""

import base64
import gc
import socket
import threading
import time

import pytest

from holdfast import Client
from holdfast._sync.runtime import sleep
from holdfast.calls import Call
from holdfast.config.secret import Secret
from holdfast.errors import ConfigError, NetworkError, ProviderError, RequestTimeoutError
from holdfast.protocol.http import Request
from holdfast.testing import ScriptedServer
from tests import tls
from tests.attackers import Attacker
from tests.forwarders import Tunnel
from tests.support import HELLO_CID, TOKEN, closed_port_url, config_for, pinned, raw_cid
from tests.witness import assert_no_secret_in

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("without_proxies")]


@pytest.fixture
def secure_server():
    with ScriptedServer(tls=tls.serving()) as server:
        yield server


INSECURE = {"pin_api_url": "http://pins.invalid", "allow_insecure": True}


def store_with(server, **changes):
    with Client.init(config_for(server, **changes)) as client:
        return client.store(1)


def failure_with(server, **changes):
    start = time.monotonic()
    with pytest.raises(NetworkError) as caught:
        store_with(server, **changes)
    assert time.monotonic() - start < 20
    assert TOKEN not in str(caught.value)
    return caught.value


def test_a_ca_of_ones_own_is_trusted_and_the_scheme_may_be_in_capitals(secure_server):
    secure_server.reply(200, pinned())
    url = secure_server.url.replace("https", "HTTPS")
    record = store_with(secure_server, pin_api_url=url, ssl_context=tls.trusting())
    assert record.cid == HELLO_CID


@pytest.mark.parametrize("context", [None, tls.serving], ids=["plain", "TLS"])
def test_what_follows_a_body_is_not_the_reply_to_the_next_request(context):
    content = bytes(range(256)) * 3000
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n\r\n".encode()
    extra = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"
    accepted = []

    def answer():
        while len(accepted) < 2:
            accepted.append(listener.accept()[0])
            if context is not None:
                accepted[-1] = context().wrap_socket(accepted[-1], server_side=True)
            accepted[-1].recv(10_000)
            accepted[-1].sendall(head + content[:1000])
            time.sleep(0.1)  # so that the rest of the body arrives without a head
            accepted[-1].sendall(content[1000:-1000])
            accepted[-1].sendall(content[-1000:] + extra)  # one record of TLS

    with socket.create_server(("127.0.0.1", 0)) as listener, ScriptedServer() as unused:
        thread = threading.Thread(target=answer)
        thread.start()
        url = f"{'https' if context else 'http'}://127.0.0.1:{listener.getsockname()[1]}/ipfs"
        config = config_for(unused, gateway_url=url, ssl_context=context and tls.trusting())
        with Client.init(config) as client:
            for _ in range(2):
                assert (client.download(raw_cid(content))).read() == content
        thread.join()
    for connection in accepted:
        connection.close()


def test_a_proxy_carries_plain_requests_and_gets_its_password(server, other_server):
    proxy = other_server.url.replace("http://", "http://user:p%40ss@")
    other_server.reply(200, pinned())
    store_with(server, proxy=proxy)
    assert server.requests == []
    assert other_server.requests[0].target == f"{server.url}/pinning/pinJSONToIPFS"
    expected = "Basic " + base64.b64encode(b"user:p@ss").decode()
    assert other_server.requests[0].headers["proxy-authorization"] == expected


def test_a_proxy_carries_tls_in_a_tunnel_and_sees_no_token(secure_server):
    secure_server.reply(200, pinned())
    with Tunnel() as tunnel:
        store_with(secure_server, proxy=tunnel.url, ssl_context=tls.trusting())
    (head,) = tunnel.heads
    assert head.startswith(f"CONNECT 127.0.0.1:{secure_server.port} HTTP/1.".encode())
    assert TOKEN.encode() not in head
    assert secure_server.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_a_proxy_that_is_not_there_is_a_network_error(server):
    assert "proxy" in str(failure_with(server, proxy=closed_port_url()))


def test_the_environment_names_the_proxy_only_when_it_is_trusted(server, other_server, monkeypatch):
    monkeypatch.setenv("http_proxy", other_server.url)
    other_server.reply(200, pinned())
    store_with(server, trust_env=True, **INSECURE)
    assert other_server.requests[0].target == "http://pins.invalid/pinning/pinJSONToIPFS"

    error = failure_with(server, **INSECURE)
    assert "cannot find the host" in str(error)
    monkeypatch.setenv("no_proxy", "pins.invalid")
    error = failure_with(server, trust_env=True, **INSECURE)
    assert "cannot find the host" in str(error)

    # This very machine is never reached through the environment's proxy.
    server.reply(200, pinned())
    store_with(server, trust_env=True)
    assert len(server.requests) == 1


def test_a_proxy_that_says_nothing_ends_by_the_connect_timeout(server):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = config_for(
            server,
            gateway_url="https://gateway.invalid",
            proxy=f"http://127.0.0.1:{silent.getsockname()[1]}",
            timeouts={"connect": 0.3, "read": 0.3},
        )
        start = time.monotonic()
        with Client.init(config) as client:
            with pytest.raises(RequestTimeoutError):
                client.download(HELLO_CID)
        assert time.monotonic() - start < 20


@pytest.mark.parametrize(
    "value",
    ["socks5://user:proxy-password@127.0.0.1:1080", "http://user:proxy-password@h:99999", "::"],
)
def test_a_useless_proxy_in_the_environment_is_a_config_error(server, monkeypatch, value):
    monkeypatch.setenv("http_proxy", value)
    with pytest.raises(ConfigError, match="the proxy in the environment") as caught:
        store_with(server, trust_env=True, **INSECURE)
    assert_no_secret_in(caught.value, only="proxy-password")


def test_a_proxy_without_a_scheme_is_taken_for_http(server, other_server, monkeypatch):
    monkeypatch.setenv("http_proxy", other_server.url.removeprefix("http://"))
    other_server.reply(200, pinned())
    store_with(server, trust_env=True, **INSECURE)
    assert len(other_server.requests) == 1


def test_an_upload_that_stalls_says_so(server):
    server.reply(200, pinned(), early=True, delay=5)
    config = config_for(server, timeouts={"write": 0.3, "read": 0.3})
    with Client.init(config) as client:
        with pytest.raises(RequestTimeoutError, match="stopped reading the upload"):
            client.upload(b"x" * 30_000_000)


# Replies that are parsed on connections of the HTTP library, and the connections after them

TEXT = b"[1,2,3]"
CID = raw_cid(TEXT)
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n" + TEXT
OTHER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HASTY = {"connect": 2, "read": 1, "write": 0.3, "total": 4}
# More than the buffers of a connection take from a client whose peer does not read.
LARGE = "x" * 8_000_000


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
        for connection in self.connections:
            connection.close()


def test_a_head_with_two_lengths_that_differ_is_not_http():
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 8\r\n\r\n"
    with pytest.raises(NetworkError, match="sent something that is not HTTP"):
        retrieved(head + TEXT + b" ")


def test_the_length_in_an_informational_reply_is_not_that_of_the_body():
    early = b"HTTP/1.1 103 Early Hints\r\nContent-Length: 4\r\n\r\n"
    pieces = (early + CHUNKED, b"3\r\n[1,\r\n", b"4\r\n2,3]\r\n0\r\n\r\n")
    assert retrieved(*pieces, times=2) == [[1, 2, 3]] * 2


@pytest.mark.parametrize("unasked", [OTHER, OTHER[:-4]], ids=["whole", "half"])
def test_a_reply_that_nobody_asked_for_is_not_the_reply_to_the_next_request(unasked):
    assert retrieved(GOOD, unasked, times=3, pause=0.2) == [[1, 2, 3]] * 3


def test_a_peer_that_takes_no_more_of_a_request_ends_it_with_the_error_for_that():
    with DeafServer() as server:
        with Client.init(config_for(server, timeouts=HASTY)) as client:
            with pytest.raises(RequestTimeoutError, match="stopped reading the upload") as caught:
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


def test_tokens_that_were_used_once_are_not_kept_for_ever(server):
    with Client.init(config_for(server)) as client:
        for number in range(60):
            server.reply(200, {"message": "Congratulations!"})
            client.with_options(provider_token=f"another-token-{number}").test_connection()
        gc.collect()
        secrets = [value for value in gc.get_objects() if isinstance(value, Secret)]
    assert sum(secret.reveal().startswith("another-token") for secret in secrets) <= 40


@pytest.mark.parametrize("options", [{}, {"chunked": True}])
def test_the_reply_to_head_has_no_body_whatever_its_head_says(server, options):
    server.reply(200, b"hello", headers={"X-Sent": "yes"}, **options)
    server.reply(200, b"hello")
    with Client.init(config_for(server, timeouts=HASTY)) as client:
        call = Call("upload")
        session = client.provider._session
        head = session.fetch(Request("HEAD", f"{server.url}/a"), call)
        assert (head.status, head.headers["x-sent"], head.body) == (200, "yes", b"")
        body = session.fetch(Request("GET", f"{server.url}/a"), call)
        assert body.body == b"hello"
