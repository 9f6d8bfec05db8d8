# WARNING: this file is generated from tests/_async/test_transport.py
# by scripts/generate_sync.py. Change the original instead.
import base64
import socket
import threading
import time

import pytest

from holdfast import Client
from holdfast.errors import ConfigError, NetworkError, RequestTimeoutError
from holdfast.testing import ScriptedServer
from tests import tls
from tests._sync.parallel import in_parallel
from tests.forwarders import Tunnel
from tests.support import HELLO_CID, TOKEN, closed_port_url, config_for, pinned, raw_cid
from tests.witness import assert_no_secret_in


@pytest.fixture
def secure_server():
    with ScriptedServer(tls=tls.serving()) as server:
        yield server


INSECURE = {"pin_api_url": "http://pins.invalid", "allow_insecure": True}


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


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


def test_a_ca_of_ones_own_is_trusted(secure_server):
    secure_server.reply(200, pinned())
    record = store_with(secure_server, ssl_context=tls.trusting())
    assert record.cid == HELLO_CID


def test_plain_http_at_a_tls_port_is_a_network_error(server):
    url = server.url.replace("http:", "https:")
    failure_with(server, pin_api_url=url, timeouts={"connect": 0.5, "read": 0.5})


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


def test_an_idle_connection_that_the_server_closed_is_replaced(server, client):
    server.reply(200, pinned(), headers={"Connection": "close"}, framed=True)
    client.store(1)
    server.reply(200, pinned())
    client.store(1)
    assert len(server.requests) == 2


def test_a_proxy_carries_plain_requests(server, other_server):
    other_server.reply(200, pinned())
    store_with(server, proxy=other_server.url)
    assert server.requests == []
    assert other_server.requests[0].target == f"{server.url}/pinning/pinJSONToIPFS"


def test_a_proxy_gets_its_password_and_the_peer_does_not(server, other_server):
    proxy = other_server.url.replace("http://", "http://user:p%40ss@")
    other_server.reply(200, pinned())
    store_with(server, proxy=proxy)
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


def test_connections_are_shared_by_all_tasks(server):
    for _ in range(20):
        server.reply(200, pinned(), delay=0.05)
    with Client.init(config_for(server)) as client:
        records = in_parallel(lambda: client.store(1) for _ in range(20))
        assert [record.cid for record in records] == [HELLO_CID] * 20
        before = server.connections
        for _ in range(20):
            server.reply(200, pinned())
            client.store(1)
        assert server.connections == before


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


def test_the_scheme_may_be_in_capitals(secure_server):
    secure_server.reply(200, pinned())
    url = secure_server.url.replace("https", "HTTPS")
    store_with(secure_server, pin_api_url=url, ssl_context=tls.trusting())


def test_an_upload_that_stalls_says_so(server):
    server.reply(200, pinned(), early=True, delay=5)
    config = config_for(server, timeouts={"write": 0.3, "read": 0.3})
    with Client.init(config) as client:
        with pytest.raises(RequestTimeoutError, match="took no more of the upload"):
            client.upload(b"x" * 30_000_000)
