"""Records, messages, options, blobs, errors, secrets and the configuration, as values."""

import copy
import importlib
import inspect
import json
import pickle
from dataclasses import FrozenInstanceError
from urllib.parse import urlsplit

import pytest

import holdfast
from holdfast import Blob, ClientConfig, ClientMessage, ClientRecord, Retries, Timeouts, errors
from holdfast.config.checks import PROFILES
from holdfast.config.secret import Scrubber, Secret
from holdfast.errors import ClientError, ConfigError, SerializationError
from holdfast.protocol.pinata import PinataOptions
from holdfast.registry import BUILT_IN
from holdfast.sinks.sinks import SpoolSink
from holdfast.sources.sources import open_source
from tests.support import GATEWAY_TOKEN, HELLO_CID, TOKEN
from tests.witness import FORMS, assert_clean, forms_of

MESSAGE = ClientMessage(recipient_id="alice", payload="hi", timestamp=17)
RECORD = ClientRecord(cid=HELLO_CID, timestamp=17, data={"a": 1}, size=7)


def test_records_and_messages_are_frozen():
    for value in (RECORD, MESSAGE):
        with pytest.raises(FrozenInstanceError):
            value.timestamp = 18
        assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301


def test_records_speak_the_specs_spelling():
    fields = [("cid", HELLO_CID), ("timestamp", 17), ("data", {"a": 1}), ("size", 7)]
    assert list(RECORD.to_dict().items()) == fields
    assert ClientRecord.from_dict(json.loads(json.dumps(RECORD.to_dict()))) == RECORD
    upload = ClientRecord(cid=HELLO_CID, timestamp=17, size=7)
    assert "data" not in upload.to_dict()
    assert ClientRecord.from_dict(upload.to_dict()) == upload


def test_a_record_that_an_older_version_pickled_keeps_its_values():
    record = object.__new__(ClientRecord)
    record.__setstate__([HELLO_CID, 17, 7, None, False, 3])  # without the newest field
    assert (record.cid, record.duplicate, record.excluded) == (HELLO_CID, False, 3)
    assert record.earlier_name is None
    for one in (record, pickle.loads(pickle.dumps(record)), copy.copy(record)):  # noqa: S301 - ours
        assert repr(one) == repr(ClientRecord(**{k: getattr(record, k) for k in record.__slots__}))


def test_messages_speak_the_specs_spelling():
    assert MESSAGE.to_dict() == {"recipientId": "alice", "payload": "hi", "timestamp": 17}
    assert ClientMessage.from_dict(MESSAGE.to_dict()) == MESSAGE
    record = ClientRecord(cid=HELLO_CID, timestamp=17, data=MESSAGE, size=7)
    assert record.to_dict()["data"] == MESSAGE.to_dict()


@pytest.mark.parametrize("value", [{}, [], {"cid": 5, "timestamp": 1, "size": 1}, None])
def test_a_record_of_another_shape_is_a_serialization_error(value):
    with pytest.raises(SerializationError):
        ClientRecord.from_dict(value)


def test_a_blob_is_a_plain_value(tmp_path):
    blob = Blob(b"hello", type="text/plain", name="a.txt")
    assert (blob.size, len(blob), blob.type, blob.name) == (5, 5, "text/plain", "a.txt")
    assert (blob.read(), bytes(blob), blob.text()) == (b"hello", b"hello", "hello")
    with blob.open() as first, blob.open() as second:
        assert first.read(2) + second.read(2) == b"hehe"
    assert blob.save(tmp_path / "out") == tmp_path / "out"
    assert (tmp_path / "out").read_bytes() == b"hello"
    assert repr(blob) == "<Blob: 5 bytes, type='text/plain', name='a.txt'>"
    assert bool(Blob(b""))
    again = pickle.loads(pickle.dumps(blob))  # noqa: S301
    assert (again.read(), again.type, again.name) == (b"hello", "text/plain", "a.txt")
    with pytest.raises(TypeError, match="encode text first"):
        Blob("text")
    for fields in ({"name": 5}, {"type": 5}):
        with pytest.raises(TypeError, match="are strings"):
            Blob(b"", **fields)
    with pytest.raises(UnicodeDecodeError):
        Blob(b"\xff").text()


