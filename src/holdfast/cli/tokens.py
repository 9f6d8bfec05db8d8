"""Read the provider's token from the command line, a file, standard input, or the terminal.

No variable here holds the plain token: a traceback would show it.
"""

import contextlib
import sys
import warnings
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.cli.exit_codes import advise
from holdfast.config.secret import Secret
from holdfast.errors import ConfigError

MAX_TOKEN: Final = 64 << 10
OTHER_WAYS: Final = "set HOLDFAST_PROVIDER_TOKEN, or give --token-file"
SEEN: Final = (
    "a token on the command line can be seen by others and stays in the shell's history; "
    "use HOLDFAST_PROVIDER_TOKEN or --token-file"
)


def given(text: str) -> Secret:
    """Wrap a token that was given on the command line, and warn."""
    warnings.warn(SEEN, UserWarning, stacklevel=2)
    return Secret(text)


def read(name: str, standard_input: BinaryIO | None) -> Secret:
    """Read the token from `standard_input` if it is given, else from the file `name`."""
    try:
        if standard_input is not None:
            return Secret(standard_input.read(MAX_TOKEN).decode())
        with Path(name).open("rb") as file:
            return Secret(file.read(MAX_TOKEN).decode())
    except OSError as error:
        why = error.strerror
    except UnicodeDecodeError:
        why = "it is not text"
    wrong = ConfigError(f"--token-file: {name} cannot be read: {why}")
    raise advise(wrong, "name a file that holds the token and nothing else")


def ask(provider: str, address: str) -> Secret:
    """Ask for the token on the terminal, never on standard input, which may hold content."""
    try:
        if not sys.stderr.isatty():
            raise OSError("nobody would see the question")  # noqa: TRY301 - handled below
        token = _ask(f"Token for {address}: ")
    except (OSError, Warning):
        wrong = ConfigError(f"provider {provider!r} needs a token: {OTHER_WAYS}")
        raise advise(wrong, OTHER_WAYS) from None
    if not token.reveal().strip():
        raise advise(ConfigError("no token was given"), OTHER_WAYS)
    return token


if sys.platform == "win32":

    def _ask(prompt: str) -> Secret:
        """Read a line from the console without showing it."""
        from getpass import GetPassWarning, getpass

        with warnings.catch_warnings():
            warnings.simplefilter("error", GetPassWarning)  # else it reads standard input
            return Secret(getpass(prompt))

else:

    def _ask(prompt: str) -> Secret:
        """Read a line from the terminal without showing it."""
        import termios

        with open("/dev/tty", "r+b", buffering=0) as terminal:  # noqa: PTH123
            before = termios.tcgetattr(terminal)
            hidden = before.copy()
            hidden[3] &= ~termios.ECHO
            try:
                termios.tcsetattr(terminal, termios.TCSAFLUSH, hidden)
                terminal.write(prompt.encode())
                return Secret(terminal.readline().decode(errors="replace"))
            finally:
                with contextlib.suppress(termios.error, OSError):  # the terminal may be closed
                    termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
                    terminal.write(b"\n")
