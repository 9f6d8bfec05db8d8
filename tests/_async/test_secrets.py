"""The token is on the wire to the pin API, and nowhere else; nor is one that a peer sends back.

Each form and place of a credential in a reply is a row of `tests/test_secret.py`.
"""

import json
import logging
import pickle
import traceback

import pytest

import holdfast
from holdfast import AsyncClient, AsyncLocalProvider, ClientConfig
from holdfast.content.profiles import KUBO_LEGACY_CIDV1
from holdfast.errors import ClientError, ProviderError
from holdfast.testing import Scripted, ScriptedServer
from tests.content import Blocks
from tests.dags import Dag
from tests.faulty import gateway_of
from tests.pinata import LINK_QUERY, file_row, files, uploaded, v3_config
from tests.psa import CALLS as PSA_CALLS
from tests.psa import psa_config, results, row
from tests.support import (
    GATEWAY_TOKEN,
    HELLO_CID,
    TOKEN,
    closed_port_url,
    config_for,
    pinned,
    raw_cid,
    wait_until,
)
from tests.witness import (
    FORMS,
    PASSWORD,
    assert_clean,
    assert_clean_log,
    assert_no_secret_in,
    forms_of,
)

TREE, _ = Blocks.of_file(b"x" * 600_000, KUBO_LEGACY_CIDV1)
CALLS = {
    "store": lambda client: client.store({"a": 1}),
    "send": lambda client: client.send("alice", "hi"),
    "upload": lambda client: client.upload(b"hello" * 1000),
    "revoke": lambda client: client.revoke(HELLO_CID),
    "test_connection": lambda client: client.test_connection(),
    "pins": lambda client: client.pins(),
    "retrieve": lambda client: client.retrieve(HELLO_CID),
    "download": lambda client: client.download(HELLO_CID),
    "download of a tree": lambda client: client.download(str(TREE)),
    "open": lambda client: client.open(str(TREE)),
}
READS = {"retrieve", "download", "download of a tree", "open"}
RETRIES = {"attempts": 4, "base": 0.01, "cap": 0.05}


def token_for(operation):
    # Each peer knows one of the two.
    return GATEWAY_TOKEN if operation in READS else TOKEN


# Failures

ECHO = f"token {TOKEN} or {GATEWAY_TOKEN}"
FAULTS = {
    "401 that echoes": ({"status": 401, "body": {"error": {"details": ECHO}}}, 1),
    "400 with a request id": ({"status": 400, "body": b"", "headers": {"X-Request-Id": ECHO}}, 1),
    "503 that echoes": ({"status": 503, "body": {"error": {"reason": ECHO, "details": ECHO}}}, 4),
    "429 that echoes": (
        {"status": 429, "body": {"message": ECHO}, "headers": {"Retry-After": "0", "CF-Ray": ECHO}},
        4,
    ),
    "500 in text": (
        {"status": 500, "body": ECHO.encode(), "headers": {"Content-Type": "text/plain"}},
        4,
    ),
    "reset": ({"hang_up": True, "ending": "reset"}, 4),
    "cut": ({"status": 200, "body": b"nonsense", "cut": 3}, 4),
    "stall": ({"status": 200, "body": b"nonsense", "cut": 3, "ending": "stall"}, 4),
    "no HTTP": ({"raw": f"{ECHO}\r\n\r\n".encode()}, 4),
    "refused": (None, 4),
}


@pytest.mark.parametrize(
    ("operation", "fault"),
    [
        *((operation, fault) for operation in ("store", "download") for fault in FAULTS),
        *((operation, "503 that echoes") for operation in CALLS if operation not in READS),
        *((operation, "stall") for operation in ("upload", "retrieve")),
    ],
)
async def test_nothing_that_is_said_of_failures_holds_a_secret(server, caplog, operation, fault):
    reply, attempts = FAULTS[fault]
    for _ in range(attempts if reply else 0):
        server.reply(**reply)
    events = []
    url = server.url if reply else closed_port_url()
    config = config_for(
        server,
        pin_api_url=url,
        gateway_url=url,
        retries=RETRIES,
        timeouts={"connect": 10, "read": 0.1, "write": 10, "total": 20},
        gateway_token=GATEWAY_TOKEN,
        on_event=events.append,
    )
    # The other one in an echo is the test's own making.
    forms = [token_for(operation)]
    with caplog.at_level(logging.DEBUG):
        async with await AsyncClient.init(config) as client:
            with pytest.raises(ClientError) as caught:
                await CALLS[operation](client)
    if reply:
        wait_until(lambda: len(server.requests) == attempts)
    kinds = [event.kind for event in events]
    assert (kinds.count("request"), kinds.count("retry")) == (attempts, attempts - 1)
    assert (kinds[-1], events[-1].error) == ("call", type(caught.value).__name__)
    assert_no_secret_in(caught.value, forms=forms)
    assert_clean("\n".join(getattr(caught.value, "__notes__", [])), forms=forms)
    assert_clean(repr(events) + repr([pickle.dumps(event) for event in events]), forms=forms)
    assert caplog.records
    assert_clean_log(caplog.records, forms=forms)


