"""Write what became of several items to standard error."""

import sys

from holdfast.cli import exit_codes, output
from holdfast.cli.run import Run


def note(run: Run, text: str) -> None:
    """Write a sentence that is not a result, after the results so far."""
    sys.stdout.flush()
    if run.as_json:
        output.write_error_json({"warning": text})
    else:
        output.write_error(text)


def write_failure(run: Run, kind: str, item: str, error: Exception) -> None:
    """Write the error of one item; with --json, `kind` is the name of the field for the item."""
    report = exit_codes.describe(error)
    if run.as_json:
        output.write_error_json({"error": {**report, kind: item}})
        return
    message = report["message"]
    where = "" if item in message else f"{item}: "
    output.write_error(f"error: {where}{message}", f"hint: {report['remedy']}")
