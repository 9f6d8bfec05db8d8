"""The options that many commands share, each group as the signature of a function."""

from typing import Annotated, Any

import typer


def not_empty(value: Any) -> Any:
    """Refuse a path of no characters, which the system would take for the current folder."""
    if value == "":
        raise typer.BadParameter("it is empty")
    return value


def _version(value: Any) -> Any:
    if value not in (None, 0, 1):
        raise typer.BadParameter("it must be 0 or 1")
    return value


def _providers() -> list[str]:
    from holdfast.registry import known_providers

    return known_providers()


def _profiles() -> list[str]:
    from holdfast.config.checks import PROFILES

    return list(PROFILES)


def output_options(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, for machines.")] = False,
) -> None:
    """The options of every command."""


def store_options(
    *,
    path: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", callback=not_empty, help="The folder of the embedded store."
        ),
    ] = None,
) -> None:
    """The options of commands that look into the embedded store."""


def layout_options(
    *,
    cid_version: Annotated[
        int | None, typer.Option(metavar="0|1", callback=_version, help="The version of new CIDs.")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=_profiles,
            help="unixfs-v1-2025, unixfs-v0-2015 or kubo-legacy-cidv1.",
        ),
    ] = None,
) -> None:
    """The options of commands that make CIDs."""


def connection_options(
    *,
    provider: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=_providers,
            help="local, pinning, or an installed provider's name.",
        ),
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", callback=not_empty, help='A file with the provider\'s token, or "-".'
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="The token itself; better in HOLDFAST_PROVIDER_TOKEN or a file."
        ),
    ] = None,
    pin_api_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The pinning API's address.")
    ] = None,
    gateway_url: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A gateway for reads; repeatable, tried in order."),
    ] = None,
    verify: Annotated[
        bool | None,
        typer.Option(
            "--verify/--no-verify",
            show_default=False,
            help="Prove what is read against its CID, or not.",
        ),
    ] = None,
    allow_insecure: Annotated[
        bool | None, typer.Option("--allow-insecure", help="Let a token go over plain HTTP.")
    ] = None,
) -> None:
    """The options of commands that ask a provider."""


CONNECTED = (connection_options, store_options, layout_options)
