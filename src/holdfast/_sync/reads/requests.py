# WARNING: this file is generated from src/holdfast/_async/reads/requests.py
# by scripts/generate_sync.py. Change the original instead.
"""Requests to one gateway: follow redirects, and distinguish refusals from failures."""

from typing import TYPE_CHECKING, NamedTuple

from holdfast._sync.reads.refusals import Refusals
from holdfast._sync.reads.state import ReadState
from holdfast._sync.session import Session, read_whole
from holdfast.calls import Deadline
from holdfast.errors import NetworkError, ProviderError
from holdfast.protocol.gateway import (
    FORMAT_REFUSALS,
    INTO_PRIVATE,
    MAX_REDIRECTS,
    REDIRECTS,
    Gateway,
    too_many_redirects,
)
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.retrying import is_transient
from holdfast.protocol.transport_errors import PrivateAddressError

if TYPE_CHECKING:
    from holdfast._sync.transport import Response


class Sent(NamedTuple):
    """A request for plain content that was sent, and its reply, whose body is still to come."""

    response: "Response"
    deadline: Deadline


class Requests:
    """Sends requests to one gateway on behalf of one attempt.

    Args:
        session: Sends them.
        gateway: Receives them.
        state: The read that they belong to.
        deadline: When the attempt must have ended.
        refusals: Collects the refusals.
        sent: The first request for plain content, if it was sent already.
    """

    def __init__(
        self,
        session: Session,
        gateway: Gateway,
        state: ReadState,
        deadline: Deadline,
        refusals: Refusals,
        *,
        sent: Sent | None = None,
    ) -> None:
        self._session = session
        self._gateway = gateway
        self._state = state
        self._deadline = deadline
        self._refusals = refusals
        self._sent = sent

    def open_plain(self, start: int = 0, stop: int | None = None) -> "Response":
        """Ask for the plain content, or a part of it; return the reply, and note its media type.

        Raise RefusedError if the gateway serves blocks and archives only. That is certain only
        after it has served one of them: before that, its error may mean something else.
        """
        if self._refusals.is_trustless:
            raise self._refusals.error(self._refusals.plain)
        sent, self._sent = self._sent, None
        request = self._gateway.content(self._state.reference, start, stop)
        try:
            response = self._follow(request, sent)
        except ProviderError as error:
            if error.status not in FORMAT_REFUSALS:
                raise
            self._refusals.plain = error.with_traceback(None)
        else:
            self._state.found.media_type = response.headers.get("content-type", "")
            return response
        raise self._refusals.error(self._refusals.plain)

    def open_or_refuse(self, request: Request) -> "Response":
        """Return the reply to `request`; raise RefusedError if the gateway refuses it."""
        try:
            return self._follow(request)
        except ProviderError as error:
            if is_transient(error):
                raise
            refusal = self._refusals.error(error.with_traceback(None))
        raise refusal

    def _follow(self, request: Request, sent: Sent | None = None) -> "Response":
        """Follow redirects; return the successful reply to `request`. Its body is not read yet."""
        source, reply = request, Reply(200, {})
        for _ in range(MAX_REDIRECTS + 1):
            if sent is None:
                deadline = self._deadline.copy()
                try:
                    response = self._session.send(request, self._state.call, deadline=deadline)
                except PrivateAddressError:
                    raise self._gateway.not_followed(source, reply, INTO_PRIVATE) from None
            else:
                response, deadline = sent
                sent = None
            try:
                source, reply = request, Reply(response.status, response.headers)
                if reply.status not in REDIRECTS:
                    if not reply.ok:
                        deadline.tighten(self._session.timeouts.read)
                        reply = _with_message(response)
                    self._gateway.check(reply)
                    return response
                request = self._gateway.redirected(
                    request, reply, self._state.reference, response.address
                )
            except BaseException:
                response.close()
                raise
            response.close()
        raise too_many_redirects(request)

    def close(self) -> None:
        """Close the reply in `sent` if it was not used."""
        sent, self._sent = self._sent, None
        if sent is not None:
            sent.response.close()


def _with_message(response: "Response") -> Reply:
    """Return a failed reply with its body, or without it if it does not arrive in time."""
    try:
        return read_whole(response)
    except NetworkError:
        return Reply(response.status, response.headers)
