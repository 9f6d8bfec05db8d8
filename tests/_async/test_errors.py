"""The error table of the spec, row by row, and every error body that the service may send."""

import pytest

from holdfast import AsyncClient
from holdfast.errors import (
    AuthenticationError,
    InvalidCIDError,
    NetworkError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
    SerializationError,
)
from tests.support import HELLO_CID, TOKEN, closed_port_url, config_for

CALLS = {
    "store": ({"a": 1},),
    "send": ("alice", "hi"),
    "upload": (b"hello",),
    "revoke": (HELLO_CID,),
    "test_connection": (),
}
each_call = pytest.mark.parametrize("call", CALLS)

TEXT = {"Content-Type": "text/plain; charset=utf-8"}
HTML = {"Content-Type": "text/html"}
JSON = {"Content-Type": "application/json"}


async def failure_of(client, call):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the tests look at it closely
        await getattr(client, call)(*CALLS[call])
    return caught.value


@each_call
async def test_the_provider_rejects_and_its_details_are_the_message(server, client, call):
    server.reply(400, {"error": {"reason": "SOME_REASON", "details": "These are the details"}})
    error = await failure_of(client, call)
    assert type(error) is ProviderError
    assert str(error) == error.message == "These are the details"
    assert (error.name, error.status) == ("ProviderError", 400)
    assert error.details == "These are the details"


@each_call
@pytest.mark.parametrize(
    "body",
    [{"error": {"reason": "INVALID_CREDENTIALS", "details": "Invalid/expired credentials"}}, b""],
)
async def test_an_invalid_token_is_http_error_401(server, client, call, body):
    server.reply(401, body)
    error = await failure_of(client, call)
    assert type(error) is AuthenticationError
    assert str(error) == "HTTP error 401"
    assert error.details == ("Invalid/expired credentials" if body else None)


@each_call
async def test_a_token_without_access_is_http_error_403_or_the_details(server, client, call):
    server.reply(403)
    error = await failure_of(client, call)
    assert type(error) is PermissionDeniedError
    assert str(error) == "HTTP error 403"
    details = "This key does not have the required scopes associated with it"
    server.reply(403, {"error": {"reason": "NO_SCOPES_FOUND", "details": details}})
    error = await failure_of(client, call)
    assert type(error) is PermissionDeniedError
    assert str(error) == details


@each_call
async def test_a_provider_out_of_reach_is_a_network_error(server, call):
    config = config_for(server, pin_api_url=closed_port_url())
    async with await AsyncClient.init(config) as client:
        error = await failure_of(client, call)
    assert type(error) is NetworkError
    assert isinstance(error, ConnectionError)
    assert "cannot connect to 127.0.0.1" in str(error)
    assert "refused" in str(error)


@pytest.mark.parametrize("call", ["store"])
async def test_a_circular_value_is_a_serialization_error(server, client, call):
    value = {}
    value["self"] = value
    with pytest.raises(SerializationError, match=r"(?i)circular"):
        await getattr(client, call)(value)
    assert server.requests == []


async def test_text_that_is_no_unicode_is_a_serialization_error_of_send(server, client):
    with pytest.raises(SerializationError):
        await client.send("alice", "\ud800")
    assert server.requests == []


@pytest.mark.parametrize("given", ["", "   ", "https://ipfs.io/ipfs/", "/ipfs//?x"])
async def test_revoke_of_an_empty_cid_is_invalid_cid(server, client, given):
    with pytest.raises(InvalidCIDError) as caught:
        await client.revoke(given)
    assert str(caught.value) == "Invalid CID"
    assert server.requests == []


