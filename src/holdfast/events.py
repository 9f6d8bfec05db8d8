"""The events that a client reports to the ``holdfast`` logger and to the `on_event` hook.

An event never holds a secret: no header, no body, no query.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

logger: Final = logging.getLogger("holdfast")
logger.addHandler(logging.NullHandler())  # without it, Python prints warnings to stderr

Kind: TypeAlias = Literal["request", "retry", "gateway", "resume", "call"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a client.

    Attributes:
        kind: ``request``: a request was answered or failed. ``retry``: it will be sent again, after
            `delay` seconds. ``gateway``: a gateway did not send what the CID names. ``resume``: an
            upload or download that was interrupted continues at byte `position`; the download of a
            folder tells that for all its files together, and then for each file that it continues,
            with the CID of the file. ``call``: the whole operation has ended.
        operation: ``store``, ``retrieve``, ``upload``, ``download``, ``open``, ``revoke`` or
            ``test_connection``; messages are stored and retrieved.
        cid: The CID of the content, if it is known.
        attempt: The number of requests that the operation has sent so far.
        peer: The host that the request was sent to.
        status: The HTTP status of the reply, if there was one.
        elapsed: Seconds since the request, or for ``call`` the operation, began.
        delay: For ``retry``, the seconds until the next attempt.
        error: The name of the error's class, if there was one.
        position: For ``resume``, how many bytes are there already.
        provider: The class of the provider that it comes from, such as ``LocalProvider``. With a
            wrapper, that is the provider inside.

    Example:
        >>> from holdfast import Client
        >>> def count(event: Event) -> None:
        ...     if event.kind == "call":
        ...         print(event.operation, event.error)
        >>> with Client.init(on_event=count) as client:
        ...     cid = client.store([1]).cid
        store None
    """

    kind: Kind
    operation: str
    cid: str | None = None
    attempt: int = 0
    peer: str | None = None
    status: int | None = None
    elapsed: float = 0.0
    delay: float | None = None
    error: str | None = None
    position: int | None = None
    provider: str | None = None


EventHook: TypeAlias = Callable[[Event], None]
