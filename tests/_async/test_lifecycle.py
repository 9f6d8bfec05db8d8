import copy
import inspect
import itertools
import pickle
import re
import threading
import time
from functools import partial

import pytest

import holdfast
from holdfast import AsyncClient, AsyncLocalProvider, AsyncPinProvider
from holdfast._async.runtime import sleep
from holdfast.cli.app import COMMANDS
from holdfast.errors import ClientClosedError, ConfigError
from holdfast.hints import OTHER_METHODS
from holdfast.provider import AsyncWrappingProvider
from holdfast.providers import AsyncCopiesProvider
from holdfast.testing import Scripted, ScriptedServer, forward_to
from tests._async.parallel import assert_round_trips, in_parallel
from tests.support import HELLO_CID, TOKEN, config_for, pinned

RETRIES = {"attempts": 4, "base": 0.01, "cap": 0.05}
FIELDS = {"provider": "pinning", "provider_token": TOKEN, "retries": {"attempts": 1}}


async def test_init_takes_a_config_a_mapping_or_keywords_and_keywords_win(server):
    config = config_for(server)
    mapping = {**FIELDS, "pinApiUrl": server.url, "gatewayUrl": f"{server.url}/ipfs"}
    clients = [
        await AsyncClient.init(config),
        await AsyncClient.init(mapping),
        await AsyncClient.init(gateway_url=server.url, **FIELDS, pin_api_url=server.url),
        await AsyncClient.init({**mapping, "verify": False}, verify=True),
        await AsyncClient.init(config.with_options(cid_version=0), cid_version=1),
    ]
    for client in clients:
        assert client.config == config
        assert isinstance(client.provider, AsyncPinProvider)
        await client.aclose()
    assert server.requests == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"provider": "pinning", "provider_token": " \n"}, "provider_token is blank"),
        ({"provider": "pinning", "provider_token": "Bearer "}, "provider_token is blank"),
        ({"provider": "pinning", "provider_token": "a b"}, "provider_token holds a space"),
        ({"provider": "pinning", "provider_token": "tökén"}, "non-ASCII"),
        ({"provider": "pinning", "provider_token": 5}, "provider_token must be a string, not int"),
        ({"provider": "pinning", "provider_token": b"x"}, "must be a string, not bytes"),
        ({"provider_token": TOKEN}, "provider is 'local'"),
        ({"pin_api_url": "example"}, "pin_api_url must be an address"),
        ({"pin_api_url": "http://example.com"}, "pin_api_url would carry the token over plain"),
        ({"pin_api_url": "https://"}, "pin_api_url must be an address"),
        ({"pin_api_url": "https://x:99999"}, "pin_api_url must be an address"),
        ({"pin_api_url": "https://a..b"}, "pin_api_url must be an address"),
        ({"pin_api_url": f"https://{'a' * 64}.com"}, "pin_api_url must be an address"),
        ({"profile": []}, "profile must be one of"),
        ({"timeouts": {"total": 10**400}}, "timeouts.total must be a number above 0"),
        ({"pin_api_url": "https://exämple.com"}, "pin_api_url must be a URL in plain ASCII"),
        ({"pin_api_url": "https://example.com/a b"}, "pin_api_url must be a URL"),
        ({"pin_api_url": 5}, "pin_api_url must be a URL as a string, not int"),
        ({"gateway_url": "https://x.io/?token=1"}, "gateway_url must be a plain address"),
        ({"gateway_url": "https://u:p@x.io/"}, "gateway_url must be a plain address"),
        ({"gateway_url": "https://x.io/#a"}, "gateway_url must not hold a fragment"),
        ({"gateway_url": ["https://x.io", "nonsense"]}, "gateway_url must be an address"),
        ({"gateway_url": []}, "gateway_url is empty"),
        ({"gateway_token": "x"}, "gateway_token is given without gateway_url"),
        (
            {"gateway_token": "x", "gateway_url": "http://gw.example"},
            "gateway_url would carry the token over plain HTTP",
        ),
        ({"providerToken": "x"}, "did you mean 'provider_token'"),
        ({"cid_version": 2}, "cid_version must be 0 or 1"),
        ({"profile": "nonsense"}, "profile must be one of unixfs-v1-2025"),
        ({"profile": "unixfs-v0-2015"}, "set cid_version=0"),
        ({"verify": "no"}, "verify must be True or False"),
        ({"timeouts": 5}, "a mapping with connect, .*total; such as {'connect': 3}$"),
        ({"timeouts": {"read": -1}}, "timeouts.read must be a number above 0"),
        ({"retries": {"attempts": 0}}, "retries.attempts must be a whole number"),
        ({"retries": {"budget": 0}}, "retries.budget must be a whole number"),
        ({"rate_limit": 0}, "rate_limit must be a number above 0"),
        ({"rate_limit": "60"}, "rate_limit must be a number, not str"),
        ({"hedge_after": -1}, "hedge_after must be a number above 0"),
        ({"cache_path": 5}, "cache_path must be a path"),
        ({"on_event": "print"}, "on_event must be a function"),
        ({"max_json_bytes": 0}, "max_json_bytes must be a whole number"),
        ({"path": 5}, "path must be a path"),
        ({"proxy": "nonsense"}, "proxy must be an address"),
        ({"ssl_context": "ca.pem"}, "ssl_context must be an ssl.SSLContext"),
        ({"provider_options": 5}, "provider_options must be a mapping"),
        ({"path": "/dev/null/x"}, "path /dev/null/x cannot hold a repository"),
        ({"path": __file__}, "cannot hold a repository"),
        ({"provider": ""}, "provider must be the name of a provider"),
    ],
    ids=str,
)
async def test_bad_configuration_is_a_config_error_that_names_the_field(fields, words):
    with pytest.raises(ConfigError, match=words) as caught:
        await AsyncClient.init(**fields)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(ConfigError):
        await AsyncClient.init(fields)