def test_saving_a_blob_is_atomic_and_replaces_a_link(tmp_path):
    (tmp_path / "real").write_bytes(b"before")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    Blob(b"after").save(tmp_path / "link")
    assert (tmp_path / "link").read_bytes() == b"after"
    assert (tmp_path / "real").read_bytes() == b"before"
    assert not (tmp_path / "link").is_symlink()
    with pytest.raises(IsADirectoryError):
        Blob(b"x").save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_a_spooled_blob_outlives_its_sink_but_not_itself(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sink = SpoolSink()
    sink.write(b"first")
    sink.read_all().close()  # as a finish does; the sink can be filled again
    sink.restart()
    sink.write(b"x" * 3_000_000)
    sink.restart()
    sink.write(b"y" * 5_000_000)
    sink.commit()
    blob = sink.blob(type="", name=None)
    sink.discard()
    assert blob.read() == b"y" * 5_000_000
    again = pickle.loads(pickle.dumps(blob))  # noqa: S301
    del blob
    assert list(tmp_path.iterdir()) == []
    assert again.size == 5_000_000


ERRORS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_has_a_name_a_message_and_pickles(kind):
    assert issubclass(kind, ClientError)
    error = kind("one sentence")
    error.add_note("a note")
    if isinstance(error, errors.ProviderError):
        error = kind("one sentence", status=418, details="teapot", request_id="r1")
    if isinstance(error, errors.VerificationError):
        error = kind("one sentence", cid=HELLO_CID)
    for copied in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301
        assert (type(copied), copied.name) == (kind, kind.__name__)
        assert str(copied) == copied.message == "one sentence"
        assert vars(copied) == vars(error)


def test_the_error_tree_is_the_one_drawn():
    bases = {
        "ConfigError": ValueError,
        "InvalidCIDError": ValueError,
        "SerializationError": ValueError,
        "NetworkError": ConnectionError,
        "RequestTimeoutError": TimeoutError,
        "ClientClosedError": RuntimeError,
        "NotAFileError": IsADirectoryError,
    }
    for name, base in bases.items():
        assert issubclass(getattr(errors, name), base)
    assert issubclass(errors.RequestTimeoutError, errors.NetworkError)
    assert issubclass(errors.UnprovenError, errors.VerificationError)
    for kind in ERRORS:
        assert kind.__name__ in errors.__doc__


def test_the_configuration_has_the_designs_defaults():
    unset = ["provider_token", "gateway_url", "gateway_token", "pin_api_url", "profile", "path"]
    unset += ["rate_limit", "hedge_after", "cache_path", "on_event", "proxy", "ssl_context"]
    assert ClientConfig().to_dict() == {
        **dict.fromkeys(unset),
        "provider": "local",
        "cid_version": 1,
        "verify": True,
        "timeouts": Timeouts(connect=10, read=60, write=60, total=60),
        "retries": Retries(attempts=4, base=0.25, cap=20),
        "cache_bytes": 0,
        "max_json_bytes": 64 * 1024 * 1024,
        "max_unverified_bytes": 1024 * 1024 * 1024,
        "trust_env": False,
        "witness": None,
        "allow_insecure": False,
        "recipients": None,
        "identities": None,
        "provider_options": {},
    }


def test_the_configuration_is_frozen_and_hashable():
    config = ClientConfig(provider_options={"a": "hush"})
    with pytest.raises(FrozenInstanceError):
        config.verify = False
    assert hash(config) == hash(ClientConfig(provider_options={"a": "hush"}))
    assert config == pickle.loads(pickle.dumps(config)) == copy.deepcopy(config)  # noqa: S301
    assert "hush" not in repr(config)


def test_the_token_is_trimmed_and_masked():
    config = ClientConfig(provider="pinning", provider_token=f" {TOKEN}\n")
    assert config.provider_token.reveal() == TOKEN
    assert TOKEN not in repr(config)
    assert copy.deepcopy(config) == config
    assert config.with_options(verify=False).provider_token == TOKEN


def test_loopback_and_allow_insecure_permit_plain_http():
    for host in ("localhost", "127.0.0.1", "127.1.2.3", "[::1]"):
        ClientConfig(pin_api_url=f"http://{host}:5080")
    for host in ("127.0.0.1.example.com", "localhost.example.com", "10.0.0.1", "[::2]"):
        with pytest.raises(ConfigError, match="plain HTTP"):
            ClientConfig(pin_api_url=f"http://{host}")
        ClientConfig(pin_api_url=f"http://{host}", allow_insecure=True)


def test_only_a_cluster_has_several_addresses(monkeypatch):
    one, two = "https://one.example", "https://two.example/api"
    both = ClientConfig(provider="cluster", pin_api_url=[f"{one}/", two])
    assert both.api_urls == both.pin_api_url == (one, two)
    assert both.api_url == one
    assert ClientConfig(provider="kubo", pin_api_url=[one]).pin_api_url == one
    monkeypatch.setenv("HOLDFAST_PIN_API_URL", f"{one}, {two}")
    assert ClientConfig.from_env(provider="cluster").api_urls == (one, two)
    for provider in ("pinning", "kubo", "local"):
        with pytest.raises(ConfigError, match=f"provider '{provider}' accepts only one address"):
            ClientConfig(provider=provider, pin_api_url=[one, two])
    with pytest.raises(ConfigError, match="is empty"):
        ClientConfig(provider="cluster", pin_api_url=[])


def test_a_token_goes_over_plain_http_to_no_address_of_several():
    urls = ["http://127.0.0.1:9094", "http://10.0.0.1:9094"]
    ClientConfig(provider="cluster", pin_api_url=urls)
    for order in (urls, urls[::-1]):
        with pytest.raises(ConfigError, match="plain HTTP"):
            ClientConfig(provider="cluster", pin_api_url=order, provider_token="alice:secret")
    with pytest.raises(ConfigError, match="without a user name") as caught:
        ClientConfig(provider="cluster", pin_api_url=[*urls, "http://bob:hush@10.0.0.2"])
    assert "hush" not in str(caught.value)


def test_profiles_go_with_their_cid_version():
    for profile, version in PROFILES.items():
        ClientConfig(profile=profile, cid_version=version)
        with pytest.raises(ConfigError, match=f"cid_version={version}"):
            ClientConfig(profile=profile, cid_version=1 - version)


def test_the_environment_is_read_on_request_only(monkeypatch):
    values = {
        "PROVIDER": "pinning",
        "PROVIDER_TOKEN": f" {TOKEN} ",
        "GATEWAY_URL": "https://a.example, https://b.example/x/",
        "CID_VERSION": "0",
        "VERIFY": "no",
        "MAX_JSON_BYTES": "1000",
        "MAX_UNVERIFIED_BYTES": "2000",
        "PATH": "/some/where",
        "TRUST_ENV": "TRUE",
        "PROXY": "http://u:p@127.0.0.1:1",
        "TIMEOUTS": "read=20, total=0.5",
        "RETRIES": " attempts = 6 ",
        "PIN_API_URL": "",
        "NODE_TOKEN": "for somebody else",
    }
    for name, value in values.items():
        monkeypatch.setenv(f"HOLDFAST_{name}", value)
    assert ClientConfig() == ClientConfig(provider="local")
    expected = ClientConfig(
        provider="pinning",
        provider_token=TOKEN,
        gateway_url=("https://a.example/ipfs", "https://b.example/x"),
        cid_version=0,
        verify=False,
        max_json_bytes=1000,
        max_unverified_bytes=2000,
        path="/some/where",
        trust_env=True,
        proxy="http://u:p@127.0.0.1:1",
        timeouts={"read": 20, "total": 0.5},
        retries={"attempts": 6},
    )
    assert ClientConfig.from_env() == expected
    assert ClientConfig.from_env(verify=True) == expected.with_options(verify=True)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("VERIFY", "perhaps", "HOLDFAST_VERIFY must be true or false"),
        ("CID_VERSION", "one", "HOLDFAST_CID_VERSION must be a whole number"),
        ("TIMEOUTS", "5", "HOLDFAST_TIMEOUTS must be numbers by name, such as name=5"),
        ("TIMEOUTS", "read=soon", "HOLDFAST_TIMEOUTS must be numbers by name"),
        ("TIMEOUTS", "reed=5", "timeouts must be a mapping with connect, read, write, total"),
        ("TIMEOUTS", "read=0", "timeouts.read must be a number above 0"),
        ("RETRIES", "attempts=1.5", "retries.attempts must be a whole number"),
        ("HEDGE_AFTER", "soon", "HOLDFAST_HEDGE_AFTER must be a number"),
        ("ON_EVENT", "print", "on_event cannot be set from the environment"),
        ("GATEWAY_URL", "nonsense", "gateway_url must be an address"),
    ],
)
def test_a_wrong_variable_is_a_config_error(monkeypatch, name, value, words):
    monkeypatch.setenv(f"HOLDFAST_{name}", value)
    with pytest.raises(ConfigError, match=words):
        ClientConfig.from_env()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("example.mypinata.cloud", "https://example.mypinata.cloud"),
        (" Example.com/ ", "https://Example.com"),
        ("example.com:8443/a/b", "https://example.com:8443/a/b"),
        ("gateway:8080", "https://gateway:8080"),
        ("10.0.0.7", "https://10.0.0.7"),
        ("localhost", "http://localhost"),
        ("LocalHost:5001/api", "http://LocalHost:5001/api"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("[2001:db8::1]", "https://[2001:db8::1]"),
        ("http://example.com", "http://example.com"),
    ],
)
def test_an_address_without_a_scheme_is_secure_unless_it_is_this_machine(
    monkeypatch, text, address
):
    gateway = address if urlsplit(address).path else f"{address}/ipfs"
    assert ClientConfig(gateway_url=[text, text]).gateway_url == (gateway, gateway)
    assert ClientConfig(provider="kubo", pin_api_url=text).pin_api_url == address
    fields = {"provider_options": {"upload_url": text}, "allow_insecure": True}
    pinata = ClientConfig(provider="pinata", provider_token=TOKEN, **fields)
    assert PinataOptions.of(pinata).upload_url == address
    monkeypatch.setenv("HOLDFAST_GATEWAY_URL", text)
    assert ClientConfig.from_env().gateway_url == (gateway,)


