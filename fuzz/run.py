"""Feed every decoder mutated inputs: what comes is a value or an error of the typed set.

`make fuzz`, or `python fuzz/run.py [inputs for each target] [seed] [dags]`: the word "dags" leaves
out all but DAGs and archives. The corpus is built from sound values; a finding is printed with its
input and makes the run fail.
"""

import hashlib
import random
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dags
from holdfast.content import dag_pb, multibase, varint
from holdfast.content.car import CarReader, write_car
from holdfast.content.cid import CID, DAG_PB
from holdfast.content.hashes import SHA2_256
from holdfast.content.profiles import PROFILES
from holdfast.content.reference import Reference
from holdfast.content.unixfs import data, hamt
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.directories import build_directory, build_symlink
from holdfast.content.unixfs.files import FileImporter, Part
from holdfast.content.unixfs.walks import DirectoryWalk, FileWalk, PathWalk
from holdfast.errors import ClientError
from holdfast.protocol import json_text
from holdfast.protocol.http import Reply
from holdfast.protocol.status_errors import provider_error

FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "data"
INTERESTING = [b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\xff" * 9 + b"\x01", b"\x80" * 20]
INTERESTING += [varint.encode(1 << shift) for shift in (7, 14, 21, 31, 32, 42, 62)]


def sample_blocks() -> list[bytes]:
    """Sound blocks of every kind."""
    found: list[bytes] = []

    def keep(_: CID, block: bytes) -> None:
        if len(block) < 5000:
            found.append(block)

    for profile in PROFILES.values():
        importer = FileImporter(profile, keep)
        importer.update(b"hello")
        leaf = importer.finish()
        importer = FileImporter(profile, keep)
        importer.update(bytes(3 * profile.chunk_size + 5))
        importer.finish()
        names = [f"name-{number}".encode() for number in range(20)]
        build_directory([(name, leaf) for name in names], profile, keep)
        build_symlink(b"target", profile, keep)
        links = [dag_pb.Link(leaf.cid, name, 5) for name in names]
        hamt.build_shard(links, profile, keep)
    return found


def verified(block: bytes) -> CID:
    return CID(1, DAG_PB, SHA2_256, hashlib.sha256(block).digest())


def walk_file(block: bytes) -> None:
    FileWalk(verified(block)).feed(block)


def walk_directory(block: bytes) -> None:
    DirectoryWalk(verified(block)).feed(block)


def walk_path(block: bytes) -> None:
    PathWalk(verified(block), ["name-1"]).feed(block)


def prove_body(block: bytes) -> None:
    proof = BodyProof(verified(block))
    proof.feed_block(block)
    proof.update(b"hello")
    proof.finish()


def walk_deep(block: bytes) -> None:
    """A sound root over a mutated inner node, so that the walks get past their first block."""
    inner = verified(block)
    for size in (5, 786437, len(block)):
        message = data.file_data(size, [size])
        root_block = dag_pb.encode([dag_pb.Link(inner, b"", len(block))], message)
        walk = FileWalk(verified(root_block))
        walk.feed(root_block)
        proof = BodyProof(verified(root_block))
        proof.feed_block(root_block)
        try:
            walk.feed(block)
        except ClientError:
            proof.update(b"hello" + bytes(min(size, 1 << 20)))
            if proof.need is not None:
                proof.feed_block(block)
            raise


def read_archive(archive: bytes) -> None:
    reader = CarReader()
    half = len(archive) // 2
    for part in (archive[:half], archive[half:]):
        reader.update(part)
    reader.finish()


def in_version_2(archive: bytes) -> bytes:
    sizes = (51).to_bytes(8, "little") + len(archive).to_bytes(8, "little") + bytes(8)
    return bytes.fromhex("0aa16776657273696f6e02") + bytes(16) + sizes + archive + b"an index"


def as_text(function: Callable[[str], Any]) -> Callable[[bytes], Any]:
    return lambda raw: function(raw.decode("utf-8", "surrogateescape"))


def read_error(body: bytes) -> None:
    for kind in ("application/json", "text/plain"):
        provider_error(Reply(400, {"content-type": kind, "retry-after": "x"}, body))


def corpora() -> dict[str, tuple[Callable[[bytes], Any], list[bytes]]]:
    blocks = sample_blocks()
    leaf = Part(CID.of_raw(b"hello"), 5, 5)
    texts = [str(leaf.cid), str(leaf.cid).upper()]
    texts += ["k" + multibase.base36_encode(bytes(leaf.cid))]
    texts += ["z" + multibase.base58_encode(bytes(leaf.cid))]
    texts += ["QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH", "bafkqaaa"]
    references = [f"https://x.example/ipfs/{text}/a%20b?c#d" for text in texts]
    references += [f"https://{texts[0]}.ipfs.dweb.link/a", f"ipfs://{texts[0]}/ü"]
    messages = [dag_pb.decode(block).data for block in blocks if block.startswith((b"\n", b"\x12"))]
    archives = [path.read_bytes()[:4000] for path in sorted(FIXTURES.glob("*.car"))]
    archives += [b"".join(write_car([leaf.cid], [(leaf.cid, b"hello")] * 3))]
    archives += [in_version_2(archive) for archive in archives]
    errors = [b'{"error":{"reason":"R","details":"D"}}', b'{"message":"m"}', b"plain", b"<html>"]
    errors += [b"[" * 50, b'{"a":1e999}', b"\xef\xbb\xbf[1]", b'"\\ud800"']
    return {
        "CID text": (as_text(CID.parse), [text.encode() for text in texts]),
        "CID bytes": (_typed(CID.from_bytes), [bytes(CID.parse(text)) for text in texts]),
        "reference": (as_text(Reference.parse), [text.encode() for text in references]),
        "varint": (_typed(varint.decode), [varint.encode(1 << shift) for shift in range(63)]),
        "dag-pb": (dag_pb.decode, blocks),
        "UnixFS": (data.decode, messages),
        "file walk": (walk_file, blocks),
        "directory walk": (walk_directory, blocks),
        "path walk": (walk_path, blocks),
        "body proof": (prove_body, blocks),
        "deeper walks": (walk_deep, blocks),
        "CAR": (read_archive, archives),
        "JSON": (json_text.from_text, errors),
        "error body": (read_error, errors),
    }


def _typed(function: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """For the two decoders whose typed error is a plain ValueError: nothing under that passes."""

    def call(raw: bytes) -> None:
        try:
            function(raw)
        except ValueError as error:
            if type(error) is not ValueError:
                raise

    return call


def mutated(source: random.Random, corpus: list[bytes]) -> bytes:
    """A sound input, changed in one to four places."""
    out = bytearray(source.choice(corpus))
    for _ in range(source.randint(1, 4)):
        place = source.randint(0, len(out))
        match source.randrange(7):
            case 0 if out:
                out[place % len(out)] ^= 1 << source.randrange(8)
            case 1:
                out[place:place] = source.randbytes(source.randint(1, 8))
            case 2:
                del out[place : place + source.randint(1, 40)]
            case 3:
                out[place : place + source.randint(0, 4)] = source.choice(INTERESTING)
            case 4:
                other = source.choice(corpus)
                start = source.randint(0, len(other))
                out[place:] = other[start:]
            case 5:
                piece = bytes(out[place : place + source.randint(1, 60)])
                out[place:place] = piece * source.randint(1, 4)
            case _:
                del out[place:]
    return bytes(out)


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 17
    findings = dags.run(count, seed)  # first: its memory is measured
    if sys.argv[3:] == ["dags"]:
        return 1 if findings else 0
    slowest = 0.0
    for name, (target, corpus) in corpora().items():
        source = random.Random(f"{seed} {name}")  # noqa: S311 - repeatable on purpose
        refused = 0
        start = time.perf_counter()
        for _ in range(count):
            raw = mutated(source, corpus)
            began = time.perf_counter()
            try:
                target(raw)
            except ClientError:
                refused += 1
            except Exception:  # noqa: BLE001 - the findings
                findings += 1
                print(f"{name}: {raw!r}\n{traceback.format_exc()}")
                if findings > 5:
                    return 1
            slowest = max(slowest, time.perf_counter() - began)
        rate = count / (time.perf_counter() - start)
        print(f"{name:<16} {count:>9,} inputs, {refused:>9,} refused, {rate:>9,.0f}/s")
    print(f"the slowest input took {slowest:.3f} s")
    return 1 if findings or slowest > 5 else 0


if __name__ == "__main__":
    sys.exit(main())
