"""Tests of connections in the background, so that no command waits longer than it says."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import holdfast
from holdfast.cli.run import config_of
from holdfast.config.connections import USE, Setting
from holdfast.errors import ConfigError, RequestTimeoutError
from holdfast.hints import advise

Value = TypeVar("Value")


class Probe(threading.Thread, Generic[Value]):
    """A function that runs in the background. A process that ends does not wait for it.

    Attributes:
        value: What the function returned; None before that.
        error: The error that it raised; before its end, that it takes too long.
    """

    def __init__(self, function: Callable[[], Value], seconds: float) -> None:
        super().__init__(name="holdfast-probe", daemon=True)
        self._function = function
        self.value: Value | None = None
        self.error: Exception | None = RequestTimeoutError(f"no answer within {seconds:g} seconds")
        self.start()

    def run(self) -> None:
        """Keep the result of the function."""
        try:
            self.value = self._function()
        except Exception as error:  # noqa: BLE001 - also of providers that others wrote
            self.error = error
        else:
            self.error = None


def wait_for(probes: Iterable[Probe[Any]], seconds: float) -> None:
    """Wait until all have ended, for `seconds` at most."""
    end = time.monotonic() + seconds
    for probe in probes:
        probe.join(max(0.0, end - time.monotonic()))


def try_connection(settings: Mapping[str, Setting], seconds: float) -> None:
    """Raise an error unless the provider of these settings answers and accepts the token."""
    from holdfast.config.client_config import token_source
    from holdfast.registry import row_of
    from holdfast.repository.database.identity import is_store

    config = config_of(settings)
    if row_of(config.provider).needs_token and config.provider_token is None:
        way = "set token_file" if USE in settings else "`holdfast login` saves one"
        wrong = ConfigError(f"provider {config.provider!r} needs a token: {way}")
        raise advise(wrong, token_source(config.api_url))
    if row_of(config.provider).on_this_machine and not is_store(Path(address_of(settings))):
        raise advise(ConfigError("there is no store yet"), "the first upload makes it")
    test_once(config, seconds)


def test_once(config: "holdfast.ClientConfig", seconds: float) -> None:
    """Raise an error unless the provider answers within `seconds`. Nothing is sent twice."""
    from holdfast.config import Retries, Timeouts

    limits = Timeouts(**dict.fromkeys(("connect", "read", "write", "total"), seconds))
    once = config.with_options(timeouts=limits, retries=Retries(attempts=1))
    with holdfast.Client.init(once) as client:
        client.test_connection()


def address_of(settings: Mapping[str, Setting]) -> str:
    """Return where the content is: a folder or an address."""
    from holdfast.config.locations import store_folder
    from holdfast.registry import BUILT_IN, row_of

    provider = value_of(settings, "provider")
    if row_of(provider).on_this_machine:
        return str(store_folder(value_of(settings, "path")))
    usual = row_of(provider).usual_api_url if provider in BUILT_IN else "-"
    given = value_of(settings, "pin_api_url") or usual
    return given if isinstance(given, str) else ", ".join(given)


def value_of(settings: Mapping[str, Setting], name: str) -> Any:
    """Return the value of a setting; "" if it is not set."""
    return settings[name].value if name in settings else ""
