"""The short path for a small raw block: send, read, hash, compare.

It handles the common case only. In every other case (a redirect, an error, an encoding, a body that
is larger or of unknown length) it passes on the unread reply, so that nothing is requested twice.
"""

from hashlib import sha256

from holdfast._async.reads.body_budget import check_time
from holdfast._async.reads.peer import AsyncSent
from holdfast._async.reads.state import ReadState
from holdfast._async.runtime import now
from holdfast._async.session import AsyncSession
from holdfast.calls import Deadline
from holdfast.content.budgets import SMALL_BLOCK
from holdfast.content.hashes import IDENTITY, SHA2_256
from holdfast.content.proof import wrong_bytes
from holdfast.protocol.gateway import Gateway
from holdfast.protocol.http import Reply


def may_be_small(session: AsyncSession, gateway: Gateway, state: ReadState) -> bool:
    """Return whether the short path may work: all of a raw block is wanted, and none was saved."""
    return (
        state.is_block
        and state.is_fresh
        and not state.output.sink.saved_size
        and state.reference.cid.hash_code in {SHA2_256, IDENTITY}
        and not state.reference.path
        and session.trustless.get(gateway.base_url, 0.0) <= now()
    )


async def read_small_block(
    session: AsyncSession, gateway: Gateway, state: ReadState, deadline: Deadline
) -> AsyncSent | None:
    """Ask for the plain content of a raw block, and read it if it is small.

    Return None if it was read and verified, else the request and reply for another strategy.
    """
    deadline = deadline.copy()
    request = gateway.content(state.reference)
    response = await session.send(request, state.call, deadline=deadline)
    length = _body_length(Reply(response.status, response.headers))
    if length is None or not _is_small(length, state):
        return AsyncSent(response, deadline)
    try:
        output = state.output
        output.sink.expect(length)
        body = await response.read(length)
        check_time(deadline, gateway.peer)
        state.found.media_type = response.headers.get("content-type", "")
        cid = state.reference.cid
        digest = body if cid.hash_code == IDENTITY else sha256(body).digest()
        if digest != cid.digest:
            raise wrong_bytes(state.reference)
        output.take([body], verified=True)
        output.report(length)
    finally:
        await response.aclose()
    return None


def _body_length(reply: Reply) -> int | None:
    """Return the length of a plain and complete body; None if that is not certain."""
    is_plain = reply.status == 200 and "content-encoding" not in reply.headers
    return reply.length if is_plain else None


def _is_small(length: int, state: ReadState) -> bool:
    """Return whether a body of `length` bytes is within all limits."""
    cid = state.reference.cid
    if cid.hash_code == IDENTITY and length != len(cid.digest):
        return False
    return length <= min(SMALL_BLOCK, state.max_unverified)
