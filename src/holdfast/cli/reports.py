"""Write what is not a result to standard error: notes, and the errors of single items."""

import sys
from typing import TYPE_CHECKING, Any, Final

from holdfast.cli import output
from holdfast.cli.run import Run
from holdfast.errors import AuthenticationError, PermissionDeniedError

if TYPE_CHECKING:
    from holdfast import Client
    from holdfast.cli.progress import ProgressBar
    from holdfast.events import Event

AT_ONCE: Final = 8  # items under way at the same time
FATAL: Final = (AuthenticationError, PermissionDeniedError)  # no other item would fare better


def note(run: Run, text: str) -> None:
    """Write a sentence that is not a result, after the results so far."""
    sys.stdout.flush()
    if run.as_json:
        output.write_error_json({"warning": text})
    else:
        output.write_error(text)


def write_failure(run: Run, kind: str, item: str, report: dict[str, Any]) -> None:
    """Write the error of one item; with --json, `kind` is the name of the field for the item.

    A hint is written once for all items in a row that have it.

    `report` comes from `exit_codes.describe`. Errors that are held for later would hold much more:
    their tracebacks refer to all that was being read.
    """
    if run.as_json:
        output.write_error_json({"error": {**report, kind: item}})
        return
    message = report["message"]
    where = "" if item in message else f"{item}: "
    hint = report["remedy"]
    output.write_error(
        f"error: {where}{message}", *([] if hint == run.last_hint else [f"hint: {hint}"])
    )
    run.last_hint = hint


def telling_resumes(
    run: Run, client: "Client", label: str, bar: "ProgressBar | None" = None
) -> "Client":
    """Return a client that says where an interrupted upload or download continues.

    It says so once. A folder's next events are for its files.
    """
    told = False

    def tell(event: "Event") -> None:
        nonlocal told
        if event.kind == "resume" and event.position and not told:
            told = True
            note(run, f"{label}: continues after {output.size_text(event.position)}")
            if bar is not None:
                bar.resume(event.position)

    return client.with_options(on_event=tell)
