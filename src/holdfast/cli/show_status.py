"""The command ``status``: what commands work with now, and whether it answers."""

import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

import typer

import holdfast
from holdfast.cli import exit_codes, output
from holdfast.cli.connection_tests import Probe, address_of, try_connection, value_of, wait_for
from holdfast.cli.options import CONNECTED, TEST_TIMEOUT
from holdfast.cli.output import paint
from holdfast.cli.reports import note
from holdfast.cli.run import Run, command, config_of, group
from holdfast.config.connections import USE, Setting

commands: Final = group()
SECONDS: Final = 5.0
NODE: Final = "127.0.0.1", 5080  # the usual address of `holdfast node`
TITLE: Final = b"<title>Holdfast</title>"
MAX_PAGE: Final = 64 << 10


@command(commands, *CONNECTED)
def status(
    run: Run,
    timeout: TEST_TIMEOUT = SECONDS,
) -> None:
    """Show the provider, the store, the node and the disk.

    It tests the connection to the provider; if that fails, the exit code says how.
    """
    from holdfast.config.locations import store_folder
    from holdfast.registry import DEFAULT

    settings = {"provider": Setting(DEFAULT, "default"), **run.settings}
    folder = store_folder(value_of(settings, "path"))
    connection: Probe[bool | None] = Probe(partial(_connect, settings, folder, timeout), timeout)
    store: Probe[dict[str, Any]] = Probe(partial(_look_at_store, folder), timeout)
    node: Probe[bool] = Probe(partial(_is_node_running, timeout), timeout)
    wait_for([connection, store, node], timeout)

    error = connection.error
    value = {
        "version": holdfast.__version__,
        "provider": settings["provider"].value,
        "source": settings["provider"].source,
        "use": settings[USE].value if USE in settings else None,
        "address": address_of(settings),
        "connected": connection.value if error is None else False,
        **({} if error is None else {"error": exit_codes.describe(error)}),
        "store": {"path": str(folder), **(store.value or _trouble(store.error))},
        "node": {"url": "http://{}:{}".format(*NODE), "running": bool(node.value)},
    }
    if run.as_json:
        output.say_json(value)
    else:
        _write(value, error)
        if error is not None:
            note(run, f"hint: {value['error']['remedy']}")
    if error is not None:
        raise typer.Exit(exit_codes.family_of(error).code)


def _connect(settings: dict[str, Setting], folder: Path, seconds: float) -> bool | None:
    """Return True if the provider answers; None if it is a store that the first upload makes."""
    from holdfast.registry import row_of
    from holdfast.repository.database.identity import is_store

    if row_of(config_of(settings).provider).on_this_machine and not is_store(folder):
        return None
    try_connection(settings, seconds)
    return True


def _look_at_store(folder: Path) -> dict[str, Any]:
    """Return what is in the store, and how much room there is on its disk."""
    from holdfast.repository import Repository
    from holdfast.repository.database.identity import is_store

    existing = next(each for each in (folder, *folder.parents) if each.exists())
    disk = shutil.disk_usage(existing)
    about = {"exists": is_store(folder), "free": disk.free, "disk": disk.total}
    if about["exists"]:
        with Repository(folder) as repository:
            about |= repository.totals()._asdict()
    return about


def _trouble(error: Exception | None) -> dict[str, Any]:
    return {"exists": None, "error": None if error is None else exit_codes.describe(error)}


def _is_node_running(seconds: float) -> bool:
    """Return whether a node answers at its usual address."""
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection(*NODE, timeout=seconds)
    try:
        connection.request("GET", "/")
        return TITLE in connection.getresponse().read(MAX_PAGE)
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _write(value: dict[str, Any], error: Exception | None) -> None:
    store = value["store"]
    if store["exists"]:
        content = f"{output.count_text(store['pins'], 'pin')}, {output.size_text(store['size'])}"
    else:
        content = "none yet: the first upload makes it"
        if store["exists"] is None:
            content = f"error: {store['error']['message']}"
    chosen = f"connection {value['use']!r}, " if value["use"] else ""
    _row("Version", value["version"])
    _row("Provider", f"{value['provider']}  ({chosen}{value['source']})")
    if value["address"] != store["path"]:
        _row("Address", value["address"])
    if value["connected"] is None:
        _row("Connection", "not needed")
    elif error is None:
        _row("Connection", "connected", "green")
    else:
        _row("Connection", f"error: {value['error']['message']}", "red")
    _row("Store", f"{store['path']}  ({content})")
    free, disk = (output.size_text(store.get(name)) for name in ("free", "disk"))
    _row("Disk", f"{free} free of {disk}")
    url = value["node"]["url"]
    _row("Node", url if value["node"]["running"] else f"not running at {url}")


def _row(label: str, text: str, colour: str | None = None) -> None:
    text = output.printable(text)
    shown = text if colour is None else paint(text, colour, sys.stdout)
    sys.stdout.write(f"{paint(f'{label:<12}', 'bold', sys.stdout)}{shown}\n")
