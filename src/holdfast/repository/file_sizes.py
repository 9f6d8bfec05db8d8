"""Checking, before a DAG is pinned, that the sizes in its files are true.

Readers of IPFS disagree on how to read a file whose nodes declare wrong sizes.
"""

from collections.abc import Callable, Mapping

from holdfast.content.blocks import inline_block, malformed
from holdfast.content.cid import CID
from holdfast.content.codecs import is_node, is_one_block, kind_of
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.file_nodes import FileNode, file_node
from holdfast.repository.rows import cid_of


def check_file_sizes(
    block_sizes: Mapping[bytes, int | None], find: Callable[[CID], bytes | None]
) -> None:
    """Raise `MalformedError` if a node of a file declares other sizes than its children have.

    `block_sizes` has the key and the size of every block of the DAG; `find` returns a block. For a
    missing block both give None, and it is not checked. Each dag-pb block is read once.
    """
    # By the key of a dag-pb block: how many bytes of a file it holds (None: it is not a file), and
    # the size that its first parent declares for it.
    held: dict[bytes, int | None] = {}
    declared: dict[bytes, tuple[CID, int]] = {}
    for key in block_sizes:
        cid = cid_of(key)
        if not is_node(cid) or (block := find(cid)) is None:
            continue
        held[key] = None
        if kind_of(cid, block) in {Kind.FILE, Kind.RAW}:
            node = file_node(cid, block)
            held[key] = node.size
            _check_children(cid, node, block_sizes, declared)
    for key, (parent, size) in declared.items():
        if key in held:
            _compare(parent, cid_of(key), size, held[key])


def _check_children(
    cid: CID,
    node: FileNode,
    block_sizes: Mapping[bytes, int | None],
    declared: dict[bytes, tuple[CID, int]],
) -> None:
    """Compare the raw children of a node with its sizes; collect the sizes for the others."""
    for child, size in node.children:
        if is_one_block(child):
            inline = inline_block(child)
            held = block_sizes.get(child.key) if inline is None else len(inline)
            if held is not None:
                _compare(cid, child, size, held)
        elif declared.setdefault(child.key, (cid, size))[1] != size:
            raise malformed(
                cid, f"it declares {size} bytes for {child}, but another node declares another size"
            )


def _compare(parent: CID, child: CID, declared: int, held: int | None) -> None:
    if held != declared:
        what = "is not a file" if held is None else f"has {held} bytes"
        raise malformed(parent, f"it declares {declared} bytes for {child}, which {what}")
