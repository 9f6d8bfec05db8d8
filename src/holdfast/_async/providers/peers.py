"""Requests to an API that several peers offer: if one does not answer, the next is asked."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from holdfast._async.runtime import now
from holdfast._async.session import AsyncSession, Attempt
from holdfast.calls import Call
from holdfast.errors import NetworkError
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.peer_set import PeerSet

if TYPE_CHECKING:
    from holdfast._async.transport import AsyncResponse


A = TypeVar("A", bound=Attempt)


class AsyncPeers:
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
        session: AsyncSession,
        urls: Sequence[str],
        may_differ: Callable[[Request, Reply], bool],
    ) -> None:
        self._session = session
        self._peers = PeerSet(urls, session.avoided, address=str)
        self._may_differ = may_differ

    async def fetch(self, request: Request, call: Call, *, skip: int = 0) -> Reply:
        """Send `request`, retry if that may help, and return the complete reply.

        Each attempt asks one peer after the other, until one replies; those that reply with an
        error of their own (`may_differ`) are asked once. The first `skip` peers are asked last.
        """
        return await self._session.fetch(request, call, partial(self._ask_all, skip))

    async def _ask_all(self, skip: int, request: Request, call: Call) -> Attempt:
        failures: list[Attempt] = []
        for url, share in self._in_order(skip):
            outcome = await self._session.fetch_once(
                replace(request, url=url + request.url), call, deadline=call.share(share)
            )
            if isinstance(outcome, Reply) and not self._is_failure(request, outcome):
                return replace(outcome, reply_lost=_was_sent(failures))
            self._peers.avoid(url, now())
            failures.append(outcome)
            if not request.repeatable:
                break
        return _last(failures)

    async def open(self, request: Request, call: Call) -> "AsyncResponse":
        """Send `request`, and return the first reply, whose body is not read yet.

        The caller closes it. Its body must arrive by the deadline of the call.
        """
        backoff = self._session.backoff()
        while True:
            failures: list[NetworkError] = []
            for url, share in self._in_order():
                at_peer = replace(request, url=url + request.url)
                deadline = call.share(share)
                try:
                    response = await self._session.send(at_peer, call, deadline=deadline)
                except NetworkError as error:
                    self._peers.avoid(url, now())
                    failures.append(error)
                else:
                    deadline.move_to(call.deadline.at)  # the body may take the time of the others
                    return response
            if not await self._session.wait(backoff, call, error=failures[-1].name):
                raise _last(failures)

    def _is_failure(self, request: Request, reply: Reply) -> bool:
        """Return whether another peer may reply with something better."""
        return reply.status in request.retried or self._may_differ(request, reply)

    def _in_order(self, skip: int = 0) -> Iterator[tuple[str, int]]:
        """Yield the peers, each with the number of those that are left, itself included."""
        urls = self._peers.in_order(now(), skip)
        return zip(urls, range(len(urls), 0, -1), strict=True)


def _was_sent(failures: Sequence[Attempt]) -> bool:
    return any(isinstance(each, NetworkError) and each.sent for each in failures)


def _last(failures: Sequence[A]) -> A:
    """Return the last failure, with what is known of the others."""
    last = failures[-1]
    if isinstance(last, NetworkError):
        last.sent = _was_sent(failures)
        for each in failures[:-1]:
            words = f"HTTP error {each.status}" if isinstance(each, Reply) else each.message
            last.add_note(f"another peer: {words}")
    return last
