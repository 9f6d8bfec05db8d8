"""How a command ends: the exit code of each family of errors, and what to do about it."""

import math
from typing import Any, Final, NamedTuple, TypeVar

from holdfast import errors

FAILED: Final = 1
USAGE: Final = 2
CONFIGURATION: Final = 3
BROKEN_PIPE: Final = 141
SIGNALS: Final = {  # as shells have it
    129: "hung up",
    130: "interrupted",
    BROKEN_PIPE: "nobody read the output to its end",
    143: "terminated",
}
EXTRAS: Final = {"typer": "cli", "aiohttp": "async"} | dict.fromkeys(
    ("starlette", "uvicorn", "multipart"), "node"
)
"""The packages that only some commands need, and the extra that brings them."""

Fault = TypeVar("Fault", bound=BaseException)


class UsageError(Exception):
    """The command was called in a way that it does not understand."""


class Family(NamedTuple):
    """Errors that end in the same exit code."""

    kind: type[BaseException]
    code: int
    meaning: str
    remedy: str


FAMILIES: Final = (
    Family(
        errors.ConfigError,
        CONFIGURATION,
        "the configuration is wrong or incomplete",
        "`holdfast config` shows each value and where it came from",
    ),
    Family(
        errors.InvalidCIDError,
        4,
        "what was given is not a CID",
        "copy it again: a CID such as bafkrei…, a path under it, or a link with /ipfs/ in it",
    ),
    Family(
        errors.SerializationError,
        5,
        "not JSON, or not of the expected shape",
        "to keep or fetch other content, use `holdfast upload` and `holdfast download`",
    ),
    Family(
        errors.NetworkError,
        6,
        "nobody was reached, or not in time",
        "check the network, and the addresses that `holdfast config` shows",
    ),
    Family(
        errors.NotAFileError,
        7,
        "the CID names a directory",
        "put the name of a file behind it: CID/name; or take it whole with `holdfast car export`",
    ),
    Family(
        errors.AuthenticationError,
        8,
        "the token is not accepted (401)",
        "give a current token with HOLDFAST_PROVIDER_TOKEN or --token-file",
    ),
    Family(
        errors.PermissionDeniedError,
        9,
        "the token lacks access (403)",
        "give a token that may do this with HOLDFAST_PROVIDER_TOKEN or --token-file",
    ),
    Family(
        errors.NotFoundError,
        10,
        "the content is not there (404)",
        "check the CID; what was pinned just now may take a while to reach other gateways",
    ),
    Family(errors.RateLimitError, 11, "too many requests (429)", "wait a while and try again"),
    Family(
        errors.ProviderError,
        12,
        "the provider or gateway refused or failed",
        "its own words are above; `holdfast config` shows who was asked",
    ),
    Family(
        errors.UnprovenError,
        13,
        "neither proven nor disproven, or blocks are missing",
        "another gateway or source may have the whole of it",
    ),
    Family(
        errors.VerificationError,
        14,
        "the bytes are not what the CID names",
        "do not use it: get the content anew, from another gateway or source",
    ),
    Family(
        OSError, FAILED, "trouble with a file, or anything else", "check the path and try again"
    ),
    Family(UsageError, USAGE, "wrong usage", "`holdfast COMMAND --help` shows what it takes"),
    Family(KeyboardInterrupt, 130, SIGNALS[130], "call it again"),
)
"""The first that fits an error counts: the special ones stand before the general."""

UNEXPECTED: Final = Family(
    Exception,
    FAILED,
    "anything else",
    "this is a fault in holdfast, please report it; HOLDFAST_TRACEBACK=1 shows where it happened",
)


def advise(error: Fault, remedy: str) -> Fault:
    """`error`, with a remedy that fits better than that of its family."""
    vars(error).setdefault("remedy", remedy)
    return error


def family_of(error: BaseException) -> Family:
    """The family that `error` belongs to."""
    kind = type(error)
    if kind is ValueError:  # an argument that the library refuses; those below it are faults
        kind = UsageError
    elif isinstance(error, ImportError) and error.name in EXTRAS:
        kind = errors.ConfigError
    return next((each for each in FAMILIES if issubclass(kind, each.kind)), UNEXPECTED)


def describe(error: BaseException) -> dict[str, Any]:
    """What there is to say about `error`, for people and machines alike."""
    family = family_of(error)
    message = str(error)
    remedy = vars(error).get("remedy", family.remedy)
    if family is UNEXPECTED:
        message = f"{type(error).__name__}: {error}"
    elif isinstance(error, KeyboardInterrupt):
        message = family.meaning
    elif isinstance(error, ImportError):
        message, _, remedy = message.partition(": ")
        remedy = remedy or f"pip install 'holdfast[{EXTRAS[error.name or '']}]'"
    elif isinstance(error, errors.ProviderError) and error.retry_after:
        remedy = f"wait {_seconds(error.retry_after)}, and try again"
    elif (
        isinstance(error, OSError) and error.strerror and not isinstance(error, errors.ClientError)
    ):
        message = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    details = getattr(error, "reason", "") or getattr(error, "details", None)
    return {
        "name": family.kind.__name__ if isinstance(error, ImportError) else type(error).__name__,
        "message": message,
        **({"details": details} if details and details != message else {}),
        "remedy": remedy,
        **({"notes": error.__notes__} if getattr(error, "__notes__", None) else {}),
        "exitCode": family.code,
    }


def _seconds(number: float) -> str:
    whole = math.ceil(number)
    return "a second" if whole == 1 else f"{whole} seconds"


def table() -> str:
    """The exit codes, for the help."""
    meanings = {0: "success"}
    for family in FAMILIES:
        meanings[family.code] = family.meaning
    meanings |= SIGNALS
    return "\n".join(f"  {code:>3}  {meanings[code]}" for code in sorted(meanings))
