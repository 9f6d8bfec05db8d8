"""Feed every decoder mutated inputs: what comes is a value or an error of the typed set.

`make fuzz`, or `python fuzz/run.py [inputs for each target] [seed] [targets]`: with names of
targets, such as "dags" for DAGs and archives, only these are run. The corpus is built from sound
values; a finding is printed with its input and makes the run fail.
"""

import hashlib
import io
import random
import re
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import dags
from holdfast.config.secret import Secret
from holdfast.content import dag_cbor, dag_json, dag_pb, multibase, varint
from holdfast.content.age import bech32, whole
from holdfast.content.age.header import MAC_MARK, VERSION_LINE, Header, HeaderReader
from holdfast.content.age.header import _mac as header_mac
from holdfast.content.age.keys import FileKey, Identity, Passphrase, Recipient
from holdfast.content.age.stanzas import encode_base64
from holdfast.content.age.stream import CHUNK_SIZE, ChunkCipher, decrypt_payload, plain_size
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
from holdfast.errors import ClientError, MalformedError, SerializationError
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


def sample_values() -> list[Any]:
    """Values of every kind, with the edges of their forms."""
    link = CID.of_raw(b"hello")
    numbers = [sign * (1 << shift) for shift in (0, 5, 8, 16, 32, 63) for sign in (1, -1)]
    deep: Any = link
    for level in range(100):
        deep = [deep] if level % 2 else {"a": deep}
    return [
        {"image": link, "name": "é", "files": [link, {"none": None, "raw": bytes(30)}]},
        [*numbers, 0.5, -1e300, True, False],
        [link] * 20,
        {f"{number}": [number] for number in range(30)},
        deep,
        "text",
        [[], {}, b"", ""],
    ]


def read_values(
    decode: Callable[[bytes], Any],
    links: Callable[[bytes], list[CID]],
    encode: Callable[[Any], bytes],
) -> Callable[[bytes], None]:
    """Return a target that also compares the value with its links, and with what it is written as.

    Who only looks for links must find the same, and refuse the same.
    """

    def read(raw: bytes) -> None:
        try:
            value = decode(raw)
        except MalformedError:
            links(raw)  # raises it too
            raise AssertionError("links in what is no value") from None
        if links(raw) != [item for item in dag_json.nested(value) if isinstance(item, CID)]:
            raise AssertionError("other links")
        try:
            written = encode(value)
        except SerializationError as error:
            raise AssertionError("it cannot be written again") from error
        if decode(written) != value or (decode is dag_cbor.decode and written != raw):
            raise AssertionError("another value when it is written again")

    return read


