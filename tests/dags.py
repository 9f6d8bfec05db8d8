"""DAGs of any kind: unusual, wrong, or small ones that stand for a lot; and gateways of them."""

from dataclasses import dataclass, field

from holdfast.content import dag_pb, varint
from holdfast.content.car import write_car
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.dag_pb import Link
from holdfast.content.hashes import IDENTITY, SHA2_256
from holdfast.content.unixfs import hamt
from holdfast.protocol.gateway import CAR_TYPE, RAW_TYPE
from holdfast.testing import Scripted
from tests.content import Blocks

MIB = 1 << 20
FILE, RAW_KIND, DIRECTORY, SHARD = 2, 0, 1, 5


def message(kind=FILE, *, content=None, size=None, sizes=(), hash_type=None, fanout=None):
    """A UnixFS message with any fields."""
    out = b"\x08" + varint.encode(kind)
    if content is not None:
        out += dag_pb.field(b"\x12", content)
    if size is not None:
        out += b"\x18" + varint.encode(size)
    for number in sizes:
        out += b"\x20" + (number if isinstance(number, bytes) else varint.encode(number))
    for tag, number in ((b"\x28", hash_type), (b"\x30", fanout)):
        out += b"" if number is None else tag + varint.encode(number)
    return out


@dataclass
class Dag:
    """Blocks in the making, of one hash function."""

    code: int = SHA2_256
    blocks: Blocks = field(default_factory=Blocks)

    def put(self, codec, block):
        """Add any bytes as a block; its CID."""
        digest = CID(1, codec, self.code, b"").new_hash(block).digest()
        cid = CID(1, codec, self.code, digest)
        if self.code != IDENTITY:
            self.blocks[cid] = block
        return cid

    def raw(self, content):
        return self.put(RAW, content)

    def links(self, links, text):
        """A node of links, and any message."""
        return self.put(DAG_PB, dag_pb.encode(links, text))

    def node(self, cids, **fields):
        return self.links([Link(cid, b"", 5) for cid in cids], message(**fields))

    def leaf(self, content, **fields):
        return self.node([], content=content, size=len(content), **fields)

    def inner(self, *children, size=None, **fields):
        """A node over (CID, declared size) pairs."""
        sizes = [declared for _, declared in children]
        total = sum(sizes) + len(fields.get("content") or b"") if size is None else size
        return self.node([cid for cid, _ in children], size=total, sizes=sizes, **fields)

    def repeated(self, cid, size, *widths):
        """Nodes with many links to one child, level above level; the CID and size of the top."""
        for width in widths:
            cid = self.inner(*[(cid, size)] * width)
            size *= width
        return cid, size

    def directory(self, **entries):
        links = [
            Link(cid, name.encode(), len(self.blocks.get(cid, b"")))
            for name, cid in entries.items()
        ]
        return self.links(links, message(DIRECTORY))

    def shard(self, entries, *, hash_type=hamt.MURMUR3, fanout=256, bitfield=None):
        """A shard with links in any slots: (slot, name, cid)."""
        entries = sorted(entries)
        bits = sum(1 << slot for slot, _, _ in entries) if bitfield is None else bitfield
        links = [Link(cid, hamt.slot_prefix(slot, 256) + name, 5) for slot, name, cid in entries]
        content = bits.to_bytes((bits.bit_length() + 7) // 8, "big")
        text = message(SHARD, content=content, hash_type=hash_type, fanout=fanout)
        return self.links(links, text)

    def archive(self, *, reverse=False):
        """A CAR of all blocks: the last one that was made comes first, or last."""
        blocks = list(self.blocks.items())
        return b"".join(write_car([], blocks if reverse else blocks[::-1]))


def in_version_2(archive, *, padding=0, index=b"", start=None, size=None):
    """A CAR of version 2 around one of version 1; `start` and `size` of that may be lies."""
    place = 51 + padding
    numbers = [place if start is None else start, len(archive) if size is None else size]
    numbers.append(place + len(archive) if index else 0)
    header = bytes(16) + b"".join(number.to_bytes(8, "little") for number in numbers)
    return bytes.fromhex("0aa16776657273696f6e02") + header + bytes(padding) + archive + index


def section(*parts):
    """What stands in an archive for these parts: a header, or the CID and the bytes of a block."""
    body = b"".join(map(bytes, parts))
    return varint.encode(len(body)) + body


def archive_gateway(archive, body=None):
    """A script: the archive, the plain `body` if there is one, and nothing else."""

    def answer(request):
        if "format=car" in request.target:
            headers = {"Content-Type": CAR_TYPE}
            return Scripted(body=archive, headers=headers, chunked=bool(archive))
        is_plain = body is not None and "format=" not in request.target
        return Scripted(body=body) if is_plain else Scripted(status=406)

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
