# WARNING: this file is generated from tests/_async/test_hints.py
# by scripts/generate_sync.py. Change the original instead.
"""What errors say beyond what is wrong: the hint that stands in a note of the error."""

import io
import itertools
import pickle
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.errors import (
    ConfigError,
    InvalidCIDError,
    NetworkError,
    SerializationError,
)
from holdfast.hints import Hint, advise, hint_of
from holdfast.testing import running_node
from tests.support import HELLO_CID, TOKEN, config_for
from tests.witness import assert_no_secret_in

TEXT_NOTE = "a string is the path of a file; for the text itself, give its bytes: text.encode()"


pytestmark = pytest.mark.usefixtures("without_proxies")


@pytest.mark.parametrize("value", [{"a": 1}, {}, 5, None, 1.5, [{"a": 1}], [1, 2], ["a"]], ids=repr)
def test_an_upload_of_a_json_value_names_store(server, client, value):
    with pytest.raises(TypeError, match="to store a JSON value, use `store`") as caught:
        client.upload(value)
    assert "give" in str(caught.value)
    assert server.requests == []


@pytest.mark.parametrize(
    "text",
    ["hello", "", "x" * 5000, "a\0b", "\ud800"],
    ids=["word", "empty", "long", "zero byte", "lone surrogate"],
)
def test_an_upload_of_text_says_how(server, client, text):
    with pytest.raises((OSError, ValueError)) as caught:
        client.upload(text)
    assert caught.value.__notes__ == [TEXT_NOTE]
    assert server.requests == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("~/x", "~ and * are not expanded: use Path.expanduser() or Path.glob()"),
        ("d/*.txt", "~ and * are not expanded: use Path.expanduser() or Path.glob()"),
        (HELLO_CID, "this is a CID: use `pin` or `download`"),
        (
            "QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn/a",
            "this is a CID: use `pin` or `download`",
        ),
    ],
)
def test_an_upload_of_a_text_that_is_no_plain_path_has_its_own_note(client, text, words):
    with pytest.raises(FileNotFoundError) as caught:
        client.upload(text)
    assert caught.value.__notes__ == [words]


def test_a_target_that_is_no_path_is_named(client):
    targets = (io.BytesIO(), 3, b"x.bin")
    for call, target in itertools.product((client.download, client.download_folder), targets):
        with pytest.raises(TypeError, match=r"^to must be a path as a str or a Path, not "):
            call(HELLO_CID, to=target)


