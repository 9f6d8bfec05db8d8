"""Write what became of several items to standard error."""

import sys
from typing import Any, Final

from holdfast.cli import output
from holdfast.cli.run import Run
from holdfast.errors import AuthenticationError, PermissionDeniedError

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

    `report` comes from `exit_codes.describe`. Errors that are held for later would hold much more:
    their tracebacks refer to all that was being read.
    """
    if run.as_json:
        output.write_error_json({"error": {**report, kind: item}})
        return
    message = report["message"]
    where = "" if item in message else f"{item}: "
    output.write_error(f"error: {where}{message}", f"hint: {report['remedy']}")
