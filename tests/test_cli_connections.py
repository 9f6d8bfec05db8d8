"""Named connections: what they set, who may choose one, and where their tokens go."""

import json
import os
import time
from pathlib import Path

import pytest

from holdfast.cli.run import Run, config_of
from holdfast.config.connections import Setting
from holdfast.config.fields import FIELDS
from holdfast.config.secret import Secret
from holdfast.config.settings_files import gather
from holdfast.errors import ConfigError
from holdfast.registry import providers_without_token
from holdfast.testing import Scripted, ScriptedServer
from tests.commands import install_provider
from tests.support import GATEWAY_TOKEN, TOKEN
from tests.test_cli_settings import MESSAGE, setting
from tests.test_cli_trust import KEEPER, write_project_file

OTHER = "another-token-0123456789"
SLEEPER = """
import time
class Provider:
    def from_config(config):
        time.sleep(30)
"""
ENDPOINTS = {name for name, field in FIELDS.items() if field.endpoint}
SECRETS = {name for name, field in FIELDS.items() if field.secret}


def connection(name):
    """The configuration of a command with ``--use NAME``."""
    return config_of(gather({"use": (name, "--use")}))


def write_token(file, text=TOKEN, mode=0o600):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)


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


def sent_tokens(server):
    return [request.headers.get("authorization") for request in server.requests]


# What a connection sets.


def test_the_token_of_a_connection_is_in_a_file_or_a_variable(archive, server):
    server.reply(200, MESSAGE)
    assert archive.text("test-connection", "--use", "archive") == "connected to 'pinning'"
    archive.write_user_file(
        f'[connections.archive]\nprovider = "pinning"\npin_api_url = "{server.url}"\n'
        'token_env = "HOLDFAST_ARCHIVE"\n'
    )
    server.reply(200, MESSAGE)
    archive.text("test-connection", HOLDFAST_ARCHIVE=f" {TOKEN}\n", HOLDFAST_USE=" archive ")
    assert sent_tokens(server) == [f"Bearer {TOKEN}"] * 2


def test_config_shows_the_connection_and_where_each_value_is_from(archive, server):
    shown = archive.json("config", "--use", "archive", HOLDFAST_RATE_LIMIT="60")
    place = f"{archive.user_file} [connections.archive]"
    assert next(iter(shown)) == "use"
    assert shown["use"] == {"value": "archive", "source": "--use"}
    assert shown["provider"] == {"value": "pinning", "source": place}
    assert shown["pin_api_url"] == {"value": server.url, "source": place}
    assert shown["provider_token"] == {"value": "********", "source": f"{place} token_file"}
    assert shown["rate_limit"] == {"value": 60, "source": "HOLDFAST_RATE_LIMIT"}
    assert shown["verify"] == {"value": True, "source": "default"}
    assert "use" not in archive.json("config")
    assert TOKEN not in archive.text("config", "--use", "archive")


def test_flags_win_over_the_connection_and_it_over_variables_and_files(home, monkeypatch):
    home.write_text(
        "rate_limit = 1\nhedge_after = 1\ncid_version = 0\n[timeouts]\nread = 1\n"
        '[connections.a]\nprovider = "kubo"\nrate_limit = 3\nhedge_after = 3\ncid_version = 1\n'
    )
    monkeypatch.setenv("HOLDFAST_RATE_LIMIT", "2")
    monkeypatch.setenv("HOLDFAST_HEDGE_AFTER", "2")
    found = gather({"use": ("a", "--use"), "rate_limit": (4, "--rate-limit")})
    place = f"{home} [connections.a]"
    assert found["rate_limit"] == Setting(4, "--rate-limit")
    assert found["hedge_after"] == Setting(3, place)
    assert found["cid_version"] == Setting(1, place)
    assert found["timeouts"].source == str(home)
    assert gather({})["hedge_after"] == Setting(2, "HOLDFAST_HEDGE_AFTER")


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
    assert {"proxy"} == SECRETS - ENDPOINTS


def test_another_address_by_flag_does_not_get_the_token_of_the_connection(archive, server):
    with ScriptedServer() as other:
        to_other = ("test-connection", "--use", "archive", "--pin-api-url", other.url)
        code, lines = archive.failure(*to_other)
        assert code == 3
        assert "set token_file or token_env of the connection 'archive'" in lines[0]
        (archive.folder / "token").write_text(OTHER)
        other.reply(200, MESSAGE)
        archive.text(*to_other, "--token-file", "token")
        assert sent_tokens(other) == [f"Bearer {OTHER}"]
    assert server.requests == []


