"""Copies of content at another provider."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from holdfast.records.pins import PinState

CopyMethod: TypeAlias = Literal["archive", "upload", "pin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """Content that another provider has now, under the same CID.

    Attributes:
        cid: The CID.
        name: The name of the pin at the target.
        how: How it came there. ``archive``: block by block. ``upload``: as a file or folder that
            has the same CID there. ``pin``: the target fetches it from the network by its CID.
            None if the target had it already.
        duplicate: Whether the target had it already. Then only its name and key-values were set.
        size: How many bytes were sent to the target: 0 if it had the content or fetches it.
        dropped: What the target does not keep: ``keyvalues``, or a ``name`` that is too long.
        state: ``pinned``, or how far the target is with fetching it.
        earlier: Whether an earlier call with the same journal made the copy. Then `how`,
            `duplicate` and `size` are those of that call.
        checked: Whether the target confirmed in this call that it has the pin. False only for a
            copy of an earlier call at a target whose pins cannot be listed.

    Example:
        >>> Copied(cid="bafkqaaa", how="archive").duplicate
        False
    """

    cid: str
    name: str = ""
    how: CopyMethod | None = None
    duplicate: bool = False
    size: int = 0
    dropped: tuple[str, ...] = ()
    state: PinState = "pinned"
    earlier: bool = False
    checked: bool = True
