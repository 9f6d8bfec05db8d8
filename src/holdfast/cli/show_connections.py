"""The command ``connections``: lists the user's connections, and tests each."""

from functools import partial
from typing import Annotated, Any, Final, NamedTuple

import typer

from holdfast.cli import exit_codes
from holdfast.cli.connection_tests import Probe, address_of, try_connection, value_of, wait_for
from holdfast.cli.options import TEST_TIMEOUT, connection_names
from holdfast.cli.reports import note
from holdfast.cli.run import Run, command, group
from holdfast.config.connections import USE, Setting

commands: Final = group()
METAVAR: Final = "CONNECTION"
SECONDS: Final = 10.0


class Tested(NamedTuple):
    """A connection, and the error of its test, if it failed."""

    name: str
    provider: str
    address: str
    error: Exception | None


@command(commands)
def connections(
    run: Run,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar=METAVAR, autocompletion=connection_names, help="Those to test; else all."
        ),
    ] = None,
    timeout: TEST_TIMEOUT = SECONDS,
) -> None:
    """List your connections, and test each.

    The exit code is that of the first test that failed.
    """
    from holdfast.config import settings_files

    tested = _test_all(names or settings_files.connections(), timeout)
    run.emit([_plain(each) for each in tested], *_lines(tested))
    if not tested:
        note(
            run, f"there are no connections: add [connections.NAME] to {settings_files.user_file()}"
        )
    if failed := [each.error for each in tested if each.error is not None]:
        raise typer.Exit(exit_codes.family_of(failed[0]).code)


def _test_all(names: list[str], seconds: float) -> list[Tested]:
    """Test all connections at the same time, for `seconds` at most."""
    begun = [_begin(name, seconds) for name in names]
    wait_for([test for _, test in begun if isinstance(test, Probe)], seconds)
    return [
        Tested(
            name,
            value_of(settings, "provider") or "-",
            address_of(settings),
            test.error if isinstance(test, Probe) else test,
        )
        for name, (settings, test) in zip(names, begun, strict=True)
    ]


def _begin(name: str, seconds: float) -> tuple[dict[str, Setting], Probe[None] | Exception]:
    """Return the settings of a connection, and its test or the error of its settings."""
    from holdfast.config.settings_files import gather

    try:
        settings = gather({USE: (name, METAVAR)})
    except Exception as error:  # noqa: BLE001 - shown in the row of this connection
        return {}, error
    return settings, Probe(partial(try_connection, settings, seconds), seconds)


def _plain(tested: Tested) -> dict[str, Any]:
    error = tested.error
    return {
        "name": tested.name,
        "provider": tested.provider,
        "address": tested.address,
        "connected": error is None,
        **({} if error is None else {"error": exit_codes.describe(error)}),
    }


def _lines(tested: list[Tested]) -> list[str]:
    rows = [(each.name, each.provider, each.address, _result(each.error)) for each in tested]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    return [
        "  ".join((*(f"{text:<{width}}" for text, width in zip(row, widths, strict=False)), row[3]))
        for row in rows
    ]


def _result(error: Exception | None) -> str:
    return "connected" if error is None else f"error: {exit_codes.describe(error)['message']}"
