"""Tell from the root of a file how it was cut into blocks."""

from typing import NamedTuple

from holdfast.content import dag_pb
from holdfast.content.cid import CID
from holdfast.content.codecs import is_one_block
from holdfast.content.profiles import PROFILES, Profile
from holdfast.content.unixfs import data


class FileLayout(NamedTuple):
    """How a file is cut into blocks.

    Attributes:
        blocks: How many blocks it has; equal ones are counted each time. None if it is not known.
        profile: The name of the layout; None if no named one fits, or several do.
    """

    blocks: int | None
    profile: str | None


def recognize(cid: CID, block: bytes) -> FileLayout:
    """Return the layout of the file whose root is `block`, already verified.

    The sizes below the root must be exactly those of the layout. What is below them is not read.

    Example:
        >>> recognize(CID.of_raw(b"hello"), b"hello")
        FileLayout(blocks=1, profile=None)
    """
    if is_one_block(cid):
        return FileLayout(1, None)
    node = dag_pb.decode(block)
    message = data.decode(node.data)
    raw_leaves = bool(node.links) and all(is_one_block(link.cid) for link in node.links)
    fitting = [
        profile
        for profile in PROFILES.values()
        if profile.cid_version == cid.version
        and ((not node.links and not profile.raw_leaves) or _fits(profile, message, raw_leaves))
    ]
    if not node.links:
        return FileLayout(1, fitting[0].name if fitting else None)
    if len(fitting) != 1 or message.size is None:
        # All leaves are raw blocks, or nothing is known of what is below.
        return FileLayout(1 + len(node.links) if raw_leaves else None, None)
    return FileLayout(_blocks(fitting[0], message.size), fitting[0].name)


def _fits(profile: Profile, message: data.Data, raw_leaves: bool) -> bool:  # noqa: FBT001
    """Return whether the children of a root have the sizes that `profile` gives them."""
    if message.size is None:
        return False
    unit = profile.chunk_size
    while unit * profile.width < message.size:
        unit *= profile.width
    if unit == profile.chunk_size and raw_leaves != profile.raw_leaves:
        return False
    whole, rest = divmod(message.size, unit)
    return [*message.block_sizes] == [unit] * whole + [rest] * (rest > 0)


def _blocks(profile: Profile, size: int) -> int:
    """Return how many blocks a file of `size` bytes has."""
    count = total = -(-size // profile.chunk_size)
    while count > 1:
        count = -(-count // profile.width)
        total += count
    return total