@pytest.mark.parametrize(
    "address",
    [
        *("gateway", "//example.com", "/ipfs", "http//example.com", "https:example.com"),
        *("https:/example.com", "ftp:/example.com", "example.com:", "example.com:x", "::1"),
        *("mailto:me", "a..b", "[::1", "[]", "example.com\\x", "exämple.com", "ftp://example.com"),
    ],
)
def test_what_only_looks_like_an_address_is_refused(address):
    for field in ("gateway_url", "pin_api_url"):
        with pytest.raises(ConfigError, match=f"{field} must be a"):
            ClientConfig(provider="kubo", **{field: address})


def test_a_proxy_without_a_scheme_is_plain_http():
    for proxy in ("127.0.0.1:3128", "user:p4ss@proxy.example:3128", "proxy.example"):
        assert ClientConfig(proxy=proxy).proxy == f"http://{proxy}"


CID_V1 = "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi"
CID_V0 = "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKUGUz"


@pytest.mark.parametrize(
    ("url", "right"),
    [
        (f"https://ipfs.io/ipfs/{CID_V1}", "https://ipfs.io/ipfs"),
        (f"ipfs.io/ipfs/{CID_V0}/a/b.txt", "https://ipfs.io/ipfs"),
        (f"http://127.0.0.1:8080/ipfs/{HELLO_CID}/", "http://127.0.0.1:8080/ipfs"),
        (f"https://gateway.example/{CID_V1}", "https://gateway.example/ipfs"),
        (f"https://{CID_V1}.ipfs.dweb.link", "https://dweb.link/ipfs"),
        (f"{CID_V1}.ipfs.dweb.link/a/b.txt", "https://dweb.link/ipfs"),
        (f"http://{CID_V1}.ipfs.localhost:8080/", "http://localhost:8080/ipfs"),
        ("https://ipfs.io/ipfs/bafkqaaa", "https://ipfs.io/ipfs"),
    ],
)
def test_a_gateway_that_holds_a_cid_is_refused_with_the_right_one(url, right):
    for urls in (url, ["https://first.example", url]):
        with pytest.raises(ConfigError) as caught:
            ClientConfig(gateway_url=urls)
        assert str(caught.value) == f"gateway_url holds a CID: give the gateway alone, {right}"
    assert ClientConfig(gateway_url=right).gateway_url == (right,)


