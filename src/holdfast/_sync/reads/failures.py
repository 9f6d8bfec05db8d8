# WARNING: this file is generated from src/holdfast/_async/reads/failures.py
# by scripts/generate_sync.py. Change the original instead.
"""The failures of gateways: which ones count, how they are compared, and which one is raised."""

from holdfast.errors import (
    ClientError,
    MalformedError,
    NetworkError,
    NotAFileError,
    ProviderError,
    SerializationError,
    UnprovenError,
    VerificationError,
)
from holdfast.protocol.gateway import Gateway

# Errors that one gateway can cause. Another gateway may do better.
FAILURES = (NetworkError, ProviderError, VerificationError, NotAFileError, SerializationError)


def without_frames(error: ClientError) -> ClientError:
    """Return `error` without its traceback.

    The frames hold bytes that are not verified, and a gateway may echo its token among them.
    """
    chain: list[BaseException | None] = [error]
    while chain:
        if (each := chain.pop()) is not None and each.__traceback__ is not None:
            each.__traceback__ = None
            chain += [each.__cause__, each.__context__]
    return error


def status_of(error: ClientError) -> int | None:
    """Return the HTTP status of `error`, if it has one."""
    return error.status if isinstance(error, ProviderError) else None


def is_wrong_content(error: ClientError) -> bool:
    """Return whether a gateway sent other bytes than the CID names.

    If the content cannot be verified, or is verified and malformed, that is not its fault.
    """
    return isinstance(error, VerificationError) and not isinstance(
        error, UnprovenError | MalformedError
    )


def gravest(failures: dict[Gateway, ClientError]) -> ClientError:
    """Return the most serious failure, with the others as its notes; of equals, the last.

    The order is: wrong content, malformed content, content that could not be verified, an HTTP
    error, no answer.
    """
    kinds = (MalformedError, NotAFileError, SerializationError, UnprovenError, ProviderError)

    def rank(error: ClientError) -> int:
        if is_wrong_content(error):
            return -1
        return next((place for place, kind in enumerate(kinds) if isinstance(error, kind)), 9)

    least = min(map(rank, failures.values()))
    chosen = [gateway for gateway, error in failures.items() if rank(error) == least][-1]
    for gateway, other in failures.items():
        if gateway != chosen:
            failures[chosen].add_note(f"{gateway.base_url}: {other.name}: {other.message}")
    return failures[chosen]
