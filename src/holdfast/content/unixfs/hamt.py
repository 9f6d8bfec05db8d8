"""Sharded directories: a hash array mapped trie of shards, one dag-pb node each.

The murmur3 hash of a name selects the slot of its entry, with a few bits for each level. The name
of a link begins with the slot in hexadecimal. The rest is the name of the entry, or empty where the
slot has another shard.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from holdfast.content.blocks import Emit
from holdfast.content.dag_pb import Link
from holdfast.content.profiles import Profile
from holdfast.content.unixfs import data
from holdfast.content.unixfs.data import Data
from holdfast.content.unixfs.files import Part, node_part
from holdfast.errors import MalformedError

MURMUR3: Final = 0x22
FANOUT: Final = 256  # Kubo's, in every profile
MAX_FANOUT: Final = 1024
HASH_BITS: Final = 64
_MASK: Final = (1 << 64) - 1


def build_shard(entries: Sequence[Link], profile: Profile, emit: Emit | None = None) -> Part:
    """Return the sharded directory of `entries`, whose names differ."""
    return _build([(murmur3(entry.name), entry) for entry in entries], 0, profile, emit)


def _build(entries: list[tuple[int, Link]], used: int, profile: Profile, emit: Emit | None) -> Part:
    slots: dict[int, list[tuple[int, Link]]] = defaultdict(list)
    for name_hash, entry in entries:
        slots[slot_at(name_hash, used, FANOUT)].append((name_hash, entry))
    links = []
    bitfield = 0
    for slot in sorted(slots):
        bitfield |= 1 << slot
        prefix = slot_prefix(slot, FANOUT)
        if len(slots[slot]) == 1:
            ((_, entry),) = slots[slot]
            links.append(Link(entry.cid, prefix + entry.name, entry.size))
        else:
            child = _build(slots[slot], used + slot_bits(FANOUT), profile, emit)
            links.append(Link(child.cid, prefix, child.dag_size))
    return node_part(links, data.shard_data(bitfield, FANOUT, MURMUR3), profile, emit)


def check_shard(shard: Data, links: Sequence[Link]) -> int:
    """Return the fanout of a shard; raise `MalformedError` if it breaks the rules."""
    fanout = shard.fanout or 0
    if shard.hash_type != MURMUR3:
        raise MalformedError("UnixFS: a shard with a hash other than murmur3")
    if not 8 <= fanout <= MAX_FANOUT or fanout & (fanout - 1):
        raise MalformedError(f"UnixFS: a shard with a fanout of {fanout}")
    bitfield = int.from_bytes(shard.data, "big")
    if len(shard.data) > fanout // 8 or bitfield.bit_count() != len(links):
        raise MalformedError("UnixFS: a shard whose bitfield does not fit its links")
    width = len(slot_prefix(0, fanout))
    slots = [slot for slot in range(fanout) if bitfield >> slot & 1]
    for slot, link in zip(slots, links, strict=True):
        if link.name[:width] != slot_prefix(slot, fanout):
            raise MalformedError("UnixFS: a shard's link is in the wrong slot")
    return fanout


def slot_at(name_hash: int, used: int, fanout: int) -> int:
    """Return the slot of a name in a shard; the shards above have used `used` bits of its hash."""
    rest = HASH_BITS - used - slot_bits(fanout)
    if rest < 0:
        raise MalformedError("UnixFS: a sharded directory is too deep")
    return name_hash >> rest & (fanout - 1)


def slot_bits(fanout: int) -> int:
    """Return how many bits of a hash select a slot."""
    return fanout.bit_length() - 1


def slot_prefix(slot: int, fanout: int) -> bytes:
    """Return the beginning of the names of links in `slot`."""
    return f"{slot:0{len(f'{fanout - 1:X}')}X}".encode()


def murmur3(name: bytes) -> int:
    """Return the first 64 bits of murmur3-x64-128 with seed 0."""
    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
    h1 = h2 = 0
    whole = len(name) & ~15
    for position in range(0, whole, 16):
        k1 = int.from_bytes(name[position : position + 8], "little")
        k2 = int.from_bytes(name[position + 8 : position + 16], "little")
        h1 ^= _rotated(k1 * c1 & _MASK, 31) * c2 & _MASK
        h1 = (_rotated(h1, 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 ^= _rotated(k2 * c2 & _MASK, 33) * c1 & _MASK
        h2 = (_rotated(h2, 31) + h1) * 5 + 0x38495AB5 & _MASK
    tail = name[whole:]
    h2 ^= _rotated(int.from_bytes(tail[8:], "little") * c2 & _MASK, 33) * c1 & _MASK
    h1 ^= _rotated(int.from_bytes(tail[:8], "little") * c1 & _MASK, 31) * c2 & _MASK
    h1 ^= len(name)
    h2 ^= len(name)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return _mixed(h1) + _mixed(h2) & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _mixed(value: int) -> int:
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & _MASK
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
