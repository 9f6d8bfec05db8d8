"""How a call of the command ends: in an exit code and, where it failed, a sentence and a remedy."""

import os
import sys
import warnings

from holdfast.cli import exit_codes, output, standard_streams
from holdfast.errors import ClientError


def run(arguments: list[str]) -> int:
    """Do what the `arguments` say; the exit code."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json = "--json" in options
    warnings.showwarning = lambda message, *_, **__: _warn(str(message), as_json=as_json)
    try:
        from holdfast.cli.app import call

        code = call(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError as error:
        # Whoever reads our output has had enough; one in the network is told like any error.
        return _report(error, as_json) if isinstance(error, ClientError) else exit_codes.BROKEN_PIPE
    except (Exception, KeyboardInterrupt) as error:
        if exit_codes.family_of(error) is exit_codes.UNEXPECTED and os.environ.get(
            "HOLDFAST_TRACEBACK"
        ):
            raise
        return _report(error, as_json)
    finally:
        standard_streams.settle()


def _warn(text: str, *, as_json: bool) -> None:
    if as_json:
        output.aside_json({"warning": text})
    else:
        output.aside(f"warning: {text}")


def _report(error: BaseException, as_json: bool) -> int:  # noqa: FBT001
    """Write about `error`; the exit code that it ends in."""
    told = exit_codes.describe(error)
    if as_json:
        output.aside_json({"error": told})
    elif isinstance(error, KeyboardInterrupt):
        output.aside(told["message"])
    else:
        details = f" ({told['details']})" if "details" in told else ""
        output.aside(
            f"error: {told['message']}{details}",
            *(f"note: {note}" for note in told.get("notes", ())),
            f"hint: {told['remedy']}",
        )
    code: int = told["exitCode"]
    return code
