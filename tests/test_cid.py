"""CIDs: their text, what people hand in as one, their hash functions, and those of others."""

import copy
import hashlib
import pickle
import sys

import pytest
from blake3 import blake3
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast import compute_cid, verify
from holdfast.content import multibase, varint
from holdfast.content.blocks import check_block
from holdfast.content.car import CarReader, write_car
from holdfast.content.cid import CID, DAG_PB, IDENTITY, RAW, SHA2_256
from holdfast.content.hashes import FUNCTIONS, has_wrong_length
from holdfast.content.profiles import CANDIDATES, PROFILES, UNIXFS_V1_2025
from holdfast.content.reference import Reference
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import FileImporter
from holdfast.content.unixfs.layouts import LayoutProof, WriteCheck
from holdfast.errors import InvalidCIDError, MalformedError, UnprovenError, VerificationError
from holdfast.sources.importing import import_content
from tests.content import (
    VECTORS,
    Blocks,
    file_pieces,
    json_text,
    key_stream,
    kubo_names,
    make_directory,
)
from tests.support import EMPTY_FILE_V0, HELLO_CID, closed_port_url, script_output

DIGEST = bytes(range(32))


def base32(data):
    return "b" + multibase.base32_encode(data)


@pytest.mark.parametrize(
    ("text", "version", "codec"),
    [
        (HELLO_CID, 1, RAW),
        (HELLO_CID.upper(), 1, RAW),
        (EMPTY_FILE_V0, 0, DAG_PB),
        ("k2cwue9rqdypmt3thjky14z1tk9fi9f0o5w7b3ofitdewlcf87lismqs", 1, RAW),  # by Kubo
        ("z" + multibase.base58_encode(bytes(CID.parse(HELLO_CID))), 1, RAW),
        # From the multiformats documentation.
        ("zb2rhe5P4gXftAwvA4eXQ5HJwsER2owDyS9sKaQRRVQPn93bA", 1, RAW),
        ("bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy", 1, RAW),
        ("QmPZ9gcCEpqKTo6aq61g2nXGUhM4iCL3ewB6LDXZCtioEB", 0, DAG_PB),
        ("bafkqaaa", 1, RAW),
        ("bafyreibml6ydflzo2mqzzw7dkfspzjckkzyhhzvhaogd6dxu5zv6ez62qi", 1, 0x71),
    ],
)
def test_a_cid_is_parsed(text, version, codec):
    cid = CID.parse(text)
    assert (cid.version, cid.codec) == (version, codec)
    assert CID.parse(str(cid)) == cid


def test_cids_are_equal_by_content_whatever_their_version_and_text():
    assert str(CID.of_raw(b"hello")) == HELLO_CID
    assert CID.parse("bafkqaaa") == CID(1, RAW, IDENTITY, b"")
    v0 = CID.parse(EMPTY_FILE_V0)
    v1 = CID(1, DAG_PB, v0.hash_code, v0.digest)
    assert v0 == v1
    assert hash(v0) == hash(v1)
    assert str(v0) != str(v1)
    assert v1 != CID(1, RAW, v0.hash_code, v0.digest)
    assert v0 != EMPTY_FILE_V0


GOOD = bytes([1, RAW, SHA2_256, 32]) + DIGEST
GOOD_IN_BASE36 = "2cwue8neohefhdm7vw6u7qwydn6hwn3b8wqnce3rh682a1f61k011jz"  # by Kubo, without "k"

