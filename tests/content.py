"""The content of the vectors, and stores of blocks, for tests of the content engine."""

import hashlib
import json
from dataclasses import replace
from itertools import chain
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from holdfast.content.blocks import missing_block
from holdfast.content.car import CarReader, write_car
from holdfast.content.codecs import links_of
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.files import FileImporter
from holdfast.content.unixfs.walks import DirectoryWalk, FileWalk, PathWalk

DATA = Path(__file__).parent / "data"
VECTORS = json.loads((DATA / "vectors.json").read_text(encoding="utf-8"))
MIB = 1 << 20
# The real profiles with small chunks and nodes: a few hundred bytes make a tree of several levels.
SMALL_PROFILES = [
    replace(UNIXFS_V1_2025, chunk_size=7, width=3),
    replace(UNIXFS_V0_2015, chunk_size=5, width=2),
    replace(KUBO_LEGACY_CIDV1, chunk_size=16, width=4),
]


def stream(seed, size):
    """The bytes of a vector, in pieces of 1 MiB."""
    for start in range(0, size, MIB):
        piece = min(MIB, size - start)
        yield hashlib.shake_128(f"{seed}:{start // MIB}".encode()).digest(piece)


def key_stream(seed, size):
    """ChaCha20's key stream, with which Kubo makes the content of its tests."""
    key = hashlib.sha256(seed.encode()).digest()
    encryptor = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    for start in range(0, size, MIB):
        yield encryptor.update(bytes(min(MIB, size - start)))


def file_pieces(vector):
    if vector["name"].startswith("zeros"):
        return (bytes(min(MIB, vector["size"] - at)) for at in range(0, vector["size"], MIB))
    return stream(vector["seed"], vector["size"])


def json_text(vector):
    if "text" in vector:
        return vector["text"].encode()
    items = [{"id": i, "name": f"item-{i}", "tags": ["x", "y", str(i * i)]} for i in range(30000)]
    return json.dumps(items, ensure_ascii=False, separators=(",", ":")).encode()


def generated_names(recipe):
    """The names that a generated directory's recipe describes."""
    count = recipe["count"]
    if "{i:05d}" in recipe["name"]:
        return [recipe["name"].replace("{i:05d}", f"{i:05d}") for i in range(count)]
    widths = [int(part.split(",")[0]) for part in recipe["name"].split("rjust(")[1:]]
    return [str(i).rjust(widths[i == count - 1], "n") for i in range(count)]


def kubo_names(recipe):
    """The names of a directory in Kubo's tests: bytes of the key stream, mapped to an alphabet."""
    alphabet = recipe["alphabet"]
    lengths = [recipe["name_len"]] * (recipe["count"] - 1) + [recipe["last_name_len"]]
    random = b"".join(key_stream(recipe["chacha20_seed"], sum(lengths)))
    position = 0
    for length in lengths:
        yield "".join(
            alphabet[byte % len(alphabet)] for byte in random[position : position + length]
        )
        position += length


def make_folder(top, contents):
    """Write the files of a folder, by path; None is an empty folder."""
    for name, content in contents.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if content is None else path.write_bytes(content)
    return top


def make_directory(root, vector):
    """Write the directory of a vector below `root`."""
    root.mkdir()
    for entry in vector.get("entries", []):
        path = root / entry["path"]
        if entry.get("dir"):
            path.mkdir(parents=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if "text" in entry:
            path.write_bytes(entry["text"].encode())
        else:
            path.write_bytes(b"".join(stream(entry["seed"], entry["size"])))
    if "generated" in vector:
        recipe = vector["generated"]
        for number, name in enumerate(generated_names(recipe)):
            content = str(number) if recipe["content"] == "str(i)" else recipe["content"]
            (root / name).write_bytes(content.encode())
    return root


def read_archive(pieces):
    """The roots and the blocks of an archive."""
    reader = CarReader()
    blocks = [block for piece in pieces for block in reader.update(piece)]
    reader.finish()
    return reader.roots, blocks


class Blocks(dict):
    """A store of blocks: an importer's `emit`, and what the walks are fed from."""

    @classmethod
    def of_car(cls, name):
        reader = CarReader()
        blocks = cls(reader.update((DATA / name).read_bytes()))
        reader.finish()
        return reader.roots[0], blocks

    @classmethod
    def of_file(cls, data, profile):
        blocks = cls()
        importer = FileImporter(profile, blocks.__setitem__)
        importer.update(data)
        return importer.finish().cid, blocks

    def __missing__(self, cid):
        raise missing_block(cid)

    def read(self, cid, start=0, stop=None, **options):
        return b"".join(self.run(FileWalk(cid, start, stop, **options)))

    def list(self, cid):
        return list(self.run(DirectoryWalk(cid)))

    def find(self, cid, *path):
        walk = PathWalk(cid, path)
        while walk.need is not None:
            walk.feed(self[walk.need])
        return walk.end()

    def prove(self, cid, pieces, asked=None):
        """Yield what is verified of a plain body; note the blocks that are asked for."""
        proof, size = BodyProof(cid), 0
        for piece in chain([b""], pieces):
            verified = list(proof.update(piece))
            while proof.need is not None:
                if asked is not None:
                    asked.append(proof.need)
                verified += proof.feed_block(self[proof.need])
            size += sum(map(len, verified))
            yield from verified
        proof.finish()
        assert proof.size == size

    def archive(self, root):
        """The archive of a DAG, depth first, with every block as often as it is linked to."""
        return write_car([root], self.depth_first(root))

    def depth_first(self, root):
        pending = [root]
        while pending:
            cid = pending.pop()
            yield cid, self[cid]
            pending += (link.cid for link in reversed(links_of(cid, self[cid])))

    def run(self, walk):
        while walk.need is not None:
            yield from walk.feed(self[walk.need])
