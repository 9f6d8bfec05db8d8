"""Run the command line; report an error as one sentence with a remedy, and return the exit code."""

import os
import sys
import warnings

from holdfast.cli import exit_codes, output
from holdfast.errors import ClientError


def prepare_streams() -> None:
    """Make all characters writable, and open closed streams on the null device.

    Otherwise the next file that is opened would get the number of the closed descriptor, and
    messages would be written into it. `sys.stdin` stays None if it is closed, so that reading from
    it is an error.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)  # noqa: FBT003 - takes no keyword
            if name != "stdin":
                nowhere = open(descriptor, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
                setattr(sys, name, nowhere)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a caller of `main` may have set another object
            stream.reconfigure(errors="backslashreplace")


def run(arguments: list[str]) -> int:
    """Run the command in `arguments`, and return the exit code."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json = "--json" in options
    for stream in (sys.stdout, sys.stderr) if as_json else ():
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8")  # as JSON is, whatever the locale has
    warnings.showwarning = lambda message, *_, **__: output.write_aside(
        "warning", str(message), as_json=as_json
    )
    try:
        from holdfast.cli.app import call

        code = call(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError as error:
        # The reader of our output has closed the pipe. A broken network connection is an error.
        return _report(error, as_json) if isinstance(error, ClientError) else exit_codes.BROKEN_PIPE
    except (Exception, KeyboardInterrupt) as error:
        is_bug = exit_codes.family_of(error) is exit_codes.UNEXPECTED
        if is_bug and os.environ.get("HOLDFAST_TRACEBACK"):
            raise
        return _report(error, as_json)
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:  # discard what cannot be written, so that Python does not try again
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _report(error: BaseException, as_json: bool) -> int:  # noqa: FBT001
    """Write `error` to standard error, and return its exit code."""
    report = exit_codes.describe(error)
    notes = [f"note: {note}" for note in report.get("notes", ())]
    if as_json:
        output.write_error_json({"error": report})
    elif isinstance(error, KeyboardInterrupt):
        output.write_error(report["message"], *notes)
    else:
        hint = [] if report["remedy"] in report["message"] else [f"hint: {report['remedy']}"]
        message, details = report["message"], str(report.get("details", ""))
        line = message if details in message else f"{message} ({details})"
        output.write_error(f"error: {line}", *notes, *hint)
    code: int = report["exitCode"]
    return code
