"""The provider for the Pinning Services API, on literal replies of services."""

from urllib.parse import urlsplit

import pytest

from holdfast import AsyncClient, ClientConfig, PinProgress
from holdfast.errors import (
    AuthenticationError,
    ConfigError,
    NotFoundError,
    ProviderError,
    UnsupportedError,
)
from holdfast.provider import PinInfo
from holdfast.providers import AsyncPSAProvider
from tests.psa import CREATED_MS, ODD_ROWS, REQUEST_ID, psa_config, results, row
from tests.support import HELLO_CID, TOKEN, query_of, raw_cid

OTHER_ID = "ac5308a1-de49-40a3-9f5c-d20f1bb6206d"
ORIGIN = "/dns/node.example.com/tcp/4001/p2p/12D3KooWNode"


@pytest.fixture
async def psa_client(server):
    async with AsyncClient.init(psa_config(server)) as client:
        yield client


# Pinning


async def test_a_cid_is_looked_for_and_then_pinned(server, psa_client):
    server.reply(200, results())
    server.reply(202, row(status="queued", name="hello", meta={"n": "1", "b": "true"}))
    pin = await psa_client.pin(HELLO_CID, name="hello", keyvalues={"n": 1, "b": True})
    assert (pin.id, pin.cid, pin.state, pin.name) == (REQUEST_ID, HELLO_CID, "queued", "hello")
    assert (pin.keyvalues, pin.size, pin.created_ms) == ({"n": "1", "b": "true"}, None, CREATED_MS)
    look, post = server.requests
    assert urlsplit(look.target).path == "/pins"
    assert query_of(look) == {
        "status": "queued,pinning,pinned",
        "limit": "1000",
        "cid": HELLO_CID,
    }
    assert (post.method, post.target) == ("POST", "/pins")
    assert post.json() == {"cid": HELLO_CID, "name": "hello", "meta": {"n": "1", "b": "true"}}
    for request in server.requests:
        assert request.headers["authorization"] == f"Bearer {TOKEN}"


async def test_a_request_that_is_there_is_used(server, psa_client):
    server.reply(200, results(row(status="pinning"), row(requestid=OTHER_ID)))
    pin = await psa_client.pin(HELLO_CID)
    assert (pin.id, pin.state) == (OTHER_ID, "pinned")
    assert len(server.requests) == 1


async def test_a_known_request_gets_what_is_given_and_nothing_else(server, psa_client):
    older = row(name="old", meta={"a": "1", "b": "2"})
    server.reply(200, results(older))
    new = row(requestid=OTHER_ID, name="new", meta={"a": "1", "b": "3"})
    server.reply(202, new)
    pin = await psa_client.pin(HELLO_CID, name="new", keyvalues={"b": 3})
    assert (pin.id, pin.name) == (OTHER_ID, "new")
    change = server.requests[1]
    assert (change.method, change.target) == ("POST", f"/pins/{REQUEST_ID}")
    assert change.json() == {"cid": HELLO_CID, "name": "new", "meta": {"a": "1", "b": "3"}}
    server.reply(200, results(older))
    assert (await psa_client.pin(HELLO_CID, keyvalues={"b": 2})).id == REQUEST_ID
    assert len(server.requests) == 3


async def test_origins_are_sent_each_once_and_not_too_many(server):
    config = psa_config(server, provider_options={"origins": [ORIGIN, ORIGIN]})
    server.reply(200, results())
    server.reply(202, row(status="queued"))
    async with AsyncClient.init(config) as client:
        await client.provider.pin_from(
            HELLO_CID, PinInfo(), [ORIGIN, *(f"/x/{n}" for n in range(30))]
        )
    sent = server.requests[1].json()["origins"]
    assert sent[:2] == [ORIGIN, "/x/0"]
    assert len(sent) == 20