def random_bytes(target: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Return a target that also reads noise of the same length, which begins as a container."""

    def read(raw: bytes) -> None:
        source = random.Random(raw)  # noqa: S311 - repeatable on purpose
        with suppress(MalformedError):
            target(bytes([source.randrange(0x80, 0xC0)]) + source.randbytes(len(raw) % 40))
        target(raw)

    return read


def as_text(function: Callable[[str], Any]) -> Callable[[bytes], Any]:
    return lambda raw: function(raw.decode("utf-8", "surrogateescape"))


IDENTITIES = [
    Identity.parse(Secret(bech32.encode(prefix, bytes(range(32))).upper()))
    for prefix in ("age-secret-key-", "age-secret-key-pq-")
]
PASSPHRASE = Passphrase(Secret("x"), work_factor=1)
FILE_KEY = FileKey(bytes(16))


def signed(file_key: FileKey, header: Header) -> bytes:
    """Return the stanzas of a header with the MAC that belongs to this key."""
    body = VERSION_LINE + b"".join(map(bytes, header.stanzas)) + MAC_MARK
    return body + f" {encode_base64(header_mac(file_key, body))}\n".encode()


def read_header(raw: bytes) -> None:
    """Find a header and unwrap its key. One that is sound is written again as it was."""
    reader = HeaderReader()
    for part in (raw[:30], raw[30:]):
        reader.update(part)
    header = reader.finish()
    # A passphrase may take minutes and gigabytes, as its work factor says.
    is_quick = re.search(rb"\d\d\n", header.raw) is None
    file_key = header.unwrap([*IDENTITIES, PASSPHRASE] if is_quick else IDENTITIES)
    if signed(file_key, header) != header.raw:
        raise AssertionError("another header when it is written again")


def read_stanzas(raw: bytes) -> None:
    """Open the stanzas of a header whose MAC is right, as whoever wrote it can make it."""
    reader = HeaderReader()
    reader.update(raw)
    Header.parse(signed(FILE_KEY, reader.finish())).unwrap(IDENTITIES)


def read_payload(raw: bytes) -> None:
    """Decrypt in two pieces; a payload that opens has the size that its length says."""
    half = len(raw) // 2
    pieces = decrypt_payload(FILE_KEY, raw[:half], io.BytesIO(raw[half:]).read, 1)
    content = b"".join(map(bytes, pieces))
    if len(content) != plain_size(len(raw)):
        raise AssertionError("another size")


def encrypted_files() -> tuple[list[bytes], list[bytes]]:
    """Headers and payloads under keys that the targets have."""
    classic, hybrid = (identity.recipient for identity in IDENTITIES)
    recipients = ([classic], [hybrid], [classic] * 5, [PASSPHRASE])
    headers = [Header.make(FILE_KEY, wrappers).raw for wrappers in recipients]
    headers += [headers[0].replace(b"---", b"-> grease x\n\n---"), whole.encrypt(b"x", [classic])]
    cipher = ChunkCipher(FILE_KEY, bytes(16))
    full = cipher.encrypt(0, bytes(CHUNK_SIZE), last=False)
    short = [cipher.encrypt(index, b"x" * size, last=True) for index, size in ((0, 9), (1, 9))]
    empty = cipher.encrypt(0, b"", last=True)
    return headers, [bytes(16) + body for body in (empty, short[0], bytes(full) + short[1])]


def read_error(body: bytes) -> None:
    for kind in ("application/json", "text/plain"):
        provider_error(Reply(400, {"content-type": kind, "retry-after": "x"}, body))


def corpora() -> dict[str, tuple[Callable[[bytes], Any], list[bytes]]]:
    blocks = sample_blocks()
    leaf = Part(CID.of_raw(b"hello"), 5, 5)
    texts = [str(leaf.cid), str(leaf.cid).upper()]
    texts += ["k2cwue9rqdypmt3thjky14z1tk9fi9f0o5w7b3ofitdewlcf87lismqs"]
    texts += ["z" + multibase.base58_encode(bytes(leaf.cid))]
    texts += ["QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH", "bafkqaaa"]
    references = [f"https://x.example/ipfs/{text}/a%20b?c#d" for text in texts]
    references += [f"https://{texts[0]}.ipfs.dweb.link/a", f"ipfs://{texts[0]}/ü"]
    messages = [dag_pb.decode(block).data for block in blocks if block.startswith((b"\n", b"\x12"))]
    archives = [path.read_bytes()[:4000] for path in sorted(FIXTURES.glob("*.car"))]
    archives += [b"".join(write_car([leaf.cid], [(leaf.cid, b"hello")] * 3))]
    archives += [in_version_2(archive) for archive in archives]
    errors = [b'{"error":{"reason":"R","details":"D"}}', b'{"message":"m"}', b"plain", b"<html>"]
    in_cbor = read_values(dag_cbor.decode, dag_cbor.links, dag_cbor.encode)
    in_json = read_values(dag_json.decode, dag_json.links, dag_json.encode)
    plain_cbor = partial(dag_cbor.decode, strict=False)
    plain_json = partial(dag_json.decode, strict=False)
    errors += [b"[" * 50, b'{"a":1e999}', b"\xef\xbb\xbf[1]", b'"\\ud800"']
    headers, payloads = encrypted_files()
    keys = [identity.recipient.text.encode() for identity in IDENTITIES]
    return {
        "CID text": (as_text(CID.parse), [text.encode() for text in texts]),
        "CID bytes": (_typed(CID.from_bytes), [bytes(CID.parse(text)) for text in texts]),
        "reference": (as_text(Reference.parse), [text.encode() for text in references]),
        "varint": (_typed(varint.decode), [varint.encode(1 << shift) for shift in range(63)]),
        "dag-pb": (dag_pb.decode, blocks),
        "UnixFS": (data.decode, messages),
        "dag-cbor": (random_bytes(in_cbor), [dag_cbor.encode(value) for value in sample_values()]),
        "dag-json": (in_json, [dag_json.encode(value) for value in sample_values()]),
        "cbor": (plain_cbor, [dag_cbor.encode(value) for value in sample_values()]),
        "json": (plain_json, [dag_json.encode(value) for value in sample_values()]),
        "file walk": (walk_file, blocks),
        "directory walk": (walk_directory, blocks),
        "path walk": (walk_path, blocks),
        "body proof": (prove_body, blocks),
        "deeper walks": (walk_deep, blocks),
        "CAR": (read_archive, archives),
        "age recipient": (as_text(Recipient.parse), keys),
        "age header": (read_header, headers),
        "age stanzas": (read_stanzas, headers),
        "age payload": (read_payload, payloads),
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
    only = sys.argv[3:]
    findings = 0
    if not only or "dags" in only:
        findings = dags.run(count, seed)  # first: its memory is measured
    slowest = 0.0
    idle = dags.peak_memory()
    for name, (target, corpus) in corpora().items():
        if only and name not in only:
            continue
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
    grown = dags.peak_memory() - idle
    print(f"the slowest input took {slowest:.3f} s; {grown >> 20} MiB above the DAGs")
    return 1 if findings or slowest > 5 or grown > dags.MAX_MEMORY else 0


if __name__ == "__main__":
    sys.exit(main())