# Configurations, reprs, pickles and logs


@pytest.mark.parametrize(
    "fields",
    [
        {"provider": "dropbox", "provider_token": TOKEN},
        {"provider_token": TOKEN},
        {"provider": "pinning", "provider_token": f"{TOKEN} {TOKEN}"},
        {"provider": "pinning", "provider_token": TOKEN.encode()},
        {"provider": "pinning", "provider_token": [TOKEN]},
        {"provider": TOKEN},
        {"provider": "dropbox", "provider_options": {"key": TOKEN}},
        {"provider_options": TOKEN},
        {"provider": "pinning", "provider_token": TOKEN, "verify": 5},
        {"provider": "pinning", "provider_tokn": TOKEN},
        {"provider": "pinning", "pinata_jwt": TOKEN},
        {"provider": "pinning", "provider_token": TOKEN, "pin_api_url": "http://example.com"},
        {"provider": "pinning", "gateway_url": f"https://gw.example/?token={GATEWAY_TOKEN}"},
        {"provider": "pinning", "gateway_url": [f"https://gw.example/?token={GATEWAY_TOKEN}"]},
        {"provider": "pinning", "gateway_url": f"https://x:{GATEWAY_TOKEN}@gw.example/"},
        {"provider": "pinning", "proxy": f"nonsense://u:{PASSWORD}@proxy"},
    ],
    ids=" ".join,
)
async def test_no_configuration_error_shows_a_secret(fields):
    for arguments, keywords in (((fields,), {}), ((), fields)):
        with pytest.raises(holdfast.errors.ConfigError) as caught:
            await AsyncClient.init(*arguments, **keywords)
        assert_no_secret_in(caught.value)


WRONG = {"provider_tokn": TOKEN, "pin_api_url": f"https://me:{PASSWORD}@api.example"}