def test_a_file_that_is_missing_is_the_error_of_open(server, client, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: 'hello'"):
        client.upload("hello")
    with pytest.raises(FileNotFoundError) as caught:
        client.upload(tmp_path / "hello")
    assert hint_of(caught.value) is None  # who gives a path means a file
    (outcome,) = [outcome for outcome in client.upload_many(["hello"])]
    assert outcome.error.__notes__ == [TEXT_NOTE]


CONVERSIONS = "convert it first: `.isoformat()`, `list(…)`, `dataclasses.asdict(…)`"


@pytest.mark.parametrize(
    "value", [{1}, datetime(2026, 1, 1, tzinfo=UTC), [object()]], ids=["set", "time", "object"]
)
def test_a_value_that_json_lacks_has_a_note_about_conversions(server, client, value):
    with pytest.raises(SerializationError, match="cannot be written as JSON: Object") as caught:
        client.store(value)
    assert caught.value.__notes__ == [CONVERSIONS]
    assert server.requests == []


def test_a_name_in_the_place_of_options_says_how(server, client):
    for options in ("report", {"name": "report"}):
        for call in (client.store, client.upload):
            with pytest.raises(TypeError, match=r"a name is a keyword: name=…$"):
                call(b"1", options)
    assert server.requests == []


def test_a_provider_by_position_says_how():
    with pytest.raises(ConfigError, match=r"not str; .*init\(provider=\"pinata\"\)$"):
        Client.init("pinata")


def test_a_name_in_the_place_of_a_cid_names_pins(client):
    with pytest.raises(InvalidCIDError) as caught:
        client.retrieve("name:report")
    assert caught.value.__notes__[1:] == ["find the CID with `client.pins(name=…)`"]


@pytest.mark.parametrize("value", [b"x", bytearray(b"x"), Path("a.txt"), io.BytesIO()])
def test_a_file_that_is_stored_as_json_names_upload(server, client, value):
    with pytest.raises(SerializationError, match="cannot be written as JSON") as caught:
        client.store(value)
    assert caught.value.__notes__ == ["for files and bytes, use `upload`"]
    with pytest.raises(SerializationError) as caught:
        client.store({"a": value})
    assert caught.value.__notes__ == [CONVERSIONS]
    assert server.requests == []


def test_a_file_that_is_read_as_json_names_download(tmp_path):
    with Client.init(path=tmp_path) as client:
        record = client.upload(b"\xff")
        with pytest.raises(SerializationError, match="is not JSON") as caught:
            client.retrieve(record.cid)
    assert caught.value.__notes__ == ["for content that is not JSON, use `download`"]
    assert hint_of(caught.value).on_command_line.endswith("use `holdfast download`")


def test_a_record_in_place_of_its_cid(tmp_path):
    with Client.init(path=tmp_path) as client:
        record = client.store([1])
        for call in (client.retrieve, client.download, client.revoke):
            with pytest.raises(InvalidCIDError) as caught:
                call(record)
            assert str(caught.value) == "Invalid CID"
            assert caught.value.reason == "a CID is a string, not ClientRecord"
            assert caught.value.__notes__ == [
                "a CID is a string, not ClientRecord",
                "give the CID of the ClientRecord: its attribute `cid`",
            ]


NEITHER = "neither a CIDv0 nor a CIDv1 in base32, base36 or base58btc"
IPNS = "IPNS names are not resolved; give a CID"
PATH = "a path inside a CID cannot be used here, only a CID"


@pytest.mark.parametrize(
    ("value", "note"),
    [
        ("report.pdf", f"'report.pdf' is not a CID: {NEITHER}"),
        ("x?token=t0p#s3cret", f"'x' is not a CID: {NEITHER}"),
        (
            "https://me:pw@h.example/ipfs/x?a=b",
            f"'https://h.example/ipfs/x' is not a CID: {NEITHER}",
        ),
        ("a\nb\x1b[2J\u202e", f"'a\\nb\\x1b[2J\\u202e' is not a CID: {NEITHER}"),
        ("x" * 81, f"'{'x' * 79}…' is not a CID: {NEITHER}"),
        (f"eyJhbGciOi.{'x' * 20}.y", f"a text that looks like a secret is not a CID: {NEITHER}"),
        ("age-secret-key-1xyz", f"a text that looks like a secret is not a CID: {NEITHER}"),
        ("/ipns/docs.ipfs.tech", f"'/ipns/docs.ipfs.tech' is not a CID: {IPNS}"),
        ("ipns://docs.ipfs.tech/a", f"'ipns://docs.ipfs.tech/a' is not a CID: {IPNS}"),
        ("https://x-y.ipns.dweb.link", f"'https://x-y.ipns.dweb.link' is not a CID: {IPNS}"),
        (f"{HELLO_CID}/a", f"'{HELLO_CID}/a' is not a CID: {PATH}"),
        (5, "a CID is a string, not int"),
    ],
    ids=str,
)
def test_an_invalid_cid_has_a_note_with_the_value_and_the_reason(tmp_path, value, note):
    with Client.init(path=tmp_path) as client:
        with pytest.raises(InvalidCIDError) as caught:
            client.revoke(value)
    notes = [note, "`stat` returns its CID"] if note.endswith(PATH) else [note]
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    for error in (caught.value, copy):
        assert (str(error), error.details, error.__notes__) == ("Invalid CID", note, notes)


def test_wrong_calls_name_the_client(client):
    name = Client.__name__
    with pytest.raises(
        TypeError, match=rf"does not implement .*; to configure .* use {name}\.init\("
    ):
        Client()
    for fields in ({"path": "x"}, {"provider": "pinata", "provider_token": TOKEN}):
        words = rf"^{name}\(\) has no argument '(path|provider_token)'; .* use {name}\.init\("
        with pytest.raises(TypeError, match=words) as caught:
            Client(**fields)
        assert_no_secret_in(caught.value, only=TOKEN)
    with pytest.raises(TypeError, match=rf"^{name}\.download\(\) missing 1 required"):
        client.download()
    for method in ("store", "upload", "pins", "copy", "entries", "share"):
        assert getattr(Client, method).__qualname__ == f"{name}.{method}"


@pytest.mark.parametrize(
    ("fields", "source"),
    [
        ({"provider": "pinning"}, "make an API key at https://app.pinata.cloud, and use its JWT"),
        (
            {"provider": "psa", "pin_api_url": "https://api.pinata.cloud/psa"},
            "make an API key at https://app.pinata.cloud, and use its JWT",
        ),
        (
            {"provider": "pinning", "pin_api_url": "localhost:5317"},
            "use the token that `holdfast node` shows when it starts, or the one you gave it",
        ),
        (
            {"provider": "psa", "pin_api_url": "psa.example.com"},
            "use a token that the service at psa.example.com has given you",
        ),
    ],
    ids=str,
)
def test_a_missing_token_says_where_to_get_one(fields, source):
    with pytest.raises(ConfigError, match="provider_token is missing: provider") as caught:
        Client.init(**fields)
    assert hint_of(caught.value) == Hint(
        f"{source}; without an account, use provider='local'",
        f"{source}; without an account, use --provider local",
    )
    assert caught.value.__notes__ == [hint_of(caught.value).note]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("token", "'provider_token'"),
        ("apiKey", "'provider_token'"),
        ("pinataJwt", "'provider_token'"),
        ("gateway", "'gateway_url'"),
        ("api_url", "'pin_api_url'"),
        ("url", "'pin_api_url' or 'gateway_url'"),
        ("timeout", "'timeouts'"),
        ("verify_ssl", "'ssl_context'"),
    ],
)
def test_an_unknown_field_is_answered_with_the_one_that_is_meant(name, meant):
    secret = "eyJhbGciOi-secret"
    for call in (
        lambda: Client.init(**{name: secret}),
        lambda: Client.init({name: secret}),
    ):
        with pytest.raises(ConfigError) as caught:
            call()
        assert str(caught.value) == f"unknown field {name!r}: did you mean {meant}?"


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("pinnata", "did you mean 'pinata'?"),
        ("ipfs", "did you mean 'kubo'?"),
        ("IPFS-Cluster", "did you mean 'cluster'?"),
        ("disk", "did you mean 'local'?"),
        ("pinning_service", "did you mean 'pinning' or 'psa'?"),
        ("folder", None),  # the provider of a guide
        ("provider_d", None),
        ("dropbox", None),
    ],
)
def test_an_unknown_provider_lists_real_names_and_suggests(name, question):
    with pytest.raises(ConfigError) as caught:
        Client.init(provider=name)
    listed = "car, cluster, copies, gateway, kubo, local, pinata, pinning, psa"
    assert str(caught.value).startswith(f"unknown provider {name!r}: use one of {listed}")
    assert "provider_b" not in str(caught.value)
    assert getattr(caught.value, "__notes__", []) == ([question] if question else [])


