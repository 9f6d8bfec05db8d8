# WARNING: this file is generated from src/holdfast/_async/providers/peers.py
# by scripts/generate_sync.py. Change the original instead.
"""Requests to an API that several peers offer: if one does not answer, the next is asked."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast._sync.runtime import now
from holdfast._sync.session import Attempt, Session
from holdfast.calls import Call
from holdfast.errors import NetworkError
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.peer_set import PeerSet

if TYPE_CHECKING:
    from holdfast._sync.transport import Response


class Peers:
    """The peers at `urls`, in the order in which they are asked.

    Requests come without a peer: their address begins with the path. Everything must be allowed to
    reach several peers. Clients that share connections know the same about the peers.

    Args:
        session: Sends the requests.
        urls: The addresses of the peers.
        may_differ: Tells whether a reply is a failure of one peer, which others may not have.
    """

    def __init__(
        self,
        session: Session,
        urls: Sequence[str],
        may_differ: Callable[[Request, Reply], bool],
    ) -> None:
        self._session = session
        self._peers = PeerSet(urls, session.avoided, address=str)
        self._may_differ = may_differ

    def fetch(self, request: Request, call: Call, *, skip: int = 0) -> Reply:
        """Send `request`, retry if that may help, and return the complete reply.

        Each attempt asks one peer after the other, until one replies; those that reply with an
        error of their own (`may_differ`) are asked once. The first `skip` peers are asked last.
        """
        ask_all = partial(self._ask_all, self._session.fetch_once, skip)
        return self._session.fetch(request, call, ask_all)

    def open(self, request: Request, call: Call) -> "Response":
        """Send `request`, and return the first reply, whose body is not read yet.

        The caller closes it. Its body must arrive by the deadline of the call.
        """
        ask_all = partial(self._ask_all, self._session.send, 0, request, call)
        response: Response = self._session.retry(ask_all, call)
        return response

    def _ask_all(self, send: Callable[..., Any], skip: int, request: Request, call: Call) -> Any:
        """Return what `send` returns for the first peer that does not fail, or the last failure."""
        failures: list[Attempt] = []
        for url, deadline in call.turns(self._peers.in_order(now(), skip)):
            try:
                at_peer = replace(request, url=url + request.url)
                outcome = send(at_peer, call, deadline=deadline)
            except NetworkError as error:
                outcome = error
            if isinstance(outcome, Reply) and not self._is_failure(request, outcome):
                return replace(outcome, reply_lost=_was_sent(failures))
            if not isinstance(outcome, Attempt):
                deadline.move_to(call.deadline.at)  # the body may take the time of the others
                return outcome
            self._peers.avoid(url, now())
            failures.append(outcome)
            if not request.repeatable:
                break
        return _last(failures)

    def _is_failure(self, request: Request, reply: Reply) -> bool:
        """Return whether another peer may reply with something better."""
        return reply.status in request.retried or self._may_differ(request, reply)


def _was_sent(failures: Sequence[Attempt]) -> bool:
    return any(isinstance(each, NetworkError) and each.sent for each in failures)


def _last(failures: Sequence[Attempt]) -> Attempt:
    """Return the last failure, with what is known of the others."""
    last = failures[-1]
    if isinstance(last, NetworkError):
        last.sent = _was_sent(failures)
        for each in failures[:-1]:
            words = f"HTTP error {each.status}" if isinstance(each, Reply) else each.message
            last.add_note(f"another peer: {words}")
    return last
