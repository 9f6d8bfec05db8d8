"""Reads from several providers: a block that one of them lacks comes from the next."""

from collections.abc import Awaitable, Callable
from dataclasses import InitVar, dataclass
from functools import partial
from typing import ClassVar, NamedTuple

from holdfast._async.races import race
from holdfast._async.reads.blocks import AsyncBlocks, AsyncFetchedBlocks
from holdfast._async.reads.reader import AsyncReader
from holdfast._async.runtime import now
from holdfast.calls import Call
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.errors import ClientError, NotFoundError, UnprovenError
from holdfast.protocol.peer_set import PeerSet


class AsyncReadMember(NamedTuple):
    """A provider that may have content: its name, and its reader."""

    name: str
    reader: AsyncReader

    def __str__(self) -> str:
        return self.name


@dataclass(eq=False, repr=False)
class AsyncMemberReader(AsyncReader):
    """Reads content from several members.

    Args:
        members: The members, in the order in which they are asked.
        patience: The seconds after which the next member is asked too.
        type_of: Returns the media type of the file at a CID.
        total: How many seconds the reading of one range of an open file may take.
    """

    is_remote: ClassVar[bool] = True

    members: PeerSet[AsyncReadMember]
    patience: float
    type_of: Callable[[CID], Awaitable[str]]
    total: InitVar[float | None]

    def __post_init__(self, total: float | None) -> None:
        super().__init__(total=total)

    def blocks(self, reference: Reference, call: Call) -> "AsyncMemberBlocks":
        """Return the blocks of all members."""
        return AsyncMemberBlocks(self, reference, call)


class AsyncMemberBlocks(AsyncFetchedBlocks):
    """Verified blocks of the members of `reader`.

    They are asked in their order, those that have failed last. The next one is asked as soon as one
    lacks the block, and also if it does not send it in time.
    """

    is_verified = True

    def __init__(self, reader: AsyncMemberReader, reference: Reference, call: Call) -> None:
        self._reader = reader
        self._reference = reference
        self._call = call
        self._opened: dict[str, AsyncBlocks] = {}

    def continue_in(self, call: Call) -> None:
        """Make the next requests within `call`."""
        self._call = call
        for blocks in self._opened.values():
            blocks.continue_in(call)

    async def get(self, cid: CID, /) -> bytes:
        """Return the block of `cid` from the first member that sends it."""
        members = self._reader.members
        order = members.in_order(now())
        get_from = partial(self._get_from, cid=cid)
        winner, failures = await race(order, get_from, self._reader.patience, _discard)
        for member, error in failures.items():
            if isinstance(error, ClientError):
                members.note_failure(member, error, now())
            elif isinstance(error, OSError):
                members.avoid(member, now())
            else:
                raise error
        if winner is None:
            raise _combined(cid, [*failures.values()])
        member, block = winner
        for slow in order[: order.index(member)]:
            if slow not in failures:
                members.avoid(slow, now())
        return block

    async def _get_from(self, member: AsyncReadMember, cid: CID) -> bytes:
        if member.name not in self._opened:
            self._opened[member.name] = member.reader.blocks(self._reference, self._call)
        return await self._opened[member.name].block(cid)

    async def media_type(self, cid: CID) -> str:
        """Return the media type that is noted for `cid`, "" if there is none."""
        return await self._reader.type_of(cid)


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
