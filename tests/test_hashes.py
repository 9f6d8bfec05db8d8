"""The hash functions besides SHA-256: blocks, files, uploads, and the store."""

import hashlib

import pytest

from holdfast import verify
from holdfast.content import varint
from holdfast.content.blocks import check_block
from holdfast.content.car import CarReader, write_car
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.hashes import FUNCTIONS
from holdfast.content.profiles import CANDIDATES, UNIXFS_V1_2025
from holdfast.content.unixfs.layouts import LayoutProof, WriteCheck
from holdfast.errors import InvalidCIDError, MalformedError, UnprovenError, VerificationError
from holdfast.sources.importing import import_content
from tests.content import Blocks

# The codes of the multicodec table, and Python's own functions.
HASHES = {
    "sha2-512": (0x13, lambda data: hashlib.sha512(data).digest()),
    "sha3-512": (0x14, lambda data: hashlib.sha3_512(data).digest()),
    "sha3-384": (0x15, lambda data: hashlib.sha3_384(data).digest()),
    "sha3-256": (0x16, lambda data: hashlib.sha3_256(data).digest()),
    "sha3-224": (0x17, lambda data: hashlib.sha3_224(data).digest()),
    "blake2b-256": (0xB220, lambda data: hashlib.blake2b(data, digest_size=32).digest()),
    "blake2s-256": (0xB260, lambda data: hashlib.blake2s(data, digest_size=32).digest()),
}
in_each_hash = pytest.mark.parametrize(("code", "digest"), HASHES.values(), ids=HASHES)

CONTENT = b"hello"


def raw_bytes(code, digest):
    """The bytes of a CIDv1 of a raw block, made by hand."""
    return b"\x01\x55" + varint.encode(code) + varint.encode(len(digest)) + digest


def test_the_table_has_the_codes_and_lengths_of_the_multicodec_table():
    expected = {name: (code, len(digest(b""))) for name, (code, digest) in HASHES.items()}
    expected["sha2-256"] = (0x12, 32)
    assert {hash_.name: (code, hash_.size) for code, hash_ in FUNCTIONS.items()} == expected


@in_each_hash
def test_a_block_is_verified_by_its_hash_function(code, digest):
    cid = CID.from_bytes(raw_bytes(code, digest(CONTENT)))
    assert CID.parse(str(cid)) == cid
    check_block(cid, CONTENT)
    assert verify(CONTENT, str(cid))
    for wrong in (b"hellO", b"", CONTENT + b"\0"):
        with pytest.raises(VerificationError):
            check_block(cid, wrong)
        with pytest.raises(VerificationError):
            verify(wrong, str(cid))


@in_each_hash
def test_a_digest_that_is_not_of_full_length_is_refused(code, digest):
    whole = digest(CONTENT)
    for cut in (whole[:-1], whole[:20], b"", whole + b"\0"):
        data = raw_bytes(code, cut)
        with pytest.raises(ValueError, match="length"):
            CID.from_bytes(data)
        with pytest.raises(InvalidCIDError):
            verify(CONTENT, str(CID(1, RAW, code, cut)))
        reader = CarReader()
        section = varint.encode(len(data) + 5) + data + CONTENT
        with pytest.raises(MalformedError):
            reader.update(b"".join(write_car([], [])) + section)


@in_each_hash
def test_files_and_directories_are_verified_by_their_blocks_and_their_layout(
    code, digest, tmp_path
):
    content = hashlib.shake_128(b"tree").digest(1_200_000)
    for profile in CANDIDATES:
        cid, blocks = Blocks.of_file(content, profile.with_hash(code))
        assert all(child.digest == digest(block) for child, block in blocks.items())
        assert blocks.read(cid) == content
        proof = LayoutProof(cid)
        proof.update(content)
        proof.finish()
        assert verify(content, str(cid))
    path = tmp_path / "file"
    path.write_bytes(content)
    assert verify(path, str(cid))
    root = import_content(tmp_path, UNIXFS_V1_2025.with_hash(code)).cid
    assert len(root.digest) == len(digest(b""))
    assert verify(tmp_path, str(root))
    with pytest.raises(UnprovenError, match="no known layout"):
        verify(content + b"x", str(cid))


@in_each_hash
def test_an_upload_that_is_stored_under_another_hash_is_checked(code, digest):
    for content in (CONTENT, bytes(1 << 20), b""):
        check = WriteCheck(UNIXFS_V1_2025)
        check.update(content)
        assert check.profile_of(CID(1, RAW, code, digest(content))) is None
        with pytest.raises(VerificationError, match="not what was sent"):
            check.profile_of(CID(1, RAW, code, digest(b"other")))
    large = bytes((2 << 20) + 1)
    check = WriteCheck(UNIXFS_V1_2025)
    check.update(large)
    with pytest.raises(VerificationError):
        check.profile_of(CID(1, RAW, code, digest(large)))


@pytest.mark.parametrize(
    ("code", "size"), [(0x11, 20), (0xD5, 16), (0x1E, 32)], ids=["sha1", "md5", "blake3"]
)
def test_broken_and_unknown_hashes_stay_unproven(code, size):
    refused = CID(1, RAW, code, bytes(size))
    assert not refused.is_provable
    with pytest.raises(UnprovenError, match="hash function"):
        check_block(refused, CONTENT)
    for cid in (refused, CID(1, DAG_PB, code, bytes(size))):
        with pytest.raises(UnprovenError, match="hash function"):
            verify(CONTENT, str(cid))
