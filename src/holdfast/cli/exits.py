"""How a command ends: the exit code of each family of errors, and what to do about it."""

from typing import Any, Final, NamedTuple

from holdfast import errors

FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130  # as shells have it
BROKEN_PIPE: Final = 141


class Family(NamedTuple):
    """Errors that end in the same exit code."""

    kind: type[Exception]
    code: int
    meaning: str
    remedy: str


FAMILIES: Final = (
    Family(
        errors.ConfigError,
        3,
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
        "its own words are above; `holdfast test-connection` tries the account",
    ),
    Family(
        errors.UnprovenError,
        13,
        "neither proven nor disproven, or blocks are missing",
        "ask another gateway with --gateway-url, or see whether the content is complete",
    ),
    Family(
        errors.VerificationError,
        14,
        "the bytes are not what the CID names",
        "nothing of it was kept: ask another gateway with --gateway-url, or get the content anew",
    ),
    Family(
        OSError, FAILED, "trouble with a file, or anything else", "check the path and try again"
    ),
    Family(ValueError, USAGE, "wrong usage", "`holdfast COMMAND --help` shows what it takes"),
)
"""The first that fits an error counts: the special ones stand before the general."""

UNEXPECTED: Final = Family(
    Exception,
    FAILED,
    "anything else",
    "this is a fault in holdfast, please report it; HOLDFAST_TRACEBACK=1 shows where it happened",
)


def family_of(error: Exception) -> Family:
    """The family that `error` belongs to."""
    return next((each for each in FAMILIES if isinstance(error, each.kind)), UNEXPECTED)


def describe(error: Exception) -> dict[str, Any]:
    """What there is to say about `error`, for people and machines alike."""
    family = family_of(error)
    message = str(error)
    if family is UNEXPECTED:
        message = f"{type(error).__name__}: {error}"
    elif (
        isinstance(error, OSError) and error.strerror and not isinstance(error, errors.ClientError)
    ):
        message = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    remedy = family.remedy
    if isinstance(error, errors.ProviderError) and error.retry_after:
        remedy = f"wait {error.retry_after:.0f} seconds, and try again"
    details = getattr(error, "reason", "") or getattr(error, "details", None)
    return {
        "name": type(error).__name__,
        "message": message,
        **({"details": details} if details and details != message else {}),
        "remedy": remedy,
        **({"notes": error.__notes__} if getattr(error, "__notes__", None) else {}),
        "exitCode": family.code,
    }


def table() -> str:
    """The exit codes, for the help."""
    meanings = {0: "success"}
    for family in FAMILIES:
        meanings[family.code] = family.meaning
    meanings |= {INTERRUPTED: "interrupted", BROKEN_PIPE: "nobody read the output to its end"}
    return "\n".join(f"  {code:>3}  {meanings[code]}" for code in sorted(meanings))
