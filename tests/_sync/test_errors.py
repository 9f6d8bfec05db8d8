# WARNING: this file is generated from tests/_async/test_errors.py
# by scripts/generate_sync.py. Change the original instead.
"""The error table of the spec, row by row, and text of a peer that would forge a line of a log.

Each status and error body is a row of `tests/test_protocol.py`.
"""

import logging
import re
import traceback

import pytest

from holdfast import Client
from holdfast.errors import (
    AuthenticationError,
    ClientError,
    NetworkError,
    PermissionDeniedError,
    ProviderError,
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


def failure_of(client, call):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the tests look at it closely
        getattr(client, call)(*CALLS[call])
    return caught.value


@each_call
def test_the_provider_rejects_and_its_details_are_the_message(server, client, call):
    server.reply(400, {"error": {"reason": "SOME_REASON", "details": "These are the details"}})
    error = failure_of(client, call)
    assert type(error) is ProviderError
    assert str(error) == error.message == "These are the details"
    assert (error.name, error.status) == ("ProviderError", 400)
    assert error.details == "These are the details"


@each_call
@pytest.mark.parametrize(
    "body",
    [{"error": {"reason": "INVALID_CREDENTIALS", "details": "Invalid/expired credentials"}}, b""],
)
def test_an_invalid_token_is_http_error_401(server, client, call, body):
    server.reply(401, body)
    error = failure_of(client, call)
    assert type(error) is AuthenticationError
    assert str(error) == "HTTP error 401"
    assert error.details == ("Invalid/expired credentials" if body else None)


@each_call
def test_a_token_without_access_is_http_error_403_or_the_details(server, client, call):
    server.reply(403)
    error = failure_of(client, call)
    assert type(error) is PermissionDeniedError
    assert str(error) == "HTTP error 403"
    details = "This key does not have the required scopes associated with it"
    server.reply(403, {"error": {"reason": "NO_SCOPES_FOUND", "details": details}})
    error = failure_of(client, call)
    assert type(error) is PermissionDeniedError
    assert str(error) == details


@each_call
def test_a_provider_out_of_reach_is_a_network_error(server, call):
    config = config_for(server, pin_api_url=closed_port_url())
    with Client.init(config) as client:
        error = failure_of(client, call)
    assert type(error) is NetworkError
    assert isinstance(error, ConnectionError)
    assert "cannot connect to 127.0.0.1" in str(error)
    assert "refused" in str(error)


def test_a_circular_value_is_a_serialization_error(server, client):
    value = []
    value.append(value)
    with pytest.raises(SerializationError, match=r"(?i)circular"):
        client.store(value)
    assert server.requests == []


def test_a_huge_error_page_is_cut(server, client):
    server.reply(500, b"x" * 5_000_000, headers={"Content-Type": "text/plain; charset=utf-8"})
    assert str(failure_of(client, "store")) == "x" * 500


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


def shown_of(server, name, caplog):
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
        with Client.init(config) as client:
            with pytest.raises(ClientError) as caught:
                PROVIDERS[name](client)
    error = caught.value
    lines = [record.getMessage() for record in caplog.records]
    lines += [str(value) for value in vars(error).values()]
    lines += [str(error), *getattr(error, "__notes__", [])]
    lines += [str(getattr(event, field)) for event in events for field in ("peer", "error", "cid")]
    lines += [line.rstrip("\n") for line in traceback.format_exception_only(error)]
    return error, lines


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("status", [400, 404, 500])
def test_words_of_a_peer_cannot_forge_a_line_of_a_log(server, caplog, provider, status):
    headers = {"X-Request-Id": as_sent("7\u2028\u202e\x9b")}
    for _ in range(4):  # a gateway is asked in several ways
        server.reply(status, FAILED, headers=headers)
    error, lines = shown_of(server, provider, caplog)
    assert [line for line in lines if UNSAFE.search(line)] == []
    if isinstance(error, ProviderError) and error.details is not None:
        assert error.details == SHOWN
        assert error.request_id.startswith("7")


def test_the_reason_of_a_failed_pin_cannot_forge_a_line_of_a_log(server, caplog):
    server.reply(200, results())
    server.reply(202, row(status="failed", info={"status_details": FORGED}))
    error, lines = shown_of(server, "psa", caplog)
    assert [line for line in lines if UNSAFE.search(line)] == []
    assert error.details == SHOWN


@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
def test_a_token_with_a_control_character_inside_does_not_become_whole(server, client, kind):
    echo = f"bad token {TOKEN[:9]}\x00{TOKEN[9:]}"
    body = echo.encode() if kind == "text/plain" else {"error": {"details": echo}}
    server.reply(400, body, headers={"Content-Type": kind})
    error = failure_of(client, "store")
    assert TOKEN not in repr([str(error), error.details])


@pytest.mark.parametrize(
    "location", ["https://a\u2028b\u202e.example/", "//\x9b[2J/", "/ipfs/\x85"]
)
def test_the_target_of_a_redirect_cannot_forge_a_line_of_a_log(server, caplog, location):
    server.reply(302, headers={"Location": as_sent(location)})
    _, lines = shown_of(server, "gateway", caplog)
    assert [line for line in lines if UNSAFE.search(line)] == []
