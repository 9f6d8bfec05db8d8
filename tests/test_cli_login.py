"""`holdfast login`, `config set` and `config unset`: the user's settings, changed with care."""

import json
import stat
import sys

import pytest

from holdfast.testing import Scripted, ScriptedServer
from tests.commands import Commands, install_provider
from tests.hosted_kubo import HostedKubo, hosted
from tests.support import TOKEN
from tests.test_cli_settings import MESSAGE

PROVIDER = "Provider ("
TOKEN_PROMPT = "Token for "
PUBLIC = "reads go to https://gateway.pinata.cloud/ipfs and https://ipfs.io/ipfs"
SECRET = "secret-on-a-command-line-"
OTHERS = """\
# My settings, with care.
cid_version = 0  # as "#" always

[retries]  # few
attempts = 2
"""


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def login_to(server):
    """The words of a login that names the gateway."""
    addresses = ("--pin-api-url", server.url, "--gateway-url", f"{server.url}/ipfs")
    return ("login", "--provider", "pinning", *addresses)


@pytest.mark.slow
def test_the_provider_and_the_token_are_asked_for_and_all_else_stays(commands, server):
    commands.write_user_file(OTHERS)
    commands.user_file.chmod(0o644)
    commands.command = (sys.executable, "-m", "holdfast")  # a new process, not a fork
    for _ in range(3):
        server.reply(200, MESSAGE)
    code, shown = commands.on_terminal(
        *("login", *login_to(server)[3:]),
        typed={PROVIDER: "pinning\n", TOKEN_PROMPT: f"{TOKEN}\n"},
    )
    assert (code, TOKEN in shown) == (0, False)
    assert shown.splitlines() == [
        "Provider (cluster, kubo, pinata, pinning, psa) [pinata]: pinning",
        f"Token for {server.url}: ",
        f"logged in to 'pinning'; your settings are in {commands.user_file}",
    ]
    commands.text(*login_to(server), stdin=TOKEN.encode())  # it replaces what the first one wrote
    assert commands.user_file.read_text().splitlines() == [
        *OTHERS.splitlines()[:2],
        'provider = "pinning"',
        f'pin_api_url = "{server.url}"',
        f'gateway_url = "{server.url}/ipfs"',
        f'provider_token = "{TOKEN}"',
        *OTHERS.splitlines()[2:],
    ]
    assert mode_of(commands.user_file) == 0o600
    assert [path.name for path in commands.user_file.parent.iterdir()] == ["holdfast.toml"]
    assert commands.text("test-connection") == "connected to 'pinning'"
    tokens = [request.headers["authorization"] for request in server.requests]
    assert tokens == [f"Bearer {TOKEN}"] * 3


def test_the_token_comes_through_a_pipe(commands, node):
    login = ("login", "--provider", "pinning", "--pin-api-url", node.api_url)
    result = commands.run(
        *(*login, "--gateway-url", node.gateway_url, "--json"),
        stdin=f"{node.token}\n".encode(),
        HOLDFAST_PROVIDER_TOKEN="another-token",
    )
    assert json.loads(result.stdout)["settings"] == str(commands.user_file)
    stronger = "HOLDFAST_PROVIDER_TOKEN sets provider_token too, and wins over"
    assert json.loads(result.stderr) == {"warning": f"{stronger} {commands.user_file}"}
    assert node.token.encode() not in result.stdout + result.stderr
    cid = commands.text("store", "[1]")
    assert commands.json("retrieve", cid) == [1]


def test_a_login_to_a_node_says_how_to_read_from_it(commands, node):
    login = ("login", "pinning", "--pin-api-url", node.api_url)
    result = commands.run(*login, stdin=f"Bearer {node.token}\n".encode())
    set_gateway = ("config", "set", "gateway_url", node.gateway_url)
    note = f"{PUBLIC}; to read from a node there: `holdfast {' '.join(set_gateway)}`"
    assert (result.returncode, result.stderr.decode()) == (0, f"{note}\n")
    assert "gateway_url" not in commands.user_file.read_text()
    assert "Bearer" not in commands.user_file.read_text()
    commands.text(*set_gateway)
    assert commands.json("status")["readsThrough"] == [node.gateway_url]
    assert commands.json("retrieve", commands.text("store", "[1]")) == [1]


