"""The command ``login``: ask for a token, test it, and save it in the user's settings."""

import sys
from typing import Annotated, Any, Final

import typer

import holdfast
from holdfast.cli import tokens
from holdfast.cli.exit_codes import UsageError
from holdfast.cli.reports import note
from holdfast.cli.run import Run, command, config_of, group
from holdfast.config.connections import USE
from holdfast.config.secret import Secret
from holdfast.errors import AuthenticationError, ClientError, ConfigError
from holdfast.hints import advise

commands: Final = group()
USUAL: Final = "pinata"
SECONDS: Final = 30.0  # for the test of the token
DESTINATION: Final = ("pin_api_url", "allow_insecure", "provider_options")
"""The settings that decide, beside the provider, where a token is sent."""


def _services() -> list[str]:
    from holdfast.registry import known_providers, row_of

    return [name for name in known_providers() if not row_of(name).on_this_machine]


@command(commands)
def login(
    run: Run,
    *,
    provider: Annotated[
        str | None,
        typer.Option(metavar="NAME", autocompletion=_services, help="The provider."),
    ] = None,
    pin_api_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The address of its API, if not the usual.")
    ] = None,
    gateway_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The gateway for reads, to save with it.")
    ] = None,
) -> None:
    """Save the token of a provider, after a test.

    It asks for the provider and the token, which is not shown. In a pipe, the token is read from
    standard input. Both are saved in your holdfast.toml, which only you can read then.
    """
    from holdfast.cli.settings_editor import SettingsFile, changing, refuse_moves

    before = SettingsFile()
    path, saved = str(before.path), before.values
    if USE in saved:
        raise advise(
            ConfigError(f"{path} has {USE}, which chooses a connection in place of a login"),
            f"put the token into its token_file, or run `holdfast config unset {USE}` first",
        )
    name = provider or _ask_provider(saved.get("provider"))
    _check_provider(name)
    given = {"provider": name, "pin_api_url": pin_api_url, "gateway_url": gateway_url}
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    _refuse_other_addresses(saved, changes, path)
    others = {key: each for key, each in saved.items() if key != "provider_token"}
    for key, value in changes.items():
        refuse_moves(before.path, others, (key,), value)
    config = _config(changes, path)
    changes["provider_token"] = _read_token(run, config)
    _test(run, config, changes["provider_token"])
    with changing() as file:
        if not file.agrees(before, (USE, "provider", *DESTINATION, "gateway_url", "gateway_token")):
            wrong = f"{path} was changed during the test; nothing was saved"
            raise advise(ConfigError(wrong), "run `holdfast login` again")
        for key, value in changes.items():
            file.change((key,), value)
    run.emit(
        {"provider": name, "address": config.api_url, "settings": path},
        f"logged in to {name!r}; your settings are in {path}",
    )
    tell_stronger(run, list(changes), path)


def _ask_provider(saved: str | None) -> str:
    """Ask for the name of the provider on the terminal."""
    if sys.stdin is None or not sys.stdin.isatty() or not sys.stderr.isatty():
        raise UsageError("standard input is not a terminal: give --provider")
    names = _services()
    usual = saved if saved in names else USUAL
    sys.stderr.write(f"Provider ({', '.join(names)}) [{usual}]: ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:
        raise UsageError("no provider was given")
    return answer.strip() or usual


def _check_provider(name: str) -> None:
    from holdfast.config import checks
    from holdfast.config.fields import wrap_secret
    from holdfast.registry import check_provider, row_of

    check_provider(checks.provider("provider", wrap_secret("provider", name)))
    if row_of(name).on_this_machine:
        raise UsageError(
            f"provider {name!r} needs no token: `holdfast config set provider {name}` chooses it"
        )


def _refuse_other_addresses(saved: dict[str, Any], changes: dict[str, Any], path: str) -> None:
    """Raise ConfigError if settings for another provider decide where the token is sent."""
    before = saved.get("provider")
    if before == changes["provider"]:
        return
    whose = "no provider" if before is None else f"provider {before!r}"
    if others := [name for name in DESTINATION if name in saved and name not in changes]:
        first = "provider_token" if "provider_token" in saved else others[0]
        raise advise(
            ConfigError(f"{path} has {' and '.join(others)} for {whose}"),
            f"first run `holdfast config unset {first}`",
        )


def _config(changes: dict[str, Any], path: str) -> "holdfast.ClientConfig":
    """Return the configuration of commands after the login, without the token.

    Raise ConfigError if something that is not saved decides where the token is sent: later it may
    be missing, and the token would be sent to another address.
    """
    from holdfast.config.settings_files import gather

    flags = {name: (value, f"--{name.replace('_', '-')}") for name, value in changes.items()}
    settings = gather(flags)
    settings.pop("provider_token", None)
    for name in DESTINATION:
        if name in settings and name not in changes and settings[name].source != path:
            way = "give --pin-api-url, or " if name == "pin_api_url" else ""
            source = settings[name].source
            raise advise(
                ConfigError(f"{source} sets {name}, which is not saved"), f"{way}unset {source}"
            )
    return config_of(settings)


def _read_token(run: Run, config: "holdfast.ClientConfig") -> Secret:
    from holdfast.config.checks import token

    if sys.stdin is not None and sys.stdin.isatty():
        given = tokens.ask(config.provider, config.api_url, "write it to standard input")
    else:
        given = tokens.read_piped(run.standard_input())
    checked = token("the token", given)
    if checked is None:
        raise ConfigError("no token was given")
    return checked


def _test(run: Run, config: "holdfast.ClientConfig", token: Secret) -> None:
    from holdfast.cli.connection_tests import test_once

    try:
        test_once(config.with_options(provider_token=token), SECONDS)
    except ClientError as error:
        note(run, "nothing was saved")
        if isinstance(error, AuthenticationError):
            advise(error, "copy the whole token again, or make another one")
        raise


def tell_stronger(run: Run, names: list[str], path: str, *, removed: bool = False) -> None:
    """Write a note for each of these settings that another source than the file sets."""
    from holdfast.config.settings_files import gather

    settings = gather({})
    if USE in names and USE not in settings:
        names = [*names, "provider"]  # a provider that a stronger source chooses
    for name in (each for each in names if each in settings):
        source = settings[name].source
        if removed and not source.endswith(path):  # a profile of the file sets cid_version
            note(run, f"{source} still sets {name}")
        elif not removed and source != path:
            note(run, f"{source} sets {name} too, and wins over {path}")