async def test_waiting_polls_until_the_content_is_pinned(server, psa_client):
    server.reply(200, results())
    server.reply(200, row(status="queued"))  # 200 is as good as 202
    server.reply(200, row(status="pinning"))
    server.reply(200, row(status="pinned", info={"dag_size": "11"}))
    steps = []
    pin = await psa_client.pin(HELLO_CID, wait=20, progress=steps.append)
    assert (pin.state, pin.size) == ("pinned", 11)
    assert steps == [PinProgress(state="pinning"), PinProgress(state="pinned")]
    assert [request.target for request in server.requests[2:]] == [f"/pins/{REQUEST_ID}"] * 2


async def test_a_failed_request_is_an_error_with_the_reason(server, psa_client):
    details = {"status_details": f"no peer\n has it; {TOKEN}"}
    server.reply(200, results())
    server.reply(202, row(status="queued"))
    server.reply(200, row(status="failed", info=details))
    with pytest.raises(ProviderError, match=r"could not pin .*: no peer has it; \*+$"):
        await psa_client.pin(HELLO_CID, wait=20)
    server.reply(200, results())
    server.reply(202, row(status="failed"))
    with pytest.raises(ProviderError, match="it gives no reason"):
        await psa_client.pin(HELLO_CID)


async def test_a_request_that_another_client_replaced_or_removed(server, psa_client):
    gone = {"error": {"reason": "NOT_FOUND", "details": "gone"}}
    server.reply(200, results())
    server.reply(202, row(status="queued"))
    server.reply(404, gone)
    server.reply(200, results(row(requestid=OTHER_ID)))
    assert (await psa_client.pin(HELLO_CID, wait=20)).id == OTHER_ID
    server.reply(200, results())
    server.reply(202, row(status="queued"))
    server.reply(404, gone)
    server.reply(200, results())
    with pytest.raises(ProviderError, match="was unpinned in the meantime"):
        await psa_client.pin(HELLO_CID, wait=20)


async def test_another_cid_in_the_reply_is_an_error(server, psa_client):
    server.reply(200, results())
    server.reply(202, row(raw_cid(b"other"), status="queued"))
    with pytest.raises(ProviderError, match="replied with another CID"):
        await psa_client.pin(HELLO_CID)


# Changing and removing


async def test_an_update_replaces_the_request(server, psa_client):
    server.reply(200, results(row(name="old", meta={"a": "1", "b": "2"})))
    server.reply(202, row(requestid=OTHER_ID, name="old", meta={"b": "2", "c": "3"}))
    pin = await psa_client.update(HELLO_CID, keyvalues={"a": None, "c": 3})
    assert (pin.id, pin.keyvalues) == (OTHER_ID, {"b": "2", "c": "3"})
    change = server.requests[1]
    assert change.target == f"/pins/{REQUEST_ID}"
    assert change.json() == {"cid": HELLO_CID, "name": "old", "meta": {"b": "2", "c": "3"}}
    server.reply(200, results())
    with pytest.raises(NotFoundError, match="is not pinned"):
        await psa_client.update(HELLO_CID, name="x")
    server.reply(200, results())
    with pytest.raises(NotFoundError, match=f"^{HELLO_CID} is not pinned$"):
        await psa_client.revoke(HELLO_CID)


async def test_a_request_whose_id_is_the_cid_is_not_replaced_by_itself(server, psa_client):
    """As in IPFS Cluster, which would unpin the content."""
    server.reply(200, results(row(requestid=HELLO_CID, name="old")))
    server.reply(200, row(requestid=HELLO_CID, name="new"))
    assert (await psa_client.update(HELLO_CID, name="new")).name == "new"
    assert [request.target for request in server.requests[1:]] == ["/pins"]
    server.reply(200, results(row(requestid="of-the-cid", name="old")))
    for _ in range(2):
        server.reply(200, row(requestid="of-the-cid", name="new"))
    assert (await psa_client.update(HELLO_CID, name="new")).id == "of-the-cid"
    assert [request.target for request in server.requests[3:]] == ["/pins/of-the-cid", "/pins"]


