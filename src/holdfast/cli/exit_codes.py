"""The exit code and the remedy of each family of errors."""

import math
import re
from typing import Any, Final, NamedTuple

from holdfast import errors, registry
from holdfast.disk.disk_space import FULL
from holdfast.hints import hint_of
from holdfast.single_line import without_queries

FAILED: Final = 1
USAGE: Final = 2
CONFIGURATION: Final = 3
FEWER: Final = 20
TOO_FEW: Final = 21
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
# The packages that only some commands need, and the extra that installs them.
EXTRAS: Final = {
    "typer": "cli",
    "tomlkit": "cli",
    "aiohttp": "async",
    "cryptography": "encryption",
} | dict.fromkeys(("starlette", "uvicorn", "httptools", "multipart"), "node")


# What errors of the library call by its Python name, and what the command line calls it.
IN_PYTHON: Final = {
    "all of it with download_folder": "all of it with `holdfast download`",
    "max_bytes allows": "--max-size allows",
    "connect: unknown connection": "unknown connection",
    "BackupProvider is": "the backup is",
} | {
    f"{row.class_name} ": f"provider {name!r} "
    for name, row in registry.BUILT_IN.items()
    if row.stands_for is None
}
# The same for errors about settings: patterns of what a file of settings writes in another way.
IN_SETTINGS: Final = {
    r", not (int|float|str|bool|list|tuple|dict|datetime|date|time)$": "",
    r"True or False": "true or false",
    r"a mapping": "a table",
    r"\{'(\w+)': (\d)\}": r"\1 = \2",
    r" (on_event|ssl_context),": "",
}


class UsageError(Exception):
    """The command was called with wrong arguments."""


class Family(NamedTuple):
    """Errors with the same exit code and remedy."""

    kind: type[BaseException]
    code: int
    remedy: str


# What each exit code means.
MEANINGS: Final = {
    0: "success",
    FAILED: "a file error, or any other error",
    USAGE: "wrong usage",
    CONFIGURATION: "the configuration is wrong or incomplete",
    4: "the argument is not a CID",
    5: "not JSON, or not of the expected shape",
    6: "connection failed or timed out",
    7: "the CID names a directory",
    8: "the token is not accepted (401)",
    9: "the token lacks access (403)",
    10: "the content was not found (404), or is not pinned",
    11: "too many requests (429)",
    12: "the provider or gateway refused or failed",
    13: "could not be verified, or blocks are missing",
    14: "the bytes do not match the CID, or encrypted content was changed",
    15: "the content is larger than --max-size",
    16: "the content is not encrypted",
    17: "none of your identities opens the content",
    FEWER: "some content has fewer proven copies than `want`",
    TOO_FEW: "some content has, or would have, fewer proven copies than `need`",
    129: "terminal closed",  # from here on as in shells: 128 and the number of the signal
    INTERRUPTED: "interrupted",
    BROKEN_PIPE: "output pipe closed",
    143: "terminated",
}

_WHERE_FROM: Final = "`holdfast config` shows where this one came from"
# The first family that matches an error is used, so specific errors come before general ones.
FAMILIES: Final = (
    Family(
        errors.UnsupportedError, CONFIGURATION, "another provider may be able to: --provider NAME"
    ),
    Family(
        errors.ConfigError,
        CONFIGURATION,
        "`holdfast config` shows each value and where it came from",
    ),
    Family(
        errors.InvalidCIDError,
        4,
        "write a CID such as bafkrei…, a path under it, or a link with /ipfs/ in it; for your "
        "own pins, name:NAME or the first 12 characters of the CID are enough",
    ),
    Family(
        errors.SerializationError,
        5,
        "for other content, use `holdfast upload` and `holdfast download`",
    ),
    Family(
        errors.NetworkError, 6, "check the network, and the addresses that `holdfast config` shows"
    ),
    Family(
        errors.NotAFileError,
        7,
        "add the name of a file: CID/name; or use `holdfast download` for the whole directory",
    ),
    Family(errors.AuthenticationError, 8, f"give a current token; {_WHERE_FROM}"),
    Family(errors.PermissionDeniedError, 9, f"give a token with more permissions; {_WHERE_FROM}"),
    Family(
        errors.NotFoundError,
        10,
        "check the CID and the path; `holdfast list` shows the pins, "
        "and new ones may take a while to reach other gateways",
    ),
    Family(errors.RateLimitError, 11, "wait a while and try again"),
    Family(
        errors.ProviderError,
        12,
        "`holdfast config` shows the address of the provider, `holdfast list` its pins",
    ),
    Family(errors.UnprovenError, 13, "another gateway, provider or backup may have all of it"),
    Family(
        errors.VerificationError,
        14,
        "do not use the bytes: get the content from another gateway, provider or backup",
    ),
    Family(errors.TooLargeError, 15, "give a larger --max-size, if you expect this much"),
    Family(
        errors.NotEncryptedError,
        16,
        "read it without --decrypt; to encrypt it, upload it again with --encrypt",
    ),
    Family(errors.NoKeyError, 17, "`holdfast keys` lists your identities"),
    Family(OSError, FAILED, "check the path and try again"),
    Family(UsageError, USAGE, "`holdfast --help` lists the commands"),
    Family(KeyboardInterrupt, INTERRUPTED, "run it again"),
)

UNEXPECTED: Final = Family(
    Exception,
    FAILED,
    "this is a bug in holdfast, please report it; HOLDFAST_TRACEBACK=1 shows where it happened",
)


def family_of(error: BaseException) -> Family:
    """Return the family of `error`."""
    kind = type(error)
    if kind is ValueError:  # the library rejects an argument; a subclass would be a bug
        kind = UsageError
    elif isinstance(error, ImportError) and error.name in EXTRAS:
        kind = errors.ConfigError
    return next((family for family in FAMILIES if issubclass(kind, family.kind)), UNEXPECTED)


def describe(error: BaseException) -> dict[str, Any]:
    """Return the report of `error`, as written with --json.

    The remedy is the hint of the error, or else that of its family.
    """
    family = family_of(error)
    hint = hint_of(error)
    message = str(error)
    remedy = family.remedy if hint is None else hint.on_command_line
    for in_python, word in IN_PYTHON.items():
        message = message.replace(in_python, word)
    for pattern, words in IN_SETTINGS.items() if family.kind is errors.ConfigError else ():
        message = re.sub(pattern, words, message)
    if family is UNEXPECTED:
        message = f"{type(error).__name__}: {error}"
    elif isinstance(error, KeyboardInterrupt):
        message = MEANINGS[INTERRUPTED]
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
        if error.errno in FULL:
            remedy = "free some space on that disk; `holdfast gc` removes what no pin needs"
    details = getattr(error, "details", None)
    said = (remedy, details, None if hint is None else hint.note)
    notes = [note for note in getattr(error, "__notes__", ()) if note not in said]
    return {
        "name": family.kind.__name__ if isinstance(error, ImportError) else type(error).__name__,
        "message": without_queries(message),
        **({"details": details} if details and details != message else {}),
        "remedy": without_queries(remedy),
        **({"notes": notes} if notes else {}),
        "exitCode": family.code,
    }


def _seconds(number: float) -> str:
    whole = math.ceil(number)
    return "a second" if whole == 1 else f"{whole} seconds"


def table() -> str:
    """Return the table of exit codes for the help."""
    return "\n".join(f"{code:>3}  {meaning}" for code, meaning in MEANINGS.items())
