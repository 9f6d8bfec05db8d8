"""Run the command line; report an error as one sentence with a remedy, and return the exit code."""

import os
import sys
import warnings
from typing import Any

from holdfast.cli import exit_codes, output, standard_streams
from holdfast.errors import ClientError


def run(arguments: list[str]) -> int:
    """Run the command in `arguments`, and return the exit code."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json = "--json" in options
    warnings.showwarning = lambda message, *_, **__: _warn(str(message), as_json=as_json)
    try:
        from holdfast.cli.app import call

        code = call(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError as error:
        # The reader of our output has closed the pipe. A broken network connection is an error.
        return _report(error, as_json) if isinstance(error, ClientError) else exit_codes.BROKEN_PIPE
    except (Exception, KeyboardInterrupt) as error:
        if exit_codes.family_of(error) is exit_codes.UNEXPECTED and os.environ.get(
            "HOLDFAST_TRACEBACK"
        ):
            raise
        return _report(error, as_json)
    finally:
        standard_streams.flush()


def _warn(text: str, *, as_json: bool) -> None:
    if as_json:
        output.write_error_json({"warning": text})
    else:
        output.write_error(f"warning: {text}")


def _report(error: BaseException, as_json: bool) -> int:  # noqa: FBT001
    """Write `error` to standard error, and return its exit code."""
    report = exit_codes.describe(error)
    if as_json:
        output.write_error_json({"error": report})
    elif isinstance(error, KeyboardInterrupt):
        output.write_error(report["message"], *_notes(report))
    else:
        output.write_error(f"error: {_message(report)}", *_notes(report), *_hint(report))
    code: int = report["exitCode"]
    return code


def _message(report: dict[str, Any]) -> str:
    """Return the message, with the details that it does not have."""
    message, details = str(report["message"]), str(report.get("details", ""))
    return message if details in message else f"{message} ({details})"


def _hint(report: dict[str, Any]) -> list[str]:
    """Return the remedy, unless the message says the same."""
    return [] if report["remedy"] in report["message"] else [f"hint: {report['remedy']}"]


def _notes(report: dict[str, Any]) -> list[str]:
    return [f"note: {note}" for note in report.get("notes", ())]
