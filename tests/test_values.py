"""Values of dag-cbor, dag-json, cbor and json: strict forms, limits, links, and other readers."""

import json
import math
import random
import struct
import tracemalloc

import dag_cbor as oracle
import multiformats
import pytest
from dag_cbor.decoding.err import CBORDecodingError

from holdfast.content import dag_cbor, dag_json
from holdfast.content.cid import CBOR, CID, DAG_CBOR, DAG_JSON, DAG_PB, JSON, RAW
from holdfast.content.codecs import CODECS, links_of, read_value
from holdfast.content.hashes import IDENTITY
from holdfast.errors import MalformedError, NotFoundError, SerializationError

LEAF = CID.of_raw(b"hello")
OLD = CID(0, DAG_PB, LEAF.hash_code, LEAF.digest)
LINK = "d82a582500" + bytes(LEAF).hex()
TEXT = str(LEAF)


# dag-cbor: each value has one form


SOUND = {
    "0": ("00", 0),
    "23": ("17", 23),
    "24": ("1818", 24),
    "255": ("18ff", 255),
    "256": ("190100", 256),
    "65536": ("1a00010000", 65536),
    "2**32": ("1b0000000100000000", 1 << 32),
    "2**64 - 1": ("1bffffffffffffffff", (1 << 64) - 1),
    "-1": ("20", -1),
    "-2**64": ("3bffffffffffffffff", -(1 << 64)),
    "float": ("fb3ff8000000000000", 1.5),
    "false": ("f4", False),
    "true": ("f5", True),
    "null": ("f6", None),
    "bytes": ("4161", b"a"),
    "text": ("62c3a9", "é"),
    "list": ("83018002", [1, [], 2]),
    "keys by length, then bytes": ("a361610161620262616103", {"a": 1, "b": 2, "aa": 3}),
    "link": (LINK, LEAF),
    "link of version 0": ("d82a582300" + bytes(OLD).hex(), OLD),
}


@pytest.mark.parametrize(("form", "value"), SOUND.values(), ids=SOUND)
def test_a_value_has_one_form(form, value):
    assert dag_cbor.decode(bytes.fromhex(form)) == value
    assert dag_cbor.encode(value).hex() == form


BROKEN = {
    "empty": ("", "ends before"),
    "cut integer": ("19ff", "ends before"),
    "cut text": ("6261", "ends before"),
    "cut list": ("8201", "ends before"),
    "map without a value": ("a16161", "ends before"),
    "two values": ("0000", "follow"),
    "long 23": ("1817", "shortest"),
    "long 255": ("1900ff", "shortest"),
    "long 65535": ("1a0000ffff", "shortest"),
    "long 2**32 - 1": ("1b00000000ffffffff", "shortest"),
    "long negative": ("3817", "shortest"),
    "long length of bytes": ("5800", "shortest"),
    "long length of a text": ("7800", "shortest"),
    "long length of a list": ("9800", "shortest"),
    "long length of a map": ("b800", "shortest"),
    "long tag": ("d9002a" + LINK[4:], "shortest"),
    "bytes of unknown length": ("5f4161ff", "unknown length"),
    "text of unknown length": ("7f6161ff", "unknown length"),
    "list of unknown length": ("9fff", "unknown length"),
    "map of unknown length": ("bfff", "unknown length"),
    "reserved form": ("1c", "reserved"),
    "float of 16 bits": ("f93e00", "form 25"),
    "float of 32 bits": ("fa3fc00000", "form 26"),
    "NaN": ("fb7ff8000000000000", "not a number"),
    "another NaN": ("fb7ff0000000000001", "not a number"),
    "Infinity": ("fb7ff0000000000000", "infinite"),
    "-Infinity": ("fbfff0000000000000", "infinite"),
    "undefined": ("f7", "form 23"),
    "simple value": ("e0", "form 0"),
    "simple value in a byte": ("f8ff", "form 24"),
    "break": ("ff", "form 31"),
    "text that is not UTF-8": ("61ff", "UTF-8"),
    "surrogate": ("63eda080", "UTF-8"),
    "key that is a number": ("a10102", "not text"),
    "key that is bytes": ("a1416102", "not text"),
    "key that is not UTF-8": ("a161ff02", "UTF-8"),
    "key twice": ("a2616101616102", "not unique"),
    "keys in another order": ("a2616201616102", "in order"),
    "longer key first": ("a262616101616202", "in order"),
    "tag of a time": ("c000", "tag 0"),
    "tag of a large integer": ("c249010000000000000000", "tag 2"),
    "tag 43": ("d82b4100", "tag 43"),
    "link over a number": ("d82a00", "link is not a CID"),
    "link over a text": ("d82a" + "6100", "link is not a CID"),
    "link without the zero": ("d82a5824" + bytes(LEAF).hex(), "zero byte"),
    "link without a CID": ("d82a4100", "wrong"),
    "link with bytes after it": ("d82a582600" + bytes(LEAF).hex() + "00", "follow"),
    "list of more items than bytes": ("9b7fffffffffffffff00", "ends before"),
    "map of more entries than bytes": ("bb7fffffffffffffff00", "ends before"),
    "text of more bytes than there are": ("7b7fffffffffffffff00", "ends before"),
}


