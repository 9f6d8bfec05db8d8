"""The format of encrypted content: age's test vectors, and what must not open."""

import hashlib
import io
import os
import pickle
import random
from functools import partial
from itertools import pairwise

import pytest

from holdfast.config.secret import Secret
from holdfast.content.age import bech32, whole
from holdfast.content.age.header import (
    MAC_MARK,
    MAX_HEADER,
    MAX_STANZAS,
    VERSION_LINE,
    Header,
    HeaderReader,
)
from holdfast.content.age.keys import FileKey, Identity, Passphrase, Recipient
from holdfast.content.age.stanzas import Stanza
from holdfast.content.age.stream import (
    CHUNK_SIZE,
    NONCE_SIZE,
    ChunkCipher,
    chunk_offset,
    decrypt_payload,
    payload_size,
    plain_size,
)
from holdfast.errors import (
    ClientError,
    ConfigError,
    DecryptionError,
    MalformedError,
    NoKeyError,
    NotEncryptedError,
)
from tests.age_vectors import encrypted, names, read_vector
from tests.programs import run_program
from tests.witness import assert_no_secret_in

# The identities of the specification.
CLASSIC = Identity.parse(
    Secret("AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX")
)
HYBRID = Identity.parse(
    Secret("AGE-SECRET-KEY-PQ-1XX76JRALNLXDMEW0CRK45QMCCH4X06SE84UN3VPM33W6HWDX0H3SK3ZQFR")
)

ERRORS = {
    "no match": NoKeyError,
    "HMAC failure": DecryptionError,
    "header failure": MalformedError,
    "payload failure": DecryptionError,
}
OTHER_ERRORS = {
    "empty": NotEncryptedError,
    "version_unsupported": NotEncryptedError,
    # The header has no line that ends as those of age do.
    "header_crlf": NotEncryptedError,
    # The testkit counts the nonce as a part of the header; we count it as a part of the payload.
    "stream_no_nonce": DecryptionError,
    "stream_short_nonce": DecryptionError,
    # HPKE does not tell a secret of zeros from a stanza for somebody else. Neither opens.
    "hybrid_identity": NoKeyError,
    "hybrid_low_order": NoKeyError,
}
# The testkit expects a full chunk here, and then an error. We return a chunk only when we have seen
# whether it is the last one, as it says of itself, so we return less. Whether it says so:
FULL_CHUNK_BEFORE_AN_ERROR = {
    "stream_no_final_full": False,
    "stream_no_final_two_chunks_full": False,
    "stream_trailing_garbage_long": True,
    "stream_trailing_garbage_short": True,
    "stream_two_final_chunks": True,
    "stream_two_final_chunks_full": True,
    "stream_two_final_chunks_second": True,
}


def pieces(data, size):
    return [data[start : start + size] for start in range(0, len(data), size)]


def read(file, keys, chunks=1):
    """Read a file, so many chunks at a time; return all content, and the error, if any."""
    out, header, stream, rest = b"", HeaderReader(), io.BytesIO(file), b""
    try:
        while header.need and (piece := stream.read(header.need)):
            rest = header.update(piece)
        for piece in decrypt_payload(header.finish().unwrap(keys), rest, stream.read, chunks):
            out += piece
    except Exception as error:  # noqa: BLE001 - the test looks at it
        return out, error
    return out, None


@pytest.mark.parametrize("name", names())
def test_vectors(name):
    vector = read_vector(name)
    content, error = read(vector.file, vector.keys)
    if vector.is_armored or name.startswith("armor_"):
        # Armor is not supported, so not one of them opens, not even those that are sound.
        assert isinstance(error, NotEncryptedError)
        return
    expected = OTHER_ERRORS.get(name) or ERRORS.get(vector.expect, type(None))
    assert type(error) is expected, error
    if name in FULL_CHUNK_BEFORE_AN_ERROR:
        header = HeaderReader()
        payload = header.update(vector.file)
        index = len(content) // CHUNK_SIZE
        chunk = payload[chunk_offset(index) : chunk_offset(index + 1)]
        cipher = ChunkCipher(FileKey(vector.file_key), payload[:NONCE_SIZE])
        last = FULL_CHUNK_BEFORE_AN_ERROR[name]
        content += cipher.decrypt(index, chunk, last=last)
    if vector.payload:
        assert hashlib.sha256(content).hexdigest() == vector.payload
    else:
        assert content == b""


def test_all_vectors_are_here():
    assert (len(names()), len([name for name in names() if "hybrid" in name])) == (143, 19)


