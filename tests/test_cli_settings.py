"""Where the command line takes its settings and tokens from, and who may choose where they go."""

import json
import os
import pty
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.cli.run import Run, config_of
from holdfast.config.connections import Setting
from holdfast.config.fields import FIELDS
from holdfast.config.secret import Secret
from holdfast.config.settings_files import gather
from holdfast.errors import ConfigError
from holdfast.registry import providers_without_token
from holdfast.testing import ScriptedServer
from tests.commands import HOLDFAST, Commands, install_provider, node_variables
from tests.support import GATEWAY_TOKEN, HELLO_CID, TOKEN

IN_FILES = [name for name, field in FIELDS.items() if field.file != "none"]
ENDPOINTS = {name for name, field in FIELDS.items() if field.endpoint}
MESSAGE = {"message": "Congratulations! You are communicating with the Pinata API!"}
OTHER = "another-token-0123456789"
REFUSED = "is not allowed in a project's file, which is shared: remove it, and set it in"
KEEPER = """
import pathlib
class Provider:
    def from_config(config):
        token = config.provider_token
        pathlib.Path("got").write_text("" if token is None else token.reveal())
        raise ValueError("enough")
"""
SLEEPER = """
import time
class Provider:
    def from_config(config):
        time.sleep(30)
"""


def connection(name):
    """The configuration of a command with ``--use NAME``."""
    return config_of(gather({"use": (name, "--use")}))


def write_token(file, text=TOKEN, mode=0o600):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)


def write_project_file(text):
    """Write the file of a project in the current folder; return its path."""
    file = Path("holdfast.toml").absolute()
    file.write_text(text)
    return file


def archive_at(url, more=""):
    """A connection to the pinning API at `url`, with its token in a file."""
    return (
        f'[connections.archive]\nprovider = "pinning"\npin_api_url = "{url}"\n'
        f'token_file = "archive.token"\n{more}\n'
    )


@pytest.fixture
def archive(commands, server):
    """The commands of a user with a connection to the server."""
    commands.write_user_file(archive_at(server.url))
    write_token(commands.user_file.parent / "archive.token", f"{TOKEN}\n")
    return commands


@pytest.fixture
def project(commands):
    return commands.folder / "holdfast.toml"


def sent_tokens(server):
    return [request.headers.get("authorization") for request in server.requests]


# Which source wins


def test_flags_win_over_the_environment_the_project_and_the_user_in_this_order(home, monkeypatch):
    def gateways(**flags):
        setting = gather(flags)["gateway_url"]
        return *setting.value, setting.source

    assert gather({}) == {}
    home.write_text('gateway_url = "https://user.example"\n')
    assert gateways() == ("https://user.example/ipfs", str(home))
    project = write_project_file('gateway_url = ["https://project.example", "https://b.example/x"]')
    assert gateways() == ("https://project.example/ipfs", "https://b.example/x", str(project))
    monkeypatch.setenv("HOLDFAST_GATEWAY_URL", "https://env.example")
    assert gateways() == ("https://env.example/ipfs", "HOLDFAST_GATEWAY_URL")
    by_flag = (["https://one.example"], "--gateway-url")
    assert gateways(gateway_url=by_flag) == ("https://one.example/ipfs", "--gateway-url")
    inside = project.parent / "deep/down"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    monkeypatch.delenv("HOLDFAST_GATEWAY_URL")
    assert gateways()[-1] == str(project)


def pairs(text):
    """The words of each row, with a source that is on a line of its own."""
    return [line.split() for line in text.replace("\n  ", " ").splitlines()]


def test_config_shows_each_value_and_where_it_is_from(archive, server):
    archive.write_user_file(
        f'rate_limit = 60\ngateway_url = "https://c.example"\ngateway_token = "{GATEWAY_TOKEN}"\n'
        'proxy = "http://me:pass-word@b.example"\n[retries]\nattempts = 2\n'
        + archive_at(server.url, 'gateway_url = "https://a.example"')
        + '[connections.archive.provider_options]\nkey = "inner-secret"\n'
    )
    user, place = str(archive.user_file), f"{archive.user_file} [connections.archive]"
    flags = ("config", "--use", "archive", "--cid-version", "0", "--verify")
    variables = {"HOLDFAST_MAX_JSON_BYTES": "1000", "HOLDFAST_VERIFY": "no"}
    shown = archive.json(*flags, **variables)
    retries = {"attempts": 2, "base": 0.25, "cap": 20, "budget": 100, "max_retry_after": 120}
    expected = {
        "use": ("archive", "--use"),
        "provider": ("pinning", place),
        "pin_api_url": (server.url, place),
        "provider_token": ("********", f"{place} token_file"),
        "provider_options": ("********", place),
        "proxy": ("********", user),
        "gateway_token": (None, "default"),  # it is not for the gateway of the connection
        "rate_limit": (60, user),
        "retries": (retries, user),
        "cid_version": (0, "--cid-version"),
        "max_json_bytes": (1000, "HOLDFAST_MAX_JSON_BYTES"),
        "verify": (True, "--verify"),
        "cache_bytes": (0, "default"),
    }
    assert {name: (shown[name]["value"], shown[name]["source"]) for name in expected} == expected
    assert next(iter(shown)) == "use"
    text = archive.text(*flags, **variables)
    assert text == archive.text("config", "list", *flags[1:], **variables)
    named = [line.split()[0].partition(".")[0] for line in text.splitlines() if line[0] != " "]
    assert list(dict.fromkeys(named)) == list(shown)
    assert ["rate_limit", "60", user] in pairs(text)
    for secret in (TOKEN, "pass-word", "inner-secret"):
        assert secret not in text + json.dumps(shown)
    shown = archive.json("config", "--no-verify")
    assert ("use" in shown, shown["verify"]["source"]) == (False, "--no-verify")
    assert shown["gateway_token"] == {"value": "********", "source": user}


