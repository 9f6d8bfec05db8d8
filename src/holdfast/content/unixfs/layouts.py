"""The CIDs of one stream under several layouts, computed in one pass, to find the right layout."""

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final

from holdfast.content.blocks import MAX_BLOCK
from holdfast.content.cid import CID
from holdfast.content.codecs import is_one_block
from holdfast.content.hashes import FUNCTIONS
from holdfast.content.profiles import CANDIDATES, Profile, candidates_for, leaves_alike
from holdfast.content.proof import NoProof
from holdfast.content.unixfs.files import LeafCutter, Tree
from holdfast.errors import UnprovenError, VerificationError


def by_leaves(profiles: Iterable[Profile]) -> list[list[Profile]]:
    """Return `profiles` in groups that cut a file into the same leaves, and share most work."""
    groups: list[list[Profile]] = []
    for profile in profiles:
        for group in groups:
            if leaves_alike(group[0], profile):
                group.append(profile)
                break
        else:
            groups.append([profile])
    return groups


class Layouts:
    """Computes the root of a file under each of `profiles`, from its bytes.

    Example:
        >>> layouts = Layouts()
        >>> layouts.update(b"hello")
        >>> for profile, cid in layouts.roots().items():
        ...     print(profile.name, cid)
        unixfs-v1-2025 bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq
        kubo-test-cidv1 bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq
        unixfs-v0-2015 QmWfVY9y3xjsixTgbd9AorQxH7VtMpzfx2HaWtsoUYecaX
        kubo-legacy-cidv1 bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq
    """

    def __init__(
        self, profiles: Iterable[Profile] = CANDIDATES, leaf_ends: Iterable[int] = ()
    ) -> None:
        self._trees: list[tuple[Profile, Tree]] = []
        self._cutters: list[LeafCutter] = []
        for group in by_leaves(profiles):
            trees = [Tree(profile) for profile in group]
            self._cutters.append(LeafCutter(group[0], trees, leaf_ends=leaf_ends))
            self._trees += zip(group, trees, strict=True)

    def update(self, data: Any) -> None:
        """Add the next bytes, from any buffer."""
        for cutter in self._cutters:
            cutter.update(data)

    def roots(self) -> dict[Profile, CID]:
        """Return the root under each layout. Call it once, after all bytes."""
        for cutter in self._cutters:
            cutter.finish()
        return {profile: tree.root().cid for profile, tree in self._trees}


def no_layout_fits(cid: CID) -> UnprovenError:
    """Return the error for content that cannot be compared with `cid`."""
    return UnprovenError(
        f"no known layout of this content gives {cid}: it is other content, "
        "or was cut in another way",
        cid=str(cid),
    )


def not_what_was_sent(cid: CID) -> VerificationError:
    """Return the error for an upload that the provider stored as other content."""
    return VerificationError(
        f"the provider stored the upload as {cid}, which is not what was sent", cid=str(cid)
    )


# Not from `content.age`, which needs a library that not everybody has.
AGE_HEADER: Final = re.compile(rb"age-encryption\.org/v1\n.*?\n--- [^\n]{43}\n", re.DOTALL)
MAX_AGE_HEADER: Final = 64 << 10  # bytes


def header_ends(beginning: bytes | bytearray) -> tuple[int, ...]:
    """Return where the header of an age file ends; nothing for another file."""
    header = AGE_HEADER.match(beginning)
    return (header.end(),) if header else ()


class LayoutProof(NoProof):
    """For a gateway without blocks: imports the body again, which must result in the same CID.

    An age file is also imported with a leaf of its own for the header, as encrypted views do.
    """

    def __init__(self, root: CID, leaf_ends: tuple[int, ...] = ()) -> None:
        self._root = root
        self._leaf_ends = leaf_ends
        self._beginning = bytearray()
        self._layouts: list[Layouts] = []  # none before a header was looked for

    def update(self, data: bytes) -> list[Any]:
        """Import the next bytes and return them."""
        view = memoryview(data).cast("B")
        if not self._layouts:
            room = MAX_AGE_HEADER - len(self._beginning)
            self._beginning += view[:room]
            if len(view) >= room:
                self._begin()
            view = view[room:]
        for layouts in self._layouts:
            layouts.update(view)
        return [data]

    def roots(self) -> set[CID]:
        """Return the root under each layout. Call it once, after all bytes."""
        if not self._layouts:
            self._begin()
        return {root for layouts in self._layouts for root in layouts.roots().values()}

    def _begin(self) -> None:
        """Import the beginning, also with a leaf for the header if there is one."""
        for leaf_ends in {(), self._leaf_ends, header_ends(self._beginning)}:
            layouts = Layouts(candidates_for(self._root), leaf_ends)
            layouts.update(self._beginning)
            self._layouts.append(layouts)

    def finish(self) -> None:
        """Raise `UnprovenError` unless a known layout results in the CID.

        If none does, the bytes may still be right: the file may have been cut in another way.
        """
        if self._root not in self.roots():
            raise no_layout_fits(self._root)


class WriteCheck:
    """Computes the CID of an upload while it is sent, to compare it with the provider's.

    Example:
        >>> from holdfast.content.profiles import UNIXFS_V1_2025
        >>> check = WriteCheck(UNIXFS_V1_2025)
        >>> check.update(b"hello")
        >>> check.profile_of(CID.of_raw(b"hello")).name
        'unixfs-v1-2025'
    """

    def __init__(self, guess: Profile) -> None:
        alike = (profile for profile in CANDIDATES if leaves_alike(profile, guess))
        self._layouts = Layouts(profile.with_hash(guess.hash_code) for profile in alike)
        # The whole upload, while it may be a single block: the hash function of such a block is
        # known only at the end, from the provider's CID.
        self._whole = bytearray()
        self._size = 0
        self._guess = guess

    def update(self, data: bytes) -> None:
        """Add the next bytes."""
        self._layouts.update(data)
        self._size += len(data)
        if self._size <= MAX_BLOCK:
            self._whole += data
        else:
            self._whole.clear()

    def profile_of(self, cid: CID) -> Profile | None:
        """Return the layout under which the upload has this CID; None if no known layout has it.

        Raise `VerificationError` for a raw CID that differs: a raw block has only one layout.
        """
        profile = next((profile for profile, root in self._roots.items() if root == cid), None)
        if profile is not None or not is_one_block(cid):
            return profile
        if cid.is_provable and (self._size > MAX_BLOCK or not self._is_block(cid)):
            raise not_what_was_sent(cid)
        return None

    def expected_cid(self) -> str | None:
        """Return the CID under the layout that is guessed. Call it after all bytes."""
        cid = self._roots.get(self._guess)
        return None if cid is None else str(cid)

    @cached_property
    def _roots(self) -> dict[Profile, CID]:
        return self._layouts.roots()

    def _is_block(self, cid: CID) -> bool:
        """Return whether the whole upload is the block that `cid` names."""
        function = FUNCTIONS.get(cid.hash_code)
        digest = self._whole if function is None else function.new(self._whole).digest()
        return digest == cid.digest