def test_a_token_by_flag_is_used_in_place_of_a_missing_file(archive, server):
    (archive.user_file.parent / "archive.token").unlink()
    server.reply(200, MESSAGE)
    flags = ("--use", "archive", "--token-file", "-")
    archive.text("test-connection", *flags, given=OTHER.encode())
    assert sent_tokens(server) == [f"Bearer {OTHER}"]


def test_the_token_of_the_gateway_may_be_elsewhere_too(home):
    write_token(home.parent / "gateway", GATEWAY_TOKEN)
    home.write_text(
        '[connections.a]\nprovider = "kubo"\ngateway_url = "https://a.example"\n'
        'gateway_token_file = "gateway"\n'
    )
    assert connection("a").gateway_token == GATEWAY_TOKEN
    flags = {"use": ("a", "--use"), "gateway_url": ("https://b.example", "--gateway-url")}
    assert config_of(gather(flags)).gateway_token is None


def test_paths_begin_at_the_folder_of_the_users_file(home):
    home.write_text('[connections.disk]\nprovider = "local"\npath = "store"\n')
    assert connection("disk").path == str(home.parent / "store")
    home.write_text('[connections.disk]\nprovider = "local"\npath = "~/store"\n')
    assert connection("disk").path == str(home.parent.parent.parent / "store")


# Which connection is in use.


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


def test_use_and_provider_are_not_given_together(archive):
    code, lines = archive.failure("list", "--use", "archive", "--provider", "local")
    assert (code, lines[0]) == (2, "error: --use and --provider cannot be used together")


def test_the_name_of_a_provider_is_a_connection(home, monkeypatch):
    monkeypatch.setenv("HOLDFAST_PROVIDER", "pinning")
    monkeypatch.setenv("HOLDFAST_PROVIDER_TOKEN", TOKEN)
    monkeypatch.setenv("HOLDFAST_PIN_API_URL", "https://a.example")
    monkeypatch.setenv("HOLDFAST_PATH", "/store")
    local, kubo, usual = map(connection, ("local", "kubo", "pinning"))
    assert (local.provider, local.path, local.provider_token) == ("local", "/store", None)
    assert (kubo.provider, kubo.api_url) == ("kubo", "http://127.0.0.1:5001")
    assert (usual.pin_api_url, usual.provider_token) == ("https://a.example", TOKEN)
    monkeypatch.delenv("HOLDFAST_PROVIDER")
    with pytest.raises(ConfigError, match="unknown connection 'pinning'"):
        connection("pinning")
    home.write_text('[connections.kubo]\nprovider = "kubo"\npin_api_url = "http://127.0.0.1:1"\n')
    assert connection("kubo").pin_api_url == "http://127.0.0.1:1"


def test_a_command_may_use_several_connections(home, tmp_path):
    """As one that copies does."""
    home.write_text('[connections.disk]\nprovider = "local"\npath = "~/disk"\n')
    run = Run({}, as_json=False, fields=())
    with run.connect("disk", "--from") as source, run.connect("local", "--to") as target:
        assert source.config.path == str(tmp_path / "disk")
        assert target.config.path is None
    with pytest.raises(ConfigError, match="--from: unknown connection 'dsk': did you mean 'disk'"):
        run.connect("dsk", "--from")


def test_a_user_without_a_home_directory_can_use_a_service(monkeypatch):
    monkeypatch.setattr("holdfast.config.locations._folder", lambda *_: None)
    monkeypatch.setenv("HOLDFAST_PROVIDER", "kubo")
    run = Run({}, as_json=False, fields=("provider",))
    for is_source in (False, True):
        with run.client(is_source=is_source) as client:
            assert client.config.provider == "kubo"


def test_an_unknown_connection_is_told_with_the_known_ones(archive):
    code, lines = archive.failure("list", "--use", "Archiv")
    assert code == 3
    assert lines[0].startswith(
        "error: --use: unknown connection 'Archiv': did you mean 'archive'? "
        f"there are {', '.join(sorted(['archive', *providers_without_token()]))}, and you can add"
    )
    assert archive.failure("cid", "-", "--use", "other", given=b"")[0] == 3