def test_config_shows_what_is_wrong_beside_all_the_rest(commands, project):
    project.write_text("rate_limit = 60\nprovder = 1\n")
    variables = {"HOLDFAST_GATEWAY_URL": "nonsense", "HOLDFAST_VERIFY": "perhaps"}
    result = commands.run("config", **variables)
    rows = {name: row for name, *row in pairs(result.stdout.decode())}
    assert rows["gateway_url"] == ["(wrong)", "HOLDFAST_GATEWAY_URL"]
    assert rows["verify"] == ["(wrong)", "HOLDFAST_VERIFY"]
    assert rows["provder"] == ["(wrong)", str(project)]
    assert rows["rate_limit"][0] == "60"
    lines = result.stderr.decode().splitlines()
    assert (result.returncode, len(lines)) == (3, 4)
    assert "did you mean 'provider'?" in lines[0]
    assert lines[1].startswith("note: HOLDFAST_GATEWAY_URL: gateway_url must be")
    assert lines[2] == "note: HOLDFAST_VERIFY must be true or false"
    shown = json.loads(commands.run("config", "--json", **variables).stdout)
    assert shown["verify"]["error"] == "HOLDFAST_VERIFY must be true or false"
    project.write_text("nonsense")
    result = commands.run("config", HOLDFAST_PROVIDER_TOKEN=TOKEN)
    rows = pairs(result.stdout.decode())
    names = {name.partition(".")[0] for name, *_ in rows}
    assert (result.returncode, len(names)) == (3, len(IN_FILES) + 1)
    assert ["provider_token", "********"] in [row[:2] for row in rows]
    assert TOKEN.encode() not in result.stdout + result.stderr


def test_options_of_the_provider_are_set_one_by_one(tmp_path, empty_node):
    commands = Commands(tmp_path, **node_variables(empty_node, "pinata"))
    variables = {"HOLDFAST_PROVIDER_OPTIONS": '{"expires": 60, "network": "public"}'}
    cid = commands.text("store", "[1]", "--private", **variables)
    assert commands.text("list", "--private").split()[0] == cid
    assert commands.text("list", "--option", "network=private", **variables).split()[0] == cid
    assert commands.text("list") == commands.text("list", **variables) == ""
    code, lines = commands.failure("list", "--option", "expires=soon")
    assert (code, "expires must be a whole number" in lines[0]) == (3, True)
    code, lines = commands.failure("list", "--option", "a=1", "--option", "a=2")
    assert (code, lines[0]) == (2, "error: the key 'a' is set twice: give one --option for it")
    shown = commands.json("config", "--private", **variables)["provider_options"]
    assert shown == {"value": "********", "source": "--option"}


def test_options_of_another_provider_are_refused_or_left_out(commands):
    error = "error: provider_options: remove 'depth', because provider 'local' has no options"
    for words in (("--option", "depth=1"), ("--provider", "local", "--option", "depth=1")):
        code, lines = commands.failure("list", *words)
        assert (code, lines[0]) == (3, error)
    with pytest.raises(ConfigError, match="remove 'depth', because provider 'gateway' has no"):
        Client.init(provider="gateway", provider_options={"depth": 1})
    commands.write_user_file('provider = "kubo"\nprovider_options = { offline = true }\n')
    assert commands.text("list", "--provider", "local") == ""


def test_a_path_is_that_of_a_store_whichever_provider_is_set(empty_node, tmp_path):
    commands = Commands(tmp_path, **node_variables(empty_node, "pinning"))
    cid = commands.text("store", "[1]", "--path", "here")
    assert commands.text("list", "-q", "--path", "here") == cid
    assert commands.text("list", "-q") == ""  # it did not go to the service
    assert commands.run("backup", "all.car", "--path", "here").returncode == 0
    assert commands.run("restore", "all.car", "--path", "there").returncode == 0
    assert commands.text("list", "-q", "--path", "there") == cid
    code, lines = commands.failure("list", "--path", "nowhere")
    assert (code, lines[0]) == (3, "error: there is no store in nowhere")
    error = "error: --path is the folder of a store, and provider 'pinning' has none"
    code, lines = commands.failure("store", "2", "--path", "here", "--provider", "pinning")
    assert (code, lines) == (2, [error, "hint: leave out --path or --provider"])
    commands.write_user_file(
        '[connections.disk]\nprovider = "local"\n[connections.reads]\nprovider = "gateway"\n'
        '[connections.safe]\nprovider = "copies"\n'
        'provider_options = { connections = ["disk"], want = 1, need = 1 }\n'
    )
    code, lines = commands.failure("list", "--path", "here", "--use", "reads", HOLDFAST_PROVIDER="")
    assert (code, lines[1]) == (2, "hint: leave out --path or --use")
    safe = {"HOLDFAST_PROVIDER": "", "HOLDFAST_USE": "safe"}
    assert commands.text("list", "-q", "--path", "here", **safe) == cid


def test_variables_that_nothing_reads_are_told(commands):
    commands.write_user_file('[connections.a]\nprovider = "kubo"\ntoken_env = "HOLDFAST_MINE"\n')
    result = commands.run(
        *("list",), HOLDFAST_PROVIDERR="x", HOLDFAST_TOKEN=TOKEN, HOLDFAST_MINE="y",
        HOLDFAST_ZZZZZZ="z", HOLDFAST_NODE_TOKEN="t", HOLDFAST_RATE_LIMIT="600",
    )  # fmt: skip
    assert (result.returncode, sorted(result.stderr.decode().splitlines())) == (
        0,
        [
            "warning: unknown variable HOLDFAST_PROVIDERR: did you mean HOLDFAST_PROVIDER?",
            "warning: unknown variable HOLDFAST_TOKEN: did you mean HOLDFAST_PROVIDER_TOKEN?",
            "warning: unknown variable HOLDFAST_ZZZZZZ",
        ],
    )


def test_verification_that_is_off_is_told_once(commands):
    off = {"HOLDFAST_VERIFY": "no"}
    result = commands.run("list", **off)
    words = "what is read is not checked against its CID"
    assert result.stderr.decode() == f"warning: HOLDFAST_VERIFY turns verification off: {words}\n"
    shown = commands.text("status", **off)
    assert "\nVerify      off: reads are not checked against their CID\n" in shown
    assert commands.json("status", **off)["verify"] is False
    assert (commands.json("status")["verify"], "Verify" in commands.text("status")) == (True, False)
    assert "Verify      off" in commands.text("status", "--no-verify")