BAD = {
    "empty": "",
    "prefix only": "b",
    "unknown base": "f" + GOOD.hex(),
    "v0 with a wrong character": EMPTY_FILE_V0[:-1] + "0",
    "v0 too short": EMPTY_FILE_V0[:-1],
    "v0 of another hash": multibase.base58_encode(bytes([0x11, 32]) + DIGEST),
    "v0 in multibase": "z" + EMPTY_FILE_V0,
    "v0 bytes in base32": base32(bytes([0x12, 0x20]) + DIGEST),
    "trailing byte": base32(GOOD + b"\0"),
    "byte missing": base32(GOOD[:-1]),
    "version 2": base32(b"\x02" + GOOD[1:]),
    "version 0": base32(b"\0" + GOOD[1:]),
    "long varint for the version": base32(b"\x81\0" + GOOD[1:]),
    "long varint for the length": base32(GOOD[:3] + b"\xa0\0" + DIGEST),
    "varint that never ends": base32(b"\x01" + b"\xff" * 30),
    "sha2-256 of 31 bytes": base32(bytes([1, RAW, SHA2_256, 31]) + DIGEST[:31]),
    "digest of 129 bytes": base32(b"\x01\x55\x00\x81\x01" + bytes(129)),
    "padding": HELLO_CID + "=",
    "mixed case": HELLO_CID[:-1] + HELLO_CID[-1].upper(),
    "upper-case prefix": "B" + HELLO_CID[1:],
    "lower-case prefix": "b" + HELLO_CID[1:].upper(),
    "left-over bits": "bafkqaab",
    "impossible length": "bafkqaa",
    "space inside": "bafkq aaa",
    "sign": "k+" + GOOD_IN_BASE36[1:],
    "base36 upper case": "k" + GOOD_IN_BASE36.upper(),
    "base58 zero": "z0" + multibase.base58_encode(GOOD),
    "long s": HELLO_CID.replace("s", "\N{LATIN SMALL LETTER LONG S}", 1)
    + "\N{LATIN SMALL LETTER LONG S}",
    "full-width digits": "bafkqa\N{FULLWIDTH DIGIT TWO}aa",
    "too long": "b" + "a" * 300,
    "much too long": "z" + "1" * 1_000_000,
    "newline": HELLO_CID + "\n",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_what_is_not_a_cid_is_refused(text):
    with pytest.raises(InvalidCIDError) as caught:
        CID.parse(text)
    assert str(caught.value) == "Invalid CID"
    assert caught.value.reason


@given(
    st.text(max_size=300)
    | st.from_regex("[bBkzQ][a-z2-7ABCQm189]{0,100}", fullmatch=True)  # near misses
)
def test_any_text_is_a_cid_or_the_typed_error(text):
    try:
        cid = CID.parse(text)
    except InvalidCIDError:
        return
    assert CID.parse(str(cid)) == cid


@given(st.binary(min_size=1, max_size=64))
def test_bases_round_trip(data):
    assert multibase.base32_decode(multibase.base32_encode(data)) == data
    assert multibase.base36_decode(in_base36(data)) == data
    assert multibase.base58_decode(multibase.base58_encode(data)) == data


def in_base36(data):
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 36)
        text = multibase.BASE36[digit] + text
    return "0" * (len(data) - len(data.lstrip(b"\0"))) + text


@given(st.integers(0, 2**63 - 1))
def test_varints_round_trip(number):
    data = varint.encode(number)
    assert varint.decode(data) == (number, len(data))
    assert varint.decode(b"x" + data + b"y", 1) == (number, len(data) + 1)


@given(
    st.sampled_from([0, 1]),
    st.integers(0, 2**40),
    st.integers(0, 2**40),
    st.binary(max_size=128),
)
def test_cids_round_trip(version, codec, hash_code, digest):
    if version == 0:
        cid = CID(0, DAG_PB, SHA2_256, (digest + bytes(32))[:32])
    elif hash_code == SHA2_256:
        cid = CID(1, codec, SHA2_256, (digest + bytes(32))[:32])
    else:
        assume(not has_wrong_length(hash_code, len(digest)))
        cid = CID(1, codec, hash_code, digest)
    assert CID.parse(str(cid)) == cid


