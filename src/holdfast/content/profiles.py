"""Named layouts of content in blocks. Equal bytes with the same profile have the same CID."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.hashes import FUNCTIONS, SHA2_256, Hasher

KIB: Final = 1 << 10
MIB: Final = 1 << 20
SHARD_THRESHOLD: Final = 256 * KIB  # larger directories are sharded, in every profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How files and directories become blocks.

    Attributes:
        name: The name of the profile.
        cid_version: 0 or 1.
        chunk_size: The bytes of a file in one leaf.
        width: The maximum number of children of an inner node.
        raw_leaves: Whether a leaf is a raw block; else it is wrapped in dag-pb.
        directory_size: What is compared with the threshold for sharding: the names and CIDs of the
            links, or the whole block.
        hash_code: The hash function of all blocks, by its multicodec code.
    """

    name: str
    cid_version: int
    chunk_size: int
    width: int
    raw_leaves: bool
    directory_size: Literal["links", "block"]
    hash_code: int = SHA2_256

    def dag_pb_cid(self, digest: bytes) -> CID:
        """Return the CID of a dag-pb block with this digest."""
        return CID(self.cid_version, DAG_PB, self.hash_code, digest)

    def raw_cid(self, digest: bytes) -> CID:
        """Return the CID of a raw block with this digest."""
        return CID(1, RAW, self.hash_code, digest)

    def new_hash(self, data: bytes = b"") -> Hasher:
        """Start the hash of a block that begins with `data`."""
        return FUNCTIONS[self.hash_code].new(data)

    def with_hash(self, code: int) -> "Profile":
        """Return the same layout with another hash function. CIDv0 allows only sha2-256."""
        return self if code == self.hash_code else replace(self, cid_version=1, hash_code=code)


# The two profiles of IPIP-499, and Kubo's layout for --cid-version=1 before them.
UNIXFS_V1_2025: Final = Profile(
    name="unixfs-v1-2025",
    cid_version=1,
    chunk_size=MIB,
    width=1024,
    raw_leaves=True,
    directory_size="block",
)
UNIXFS_V0_2015: Final = Profile(
    name="unixfs-v0-2015",
    cid_version=0,
    chunk_size=256 * KIB,
    width=174,
    raw_leaves=False,
    directory_size="links",
)
KUBO_LEGACY_CIDV1: Final = replace(
    UNIXFS_V0_2015, name="kubo-legacy-cidv1", cid_version=1, raw_leaves=True
)

PROFILES: Final[Mapping[str, Profile]] = {
    profile.name: profile for profile in (UNIXFS_V1_2025, UNIXFS_V0_2015, KUBO_LEGACY_CIDV1)
}

# Kubo's profile test-cid-v1 exists in the wild: it is tried on verification, but has no name here.
_LARGE_CHUNKS: Final = replace(KUBO_LEGACY_CIDV1, name="kubo-test-cidv1", chunk_size=MIB)
CANDIDATES: Final = (UNIXFS_V1_2025, UNIXFS_V0_2015, KUBO_LEGACY_CIDV1, _LARGE_CHUNKS)
"""The layouts that are tried to verify content by importing it again."""


def candidates_for(cid: CID) -> tuple[Profile, ...]:
    """Return the layouts to try for `cid`, with its hash function."""
    if cid.hash_code not in FUNCTIONS:
        return ()
    return tuple(profile.with_hash(cid.hash_code) for profile in CANDIDATES)


def leaves_alike(one: Profile, other: Profile) -> bool:
    """Return whether two layouts split a file into the same leaves."""
    return (one.chunk_size, one.raw_leaves) == (other.chunk_size, other.raw_leaves)


def profile_for(name: str | None, cid_version: int) -> Profile:
    """Return the profile `name`, or without a name the default for the CID version."""
    if name is not None:
        return profile_named(name)
    return UNIXFS_V1_2025 if cid_version else UNIXFS_V0_2015


def profile_named(name: str) -> Profile:
    """Return the profile `name`; raise `ValueError`, which lists the names, if it is unknown."""
    try:
        return PROFILES[name]
    except KeyError:
        raise ValueError(f"unknown profile {name!r}: there are {', '.join(PROFILES)}") from None
