"""The token is on the wire to the pin API, and nowhere else."""

import logging
import pickle
import traceback

import pytest

import holdfast
from holdfast import AsyncClient, AsyncLocalProvider, ClientConfig
from holdfast.records import PinInfo
from tests.support import (
    EMPTY_FILE_V0,
    GATEWAY_TOKEN,
    HELLO_CID,
    TOKEN,
    closed_port_url,
    config_for,
    pinned,
)

PACKAGE = str(holdfast.__path__[0])
PASSWORD = "proxy-pass-0123456789"
SECRETS = (TOKEN, GATEWAY_TOKEN, PASSWORD)


def assert_clean(text, *, only=None):
    for secret in [only] if only else SECRETS:
        assert secret not in text


def assert_no_secret_in(error, *, only=None):
    """Look at all that a traceback printer, a debugger or an error tracker would show."""
    seen = set()
    pending = [error]
    while pending:
        each = pending.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        assert_clean(str(each) + repr(each) + repr(vars(each)), only=only)
        for frame, _ in traceback.walk_tb(each.__traceback__):
            if frame.f_code.co_filename.startswith(PACKAGE):
                for name, value in frame.f_locals.items():
                    assert_clean(f"{name} {value!r}", only=only)
        pending += [each.__cause__, each.__context__]
    assert_clean("".join(traceback.format_exception(error)), only=only)


CALLS = {
    "store": ({"a": 1},),
    "send": ("alice", "hi"),
    "upload": (b"hello" * 1000,),
    "revoke": (HELLO_CID,),
    "test_connection": (),
    "retrieve": (HELLO_CID,),
    "download": (HELLO_CID,),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "reply",
    [
        {"status": 401, "body": {"error": {"details": f"token {TOKEN} / {GATEWAY_TOKEN} is bad"}}},
        {"status": 500, "body": TOKEN.encode(), "headers": {"Content-Type": "text/plain"}},
        {"hang_up": True},
        {"status": 200, "body": b"nonsense", "cut": 3},
        {"status": 200, "body": b"x", "delay": 1},
        None,
    ],
    ids=["echo", "text echo", "hang up", "cut", "time-out", "refused"],
)
async def test_no_error_shows_a_secret(server, call, reply):
    url = server.url if reply else closed_port_url()
    config = config_for(
        server,
        pin_api_url=url,
        gateway_url=url,
        gateway_token=GATEWAY_TOKEN,
        timeouts={"read": 0.2, "total": 0.3},
    )
    # Each peer knows one of the two; the other in an echo is the test's own making.
    is_read = call in {"retrieve", "download"}
    if reply:
        server.reply(**reply)
    async with await AsyncClient.init(config) as client:
        with pytest.raises(holdfast.errors.ClientError) as caught:
            await getattr(client, call)(*CALLS[call])
    assert_no_secret_in(caught.value, only=GATEWAY_TOKEN if is_read else TOKEN)


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
    for given, keywords in (((fields,), {}), ((), fields), ((ClientConfig(),), fields)):
        with pytest.raises(holdfast.errors.ConfigError, match="without gateway_url") as caught:
            await AsyncClient.init(*given, **keywords)
        assert_no_secret_in(caught.value)


async def test_a_secret_in_a_variable_is_not_shown_when_another_variable_is_wrong(monkeypatch):
    monkeypatch.setenv("HOLDFAST_PROVIDER_TOKEN", TOKEN)
    monkeypatch.setenv("HOLDFAST_GATEWAY_URL", f"https://user:{PASSWORD}@gw.example")
    monkeypatch.setenv("HOLDFAST_VERIFY", "perhaps")
    with pytest.raises(holdfast.errors.ConfigError, match="HOLDFAST_VERIFY") as caught:
        ClientConfig.from_env(gateway_token=GATEWAY_TOKEN)
    assert_no_secret_in(caught.value)


async def test_no_repr_shows_a_secret(server):
    config = config_for(
        server, gateway_token=GATEWAY_TOKEN, proxy=f"http://user:{PASSWORD}@127.0.0.1:1"
    )
    async with await AsyncClient.init(config) as client:
        for each in (client, client.config, client.provider, client.provider._api):
            assert_clean(repr(each) + str(each))
        request = next(client.provider._api.add_json(b"1", PinInfo(name="x")))
        assert_clean(repr(request) + repr(client.provider.reader._gateways._peers))


async def test_nothing_with_a_token_can_be_pickled(server):
    config = config_for(server)
    async with await AsyncClient.init(config) as client:
        for each in (config, client, client.config.provider_token):
            with pytest.raises(TypeError):
                pickle.dumps(each)
    proxied = ClientConfig(proxy=f"http://user:{PASSWORD}@127.0.0.1:1")
    with pytest.raises(TypeError):
        pickle.dumps(proxied)


async def test_no_log_record_shows_a_secret(server, caplog):
    config = config_for(server, gateway_token=GATEWAY_TOKEN)
    with caplog.at_level(logging.DEBUG):
        async with await AsyncClient.init(config) as client:
            server.reply(200, pinned())
            await client.store({"a": 1})
            server.reply(200, pinned())
            await client.upload(b"hello")
            server.reply(200, b"")
            await client.download(EMPTY_FILE_V0)
            server.reply(401, {"error": {"details": TOKEN}})
            with pytest.raises(holdfast.errors.AuthenticationError):
                await client.test_connection()
    assert caplog.records
    for record in caplog.records:
        assert_clean(record.getMessage() + repr(vars(record)))


async def test_the_token_never_goes_to_a_gateway_even_on_the_same_origin(server):
    config = config_for(server, pin_api_url=server.url, gateway_url=server.url)
    server.reply(200, b"hello")
    async with await AsyncClient.init(config) as client:
        await client.download(HELLO_CID)
    assert TOKEN.encode() not in server.requests[0].raw


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_the_token_never_goes_to_another_origin(server, other_server, client, status):
    server.reply(status, headers={"Location": f"{other_server.url}/pinning/pinJSONToIPFS"})
    with pytest.raises(holdfast.errors.ProviderError):
        await client.store({"a": 1})
    assert other_server.requests == []


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


async def test_a_secret_in_a_variable_is_not_shown(monkeypatch):
    monkeypatch.setenv("HOLDFAST_GATEWAY_URL", f"https://user:{PASSWORD}@gw.example")
    with pytest.raises(holdfast.errors.ConfigError, match="plain address") as caught:
        ClientConfig.from_env()
    assert_no_secret_in(caught.value)


async def test_a_token_that_an_error_text_cuts_in_two_is_not_shown(server, client):
    server.reply(500, b"x" * 480 + TOKEN.encode(), headers={"Content-Type": "text/plain"})
    with pytest.raises(holdfast.errors.ProviderError) as caught:
        await client.store(1)
    assert TOKEN[:10] not in str(caught.value)