async def test_what_is_no_mapping_of_fields_is_a_config_error():
    for fields, words in (
        ({"providerToken": "a", "provider_token": "b"}, "given twice"),
        ("pinning", "a ClientConfig or a mapping, not str"),
        ({1: 2}, "unknown field '1'"),
    ):
        with pytest.raises(ConfigError, match=words):
            await AsyncClient.init(fields)


@pytest.mark.parametrize("name", ["provider_b", "provider_c"])
async def test_planned_providers_create_the_pin_provider_with_a_warning(server, name):
    with pytest.warns(UserWarning, match="no implementation of its own") as caught:
        client = await AsyncClient.init(config_for(server, provider=name))
    assert caught[0].filename == __file__
    assert isinstance(client.provider, AsyncPinProvider)
    await client.aclose()


async def test_closing_twice_is_no_error_and_use_afterwards_is(server):
    async with await AsyncClient.init(config_for(server)) as client:
        await client.aclose()
    calls = {
        "store": (1,),
        "upload": (b"",),
        "send": ("alice", "hi"),
        "test_connection": (),
        **dict.fromkeys(("retrieve", "download", "receive", "revoke"), (HELLO_CID,)),
    }
    for name, arguments in calls.items():
        with pytest.raises(ClientClosedError):
            await getattr(client, name)(*arguments)
    with pytest.raises(ClientClosedError):
        async with client:
            pass
    assert server.requests == []


async def test_what_is_no_provider_is_a_type_error():
    with pytest.raises(TypeError, match="init"):
        AsyncClient({"provider": "pinning"})


async def test_with_options_is_a_copy_over_the_same_connections(server, client):
    other = client.with_options(cid_version=0, timeouts={"total": 5})
    for _ in range(3):
        server.reply(200, pinned())
    await client.store(1)
    await other.store(1)
    versions = [r.json()["pinataOptions"]["cidVersion"] for r in server.requests]
    assert versions == [1, 0]
    assert server.connections == 1
    assert (client.config.cid_version, other.config.cid_version) == (1, 0)

    await other.aclose()
    await client.store(1)
    await client.aclose()
    with pytest.raises(ClientClosedError):
        client.with_options(verify=False)


