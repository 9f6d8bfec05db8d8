"""DAGs and archives that are small, or come in an odd order, and that stand for a lot."""

import hashlib

from holdfast.content import dag_pb, varint
from holdfast.content.car import write_car
from holdfast.content.cid import CID, DAG_PB, SHA2_256
from holdfast.content.dag_pb import Link
from holdfast.content.unixfs import data
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.files import dag_pb_frame
from holdfast.protocol.gateway import CAR_TYPE, RAW_TYPE
from holdfast.testing import Scripted

MIB = 1 << 20


class Dag:
    """A DAG in the making.

    Attributes:
        blocks: Its blocks by CID, in the order in which they were made.
    """

    def __init__(self):
        self.blocks = {}

    def _add(self, block):
        cid = CID(1, DAG_PB, SHA2_256, hashlib.sha256(block).digest())
        self.blocks[cid] = block
        return cid

    def raw(self, content):
        cid = CID.of_raw(content)
        self.blocks[cid] = content
        return cid

    def leaf(self, content):
        """A dag-pb leaf."""
        head, tail = dag_pb_frame(Kind.FILE, len(content))
        return self._add(head + content + tail)

    def node(self, children):
        """An inner node over (CID, size)."""
        links = [Link(cid, b"", size) for cid, size in children]
        sizes = [size for _, size in children]
        return self._add(dag_pb.encode(links, data.file_data(sum(sizes), sizes)))

    def repeated(self, cid, size, *widths):
        """Nodes with many links to one child, level above level; the CID and size of the top."""
        for width in widths:
            cid = self.node([(cid, size)] * width)
            size *= width
        return cid, size

    def archive(self, *, reverse=False):
        """A CAR of all blocks: the last one that was made comes first, or last."""
        blocks = list(self.blocks.items())
        blocks = blocks if reverse else blocks[::-1]
        return b"".join(write_car([], blocks))


def section(*parts):
    """What stands in an archive for these parts: a header, or the CID and the bytes of a block."""
    body = b"".join(map(bytes, parts))
    return varint.encode(len(body)) + body


def archive_gateway(archive):
    """A script: the archive, and nothing else."""

    def answer(request):
        if "format=car" in request.target:
            return Scripted(body=archive, headers={"Content-Type": CAR_TYPE}, chunked=True)
        return Scripted(status=406)

    return answer


def block_gateway(blocks):
    """A script: single blocks, and nothing else."""

    def answer(request):
        path, _, query = request.target.partition("?")
        cid = CID.parse(path.rpartition("/")[2])
        if query == "format=raw" and cid in blocks:
            return Scripted(body=blocks[cid], headers={"Content-Type": RAW_TYPE})
        return Scripted(status=404 if query == "format=raw" else 406)

    return answer