def test_login_sends_one_request(commands):
    """It asks the API alone, and no gateway."""
    with ScriptedServer(lambda _: Scripted(status=200, body=MESSAGE)) as server:
        login = ("login", "pinning", "--pin-api-url", server.url)
        assert commands.run(*login, stdin=f"bearer  {TOKEN}".encode()).returncode == 0
        (request,) = server.requests
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


def test_whoever_names_the_address_of_an_api_learns_where_reads_go(commands):
    api, local = "https://pins.example", "http://127.0.0.1:1"
    words = f"{PUBLIC}; --gateway-url, or the setting gateway_url, changes that\n"
    add = ("connections", "add", "--provider", "pinning", "--pin-api-url")
    assert commands.run(*add, api, "a").stderr.decode() == words
    assert commands.text(*add, api, "b", "--gateway-url", "https://gateway.example")
    node = f"{PUBLIC}; to read from a node there: `{{}} {local}/ipfs`\n"
    assert commands.run(*add, local, "c").stderr.decode() == node.format("--gateway-url")
    cluster = ("connections", "add", "--provider", "cluster", "--pin-api-url")
    assert "a node there" not in commands.run(*cluster, local, "d").stderr.decode()
    commands.text("config", "set", "provider", "pinning")
    set_api = ("config", "set", "pin_api_url")
    assert commands.run(*set_api, api).stderr.decode() == words
    set_gateway = "holdfast config set gateway_url"
    assert commands.run(*set_api, local).stderr.decode() == node.format(set_gateway)
    commands.text("config", "set", "gateway_url", "https://gateway.example")
    commands.text("config", "set", "pin_api_url", "https://other.example")


def test_nothing_is_said_about_where_an_installed_provider_reads(tmp_path):
    """Only the provider knows."""
    code = """
class Provider:
    @classmethod
    def from_config(cls, config):
        return cls()

    def test_connection(self):
        return True

    def close(self):
        pass
"""
    commands = Commands(tmp_path, **install_provider(tmp_path / "site", "reader", code))
    commands.text("config", "set", "provider", "reader")
    result = commands.run("config", "set", "pin_api_url", "http://127.0.0.1:1")
    assert (result.returncode, result.stderr) == (0, b"")
    assert json.loads(commands.run("status", "--json").stdout)["readsThrough"] == []


@pytest.mark.parametrize(
    ("status", "token", "code"),
    [
        (401, TOKEN.encode(), 8),
        (403, TOKEN.encode(), 9),
        (200, b"", 3),
        (200, b"a b", 3),
        (200, b"Bearer ", 3),
    ],
)
def test_a_token_that_is_not_accepted_is_not_saved(commands, status, token, code):
    commands.write_user_file(OTHERS)
    with ScriptedServer(lambda _: Scripted(status=status, body=MESSAGE)) as server:
        exit_code, lines = commands.failure(*login_to(server), stdin=token)
    assert exit_code == code
    assert ("nothing was saved" in lines) == (status != 200)
    assert ("hint: copy the whole token again, or make another one" in lines) == (status == 401)
    assert TOKEN not in "".join(lines)
    assert commands.user_file.read_text() == OTHERS


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "standard input is not a terminal"),
        (["--provider", "local"], 2, "provider 'local' needs no token"),
        (["--provider", "pinatta"], 3, "unknown provider 'pinatta'"),
        (["--provider", TOKEN], 3, "provider must be"),
        (["pinatta"], 2, "login takes the name of a provider"),
        (["local"], 2, "provider 'local' needs no token"),
        ([TOKEN], 2, "login takes the name of a provider"),
        (["--provider", "pinata", TOKEN, "--json"], 2, "login takes the name of a provider"),
        (["pinata", TOKEN], 2, "login takes the name of a provider"),
    ],
)
def test_wrong_providers(commands, arguments, code, words):
    exit_code, lines = commands.failure("login", *arguments, stdin=TOKEN.encode())
    assert (exit_code, words in lines[0], TOKEN in "".join(lines)) == (code, True, False), lines
    assert not commands.user_file.exists()
    if code == 3:  # it is told before the token is read
        exit_code, shown = commands.on_terminal("login", *arguments, typed={})
        assert (exit_code, TOKEN_PROMPT in shown) == (3, False)