@pytest.mark.parametrize(("form", "words"), BROKEN.values(), ids=BROKEN)
def test_every_other_form_is_malformed(form, words):
    """Also inside a list: for the one who only looks for links, and for the other reader."""
    for block in (bytes.fromhex(form), bytes.fromhex("81" + form)):
        for read in (dag_cbor.decode, dag_cbor.links):
            with pytest.raises(MalformedError, match=words):
                read(block)
        with pytest.raises((CBORDecodingError, ValueError, KeyError)):
            oracle.decode(block)


PLAIN = {
    "long integer": ("1817", 23),
    "long text": ("780161", "a"),
    "float of 16 bits": ("f93e00", 1.5),
    "float of 32 bits": ("fa3fc00000", 1.5),
    "keys in another order": ("a2616201616102", {"b": 1, "a": 2}),
}


@pytest.mark.parametrize(("form", "value"), PLAIN.values(), ids=PLAIN)
def test_plain_cbor_has_more_forms(form, value):
    cid = CID(1, CBOR, IDENTITY, bytes.fromhex(form))
    assert read_value(cid, cid.digest) == value


@pytest.mark.parametrize("form", [LINK, "c000", "a2616101616102", "9fff", "f97e00", "f7", "a10102"])
def test_plain_cbor_has_no_tags_and_no_undefined_forms(form):
    with pytest.raises(MalformedError):
        dag_cbor.decode(bytes.fromhex(form), strict=False)


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, 1 << 64, -(1 << 64) - 1, "\ud800", {"\ud800": 1}, {1: 2}, {1}, ...],
    ids=repr,
)
@pytest.mark.parametrize("codec", [dag_cbor, dag_json], ids=["dag-cbor", "dag-json"])
def test_what_has_no_form_is_not_written(codec, value):
    for nested in (value, [value], {"a": value}):
        with pytest.raises(SerializationError):
            codec.encode(nested)


# dag-json


SOUND_JSON = {
    "white space and any order": (b' { "b" : 1,\n"a" :\t2 } ', {"b": 1, "a": 2}),
    "link": (f'{{"/":"{TEXT}"}}'.encode(), LEAF),
    "link of version 0": (f'[{{"/":"{OLD}"}}]'.encode(), [OLD]),
    "bytes": (b'{"/":{"bytes":"aGk"}}', b"hi"),
    "bytes with padding": (b'{"/":{"bytes":"aGk="}}', b"hi"),
    "no bytes": (b'{"/":{"bytes":""}}', b""),
    "a number under /": (b'{"/":1}', {"/": 1}),
    "a link and a key more": (f'{{"/":"{TEXT}","a":1}}'.encode(), {"/": TEXT, "a": 1}),
    "bytes and a key more": (b'{"/":{"bytes":"aGk"},"a":1}', {"/": {"bytes": "aGk"}, "a": 1}),
    "bytes and an inner key more": (
        b'{"/":{"bytes":"aGk","a":1}}',
        {"/": {"bytes": "aGk", "a": 1}},
    ),
    "bytes that are a number": (b'{"/":{"bytes":1}}', {"/": {"bytes": 1}}),
    "a link under /": (f'{{"/":{{"/":"{TEXT}"}}}}'.encode(), {"/": LEAF}),
    "a pair of surrogates": (b'"\\ud83d\\ude00"', "😀"),
    "a backslash before ud800": (b'"\\\\ud800"', "\\ud800"),
    "2**64 - 1": (b"18446744073709551615", (1 << 64) - 1),
    "a float": (b"1.0", 1.0),
}


@pytest.mark.parametrize(("text", "value"), SOUND_JSON.values(), ids=SOUND_JSON)
def test_json_is_read_with_its_links_and_bytes(text, value):
    decoded = dag_json.decode(text)
    assert decoded == value
    assert type(decoded) is type(value)
    assert dag_json.decode(dag_json.encode(decoded)) == value


