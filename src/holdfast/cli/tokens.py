"""Read the provider's token from the command line, a file, standard input, or the terminal.

No variable here holds the plain token: a traceback would show it.
"""

import contextlib
import os
import stat
import sys
import warnings
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.config.secret import Secret
from holdfast.errors import ConfigError
from holdfast.hints import advise

MAX_TOKEN: Final = 64 << 10
OTHER_WAYS: Final = "run `holdfast login`, set HOLDFAST_PROVIDER_TOKEN, or give --token-file"
REMEDY: Final = "name a file that holds the token and nothing else"
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
            return _read(standard_input)
        with Path(name).open("rb") as file:
            return _read(file)
    except (OSError, ConfigError) as error:
        why = _reason(error)
    wrong = ConfigError(f"--token-file: {name} cannot be read: {why}")
    raise advise(wrong, REMEDY)


def read_piped(standard_input: BinaryIO) -> Secret:
    """Read the token from `standard_input`."""
    try:
        return _read(standard_input)
    except (OSError, ConfigError) as error:
        why = _reason(error)
    raise ConfigError(f"standard input cannot be read: {why}")


def read_private(path: Path) -> tuple[Secret, bool]:
    """Read the token from a regular file; return also whether every user can read the file."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise ConfigError("it is not a regular file")  # noqa: TRY301 - handled below
            return _read(file), bool(mode & stat.S_IROTH) and sys.platform != "win32"
    except (OSError, ConfigError) as error:
        why = _reason(error)
    raise ConfigError(f"the file cannot be read: {why}")


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for a writer, if it is a named pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _read(file: BinaryIO) -> Secret:
    try:
        token = Secret(file.read(MAX_TOKEN + 1).decode())
    except UnicodeDecodeError:
        raise ConfigError("it is not text") from None
    if len(token.reveal()) > MAX_TOKEN:
        raise ConfigError(f"it has more than {MAX_TOKEN} bytes")
    return token


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def ask(provider: str, address: str, other_ways: str = OTHER_WAYS) -> Secret:
    """Ask for the token on the terminal, never on standard input, which may hold content."""
    from holdfast.config.client_config import token_source

    source = token_source(address)
    try:
        if not sys.stderr.isatty():
            raise OSError("nobody would see the question")  # noqa: TRY301 - handled below
        token = _ask(f"Token for {address}: ")
    except (OSError, Warning):
        wrong = ConfigError(f"provider {provider!r} needs a token: {other_ways}")
        raise advise(wrong, source) from None
    if not token.reveal().strip():
        raise advise(ConfigError(f"no token was given: {other_ways}"), source)
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