@pytest.mark.parametrize("name", ["x25519", "hybrid", "x25519_grease", "stanza_empty_last_line"])
def test_a_header_is_written_as_it_was_read_and_readers_are_appended(name):
    vector = read_vector(name)
    reader = HeaderReader()
    payload = reader.update(vector.file)
    header = reader.finish()
    file_key = header.unwrap(vector.keys)
    assert file_key.reveal() == vector.file_key
    assert header.raw.startswith(VERSION_LINE + b"".join(map(bytes, header.stanzas)) + MAC_MARK)
    with pytest.raises(ConfigError, match="no recipient"):
        header.with_recipients_added(file_key, [])
    new = Identity.generate(classic=vector.keys[0].kind == "X25519")
    shared = header.with_recipients_added(file_key, [new.recipient])
    body = header.raw.rpartition(b"---")[0]
    assert shared.raw.startswith(body)
    assert shared.stanzas[:-1] == header.stanzas
    for key in (*vector.keys, new):
        content = whole.decrypt(shared.raw + payload, [key])
        assert hashlib.sha256(content).hexdigest() == vector.payload
    with pytest.raises(NoKeyError):
        header.unwrap([new])


def test_the_recipients_of_the_specification():
    public = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"
    assert CLASSIC.recipient.text == public
    text = HYBRID.recipient.text
    assert text.startswith("age1pq1x34nzsvr0rxjsgdn8zgyhfe8j7ceq5r9rdelkjuh3y235")
    assert text.endswith("gjtqmwze9pyyzk3tlhl53k2ykx3qheyty7saeq0d3fzv49zc0k")
    assert Recipient.parse(text) == HYBRID.recipient


@pytest.mark.parametrize(
    "text",
    ["A12UEL5L", "a12uel5l", "abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw"],
)
def test_bech32_of_bip_173(text):
    decoded = bech32.decode(text)
    # BIP 173 has these with no data, which no key is, and with 32 values of 5 bits.
    assert decoded is None if len(text) == 8 else bech32.encode(*decoded) == text


@pytest.mark.parametrize(
    "text",
    ["", "1", "age1", "x1b4n0q5v", "li1dgmt3", "A1G7SGD8", "10a06t8", "1qzzfhee", "age1éqqqqq"],
)
def test_what_is_not_bech32(text):
    assert bech32.decode(text) is None


def test_every_changed_character_of_a_key_is_noticed():
    for text in (CLASSIC.recipient.text, CLASSIC.text.reveal(), HYBRID.text.reveal()):
        for place, character in enumerate(text):
            other = "Q" if character.upper() != "Q" else "P"
            changed = (
                text[:place] + (other.lower() if text.islower() else other) + text[place + 1 :]
            )
            assert bech32.decode(changed) is None
    assert bech32.decode(CLASSIC.text.reveal().capitalize()) is None


@pytest.mark.parametrize(
    "text",
    [
        CLASSIC.recipient.text.upper(),
        CLASSIC.text.reveal(),
        HYBRID.text.reveal().lower(),
        bech32.encode("age", bytes(31)),
        bech32.encode("age1pq", b"\xff" * 1216),  # not a key of ML-KEM
        "ssh-ed25519 AAAA",
        "age1yubikey1qqqq",
    ],
)
def test_what_is_not_a_recipient(text):
    with pytest.raises(ConfigError, match=r"recipient must be .* copy it again") as caught:
        Recipient.parse(text)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("text", [HYBRID.text.reveal().lower(), HYBRID.recipient.text, "x", ""])
def test_what_is_not_an_identity(text):
    with pytest.raises(ConfigError, match="identity must be"):
        Identity.parse(Secret(text))


@pytest.mark.parametrize("zero", [bech32.encode("age", bytes(32)), "hybrid"])
def test_a_recipient_of_low_order_is_refused(zero):
    if zero == "hybrid":
        prefix, key = bech32.decode(HYBRID.recipient.text)
        zero = bech32.encode(prefix, key[:-32] + bytes(32))
    with pytest.raises(ConfigError, match="not a safe key"):
        whole.encrypt(b"x", [Recipient.parse(zero)])


