"""From a failed reply to the error that the spec asks for: one place for every status and body."""

from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from holdfast.config.secret import Secret
from holdfast.errors import (
    AuthenticationError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
    SerializationError,
)
from holdfast.protocol import json_text
from holdfast.protocol.http import Reply

UNAUTHORIZED: Final = 401
RATE_LIMITED: Final = 429
MAX_WORDS: Final = 500
MAX_DETAILS: Final = 4000
MAX_WAIT: Final = 1e9  # seconds, some 30 years: whoever asks for more is told to ask for this
REQUEST_ID_HEADERS: Final = ("x-request-id", "x-amzn-requestid", "cf-ray")

CLASSES: Final[dict[int, type[ProviderError]]] = {
    UNAUTHORIZED: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    RATE_LIMITED: RateLimitError,
}


def provider_error(reply: Reply, *, secret: Secret | None = None) -> ProviderError:
    """The error for `reply`, in the provider's words where it has any.

    A 401 is always ``HTTP error 401``, and so is a redirect with its status: what they say further
    is in ``.details``. A provider that echoes the credential does not get it into our messages.
    """
    words = _words(reply, secret)
    plain = f"HTTP error {reply.status}"
    silent = reply.status == UNAUTHORIZED or 300 <= reply.status < 400
    message = plain if silent or not words else words
    return failure(message, reply, details=words, secret=secret)


def failure(
    message: str, reply: Reply, *, details: str | None = None, secret: Secret | None
) -> ProviderError:
    """An error with `message` that carries what `reply` tells about itself, but not `secret`."""
    scrub = secret.scrub if secret is not None else str
    found = (scrub(reply.headers.get(name, "")) for name in REQUEST_ID_HEADERS)
    known: dict[str, Any] = {
        "status": reply.status,
        "details": details,
        "request_id": next(filter(None, found), None),
        "retry_after": retry_after(reply),
    }
    return CLASSES.get(reply.status, ProviderError)(message, **known)


def retry_after(reply: Reply) -> float | None:
    """Return the wait in seconds that `reply` asks for, as a number or a date.

    Anything else counts as no wish: a negative number, a fraction, several fields.
    """
    value = reply.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdecimal():
        return min(float(value), MAX_WAIT)
    try:
        when = parsedate_to_datetime(value)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        wait = (when - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, wait), MAX_WAIT)


def _words(reply: Reply, secret: Secret | None) -> str | None:
    """What the provider says: the first text among the places where it may stand.

    The credential is taken out before anything is cut off, lest half of it stay.
    """
    scrub = secret.scrub if secret is not None else str
    try:
        value = json_text.from_text(reply.body)
    except SerializationError:
        value = None
    for candidate in _candidates(value):
        if isinstance(candidate, str) and candidate.strip():
            return scrub(candidate.strip())[:MAX_DETAILS]
    if reply.media_type == "text/plain":
        return _one_line(scrub(reply.body.decode(errors="replace")))
    return None


def _candidates(value: Any) -> Iterator[Any]:
    if not isinstance(value, dict):
        return
    error = value.get("error")
    if isinstance(error, dict):
        yield from (error.get("details"), error.get("message"), error.get("reason"))
    yield error
    yield value.get("message")


def _one_line(body: str) -> str | None:
    """A plain text body as one line; an HTML page that calls itself plain text is none."""
    text = " ".join(body.split())
    if text.startswith("<"):
        return None
    printable = "".join(character for character in text if character.isprintable())
    return printable[:MAX_WORDS] or None