@pytest.mark.parametrize(
    ("url", "right"),
    [
        ("/ip4/127.0.0.1/tcp/5001", "http://127.0.0.1:5001"),
        ("/ip4/127.0.0.1/tcp/5001/http\n", "http://127.0.0.1:5001"),
        ("/ip6/::1/tcp/5001", "http://[::1]:5001"),
        ("/dns4/node.example/tcp/443/tls/http", "https://node.example:443"),
        ("/dns/node.example/tcp/443/https", "https://node.example:443"),
    ],
)
def test_a_multiaddr_is_refused_with_the_url_that_it_stands_for(url, right):
    """Kubo shows it, and has it in its file `api`."""
    with pytest.raises(ConfigError) as caught:
        ClientConfig(provider="kubo", pin_api_url=url)
    assert str(caught.value) == f"pin_api_url is a multiaddr: write {right}"
    assert ClientConfig(provider="kubo", pin_api_url=right).pin_api_url == right


def test_a_multiaddr_that_is_not_one_of_an_api_is_not_shown():
    addresses = ["/ip4/127.0.0.1/udp/4001/quic-v1", "/ip4/127.0.0.1/tcp/99999", "/ip6/1:2/tcp/5001"]
    for address in (*addresses, "/dns4/user:secret@node.example/tcp/1"):
        with pytest.raises(ConfigError, match=r"^(?!.*(multiaddr|secret))"):
            ClientConfig(provider="kubo", pin_api_url=address)