@pytest.mark.parametrize(
    "entry",
    [
        ClientConfig,
        ClientConfig.of,
        ClientConfig.from_env,
        ClientConfig().with_options,
        lambda **fields: ClientConfig.of(None, **fields),
        lambda **fields: ClientConfig.of(ClientConfig(), **fields),
        lambda **fields: AsyncClient(AsyncLocalProvider(ClientConfig())).with_options(**fields),
    ],
)
async def test_no_entry_to_the_configuration_shows_a_secret(entry, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for name, value in WRONG.items():
        with pytest.raises(holdfast.errors.ConfigError) as caught:
            entry({name: value}) if entry == ClientConfig.of else entry(**{name: value})
        assert_no_secret_in(caught.value)


async def test_options_of_a_provider_are_in_no_frame_when_another_field_is_wrong():
    fields = {"provider_options": {"key": TOKEN}, "gateway_token": GATEWAY_TOKEN}
    for arguments, keywords in (((fields,), {}), ((), fields), ((ClientConfig(),), fields)):
        with pytest.raises(holdfast.errors.ConfigError, match="without gateway_url") as caught:
            await AsyncClient.init(*arguments, **keywords)
        assert_no_secret_in(caught.value)


@pytest.mark.parametrize(
    ("verify", "words"), [("true", "plain address"), ("perhaps", "HOLDFAST_VERIFY")]
)
async def test_a_secret_in_a_variable_is_not_shown(monkeypatch, verify, words):
    monkeypatch.setenv("HOLDFAST_PROVIDER_TOKEN", TOKEN)
    monkeypatch.setenv("HOLDFAST_GATEWAY_URL", f"https://user:{PASSWORD}@gw.example")
    monkeypatch.setenv("HOLDFAST_VERIFY", verify)
    with pytest.raises(holdfast.errors.ConfigError, match=words) as caught:
        ClientConfig.from_env(gateway_token=GATEWAY_TOKEN)
    assert_no_secret_in(caught.value)


async def test_the_token_never_goes_to_a_gateway_even_on_the_same_origin(server):
    config = config_for(server, pin_api_url=server.url, gateway_url=server.url)
    server.reply(200, b"hello")
    async with await AsyncClient.init(config) as client:
        await client.download(HELLO_CID)
    assert TOKEN.encode() not in server.requests[0].raw


async def test_an_error_of_the_progress_function_brings_no_secret_along(server, client):
    def progress(done, total):
        raise LookupError("from the caller")

    with pytest.raises(LookupError) as caught:
        await client.upload(b"x" * 3_000_000, progress=progress)
    assert_no_secret_in(caught.value)
    for frame, _ in traceback.walk_tb(caught.value.__traceback__):
        assert_clean(repr(frame.f_locals) if frame.f_code.co_filename != __file__ else "")


async def test_a_token_in_place_of_a_configuration_is_not_shown():
    for make in (AsyncClient.init, ClientConfig.of):
        with pytest.raises(holdfast.errors.ConfigError, match="not str") as caught:
            await make(TOKEN)
        assert_no_secret_in(caught.value)
    with pytest.raises(TypeError) as wrong:
        AsyncClient(TOKEN)
    assert_no_secret_in(wrong.value)


async def test_a_token_that_an_error_text_cuts_in_two_is_not_shown(server, client):
    server.reply(500, b"x" * 480 + TOKEN.encode(), headers={"Content-Type": "text/plain"})
    with pytest.raises(holdfast.errors.ProviderError) as caught:
        await client.store(1)
    assert TOKEN[:10] not in str(caught.value)


# A peer that sends a credential back


async def watch(operation, raw, caplog, form="as it is"):
    """Make a call to a peer that replies with `raw`, where ECHO stands for a credential.

    Nothing that a user, a log or a hook could see of it holds the credential.
    """
    token = token_for(operation)
    raw = raw.replace(b"ECHO", FORMS[form](token).encode())
    forms, events = forms_of(token), []
    with ScriptedServer(lambda _: Scripted(raw=raw)) as server, caplog.at_level(logging.DEBUG):
        config = config_for(
            server,
            gateway_token=GATEWAY_TOKEN,
            timeouts={"read": 5, "total": 5},
            on_event=events.append,
        )
        async with await AsyncClient.init(config) as client:
            try:
                assert_clean(repr(await CALLS[operation](client)), forms=forms)
            except ClientError as error:
                assert_no_secret_in(error, forms=forms)
    assert_clean(repr(events), forms=forms)
    assert_clean_log(caplog.records, forms=forms)


def reply_with(status, *fields, body=b"", reason="OK", more=0):
    """A reply whose head declares `more` bytes than come."""
    lines = [f"HTTP/1.1 {status} {reason}", *fields]
    if not any(field.startswith(("Content-Length", "Transfer")) for field in fields):
        lines.append(f"Content-Length: {len(body) + more}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


EVERYWHERE = (
    "X-Echo: ECHO",
    "ECHO: 1",
    "Content-Type: text/ECHO",
    "X-Request-Id: ECHO",
    "Set-Cookie: token=ECHO; Path=/",
    "Set-Cookie: ECHO,/;=x",
    "Set-Cookie: \x01ECHO=2",
    "Location: https://elsewhere.example/?token=ECHO",
    "Content-Encoding: ECHO",
    "Content-Range: bytes ECHO",
    "Retry-After: ECHO",
)
JSON = b'[{"IpfsHash": "ECHO", "message": "ECHO", "error": "ECHO"}, {"rows": [{"id": "ECHO"}]}]'
ELSEWHERE = {
    "no field": reply_with(404, "ECHO is not a field", body=b"{}"),
    "a folded field": reply_with(404, "X-A: b\r\n ECHO", body=b"{}"),
    "two lengths": reply_with(404, "Content-Length: 3", "Content-Length: ECHO", body=b"{}"),
    "a length": reply_with(404, "Content-Length: ECHO", body=b"{}"),
    "a transfer encoding": reply_with(404, "Transfer-Encoding: ECHO", body=b"{}"),
    "a location of ours": reply_with(302, "Location: /ipfs/ECHO"),
    "a host": reply_with(302, "Location: https://ECHO.example/"),
    "no HTTP": b"ECHO",
    "a status": b"HTTP/1.1 ECHO\r\n\r\n",
    "a version": b"ECHO/1.1 200 OK\r\n\r\n",
    "an informational reply": b"HTTP/1.1 103 Hints\r\nX-A: ECHO\r\n\r\n" + reply_with(404),
    "a trailer": b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: ECHO\r\n\r\n",
    "an error in a trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n0\r\nX-Stream-Error: ECHO\r\n\r\n",
    "a good reply": reply_with(200, body=b'{"IpfsHash": "ECHO"}'),
    "a reply that is cut": reply_with(200, body=b'{"IpfsHash": "ECHO', more=5),
    "content": reply_with(200, body=b"ECHO"),
}


@pytest.mark.parametrize("operation", ["store", "pins", "download", "download of a tree", "open"])
@pytest.mark.parametrize("status", [200, 206, 302, 404, 429])
async def test_a_credential_echoed_everywhere_is_not_shown(operation, status, caplog):
    # No content is expected of a gateway where this is the reply to a read.
    body = b"" if operation in READS and status < 300 else JSON
    raw = reply_with(status, *EVERYWHERE, body=body, reason="ECHO")
    for form in ("as it is", "quoted in part"):
        await watch(operation, raw, caplog, form)


@pytest.mark.parametrize("operation", ["store", "download", "open"])
@pytest.mark.parametrize("raw", ELSEWHERE.values(), ids=ELSEWHERE)
async def test_a_credential_echoed_elsewhere_is_not_shown(operation, raw, caplog):
    await watch(operation, raw, caplog)


@pytest.mark.parametrize(
    ("location", "form"),
    [("/?a=ECHO", "hex"), ("https://ECHO.example/", "as it is"), ("//x.example/#ECHO", "quoted")],
)
async def test_a_redirect_to_an_address_with_a_credential_is_not_followed(server, location, form):
    target = location.replace("ECHO", FORMS[form](GATEWAY_TOKEN))
    server.reply(302, headers={"Location": target})
    config = config_for(server, gateway_token=GATEWAY_TOKEN)
    async with await AsyncClient.init(config) as client:
        with pytest.raises(ProviderError) as caught:
            await client.download(HELLO_CID)
    assert str(caught.value) == (
        f"127.0.0.1:{server.port} redirects to a URL that contains a credential; "
        "it was not followed"
    )
    assert len(server.requests) == 1


async def test_content_that_holds_a_credential_is_read_as_it_is(server):
    content = f'{{"backup": "{GATEWAY_TOKEN} {TOKEN}"}}'.encode()
    config = config_for(server, gateway_token=GATEWAY_TOKEN)
    async with await AsyncClient.init(config) as client:
        for _ in range(2):
            server.reply(200, content)
        assert (await client.download(raw_cid(content))).read() == content
        assert await client.retrieve(raw_cid(content)) == json.loads(content)


async def test_a_block_that_holds_a_credential_is_read_as_it_is():
    # That of a directory with a file of such a name.
    content = f"{GATEWAY_TOKEN} {TOKEN}".encode()
    dag = Dag()
    named = dag.directory(**{GATEWAY_TOKEN: dag.raw(content)})
    script = gateway_of(dag.blocks, lambda _: Scripted(body=content))
    with ScriptedServer(script) as server:
        config = config_for(server, gateway_token=GATEWAY_TOKEN)
        async with await AsyncClient.init(config) as client:
            assert (await client.download(f"{named}/{GATEWAY_TOKEN}")).read() == content


async def test_a_short_credential_does_not_spoil_replies(server):
    # "bytes" or "1" stand in many a head: nothing so short is masked there.
    server.reply(200, b"hello")
    server.reply(200, pinned())
    config = config_for(server, gateway_token="1", provider_token="IpfsHas")
    async with await AsyncClient.init(config) as client:
        assert (await client.download(HELLO_CID)).read() == b"hello"
        assert (await client.store("hello")).cid == HELLO_CID


# Services: the key goes to the API and nowhere else, and no link is shown

SIGNATURE = "c0ffee0123456789abcdef"
V3_CALLS = {
    **PSA_CALLS,
    "store": lambda client: client.store({"a": 1}),
    "upload": lambda client: client.upload(b"hello" * 1000),
    "retrieve": lambda client: client.retrieve(HELLO_CID),
    "signed_url": lambda client: client.signed_url(HELLO_CID, expires=5),
    "signed_upload_url": lambda client: client.signed_upload_url(expires=5),
}
SERVICE_CALLS = [("pinata", call) for call in V3_CALLS] + [("psa", call) for call in PSA_CALLS]
SERVICE_REPLIES = {
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
    + [(service, "pin", name) for service in ("pinata", "psa") for name in SERVICE_REPLIES],
)
async def test_no_error_or_log_shows_the_token(server, caplog, service, call, name):
    caplog.set_level(logging.DEBUG)
    reply = SERVICE_REPLIES[name]
    url = server.url if reply else closed_port_url()
    for _ in range(3 if reply else 0):
        server.reply(**reply)
    config = config_of(service, server, call, pin_api_url=url, gateway_url=url)
    async with AsyncClient.init(config) as client:
        with pytest.raises(ClientError) as caught:
            await V3_CALLS[call](client)
    assert_no_secret_in(caught.value, only=TOKEN)
    for record in caplog.records:
        assert_clean(record.getMessage() + repr(vars(record)), only=TOKEN)


@pytest.mark.parametrize("service", ["pinning", "pinata", "psa"])
async def test_no_repr_or_pickle_shows_a_secret(server, service):
    proxy = f"http://user:{PASSWORD}@127.0.0.1:1"
    config = config_of(service, server, gateway_token=GATEWAY_TOKEN, proxy=proxy)
    async with AsyncClient.init(config) as client:
        shared = (client, client.config, client.config.proxy, client.provider._api)
        request = next(client.provider._api.check_credentials())
        gateways = getattr(client.provider.reader, "_gateways", None)
        for value in (*shared, client.provider, gateways, request):
            assert_clean(repr(value) + str(value))
        for value in (*shared, client.config.provider_token, ClientConfig(proxy=proxy)):
            with pytest.raises(TypeError):
                pickle.dumps(value)


async def test_each_address_gets_the_key_for_its_own_calls(server, other_server):
    """Three hosts: the API, the uploads, and a gateway, which gets no key."""
    server.reply(200, files(file_row()))
    server.reply(200, {"data": None})
    other_server.reply(200, b"hello")
    with ScriptedServer() as uploads:
        uploads.reply(200, uploaded())
        uploads.reply(200, {"data": "https://example.com/x"})
        urls = {"upload_url": f"{uploads.url}/v3", "gateway_url": other_server.url}
        config = v3_config(server, **urls, gateway_token=GATEWAY_TOKEN)
        async with AsyncClient.init(config) as client:
            await client.upload(b"hello")
            await client.signed_upload_url(expires=5)
            await client.revoke(HELLO_CID)
            await client.download(HELLO_CID)
    assert [request.target for request in uploads.requests] == ["/v3/files", "/v3/files/sign"]
    assert [request.method for request in server.requests] == ["GET", "DELETE"]
    for request in (*server.requests, *uploads.requests):
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        assert GATEWAY_TOKEN.encode() not in request.raw
    (read,) = other_server.requests
    assert TOKEN.encode() not in read.raw
    assert read.headers["x-pinata-gateway-token"] == GATEWAY_TOKEN


async def test_a_link_gets_neither_the_key_nor_the_token_of_the_gateway(server, other_server):
    """Also where the gateway redirects to another host."""
    config = v3_config(server, network="private", gateway_token=GATEWAY_TOKEN)
    server.reply(200, {"data": f"{server.url}/files/{HELLO_CID}?{LINK_QUERY}"})
    server.reply(302, headers={"Location": f"{other_server.url}/elsewhere"})
    other_server.reply(200, b"hello")
    async with AsyncClient.init(config) as client:
        assert (await client.download(HELLO_CID)).read() == b"hello"
    for request in (server.requests[1], *other_server.requests):
        for secret in (TOKEN, GATEWAY_TOKEN):
            assert secret.encode() not in request.raw
    assert SIGNATURE.encode() not in other_server.requests[0].raw


@pytest.mark.parametrize(
    "reply",
    [{"status": 404}, {"status": 200, "body": b"other"}, {"hang_up": True}, {"status": 307}],
    ids=str,
)
async def test_a_failed_read_does_not_show_its_link(server, caplog, reply):
    caplog.set_level(logging.DEBUG)
    link = f"{server.url}/files/{HELLO_CID}?X-Signature={SIGNATURE}"
    server.reply(200, {"data": link})
    for _ in range(3):
        server.reply(**reply)
    async with AsyncClient.init(v3_config(server, network="private")) as client:
        with pytest.raises(ClientError) as caught:
            await client.download(HELLO_CID)
    assert any(SIGNATURE in request.target for request in server.requests)
    assert_no_secret_in(caught.value, only=SIGNATURE)
    for record in caplog.records:
        assert_clean(record.getMessage() + repr(vars(record)), only=SIGNATURE)