def test_config_fits_a_terminal_of_80_columns(commands):
    commands.write_user_file('gateway_url = ["https://a.example/ipfs", "https://b.example/ipfs"]\n')
    shown = commands.text("config", "--provider", "pinata").splitlines()
    user = f"{'':23}  {commands.user_file}"
    folder = str(commands.folder.parent)
    assert max(len(line) for line in shown if folder not in line) <= 80
    gateways = "gateway_url              https://a.example/ipfs, https://b.example/ipfs"
    assert shown[shown.index(gateways) + 1] == user
    shown = commands.text("config", "--provider", "pinata", XDG_CONFIG_HOME="/nowhere")
    assert max(len(line) for line in shown.splitlines() if folder not in line) <= 80


def test_the_paths_in_the_file_of_the_user_begin_at_its_folder(commands):
    commands.write_user_file('path = "store"\n[connections.disk]\nprovider = "local"\npath = "~/d"')
    cid = commands.text("store", "1")
    store = commands.user_file.parent / "store"
    assert (store / "holdfast.sqlite3").is_file()
    assert commands.text("retrieve", cid, "--path", store) == "1"
    commands.text("store", "1", "--use", "disk")
    for variables in ({}, {"HOLDFAST_USE": "disk"}):
        assert commands.text("check", **variables).startswith("sound: 1 pin,")
    assert (commands.folder.parent / "d/holdfast.sqlite3").is_file()
    far = '[connections.far]\nprovider = "pinning"\ntoken_file = "missing"\n'
    commands.write_user_file(far)
    assert commands.failure("check")[0] == 3  # there is no other store
    code, lines = commands.failure("gc", "--use", "far")
    words = "error: --use far: provider 'pinning' has no store on this machine"
    assert (code, lines[0]) == (2, words)


def test_a_profile_brings_its_cid_version(commands):
    cid = "QmWfVY9y3xjsixTgbd9AorQxH7VtMpzfx2HaWtsoUYecaX"
    old = ("cid", "-", "--profile", "unixfs-v0-2015")
    assert commands.text(*old, stdin=b"hello") == cid
    assert commands.text("upload", "-", stdin=b"hello", HOLDFAST_PROFILE="unixfs-v0-2015") == cid
    commands.write_user_file('[connections.old]\nprovider = "kubo"\nprofile = "unixfs-v0-2015"\n')
    assert commands.text("cid", "-", "--use", "old", stdin=b"hello") == cid
    code, lines = commands.failure(*old, "--cid-version", "1")
    assert (code, "set --cid-version 0 with it" in lines[0]) == (3, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('provider_token = "secret-in-a-broken-line', "is not TOML"),
        ('token = "x"', "unknown field 'token': did you mean 'provider_token'?"),
        ("cid_version = 7", "cid_version must be 0 or 1"),
        (f'provider_token = "{TOKEN}"', f"provider_token {REFUSED} {{home}}"),
        ("provider_options = {}", f"{REFUSED} {{home}} or HOLDFAST_PROVIDER_OPTIONS"),
        ('witness = "https://example.com"', f"witness {REFUSED} {{home}} or HOLDFAST_WITNESS"),
        ("rate_limit = 1\nrate_limit = 2\n", "is not TOML (Cannot overwrite a value, at line 2"),
        ("on_event = 1", "on_event is for Python programs"),
        ('path = ""', f"path {REFUSED} {{home}}"),
        ('use = "local"', f"use {REFUSED} {{home}} or HOLDFAST_USE"),
        ("[connections.a]", f"connections {REFUSED} {{home}}"),
        ("x = " + "[" * 100_000, "is not TOML (nested too deep)"),
        ("#" * (1 << 20) + "#", "has more than 1048576 bytes"),
    ],
    ids=lambda text: text[:40],
)
def test_what_is_wrong_in_a_file_names_the_file(home, text, words):
    file = write_project_file(text)
    with pytest.raises(ConfigError) as caught:
        config_of(gather({}))
    assert str(caught.value).startswith(str(file))
    assert words.format(home=home) in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert "secret-in-a-broken-line" not in str(caught.value)


def test_what_is_wrong_names_the_file_the_variable_or_the_flag(commands, project):
    code, lines = commands.failure("retrieve", "1", "--gateway-url", "nonsense")
    assert (code, lines[0].split()[1]) == (3, "--gateway-url:")
    code, lines = commands.failure("store", "1", HOLDFAST_VERIFY="perhaps")
    assert (code, lines[0]) == (3, "error: HOLDFAST_VERIFY must be true or false")
    insecure = ("--provider", "pinning", "--pin-api-url", "http://192.0.2.1")
    code, lines = commands.failure("store", "1", *insecure)
    assert (code, "or --allow-insecure if" in lines[0]) == (3, True)
    project.write_text("verify = false\n")
    code, lines = commands.failure("store", "1")
    assert (code, lines[0].startswith(f"error: {project}: verify is not allowed")) == (3, True)


def test_a_command_minds_only_the_settings_that_it_uses(commands):
    commands.text("upload", "-", stdin=b"hello")
    wrong = {"HOLDFAST_GATEWAY_URL": "nonsense", "HOLDFAST_VERIFY": "perhaps"}
    assert commands.text("cid", "-", stdin=b"hello", **wrong) == HELLO_CID
    assert commands.text("check", **wrong).startswith("sound")
    assert commands.failure("cid", "-", HOLDFAST_PROFILE="nonsense")[0] == 3


def test_a_folder_that_was_removed_holds_no_settings(home):
    write_project_file("rate_limit = 4321\n")
    Path("gone").mkdir()
    os.chdir("gone")
    Path("../gone").rmdir()
    assert gather({}) == {}