def test_who_logs_out_has_no_token_left(commands, server):
    server.reply(200, MESSAGE)
    commands.text(*login_to(server), stdin=TOKEN.encode())
    for words, others in ((["pinata"], " for pinata"), ([], " for a provider")):
        if not words:
            result = commands.run("logout", "pinning")
            assert result.stdout.decode().startswith("provider_token: removed from ")
            assert result.stderr.decode().splitlines() == [
                "the provider is still 'pinning': `holdfast config unset provider` uses your disk",
                *(
                    f"{left} stays too: for another provider, run `holdfast config unset {left}`"
                    for left in ("gateway_url", "pin_api_url")
                ),
            ]
        code, lines = commands.failure("logout", *words)
        assert (code, lines[0]) == (3, f"error: {commands.user_file} has no token{others}")
        assert (TOKEN in commands.user_file.read_text()) is bool(words)
    assert f'pin_api_url = "{server.url}"' in commands.user_file.read_text()
    result = commands.run("test-connection", stdin=b"")
    assert (result.returncode, "needs a token" in result.stderr.decode()) == (3, True)


# config set, config unset, config get


def test_settings_are_changed_and_removed(commands):
    commands.write_user_file(OTHERS)
    linked_file = commands.user_file.rename(commands.folder / "dotfiles.toml")
    commands.user_file.symlink_to(linked_file)
    linked_file.chmod(0o644)
    for key, value in {
        "cid_version": "1",
        "retries.attempts": "5",
        "retries.cap": "2.5",
        "timeouts.read": "9",
        "gateway-url": "https://a.example,https://b.example",
    }.items():
        name = key.replace("-", "_")
        saved = f"{name}: saved in {commands.user_file}"
        assert commands.text("config", "set", key, value) == saved
    result = commands.run("config", "set", "verify", "no")
    assert "not checked against its CID" not in result.stdout.decode()
    assert "no longer checked against its CID" in result.stderr.decode()
    gateways = "https://a.example/ipfs, https://b.example/ipfs"
    assert commands.text("config", "get", "gateway-url") == gateways
    assert commands.text("config", "get", "retries.cap") == "2.5"
    assert commands.json("config", "get", "retries")["value"]["attempts"] == 5
    assert commands.json("config", "get", "verify", "--verify")["source"] == "--verify"
    assert commands.user_file.read_text() == (
        "# My settings, with care.\n"
        'cid_version = 1  # as "#" always\n'
        'gateway_url = ["https://a.example", "https://b.example"]\n'
        "verify = false\n\n"
        "[retries]  # few\nattempts = 5\ncap = 2.5\n\n"
        "[timeouts]\nread = 9\n"
    )
    for key in ("gateway-url", "verify", "retries.cap", "cid_version"):
        assert "removed from" in commands.text("config", "unset", key)
    assert commands.user_file.read_text() == (
        "# My settings, with care.\n\n[retries]  # few\nattempts = 5\n\n[timeouts]\nread = 9\n"
    )
    assert (commands.user_file.is_symlink(), mode_of(linked_file)) == (True, 0o644)
    code, lines = commands.failure("config", "unset", "verify")
    assert (code, lines[0]) == (3, f"error: {commands.user_file} has no verify")
    for path, saved in {"store": commands.folder / "store", "~/store": "~/store"}.items():
        commands.text("config", "set", "path", path)  # it is that of the shell
        assert f'path = "{saved}"\n' in commands.user_file.read_text()


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("provider_token", SECRET, "may be secret"),
        ("proxy", f"http://user:{SECRET}@host:1", "may be secret"),
        ("provider_options.a", SECRET, "may be secret"),
        (f"provider_token={SECRET * 3}", "x", ""),
        (f"rate_limit={SECRET * 3}", "x", ""),
        ("pin_api_url", f"https://{SECRET}@host", "must be a plain address"),
        ("provider", SECRET * 3, "provider must be"),
        ("provider", "lokal", "provider"),
        ("cid_version", "2", "cid_version must be"),
        ("verify", "perhaps", "must be true or false"),
        ("retries.attempts", "3,cap=9", "must be a number"),
        ("retries.tries", "5", "tries"),
        ("retries", "5", "is a table"),
        ("verify.x", "5", "verify has no fields"),
        ("on_event", "x", "is for Python programs"),
        ("vreify", "1", "did you mean 'verify'?"),
        ("use", "kubu", "did you mean 'kubo'?"),
        ("use", SECRET * 3, "of 40 characters or less"),
        ("path", "", "path"),
    ],
)
def test_wrong_settings_change_nothing(commands, key, value, words):
    commands.write_user_file(OTHERS)
    code, lines = commands.failure("config", "set", key, value)
    assert (code, words in lines[0]) == (3, True), lines
    assert (value == "lokal") == (lines[1] == "hint: did you mean 'local'?")
    assert SECRET not in "".join(lines)
    assert commands.user_file.read_text() == OTHERS


