"""The hints of commands: below the message, what to do about it."""

import json

import pytest

from tests.support import HELLO_CID

ONCE = "[retries]\nattempts = 1\n"


def hint(commands, *arguments, **options):
    """The only line below the message, which is also the remedy for machines, without notes."""
    _, lines = commands.failure(*arguments, **options)
    message, shown = lines[-2:]
    assert message.startswith("error: ")
    _, lines = commands.failure(*arguments, "--json", **options)
    error = json.loads(lines[-1])["error"]
    assert shown == f"hint: {error['remedy']}"
    assert "notes" not in error
    return shown.removeprefix("hint: ")


@pytest.mark.parametrize("command", [("upload",), ("cid",)])
def test_text_in_the_place_of_a_file(commands, command):
    words = "check the path; for text, write it to standard input, and give - as the file; "
    words += "for a JSON value, use `holdfast store`"
    for text in ("hello", '{"a": 1}'):
        assert hint(commands, *command, text) == words


def test_a_folder_with_links(commands):
    (commands.folder / "photos").mkdir()
    (commands.folder / "photos" / "out").symlink_to("/etc/passwd")
    cid = commands.text("upload", "photos")
    assert hint(commands, "download", cid, "copy") == "add --symlinks to write links"
    words = "download the other entries one by one; `holdfast ls CID` lists them"
    assert hint(commands, "download", cid, "copy", "--symlinks") == words


def test_a_folder_that_only_seems_to_be_empty(commands):
    (commands.folder / "photos").mkdir()
    (commands.folder / "photos" / ".hidden").touch()
    service = {"HOLDFAST_PROVIDER": "pinning", "HOLDFAST_PROVIDER_TOKEN": "x"}
    words = "hidden names were left out: 1; --include-hidden uploads them"
    assert hint(commands, "upload", "photos", **service) == words


def test_an_unknown_provider(commands):
    assert hint(commands, "store", "1", "--provider", "pinnata") == "did you mean 'pinata'?"


def test_a_missing_token(commands):
    source = "make an API key at https://app.pinata.cloud, and use its JWT"
    assert hint(commands, "store", "1", "--provider", "pinning") == source
    commands.write_user_file("[connections.service]\nprovider = 'pinata'\n")
    assert hint(commands, "store", "1", "--use", "service") == source
    result = commands.run("connections", "--json")
    assert json.loads(result.stdout)[0]["error"]["remedy"] == source


def test_another_name_of_a_setting(commands):
    commands.write_user_file("token = 'x'\n")
    _, lines = commands.failure("store", "1")
    assert lines[0].endswith("unknown field 'token': did you mean 'provider_token'?")


def test_a_proxy_that_is_not_used(commands):
    commands.write_user_file(ONCE)
    unreachable = {
        "HOLDFAST_PROVIDER": "pinning",
        "HOLDFAST_PROVIDER_TOKEN": "x",
        "HOLDFAST_PIN_API_URL": "pins.invalid",
    }
    words = "HTTPS_PROXY is set, but not used: set HOLDFAST_TRUST_ENV=true to use it"
    proxy = {"HTTPS_PROXY": "http://user:p4ss@127.0.0.1:1"}
    assert hint(commands, "test-connection", **unreachable, **proxy) == words
    trusting = {**unreachable, **proxy, "HOLDFAST_TRUST_ENV": "true"}
    assert "HTTPS_PROXY" not in hint(commands, "test-connection", **trusting)


@pytest.mark.parametrize(
    ("provider", "gateways", "api"),
    [
        ("local", None, None),
        ("kubo", None, "http://127.0.0.1:5001"),
        ("cluster", ["http://127.0.0.1:8080/ipfs"], "http://127.0.0.1:9094"),
        (
            "pinning",
            ["https://gateway.pinata.cloud/ipfs", "https://ipfs.io/ipfs"],
            "https://api.pinata.cloud",
        ),
    ],
)
def test_the_addresses_of_a_provider_are_shown(commands, provider, gateways, api):
    shown = commands.json("config", "--provider", provider)
    assert shown["gateway_url"] == {"value": gateways, "source": "default"}
    assert shown["pin_api_url"] == {"value": api, "source": "default"}
    for address in (*(gateways or ()), *([api] if api else [])):
        assert address in commands.text("config", "--provider", provider)


def test_addresses_without_a_scheme(commands):
    given = ("--gateway-url", "example.mypinata.cloud", "--gateway-url", "localhost:8080")
    shown = commands.json("config", *given, HOLDFAST_PIN_API_URL="127.0.0.1:5001")
    expected = ["https://example.mypinata.cloud/ipfs", "http://localhost:8080/ipfs"]
    assert shown["gateway_url"]["value"] == expected
    assert shown["pin_api_url"]["value"] == "http://127.0.0.1:5001"
    commands.write_user_file("gateway_url = ['example.mypinata.cloud']\n")
    assert commands.json("config")["gateway_url"]["value"] == expected[:1]


def test_a_multiaddr_of_kubo(commands):
    api = ("--provider", "kubo", "--pin-api-url", "/ip4/127.0.0.1/tcp/5001")
    _, lines = commands.failure("list", *api)
    words = "pin_api_url is a multiaddr: write http://127.0.0.1:5001"
    assert lines[0] == f"error: --pin-api-url: {words}"


def test_a_port_that_is_taken(commands, node):
    port = node.api_url.rpartition(":")[2]
    code, lines = commands.failure("node", "--port", port)
    assert (code, lines[0].startswith(f"error: cannot listen on 127.0.0.1:{port}: ")) == (3, True)
    words = "another program listens there, perhaps a node: give another --port"
    assert lines[1] == f"hint: {words}"


def test_a_gateway_with_a_cid(commands):
    _, lines = commands.failure("retrieve", HELLO_CID, "--gateway-url", f"ipfs.io/ipfs/{HELLO_CID}")
    alone = "give the gateway alone, https://ipfs.io/ipfs"
    assert lines[0] == f"error: --gateway-url: gateway_url holds a CID: {alone}"