async def test_with_options_refuses_what_belongs_to_the_connections(client):
    with pytest.raises(ConfigError, match="with_options cannot change proxy"):
        client.with_options(proxy="http://127.0.0.1:1")
    with pytest.raises(ConfigError, match="unknown field 'nonsense'"):
        client.with_options(nonsense=1)


async def test_a_client_over_a_provider_has_its_configuration(server):
    provider = AsyncPinProvider(config_for(server))
    async with AsyncClient(provider) as client:
        assert client.config == provider.config
        server.reply(200, b"wrong")
        other = client.with_options(verify=False)
        assert (await other.download(HELLO_CID)).read() == b"wrong"
        with pytest.raises(ConfigError, match="with_options cannot change provider"):
            client.with_options(provider="memory")
    server.reply(200, b"hello")
    assert (await AsyncClient(provider).download(HELLO_CID)).read() == b"hello"  # it is not closed
    await provider.aclose()


async def test_url_is_a_link_at_the_first_gateway_or_that_of_the_service(server, client):
    assert client.url(HELLO_CID) == f"{server.url}/ipfs/{HELLO_CID}"
    assert client.url(f"ipfs://{HELLO_CID}/a b") == f"{server.url}/ipfs/{HELLO_CID}/a%20b"
    assert server.requests == []
    async with await AsyncClient.init(**FIELDS) as default:
        assert default.url(HELLO_CID) == f"https://gateway.pinata.cloud/ipfs/{HELLO_CID}"


async def test_the_repr_says_where_the_content_is(server, client, tmp_path):
    name = AsyncClient.__name__
    assert repr(client) == f"<{name}: {AsyncPinProvider.__name__} at {server.url}>"
    await client.aclose()
    assert repr(client).endswith(f"{server.url}, closed>")
    async with await AsyncClient.init(path=tmp_path / "a\nb") as local:
        where = f"at {tmp_path}/a\\nb>"
        assert repr(local) == f"<{name}: {AsyncLocalProvider.__name__} {where}"
        assert repr(local.with_options(verify=False)) == repr(local)
        wrapped = AsyncClient(AsyncWrappingProvider(local.provider))
        assert repr(wrapped) == f"<{name}: {AsyncWrappingProvider.__name__} {where}"
        copies = AsyncCopiesProvider([local], want=1, path=tmp_path / "ledger")
        async with AsyncClient(copies) as both:
            assert repr(both) == f"<{name}: {AsyncCopiesProvider.__name__} at local>"
        await copies.aclose()
    async with await AsyncClient.init(
        provider="gateway", gateway_url="https://g.example/KEY"
    ) as at:
        assert repr(at).endswith(" at https://g.example>")  # a path may hold a key


async def test_a_method_by_another_name_is_an_attribute_error_that_names_ours(client):
    for methods, words in OTHER_METHODS.items():
        for method in re.findall("`([^`]+)`", methods):
            owner, name = (holdfast, method[9:]) if "holdfast." in method else (client, method)
            assert name.removeprefix("holdfast ") in COMMANDS or callable(getattr(owner, name))
        for name in words.split():
            assert not hasattr(client, name)
            with pytest.raises(AttributeError) as caught:
                getattr(client, name)
            assert str(caught.value) == (
                f"'{AsyncClient.__name__}' object has no attribute {name!r}: use {methods}"
            )


async def test_the_case_and_the_underscores_of_another_name_do_not_count(client):
    for name in ("getFile", "upload_folder", "pinFileToIPFS", "pinJSONToIPFS"):
        with pytest.raises(AttributeError, match=rf"has no attribute '{name}': use `\w+`"):
            getattr(client, name)