def test_a_path_before_the_cid_is_not_shown_because_it_may_be_a_key():
    with pytest.raises(ConfigError) as caught:
        ClientConfig(gateway_url=f"https://gateway.example/my-key/ipfs/{CID_V1}/a")
    assert str(caught.value) == "gateway_url holds a CID: remove it and what follows it"


@pytest.mark.parametrize(
    "url",
    [
        "https://gateway.example/baffling/ipfs",
        "https://bafybei.example/ipfs",
        "https://ipfs.example.com/Qm/x",
        f"https://x{CID_V1}.ipfs.example.com/ipfs",
        f"https://gateway.example/x{CID_V0}",
    ],
)
def test_a_gateway_whose_address_only_resembles_a_cid_is_taken(url):
    assert ClientConfig(gateway_url=url).gateway_url == (url,)


@pytest.mark.parametrize("name", [*BUILT_IN, "installed"])
def test_the_usual_gateways_are_those_of_the_provider(name):
    own = {
        "psa": ("https://ipfs.io/ipfs", "https://dweb.link/ipfs"),
        "cluster": ("http://127.0.0.1:8080/ipfs",),
        "kubo": (),
        "local": (),
        "car": (),
        "copies": (),
        "gateway": ("https://trustless-gateway.link/ipfs", "https://ipfs.io/ipfs"),
    }
    service = ("https://gateway.pinata.cloud/ipfs", "https://ipfs.io/ipfs")
    address = {"psa": {"pin_api_url": "https://psa.example"}, "car": {"path": "x.car"}}
    config = ClientConfig(provider=name, **address.get(name, {}))
    assert config.gateway_urls == own.get(name, service)
    named = config.with_options(gateway_url="https://mine.example")
    assert named.gateway_urls == ("https://mine.example/ipfs",)


def test_an_empty_provider_is_answered_with_examples():
    with pytest.raises(ConfigError, match="such as 'pinning' or 'local'"):
        ClientConfig(provider="")


@pytest.mark.parametrize("name", ["", ".content", ".providers"])
def test_everything_public_is_there_and_documented(name):
    module = importlib.import_module(f"holdfast{name}")
    for public in module.__all__:
        assert public == "__version__" or getattr(module, public).__doc__
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = module.nonsense


def test_the_package_itself_has_few_names():
    """Those of the contract, of what methods return, and of what most programs need."""
    assert len(holdfast.__all__) == 35