@pytest.mark.parametrize("words", ["--use disk unset cid_version", "--no-verify set cid_version 1"])
def test_flags_before_set_and_unset_are_refused(commands, words):
    """They describe a client. Some would expect that they say which settings are changed."""
    commands.write_user_file(OTHERS)
    flag, command = words.split()[0], "unset" if "unset" in words else "set"
    code, lines = commands.failure("config", *words.split())
    usage = f"hint: `holdfast config {command} --help` shows the usage"
    error = f"error: `holdfast config {command}` does not take {flag}: leave it out"
    assert (code, lines) == (2, [error, usage])
    assert commands.user_file.read_text() == OTHERS
    assert commands.json("config", "--json", "set", "cid_version", "1")["value"] == 1


URL = ("set", "gateway_url", "https://b.example")
QUOTED = '"gateway_url" = "https://{}.example"\npath = "x"\n'
ATTEMPTS = ("set", "retries.attempts", "3")
SET = 'gateway_url = "https://b.example"\n'


@pytest.mark.parametrize(
    ("arguments", "before", "after"),
    [
        (URL, 'gateway_url = [\n  "https://a.example",\n]\npath = "x"\n', f'{SET}path = "x"\n'),
        (URL, QUOTED.format("a"), QUOTED.format("b")),
        (URL, 'path = """\ngateway_url = 1\n"""\n', f'path = """\ngateway_url = 1\n"""\n{SET}'),
        (URL, "cid_version = 0", f"cid_version = 0\n{SET}"),
        (ATTEMPTS, "retries = { attempts = 1 }\n# a\n", "retries = { attempts = 3 }\n# a\n"),
        (ATTEMPTS, "retries.attempts = 1\n# one\n", "retries.attempts = 3\n# one\n"),
        (ATTEMPTS, "# a\r\n[retries]\r\nattempts = 1\r\n", "# a\r\n[retries]\r\nattempts = 3\r\n"),
        (ATTEMPTS, "retries = 5\n", None),
        (("unset", "verify"), "verify = true  # out\n# stays\n", "# stays\n"),
        (("unset", "rate_limt"), "rate_limt = 5\n\n[retries]\ncap = 2\n", "[retries]\ncap = 2\n"),
        (("unset", "verify"), "verify = true  # out\r\n# stays\r\n", "# stays\r\n"),
    ],
)  # fmt: skip
def test_files_that_are_written_in_another_way(commands, arguments, before, after):
    """They are changed as they should be, or not at all."""
    commands.write_user_file("")
    commands.user_file.write_bytes(before.encode())
    result = commands.run("config", *arguments)
    assert result.returncode == (3 if after is None else 0), result.stderr
    assert (b"cannot be changed safely" in result.stderr) == (after is None)
    assert commands.user_file.read_bytes().decode() == (before if after is None else after)


