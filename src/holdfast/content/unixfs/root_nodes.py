"""The root of a file, a directory or a link: its kind and its size, from its own block."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.content import dag_pb
from holdfast.content.blocks import malformed
from holdfast.content.cid import CID
from holdfast.content.codecs import CODECS, is_one_block, read_kind
from holdfast.content.reference import Reference
from holdfast.content.unixfs import data
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.directory_nodes import DirectoryEntry, Shard
from holdfast.content.unixfs.file_nodes import file_node
from holdfast.content.unixfs.walks import Walk
from holdfast.records import Entry, EntryKind


class RootInfo(NamedTuple):
    """What a root is.

    Attributes:
        kind: ``file``, ``directory`` or ``symlink``.
        size: The bytes of a file, or of the target of a link; None for a directory.
    """

    kind: EntryKind
    size: int | None


def root_info(cid: CID, block: bytes) -> RootInfo:
    """Return what `block`, already verified, is the root of.

    Raise `UnprovenError` for another codec, and `MalformedError` if it breaks the rules.
    """
    kind = read_kind(cid, block)
    if kind in {Kind.DIRECTORY, Kind.SHARD}:
        return RootInfo("directory", None)
    if kind is Kind.SYMLINK:
        return RootInfo("symlink", len(data.decode(dag_pb.decode(block).data).data))
    if kind is Kind.METADATA:
        raise malformed(cid, "it is metadata, not a file")
    return RootInfo("file", file_node(cid, block).size)


def entry_record(entry: DirectoryEntry) -> Entry:
    """Return the record of an entry.

    A raw block is a file of the size that the directory declares. For any other entry, the kind and
    the size are only known from its own block.
    """
    if is_one_block(entry.cid):
        return Entry(name=entry.name, cid=str(entry.cid), size=entry.size, kind="file")
    return Entry(name=entry.name, cid=str(entry.cid))


def stat_record(reference: Reference, cid: CID, info: RootInfo) -> Entry:
    """Return the record of the content at `cid`, which `reference` leads to."""
    name = reference.path[-1] if reference.path else ""
    text = str(cid) if reference.path else reference.text
    return Entry(name=name, cid=text, kind=info.kind, size=info.size)


def has_root_info(cid: CID) -> bool:
    """Return whether the block of `cid` can be verified and read."""
    return cid.codec in CODECS and cid.is_provable


class RootsWalk(Walk[Shard, RootInfo]):
    """What each of some roots is, in their order."""

    def __init__(self, roots: Sequence[CID]) -> None:
        super().__init__(*map(Shard, reversed(roots)))

    def feed(self, block: bytes, *, verified: bool = False) -> list[RootInfo]:
        """Take the block that is needed, and return what it is the root of."""
        info = root_info(self._expect(block, verified=verified).cid, block)
        self._replace([])
        return [info]
