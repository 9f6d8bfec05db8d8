"""Read the provider's token from the command line, a file, standard input, or the terminal.

No variable here holds the plain token: a traceback would show it.
"""

import sys
import warnings
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import BinaryIO, Final

from holdfast import registry
from holdfast.config.secret import Secret
from holdfast.config.settings_files import read_token, reason_of
from holdfast.errors import ConfigError
from holdfast.hints import advise

OTHER_WAYS: Final = "run `holdfast login`, set HOLDFAST_PROVIDER_TOKEN, or give --token-file"
REMEDY: Final = "give a file or a pipe that holds the token and nothing else"
SEEN: Final = (
    "a token on the command line can be seen by others and stays in the shell's history; "
    "use HOLDFAST_PROVIDER_TOKEN or --token-file"
)


def wrap(text: str) -> Secret:
    """Wrap a token that is on the command line, and warn."""
    warnings.warn(SEEN, UserWarning, stacklevel=2)
    return Secret(text)


def read(source: BinaryIO | Path, what: str) -> Secret:
    """Read the token from a stream or a file; errors call it `what`."""
    try:
        with source.open("rb") if isinstance(source, Path) else nullcontext(source) as file:
            return read_token(file)
    except (OSError, ConfigError) as error:
        reason = reason_of(error)
    raise advise(ConfigError(f"{what} cannot be read: {reason}"), REMEDY)


def ask(provider: str, address: str, other_ways: str = OTHER_WAYS) -> Secret:
    """Ask for the token on the terminal, never on standard input, which may hold content."""
    from holdfast.config.client_config import token_source

    needs_one = registry.row_of(provider).needs_token
    source = token_source(address) if needs_one else f"if it needs none, use --provider {provider}"
    try:
        token = _ask(f"Token for {address}: ")
    except (OSError, Warning):
        wrong = ConfigError(f"provider {provider!r} needs a token: {other_ways}")
        raise advise(wrong, source) from None
    if not token.reveal().strip():
        raise advise(ConfigError("no token was typed"), source)
    return token


def ask_passphrase(path: Path, *, is_new: bool = False) -> Secret:
    """Ask for the passphrase of a key file on the terminal; for a new one, twice."""
    try:
        answers = [_ask(f"Passphrase of {path}: ")]
        answers += [_ask("Repeat it: ")] if is_new else []
    except (OSError, Warning):
        raise ConfigError("the passphrase must be typed on a terminal, and there is none") from None
    passphrase = Secret(answers[0].reveal().rstrip("\r\n"))
    if answers[0] != answers[-1] or not passphrase.reveal():
        raise ConfigError("the passphrase is empty, or the two differ: try again")
    return passphrase


def _ask(prompt: str) -> Secret:
    """Read a line from the terminal without showing it; raise `OSError` if there is none."""
    if not sys.stderr.isatty():
        raise OSError("no one can see the prompt")
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
            with suppress(termios.error, OSError):  # the terminal may be closed
                termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
                terminal.write(b"\n")
