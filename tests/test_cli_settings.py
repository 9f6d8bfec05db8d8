"""Where the command line takes its settings from, who wins, and how tokens come in."""

import json

import pytest

from holdfast.config.fields import FIELDS
from tests.support import GATEWAY_TOKEN, HELLO_CID, TOKEN

IN_FILES = [name for name, field in FIELDS.items() if field.file != "none"]
MESSAGE = {"message": "Congratulations! You are communicating with the Pinata API!"}


def setting(commands, name, *flags, **variables):
    """The value of a field and its source, as `holdfast config` shows them."""
    shown = commands.json("config", *flags, **variables)[name]
    return shown["value"], shown["source"]


def test_flags_win_over_the_environment_the_project_and_the_user_in_this_order(commands):
    assert setting(commands, "gateway_url") == (None, "default")
    commands.write_user_file('gateway_url = "https://user.example"\n')
    user = str(commands.user_file)
    assert setting(commands, "gateway_url") == (["https://user.example/ipfs"], user)
    project = commands.folder / "holdfast.toml"
    project.write_text('gateway_url = ["https://project.example", "https://b.example/x"]\n')
    assert setting(commands, "gateway_url") == (
        ["https://project.example/ipfs", "https://b.example/x"],
        str(project),
    )
    environment = {"HOLDFAST_GATEWAY_URL": "https://env.example"}
    assert setting(commands, "gateway_url", **environment) == (
        ["https://env.example/ipfs"],
        "HOLDFAST_GATEWAY_URL",
    )
    flags = ("--gateway-url", "https://one.example", "--gateway-url", "https://two.example")
    assert setting(commands, "gateway_url", *flags, **environment) == (
        ["https://one.example/ipfs", "https://two.example/ipfs"],
        "--gateway-url",
    )


def test_each_field_has_its_own_source(commands):
    commands.write_user_file("rate_limit = 60\n[timeouts]\nread = 5\n[retries]\nattempts = 2\n")
    shown = commands.json("config", "--cid-version", "0", HOLDFAST_MAX_JSON_BYTES="1000")
    user = str(commands.user_file)
    assert shown["rate_limit"] == {"value": 60, "source": user}
    assert shown["timeouts"]["value"]["read"] == 5
    assert shown["retries"] == {
        "value": {
            "attempts": 2,
            "base": 0.25,
            "cap": 20,
            "budget": 100,
            "max_retry_after": 120,
        },
        "source": user,
    }
    assert shown["cid_version"] == {"value": 0, "source": "--cid-version"}
    assert shown["max_json_bytes"] == {"value": 1000, "source": "HOLDFAST_MAX_JSON_BYTES"}
    assert shown["verify"] == {"value": True, "source": "default"}
    assert setting(commands, "verify", "--no-verify") == (False, "--no-verify")
    lines = commands.text("config").splitlines()
    assert [line.split()[0] for line in lines] == list(shown)
    (line,) = (line for line in lines if line.startswith("rate_limit"))
    assert line.split() == ["rate_limit", "60", user]


def test_the_project_is_found_from_a_folder_inside_it(commands):
    project = commands.folder / "holdfast.toml"
    project.write_text("rate_limit = 60\n")
    inside = commands.folder / "deep/down"
    inside.mkdir(parents=True)
    shown = commands.json("config", cwd=inside)
    assert shown["rate_limit"] == {"value": 60, "source": str(project)}


def test_the_paths_in_the_file_of_the_user_begin_at_its_folder(commands):
    commands.user_file.parent.mkdir(parents=True)
    commands.user_file.write_text('path = "store"\n')
    cid = commands.text("store", "1")
    store = commands.user_file.parent / "store"
    assert (store / "holdfast.sqlite3").is_file()
    assert commands.text("retrieve", cid, "--path", store) == "1"
    assert commands.text("check").startswith("sound: 1 pin,")


