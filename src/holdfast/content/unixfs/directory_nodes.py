"""The nodes of a directory: one plain block, or a tree of shards (HAMT), and the entries in them.

Each name appears once. In a sharded directory, the hash of a name allows only one place for it. So
names need not be remembered to find duplicates, and a shard that is linked from two places is found
to be malformed at its first entry.
"""

from typing import NamedTuple

from holdfast.content import dag_pb
from holdfast.content.blocks import malformed
from holdfast.content.cid import CID, DAG_PB
from holdfast.content.dag_pb import Link
from holdfast.content.unixfs import data, hamt
from holdfast.content.unixfs.data import Data, Kind
from holdfast.errors import NotAFolderError, NotFoundError
from holdfast.hints import advise

UNSAFE_NAME = "a directory with an empty, unsafe or doubled name"


class DirectoryEntry(NamedTuple):
    """A name in a directory, the CID of its content, and the declared size of all blocks below.

    Bytes of a name that are not UTF-8 are kept as surrogates.
    """

    name: str
    cid: CID
    size: int


class Shard(NamedTuple):
    """The place of a block in a directory: the directory itself, or a shard below it.

    Attributes:
        cid: The CID of the block.
        prefix: The bits with which the hashes of all names in it begin.
        bits: How many bits these are.
        depth: How many shards are above it.
    """

    cid: CID
    prefix: int = 0
    bits: int = 0
    depth: int = 0


class DirectoryNode(NamedTuple):
    """The contents of a block of a directory: entries, and the shards with more entries."""

    entries: list[DirectoryEntry]
    shards: list[Shard]


def directory_node(place: Shard, block: bytes) -> DirectoryNode:
    """Return the entries and shards in `block`, already verified, in their order.

    Raise `NotAFolderError` if it is not a directory, and `MalformedError` if it breaks the rules.
    """
    message, links = _decode(place, block)
    if message.kind is Kind.SHARD:
        return _shard_node(place, message, links)
    if len({link.name for link in links}) != len(links):
        raise malformed(place.cid, UNSAFE_NAME)
    return DirectoryNode([_entry(link, link.name) for link in links], [])


def _shard_node(place: Shard, message: Data, links: list[Link]) -> DirectoryNode:
    fanout = hamt.check_shard(message, links)
    width = len(hamt.slot_prefix(0, fanout))
    bits = place.bits + hamt.slot_bits(fanout)
    if bits > hamt.HASH_BITS:
        raise malformed(place.cid, "a sharded directory is too deep")
    if place.depth and not links:
        raise malformed(place.cid, "an empty shard")
    node = DirectoryNode([], [])
    for link in links:
        prefix = place.prefix * fanout + int(link.name[:width], 16)
        if name := link.name[width:]:
            if hamt.murmur3(name) >> (hamt.HASH_BITS - bits) != prefix:
                raise malformed(place.cid, "an entry is in the wrong slot")
            node.entries.append(_entry(link, name))
        else:
            node.shards.append(Shard(link.cid, prefix, bits, place.depth + 1))
    return node


def find_name(place: Shard, block: bytes, name: bytes) -> CID | Shard:
    """Return the CID of `name`, or the shard below `block`, already verified, that may have it.

    Raise `NotFoundError` if it is not there.
    """
    try:
        message, links = _decode(place, block)
    except NotAFolderError as error:
        raise NotFoundError(error.message) from None
    if message.kind is Kind.DIRECTORY:
        matches = [link.cid for link in links if name and link.name == name]
    else:
        fanout = hamt.check_shard(message, links)
        slot = hamt.slot_at(hamt.murmur3(name), place.bits, fanout)
        prefix = hamt.slot_prefix(slot, fanout)
        for link in links:
            if link.name == prefix:
                bits = place.bits + hamt.slot_bits(fanout)
                return Shard(link.cid, place.prefix * fanout + slot, bits, place.depth + 1)
        matches = [link.cid for link in links if link.name == prefix + name]
    if len(matches) > 1:
        raise malformed(place.cid, "a directory with a doubled name")
    if not matches:
        readable = name.decode("utf-8", "replace")
        missing = NotFoundError(f"there is no {readable!r} in {place.cid}")
        raise advise(missing, "`entries` lists its names", "`holdfast ls CID` lists its names")
    return matches[0]


def not_a_directory(cid: CID) -> NotAFolderError:
    """Return the error for a file that is read as a directory."""
    error = NotAFolderError(f"{cid} is not a directory")
    typed = "`holdfast download CID` gets a file, `holdfast retrieve CID | jq .NAME` a part of JSON"
    return advise(error, "use download, which is for files", typed)


def _decode(place: Shard, block: bytes) -> tuple[Data, list[Link]]:
    """Return the message and the links in a block of a directory."""
    cid = place.cid
    if cid.codec != DAG_PB:
        raise not_a_directory(cid)
    node = dag_pb.decode(block)
    message = data.decode(node.data)
    if message.kind not in {Kind.DIRECTORY, Kind.SHARD}:
        raise not_a_directory(cid)
    if message.kind is Kind.DIRECTORY and place.depth:
        raise malformed(cid, "a plain directory among shards")
    return message, node.links


def _entry(link: Link, name: bytes) -> DirectoryEntry:
    """Return an entry, or raise `MalformedError` for a name that no file system can have."""
    if name in {b"", b".", b".."} or b"/" in name or b"\0" in name:
        raise malformed(link.cid, UNSAFE_NAME)
    return DirectoryEntry(name.decode("utf-8", "surrogateescape"), link.cid, link.size)