@pytest.mark.parametrize(
    ("text", "path"),
    [
        *((text, ()) for text in ("CID", "  CID\n", "CID/", "CID?x=1", "/ipfs/CID", "ipfs://CID")),
        *((f"https://ipfs.io/ipfs/CID{end}", ()) for end in ("", "///", "?a=true&x=/y", "/#top")),
        *((f"https://CID.ipfs.dweb.link{end}", ()) for end in ("", "/", "/?x=/ipfs/OTHER")),
        ("ipfs://ipfs/CID/", ()),
        ("CID?x=/ipfs/OTHER", ()),
        ("https://x.example/ipfs/CID#/ipfs/OTHER", ()),
        ("CID/a/b.json", ("a", "b.json")),
        ("/ipfs/CID/a%20b/", ("a b",)),
        ("https://CID.ipfs.dweb.link/a/b?c=d#e", ("a", "b")),
        ("IPFS://CID/%C3%BC", ("ü",)),
        ("http://127.0.0.1:8080/ipfs/CID/100%.txt", ("100%.txt",)),
        ("CID/a%3Fb%23c", ("a?b#c",)),
        ("CID/..a", ("..a",)),
        ("CID/a\u3000b\u00a0c", ("a\u3000b\u00a0c",)),
        ("CID/\U0001f469\u200d\U0001f4bb.png", ("\U0001f469\u200d\U0001f4bb.png",)),
        ("CID/a\\b", ("a\\b",)),
    ],
)
def test_references_are_read(text, path):
    reference = Reference.parse(text.replace("CID", HELLO_CID).replace("OTHER", EMPTY_FILE_V0))
    assert (reference.text, reference.path) == (HELLO_CID, path)
    assert Reference.parse(str(reference)) == reference


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "/ipfs/", "https://ipfs.io/ipfs/", "?x", "not-a-cid", "../../etc/passwd"),
        *(f"{HELLO_CID}x", HELLO_CID[:-1], f"{HELLO_CID}/a\r\nHost: evil", f"{HELLO_CID} HTTP/1.1"),
        "https://ipfs.io/ipfs/../api",
        *(f"/ipfs/{HELLO_CID}/{path}" for path in ("../x", "%2e%2e/x", "a%2Fb", "/a")),
        *(5, None, b"bytes", "b" * 10_000_000),
    ],
    ids=lambda text: repr(text)[:40],
)
def test_what_is_no_reference_is_an_invalid_cid(text):
    with pytest.raises(InvalidCIDError, match=r"^Invalid CID\n"):
        Reference.parse(text)


def test_a_reference_is_its_own_text_and_is_not_parsed_again():
    reference = Reference.parse(f"ipfs://{HELLO_CID}/a b")
    assert isinstance(reference, str)
    assert reference == f"{HELLO_CID}/a%20b"
    assert Reference.parse(reference) is reference
    for copied in (pickle.loads(pickle.dumps(reference)), copy.deepcopy(reference)):  # noqa: S301
        assert (copied, type(copied)) == (str(reference), str)


@pytest.mark.parametrize(
    "wrong", ["0", "1", "8", "9", "A", "_", "+", "-", " ", "\n", "\0", "é", "٣"]
)
def test_base32_has_its_own_characters_only(wrong):
    for text in (wrong, f"aa{wrong}aaaaa", f"{wrong}aaaaaaa", f"aaaaaaa{wrong}"):
        with pytest.raises(ValueError, match=r"^not base32$"):
            multibase.base32_decode(text)
    assert multibase.base32_decode("aaaaaaaa") == bytes(5)


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_reference_can_shape_a_request(before, after):
    try:
        reference = Reference.parse(f"{before}{HELLO_CID}{after}")
    except InvalidCIDError:
        return
    text = str(reference)
    assert text.isascii()
    assert text.isprintable()
    assert not set(text) & set(" ?#\\\r\n")
    assert not {"", ".", ".."} & set(text.split("/"))


# The hash functions besides SHA-256: blocks, files, and uploads

