"""Our errors for the exceptions of an HTTP library. Each transport has a table for its library."""

import errno
import os
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from holdfast.errors import ClientClosedError, ClientError, NetworkError, RequestTimeoutError
from holdfast.hints import advise

MAX_REASON: Final = 200
NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "record layer failure")
"""What versions of OpenSSL say where the peer replies without TLS."""


class PrivateAddressError(NetworkError):
    """A redirect led to an address that is more private than allowed. Nothing was sent to it."""


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """One way in which an exchange with a peer can fail.

    Attributes:
        error_class: The class of our error.
        message: Its message; ``{peer}`` stands for the host.
        transient: Whether sending the request again may help.
    """

    error_class: type[NetworkError]
    message: str
    transient: bool = True

    def error(self, peer: str, *, sent: bool = False, reason: str = "") -> NetworkError:
        """Return the error for `peer`. `sent` says whether the whole request was sent."""
        message = self.message.format(peer=peer)
        if reason:
            message = f"{message}: {reason}"
        return self.error_class(message, sent=sent, transient=self.transient)


UNREACHABLE: Final = ErrorKind(NetworkError, "cannot connect to {peer}")
UNKNOWN_HOST: Final = ErrorKind(NetworkError, "cannot find the host {peer}")
CONNECT_TIMEOUT: Final = ErrorKind(
    RequestTimeoutError, "{peer} did not accept a connection in time"
)
READ_TIMEOUT: Final = ErrorKind(RequestTimeoutError, "{peer} did not answer in time")
STALLED: Final = ErrorKind(RequestTimeoutError, "{peer} stopped reading the upload")
TLS: Final = ErrorKind(NetworkError, "no secure connection to {peer}", transient=False)
PROXY: Final = ErrorKind(NetworkError, "the proxy did not connect to {peer}")
BROKEN: Final = ErrorKind(NetworkError, "the connection to {peer} broke")
GARBLED: Final = ErrorKind(NetworkError, "{peer} sent something that is not HTTP")
UNSENT: Final = ErrorKind(
    NetworkError, "{peer} replied with success before the end of the upload", transient=False
)
OVERHEAD: Final = ErrorKind(
    NetworkError, "{peer} sent too much that is not content", transient=False
)
PRIVATE_ADDRESS: Final = ErrorKind(
    PrivateAddressError, "{peer} is in a private network", transient=False
)
BAD_ADDRESS: Final = ErrorKind(NetworkError, "no request can be sent to {peer}", transient=False)

Table: TypeAlias = "Mapping[type[Exception], ErrorKind | None]"
"""The kind of each exception class. None is for a connection pool that we have closed."""


def translate(error: Exception, table: Table, peer: str, *, sent: bool = False) -> ClientError:
    """Return our error for `error`, by its nearest class in `table`.

    The message ends with the reason that the operating system gave, if it gave one. `sent` says
    whether the whole request was sent.
    """
    chain = list(_chain(error))
    kind = next((table[base] for base in type(error).__mro__ if base in table), BROKEN)
    if kind is None:
        return ClientClosedError()
    if kind is BROKEN and any(isinstance(cause, TimeoutError) for cause in chain):
        kind = STALLED
    reason = next(filter(None, map(_reason, chain)), "")
    failed = kind.error(peer, sent=sent, reason=reason)
    if kind is TLS and any(words in reason for words in NOT_TLS):
        advise(failed, "the server may speak plain HTTP: write http:// before its address")
    return failed


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield `error` and the errors that caused it, wherever the library keeps them."""
    seen: list[BaseException] = []
    pending: list[object] = [error]
    while pending:
        cause = pending.pop(0)
        if isinstance(cause, BaseException) and cause not in seen:
            seen.append(cause)
            yield cause
            more = (cause.__cause__, cause.__context__, getattr(cause, "os_error", None))
            pending += [*cause.args, *more]


def _reason(error: BaseException) -> str:
    """Return the message of the operating system or of the TLS library, or ""."""
    if not isinstance(error, OSError) or not error.strerror:
        return ""
    # asyncio writes a message of its own for an errno; the system's is the same in both colours.
    if error.errno and error.errno in errno.errorcode and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    # Others come from the HTTP library, and may hold the whole address with its query.
    return error.strerror[:MAX_REASON] if type(error).__module__ in {"socket", "ssl"} else ""
