"""From an HTTP library's exception to ours. Each transport brings a table of its library's own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from holdfast.errors import ClientClosedError, ClientError, NetworkError, RequestTimeoutError

MAX_REASON: Final = 200


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong between us and a peer, in words; ``{peer}`` is the host."""

    error: type[NetworkError]
    words: str


UNREACHABLE: Final = Fault(NetworkError, "cannot connect to {peer}")
UNKNOWN_HOST: Final = Fault(NetworkError, "cannot find the host {peer}")
CONNECT_TIMEOUT: Final = Fault(RequestTimeoutError, "{peer} did not accept a connection in time")
READ_TIMEOUT: Final = Fault(RequestTimeoutError, "{peer} did not answer in time")
TLS: Final = Fault(NetworkError, "no secure connection to {peer}")
PROXY: Final = Fault(NetworkError, "the proxy did not connect us to {peer}")
BROKEN: Final = Fault(NetworkError, "the connection to {peer} broke")
GARBLED: Final = Fault(NetworkError, "{peer} sent something that is not HTTP")
BAD_ADDRESS: Final = Fault(NetworkError, "no request can be sent to {peer}")

Table: TypeAlias = "Mapping[type[Exception], Fault | None]"
"""Which exception is which fault; None is a pool that was closed."""


def translate(error: Exception, table: Table, peer: str) -> ClientError:
    """Our error for `error`, by its nearest class in `table`, with the system's reason if any."""
    for kind in type(error).__mro__:
        if kind in table:
            fault = table[kind]
            break
    else:
        fault = BROKEN
    if fault is None:
        return ClientClosedError()
    reason = _reason(error)
    words = fault.words.format(peer=peer)
    return fault.error(f"{words}: {reason}" if reason else words)


def _reason(error: BaseException) -> str:
    """The operating system's or TLS library's own words, from wherever they are wrapped."""
    seen: list[BaseException] = []
    pending: list[object] = [error]
    while pending:
        each = pending.pop(0)
        if not isinstance(each, BaseException) or each in seen:
            continue
        seen.append(each)
        if isinstance(each, OSError) and each.strerror:
            return each.strerror[:MAX_REASON]
        pending += [*each.args, each.__cause__, each.__context__, getattr(each, "os_error", None)]
    return ""