def test_commands_of_the_store_use_the_store_of_the_connection(commands):
    commands.write_user_file(
        '[connections.disk]\nprovider = "local"\npath = "disk"\n'
        '[connections.far]\nprovider = "pinning"\ntoken_file = "missing"\n'
    )
    commands.text("store", "1", "--use", "disk")
    assert commands.text("check", "--use", "disk").startswith("sound: 1 pin,")
    assert commands.text("check", HOLDFAST_USE="disk").startswith("sound: 1 pin,")
    assert commands.failure("check")[0] == 3  # there is no other store
    code, lines = commands.failure("gc", "--use", "far")
    assert code == 2
    assert lines[0] == "error: --use far: provider 'pinning' has no store on this machine"


def test_a_profile_of_a_connection_decides_the_cid(commands):
    commands.write_user_file('[connections.old]\nprovider = "kubo"\nprofile = "unixfs-v0-2015"\n')
    assert commands.text("cid", "-", "--use", "old", given=b"hello").startswith("Qm")


# What is wrong in a connection.


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('tokn_file = "x"', "unknown field 'tokn_file': did you mean 'token_file'?"),
        ("connections = {}", "unknown field 'connections'"),
        ('use = "b"', "unknown field 'use'"),
        ("on_event = 1", "on_event is for Python programs"),
        ("rate_limit = true", "rate_limit must be"),
        ('token_file = "x"\ntoken_env = "X"', "token_file and token_env are given: keep one"),
        (f'token_file = "x"\nprovider_token = "{TOKEN}"', "provider_token and token_file are"),
        ('token_file = ""', "token_file: name a file that holds the token"),
        ("token_file = 1", "token_file: name a file that holds the token"),
        ('token_file = "missing"', "token_file: the file cannot be read: No such file"),
        ('token_file = "."', "token_file: the file cannot be read: "),
        ('token_file = "pipe"', "token_file: the file cannot be read: it is not a regular file"),
        ('token_file = "empty"', "token_file: provider_token is blank"),
        ('token_file = "large"', "token_file: the file cannot be read: it has more than 65536"),
        ('token_file = "binary"', "token_file: the file cannot be read: it is not text"),
        ('token_file = "two"', "token_file: provider_token holds a space"),
        (f'token_file = "{TOKEN}"', "token_file: the file cannot be read: No such file"),
        ('token_env = "HOLDFAST_X"', "token_env: the variable HOLDFAST_X is not set"),
        ('token_env = "secret_0123"', "token_env: the variable is not set"),
        (f'token_env = "{TOKEN}"', "token_env: name an environment variable that holds"),
        ("token_env = 1", "token_env: name an environment variable that holds"),
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
        ('use = ""\n', "use must be the name of a connection"),
        (f'use = "{TOKEN}"\n', "use must be the name of a connection, of 40 characters or less"),
    ],
)
def test_what_is_wrong_with_the_tables_is_explained(home, text, words):
    home.write_text(text)
    with pytest.raises(ConfigError) as caught:
        config_of(gather({} if text.startswith("use") else {"use": ("a", "--use")}))
    assert words in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_a_token_file_that_every_user_can_read_works_with_a_warning(archive, server):
    file = archive.user_file.parent / "archive.token"
    file.chmod(0o640)
    server.reply(200, MESSAGE)
    archive.text("test-connection", "--use", "archive")
    file.chmod(0o644)
    server.reply(200, MESSAGE)
    result = archive.run("test-connection", "--use", "archive")
    assert result.returncode == 0
    assert result.stderr.decode() == (
        f"warning: {archive.user_file} [connections.archive] token_file: "
        "every user of this machine can read the file: chmod 600 protects it\n"
    )


# What the file of a project may do.


@pytest.mark.parametrize("name", ["archive", "local", "kubo", "Archiv"])
def test_a_project_chooses_no_connection(archive, server, name):
    """Whether the user defines it or not, and whatever the user gives or chooses."""
    project = write_project_file(archive, f'use = "{name}"\n')
    (archive.folder / "token").write_text(OTHER)
    for flags in ([], ["--token-file", "token"], ["--use", "archive"]):
        code, lines = archive.failure("test-connection", *flags)
        assert code == 3
        assert lines[0] == (
            f"error: {project}: use is not allowed in a project's file, which is shared: "
            f"remove it, and set it in {archive.user_file} or HOLDFAST_USE"
        )
    archive.write_user_file(f'use = "archive"\n{archive_at(server.url)}')
    assert archive.failure("list")[0] == 3
    assert archive.json("cid", "-", cwd="/", given=b"1")["cid"]
    assert archive.failure("cid", "-", given=b"1")[0] == 3
    assert server.requests == []