def test_a_profile_brings_its_cid_version(commands):
    (commands.folder / "a").write_bytes(b"hello")
    cid = "QmWfVY9y3xjsixTgbd9AorQxH7VtMpzfx2HaWtsoUYecaX"
    assert commands.text("cid", "a", "--profile", "unixfs-v0-2015") == cid
    assert commands.text("upload", "a", HOLDFAST_PROFILE="unixfs-v0-2015") == cid
    code, lines = commands.failure("cid", "a", "--profile", "unixfs-v0-2015", "--cid-version", "1")
    assert code == 3
    assert "set --cid-version 0 with it" in lines[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("provider = ", "is not TOML"),
        ('provider_token = "secret-in-a-broken-line', "is not TOML"),
        ('provder = "local"', "did you mean 'provider'?"),
        ('gateway_url = "ftp://x"', "gateway_url must be an address"),
        ("cid_version = 7", "cid_version must be 0 or 1"),
        ("[timeouts]\nred = 1", "timeouts must be Timeouts("),
        ("verify = false", "verify is not allowed in a project's file"),
        ('pin_api_url = "https://evil.example"', "pin_api_url is not allowed in a project's file"),
        (f'provider_token = "{TOKEN}"', "provider_token is not allowed in a project's file"),
        ('proxy = "http://evil.example"', "proxy is not allowed in a project's file"),
        ("rate_limit = 1\nrate_limit = 2\n", "is not TOML (Cannot overwrite a value, at line 2"),
        ("on_event = 1", "on_event is for Python programs"),
        ("ssl_context = 1", "ssl_context is for Python programs"),
        ('path = ""', "path is not allowed in a project's file"),
        ("x = " + "[" * 100_000, "is not TOML (nested too deep)"),
        ("#" * (1 << 20) + "#", "has more than 1048576 bytes"),
    ],
    ids=lambda text: text[:40],
)
def test_what_is_wrong_in_a_file_names_the_file(commands, text, words):
    file = commands.folder / "holdfast.toml"
    file.write_text(text)
    code, lines = commands.failure("store", "1")
    assert code == 3
    assert lines[0].startswith(f"error: {file}")
    assert words in lines[0]
    assert TOKEN not in "".join(lines)
    assert "secret-in-a-broken-line" not in "".join(lines)


def test_a_project_has_no_options_of_a_provider(commands):
    (commands.folder / "holdfast.toml").write_text("provider_options = {}\n")
    _, lines = commands.failure("store", "1")
    places = f"{commands.user_file} or HOLDFAST_PROVIDER_OPTIONS"
    assert lines[0].endswith(f"which is shared: remove it, and set it in {places}")


def test_config_shows_what_is_wrong_beside_all_the_rest(commands):
    (commands.folder / "holdfast.toml").write_text("rate_limit = 60\nprovder = 1\n")
    variables = {"HOLDFAST_GATEWAY_URL": "nonsense", "HOLDFAST_VERIFY": "perhaps"}
    result = commands.run("config", **variables)
    rows = {line.split()[0]: line.split()[1:] for line in result.stdout.decode().splitlines()}
    assert rows["gateway_url"] == ["(wrong)", "HOLDFAST_GATEWAY_URL"]
    assert rows["verify"] == ["(wrong)", "HOLDFAST_VERIFY"]
    assert rows["provder"] == ["(wrong)", str(commands.folder / "holdfast.toml")]
    assert rows["rate_limit"][0] == "60"
    lines = result.stderr.decode().splitlines()
    assert (result.returncode, len(lines)) == (3, 4)
    assert "did you mean 'provider'?" in lines[0]
    assert lines[1].startswith("note: HOLDFAST_GATEWAY_URL: gateway_url must be")
    assert lines[2] == "note: HOLDFAST_VERIFY must be true or false"
    told = json.loads(commands.run("config", "--json", **variables).stdout)
    assert told["verify"]["error"] == "HOLDFAST_VERIFY must be true or false"
    (commands.folder / "holdfast.toml").write_text("nonsense")
    result = commands.run("config")
    assert (result.returncode, len(result.stdout.splitlines())) == (3, len(IN_FILES) + 1)


def test_remedies_are_in_the_words_of_the_command_line(commands):
    options = ("--provider", "pinning", "--pin-api-url", "http://192.0.2.1")
    code, lines = commands.failure("store", "1", *options)
    assert (code, "or --allow-insecure if" in lines[0]) == (3, True)


def test_what_is_read_can_be_proven_again(commands):
    assert setting(commands, "verify", "--verify", HOLDFAST_VERIFY="no") == (True, "--verify")


def test_the_flag_that_was_given_is_the_one_that_is_named(commands):
    result = commands.run("config", "--provider", "pinning", "--token", "x", "--json")
    assert json.loads(result.stdout)["provider_token"]["source"] == "--token"
    result = commands.run("store", "1", "--provider", "pinning", "--token", "")
    assert result.stderr.decode().splitlines()[1].startswith("error: --token: provider_token is")
    (commands.folder / "token").write_text(TOKEN)
    flags = ("--provider", "pinning", "--token-file", "token")
    assert setting(commands, "provider_token", *flags) == ("********", "--token-file")


def test_what_is_wrong_elsewhere_names_the_variable_or_the_flag(commands):
    code, lines = commands.failure("store", "1", HOLDFAST_GATEWAY_URL="nonsense")
    assert (code, lines[0].split()[1]) == (3, "HOLDFAST_GATEWAY_URL:")
    code, lines = commands.failure("store", "1", "--gateway-url", "nonsense")
    assert (code, lines[0].split()[1]) == (3, "--gateway-url:")
    code, lines = commands.failure("store", "1", HOLDFAST_VERIFY="perhaps")
    assert (code, lines[0]) == (3, "error: HOLDFAST_VERIFY must be true or false")


