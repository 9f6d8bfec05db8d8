# WARNING: this file is generated from tests/_async/test_psa_secrets.py
# by scripts/generate_sync.py. Change the original instead.
"""The token of a pinning service goes to its API and nowhere else."""

import logging
import pickle

import pytest

from holdfast import Client
from holdfast.errors import ClientError, ProviderError
from tests.psa import CALLS, EACH_CALL, psa_config, results, row
from tests.support import GATEWAY_TOKEN, HELLO_CID, TOKEN, closed_port_url
from tests.witness import assert_clean, assert_no_secret_in


@pytest.mark.parametrize("call", EACH_CALL)
@pytest.mark.parametrize(
    "reply",
    [
        {"status": 401, "body": {"error": {"reason": "X", "details": f"token {TOKEN} is bad"}}},
        {"status": 500, "body": {"error": {"reason": f"token {TOKEN} is bad"}}},
        {"status": 200, "body": {"results": [TOKEN]}},
        {"status": 200, "body": TOKEN.encode()},
        {"status": 200, "body": results(row(name=TOKEN, created=TOKEN))},
        {"hang_up": True},
        None,
    ],
    ids=["echo", "reason", "data", "no json", "row", "hang up", "refused"],
)
def test_no_error_or_log_shows_the_token(server, caplog, call, reply):
    caplog.set_level(logging.DEBUG)
    url = server.url if reply else closed_port_url()
    for _ in range(2 if reply else 0):
        server.reply(**reply)
    with Client.init(psa_config(server, pin_api_url=url)) as client:
        if call == "test_connection" and reply and reply.get("status") == 200 and "body" in reply:
            return  # any list of results is a success
        with pytest.raises(ClientError) as caught:
            CALLS[call](client)
    assert_no_secret_in(caught.value, only=TOKEN)
    for record in caplog.records:
        assert_clean(record.getMessage() + repr(vars(record)), only=TOKEN)


@pytest.mark.parametrize("call", EACH_CALL)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_of_the_api_is_followed(server, other_server, call, status):
    server.reply(status, headers={"Location": f"{other_server.url}/pins"})
    with Client.init(psa_config(server)) as client:
        with pytest.raises(ProviderError, match=f"^HTTP error {status}$"):
            CALLS[call](client)
    assert other_server.requests == []


def test_the_gateway_gets_no_token_of_the_service(server, other_server):
    config = psa_config(server, gateway_url=other_server.url, gateway_token=GATEWAY_TOKEN)
    server.reply(200, results())
    other_server.reply(200, b"hello")
    with Client.init(config) as client:
        client.pins()
        assert (client.download(HELLO_CID)).read() == b"hello"
    assert TOKEN.encode() not in other_server.requests[0].raw
    assert other_server.requests[0].headers["x-pinata-gateway-token"] == GATEWAY_TOKEN
    assert GATEWAY_TOKEN.encode() not in server.requests[0].raw


def test_no_repr_or_pickle_shows_the_token(server):
    with Client.init(psa_config(server)) as client:
        for each in (client, client.config, client.provider, client.provider._api):
            assert_clean(repr(each) + str(each))
        for each in (client, client.config, client.provider._api):
            with pytest.raises(TypeError):
                pickle.dumps(each)
