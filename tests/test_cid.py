"""CID text: what is a CID, what is not, and what people hand in as one."""

import copy
import pickle

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.content import multibase, varint
from holdfast.content.cid import CID, DAG_PB, IDENTITY, RAW, SHA2_256
from holdfast.content.hashes import has_wrong_length
from holdfast.content.reference import Reference
from holdfast.errors import InvalidCIDError
from tests.support import EMPTY_FILE_V0, HELLO_CID

DIGEST = bytes(range(32))


def base32(data):
    return "b" + multibase.base32_encode(data)


@pytest.mark.parametrize(
    ("text", "version", "codec"),
    [
        (HELLO_CID, 1, RAW),
        (HELLO_CID.upper(), 1, RAW),
        (EMPTY_FILE_V0, 0, DAG_PB),
        ("k" + multibase.base36_encode(bytes(CID.parse(HELLO_CID))), 1, RAW),
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


def test_known_text_forms_of_one_cid():
    cid = CID.of_raw(b"hello")
    assert str(cid) == HELLO_CID
    assert bytes(cid).hex().startswith("01551220")
    assert CID.parse("bafkqaaa") == CID(1, RAW, IDENTITY, b"")


def test_cids_are_equal_by_content_whatever_their_version_and_text():
    v0 = CID.parse(EMPTY_FILE_V0)
    v1 = CID(1, DAG_PB, v0.hash_code, v0.digest)
    assert v0 == v1
    assert hash(v0) == hash(v1)
    assert str(v0) != str(v1)
    assert v1 != CID(1, RAW, v0.hash_code, v0.digest)
    assert v0 != EMPTY_FILE_V0


GOOD = bytes([1, RAW, SHA2_256, 32]) + DIGEST

BAD = {
    "empty": "",
    "prefix only": "b",
    "unknown base": "f" + GOOD.hex(),
    "v0 with a wrong character": EMPTY_FILE_V0[:-1] + "0",
    "v0 too short": EMPTY_FILE_V0[:-1],
    "v0 too long": EMPTY_FILE_V0 + "1",
    "v0 of another hash": multibase.base58_encode(bytes([0x11, 32]) + DIGEST),
    "v0 in multibase": "z" + EMPTY_FILE_V0,
    "v0 bytes in base32": base32(bytes([0x12, 0x20]) + DIGEST),
    "trailing byte": base32(GOOD + b"\0"),
    "byte missing": base32(GOOD[:-1]),
    "version 2": base32(b"\x02" + GOOD[1:]),
    "version 0": base32(b"\0" + GOOD[1:]),
    "long varint for the version": base32(b"\x81\0" + GOOD[1:]),
    "long varint for the codec": base32(b"\x01\xd5\0" + GOOD[2:]),
    "long varint for the length": base32(GOOD[:3] + b"\xa0\0" + DIGEST),
    "varint of ten bytes": base32(b"\x01" + b"\xff" * 9 + b"\x01" + GOOD[2:]),
    "varint that never ends": base32(b"\x01" + b"\xff" * 30),
    "sha2-256 of 31 bytes": base32(bytes([1, RAW, SHA2_256, 31]) + DIGEST[:31]),
    "sha2-256 of 0 bytes": base32(bytes([1, RAW, SHA2_256, 0])),
    "digest of 129 bytes": base32(b"\x01\x55\x00\x81\x01" + bytes(129)),
    "only a version": base32(b"\x01"),
    "padding": HELLO_CID + "=",
    "mixed case": HELLO_CID[:-1] + HELLO_CID[-1].upper(),
    "upper-case prefix": "B" + HELLO_CID[1:],
    "lower-case prefix": "b" + HELLO_CID[1:].upper(),
    "left-over bits": "bafkqaab",
    "impossible length": "bafkqaa",
    "underscore": "bafkq_aaa"[:8],
    "space inside": "bafkq aaa",
    "sign": "k+" + multibase.base36_encode(GOOD)[1:],
    "base36 upper case": "k" + multibase.base36_encode(GOOD).upper(),
    "base58 zero": "z0" + multibase.base58_encode(GOOD),
    "base58 leading one": "z1" + multibase.base58_encode(GOOD),
    "long s": HELLO_CID.replace("s", "\N{LATIN SMALL LETTER LONG S}", 1)
    + "\N{LATIN SMALL LETTER LONG S}",
    "full-width digits": "bafkqa\N{FULLWIDTH DIGIT TWO}aa",
    "arabic digits": "k" + "\N{ARABIC-INDIC DIGIT ONE}" * 20,
    "too long": "b" + "a" * 300,
    "much too long": "z" + "1" * 1_000_000,
    "newline": HELLO_CID + "\n",
    "NUL": HELLO_CID + "\0",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_what_is_not_a_cid_is_refused(text):
    with pytest.raises(InvalidCIDError) as caught:
        CID.parse(text)
    assert str(caught.value) == "Invalid CID"
    assert caught.value.reason


@given(st.text(max_size=300))
def test_any_text_is_a_cid_or_the_typed_error(text):
    try:
        cid = CID.parse(text)
    except InvalidCIDError:
        return
    assert CID.parse(str(cid)) == cid


@given(st.sampled_from("bBkzQ"), st.text("abcdefghijklmnopqrstuvwxyz234567ABCQm189", max_size=100))
def test_any_near_miss_is_a_cid_or_the_typed_error(prefix, text):
    try:
        CID.parse(prefix + text)
    except InvalidCIDError:
        return


@given(st.binary(min_size=1, max_size=64))
def test_bases_round_trip(data):
    assert multibase.base32_decode(multibase.base32_encode(data)) == data
    assert multibase.base36_decode(multibase.base36_encode(data)) == data
    assert multibase.base58_decode(multibase.base58_encode(data)) == data


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
    ("given", "cid", "path"),
    [
        (f"{HELLO_CID}/a/b.json", HELLO_CID, ("a", "b.json")),
        (f"/ipfs/{HELLO_CID}/a%20b/", HELLO_CID, ("a b",)),
        (f"https://{HELLO_CID}.ipfs.dweb.link/a/b?c=d#e", HELLO_CID, ("a", "b")),
        (f"ipfs://{HELLO_CID}/ü", HELLO_CID, ("ü",)),
        (f"IPFS://{HELLO_CID}/%C3%BC", HELLO_CID, ("ü",)),
        (f"ipfs://ipfs/{HELLO_CID}", HELLO_CID, ()),
        (f"http://127.0.0.1:8080/ipfs/{EMPTY_FILE_V0}/100%.txt", EMPTY_FILE_V0, ("100%.txt",)),
        (f"{HELLO_CID}/a%3Fb%23c", HELLO_CID, ("a?b#c",)),
        (f"{HELLO_CID}/..a", HELLO_CID, ("..a",)),
        (f"{HELLO_CID}/a\u3000b\u00a0c", HELLO_CID, ("a\u3000b\u00a0c",)),
        (
            f"{HELLO_CID}/\U0001f469\u200d\U0001f4bb.png",
            HELLO_CID,
            ("\U0001f469\u200d\U0001f4bb.png",),
        ),
        (f"{HELLO_CID}?x=/ipfs/{EMPTY_FILE_V0}", HELLO_CID, ()),
        (f"https://{HELLO_CID}.ipfs.dweb.link/?x=/ipfs/{EMPTY_FILE_V0}", HELLO_CID, ()),
        (f"https://x.example/ipfs/{HELLO_CID}#/ipfs/{EMPTY_FILE_V0}", HELLO_CID, ()),
        (f"{HELLO_CID}/a\\b", HELLO_CID, ("a\\b",)),
        (f"{HELLO_CID}", HELLO_CID, ()),
        (f"  {HELLO_CID}\n", HELLO_CID, ()),
        (f"/ipfs/{HELLO_CID}", HELLO_CID, ()),
        (f"https://ipfs.io/ipfs/{HELLO_CID}", HELLO_CID, ()),
        (f"https://ipfs.io/ipfs/{HELLO_CID}/", HELLO_CID, ()),
        (f"https://ipfs.io/ipfs/{HELLO_CID}///", HELLO_CID, ()),
        (f"https://ipfs.io/ipfs/{HELLO_CID}?download=true&x=/y", HELLO_CID, ()),
        (f"https://ipfs.io/ipfs/{HELLO_CID}/?download=true", HELLO_CID, ()),
        (f"https://ipfs.io/ipfs/{HELLO_CID}#top", HELLO_CID, ()),
        (f"{HELLO_CID}?x=1", HELLO_CID, ()),
        (f"{HELLO_CID}/", HELLO_CID, ()),
        (f"ipfs://{HELLO_CID}", HELLO_CID, ()),
        (f"ipfs://{HELLO_CID}/", HELLO_CID, ()),
        (f"https://{HELLO_CID}.ipfs.dweb.link/", HELLO_CID, ()),
        (f"https://{HELLO_CID}.ipfs.dweb.link", HELLO_CID, ()),
        (f"https://gw.example/ipfs/{HELLO_CID}?next=/ipfs/other", HELLO_CID, ()),
    ],
)
def test_references_are_read(given, cid, path):
    reference = Reference.parse(given)
    assert (reference.text, reference.path) == (cid, path)
    assert Reference.parse(str(reference)) == reference


@pytest.mark.parametrize(
    "given",
    [
        "",
        "  ",
        "/ipfs/",
        "https://ipfs.io/ipfs/",
        "?x",
        "not-a-cid",
        "../../etc/passwd",
        f"{HELLO_CID}x",
        HELLO_CID[:-1],
        "https://ipfs.io/ipfs/../api",
        f"https://ipfs.io/ipfs/{HELLO_CID}/../x",
        f"https://ipfs.io/ipfs/{HELLO_CID}/%2e%2e/x",
        f"https://ipfs.io/ipfs/{HELLO_CID}/a%2Fb",
        f"https://ipfs.io/ipfs/{HELLO_CID}//a",
        f"{HELLO_CID}/a\r\nHost: evil",
        f"{HELLO_CID} HTTP/1.1",
        5,
        None,
        b"bytes",
        "b" * 10_000_000,
    ],
    ids=lambda given: repr(given)[:40],
)
def test_what_is_no_reference_is_an_invalid_cid(given):
    with pytest.raises(InvalidCIDError, match=r"^Invalid CID$"):
        Reference.parse(given)


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