class AsyncFile:
    """Such as the UploadFile of a web framework."""

    async def read(self, size=-1):
        return b"never read"


async def pieces():
    yield b"never read"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (AsyncFile(), "AsyncFile: its read is async; give the file that it wraps"),
        (pieces(), "async_generator: it is an async iterable; give it to `AsyncClient.upload`"),
    ],
    ids=["file", "iterable"],
)
def test_what_is_read_with_await_is_refused_before_it_is_read(source, words):
    with pytest.raises(TypeError, match=words):
        open_source(source)


# What the peer says, with the credential in the place of ECHO.
BODIES = {
    "IpfsHash": '{"IpfsHash": "ECHO"}',
    "error": '{"error": {"details": "bad token ECHO", "reason": "ECHO"}}',
    "rows": '{"rows": [{"id": "ECHO", "ipfs_pin_hash": "ECHO", "ECHO": ["ECHO", {"a": "ECHO"}]}]}',
    "text": "you sent ECHO",
    "half of JSON": '{"IpfsHash": "ECHO',
}
FIELDS = {
    "field": ("X-Echo", "ECHO"),
    "name": ("ECHO", "1"),
    "cookie": ("Set-Cookie", "token=ECHO; Path=/"),
    "location": ("Location", "https://elsewhere.example/?token=ECHO"),
    "host of a location": ("Location", "https://ECHO.example/"),
    "range": ("Content-Range", "bytes ECHO"),
}

in_each_form = pytest.mark.parametrize("form", FORMS)
with_each_token = pytest.mark.parametrize(
    "token", [TOKEN, GATEWAY_TOKEN], ids=["token", "gateway's"]
)


def scrubber_of(token):
    return Scrubber([Secret("another-token-of-ours"), None, Secret(token).prefixed("Bearer ")])


@in_each_form
@with_each_token
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_credential_in_a_body_is_masked(form, token, body):
    data = body.replace("ECHO", FORMS[form](token)).encode()
    seen = scrubber_of(token).data(data).decode()
    assert "********" in seen
    assert_clean(seen, forms=forms_of(token))


@pytest.mark.parametrize("form", [form for form in FORMS if form != "escaped"])  # as in JSON alone
@with_each_token
@pytest.mark.parametrize(("name", "value"), FIELDS.values(), ids=FIELDS)
def test_a_credential_in_a_head_is_masked(form, token, name, value):
    echo = FORMS[form](token)
    fields = [("X-A", "b"), (name.replace("ECHO", echo), value.replace("ECHO", echo)), ("x-a", "c")]
    seen = scrubber_of(token).headers(fields)
    assert seen == {"x-a": "b, c", **({} if name == "ECHO" else {name.lower(): "********"})}


@pytest.mark.parametrize(
    "body",
    [b'{"a": "b"}', b'{"a": "\\u00e9\\/"}', b"100 %", b"%2F%zz", b"IpfsHas", b"\xff\\u"],
)
def test_a_body_without_a_credential_stays_as_it_is(body):
    # "IpfsHas" is a credential too: nothing so short is masked.
    scrubber = Scrubber([Secret(TOKEN), Secret("IpfsHas"), Secret("1")])
    assert scrubber.data(body) == body
    assert scrubber.headers([("A-1", "bytes 1")]) == {"a-1": "bytes 1"}


def test_the_longest_form_is_masked_first():
    token = "aaaaaaaaaaaaaaaa"
    assert Scrubber([Secret(token)]).data(f"<{token}>".encode()) == b"<********>"


def test_a_long_head_is_masked_too():
    fields = [("X-A", "b" * 100_000), ("X-Echo", TOKEN)]
    assert scrubber_of(TOKEN).headers(fields)["x-echo"] == "********"


def test_a_secret_shows_itself_nowhere():
    secret = Secret(TOKEN)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        json.dumps({"token": secret})
    assert secret == TOKEN
    assert secret == Secret(TOKEN) != Secret("another")
    assert secret not in ("another", 5)
    assert {secret: 1}[TOKEN] == 1
    assert f"{secret} {secret!r}" == "******** Secret('********')"