@pytest.mark.slow
@pytest.mark.skipif(
    os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may search any folder"
)
def test_a_folder_that_cannot_be_searched_holds_no_settings(commands):
    inside = commands.folder / "closed/inside"
    inside.mkdir(parents=True)
    as_anybody = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    commands.command = (
        *("sh", "-c", 'chmod 0 ..; exec "$0" "$@"'),
        *(as_anybody if os.geteuid() == 0 else ()),
        HOLDFAST,
    )
    try:
        assert commands.text("cid", "-", stdin=b"hello", cwd=inside) == HELLO_CID
    finally:
        inside.parent.chmod(0o755)


# Tokens


def test_the_token_comes_from_a_variable_a_file_or_a_pipe(archive, server):
    to_server = ("test-connection", "--provider", "pinning", "--pin-api-url", server.url)
    (archive.folder / "token").write_text(f"{TOKEN}\n")
    in_variable = f'[connections.b]\nprovider = "pinning"\npin_api_url = "{server.url}"\n'
    archive.write_user_file(f'{archive_at(server.url)}{in_variable}token_env = "MINE"\n')
    other, mine = {"HOLDFAST_PROVIDER_TOKEN": OTHER}, {"HOLDFAST_PROVIDER_TOKEN": TOKEN}
    for arguments, options in (
        (to_server, mine),
        ((*to_server, "--token-file", "token"), other),
        ((*to_server, "--token-file", "-"), {"stdin": f"{TOKEN}\n".encode()}),
        (("test-connection", "--use", "archive"), other),
        (("test-connection",), {"MINE": f" {TOKEN}\n", "HOLDFAST_USE": " b ", **other}),
    ):
        server.reply(200, MESSAGE)
        assert archive.text(*arguments, **options) == "connected to 'pinning'"
    assert sent_tokens(server) == [f"Bearer {TOKEN}"] * 5
    code, lines = archive.failure(*("store", "-", "--token-file", "-"), *to_server[1:], stdin=b"1")
    assert (code, lines[0]) == (2, 'error: standard input can be read only once: give "-" once')


def test_a_token_on_the_command_line_works_with_a_warning(commands, server):
    server.reply(200, MESSAGE)
    to_server = ("--provider", "pinning", "--pin-api-url", server.url)
    result = commands.run("test-connection", *to_server, "--token", TOKEN)
    assert (result.returncode, sent_tokens(server)) == (0, [f"Bearer {TOKEN}"])
    assert result.stderr.startswith(b"warning: a token on the command line can be seen by others")
    assert TOKEN.encode() not in result.stderr
    result = commands.run("store", "1", *to_server, "--token", "")
    assert result.stderr.decode().splitlines()[1].startswith("error: --token: provider_token is")


def test_a_missing_or_bad_token_is_explained(commands):
    pinning = ("store", "1", "--provider", "pinning")
    code, lines = commands.failure(*pinning)
    words = "needs a token: run `holdfast login`, set HOLDFAST_PROVIDER_TOKEN, or give --token-file"
    source = "make an API key at https://app.pinata.cloud, and use its JWT"
    assert (code, lines) == (3, [f"error: provider 'pinning' {words}", f"hint: {source}"])
    code, lines = commands.failure(*pinning, "--token-file", "nothing")
    words = "error: --token-file: nothing cannot be read: No such file or directory"
    assert (code, lines[0]) == (3, words)
    (commands.folder / "token").write_text("two words")
    code, lines = commands.failure(*pinning, "--token-file", "token")
    assert (code, "provider_token holds a space" in lines[0]) == (3, True)
    assert "two words" not in lines[0]


