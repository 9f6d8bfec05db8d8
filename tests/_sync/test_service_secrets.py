# WARNING: this file is generated from tests/_async/test_service_secrets.py
# by scripts/generate_sync.py. Change the original instead.
"""The token of a service goes to its API and nowhere else, and no link is shown."""

import logging
import pickle

import pytest

from holdfast import Client, ClientConfig
from holdfast.errors import ClientError, ProviderError
from holdfast.testing import ScriptedServer
from tests.pinata import LINK_QUERY, file_row, files, uploaded, v3_config
from tests.psa import CALLS, psa_config, results, row
from tests.support import GATEWAY_TOKEN, HELLO_CID, TOKEN, closed_port_url, config_for
from tests.witness import PASSWORD, assert_clean, assert_no_secret_in

SIGNATURE = "c0ffee0123456789abcdef"
V3_CALLS = {
    **CALLS,
    "store": lambda client: client.store({"a": 1}),
    "upload": lambda client: client.upload(b"hello" * 1000),
    "retrieve": lambda client: client.retrieve(HELLO_CID),
    "signed_url": lambda client: client.signed_url(HELLO_CID, expires=5),
    "signed_upload_url": lambda client: client.signed_upload_url(expires=5),
}
SERVICE_CALLS = [("pinata", call) for call in V3_CALLS] + [("psa", call) for call in CALLS]
REPLIES = {
    "echo": {"status": 401, "body": {"error": {"code": 401, "message": f"token {TOKEN} is bad"}}},
    "denied": {"status": 403, "body": {"error": {"reason": "X", "details": f"{TOKEN} is bad"}}},
    "data": {"status": 200, "body": {"data": TOKEN, "results": [TOKEN]}},
    "no json": {"status": 200, "body": TOKEN.encode()},
    "row": {"status": 200, "body": results(row(name=TOKEN, created=TOKEN))},
    "hang up": {"hang_up": True},
    "refused": None,
}


def config_of(service, server, call="", **changes):
    if service == "pinning":
        return config_for(server, **changes)
    if service == "psa":
        return psa_config(server, **changes)
    network = "public" if call in {"pin", "signed_upload_url"} else "private"
    return v3_config(server, network=network, **changes)


@pytest.mark.parametrize(
    ("service", "call", "name"),
    [(service, call, "echo") for service, call in SERVICE_CALLS]
    + [(service, "pin", name) for service in ("pinata", "psa") for name in REPLIES],
)
def test_no_error_or_log_shows_the_token(server, caplog, service, call, name):
    caplog.set_level(logging.DEBUG)
    reply = REPLIES[name]
    url = server.url if reply else closed_port_url()
    for _ in range(3 if reply else 0):
        server.reply(**reply)
    config = config_of(service, server, call, pin_api_url=url, gateway_url=url)
    with Client.init(config) as client:
        with pytest.raises(ClientError) as caught:
            V3_CALLS[call](client)
    assert_no_secret_in(caught.value, only=TOKEN)
    for record in caplog.records:
        assert_clean(record.getMessage() + repr(vars(record)), only=TOKEN)


@pytest.mark.parametrize(
    ("service", "call", "status"),
    [(service, call, 307) for service, call in SERVICE_CALLS]
    + [(service, "pin", code) for service in ("pinata", "psa") for code in (301, 302, 303, 308)],
)
def test_no_redirect_of_the_api_is_followed(server, other_server, service, call, status):
    for _ in range(2):
        server.reply(status, headers={"Location": f"{other_server.url}/v3/files"})
    with Client.init(config_of(service, server, call)) as client:
        with pytest.raises(ProviderError, match=f"^HTTP error {status}$"):
            V3_CALLS[call](client)
    assert other_server.requests == []


@pytest.mark.parametrize("service", ["pinning", "pinata", "psa"])
def test_no_repr_or_pickle_shows_a_secret(server, service):
    proxy = f"http://user:{PASSWORD}@127.0.0.1:1"
    config = config_of(service, server, gateway_token=GATEWAY_TOKEN, proxy=proxy)
    with Client.init(config) as client:
        shared = (client, client.config, client.config.proxy, client.provider._api)
        request = next(client.provider._api.check_credentials())
        gateways = getattr(client.provider.reader, "_gateways", None)
        for value in (*shared, client.provider, gateways, request):
            assert_clean(repr(value) + str(value))
        for value in (*shared, client.config.provider_token, ClientConfig(proxy=proxy)):
            with pytest.raises(TypeError):
                pickle.dumps(value)


@pytest.fixture
def uploads():
    with ScriptedServer() as server:
        yield server


def test_each_address_gets_the_key_for_its_own_calls(server, uploads, other_server):
    """Three hosts: the API, the uploads, and a gateway, which gets no key."""
    config = v3_config(
        server,
        upload_url=f"{uploads.url}/v3",
        gateway_url=other_server.url,
        gateway_token=GATEWAY_TOKEN,
    )
    uploads.reply(200, uploaded())
    uploads.reply(200, {"data": "https://example.com/x"})
    server.reply(200, files(file_row()))
    server.reply(200, {"data": None})
    other_server.reply(200, b"hello")
    with Client.init(config) as client:
        client.upload(b"hello")
        client.signed_upload_url(expires=5)
        client.revoke(HELLO_CID)
        client.download(HELLO_CID)
    assert [request.target for request in uploads.requests] == ["/v3/files", "/v3/files/sign"]
    assert [request.method for request in server.requests] == ["GET", "DELETE"]
    for request in (*server.requests, *uploads.requests):
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        assert GATEWAY_TOKEN.encode() not in request.raw
    (read,) = other_server.requests
    assert TOKEN.encode() not in read.raw
    assert read.headers["x-pinata-gateway-token"] == GATEWAY_TOKEN


def test_a_link_gets_neither_the_key_nor_the_token_of_the_gateway(server, other_server):
    """Also where the gateway redirects to another host."""
    config = v3_config(server, network="private", gateway_token=GATEWAY_TOKEN)
    server.reply(200, {"data": f"{server.url}/files/{HELLO_CID}?{LINK_QUERY}"})
    server.reply(302, headers={"Location": f"{other_server.url}/elsewhere"})
    other_server.reply(200, b"hello")
    with Client.init(config) as client:
        assert (client.download(HELLO_CID)).read() == b"hello"
    for request in (server.requests[1], *other_server.requests):
        for secret in (TOKEN, GATEWAY_TOKEN):
            assert secret.encode() not in request.raw
    assert SIGNATURE.encode() not in other_server.requests[0].raw


@pytest.mark.parametrize(
    "reply",
    [{"status": 404}, {"status": 200, "body": b"other"}, {"hang_up": True}, {"status": 307}],
    ids=str,
)
def test_a_failed_read_does_not_show_its_link(server, caplog, reply):
    caplog.set_level(logging.DEBUG)
    link = f"{server.url}/files/{HELLO_CID}?X-Signature={SIGNATURE}"
    server.reply(200, {"data": link})
    for _ in range(3):
        server.reply(**reply)
    with Client.init(v3_config(server, network="private")) as client:
        with pytest.raises(ClientError) as caught:
            client.download(HELLO_CID)
    assert any(SIGNATURE in request.target for request in server.requests)
    assert_no_secret_in(caught.value, only=SIGNATURE)
    for record in caplog.records:
        assert_clean(record.getMessage() + repr(vars(record)), only=SIGNATURE)