def test_a_project_defines_no_connection(archive, server):
    """Not a new one, and not another address for that of the user."""
    evil = '[connections.archive]\nprovider = "pinning"\npin_api_url = "http://127.0.0.1:1"\n'
    archive.write_user_file(f'use = "archive"\n{archive_at(server.url)}')
    project = write_project_file(archive, evil)
    for flags in ([], ["--use", "archive"]):
        result = archive.run("test-connection", *flags)
        assert result.returncode == 3
        last = result.stderr.decode().splitlines()[-2]
        assert last == (
            f"error: {project}: connections is not allowed in a project's file, which is shared: "
            f"remove it, and set it in {archive.user_file}"
        )
    assert server.requests == []


@pytest.mark.parametrize(
    "line",
    [
        'pin_api_url = "{url}"',
        f'provider_token = "{OTHER}"',
        "allow_insecure = true",
        'provider_options = {{ address = "{url}" }}',
        'provider = "keeper"',
        'token_file = "/etc/passwd"',
        'token_env = "HOME"',
        'proxy = "{url}"',
        "verify = false",
        'path = "."',
    ],
)
def test_a_project_cannot_change_the_connection_in_use(archive, server, line, tmp_path):
    installed = install_provider(tmp_path / "site", "keeper", KEEPER) if "keeper" in line else {}
    with ScriptedServer() as evil:
        write_project_file(archive, f"{line.format(url=evil.url)}\n")
        server.reply(200, MESSAGE)
        result = archive.run("test-connection", "--use", "archive", **installed)
        assert evil.requests == []
    is_ignored = bool(installed)  # it would be used without a connection
    assert (result.returncode, len(server.requests)) == ((0, 1) if is_ignored else (3, 0))
    assert not (archive.folder / "got").exists()
    assert TOKEN.encode() not in result.stdout + result.stderr


def test_the_gateway_of_a_project_gets_nothing_of_the_connection(home, monkeypatch):
    home.write_text(
        'use = "a"\n[connections.a]\nprovider = "kubo"\n'
        f'gateway_url = "https://mine.example"\ngateway_token = "{GATEWAY_TOKEN}"\n'
    )
    Path("holdfast.toml").write_text('gateway_url = "https://evil.example"\nrate_limit = 5\n')
    config = config_of(gather({}))
    assert config.gateway_url == ("https://mine.example/ipfs",)
    assert config.rate_limit == 5
    monkeypatch.setenv("HOLDFAST_GATEWAY_TOKEN", TOKEN)
    assert config_of(gather({})).gateway_token == GATEWAY_TOKEN


def test_a_project_that_chooses_a_provider_in_place_of_a_connection(archive, server, tmp_path):
    """It is told, and it gets no token: not that of the connection, nor one in a variable."""
    archive.write_user_file(f'use = "archive"\n{archive_at(server.url)}')
    project = write_project_file(archive, 'provider = "local"\n')
    result = archive.run("list")
    words = f"{project} chooses provider 'local' in place of your connection 'archive'"
    assert (result.returncode, result.stderr.decode()) == (0, f"warning: {words}\n")
    write_project_file(archive, 'provider = "keeper"\n')
    variables = install_provider(tmp_path / "site", "keeper", KEEPER)
    archive.run("store", "1", **variables)
    assert (archive.folder / "got").read_text() == ""
    write_project_file(archive, 'provider = "pinning"\n')
    result = archive.run("list", HOLDFAST_PROVIDER_TOKEN=TOKEN)
    assert (result.returncode, b"provider decides where your provider_token" in result.stderr) == (
        3,
        True,
    )


def test_a_link_in_a_project_to_the_users_file_gives_nothing(archive, server):
    archive.write_user_file(f'use = "archive"\n{archive_at(server.url)}')
    (archive.folder / "holdfast.toml").symlink_to(archive.user_file)
    code, lines = archive.failure("list")
    assert (code, "connections is not allowed in a project's file" in lines[0]) == (3, True)
    assert server.requests == []


# The command.


