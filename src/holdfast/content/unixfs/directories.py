"""Building directories: one node, or a tree of shards where one node would be too large."""

from collections.abc import Iterable, Sequence

from holdfast.content import dag_pb, varint
from holdfast.content.blocks import Emit
from holdfast.content.dag_pb import Link
from holdfast.content.profiles import SHARD_THRESHOLD, Profile
from holdfast.content.unixfs import data
from holdfast.content.unixfs.files import Part, node_part
from holdfast.content.unixfs.hamt import build_shard


def build_directory(
    entries: Iterable[tuple[bytes, Part]], profile: Profile, emit: Emit | None = None
) -> Part:
    """Return the directory of `entries`, each a name and its content. The names must differ."""
    links = [Link(part.cid, name, part.dag_size) for name, part in entries]
    # By the bytes of the names: other orders (locale, UTF-16) give other CIDs.
    links.sort(key=lambda link: link.name)
    if _measured(links, profile) > SHARD_THRESHOLD:
        return build_shard(links, profile, emit)
    return node_part(links, data.DIRECTORY, profile, emit)


def build_symlink(target: bytes, profile: Profile, emit: Emit | None = None) -> Part:
    """Return the node of a symbolic link."""
    return node_part([], data.symlink_data(target), profile, emit)


def _measured(links: Sequence[Link], profile: Profile) -> int:
    """Return the size that the profile compares with the threshold for sharding."""
    if profile.directory_size == "links":
        return sum(len(link.name) + len(bytes(link.cid)) for link in links)
    sizes = (len(dag_pb.encode_link(link)) for link in links)
    framed = sum(1 + len(varint.encode(size)) + size for size in sizes)
    return framed + 2 + len(data.DIRECTORY)
