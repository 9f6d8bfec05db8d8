"""Clients for named connections: what the user's own files say, and no project's."""

import os
import ssl
from pathlib import Path

import pytest

from holdfast import AsyncClient, connections
from holdfast.errors import ConfigError
from holdfast.registry import providers_without_token
from tests.support import TOKEN
from tests.test_cli_settings import MESSAGE, OTHER, archive_at, write_token
from tests.witness import assert_no_secret_in

TEMPTING = """
use = "archive"
verify = false
rate_limit = 4321
[connections.archive]
provider = "kubo"
[connections.disk]
provider = "kubo"
"""


async def config_of(name, **changes):
    async with AsyncClient.connect(name, **changes) as client:
        return client.config


async def test_the_token_of_the_connection_goes_to_its_address(home, server, monkeypatch):
    home.write_text(archive_at(server.url))
    write_token(home.parent / "archive.token", f"{TOKEN}\n", mode=0o644)
    with pytest.warns(UserWarning, match="every user of this machine can read the file"):
        client = await AsyncClient.connect("archive")
    assert server.connections == 0  # nothing is sent before the first call
    server.reply(200, MESSAGE)
    assert await client.test_connection()
    await client.aclose()
    monkeypatch.setenv("MY_TOKEN", OTHER)
    home.write_text(home.read_text().replace("token_file = ", 'token_env = "MY_TOKEN" #'))
    async with AsyncClient.connect(" archive ") as client:
        server.reply(200, MESSAGE)
        assert await client.test_connection()
    sent = [request.headers["authorization"] for request in server.requests]
    assert sent == [f"Bearer {TOKEN}", f"Bearer {OTHER}"]


async def test_changes_win_over_the_connection_and_it_over_variables_and_the_file(
    home, monkeypatch
):
    home.write_text(
        "rate_limit = 1\nhedge_after = 1\nmax_json_bytes = 1\ncache_bytes = 1\n"
        '[connections.a]\nprovider = "kubo"\nrate_limit = 3\nhedge_after = 3\n'
    )
    for name in ("RATE_LIMIT", "HEDGE_AFTER", "MAX_JSON_BYTES"):
        monkeypatch.setenv(f"HOLDFAST_{name}", "2")
    config = await config_of("a", rate_limit=4)
    shown = (config.rate_limit, config.hedge_after, config.max_json_bytes, config.cache_bytes)
    assert shown == (4, 3, 2, 1)
    context = ssl.create_default_context()
    config = await config_of("a", on_event=print, ssl_context=context, profile="unixfs-v0-2015")
    assert (config.on_event, config.ssl_context, config.cid_version) == (print, context, 0)


async def test_the_name_of_a_provider_is_a_connection(home, monkeypatch):
    assert (await config_of("kubo")).api_url == "http://127.0.0.1:5001"
    home.write_text(f'provider = "pinning"\nprovider_token = "{TOKEN}"\n')
    assert (await config_of("pinning")).provider_token == TOKEN  # what `holdfast login` saved
    assert (await config_of("local", path="store")).provider_token is None
    monkeypatch.setenv("HOLDFAST_PROVIDER", "local")
    assert (await config_of("local")).provider_token is None
    with pytest.raises(ConfigError, match="writes to this machine's disk"):
        await config_of("local", provider_token=TOKEN)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("Archiv", {}, "connect: unknown connection 'Archiv': did you mean 'archive'? there are"),
        ("pinning", {}, "connect: unknown connection 'pinning': run `holdfast login "),
        ("", {}, "name must be the name of a connection"),
        (None, {}, "name must be the name of a connection"),
        ({"provider": "local"}, {}, "name must be the name of a connection"),
        (TOKEN, {}, "name must be the name of a connection, of 40 characters or less"),
        ("archive", {"provider": "kubo"}, "connect and provider both choose where content goes"),
        ("archive", {"tokn": TOKEN}, "unknown field 'tokn'"),
        ("archive", {"verify": TOKEN}, "verify must be True or False"),
        ("archive", {"profile": "nonsense"}, "profile must be one of"),
    ],
)
async def test_wrong_names_and_changes_are_explained(home, name, changes, words):
    home.write_text(archive_at("https://a.example"))
    with pytest.raises(ConfigError) as caught:
        await AsyncClient.connect(name, **changes)
    assert str(caught.value).startswith(words)
    assert_no_secret_in(caught.value, only=TOKEN)