async def test_a_client_is_neither_pickled_nor_copied(client):
    words = rf"^{AsyncClient.__name__} cannot be pickled or copied: .* use with_options\(\)"
    for function in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=words):
            function(client)


async def test_other_unknown_attributes_have_the_error_of_python(client):
    with pytest.raises(AttributeError) as caught:
        client.retrive  # noqa: B018
    assert str(caught.value) == f"'{AsyncClient.__name__}' object has no attribute 'retrive'"
    assert (caught.value.name, caught.value.obj) == ("retrive", client)  # for "Did you mean"
    assert not hasattr(AsyncClient.__new__(AsyncClient), "_provider")

    class Own(AsyncClient):
        @property
        def first(self):
            return self.provider.nonsense

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        Own(client.provider).first  # noqa: B018


def test_every_public_method_has_a_docstring_with_an_example():
    for name, member in inspect.getmembers(AsyncClient, inspect.isfunction):
        if not name.startswith("_") and name not in {"aclose", "close", "init"}:
            assert "Example:" in (member.__doc__ or ""), name


# Many calls at once, and a client that closes under them


@pytest.mark.slow
async def test_sixty_four_tasks_share_a_client_while_every_fifth_exchange_fails(node):
    forward = forward_to(node.api_url)
    counter = itertools.count(1)
    faults = itertools.cycle(
        [
            Scripted(status=503),
            Scripted(hang_up=True),
            Scripted(hang_up=True, ending="reset"),
            Scripted(status=429, headers={"Retry-After": "0"}),
        ]
    )
    lock = threading.Lock()

    def answer(request):
        with lock:
            fault = next(faults) if next(counter) % 5 == 0 else None
        return forward(request) if fault is None else fault

    with ScriptedServer(answer) as server:
        config = node.config.with_options(
            pin_api_url=server.url,
            gateway_url=f"{server.url}/ipfs",
            retries={"attempts": 10, "base": 0.01, "cap": 0.05, "budget": 1000},
        )
        async with await AsyncClient.init(config) as client:
            start = time.monotonic()
            await assert_round_trips(client, 64)
            assert time.monotonic() - start < 30
    # Four exchanges for each, and one more for each that failed.
    requests = len(server.requests)
    assert requests == 4 * 64 + requests // 5


@pytest.mark.slow
async def test_hundreds_of_calls_at_once_keep_to_the_rate_limit():
    count, interval = 300, 0.006
    arrivals = []
    lock = threading.Lock()

    def answer(request):
        with lock:
            arrivals.append(time.monotonic())
        return Scripted(body=pinned())

    with ScriptedServer(answer) as server:
        # The wait for a turn is longer than the time for a whole call, and not counted.
        config = config_for(
            server, retries=RETRIES, rate_limit=60 / interval, timeouts={"total": 1.5}
        )
        async with await AsyncClient.init(config) as client:
            start = time.monotonic()
            copy = client.with_options(cid_version=0)  # they share the limit
            records = await in_parallel(
                [partial(caller.store, 1) for caller in (client, copy)] * 150
            )
            assert time.monotonic() - start < 60
    assert [record.cid for record in records] == [HELLO_CID] * count
    assert len(arrivals) == count
    # A timer may be early by a hair.
    for number, arrival in enumerate(sorted(arrivals)):
        assert arrival - start > number * interval - 0.002


async def test_closing_while_a_call_waits_to_try_again_ends_the_call(server):
    # The wait goes on to its end, and then nothing is sent.
    server.reply(503, headers={"Retry-After": "1"})
    events = []
    config = config_for(server, retries=RETRIES, on_event=events.append)
    client = await AsyncClient.init(config)
    start = time.monotonic()

    async def fail():
        with pytest.raises(ClientClosedError):
            await client.store(1)

    async def close():
        while not any(event.kind == "retry" for event in events):
            await sleep(0.01)
        await client.aclose()

    await in_parallel([fail, close])
    assert time.monotonic() - start < 10
    assert len(server.requests) == 1