@pytest.mark.parametrize(
    ("headers", "body", "message"),
    [
        (JSON, {"error": {"reason": "R", "details": "D"}}, "D"),
        (JSON, {"error": {"reason": "R", "details": "D", "message": "M"}}, "D"),
        (JSON, {"error": {"reason": "R", "message": "M"}}, "M"),
        (JSON, {"error": {"reason": "R"}}, "R"),
        (JSON, {"error": {"reason": "R", "details": ""}}, "R"),
        (JSON, {"error": {"reason": "R", "details": {"a": 1}}}, "R"),
        (JSON, {"error": "Invalid request format."}, "Invalid request format."),
        (JSON, {"error": "E", "message": "M"}, "E"),
        (JSON, {"error": {}, "message": "M"}, "M"),
        (JSON, {"message": "M"}, "M"),
        (JSON, {"message": 5}, "HTTP error 422"),
        (JSON, {}, "HTTP error 422"),
        (JSON, [], "HTTP error 422"),
        (JSON, b'{"error": "bro', "HTTP error 422"),
        (JSON, b"", "HTTP error 422"),
        ({}, b"", "HTTP error 422"),
        (TEXT, b"Something is wrong", "Something is wrong"),
        (TEXT, b"Something\r\n is\twrong\n", "Something is wrong"),
        (TEXT, b"x" * 600, "x" * 500),
        (TEXT, b"   ", "HTTP error 422"),
        (TEXT, b"<!DOCTYPE html><html></html>", "HTTP error 422"),
        (TEXT, b'{"error": "in JSON"}', "in JSON"),
        (HTML, b"<html><body>502 Bad Gateway</body></html>", "HTTP error 422"),
        (HTML, b'{"error": {"details": "D"}}', "D"),
        ({}, b"Something is wrong", "HTTP error 422"),
        ({"Content-Type": "image/png"}, b"\x89PNG\xff\xfe", "HTTP error 422"),
    ],
)
async def test_every_known_error_body_is_read(server, client, headers, body, message):
    server.reply(422, body, headers=headers)
    error = await failure_of(client, "store")
    assert type(error) is ProviderError
    assert str(error) == message
    assert error.status == 422


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ProviderError),
        (402, ProviderError),
        (404, NotFoundError),
        (413, ProviderError),
        (429, RateLimitError),
        (500, ProviderError),
        (502, ProviderError),
        (503, ProviderError),
        (504, ProviderError),
    ],
)
async def test_any_other_failed_status_is_http_error_and_the_status(server, client, status, kind):
    server.reply(status, b"<html></html>", headers=HTML)
    error = await failure_of(client, "revoke")
    assert type(error) is kind
    assert str(error) == f"HTTP error {status}"
    assert error.status == status


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_of_the_pin_api_are_not_followed(server, other_server, client, status):
    server.reply(status, b"moved", headers={**TEXT, "Location": f"{other_server.url}/x"})
    error = await failure_of(client, "store")
    assert str(error) == f"HTTP error {status}"
    assert other_server.requests == []


async def test_a_rate_limit_tells_how_long_to_wait(server, client):
    server.reply(429, {"error": "slow down"}, headers={"Retry-After": "60"})
    error = await failure_of(client, "store")
    assert (str(error), error.retry_after) == ("slow down", 60)


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("0", 0),
        ("abc", None),
        ("-5", None),
        ("1.5", None),
        ("", None),
        ("Mon, 01 Jan 2024 00:00:00 GMT", 0),
        ("Mon, 01 Jan 2024 00:00:00 +99999999999999", None),
    ],
)
async def test_a_wait_may_be_a_date_and_nonsense_counts_as_none(server, client, value, wait):
    server.reply(429, headers={"Retry-After": value})
    assert (await failure_of(client, "store")).retry_after == wait


async def test_the_request_id_is_kept(server, client):
    server.reply(500, headers={"X-Request-Id": "req-17"})
    assert (await failure_of(client, "store")).request_id == "req-17"


async def test_a_provider_that_echoes_the_token_does_not_get_it_into_the_error(server, client):
    server.reply(400, {"error": f"bad token {TOKEN} given"})
    error = await failure_of(client, "store")
    assert str(error) == "bad token ******** given"
    assert TOKEN not in repr(vars(error))


async def test_a_huge_error_page_is_cut(server, client):
    server.reply(500, b"x" * 5_000_000, headers=TEXT)
    assert str(await failure_of(client, "store")) == "x" * 500
