"""The entry point of the installed command. It imports little, so that Ctrl-C works early."""

import atexit
import os
import signal
import sys
from typing import NoReturn

CLEANUP_SECONDS = 5.0


def main() -> NoReturn:
    """Run the command line, and end the process with its exit code."""
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:  # not under nohup
                signal.signal(number, _end)
        from holdfast.cli import execution

        execution.prepare_streams()
        code = execution.run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130  # before or after the code that reports an interrupt
    sys.exit(code)


def _end(number: int, _: object) -> NoReturn:
    """Exit with the code of shells for a signal, and clean up on the way.

    Python ignores an exception that is raised in a callback of its own, for example during an
    import, and the command would go on. So the process ends without clean-up a little later.
    """
    code = 128 + number
    signal.signal(signal.SIGALRM, lambda *_: os._exit(code))
    # After the last clean-up Python resets handlers, and the alarm itself would be the end.
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)
    signal.setitimer(signal.ITIMER_REAL, CLEANUP_SECONDS)
    sys.exit(code)