@pytest.mark.slow
def test_content_in_a_pipe_is_never_taken_for_the_token(commands, server):
    """Somebody may look at the error stream, but there is no terminal to ask at."""
    main, side = pty.openpty()
    process = subprocess.Popen(  # noqa: S603 - our own command
        [HOLDFAST, "upload", "-", "--provider", "pinning", "--pin-api-url", server.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=side,
        start_new_session=True,
        env=commands.environment,
        cwd=commands.folder,
    )
    os.close(side)
    output, _ = process.communicate(b"precious-content\n", timeout=120)
    shown = os.read(main, 65536).decode()
    os.close(main)
    assert (process.returncode, output) == (3, b"")
    assert "error: provider 'pinning' needs a token: run `holdfast login`, set HOLDFAST" in shown
    assert server.requests == []


def test_a_token_locks_nobody_out_of_the_own_store(commands):
    (commands.folder / "hello").write_bytes(b"hello")
    commands.text("upload", "hello")
    variables = {"HOLDFAST_PROVIDER_TOKEN": TOKEN}
    assert commands.text("cid", "hello", **variables) == HELLO_CID
    assert commands.text("verify", "hello", HELLO_CID, **variables) == f"hello is {HELLO_CID}"
    for arguments in (["gc"], ["check"], ["car", "export", HELLO_CID, "out.car"]):
        commands.text(*arguments, **variables)


def test_local_does_without_the_token_by_choice_and_not_by_default(commands, project):
    """Nobody should believe that they pinned to a service when they wrote to their disk."""
    for arguments in (["store", "1"], ["list"]):
        code, lines = commands.failure(*arguments, HOLDFAST_PROVIDER_TOKEN=TOKEN)
        assert (code, "provider is 'local'" in lines[0]) == (3, True)
        assert "use --provider pinning" in lines[0]
    assert commands.run("store", "1", "--provider", "local", "--token", TOKEN).returncode == 3
    commands.write_user_file(f'provider = "pinning"\nprovider_token = "{TOKEN}"\n')
    cid = commands.text("store", "1", "--provider", "local")
    assert [pin["cid"] for pin in commands.rows("list", HOLDFAST_PROVIDER="local")] == [cid]
    project.write_text('provider = "local"\n')
    result = commands.run("store", "1", HOLDFAST_PROVIDER_TOKEN=TOKEN)
    assert (result.returncode, result.stdout.decode()) == (0, f"{cid}\n")
    # It came with somebody's repository: nobody should believe that the service has it.
    assert b"holdfast.toml chooses provider 'local' in place of your 'pinning'" in result.stderr


def test_warnings_of_the_library_are_one_line(commands, server):
    server.reply(200, MESSAGE)
    to_server = ("--provider", "provider_b", "--pin-api-url", server.url)
    result = commands.run("test-connection", *to_server, HOLDFAST_PROVIDER_TOKEN=TOKEN)
    assert (result.returncode, result.stderr.decode().splitlines()) == (
        0,
        ["warning: provider 'provider_b' has no implementation of its own yet; 'pinning' is used"],
    )


# What a connection sets, and who chooses it


def test_no_token_is_sent_to_an_address_that_it_is_not_for(home, monkeypatch):
    """A connection that has no token does not get the one for another service, nor its address."""
    home.write_text(
        f'provider = "pinning"\nprovider_token = "{OTHER}"\ngateway_url = "https://a.example"\n'
        f'gateway_token = "{GATEWAY_TOKEN}"\npin_api_url = "https://b.example"\n'
        'allow_insecure = true\nprovider_options = { key = "x" }\nproxy = "http://p.example"\n'
        '[connections.a]\nprovider = "kubo"\npin_api_url = "http://c.example"\n'
    )
    monkeypatch.setenv("HOLDFAST_PROVIDER_TOKEN", TOKEN)
    monkeypatch.setenv("HOLDFAST_GATEWAY_TOKEN", TOKEN)
    monkeypatch.setenv("HOLDFAST_PIN_API_URL", "https://d.example")
    config = connection("a")
    assert (config.provider, config.pin_api_url) == ("kubo", "http://c.example")
    assert {name for name in ENDPOINTS if getattr(config, name)} == {"provider", "pin_api_url"}
    assert config.proxy == Secret("http://p.example")  # the way out of this network is the same
    assert {"identities", "proxy"} == {
        name for name, field in FIELDS.items() if field.secret
    } - ENDPOINTS


def test_another_address_by_flag_does_not_get_the_token_of_the_connection(archive, server):
    with ScriptedServer() as other:
        to_other = ("test-connection", "--use", "archive", "--pin-api-url", other.url)
        code, lines = archive.failure(*to_other)
        words = "set token_file or token_env of the connection 'archive'"
        assert (code, words in lines[0]) == (3, True)
        (archive.user_file.parent / "archive.token").unlink()  # a flag is used in its place
        other.reply(200, MESSAGE)
        archive.text(*to_other, "--token-file", "-", stdin=OTHER.encode())
        assert sent_tokens(other) == [f"Bearer {OTHER}"]
    assert server.requests == []


def test_the_token_of_the_gateway_may_be_elsewhere_too(home):
    write_token(home.parent / "gateway", GATEWAY_TOKEN)
    home.write_text(
        '[connections.a]\nprovider = "kubo"\ngateway_url = "https://a.example"\n'
        'gateway_token_file = "gateway"\n'
    )
    assert connection("a").gateway_token == GATEWAY_TOKEN
    flags = {"use": ("a", "--use"), "gateway_url": ("https://b.example", "--gateway-url")}
    assert config_of(gather(flags)).gateway_token is None


def test_a_connection_or_a_provider_is_chosen_by_the_strongest_source(home, monkeypatch):
    home.write_text('use = "a"\n[connections.a]\nprovider = "kubo"\n')
    assert gather({})["use"] == Setting("a", str(home))
    monkeypatch.setenv("HOLDFAST_PROVIDER", "pinning")
    assert "use" not in gather({})
    assert gather({})["provider"] == Setting("pinning", "HOLDFAST_PROVIDER")
    assert gather({"use": ("a", "--use")})["provider"].value == "kubo"
    monkeypatch.setenv("HOLDFAST_USE", "a")
    wrong = "HOLDFAST_USE and HOLDFAST_PROVIDER both choose where content goes: keep one of them"
    assert gather({})["use"].error == wrong
    assert gather({"provider": ("local", "--provider")})["provider"].value == "local"
    monkeypatch.delenv("HOLDFAST_PROVIDER")
    assert gather({})["use"] == Setting("a", "HOLDFAST_USE")
    monkeypatch.delenv("HOLDFAST_USE")
    home.write_text('use = "a"\nprovider = "local"\n[connections.a]\nprovider = "kubo"\n')
    assert gather({})["use"].error.startswith(f"{home}: use and provider both choose")
    home.write_text('[connections.kubo]\nprovider = "kubo"\npin_api_url = "http://127.0.0.1:1"\n')
    assert connection("kubo").pin_api_url == "http://127.0.0.1:1"  # also the name of a provider


def test_a_user_without_a_home_directory_can_use_a_service(monkeypatch):
    monkeypatch.setattr("holdfast.config.locations._folder", lambda *_: None)
    monkeypatch.setenv("HOLDFAST_PROVIDER", "kubo")
    run = Run({}, as_json=False, fields=("provider",))
    for is_source in (False, True):
        with run.client(is_source=is_source) as client:
            assert client.config.provider == "kubo"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('tokn_file = "x"', "unknown field 'tokn_file': did you mean 'token_file'?"),
        ("on_event = 1", "on_event is for Python programs"),
        ('token_file = "x"\ntoken_env = "X"', "token_file and token_env are given: keep one"),
        (f'token_file = "x"\nprovider_token = "{TOKEN}"', "provider_token and token_file are"),
        ('token_file = ""', "token_file: name a file that holds the token"),
        ('token_file = "."', "token_file: the file cannot be read: "),
        ('token_file = "pipe"', "token_file: the file cannot be read: it is not a regular file"),
        ('token_file = "empty"', "token_file: the file cannot be read: it is empty"),
        ('token_file = "large"', "token_file: the file cannot be read: it has more than 65536"),
        ('token_file = "binary"', "token_file: the file cannot be read: it is not text"),
        ('token_file = "two"', "token_file: provider_token holds a space"),
        (f'token_file = "{TOKEN}"', "token_file: the file cannot be read: No such file"),
        ('token_env = "HOLDFAST_X"', "token_env: the variable HOLDFAST_X is not set"),
        ('token_env = "secret_0123"', "token_env: the variable is not set"),
        (f'token_env = "{TOKEN}"', "token_env: name an environment variable that holds"),
    ],
)
def test_what_is_wrong_in_a_connection_names_it(home, table, words):
    folder = home.parent
    os.mkfifo(folder / "pipe", 0o600)
    write_token(folder / "empty", " \n")
    write_token(folder / "large", "x" * (1 << 20))
    write_token(folder / "two", f"{TOKEN}\n{TOKEN}\n")
    (folder / "binary").write_bytes(b"\xff")
    (folder / "binary").chmod(0o600)
    home.write_text(f'[connections.a]\nprovider = "pinning"\n{table}\n')
    with pytest.raises(ConfigError) as caught:
        connection("a")
    assert str(caught.value).startswith(f"{home} [connections.a]")
    assert words in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert "secret_0123" not in str(caught.value)
    assert gather({}) == {}  # who does not use it is not told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[connections.a]\nrate_limit = 1\n", "[connections.a]: provider is missing"),
        (f'connections = "{TOKEN}"\n', "connections must be tables: write [connections.NAME]"),
        (f'connections.a = "{TOKEN}"\n', "[connections.a] is not a table"),
        (f'[connections.a]\nprovider = "local"\nprovider_token = "{TOKEN}"', "writes to this"),
        ("use = 1\n", "use must be the name of a connection"),
        (f'use = "{TOKEN}"\n', "use must be the name of a connection, of 40 characters or less"),
    ],
)
def test_what_is_wrong_with_the_tables_is_explained(home, text, words):
    home.write_text(text)
    with pytest.raises(ConfigError) as caught:
        config_of(gather({} if text.startswith("use") else {"use": ("a", "--use")}))
    assert words in str(caught.value)
    assert TOKEN not in str(caught.value)


