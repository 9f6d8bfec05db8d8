"""Completion of CIDs and names with TAB: from the pins of the store on this machine.

It reads settings and the database. It uses no network and no token, and makes no store. It ends
soon, whatever the store holds, because the user waits for the shell.

Shells insert what they are given as it is, and some evaluate it. A pin may have any name, and
others may have chosen it. So only texts are offered that mean the same in every shell.
"""

import re
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import typer

SECONDS: Final = 1.0
MOST: Final = 100  # completions; nobody reads more
STEPS: Final = 1000  # of SQLite's virtual machine between two looks at the clock
PLAIN: Final = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.+@%/-]{0,199}")
CIDS: Final = "SELECT cid, name FROM pins WHERE removed IS NULL AND substr(cid, 1, ?) = ?"
NAMES: Final = "SELECT name, cid FROM pins WHERE removed IS NULL AND substr(name, 1, ?) = ?"
NEWEST_FIRST: Final = "ORDER BY created DESC, id DESC"


def pinned_cids(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the CIDs of pins that begin with `incomplete`, each with the name of the pin."""
    return _completions(ctx, CIDS, incomplete)


def pin_names(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the names of pins that begin with `incomplete`, each with the CID of the pin."""
    return _completions(ctx, NAMES, incomplete)


def _completions(ctx: typer.Context, query: str, incomplete: str) -> list[tuple[str, str]]:
    import sqlite3

    from holdfast.cli.exit_codes import UsageError
    from holdfast.errors import ClientError

    found: dict[str, str] = {}
    # The command itself will tell what is wrong. What was found before an error is offered.
    with (
        suppress(ClientError, UsageError, OSError, ValueError, sqlite3.Error),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        for text, about in _rows(_store_in_use(ctx.params), query, incomplete):
            if _is_plain(text):
                found.setdefault(text, about if _is_plain(about) else "")
            if len(found) == MOST:
                break
    return list(found.items())


def _is_plain(text: Any) -> bool:
    return isinstance(text, str) and PLAIN.fullmatch(text) is not None


def _store_in_use(given: dict[str, Any]) -> Path | None:
    """Return the folder of the store that the command would use; None if it uses another place."""
    from holdfast.cli.run import Run
    from holdfast.registry import is_on_this_machine

    flags: dict[str, Any] = {
        name: given[name] for name in ("use", "provider", "path") if name in given
    }
    if "source" in given:  # of `copy`
        flags["use"] = given["source"]
    run = Run(flags, as_json=False, fields={*flags, "path"})
    return run.store_path() if is_on_this_machine(run.config().provider) else None


def _rows(folder: Path | None, query: str, incomplete: str) -> Iterator[tuple[Any, Any]]:
    """Yield what `query` finds in the database of the store, until the time is over."""
    import sqlite3

    from holdfast.repository.database.identity import DATABASE
    from holdfast.repository.database.read_only import read_only_uri
    from holdfast.repository.database.trust import check_files, check_tables, harden

    if folder is None or not (folder / DATABASE).is_file():
        return
    check_files(folder / DATABASE)
    end = time.monotonic() + SECONDS
    uri = read_only_uri(folder / DATABASE)
    with closing(sqlite3.connect(uri, uri=True, timeout=SECONDS)) as connection:
        connection.set_progress_handler(lambda: time.monotonic() > end, STEPS)
        harden(connection)
        check_tables(connection, "main")
        values = len(incomplete), incomplete
        yield from connection.execute(f"{query} {NEWEST_FIRST}", values)