def test_connections_are_listed_and_tested(archive, server):
    archive.write_user_file(
        archive_at(server.url)
        + '[connections.disk]\nprovider = "local"\npath = "disk"\n'
        + '[connections.down]\nprovider = "kubo"\npin_api_url = "http://127.0.0.1:9"\n'
        + f'[connections.wrong]\nprovider = "pinning"\ntoken_file = "{TOKEN}"\n'
        + '[connections.unset]\nprovider = "pinning"\n'
    )
    archive.text("store", "1", "--use", "disk")
    server.reply(200, MESSAGE)
    result = archive.run("connections")
    assert (result.returncode, result.stderr) == (6, b"")  # the code of the first that failed
    lines = result.stdout.decode().splitlines()
    assert [line.split()[0] for line in lines] == ["archive", "disk", "down", "wrong", "unset"]
    assert lines[0].split() == ["archive", "pinning", server.url, "connected"]
    disk = str(archive.user_file.parent / "disk")
    assert lines[1].split() == ["disk", "local", disk, "connected"]
    assert "  error: cannot connect to 127.0.0.1:9" in lines[2]
    assert "token_file: the file cannot be read" in lines[3]
    assert lines[3].split()[:3] == ["wrong", "pinning", "https://api.pinata.cloud"]
    assert "needs a token" in lines[4]
    assert TOKEN not in result.stdout.decode()
    server.reply(401, {"error": f"{TOKEN} is bad"})
    told = json.loads(archive.run("connections", "disk", "archive", "--json").stdout)
    assert told[0] == {"name": "disk", "provider": "local", "address": disk, "connected": True}
    assert (told[1]["connected"], told[1]["error"]["exitCode"]) == (False, 8)
    assert TOKEN not in json.dumps(told)


def test_a_connection_may_have_several_addresses(commands, server, other_server):
    commands.write_user_file(
        '[connections.nodes]\nprovider = "cluster"\n'
        f'pin_api_url = ["{server.url}", "{other_server.url}"]\n'
    )
    server.reply(200, {"id": "12D3KooW", "version": "1.1.6", "ipfs": {"error": ""}})
    shown = f"nodes  cluster  {server.url}, {other_server.url}  "
    assert shown in commands.run("connections").stdout.decode()


def test_a_store_is_not_made_by_its_test(commands):
    commands.write_user_file('[connections.disk]\nprovider = "local"\npath = "disk"\n')
    result = commands.run("connections")
    assert (result.returncode, b"error: there is no store yet" in result.stdout) == (3, True)
    assert not (commands.user_file.parent / "disk").exists()


def test_without_connections_there_is_nothing_to_test(commands):
    result = commands.run("connections")
    assert (result.returncode, result.stdout) == (0, b"")
    assert result.stderr.startswith(b"there are no connections: add [connections.NAME] to ")
    assert json.loads(commands.run("connections", "--json").stdout) == []
    commands.write_user_file("nonsense")
    assert commands.failure("connections")[0] == 3
    commands.write_user_file("connections = 1\n")
    assert commands.failure("connections")[0] == 3


def test_a_connection_that_does_not_answer_ends_in_time(archive, server):
    with ScriptedServer(lambda _: Scripted(delay=30)) as slow:
        archive.write_user_file(
            archive_at(server.url)
            + f'[connections.slow]\nprovider = "kubo"\npin_api_url = "{slow.url}"\n'
        )
        server.reply(200, MESSAGE)
        began = time.monotonic()
        result = archive.run("connections", "--timeout", "3")
        assert time.monotonic() - began < 20
    lines = result.stdout.decode().splitlines()
    assert (result.returncode, lines[0].split()[-1]) == (6, "connected")
    assert lines[1].startswith("slow")
    assert "error: " in lines[1]


def test_a_provider_that_hangs_does_not_hold_up_the_others(commands, tmp_path):
    installed = install_provider(tmp_path / "site", "sleeper", SLEEPER)
    commands.write_user_file('[connections.slow]\nprovider = "sleeper"\n')
    began = time.monotonic()
    result = commands.run("connections", "--timeout", "0.3", **installed)
    assert time.monotonic() - began < 15
    assert (result.returncode, result.stdout.decode().split(maxsplit=3)) == (
        6,
        ["slow", "sleeper", "-", "error: no answer within 0.3 seconds\n"],
    )


def test_a_test_sends_one_request(archive, server):
    server.reply(503, b"")
    result = archive.run("connections")
    assert (result.returncode, len(server.requests)) == (12, 1)


def test_names_of_connections_are_completed(archive):
    names = ["archive", *providers_without_token()]
    assert archive.complete("list --use ") == sorted(names)
    archive.write_user_file("nonsense")
    assert archive.complete("list --use l") == ["local"]


def test_setting_shows_what_a_provider_by_name_is(commands):
    commands.write_user_file('provider = "pinning"\n')
    assert setting(commands, "provider", "--use", "local") == ("local", "--use")
