"""Checking, before a DAG is pinned, that the sizes in its files agree with what they hold.

A file whose nodes contradict each other would be read in one way here and in another way elsewhere.
"""

from collections.abc import Callable, Mapping

from holdfast.content.blocks import inline_block, missing_block
from holdfast.content.cid import CID, DAG_PB
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.walks import file_node, kind_of, malformed
from holdfast.repository.blocks import cid_of, key_of


def check_file_sizes(
    block_sizes: Mapping[bytes, int | None], find: Callable[[CID], bytes | None]
) -> None:
    """Raise `MalformedError` if a node of a file declares other sizes than its children have.

    `block_sizes` has the key and the size of every block of the DAG; `find` returns a block. Each
    dag-pb block is read once, in any order, and compared with what its parents declare.
    """
    declared: dict[bytes, tuple[CID, int]] = {}  # by the key of a dag-pb child: parent and size
    own: dict[bytes, int] = {}
    for key in block_sizes:
        cid = cid_of(key)
        if cid.codec != DAG_PB:
            continue
        block = find(cid)
        if block is None:
            raise missing_block(cid)
        if kind_of(cid, block) not in {Kind.FILE, Kind.RAW}:
            continue
        node = file_node(cid, block)
        own[key] = node.size
        for child, size in node.children:
            child_key = key_of(child)
            if child.codec != DAG_PB:
                inline = inline_block(child)
                _compare(
                    cid, child, size, block_sizes[child_key] if inline is None else len(inline)
                )
            elif declared.setdefault(child_key, (cid, size))[1] != size:
                raise malformed(cid, f"it declares {size} bytes for {child}, another node does not")
    for key, (parent, size) in declared.items():
        _compare(parent, cid_of(key), size, own.get(key))


def _compare(parent: CID, child: CID, declared: int, held: int | None) -> None:
    if held != declared:
        what = "is not a file" if held is None else f"has {held} bytes"
        raise malformed(parent, f"it declares {declared} bytes for {child}, which {what}")
