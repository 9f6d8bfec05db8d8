"""From an HTTP library's exception to ours. Each transport brings a table of its library's own."""

import errno
import os
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from holdfast.errors import ClientClosedError, ClientError, NetworkError, RequestTimeoutError

MAX_REASON: Final = 200


class PrivateAddressError(NetworkError):
    """A redirect led to a name whose address is more private than it may be. Nothing was sent."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong between us and a peer, in words; ``{peer}`` is the host.

    `transient` faults may be gone when the request is sent again.
    """

    error: type[NetworkError]
    words: str
    transient: bool = True


UNREACHABLE: Final = Fault(NetworkError, "cannot connect to {peer}")
UNKNOWN_HOST: Final = Fault(NetworkError, "cannot find the host {peer}")
CONNECT_TIMEOUT: Final = Fault(RequestTimeoutError, "{peer} did not accept a connection in time")
READ_TIMEOUT: Final = Fault(RequestTimeoutError, "{peer} did not answer in time")
STALLED: Final = Fault(RequestTimeoutError, "{peer} took no more of the upload in time")
TLS: Final = Fault(NetworkError, "no secure connection to {peer}", transient=False)
PROXY: Final = Fault(NetworkError, "the proxy did not connect us to {peer}")
BROKEN: Final = Fault(NetworkError, "the connection to {peer} broke")
GARBLED: Final = Fault(NetworkError, "{peer} sent something that is not HTTP")
UNSENT: Final = Fault(
    NetworkError, "{peer} replied with success before it had the whole upload", transient=False
)
OVERHEAD: Final = Fault(NetworkError, "{peer} sent too much that is not content", transient=False)
PRIVATE_ADDRESS: Final = Fault(
    PrivateAddressError, "{peer} is in a private network", transient=False
)
BAD_ADDRESS: Final = Fault(NetworkError, "no request can be sent to {peer}", transient=False)

Table: TypeAlias = "Mapping[type[Exception], Fault | None]"
"""Which exception is which fault; None is a pool that was closed."""


def translate(error: Exception, table: Table, peer: str, *, sent: bool = False) -> ClientError:
    """Our error for `error`, by its nearest class in `table`, with the system's reason if any.

    `sent` says whether the request had gone out whole.
    """
    wrapped = list(_wrapped(error))
    fault = next((table[kind] for kind in type(error).__mro__ if kind in table), BROKEN)
    if fault is None:
        return ClientClosedError()
    if fault is BROKEN and any(isinstance(each, TimeoutError) for each in wrapped):
        fault = STALLED
    words = fault.words.format(peer=peer)
    reason = next(filter(None, map(_reason, wrapped)), "")
    words = f"{words}: {reason}" if reason else words
    return fault.error(words, sent=sent, transient=fault.transient)


def plain(fault: Fault, peer: str, *, sent: bool = False) -> NetworkError:
    """Our error for a fault that we saw ourselves."""
    return fault.error(fault.words.format(peer=peer), sent=sent, transient=fault.transient)


def _wrapped(error: BaseException) -> Iterator[BaseException]:
    """`error` and whatever it was made from, wherever its library keeps that."""
    seen: list[BaseException] = []
    pending: list[object] = [error]
    while pending:
        each = pending.pop(0)
        if isinstance(each, BaseException) and each not in seen:
            seen.append(each)
            yield each
            more = (each.__cause__, each.__context__, getattr(each, "os_error", None))
            pending += [*each.args, *more]


def _reason(error: BaseException) -> str:
    """The operating system's or TLS library's own words."""
    if not isinstance(error, OSError) or not error.strerror:
        return ""
    # asyncio has words of its own for an errno; the system's are the same in both colours.
    if error.errno and error.errno in errno.errorcode and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return error.strerror[:MAX_REASON]
