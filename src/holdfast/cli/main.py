"""The entry point of the installed command. Imports as little as it can: Ctrl-C may come early."""

import signal
import sys
from typing import NoReturn

SIGNALS = ("SIGTERM", "SIGHUP")


def main() -> NoReturn:
    """Run the command line, and end the process with its exit code."""
    try:
        for number in (getattr(signal, name) for name in SIGNALS if hasattr(signal, name)):
            if signal.getsignal(number) is signal.SIG_DFL:  # not under nohup
                signal.signal(number, _end)
        from holdfast.cli import execution, standard_streams

        standard_streams.prepare()
        code = execution.run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130  # too early, or too late, to say so
    sys.exit(code)


def _end(number: int, _: object) -> NoReturn:
    """End as shells have it, but with everything put away on the way out."""
    sys.exit(128 + number)