# The codes of the multicodec table, and Python's own functions.
HASHES = {
    "sha2-512": (0x13, lambda data: hashlib.sha512(data).digest()),
    "sha3-512": (0x14, lambda data: hashlib.sha3_512(data).digest()),
    "sha3-384": (0x15, lambda data: hashlib.sha3_384(data).digest()),
    "sha3-256": (0x16, lambda data: hashlib.sha3_256(data).digest()),
    "sha3-224": (0x17, lambda data: hashlib.sha3_224(data).digest()),
    "blake2b-256": (0xB220, lambda data: hashlib.blake2b(data, digest_size=32).digest()),
    "blake2s-256": (0xB260, lambda data: hashlib.blake2s(data, digest_size=32).digest()),
    "blake3": (0x1E, lambda data: blake3(data).digest()),
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


WITHOUT_BLAKE3 = """
import json, sys
sys.modules["blake3"] = None  # as if it were not installed
from holdfast import Client, errors, verify
cid, url = sys.argv[1:]
store = Client.init(path="store")
reader = Client.init(provider="gateway", gateway_url=url)
archive = open("x.car", "rb").read()
words = []
for call in (
    lambda: verify(b"hello", cid),
    lambda: reader.download(cid),
    lambda: store.provider.repository.import_car([archive]),
):
    try:
        call()
    except errors.UnprovenError as error:
        words.append(str(error))
print(json.dumps(words))
"""


def test_without_the_package_the_error_names_the_extra_for_blake3(tmp_path):
    cid = CID(1, RAW, 0x1E, blake3(CONTENT).digest())
    (tmp_path / "x.car").write_bytes(b"".join(write_car([cid], [(cid, CONTENT)])))
    command = (sys.executable, "-c", WITHOUT_BLAKE3, str(cid), f"{closed_port_url()}/ipfs")
    words = script_output(*command, cwd=tmp_path)
    assert len(words) == 3
    assert all("extra blake3: pip install 'holdfast[blake3]'" in text for text in words)


@pytest.mark.parametrize(("code", "size"), [(0x11, 20), (0xD5, 16)], ids=["sha1", "md5"])
def test_broken_and_unknown_hashes_stay_unproven(code, size):
    refused = CID(1, RAW, code, bytes(size))
    assert not refused.is_provable
    with pytest.raises(UnprovenError, match="hash function"):
        check_block(refused, CONTENT)
    for cid in (refused, CID(1, DAG_PB, code, bytes(size))):
        with pytest.raises(UnprovenError, match="hash function"):
            verify(CONTENT, str(cid))


LARGE = 40_000_000  # bytes: a file that needs two levels of nodes is larger


def list_cases(kind):
    """Each vector; the largest ones only in the slow run."""
    cases = []
    for vector in VECTORS[kind]:
        name = vector.get("name") or vector["cid"]
        is_slow = vector.get("size", 0) > LARGE or name.startswith(("generated-", "threshold-"))
        marks = [pytest.mark.slow, pytest.mark.timeout(600)] if is_slow else []
        cases.append(pytest.param(vector, id=name, marks=marks))
    return cases


@pytest.mark.parametrize("vector", list_cases("files"))
def test_files(vector, tmp_path):
    """In memory and on disk, in each of the profiles of the vector."""
    importers = {profile: FileImporter(PROFILES[profile]) for profile in vector["cids"]}
    path = tmp_path / "file"
    with path.open("wb") as file:
        for piece in file_pieces(vector):
            file.write(piece)
            for importer in importers.values():
                importer.update(piece)
    for profile, importer in importers.items():
        part = importer.finish()
        assert str(part.cid) == vector["cids"][profile], profile
        assert part.size == vector["size"]
        assert part.dag_size == vector["tsizes"][profile]
        for threads in (1, 3):
            part = import_content(path, PROFILES[profile], threads=threads)
            assert str(part.cid) == vector["cids"][profile], profile
            assert part.dag_size == vector["tsizes"][profile]
        assert compute_cid(path, profile=profile) == vector["cids"][profile]


@pytest.mark.parametrize("vector", list_cases("json"))
def test_json_texts(vector):
    text = json_text(vector)
    assert len(text) == vector["size"]
    for profile, cid in vector["cids"].items():
        assert compute_cid(text, profile=profile) == cid
        assert verify(text, cid)


@pytest.mark.parametrize("vector", list_cases("directories"))
def test_directories(vector, tmp_path):
    root = make_directory(tmp_path / "root", vector)
    parts = {profile: import_content(root, PROFILES[profile]) for profile in vector["cids"]}
    assert {profile: str(part.cid) for profile, part in parts.items()} == vector["cids"]
    assert {profile: part.dag_size for profile, part in parts.items()} == vector["tsizes"]
    profile = next(iter(parts))
    assert compute_cid(str(root), profile=profile) == vector["cids"][profile]


@pytest.mark.parametrize("vector", list_cases("kubo_published"))
def test_cids_that_kubo_published(vector):
    profile = PROFILES[vector["profile"]]
    if recipe := vector.get("directory"):
        leaf = import_content(recipe["content"].encode(), profile)
        part = build_directory(((name.encode(), leaf) for name in kubo_names(recipe)), profile)
    else:
        part = import_content(key_stream(vector["chacha20_seed"], vector["size"]), profile)
    assert str(part.cid) == vector["cid"]


def test_published_by_the_pinning_service():
    assert compute_cid(b"hello world!") == (
        "bafkreidvbhs33ighmljlvr7zbv2ywwzcmp5adtf4kqvlly67cy56bdtmve"
    )
    document = b'{"version":"0.7.0","appCode":"CowSwap","metadata":{}}'
    assert compute_cid(document, profile="unixfs-v0-2015") == (
        "QmUbsYUqP4DXDvXDipKDG6hKhKnb6dADMeBiHHYJiizr25"
    )