async def test_revoke_deletes_every_request_for_the_cid(server, psa_client):
    """Also those that have failed; any body will do, and one that is gone is gone."""
    rows = [
        row(requestid=f"id {n}/?", status=status)
        for n, status in enumerate(("failed", "pinned", "queued"))
    ]
    server.reply(200, results(*rows))
    server.reply(202)
    server.reply(200, b"OK", headers={"Content-Type": "text/plain"})
    server.reply(404, {"error": {"reason": "NOT_FOUND"}})
    assert await psa_client.revoke(HELLO_CID) is True
    look, *deletes = server.requests
    assert query_of(look)["status"] == "queued,pinning,pinned,failed"
    assert [request.method for request in deletes] == ["DELETE"] * 3
    assert [request.target for request in deletes] == [f"/pins/id%20{n}%2F%3F" for n in range(3)]


# What it cannot do


async def test_new_content_is_refused_before_anything_is_sent(server, psa_client, tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    for call in (
        lambda: psa_client.store({"a": 1}, keyvalues={"a": 1}),
        lambda: psa_client.upload(b"hello"),
        lambda: psa_client.send("alice", "hi"),
        lambda: psa_client.upload(tmp_path),
    ):
        with pytest.raises(UnsupportedError, match=r"cannot store new content.*copy it to here"):
            await call()
    assert server.requests == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"provider_token": None}, "provider_token is missing"),
        ({"pin_api_url": None}, "pin_api_url is missing"),
        ({"pin_api_url": "http://psa.example.com"}, "plain HTTP"),
        ({"provider_options": {"origin": []}}, "origins, not 'origin'"),
        ({"provider_options": {"origins": "/ip4/1.2.3.4"}}, "must be a list"),
        ({"provider_options": {"origins": ["node.example.com"]}}, "multiaddrs"),
        ({"provider_options": {"origins": [ORIGIN] * 21}}, "up to 20"),
    ],
)
def test_bad_configurations_are_named(server, changes, field):
    with pytest.raises(ConfigError, match=field):
        AsyncPSAProvider(psa_config(server, **changes))


async def test_a_password_is_sent_as_basic_authorization(server):
    server.reply(200, results())
    async with AsyncClient.init(psa_config(server, provider_token="user:pass")) as client:
        assert await client.test_connection() is True
    assert server.requests[0].headers["authorization"] == "Basic dXNlcjpwYXNz"
    assert server.requests[0].target == "/pins?limit=1"


def test_the_path_of_the_address_is_kept():
    address = "https://api.example.com/psa/"
    config = ClientConfig(provider="psa", provider_token="x", pin_api_url=address)
    assert AsyncPSAProvider(config)._api.request("GET", "/pins").url == f"{address}pins"


# Faults


FAILURE = {"error": {"reason": "SOME_REASON", "details": "in the service's words"}}


@pytest.mark.parametrize("body", [b"<html>Log in</html>", b"", b"[]", b"{}", b'{"results":5}'])
async def test_a_reply_of_something_else_is_an_error(server, psa_client, body):
    """Of lists, `test_pin_pages.py` has all forms."""
    server.reply(200, body, headers={"Content-Type": "text/html"})
    with pytest.raises(ProviderError, match="not that of a pinning service"):
        await psa_client.test_connection()
    server.reply(401, FAILURE)
    with pytest.raises(AuthenticationError, match="HTTP error 401"):
        await psa_client.test_connection()


@pytest.mark.parametrize("changes", ODD_ROWS, ids=str)
async def test_a_row_of_another_form_is_no_new_pin(server, psa_client, changes):
    server.reply(200, results())
    server.reply(202, {**row(status="queued"), **changes})
    with pytest.raises(ProviderError, match="is not a pin request"):
        await psa_client.pin(HELLO_CID)


async def test_a_lost_reply_to_a_deletion_is_a_success(server):
    config = psa_config(server, retries={"attempts": 3, "base": 0.01, "cap": 0.02})
    server.reply(200, results(row()))
    server.reply(hang_up=True)
    server.reply(404, FAILURE)
    async with AsyncClient.init(config) as client:
        assert await client.revoke(HELLO_CID) is True
    assert [request.method for request in server.requests] == ["GET", "DELETE", "DELETE"]