def test_a_project_cannot_say_where_a_gateway_token_goes(commands, server):
    (commands.folder / "holdfast.toml").write_text(f'gateway_url = "{server.url}"\n')
    variables = {
        "HOLDFAST_GATEWAY_TOKEN": GATEWAY_TOKEN,
        "HOLDFAST_PROVIDER": "pinning",
        "HOLDFAST_PROVIDER_TOKEN": TOKEN,
    }
    code, lines = commands.failure("retrieve", HELLO_CID, **variables)
    assert code == 3
    assert "gateway_url decides where your gateway_token is sent" in lines[0]
    assert server.requests == []


def test_secrets_are_masked_in_every_form(commands):
    commands.write_user_file(
        f'provider = "pinning"\nprovider_token = "{TOKEN}"\ngateway_url = "https://a.example"\n'
        f'gateway_token = "{GATEWAY_TOKEN}"\nproxy = "http://me:pass-word@b.example"\n'
        '[provider_options]\nkey = "inner-secret"\n',
    )
    shown = commands.json("config")
    for name in ("provider_token", "gateway_token", "proxy", "provider_options"):
        assert shown[name] == {"value": "********", "source": str(commands.user_file)}
    text = commands.text("config") + json.dumps(shown)
    for secret in (TOKEN, GATEWAY_TOKEN, "pass-word", "inner-secret"):
        assert secret not in text


def test_config_shows_the_table_and_then_what_does_not_go_together(commands):
    result = commands.run("config", HOLDFAST_PROVIDER_TOKEN=TOKEN)
    assert result.returncode == 3
    assert b"provider_token        ********" in result.stdout
    assert b"provider is 'local'" in result.stderr
    assert TOKEN.encode() not in result.stdout + result.stderr


def sent_token(server):
    (request,) = server.requests
    return request.headers["authorization"]


def test_the_token_comes_from_the_environment_or_a_file(commands, server):
    to_server = ("test-connection", "--provider", "pinning", "--pin-api-url", server.url)
    server.reply(200, MESSAGE)
    commands.text(*to_server, HOLDFAST_PROVIDER_TOKEN=TOKEN)
    (commands.folder / "token").write_text(f"{TOKEN}\n")
    server.reply(200, MESSAGE)
    commands.text(*to_server, "--token-file", "token", HOLDFAST_PROVIDER_TOKEN="another")
    server.reply(200, MESSAGE)
    commands.text(*to_server, "--token-file", "-", given=f"{TOKEN}\n".encode())
    assert [each.headers["authorization"] for each in server.requests] == [f"Bearer {TOKEN}"] * 3


def test_a_token_on_the_command_line_works_with_a_warning(commands, server):
    server.reply(200, MESSAGE)
    result = commands.run(
        *("test-connection", "--provider", "pinning", "--pin-api-url", server.url),
        *("--token", TOKEN),
    )
    assert result.returncode == 0
    assert sent_token(server) == f"Bearer {TOKEN}"
    assert result.stderr.startswith(b"warning: a token on the command line can be seen by others")
    assert TOKEN.encode() not in result.stderr


def test_a_missing_or_bad_token_is_explained(commands):
    pinning = ("store", "1", "--provider", "pinning")
    code, lines = commands.failure(*pinning)
    words = "needs a token: run `holdfast login`, set HOLDFAST_PROVIDER_TOKEN, or give --token-file"
    assert (code, lines[0]) == (3, f"error: provider 'pinning' {words}")
    code, lines = commands.failure(*pinning, "--token-file", "nothing")
    assert (code, lines[0]) == (
        3,
        "error: --token-file: nothing cannot be read: No such file or directory",
    )
    (commands.folder / "token").write_text("two words")
    code, lines = commands.failure(*pinning, "--token-file", "token")
    assert code == 3
    assert "provider_token holds a space" in lines[0]
    assert "two words" not in lines[0]


def test_standard_input_is_the_token_or_the_content(commands):
    code, lines = commands.failure(
        *("store", "-", "--provider", "pinning", "--token-file", "-"), given=b"1"
    )
    assert (code, lines[0]) == (2, 'error: standard input can be read only once: give "-" once')


def test_warnings_of_the_library_are_one_line(commands, server):
    server.reply(200, MESSAGE)
    result = commands.run(
        *("test-connection", "--provider", "provider_b", "--pin-api-url", server.url),
        HOLDFAST_PROVIDER_TOKEN=TOKEN,
    )
    assert result.returncode == 0
    assert result.stderr.decode().splitlines() == [
        "warning: provider 'provider_b' has no implementation of its own yet; 'pinning' is used"
    ]