@pytest.mark.parametrize(
    "text",
    [
        f'[connections.archive]\nprovider_token = "{TOKEN}',
        f'[connections.archive]\nprovider = "pinning"\nprovder_token = "{TOKEN}"\n',
        f'[connections.archive]\nprovider = "pinning"\nprovider_token = "{TOKEN} x"\n',
        f'[connections.archive]\nprovider = "pinning"\ntoken_file = "{TOKEN}"\n',
        f'[connections.archive]\nprovider = "pinning"\ntoken_env = "{TOKEN}"\n',
        f'[connections.archive]\nprovider = "pinning"\ntoken_env = "x"\nproxy = "{TOKEN}"\n',
        f'[connections.archive]\nprovider = "psa"\nprovider_options = {{ key = "{TOKEN}" }}\n',
        f'connections = "{TOKEN}"\n',
        f"{TOKEN}",
        f'a = "{TOKEN}\udcff"',
        "[connections.archive]\nprovider = 'pinning'\ntoken_file = 'odd'\n",
        "[connections.archive]\nprovider = 'pinning'\ntoken_file = 'latin'\n",
    ],
)
async def test_no_error_shows_a_secret(home, text):
    """Not in its text, nor in the local variables of a frame, which error trackers send."""
    home.write_bytes(text.encode(errors="surrogateescape"))
    write_token(home.parent / "odd", f"{TOKEN} {TOKEN}")
    (home.parent / "latin").write_bytes(f"{TOKEN}\xff".encode("latin-1"))
    (home.parent / "latin").chmod(0o600)
    with pytest.raises(ConfigError) as caught:
        await AsyncClient.connect("archive", gateway_url="https://a.example", gateway_token=TOKEN)
    assert str(home) in str(caught.value) or "provider_token" in str(caught.value)
    assert_no_secret_in(caught.value, only=TOKEN)


async def test_a_project_has_no_say(home, server):
    """Its file is not even opened: it may be broken, or never end."""
    home.write_text('[connections.disk]\nprovider = "local"\npath = "store"\n')
    before = await config_of("disk")
    assert before.path == str(home.parent / "store")
    project = home.parents[2] / "work/holdfast.toml"
    for text in (TEMPTING, "nonsense", 'provider = "local"\n'):
        project.write_text(text)
        assert connections() == ["disk"]
        assert await config_of("disk") == before
        for name in ("archive", "pinning"):
            with pytest.raises(ConfigError, match="unknown connection"):
                await config_of(name)
    project.chmod(0o666)
    assert await config_of("disk") == before  # without the warning of the command line
    project.unlink()
    os.mkfifo(project)
    assert await config_of("disk") == before
    assert server.connections == 0


async def test_only_the_connection_in_use_is_read(home):
    home.write_text(
        '[connections.a]\nprovider = "local"\n'
        '[connections.b]\nprovider = "pinning"\ntoken_file = "missing"\nnonsense = 1\n'
    )
    assert (await config_of("a")).provider == "local"
    with pytest.raises(ConfigError) as caught:
        await config_of("b")
    assert str(caught.value).startswith(f"{home} [connections.b]: unknown field 'nonsense'")
    assert "token_file: the file cannot be read: No such file" in "".join(caught.value.__notes__)


async def test_connections_lists_those_of_the_user(home):
    assert connections() == []
    home.write_text('[connections.b]\nprovider = "local"\n[connections.a]\nprovider = "kubo"\n')
    assert connections() == ["b", "a"]
    assert [(await config_of(name)).provider for name in connections()] == ["local", "kubo"]
    home.write_text("nonsense")
    with pytest.raises(ConfigError, match="is not TOML"):
        connections()
    home.unlink()
    assert connections() == []


async def test_a_user_without_a_home_directory(home, monkeypatch, tmp_path):
    home.write_text('[connections.a]\nprovider = "local"\npath = "~/store"\n')

    def no_home(*_):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.setattr(Path, "expanduser", no_home)
    with pytest.raises(ConfigError, match="the path begins with ~, and this user has no home"):
        await config_of("a")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert connections() == []
    assert (await config_of("kubo")).provider == "kubo"
    with pytest.raises(ConfigError) as caught:
        await config_of("a")
    names = ", ".join(sorted(providers_without_token()))
    words = f"there are {names}, and this user has no home directory for others"
    assert str(caught.value).endswith(words)
