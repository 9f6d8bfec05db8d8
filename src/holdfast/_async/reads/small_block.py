"""The short path for a small raw block: send, read, hash, compare.

It makes the first request of a read, and handles the common case only. In every other case (a
redirect, an error, an encoding, a body that is larger or of unknown length) its outcome is passed
on: the attempt at this gateway continues with the unread reply, or ends with the error. So nothing
is requested twice.
"""

from hashlib import sha256
from typing import Final

from holdfast._async.reads.body_budget import check_time
from holdfast._async.reads.output import Output
from holdfast._async.reads.peer import AsyncBegun, AsyncSent
from holdfast._async.reads.rounds import FAILURES, without_frames
from holdfast._async.runtime import now
from holdfast._async.session import AsyncSession
from holdfast.calls import Call, Deadline
from holdfast.content.budgets import SMALL_BLOCK
from holdfast.content.cid import RAW
from holdfast.content.hashes import SHA2_256
from holdfast.content.proof import wrong_bytes
from holdfast.content.reference import Reference
from holdfast.errors import ClientError
from holdfast.protocol.gateway import Gateway, Gateways
from holdfast.protocol.http import body_length

OK: Final = 200


class AsyncSmallBlocks:
    """Reads small raw blocks from the first gateway.

    Args:
        session: Sends the requests.
        gateways: The gateways, in order.
        max_unverified: The largest size of a body that is verified only at its end.
    """

    def __init__(self, session: AsyncSession, gateways: Gateways, max_unverified: int) -> None:
        self._session = session
        self._gateways = gateways
        self._largest = min(SMALL_BLOCK, max_unverified)

    async def read(
        self, reference: Reference, output: Output, call: Call
    ) -> str | AsyncBegun | None:
        """Ask the first gateway for the plain content of `reference`, and read it if it is small.

        Return the media type that the gateway reports if all of it is in `output`, verified. Else
        return what is begun; None if nothing is, because it is not a raw block.
        """
        gateways = self._gateways.in_order(now())
        if not self._may_be_small(reference, gateways[0]):
            return None
        deadline = call.share(len(gateways))
        try:
            outcome: AsyncSent | str | ClientError = await self._read(
                gateways[0], reference, output, call, deadline
            )
        except FAILURES as error:
            outcome = without_frames(error)
        if isinstance(outcome, str):
            self._session.succeeded()
            return outcome
        return AsyncBegun(gateways[0], deadline.copy(), outcome)

    def _may_be_small(self, reference: Reference, gateway: Gateway) -> bool:
        """Return whether it is a raw block, and the gateway serves plain content."""
        cid, trustless = reference.cid, self._session.trustless
        return (
            cid.codec == RAW
            and cid.hash_code == SHA2_256
            and not reference.path
            and (not trustless or trustless.get(gateway.base_url, 0.0) <= now())
        )

    async def _read(
        self,
        gateway: Gateway,
        reference: Reference,
        output: Output,
        call: Call,
        deadline: Deadline,
    ) -> AsyncSent | str:
        request = gateway.content(reference)
        response = await self._session.send(request, call, deadline=deadline)
        headers = response.headers
        is_plain = response.status == OK and "content-encoding" not in headers
        length = body_length(headers) if is_plain else None
        if length is None or length > self._largest:
            return AsyncSent(response, deadline)
        try:
            output.sink.expect(length)
            body = await response.read(length)
            check_time(deadline, gateway.peer)
            if sha256(body).digest() != reference.cid.digest:
                raise wrong_bytes(reference)
            output.take([body], verified=True)
            output.report(length)
        finally:
            await response.aclose()
        return headers.get("content-type", "")