BROKEN_JSON = {
    "empty": (b"", "Expecting value"),
    "two values": (b"1 2", "Extra data"),
    "key twice": (b'{"a":1,"a":1}', "same key twice"),
    "/ twice": (f'{{"/":"{TEXT}","/":"{TEXT}"}}'.encode(), "same key twice"),
    "link that is no CID": (b'{"/":"bafynope"}', "CID of a link"),
    "bytes that are not base64": (b'{"/":{"bytes":"-_"}}', "base64"),
    "bytes with a space": (b'{"/":{"bytes":"aG k"}}', "base64"),
    "one character of base64": (b'{"/":{"bytes":"a"}}', "base64"),
    "2**64": (b"18446744073709551616", "64 bits"),
    "10**5000": (b"1" + b"0" * 5000, "64 bits"),
    "1e400": (b"1e400", "too large"),
    "NaN": (b"NaN", "not a number"),
    "-Infinity": (b"-Infinity", "not a number"),
    "not UTF-8": (b'"\xff"', "UTF-8"),
    "byte order mark": (b"\xef\xbb\xbf1", "BOM"),
    "lone surrogate": (b'"\\ud800"', "UTF-8"),
    "lone surrogate in a key": (b'{"\\uDC00":1}', "UTF-8"),
    "surrogates in the wrong order": (b'"\\ude00\\ud83d"', "UTF-8"),
    "control character": (b'"a\nb"', "control character"),
    "comma at the end": (b"[1,]", "Expecting value|Illegal trailing comma"),
    "leading zero": (b"01", "Extra data"),
}


@pytest.mark.parametrize(("text", "words"), BROKEN_JSON.values(), ids=BROKEN_JSON)
def test_json_that_is_not_exactly_one_value_is_malformed(text, words):
    for read in (dag_json.decode, dag_json.links):
        for block in (text, b"[" + text + b"]") if text else (text,):
            with pytest.raises(MalformedError, match=words if block is text else None):
                read(block)


def test_plain_json_has_neither_links_nor_bytes():
    text = f'{{"a":{{"/":"{TEXT}"}}}}'.encode()
    assert dag_json.decode(text, strict=False) == {"a": {"/": TEXT}}
    assert not links_of(CID(1, JSON, IDENTITY, b""), text)
    for broken in (b'{"a":1,"a":1}', b"NaN", b"[" * 600 + b"]" * 600):
        with pytest.raises(MalformedError):
            dag_json.decode(broken, strict=False)


@pytest.mark.parametrize("value", [{"/": TEXT}, {"/": "text"}, [{"/": {"bytes": "aGk"}}]], ids=repr)
def test_a_map_that_would_be_read_as_a_link_or_bytes_is_not_written(value):
    with pytest.raises(SerializationError, match="only key"):
        dag_json.encode(value)
    assert dag_cbor.decode(dag_cbor.encode(value)) == value


# Limits


@pytest.mark.parametrize("opening", [b"\x81", b"\xa1\x61a"], ids=["lists", "maps"])
def test_cbor_is_as_deep_as_allowed_and_no_deeper(opening):
    sound, deep = (opening * depth + b"\x80" for depth in (1023, 1024))
    assert dag_cbor.encode(dag_cbor.decode(sound)) == sound
    assert dag_cbor.links(sound) == []
    for read in (dag_cbor.decode, dag_cbor.links):
        with pytest.raises(MalformedError, match="1024 deep"):
            read(deep)
        with pytest.raises(MalformedError, match="1024 deep"):
            read(opening * 600_000)
    value = []
    for _ in range(1024):
        value = [value]
    value[0][0] = value  # it has itself inside
    for codec in (dag_cbor, dag_json):
        with pytest.raises(SerializationError, match="1024 deep"):
            codec.encode(value)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'], ids=["lists", "maps"])
def test_json_is_as_deep_as_allowed_and_no_deeper(opening):
    closing = b"]" if opening == b"[" else b"}"
    sound, deep = (opening * depth + b'"[[{\\"["' + closing * depth for depth in (512, 513))
    assert dag_json.encode(dag_json.decode(sound)) == sound
    for read in (dag_json.decode, dag_json.links):
        for block in (deep, opening * 400_000):
            with pytest.raises(MalformedError, match="512 deep"):
                read(block)
    # Brackets in texts, and beside each other, are no depth.
    assert len(dag_json.decode(b'["' + b"[{" * 1000 + b'",' + b"[]," * 1000 + b"1]")) == 1002
    value = []
    for _ in range(1000):
        value = [value]
    with pytest.raises(SerializationError, match="deep"):
        dag_json.encode(value)


