import pytest

from holdfast.errors import ProviderError
from tests.support import TOKEN

WELCOME = "Congratulations! You are communicating with the Pinata API!"


async def test_test_connection_asks_for_authentication_and_returns_true(server, client):
    server.reply(200, {"message": WELCOME})
    assert await client.test_connection() is True
    (request,) = server.requests
    assert (request.method, request.target) == ("GET", "/data/testAuthentication")
    assert request.body == b""
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    "body",
    [b"<html>Please log in</html>", b"", b"OK", {}, [], {"message": 5}, {"message": None}],
)
async def test_a_success_without_a_message_is_a_provider_error(server, client, body):
    server.reply(200, body)
    with pytest.raises(ProviderError, match="pin_api_url"):
        await client.test_connection()


@pytest.mark.parametrize("status", [400, 401, 403, 500])
async def test_test_connection_never_returns_false(server, client, status):
    server.reply(status)
    with pytest.raises(ProviderError):
        await client.test_connection()