# What the file of a project may do

MINE = f'provider = "pinning"\nprovider_token = "{TOKEN}"\n'
IN_USE = f'use = "a"\n[connections.a]\nprovider = "pinning"\nprovider_token = "{TOKEN}"\n'
IN_VARIABLE = {"PROVIDER_TOKEN": TOKEN}
PRIVATE = {**IN_VARIABLE, "PROVIDER": "pinata", "PROVIDER_OPTIONS": '{"network": "private"}'}
GATEWAY = 'gateway_url = "https://evil.example"'
SENT = "provider decides where your provider_token is sent"
LINKS = "gateway_url decides who gets links to your private files"


@pytest.mark.parametrize(
    ("user", "project", "variables", "error"),
    [
        ("", 'provider = "keeper"', {}, None),  # with nothing to lose, the project may choose
        (MINE, 'provider = "keeper"', {}, SENT),
        ("", 'provider = "keeper"', IN_VARIABLE, SENT),
        ("", 'provider = "kubo"', IN_VARIABLE, SENT),
        ('provider = "kubo"', 'provider = "keeper"', IN_VARIABLE, SENT),
        (f'provider = "keeper"\nprovider_token = "{TOKEN}"', 'provider = "pinning"', {}, SENT),
        ("", 'provider = "pinning"', IN_VARIABLE, None),
        (IN_USE, 'provider = "pinning"', IN_VARIABLE, SENT),
        ("", GATEWAY, {**IN_VARIABLE, "PROVIDER": "pinning"}, None),
        ("", GATEWAY, PRIVATE, LINKS),
        ("", GATEWAY, {**PRIVATE, "GATEWAY_URL": "https://mine.example"}, None),
        (MINE, GATEWAY, {"GATEWAY_TOKEN": OTHER}, "gateway_url decides where your gateway_token"),
        (IN_USE, 'pin_api_url = "https://evil.example"', {}, "pin_api_url is not allowed"),
        (IN_USE, "allow_insecure = true", {}, "allow_insecure is not allowed"),
        (IN_USE, 'proxy = "https://evil.example"', {}, "proxy is not allowed"),
        (IN_USE, "verify = false", {}, "verify is not allowed"),
        (IN_USE, 'token_env = "HOME"', {}, "unknown field 'token_env'"),
        (IN_USE, "[connections.a]", {}, "connections is not allowed"),
    ],
)
@pytest.mark.filterwarnings("ignore:.* in place of your")
def test_a_project_cannot_choose_where_a_secret_goes(  # noqa: PLR0917
    home, monkeypatch, user, project, variables, error
):
    home.write_text(user)
    file = write_project_file(f"{project}\n")
    for name in variables:
        monkeypatch.setenv(f"HOLDFAST_{name}", variables[name])
    if error is None:
        config_of(gather({}))
        return
    with pytest.raises(ConfigError, match=f"{file}: {error}") as caught:
        config_of(gather({}))
    assert TOKEN not in str(caught.value)


def test_the_project_of_others_cannot_change_a_connection(home):
    home.write_text(
        'use = "a"\n[connections.a]\nprovider = "kubo"\n'
        f'gateway_url = "https://mine.example"\ngateway_token = "{GATEWAY_TOKEN}"\n'
    )
    project = write_project_file(f"{GATEWAY}\nrate_limit = 5\n")
    config = config_of(gather({}))
    assert (config.gateway_url, config.rate_limit) == (("https://mine.example/ipfs",), 5)
    assert config.gateway_token == GATEWAY_TOKEN
    project.write_text('provider = "local"\n')
    assert connection("a").provider == "kubo"
    words = "chooses provider 'local' in place of your connection 'a'"
    with pytest.warns(UserWarning, match=words):
        assert config_of(gather({})).gateway_token is None
    project.unlink()
    project.symlink_to(home)
    with pytest.raises(ConfigError, match="connections is not allowed in a project's file"):
        config_of(gather({}))


def test_a_project_cannot_hand_the_token_to_another_provider(archive, project, server, tmp_path):
    variables = install_provider(tmp_path / "site", "keeper", KEEPER)
    keeper_file = archive.folder / "got"
    project.write_text('provider = "keeper"\n')
    code, lines = archive.failure("store", "1", HOLDFAST_PROVIDER_TOKEN=TOKEN, **variables)
    assert (code, keeper_file.exists()) == (3, False)
    assert lines[0].startswith(f"error: {project}: provider decides where your provider_token is")
    server.reply(200, MESSAGE)
    archive.text("test-connection", "--use", "archive", **variables)
    assert (sent_tokens(server), keeper_file.exists()) == ([f"Bearer {TOKEN}"], False)
    # Who says so himself, is believed.
    keeper = ("--provider", "keeper")
    archive.failure("store", "1", *keeper, HOLDFAST_PROVIDER_TOKEN=TOKEN, **variables)
    assert keeper_file.read_text() == TOKEN
    archive.failure("store", "1", *keeper, **variables)
    assert keeper_file.read_text() == ""


