"""`test_connection` and `revoke`: their requests, and what their replies mean."""

import pytest

from holdfast.errors import InvalidCIDError, NotFoundError, ProviderError
from tests.support import HELLO_CID, TOKEN

WELCOME = "Congratulations! You are communicating with the Pinata API!"


async def test_test_connection_asks_for_authentication_and_returns_true(server, client):
    server.reply(200, {"message": WELCOME})
    assert await client.test_connection() is True
    (request,) = server.requests
    assert (request.method, request.target) == ("GET", "/data/testAuthentication")
    assert request.body == b""
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("status", [400, 401, 403, 500])
async def test_test_connection_never_returns_false(server, client, status):
    server.reply(status)
    with pytest.raises(ProviderError):
        await client.test_connection()


@pytest.mark.parametrize("status", [200, 202, 204])
async def test_revoke_deletes_the_pin_and_returns_true(server, client, status):
    server.reply(status, b"OK" if status == 200 else b"", headers={"Content-Type": "text/plain"})
    assert await client.revoke(HELLO_CID) is True
    (request,) = server.requests
    assert (request.method, request.target) == ("DELETE", f"/pinning/unpin/{HELLO_CID}")
    assert request.body == b""
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


async def test_revoke_of_a_path_inside_a_cid_is_invalid_cid(server, client):
    with pytest.raises(InvalidCIDError, match=r"^Invalid CID$"):
        await client.revoke(f"/ipfs/{HELLO_CID}/a.json")
    assert server.requests == []


async def test_revoke_of_what_is_not_pinned_is_the_providers_error(server, client):
    details = f"The current user has not pinned the cid: {HELLO_CID}"
    body = {"error": {"reason": "CURRENT_USER_HAS_NOT_PINNED_CID", "details": details}}
    server.reply(400, body)
    with pytest.raises(NotFoundError) as caught:
        await client.revoke(HELLO_CID)
    assert str(caught.value) == details
    assert caught.value.status == 400
    assert len(server.requests) == 1