def test_readers_and_limits_of_headers():
    key = FileKey.generate()
    header = Header.make(key, [CLASSIC.recipient] * 20)
    assert (header.readers(), len(header.raw)) == ({"X25519": 20}, 70 + 98 * 20)
    assert len(Header.make(key, [HYBRID.recipient]).raw) == 1627
    grease = Stanza("x-grease", ("!",), os.urandom(100))
    raw = header.raw.replace(b"---", bytes(grease) + b"---")
    assert Header.parse(raw).readers() == {"X25519": 20, "other": 1}
    with pytest.raises(ConfigError, match="no recipient"):
        Header.make(key, [])
    with pytest.raises(ConfigError, match="cannot share a file"):
        Header.make(key, [CLASSIC.recipient, HYBRID.recipient])
    with pytest.raises(ConfigError, match="cannot share a file"):
        header.with_recipients_added(key, [HYBRID.recipient])
    with pytest.raises(ConfigError, match="43 readers are too many"):
        Header.make(key, [HYBRID.recipient] * 43)
    stanza = bytes(Stanza("a", (), b""))
    for count in (0, MAX_STANZAS + 1):
        with pytest.raises(MalformedError, match="1 to 512 stanzas"):
            Header.parse(b"age-encryption.org/v1\n" + stanza * count + b"--- " + b"A" * 43 + b"\n")


def test_two_passphrases_or_one_beside_a_key_are_refused():
    key = FileKey.generate()
    passphrase = Passphrase(Secret("x"), work_factor=1)
    for other in (passphrase, CLASSIC.recipient):
        with pytest.raises(ConfigError, match="must be the only"):
            Header.make(key, [passphrase, other])


def test_a_header_is_found_in_pieces_of_any_size_and_says_what_it_needs():
    file = encrypted(b"hello", [CLASSIC.recipient, CLASSIC.recipient])
    for size in (1, 2, 7, 48, 1000):
        assert read(file, [CLASSIC], size) == (b"hello", None)
    reader, position = HeaderReader(), 0
    sizes = []
    while reader.need:
        sizes.append(reader.need)
        take = min(reader.need, 40)
        assert reader.update(file[position : position + take]) == b""
        position += take
    assert (position, sizes[0]) == (len(reader.header.raw), 4096)
    assert all(after < before for before, after in pairwise(sizes[-2:]))
    assert reader.update(b"more") == b"more"


@pytest.mark.parametrize("size", [1, 4096, 1 << 20])
def test_a_header_without_an_end_is_refused_in_time(size):
    reader = HeaderReader()
    header = b"age-encryption.org/v1\n" + b"-> a\n\n" * (1 << 16)
    for piece in pieces(header[: MAX_HEADER - 1], size):
        reader.update(piece)
    with pytest.raises(MalformedError, match="larger than 64 KiB"):
        reader.update(header[MAX_HEADER - 1 :][:size])
    plain = HeaderReader()
    with pytest.raises(NotEncryptedError):
        plain.update(b"agent"[: max(4, size)])
    assert len(plain._buffer) <= 5


@pytest.mark.parametrize("filler", [b"a " * 32000, b"a" * 64000, (b"A" * 64 + b"\n") * 980])
@pytest.mark.parametrize("tail", [b"", b"\n", b"\n---" + b"x" * 60, b"\n\n---" + b"x" * 60])
def test_headers_that_would_take_long_if_the_pattern_went_back(filler, tail):
    reader = HeaderReader()
    with pytest.raises(MalformedError):
        reader.update(b"age-encryption.org/v1\n-> " + filler + tail) or reader.finish()


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 131072, 200_000])
def test_sizes_and_parts(size):
    content = random.Random(size).randbytes(size)  # noqa: S311 - repeatable on purpose
    file = encrypted(content, [CLASSIC.recipient])
    reader = HeaderReader()
    payload = reader.update(file)
    assert (payload_size(size), plain_size(len(payload))) == (len(payload), size)
    cipher = ChunkCipher(reader.finish().unwrap([CLASSIC]), payload[:NONCE_SIZE])
    last = max(0, size - 1) // CHUNK_SIZE
    for index in reversed(range(last + 1)):
        chunk = payload[chunk_offset(index) : chunk_offset(index + 1)]
        part = content[index * CHUNK_SIZE : (index + 1) * CHUNK_SIZE]
        assert cipher.decrypt(index, chunk, last=index == last) == part
        for wrong in ((index + 1, index == last), (index, index != last)):
            with pytest.raises(DecryptionError):
                cipher.decrypt(wrong[0], chunk, last=wrong[1])
    for chunks in (1, 2, 3, 16):
        assert read(file, [CLASSIC], chunks) == (content, None)


def test_sizes_that_no_payload_has():
    whole_chunks = NONCE_SIZE + 65552
    wrong = [-1, 0, 15, 16, 31, *(whole_chunks + more for more in range(1, 17))]
    for size in wrong:
        with pytest.raises(DecryptionError, match=f"has {size} bytes"):
            plain_size(size)
    sizes = [*range(70), *range(65500, 65600), *range(131000, 131100)]
    assert [plain_size(payload_size(size)) for size in sizes] == sizes