@pytest.mark.parametrize("command", [["url"], ["open", "--show"]])
def test_a_project_that_chooses_the_gateway_of_a_link_is_named(commands, project, command):
    """Browsers do not verify what a gateway sends, and a cloned repository may be hostile."""
    project.write_text('gateway_url = "https://other.example"\n')
    warning = f"{project} chooses the gateway of this link; browsers do not verify content"
    result = commands.run(*command, HELLO_CID)
    assert result.stdout.decode() == f"https://other.example/ipfs/{HELLO_CID}\n"
    assert result.stderr.decode() == f"warning: {warning}\n"
    result = commands.run(*command, HELLO_CID, "--json")
    assert json.loads(result.stderr) == {"warning": warning}
    gateway = "https://mine.example"
    link = commands.text(*command, HELLO_CID, "--gateway-url", gateway)
    assert link == f"{gateway}/ipfs/{HELLO_CID}"
    project.unlink()
    commands.write_user_file(f'gateway_url = "{gateway}"\n')
    assert commands.text(*command, HELLO_CID) == link


def test_a_project_file_that_others_may_write_is_ignored(home):
    project = write_project_file("rate_limit = 4321\n")
    assert gather({})["rate_limit"].source == str(project)
    project.chmod(0o666)
    with pytest.warns(UserWarning, match=f"^{project} is ignored: every user may write to it$"):
        assert gather({}) == {}
    project.chmod(0o644)
    if os.geteuid() == 0:
        os.chown(project, 12345, -1)
        with pytest.warns(UserWarning, match="is ignored: it belongs to another user"):
            assert gather({}) == {}


# The command `connections`