def peak_of(read, block):
    tracemalloc.start()
    try:
        read(block)
    except MalformedError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def test_hostile_blocks_take_memory_in_proportion_to_their_size(monkeypatch):
    size = 20_000
    monkeypatch.setattr(dag_cbor, "MAX_CONTAINERS", 5000)
    empty_lists = b"\x99" + size.to_bytes(2) + b"\x80" * size
    assert peak_of(dag_cbor.links, empty_lists) < 10_000
    assert peak_of(dag_cbor.decode, empty_lists) < 5000 * 80
    with pytest.raises(MalformedError, match="more than 5000 lists and maps"):
        dag_cbor.decode(empty_lists)
    assert peak_of(dag_cbor.decode, b"\x9b" + b"\x7f" * 8 + b"\x80" * size) < 10_000
    assert peak_of(dag_cbor.decode, b"\x7b" + b"\x7f" * 8) < 10_000
    assert peak_of(dag_json.links, b"[" + b"{}," * (size // 3) + b"1]") < 30 * size


def test_quotes_that_never_end_take_linear_time():
    """In quadratic time this would take an hour."""
    with pytest.raises(MalformedError):
        dag_json.decode(b'"' + b'\\"' * 500_000 + b"[" * 600)


# Links, and paths through values


def test_links_come_in_the_order_of_the_block():
    others = [CID.of_raw(bytes([n])) for n in range(4)]
    value = {"b": others[1], "a": [others[0], {"x": others[2]}], "cc": others[3], "d": b"x"}
    in_cbor = dag_cbor.links(dag_cbor.encode(value))
    assert in_cbor == [others[0], others[2], others[1], others[3]]
    assert dag_json.links(dag_json.encode(value)) == [others[0], others[2], others[1], others[3]]
    text = f'{{"z":{{"/":"{others[3]}"}},"a":{{"/":"{others[0]}"}}}}'.encode()
    assert dag_json.links(text) == [others[3], others[0]]


def test_names_lead_into_maps_and_lists():
    value = {"a": [{"b": 1, "0": 2}], "": 3, "é": None}
    cid = CID(1, DAG_CBOR, IDENTITY, b"")
    block = dag_cbor.encode(value)
    for names, inner in (
        ((), value),
        (("a", "0", "b"), 1),
        (("a", "0", "0"), 2),
        (("",), 3),
        (("é",), None),
    ):
        assert read_value(cid, block, names) == inner
    for wrong in ("b", "a/1", "a/-1", "a/00", "a/b", "a/0/b/c", "é/x", "a/+0", "a/\u0660"):
        with pytest.raises(NotFoundError, match="there is no"):
            read_value(cid, block, wrong.split("/"))


def test_a_cid_shows_its_text():
    assert repr([LEAF, OLD]) == f"[CID('{LEAF}'), CID('{OLD}')]"


# Random values, and other readers of them


def random_value(chance, depth=0):  # noqa: PLR0911 - one for each kind
    """Return a value of the data model, with the edges of each form in it."""
    kind = chance.randrange(11 if depth < 5 else 9)
    match kind:
        case 0:
            return chance.choice([None, True, False])
        case 1 | 2:
            power = chance.choice([0, 4, 5, 8, 16, 32, 63])
            number = max(0, (1 << power) + chance.randint(-2, 2))
            return chance.choice([number, -1 - number])
        case 3:
            bits = chance.getrandbits(64)
            number = struct.unpack(">d", bits.to_bytes(8))[0]
            return number if math.isfinite(number) else 0.5
        case 4 | 5:
            return random_text(chance)
        case 6:
            return chance.randbytes(chance.choice([0, 1, 2, 23, 24, 40, 300]))
        case 7 | 8:
            codec = chance.choice([RAW, DAG_PB, DAG_CBOR, DAG_JSON])
            return CID(1, codec, LEAF.hash_code, chance.randbytes(32))
        case 9:
            return [random_value(chance, depth + 1) for _ in range(chance.randrange(5))]
    return {
        random_text(chance): random_value(chance, depth + 1) for _ in range(chance.randrange(5))
    }


def random_text(chance):
    characters = 'ab/"\\\n\0é€😀\u2028\x7f'
    return "".join(chance.choices(characters, k=chance.choice([0, 1, 2, 3, 24])))


def for_oracle(value):
    """Return a value with the CIDs of the other package, or with ours."""
    match value:
        case CID():
            return multiformats.CID.decode(bytes(value))
        case multiformats.CID():
            return CID.from_bytes(bytes(value))
        case dict():
            return {key: for_oracle(member) for key, member in value.items()}
        case list():
            return [for_oracle(member) for member in value]
    return value


def links_in(value):
    return [item for item in dag_json.nested(value) if isinstance(item, CID)]


def check_value(value):
    """Check one random value both ways, against the other reader."""
    block = dag_cbor.encode(value)
    assert block == oracle.encode(for_oracle(value))
    decoded = dag_cbor.decode(block)
    assert decoded == value == for_oracle(oracle.decode(block))
    assert dag_cbor.encode(decoded) == block
    assert dag_cbor.links(block) == links_in(decoded)
    try:
        text = dag_json.encode(value)
    except SerializationError:
        return
    again = dag_json.decode(text)
    assert again == value
    assert dag_json.links(text) == links_in(again)
    assert dag_cbor.encode(again) == block


def check_hostile(chance, value):
    """Check a changed block: both readers refuse it, or both read the same."""
    block = bytearray(dag_cbor.encode(value))
    for _ in range(chance.randint(1, 3)):
        block[chance.randrange(len(block))] = chance.randrange(256)
    block = bytes(block)
    try:
        decoded = dag_cbor.decode(block)
    except MalformedError:
        with pytest.raises(MalformedError):
            dag_cbor.links(block)
        return
    assert dag_cbor.encode(decoded) == block
    assert dag_cbor.links(block) == links_in(decoded)


def check_random_values(count, seed):
    for number in range(count):
        chance = random.Random(f"{seed} {number}")  # noqa: S311 - repeatable on purpose
        value = random_value(chance)
        check_value(value)
        check_hostile(chance, value)


def test_random_values_are_read_and_written_as_another_package_does():
    check_random_values(300, "quick")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_values_are_read_and_written_as_another_package_does():
    check_random_values(100_000, "slow")


def for_kubo(value):
    """Return a value without what Kubo loses: integers of 64 bits, and floats in JSON."""
    match value:
        case float():
            return 0.5
        case bool():
            return value
        case int():
            return value if -(1 << 63) <= value < 1 << 63 else 0
        case dict():
            return {key: for_kubo(member) for key, member in value.items()}
        case list():
            return [for_kubo(member) for member in value]
    return value


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kubo_reads_and_writes_the_same_values(kubo):
    """Thousands of values in one block each way: a request for each would take hours."""
    for batch in range(10):
        chance = random.Random(f"kubo {batch}")  # noqa: S311 - repeatable on purpose
        values = [for_kubo(random_value(chance)) for _ in range(1000)]
        values = [value for value in values if _is_written(value)]
        assert len(values) > 900
        block, text = dag_cbor.encode(values), dag_json.encode(values)
        stored = {}
        for source, name in ((block, "dag-cbor"), (text, "dag-json")):
            for codec in ("dag-cbor", "dag-json"):
                options = {"input-codec": name, "store-codec": codec, "allow-big-block": True}
                reply = json.loads(kubo.call("dag/put", ("value", source), **options))
                cid = CID.parse(reply["Cid"]["/"])
                stored[name, codec] = cid
                own_block = kubo.call("block/get", arg=str(cid))
                assert CODECS[cid.codec].value(own_block) == values
                if codec == "dag-cbor":
                    assert own_block == block
                shown = kubo.call("dag/get", arg=str(cid), **{"output-codec": "dag-json"})
                assert dag_json.decode(shown) == values
        assert stored["dag-cbor", "dag-cbor"] == stored["dag-json", "dag-cbor"]
        assert stored["dag-cbor", "dag-json"] == stored["dag-json", "dag-json"]


def _is_written(value):
    try:
        return bool(dag_json.encode(value))
    except SerializationError:
        return False


@pytest.mark.slow
def test_kubo_refuses_what_we_refuse_but_for_forms_that_it_corrects(kubo):
    """It takes floats of any size, undefined, any order of keys, text that is not UTF-8."""
    corrected = {
        *("float of 16 bits", "float of 32 bits", "undefined", "tag of a time"),
        *("text that is not UTF-8", "surrogate", "key that is not UTF-8", "link over a number"),
        *("keys in another order", "longer key first", "link over a text"),
        "cut list",
    }
    taken = set()
    for name, (form, _) in BROKEN.items():
        options = {"input-codec": "dag-cbor", "store-codec": "dag-cbor"}
        try:
            kubo.call("dag/put", ("value", bytes.fromhex(form)), **options)
        except AssertionError:
            continue
        taken.add(name)
    assert taken == corrected