def test_chunks_that_cannot_be():
    cipher = ChunkCipher(FileKey.generate(), bytes(16))
    for index, size, last in ((0, 5, False), (1, 0, True), (0, 0, False)):
        with pytest.raises(ValueError, match=f"cannot have {size} bytes"):
            cipher.encrypt(index, bytes(size), last=last)
    with pytest.raises(ValueError, match="16 bytes, not 12"):
        ChunkCipher(FileKey.generate(), bytes(12))


@pytest.mark.parametrize("chunks", [1, 2, 7, 16])
def test_a_damaged_chunk_ends_the_content(chunks):
    file = encrypted(bytes(400_000), [CLASSIC.recipient])
    _, payload, cipher = opened(file)
    begin = len(file) - len(payload)
    for index in range(7):
        damaged = bytearray(file)
        damaged[begin + chunk_offset(index) + 5] ^= 1
        out, error = read(bytes(damaged), [CLASSIC], chunks)
        assert isinstance(error, DecryptionError)
        assert str(error).endswith(f"in chunk {index}")
        assert out == bytes(index // chunks * chunks * CHUNK_SIZE)
    buffer = bytearray(b"x" * 400_000)
    with pytest.raises(DecryptionError):
        cipher.decrypt(0, bytes(65552) + payload[chunk_offset(1) :], last=True, buffer=buffer)
    assert not any(buffer)  # nothing that is not authenticated stays in memory


def test_a_buffer_is_used_again():
    key, buffer = FileKey.generate(), bytearray(3 * 65552)
    cipher = ChunkCipher(key, bytes(16))
    data = random.Random(3).randbytes(3 * CHUNK_SIZE)  # noqa: S311 - repeatable on purpose
    sealed = bytes(cipher.encrypt(0, data, last=False, buffer=buffer))
    rest = bytes(cipher.encrypt(3, b"rest", last=True, buffer=buffer))
    assert (len(sealed), len(rest), bytes(buffer[:20])) == (3 * 65552, 20, rest)
    assert cipher.decrypt(0, sealed, last=False, buffer=buffer) == data
    assert cipher.decrypt(3, rest, last=True, buffer=buffer) == b"rest"
    assert cipher.decrypt(0, sealed + rest, last=True) == data + b"rest"


CONTENT = random.Random(1).randbytes(200_000)  # noqa: S311 - repeatable on purpose
ALLOWED = (DecryptionError, MalformedError, NoKeyError, NotEncryptedError)


def check_damage(damaged):
    """Check that a damaged file gives an error, and before it only what is right."""
    out, error = read(damaged, [CLASSIC])
    assert isinstance(error, ALLOWED), error
    assert CONTENT.startswith(out)
    assert len(out) % CHUNK_SIZE == 0


def opened(file):
    """Return the header's end, the payload of `file`, and the cipher of its chunks."""
    header = HeaderReader()
    payload = header.update(file)
    cipher = ChunkCipher(header.finish().unwrap([CLASSIC]), payload[:NONCE_SIZE])
    return len(file) - len(payload), payload, cipher


def test_changed_bits_and_cuts_are_noticed():
    file = encrypted(CONTENT, [CLASSIC.recipient])
    head, payload, _ = opened(file)
    borders = [head + chunk_offset(index) for index in range(4)]
    sample = {*range(head + 20), *range(head, len(file), 9973), len(file) - 1}
    sample |= {border + more for border in borders for more in (-17, -16, -1, 0, 1)}
    for place in sorted(sample):
        check_damage(file[:place])
        check_damage(file[:place] + bytes([file[place] ^ 1 << place % 8]) + file[place + 1 :])
    for more in (b"x", bytes(15), bytes(16), bytes(17), payload[NONCE_SIZE:]):
        check_damage(file + more)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_changed_bit_and_every_cut_is_noticed():
    """In the payload, each chunk is opened alone, at the place that it has in the file."""
    file = bytearray(encrypted(CONTENT, [CLASSIC.recipient]))
    head, payload, cipher = opened(bytes(file))
    for place in range(head + NONCE_SIZE):
        check_damage(bytes(file[:place]))
        for bit in range(8):
            file[place] ^= 1 << bit
            check_damage(bytes(file))
            file[place] ^= 1 << bit
    noticed = 0
    for index in range(4):
        chunk = bytearray(payload[chunk_offset(index) : chunk_offset(index + 1)])
        for place in range(len(chunk)):
            for bit in range(8):
                chunk[place] ^= 1 << bit
                try:
                    cipher.decrypt(index, chunk, last=index == 3)
                except DecryptionError:
                    noticed += 1
                chunk[place] ^= 1 << bit
            with pytest.raises(DecryptionError):
                cipher.decrypt(index, chunk[:place], last=True)
        if index < 3:  # cut between two chunks
            with pytest.raises(DecryptionError):
                cipher.decrypt(index, chunk, last=True)
    assert noticed == 8 * (len(payload) - NONCE_SIZE)


def test_a_header_or_payload_of_another_file_does_not_open():
    first, second = (encrypted(CONTENT[:n], [CLASSIC.recipient]) for n in (100_000, 100_000))
    head = len(first) - payload_size(100_000)
    swapped = first[:head] + second[head:]
    assert isinstance(read(swapped, [CLASSIC])[1], DecryptionError)
    chunk = first[head + chunk_offset(0) : head + chunk_offset(1)]
    doubled = first[: head + chunk_offset(1)] + chunk + first[head + chunk_offset(1) :]
    assert isinstance(read(doubled, [CLASSIC])[1], DecryptionError)
    for identity in (Identity.generate(), Identity.generate(classic=True)):
        assert isinstance(read(first, [identity])[1], NoKeyError)
    assert isinstance(read(CONTENT, [CLASSIC])[1], NotEncryptedError)


def test_passphrases():
    passphrase = Passphrase(Secret("correct hörse"), work_factor=4)
    file = whole.encrypt(b"keys", [passphrase])
    assert whole.decrypt(file, [Passphrase(Secret("correct hörse"))]) == b"keys"
    with pytest.raises(NoKeyError, match="passphrase"):
        whole.decrypt(file, [Passphrase(Secret("wrong"))])
    with pytest.raises(NoKeyError, match="passphrase"):
        whole.decrypt(file, [CLASSIC, HYBRID])


def test_a_passphrase_that_needs_more_memory_than_there_is_names_it():
    code = """
import resource
from holdfast.config.secret import Secret
from holdfast.content.age import whole
from holdfast.content.age.keys import Passphrase
from holdfast.errors import ConfigError
file = whole.encrypt(b"", [Passphrase(Secret("horse"), work_factor=1)]).replace(b" 1\\n", b" 22\\n")
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
try:
    whole.decrypt(file, [Passphrase(Secret("horse"))])
except ConfigError as error:
    print(error)
"""
    words = "the passphrase of this key file needs 4.00 GiB of memory"
    assert run_program(code) == f"{words}, which is not available: use a larger machine\n"


SECRETS = [CLASSIC.text.reveal(), HYBRID.text.reveal(), "correct horse"]
SECRETS += [repr(bech32.decode(text)[1])[2:-1] for text in SECRETS[:2]]


def test_no_secret_is_shown_or_pickled():
    key = FileKey.generate()
    passphrase = Passphrase(Secret("correct horse"))
    for one in (CLASSIC, HYBRID, passphrase, key, ChunkCipher(key, bytes(16))):
        assert not [secret for secret in SECRETS if secret in f"{one!r} {one}"]
        assert repr(key.reveal())[2:-1] not in repr(one)
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(one)


def failures():
    """Yield calls that fail while they have a secret."""
    for identity in (CLASSIC, HYBRID):
        file = encrypted(bytes(70_000), [identity.recipient])
        [stanza] = (reader := HeaderReader()).update(file) and reader.finish().stanzas
        zero = Stanza(stanza.kind, ("A" * len(stanza.arguments[0]),), stanza.body)
        yield from (
            partial(whole.decrypt, damaged, [identity])
            for damaged in (
                file[:-1],
                file.replace(b"---", b"-> grease\n\n---"),
                file.replace(b"-> ", b"-> " + stanza.kind.encode() + b" AA\n\n-> ", 1),
                file.replace(bytes(stanza), bytes(zero)),
            )
        )
        text = identity.text.reveal()
        yield partial(Identity.parse, Secret(text.lower()))
        yield partial(Identity.parse, Secret(text + "Q"))
        yield partial(Identity.parse, Secret(bech32.encode("age", bech32.decode(text)[1]).upper()))
        yield partial(Recipient.parse, text)
    locked = whole.encrypt(b"", [Passphrase(Secret("another horse"), work_factor=1)])
    yield partial(whole.decrypt, locked, [Passphrase(Secret("correct horse"))])


def test_no_secret_is_in_the_frames_of_an_error():
    count = 0
    for call in failures():
        with pytest.raises(ClientError) as caught:
            call()
        assert_no_secret_in(caught.value, forms=SECRETS)
        count += 1
    assert count == 17