def test_a_connection_and_a_provider_are_not_both_chosen(commands):
    commands.write_user_file('[connections.disk]\nprovider = "local"\n')
    commands.text("config", "set", "use", "disk")
    assert commands.user_file.read_text() == (
        'use = "disk"\n\n[connections.disk]\nprovider = "local"\n'
    )
    code, lines = commands.failure("config", "set", "provider", "kubo")
    assert (code, lines[1]) == (3, "hint: first run `holdfast config unset use`")
    commands.text("config", "unset", "use")
    commands.text("config", "set", "provider", "kubo")
    code, lines = commands.failure("config", "set", "use", "disk")
    assert (code, lines[1]) == (3, "hint: first run `holdfast config unset provider`")


# Where a token is sent, and changes at the same time


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["HOLDFAST_PIN_API_URL sets pin_api_url, which is not saved",
              "give --pin-api-url, or unset HOLDFAST_PIN_API_URL"]),
        ('provider = "kubo"\npin_api_url = "{url}"\n',
         ["{file} has pin_api_url for provider 'kubo', so the token could go to another service",
          "first run `holdfast config unset pin_api_url`"]),
        ('pin_api_url = "{url}"\nallow_insecure = true\n',
         ["{file} has pin_api_url and allow_insecure, so the token could go to another service"]),
        ('use = "a"\n[connections.a]\nprovider = "local"\n',
         ["{file} has use, which chooses a connection"]),
        ('provider_token = "secret-in-a-broken-line', ["{file} is not TOML"]),
    ],
)  # fmt: skip
def test_an_address_that_is_not_sure_gets_no_token(commands, server, text, words):
    """In a shell without a variable, say, the token would be sent to another address."""
    text = text.format(url=server.url)
    commands.write_user_file(text)
    variables = {} if text else {"HOLDFAST_PIN_API_URL": server.url}
    login = ("login", "--provider", "pinning")
    code, lines = commands.failure(*login, stdin=TOKEN.encode(), **variables)
    assert code == 3
    for line, part in zip(lines, words, strict=False):
        assert part.format(file=commands.user_file) in line
    assert "secret-in-a" not in "".join(lines)
    assert (server.requests, commands.user_file.read_text()) == ([], text)


def test_what_others_change_during_the_test_of_a_token_stays(commands):
    commands.write_user_file(OTHERS)

    def answer(_):
        commands.text("config", "set", "rate_limit", "7")
        return Scripted(status=200, body=MESSAGE)

    with ScriptedServer(answer) as server:
        commands.text(*login_to(server), stdin=TOKEN.encode())
    assert "rate_limit = 7\n" in commands.user_file.read_text()
    assert TOKEN in commands.user_file.read_text()


def test_a_token_is_not_saved_for_an_address_that_changed_during_its_test(commands):
    def answer(_):
        commands.write_user_file('provider = "pinning"\npin_api_url = "https://b.example"\n')
        return Scripted(status=200, body=MESSAGE)

    with ScriptedServer(answer) as server:
        code, lines = commands.failure(*login_to(server), stdin=TOKEN.encode())
    assert (code, "was changed during the test; nothing was saved" in lines[0]) == (3, True)
    assert TOKEN not in commands.user_file.read_text()


@pytest.mark.slow
def test_changes_at_the_same_time_are_all_kept(commands):
    keys = ("connect", "read", "write", "total")
    started = [commands.start("config", "set", f"timeouts.{key}", "9") for key in keys]
    assert [process.communicate(timeout=120)[1] for process in started] == [""] * len(keys)
    heading, *lines = commands.user_file.read_text().splitlines()
    assert (heading, {*lines}) == ("[timeouts]", {f"{key} = 9" for key in keys})