def failure_of(server, **changes):
    fields = {"pin_api_url": "https://pins.invalid", "retries": {"attempts": 1}, **changes}
    with Client.init(config_for(server, **fields)) as client:
        with pytest.raises(NetworkError) as caught:
            client.store(1)
    assert "Basic" not in repr(vars(caught.value))
    return caught.value


@pytest.mark.parametrize(
    "name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "Https_Proxy"]
)
@pytest.mark.parametrize("proxy", ["http://user:p4ssword@127.0.0.1:1", "user:p4ssword@127.0.0.1:1"])
def test_a_proxy_that_is_not_used_is_named_and_its_password_is_not(
    server, monkeypatch, name, proxy
):
    monkeypatch.setenv(name, proxy)
    error = failure_of(server, retries={"attempts": 2, "base": 0.001})
    assert str(error).startswith("cannot find the host pins.invalid")
    note = f"{name} is set, but not used: set trust_env=True to use it"
    assert error.__notes__ == [note, "after 2 attempts"]
    assert hint_of(error).on_command_line.endswith("set HOLDFAST_TRUST_ENV=true to use it")
    assert "p4ssword" not in repr(vars(error))


@pytest.mark.parametrize(
    ("variables", "changes"),
    [
        ({}, {}),
        ({"HTTPS_PROXY": ""}, {}),
        ({"HTTP_PROXY": "http://127.0.0.1:1"}, {}),  # for plain HTTP only
        ({"HTTPS_PROXY": "http://127.0.0.1:1", "NO_PROXY": "pins.invalid"}, {}),
        ({"HTTPS_PROXY": "http://127.0.0.1:1", "no_proxy": "*"}, {}),
        ({"HTTPS_PROXY": "http://127.0.0.1:1"}, {"trust_env": True}),
        ({"HTTPS_PROXY": "http://127.0.0.1:1"}, {"proxy": "http://127.0.0.1:1"}),
        ({"ALL_PROXY": "socks5://127.0.0.1:1"}, {}),  # `trust_env` would refuse it
        (
            {"HTTP_PROXY": "http://127.0.0.1:1"},
            {"pin_api_url": "http://127.0.0.1:1"},
        ),  # this machine
    ],
    ids=str,
)
def test_no_proxy_is_named_that_would_not_be_used(server, monkeypatch, variables, changes):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert hint_of(failure_of(server, **changes)) is None


def test_a_read_names_the_proxy_too(server, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    gateways = ["https://a.invalid", "https://b.invalid"]
    with Client.init(config_for(server, gateway_url=gateways)) as client:
        with pytest.raises(NetworkError) as caught:
            client.retrieve(HELLO_CID)
    assert "HTTPS_PROXY is set" in "\n".join(caught.value.__notes__)


def test_a_server_without_tls_is_answered_with_the_scheme(server):
    with running_node() as node:
        secure = node.api_url.replace("http://", "https://")
        error = failure_of(server, pin_api_url=secure)
    assert str(error).startswith("no secure connection to 127.0.0.1")
    words = "the server may speak plain HTTP: write http:// before its address"
    assert error.__notes__ == [words]


def test_the_first_hint_stays_and_survives_pickling():
    error = advise(SerializationError("wrong"), "do this", "type this")
    assert advise(error, "do that") is error
    copied = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (copied.__notes__, hint_of(copied)) == (["do this"], Hint("do this", "type this"))
    assert TOKEN not in repr(copied)
