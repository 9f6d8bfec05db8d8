"""The command ``connections``: lists the user's connections, and tests each."""

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

import holdfast
from holdfast.cli import exit_codes
from holdfast.cli.exit_codes import advise
from holdfast.cli.options import USE, connection_names
from holdfast.cli.reports import note
from holdfast.cli.run import Run, command, group
from holdfast.errors import ConfigError, RequestTimeoutError

if TYPE_CHECKING:
    from holdfast.cli.setting_layers import Setting

commands: Final = group()
METAVAR: Final = "CONNECTION"
SECONDS: Final = 10.0
MAX_SECONDS: Final = 3600.0


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
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0.1, max=MAX_SECONDS, help="How long the tests may take in all."
        ),
    ] = SECONDS,
) -> None:
    """List your connections, and test each.

    The exit code is that of the first test that failed.
    """
    from holdfast.cli.named_connections import known_connections
    from holdfast.cli.setting_layers import user_file

    tested = _test_all(names or known_connections(), timeout)
    run.emit([_plain(each) for each in tested], *_lines(tested))
    if not tested:
        note(run, f"there are no connections: add [connections.NAME] to {user_file()}")
    if failed := [each.error for each in tested if each.error is not None]:
        raise typer.Exit(exit_codes.family_of(failed[0]).code)


def _test_all(names: list[str], seconds: float) -> list[Tested]:
    """Test all connections at the same time, for `seconds` at most."""
    tests = [_Test(name, seconds) for name in names]
    end = time.monotonic() + seconds
    for test in filter(_Test.is_alive, tests):
        test.join(max(0.0, end - time.monotonic()))
    return [test.result() for test in tests]


class _Test(threading.Thread):
    """The test of one connection. A process that ends does not wait for it."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(name=f"holdfast-test-{name}", daemon=True)
        self._connection = name
        self._seconds = seconds
        self._settings: dict[str, Setting] = {}
        self._error: Exception | None = RequestTimeoutError(f"no answer within {seconds:g} seconds")
        try:
            self._settings = _settings_of(name)
        except Exception as error:  # noqa: BLE001 - shown in the row of this connection
            self._error = error
        else:
            self.start()

    def run(self) -> None:
        """Keep the error of the test, or None."""
        try:
            self._test()
        except Exception as error:  # noqa: BLE001 - also of providers that others wrote
            self._error = error
        else:
            self._error = None

    def _test(self) -> None:
        from holdfast.cli.settings import config_of
        from holdfast.config import Retries, Timeouts
        from holdfast.config.client_config import token_source
        from holdfast.registry import is_on_this_machine, needs_token
        from holdfast.repository.database.identity import is_store

        config = config_of(self._settings)
        if needs_token(config.provider) and config.provider_token is None:
            wrong = ConfigError(f"provider {config.provider!r} needs a token: set token_file")
            raise advise(wrong, token_source(config.api_url))
        if is_on_this_machine(config.provider) and not is_store(Path(self._address())):
            raise advise(ConfigError("there is no store yet"), "the first upload makes it")
        once = Timeouts(**dict.fromkeys(("connect", "read", "write", "total"), self._seconds))
        config = config.with_options(timeouts=once, retries=Retries(attempts=1))
        with holdfast.Client.init(config) as client:
            client.test_connection()

    def result(self) -> Tested:
        """Return what is known now."""
        provider = self._value("provider") or "-"
        return Tested(self._connection, provider, self._address(), self._error)

    def _address(self) -> str:
        """Return where the content is: a folder or an address."""
        from holdfast.files.locations import data_folder
        from holdfast.registry import BUILT_IN, is_on_this_machine, usual_api_url

        provider = self._value("provider")
        if is_on_this_machine(provider):
            return str(Path(self._value("path") or data_folder()).expanduser())
        usual = usual_api_url(provider) if provider in BUILT_IN else "-"
        given = self._value("pin_api_url") or usual
        return given if isinstance(given, str) else ", ".join(given)

    def _value(self, name: str) -> Any:
        setting = self._settings.get(name)
        return "" if setting is None else setting.value


def _settings_of(connection: str) -> "dict[str, Setting]":
    from holdfast.cli.settings import gather

    return gather({USE: (connection, METAVAR)})


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
