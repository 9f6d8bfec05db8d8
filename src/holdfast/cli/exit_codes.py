"""The exit code and the remedy of each family of errors."""

import math
from typing import Any, Final, NamedTuple

from holdfast import errors
from holdfast.hints import hint_of

FAILED: Final = 1
USAGE: Final = 2
CONFIGURATION: Final = 3
BROKEN_PIPE: Final = 141
SIGNALS: Final = {  # the codes of shells: 128 and the number of the signal
    129: "terminal closed",
    130: "interrupted",
    BROKEN_PIPE: "output pipe closed",
    143: "terminated",
}
EXTRAS: Final = {"typer": "cli", "tomlkit": "cli", "aiohttp": "async"} | dict.fromkeys(
    ("starlette", "uvicorn", "httptools", "multipart"), "node"
)
"""The packages that only some commands need, and the extra that installs them."""


class UsageError(Exception):
    """The command was called with wrong arguments."""


class Family(NamedTuple):
    """Errors with the same exit code."""

    kind: type[BaseException]
    code: int
    meaning: str
    remedy: str


FAMILIES: Final = (
    Family(
        errors.UnsupportedError,
        CONFIGURATION,
        "the configuration is wrong or incomplete",
        "another provider may be able to: `--provider`",
    ),
    Family(
        errors.ConfigError,
        CONFIGURATION,
        "the configuration is wrong or incomplete",
        "`holdfast config` shows each value and where it came from",
    ),
    Family(
        errors.InvalidCIDError,
        4,
        "the argument is not a CID",
        "copy it again: a CID such as bafkrei…, a path under it, or a link with /ipfs/ in it; "
        "`holdfast list --name TEXT | cat` finds a pin by its name, and shows its whole CID",
    ),
    Family(
        errors.SerializationError,
        5,
        "not JSON, or not of the expected shape",
        "for other content, use `holdfast upload` and `holdfast download`",
    ),
    Family(
        errors.NetworkError,
        6,
        "connection failed or timed out",
        "check the network, and the addresses that `holdfast config` shows",
    ),
    Family(
        errors.NotAFileError,
        7,
        "the CID names a directory",
        "add the name of a file: CID/name; or use `holdfast download` for the whole directory",
    ),
    Family(
        errors.AuthenticationError,
        8,
        "the token is not accepted (401)",
        "give a current token; `holdfast config` shows where this one came from",
    ),
    Family(
        errors.PermissionDeniedError,
        9,
        "the token lacks access (403)",
        "give a token with more permissions; `holdfast config` shows where this one came from",
    ),
    Family(
        errors.NotFoundError,
        10,
        "the content was not found (404), or is not pinned",
        "check the CID and the path; `holdfast list` shows the pins, "
        "and new ones may take a while to reach other gateways",
    ),
    Family(errors.RateLimitError, 11, "too many requests (429)", "wait a while and try again"),
    Family(
        errors.ProviderError,
        12,
        "the provider or gateway refused or failed",
        "`holdfast config` shows the address of the provider, `holdfast list` its pins",
    ),
    Family(
        errors.UnprovenError,
        13,
        "could not be verified, or blocks are missing",
        "another gateway, provider or backup may have all of it",
    ),
    Family(
        errors.VerificationError,
        14,
        "the bytes do not match the CID",
        "do not use the bytes: get the content from another gateway, provider or backup",
    ),
    Family(
        errors.TooLargeError,
        15,
        "the content is larger than --max-size",
        "give a larger --max-size, if you expect so much",
    ),
    Family(OSError, FAILED, "a file error, or any other error", "check the path and try again"),
    Family(UsageError, USAGE, "wrong usage", "`holdfast COMMAND --help` shows the usage"),
    Family(KeyboardInterrupt, 130, SIGNALS[130], "run it again"),
)
"""The first family that matches an error is used, so specific errors come before general ones."""

UNEXPECTED: Final = Family(
    Exception,
    FAILED,
    "any other error",
    "this is a bug in holdfast, please report it; HOLDFAST_TRACEBACK=1 shows where it happened",
)


def family_of(error: BaseException) -> Family:
    """Return the family of `error`."""
    kind = type(error)
    if kind is ValueError:  # the library rejects an argument; a subclass would be a bug
        kind = UsageError
    elif isinstance(error, ImportError) and error.name in EXTRAS:
        kind = errors.ConfigError
    return next((each for each in FAMILIES if issubclass(kind, each.kind)), UNEXPECTED)


def describe(error: BaseException) -> dict[str, Any]:
    """Return the report of `error`, as written with --json.

    The remedy is the hint of the error, or else that of its family.
    """
    family = family_of(error)
    hint = hint_of(error)
    message = str(error)
    remedy = family.remedy if hint is None else hint.on_command_line
    if family is UNEXPECTED:
        message = f"{type(error).__name__}: {error}"
    elif isinstance(error, KeyboardInterrupt):
        message = family.meaning
    elif isinstance(error, ImportError):
        message, _, remedy = message.partition(": ")
        if not remedy:  # Python's own message
            message = f"the package {error.name!r} is not installed"
            remedy = f"pip install 'holdfast[{EXTRAS[error.name or '']}]'"
    elif isinstance(error, errors.ProviderError) and error.retry_after:
        remedy = f"wait {_seconds(error.retry_after)}, and try again"
    elif (
        isinstance(error, OSError) and error.strerror and not isinstance(error, errors.ClientError)
    ):
        message = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    details = getattr(error, "reason", "") or getattr(error, "details", None)
    told = (remedy, details, None if hint is None else hint.note)
    notes = [note for note in getattr(error, "__notes__", ()) if note not in told]
    return {
        "name": family.kind.__name__ if isinstance(error, ImportError) else type(error).__name__,
        "message": message,
        **({"details": details} if details and details != message else {}),
        "remedy": remedy,
        **({"notes": notes} if notes else {}),
        "exitCode": family.code,
    }


def _seconds(number: float) -> str:
    whole = math.ceil(number)
    return "a second" if whole == 1 else f"{whole} seconds"


def meanings() -> dict[int, str]:
    """Return what each exit code means, in the order of the codes."""
    found = {0: "success"} | {family.code: family.meaning for family in FAMILIES} | SIGNALS
    return {code: found[code] for code in sorted(found)}


def table() -> str:
    """Return the table of exit codes for the help."""
    return "\n".join(f"{code:>3}  {meaning}" for code, meaning in meanings().items())
