# WARNING: this file is generated from tests/_async/test_transport.py
# by scripts/generate_sync.py. Change the original instead.
import base64
import socket
import threading
import time
import traceback

import pytest

from holdfast import Client
from holdfast.errors import ConfigError, NetworkError, RequestTimeoutError
from holdfast.testing import ScriptedServer
from tests import tls
from tests._sync.parallel import in_parallel
from tests.support import HELLO_CID, TOKEN, closed_port_url, config_for, pinned, raw_cid


@pytest.fixture
def secure_server():
    with ScriptedServer(tls=tls.serving()) as server:
        yield server


@pytest.fixture
def misnamed_server():
    with ScriptedServer(tls=tls.serving("elsewhere.example")) as server:
        yield server


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


def test_an_unknown_ca_is_a_network_error_and_nothing_is_sent(secure_server):
    error = failure_with(secure_server)
    assert "no secure connection" in str(error)
    assert "certificate" in str(error).lower()
    assert secure_server.requests == []


def test_a_certificate_for_another_host_is_a_network_error(misnamed_server):
    error = failure_with(misnamed_server, ssl_context=tls.trusting())
    assert "no secure connection" in str(error)
    assert misnamed_server.requests == []


def test_plain_http_at_a_tls_port_is_a_network_error(server):
    url = server.url.replace("http:", "https:")
    failure_with(server, pin_api_url=url, timeouts={"connect": 0.5, "read": 0.5})


def test_an_unknown_host_is_a_network_error(server):
    error = failure_with(server, pin_api_url="https://no-such-host.invalid")
    assert str(error).startswith("cannot find the host no-such-host.invalid")


def test_no_answer_ends_by_the_read_timeout(server):
    server.reply(200, pinned(), delay=30)
    error = failure_with(server, timeouts={"read": 0.2})
    assert type(error) is RequestTimeoutError
    assert isinstance(error, TimeoutError)
    assert "did not answer in time" in str(error)


def test_a_drip_in_the_head_ends_by_the_total(server):
    server.reply(200, pinned(), drip=0.05)
    error = failure_with(server, timeouts={"read": 1, "total": 0.3})
    assert type(error) is RequestTimeoutError


def test_a_drip_in_the_body_ends_by_the_total(server):
    server.reply(200, b"x" * 100_000, drip=0.001)
    error = failure_with(server, timeouts={"read": 1, "total": 0.4})
    assert type(error) is RequestTimeoutError


def test_a_download_has_no_total_but_a_stall_ends_it(server):
    with Client.init(
        config_for(server, timeouts={"read": 1.5, "total": 0.1}, verify=False)
    ) as client:
        server.reply(200, b"hello", drip=0.003)
        assert (client.download(HELLO_CID)).read() == b"hello"
        server.reply(200, b"hello", delay=5)
        with pytest.raises(RequestTimeoutError):
            client.download(HELLO_CID)


def test_a_connection_that_is_never_accepted_ends_by_the_connect_timeout(server):
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        # The queue of one is taken; the system now ignores further callers.
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.settimeout(0)
            each.connect_ex(full.getsockname())
        try:
            error = failure_with(server, pin_api_url=url, timeouts={"connect": 0.3})
        finally:
            for each in waiting:
                each.close()
    assert type(error) is RequestTimeoutError
    assert "did not accept a connection in time" in str(error)


def test_a_connection_that_breaks_is_a_network_error(server):
    server.reply(hang_up=True)
    error = failure_with(server)
    assert type(error) is NetworkError
    assert "broke" in str(error)


def test_a_body_that_is_cut_is_a_network_error(server):
    server.reply(200, b"x" * 1000, cut=500)
    assert type(failure_with(server)) is NetworkError


def test_what_is_not_http_is_a_network_error():
    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n\r\n\r\n")

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        with ScriptedServer() as unused:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            failure_with(unused, pin_api_url=url)
    finally:
        thread.join()
        listener.close()


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


class Tunnel:
    """A proxy that knows CONNECT and nothing else."""

    def __init__(self):
        self.heads = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        connection, _ = self._listener.accept()
        with connection:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(1000)
            self.heads.append(head)
            host, port = head.split()[1].decode().rsplit(":", 1)
            with socket.create_connection((host, int(port))) as upstream:
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                back = threading.Thread(target=self._pump, args=(upstream, connection))
                back.start()
                self._pump(connection, upstream)
                back.join()

    @staticmethod
    def _pump(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self._thread.join()
        self._listener.close()


def test_a_proxy_carries_tls_in_a_tunnel_and_sees_no_token(secure_server):
    tunnel = Tunnel()
    secure_server.reply(200, pinned())
    store_with(secure_server, proxy=tunnel.url, ssl_context=tls.trusting())
    tunnel.close()
    (head,) = tunnel.heads
    assert head.startswith(f"CONNECT 127.0.0.1:{secure_server.port} HTTP/1.".encode())
    assert TOKEN.encode() not in head
    assert secure_server.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_a_proxy_that_is_not_there_is_a_network_error(server):
    assert "proxy" in str(failure_with(server, proxy=closed_port_url()))


def test_the_environment_names_the_proxy_only_when_it_is_trusted(server, other_server, monkeypatch):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", other_server.url)
    insecure = {"pin_api_url": "http://pins.invalid", "allow_insecure": True}
    other_server.reply(200, pinned())
    store_with(server, trust_env=True, **insecure)
    assert other_server.requests[0].target == "http://pins.invalid/pinning/pinJSONToIPFS"

    error = failure_with(server, **insecure)
    assert "cannot find the host" in str(error)
    monkeypatch.setenv("no_proxy", "pins.invalid")
    error = failure_with(server, trust_env=True, **insecure)
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
    for name in ("http_proxy", "no_proxy"):
        monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", value)
    insecure = {"pin_api_url": "http://pins.invalid", "allow_insecure": True}
    with pytest.raises(ConfigError, match="the proxy in the environment") as caught:
        store_with(server, trust_env=True, **insecure)
    for frame, _ in traceback.walk_tb(caught.value.__traceback__):
        if "holdfast" in frame.f_code.co_filename and "tests" not in frame.f_code.co_filename:
            assert "proxy-password" not in repr(frame.f_locals)


def test_a_proxy_without_a_scheme_is_taken_for_http(server, other_server, monkeypatch):
    for name in ("HTTP_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", other_server.url.removeprefix("http://"))
    other_server.reply(200, pinned())
    insecure = {"pin_api_url": "http://pins.invalid", "allow_insecure": True}
    store_with(server, trust_env=True, **insecure)
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
