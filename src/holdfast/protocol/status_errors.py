"""Turn a failed reply into an error, for every status and body, by one table for each API."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from holdfast import errors
from holdfast.config.secret import Secret
from holdfast.errors import NotFoundError, ProviderError
from holdfast.protocol import json_text
from holdfast.protocol.http import Reply
from holdfast.single_line import single_line

UNAUTHORIZED: Final = 401
RATE_LIMITED: Final = 429
MAX_WORDS: Final = 500
MAX_DETAILS: Final = 4000
MAX_WAIT: Final = 1e9  # seconds, some 30 years: a longer wait that a peer asks for is cut to this
REQUEST_ID_HEADERS: Final = ("x-request-id", "x-amzn-requestid", "cf-ray")

CLASSES: Final[Mapping[int, type[ProviderError]]] = {
    UNAUTHORIZED: errors.AuthenticationError,
    403: errors.PermissionDeniedError,
    404: errors.NotFoundError,
    RATE_LIMITED: errors.RateLimitError,
}


@dataclass(frozen=True, slots=True)
class ErrorTable:
    """How one API reports failures.

    Attributes:
        texts: Where the message may be in a JSON body, as paths of member names. The first path
            that leads to a text is used.
        classes: The error class for a status; another status is a plain `ProviderError`.
        plain: The statuses whose message is always ``HTTP error {status}``.
        not_pinned: The statuses with which the API says that a CID is not pinned. Other failures
            have them too, so the provider's message must have one of the `phrases` as well.
        phrases: The words with which the API says that a CID is not pinned.
    """

    texts: tuple[tuple[str, ...], ...]
    classes: Mapping[int, type[ProviderError]]
    plain: frozenset[int] = frozenset({UNAUTHORIZED})
    not_pinned: frozenset[int] = frozenset()
    phrases: tuple[str, ...] = ()

    def says_not_pinned(self, reply: Reply) -> bool:
        """Return whether `reply` says that the CID is not pinned. That is a `NotFoundError`."""
        return reply.status in self.not_pinned and any(
            phrase in text for text in _texts(reply, None, self) for phrase in self.phrases
        )

    def error_class(self, reply: Reply) -> type[ProviderError]:
        """Return the class of the error for `reply`."""
        if self.says_not_pinned(reply):
            return NotFoundError
        return self.classes.get(reply.status, ProviderError)


SPEC_ERRORS: Final = ErrorTable(
    texts=(
        ("error", "details"),
        ("error", "message"),
        ("error", "reason"),
        ("error",),
        ("message",),
    ),
    classes=CLASSES,
)
"""The errors of gateways and of most APIs, as the spec defines them for the pinning API."""

PINNING_ERRORS: Final = replace(
    SPEC_ERRORS,
    not_pinned=frozenset({400, 404}),
    phrases=("CURRENT_USER_HAS_NOT_PINNED_CID", "not pinned"),  # its code, and older words
)
"""The errors of the pinning API, which replies with 400 if a CID is not pinned."""


def provider_error(
    reply: Reply, *, secret: Secret | None = None, table: ErrorTable = SPEC_ERRORS
) -> ProviderError:
    """Return the error for `reply`, with the provider's message if it sent one.

    For a redirect, and for a status that is `plain` in the table, the message is always
    ``HTTP error {status}``, and the provider's message is in ``.details``. A credential that the
    provider echoes is masked.
    """
    words = next(_texts(reply, secret, table), None)
    silent = reply.status in table.plain or 300 <= reply.status < 400
    message = f"HTTP error {reply.status}" if silent or not words else words
    return failure(message, reply, details=words, secret=secret, table=table)


def failure(
    message: str,
    reply: Reply,
    *,
    details: str | None = None,
    secret: Secret | None,
    table: ErrorTable = SPEC_ERRORS,
) -> ProviderError:
    """Return an error with `message` and the facts of `reply`, from which `secret` is removed."""
    scrub = secret.scrub if secret is not None else str
    request_ids = (scrub(reply.headers.get(name, "")) for name in REQUEST_ID_HEADERS)
    return table.error_class(reply)(
        message,
        status=reply.status,
        details=details,
        request_id=next(filter(None, request_ids), None),
        retry_after=retry_after(reply),
    )


def retry_after(reply: Reply) -> float | None:
    """Return the wait in seconds that `reply` asks for, as a number or a date.

    None for anything else: a negative number, a fraction, several fields.
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


def _texts(reply: Reply, secret: Secret | None, table: ErrorTable) -> Iterator[str]:
    """Yield the provider's messages: the texts that `table` names, then a plain text body.

    The credential is removed before a text is shortened, so that no part of it remains.
    """
    scrub = secret.scrub if secret is not None else str
    value = json_text.value_of(reply.body)
    for path in table.texts:
        text = _member(value, path)
        if isinstance(text, str) and text.strip():
            yield scrub(single_line(text.strip()))[:MAX_DETAILS]
    if reply.media_type == "text/plain":
        line = one_line(scrub(reply.body.decode(errors="replace")))
        if line and not line.startswith("<"):  # HTML that is declared as plain text
            yield line


def _member(value: Any, path: tuple[str, ...]) -> Any:
    """Return the member of a JSON value at `path`, or None."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def one_line(text: str) -> str:
    r"""Return a text of a peer as one line of at most `MAX_WORDS` characters that can be shown.

    Example:
        >>> one_line("not\n  found\x1b")
        'not found'
    """
    seen = (character if character.isprintable() else " " for character in text)
    return " ".join("".join(seen).split())[:MAX_WORDS]
