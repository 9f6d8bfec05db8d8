"""Reads from several providers: a block that one of them lacks comes from the next."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import ClassVar

from holdfast._async.reads.blocks import AsyncBlocks, AsyncFetchedBlocks
from holdfast._async.reads.reader import AsyncReader
from holdfast._async.runtime import now, race
from holdfast.calls import Call
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.errors import ClientError, NotFoundError, UnprovenError
from holdfast.protocol.peer_set import PeerSet


class AsyncReadMember:
    """A provider that may have content: its name, and what returns its reader."""

    def __init__(self, name: str, reader: Callable[[], AsyncReader]) -> None:
        self.name: str = name
        self.reader: Callable[[], AsyncReader] = reader

    def __str__(self) -> str:
        return self.name


class AsyncMemberBlocks(AsyncFetchedBlocks):
    """Verified blocks of several members.

    They are asked in their order, those that have failed last. The next one is asked as soon as one
    lacks the block, and also if it does not send it within `patience` seconds.
    """

    is_verified = True

    def __init__(
        self,
        members: PeerSet[AsyncReadMember],
        reference: Reference,
        call: Call,
        *,
        patience: float,
        type_of: Callable[[CID], Awaitable[str]],
    ) -> None:
        self._members = members
        self._reference = reference
        self._call = call
        self._patience = patience
        self._type_of = type_of
        self._opened: dict[str, AsyncBlocks] = {}

    def continue_in(self, call: Call) -> None:
        """Make the next requests within `call`."""
        self._call = call
        for blocks in self._opened.values():
            blocks.continue_in(call)

    async def get(self, cid: CID, /) -> bytes:
        """Return the block of `cid` from the first member that sends it."""
        order = self._members.in_order(now())
        get_from = partial(self._get_from, cid=cid)
        winner, failures = await race(order, get_from, self._patience, _discard)
        for member, error in failures.items():
            if not isinstance(error, ClientError):
                raise error
            self._members.note_failure(member, error, now())
        if winner is None:
            raise _combined(cid, [*failures.values()])
        member, block = winner
        for slow in order[: order.index(member)]:
            if slow not in failures:
                self._members.avoid(slow, now())
        return block

    async def _get_from(self, member: AsyncReadMember, cid: CID) -> bytes:
        blocks = self._opened.get(member.name)
        if blocks is None:
            blocks = member.reader().blocks(self._reference, self._call)
            self._opened[member.name] = blocks
        return await blocks.block(cid)

    async def media_type(self, cid: CID) -> str:
        """Return the media type that is noted for `cid`, "" if there is none."""
        return await self._type_of(cid)


class AsyncMemberReader(AsyncReader):
    """Reads content from several members.

    Args:
        members: The members, in the order in which they are asked.
        patience: The seconds after which the next member is asked too.
        type_of: Returns the media type of the file at a CID.
        total: How many seconds the reading of one range of an open file may take.
    """

    is_remote: ClassVar[bool] = True

    def __init__(
        self,
        members: PeerSet[AsyncReadMember],
        *,
        patience: float,
        type_of: Callable[[CID], Awaitable[str]],
        total: float | None = None,
    ) -> None:
        super().__init__(total=total)
        self._members = members
        self._patience = patience
        self._type_of = type_of

    def blocks(self, reference: Reference, call: Call) -> AsyncMemberBlocks:
        """Return the blocks of all members."""
        return AsyncMemberBlocks(
            self._members, reference, call, patience=self._patience, type_of=self._type_of
        )


async def _discard(_block: bytes) -> None:
    """Do nothing with a block that comes too late."""


def _combined(cid: CID, failures: list[Exception]) -> Exception:
    """Return the error for a block that no member has sent."""
    others = [error for error in failures if not isinstance(error, NotFoundError | UnprovenError)]
    if others:
        return others[0]
    error = NotFoundError(f"no member has {cid}: it was stored elsewhere, or revoked")
    for failure in failures:
        error.add_note(str(failure))
    return error