def test_connections_are_listed_and_tested(archive, server, other_server):
    archive.write_user_file(
        archive_at(server.url)
        + '[connections.disk]\nprovider = "local"\npath = "disk"\n'
        + '[connections.down]\nprovider = "kubo"\npin_api_url = "http://127.0.0.1:9"\n'
        + f'[connections.wrong]\nprovider = "pinning"\ntoken_file = "{TOKEN}"\n'
        + '[connections.unset]\nprovider = "pinning"\n'
        + '[connections.none]\nprovider = "local"\npath = "none"\n'
        + '[connections.nodes]\nprovider = "cluster"\n'
        + f'pin_api_url = ["{other_server.url}", "http://127.0.0.1:9"]\n'
    )
    archive.text("store", "1", "--use", "disk")
    server.reply(503, b"")
    other_server.reply(200, {"id": "12D3KooW", "version": "1.1.6", "ipfs": {"error": ""}})
    result = archive.run("connections")
    assert (result.returncode, result.stderr) == (12, b"")  # the code of the first that failed
    shown = {line.split()[0]: line for line in result.stdout.decode().splitlines()}
    assert list(shown) == ["archive", "disk", "down", "wrong", "unset", "none", "nodes"]
    assert len(server.requests) == 1
    disk = str(archive.user_file.parent / "disk")
    assert shown["disk"].split() == ["disk", "local", disk, "connected"]
    assert "  error: cannot connect to 127.0.0.1:9" in shown["down"]
    assert "token_file: the file cannot be read" in shown["wrong"]
    assert shown["wrong"].split()[:3] == ["wrong", "pinning", "https://api.pinata.cloud"]
    assert "needs a token" in shown["unset"]
    assert "error: there is no store yet" in shown["none"]
    assert not (archive.user_file.parent / "none").exists()
    assert f"cluster  {other_server.url}, http://127.0.0.1:9  " in shown["nodes"]
    assert TOKEN not in result.stdout.decode()
    server.reply(401, {"error": f"{TOKEN} is bad"})
    result = archive.run("connections", "disk", "archive", "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert rows[0] == {"name": "disk", "provider": "local", "address": disk, "connected": True}
    assert (rows[1]["connected"], rows[1]["error"]["exitCode"]) == (False, 8)
    assert TOKEN not in json.dumps(rows)


def test_connections_are_added_and_removed(commands):
    commands.write_user_file("# mine\nrate_limit = 3\n")
    words = ["--provider", "local", "--path", "here"]
    assert commands.text("connections", "add", "disk", *words).startswith("added 'disk' to ")
    text = commands.user_file.read_text()
    assert text.startswith("# mine\nrate_limit = 3\n")
    assert f'path = "{commands.folder}/here"' in text
    cid = commands.text("store", "1", "--use", "disk")
    for word in ("list", "ls", "test", "disk"):
        assert commands.rows("connections", word) == commands.rows("connections", "list", "disk")
    assert commands.rows("connections", "test", "disk") == commands.rows("connections", "disk")
    assert commands.json("connections")["connected"] is True
    code, lines = commands.failure("connections", "add", "disk", "--provider", "kubo")
    assert (code, lines[0].endswith("has a connection 'disk' already")) == (3, True)
    assert lines[1] == "hint: `holdfast connections remove disk` removes it"

    service = ["--provider", "pinata", "--gateway-url", "https://example.org", "--token-env", "JWT"]
    assert commands.json("connections", "add", "service", *service)["name"] == "service"
    source = commands.json("config", "--use", "service", JWT=TOKEN)["provider_token"]["source"]
    assert source.endswith("[connections.service] token_env")
    for wrong in (
        ["x", "--provider", "nonsense"],
        ["x"],
        ["", "--provider", "local"],
        ["x", "--provider", "pinata", "--gateway-url", "nonsense"],
    ):
        assert commands.failure("connections", "add", *wrong)[0] in {2, 3}
    commands.text("config", "set", "use", "disk")
    assert commands.failure("connections", "rm", "disk")[1][1] == (
        "hint: first run `holdfast config unset use`"
    )
    commands.text("config", "unset", "use")
    assert commands.text("connections", "rm", "disk").startswith("removed 'disk' from ")
    code, lines = commands.failure("connections", "remove", "disk")
    assert (code, lines[1]) == (3, "hint: there are: service")
    commands.text("connections", "remove", "service")
    assert commands.user_file.read_text().rstrip() == "# mine\nrate_limit = 3"
    assert commands.text("retrieve", cid, "--path", "here") == "1"


def test_a_connection_of_copies_names_its_members(commands):
    add = ("connections", "add", "safe", "--provider", "copies")
    options = ("connections=a,b", "want=2", "connections=[]", 'connections=["local", "local"]')
    for wrong in ((), *(("--option", option) for option in options)):
        code, lines = commands.failure(*add, *wrong)
        assert (code, lines) == (
            2,
            [
                "error: provider 'copies' needs different connections, which keep the copies",
                'hint: name them: --option \'connections=["NAME", "OTHER"]\'',
            ],
        )
    assert not commands.user_file.exists()
    for name in ("here", "there"):
        commands.text("connections", "add", name, "--provider", "local", "--path", name)
    # Both are on this machine, so they are one site.
    commands.text(*add, "--option", 'connections=["here", "there"]', "--option", "want=1")
    cid = commands.text("store", "1", "--use", "safe")
    assert commands.json("connections", "safe")["address"] == "here, there"
    assert commands.text("retrieve", cid, "--use", "here") == "1"
    wrong_members = {
        '"thre"': "--option: unknown connection 'thre': did you mean 'there'? there are ",
        '"safe"': "--option: 'safe' has provider copies: name others",
        "1": "--option: use must be the name of a connection",
    }
    for member, words in wrong_members.items():
        code, lines = commands.failure(
            *(*add[:2], "other", *add[3:]), "--option", f'connections=["here", {member}]'
        )
        assert (code, lines[0].startswith(f"error: {words}")) == (3, True)
        assert lines[1] == "hint: `holdfast connections add --help` shows the usage"
    for name in ("there", "here"):
        result = commands.run("connections", "remove", name)
        words = f"'safe' keeps copies at '{name}': add that again"
        assert (result.returncode, result.stderr.decode().startswith(words)) == (0, True)
        commands.text(
            *("connections", "add", name, "--provider", "local", "--path", name, "--site", name)
        )
    commands.text("connections", "remove", "safe")
    commands.text(*add, "--option", 'connections=["here", "there"]')
    assert commands.text("store", "1", "--use", "safe") == cid


def test_a_connection_gets_no_options_that_its_provider_lacks(commands):
    code, lines = commands.failure(
        *("connections", "add", "disk", "--provider", "local", "--option", "depth=1")
    )
    error = "error: provider_options: remove 'depth', because provider 'local' has no options"
    assert (code, lines[0]) == (3, error)
    assert not commands.user_file.exists()


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("identities", 'identities = "TEXT"'),
        ("gateway_token", 'gateway_token = "TEXT"'),
        ("proxy", 'proxy = "TEXT"'),
        ("provider_options", 'provider_options.NAME = "TEXT"'),
        ("provider_options.group", 'provider_options.NAME = "TEXT"'),
    ],
)
def test_the_line_for_a_setting_that_is_not_typed_can_be_written(commands, key, line):
    commands.write_user_file('gateway_url = "https://gateway.example"\n[connections.disk]\n')
    code, lines = commands.failure("config", "set", key, "secret")
    hint = f"hint: write {line} in {commands.user_file}, above its tables"
    assert (code, lines[1]) == (3, hint)
    for words in ((key, "secret"), (f"{key}=secret",)):  # without `set`
        code, lines = commands.failure("config", *words)
        assert (code, lines[1]) == (2, hint)
        assert "secret" not in lines[0]
    text = line.replace("TEXT", "http://proxy.example")
    commands.write_user_file(f"{text}\n{commands.user_file.read_text()}")
    source = commands.json("config")[line.split(" ")[0].removesuffix(".NAME")]["source"]
    assert source == str(commands.user_file)


def test_what_is_no_setting_of_a_file_is_not_offered_as_one(commands):
    errors = {
        "on_event": "on_event is for Python programs",
        "provider_tokn=secret": "unknown setting 'provider_tokn': did you mean 'provider_token'?",
    }
    for typed, error in errors.items():
        code, lines = commands.failure("config", typed)
        assert (code, lines[0]) == (3, f"error: {error}")


def test_without_connections_there_is_nothing_to_test(commands):
    result = commands.run("connections")
    assert (result.returncode, result.stdout) == (0, b"")
    assert result.stderr.startswith(
        b"there are no connections: `holdfast connections add` adds one"
    )
    assert commands.run("connections", "--json").stdout == b""
    for text in ("nonsense", "connections = 1\n"):
        commands.write_user_file(text)
        assert commands.failure("connections")[0] == 3
    assert commands.complete("list --use l") == ["local"]


@pytest.mark.slow
def test_a_connection_that_does_not_answer_does_not_hold_up_the_others(archive, server, tmp_path):
    installed = install_provider(tmp_path / "site", "sleeper", SLEEPER)
    sleeper = '[connections.asleep]\nprovider = "sleeper"\n'
    archive.write_user_file(sleeper + archive_at(server.url))
    server.reply(200, MESSAGE)
    began = time.monotonic()
    result = archive.run("connections", "--timeout", "3", **installed)
    assert time.monotonic() - began < 20
    asleep, answered = result.stdout.decode().splitlines()
    assert (result.returncode, answered.split()[-1]) == (6, "connected")
    assert asleep.split(maxsplit=3)[1:] == ["sleeper", "-", "error: no answer within 3 seconds"]


def test_names_of_connections_are_completed_and_are_not_given_with_a_provider(archive):
    assert archive.complete("list --use ") == sorted(["archive", *providers_without_token()])
    code, lines = archive.failure("list", "--use", "archive", "--provider", "local")
    assert (code, lines[0]) == (2, "error: --use and --provider cannot be used together")