@pytest.mark.parametrize(
    ("text", "arguments", "secret"),
    [
        ('provider = "pinata"\nprovider_token = "t"\n', ("set", "provider", "kubo"), "provider"),
        ('provider = "pinata"\nprovider_token = "t"\n', ("unset", "provider"), "provider"),
        ('provider_token = "t"\n', ("set", "pin_api_url", "https://b.example"), "provider"),
        ('gateway_token = "t"\n', ("set", "gateway_url", "https://b.example"), "gateway"),
        ('gateway_token = "t"\n', ("set", "provider", "psa"), "gateway"),
    ],
)
def test_a_saved_token_is_not_moved_to_another_address(commands, text, arguments, secret):
    commands.write_user_file(text)
    code, lines = commands.failure("config", *arguments)
    assert (code, f"has {secret}_token, which would be sent to another" in lines[0]) == (3, True)
    assert lines[1] == f"hint: first run `holdfast config unset {secret}_token`"
    assert commands.user_file.read_text() == text
    commands.text("config", "unset", f"{secret}_token")
    assert commands.run("config", *arguments).returncode == 0


def test_notes_say_who_else_sets_a_setting_and_what_does_not_fit(commands):
    commands.write_user_file('rate_limit = 5\nprofile = "unixfs-v1-2025"\ncid_version = 1\n')
    result = commands.run("config", "unset", "rate_limit", HOLDFAST_RATE_LIMIT="7")
    assert result.stderr == b"HOLDFAST_RATE_LIMIT still sets rate_limit\n"
    assert "removed from" in commands.text("config", "unset", "cid_version")
    for key, value in {"cid_version": "0", "provider": "psa"}.items():
        result = commands.run("config", "set", key, value)
        assert result.returncode == 0
        words = f"{key}: saved in {commands.user_file}, but now: "
        assert result.stderr.decode().startswith(words), result.stderr


def test_what_the_file_has_is_removed_and_completed(commands):
    secret = 'provider_token = "secret-in-the-file"\n'
    commands.write_user_file(f'rate_limt = 5\n{secret}"$(x)" = 1\n')
    assert commands.complete("config unset ") == ["provider_token"]
    assert commands.run("config", "unset", "rate_limt").returncode == 0
    assert commands.user_file.read_text() == f'{secret}"$(x)" = 1\n'
    assert mode_of(commands.user_file) == 0o600
    code, lines = commands.failure("config", "unset", "rate_limt")
    assert (code, "did you mean 'rate_limit'?" in lines[0]) == (3, True)
    commands.command = (sys.executable, "-m", "holdfast")
    code, lines = commands.failure("config", "set", "path", "a\udcffb")  # it is not text
    assert (code, "secret-in-the-file" in "".join(lines)) == (3, False), lines


def test_a_hosted_kubo_is_used_with_a_token_and_a_gateway(commands, empty_node):
    script = HostedKubo(empty_node.repository)
    with hosted(script, empty_node.gateway_url) as (_, config):
        login = ("login", "--provider", "kubo", "--pin-api-url", config.pin_api_url)
        code, lines = commands.failure(*login, stdin=TOKEN.encode())
        assert (code, lines[0]) == (3, "nothing was saved")
        assert lines[1].startswith("error: the server does not have block/get of Kubo's RPC API")
        assert lines[2] == "hint: `--gateway-url https://ipfs.io/ipfs`"
        commands.text(*login, "--gateway-url", empty_node.gateway_url, stdin=TOKEN.encode())
        assert "Connection  connected" in commands.text("status").splitlines()
        cid = commands.text("upload", "-", "--name", "tides.txt", stdin=b"low tide at six")
        assert commands.text("cat", cid) == "low tide at six"
        assert commands.text("list").split() == [cid, "-", "-"]
        code, lines = commands.failure("list", "--name", "tides")
        assert (code, "does not store pin names" in lines[0]) == (3, True)
