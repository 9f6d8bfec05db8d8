"""The error table of the spec, row by row, and every error body that the service may send."""

import logging
import re
import traceback

import pytest

from holdfast import AsyncClient
from holdfast.errors import (
    AuthenticationError,
    ClientError,
    InvalidCIDError,
    NetworkError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
    SerializationError,
)
from tests.psa import results, row
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


# Words of a peer that would change how other text is shown

FORGED = "no\r\n2026 INFO  fine\x00\x1b\x7f\x85\x9b\u061c\u200e\u2028\u2029\u202e\u2066\u2069"
SHOWN = r"no\r\n2026 INFO  fine\x00\x1b\x7f\x85\x9b\u061c\u200e\u2028\u2029\u202e\u2066\u2069"
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
FAILED = {"error": {"reason": FORGED, "details": FORGED}, "message": FORGED, "Message": FORGED}
PROVIDERS = {
    "pinning": lambda client: client.store([1]),
    "pinata": lambda client: client.store([1]),
    "psa": lambda client: client.pin(HELLO_CID),
    "kubo": lambda client: client.store([1]),
    "cluster": lambda client: client.pins(),
    "gateway": lambda client: client.retrieve(HELLO_CID),
}


def as_sent(text):
    """Text of a header in UTF-8, for a server that writes Latin-1."""
    return text.encode().decode("latin-1")


async def shown_of(server, name, caplog):
    """The error of a call, and the lines of its log and of its traceback."""
    provider = "pinning" if name == "gateway" else name
    token = {} if provider in {"kubo", "cluster"} else {"provider_token": TOKEN}
    events = []
    config = {
        "provider": provider,
        "pin_api_url": server.url,
        "gateway_url": f"{server.url}/ipfs",
        "retries": {"attempts": 1},
        "on_event": events.append,
        **token,
    }
    with caplog.at_level(logging.DEBUG):
        async with await AsyncClient.init(config) as client:
            with pytest.raises(ClientError) as caught:
                await PROVIDERS[name](client)
    error = caught.value
    lines = [record.getMessage() for record in caplog.records]
    lines += [
        repr(value) if not isinstance(value, str) else value for value in vars(error).values()
    ]
    lines += [str(error), *getattr(error, "__notes__", [])]
    lines += [str(getattr(event, field)) for event in events for field in ("peer", "error", "cid")]
    lines += [line.rstrip("\n") for line in traceback.format_exception_only(error)]
    return error, lines


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("status", [400, 404, 500])
async def test_words_of_a_peer_cannot_forge_a_line_of_a_log(server, caplog, provider, status):
    headers = {"X-Request-Id": as_sent("7\u2028\u202e\x9b")}
    for _ in range(4):  # a gateway is asked in several ways
        server.reply(status, FAILED, headers=headers)
    error, lines = await shown_of(server, provider, caplog)
    assert [line for line in lines if UNSAFE.search(line)] == []
    if isinstance(error, ProviderError) and error.details is not None:
        assert error.details == SHOWN
        assert error.request_id.startswith("7")


@pytest.mark.parametrize("provider", ["pinning", "psa"])
async def test_the_details_are_the_message_without_control_characters(server, caplog, provider):
    server.reply(400, FAILED)
    error, _ = await shown_of(server, provider, caplog)
    assert (str(error), error.details) == (SHOWN, SHOWN)


async def test_the_reason_of_a_failed_pin_cannot_forge_a_line_of_a_log(server, caplog):
    server.reply(200, results())
    server.reply(202, row(status="failed", info={"status_details": FORGED}))
    error, lines = await shown_of(server, "psa", caplog)
    assert [line for line in lines if UNSAFE.search(line)] == []
    assert error.details == SHOWN


@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
async def test_a_token_with_a_control_character_inside_does_not_become_whole(server, client, kind):
    echo = f"bad token {TOKEN[:9]}\x00{TOKEN[9:]}"
    body = echo.encode() if kind == "text/plain" else {"error": {"details": echo}}
    server.reply(400, body, headers={"Content-Type": kind})
    error = await failure_of(client, "store")
    assert TOKEN not in repr([str(error), error.details])


@pytest.mark.parametrize(
    "location", ["https://a\u2028b\u202e.example/", "//\x9b[2J/", "/ipfs/\x85"]
)
async def test_the_target_of_a_redirect_cannot_forge_a_line_of_a_log(server, caplog, location):
    server.reply(302, headers={"Location": as_sent(location)})
    _, lines = await shown_of(server, "gateway", caplog)
    assert [line for line in lines if UNSAFE.search(line)] == []


@pytest.mark.parametrize(
    "words", ["two  spaces\u00a0and\u3000wide", "\U0001f468\u200d\U0001f469", "é"]
)
async def test_words_without_control_characters_are_the_message_as_they_are(server, client, words):
    server.reply(400, {"error": {"details": words}})
    assert str(await failure_of(client, "store")) == words
