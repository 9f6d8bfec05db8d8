"""The entry point of the installed command. It imports little, so that Ctrl-C works early."""

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
        code = 130  # before or after the code that reports an interrupt
    sys.exit(code)


def _end(number: int, _: object) -> NoReturn:
    """Exit with the code of shells for a signal, and clean up on the way."""
    sys.exit(128 + number)
