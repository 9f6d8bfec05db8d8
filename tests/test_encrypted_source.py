"""A source that is encrypted: the same bytes in every reading, or none."""

import io
import os

import pytest

from holdfast import compute_cid, verify
from holdfast.content.age.keyring import Keyring
from holdfast.content.age.keys import Identity
from holdfast.content.profiles import CANDIDATES
from holdfast.errors import UnprovenError
from holdfast.sources.encrypted_source import EncryptedSource, encrypt_at_once
from holdfast.sources.sources import open_source

MINE = Identity.generate()
THEIRS = Identity.generate()
KEYS = Keyring([MINE.recipient, THEIRS.recipient], [MINE])
CONTENT = os.urandom(3 * 1024 * 1024 + 5)


def encrypted(content, keys=KEYS):
    return EncryptedSource(open_source(content), keys, {}, own_layout=True)


def whole(source, start=0):
    return b"".join(source.chunks(start))


def decrypted(data):
    return b"".join(map(bytes, KEYS.decrypt(io.BytesIO(data).read)))


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 1 << 20, (1 << 20) + 1, len(CONTENT)])
def test_the_size_is_known_beforehand(size):
    source = encrypted(CONTENT[:size])
    data = whole(source)
    assert (len(data), decrypted(data)) == (source.size, CONTENT[:size])
    assert whole(source) == data


def test_it_can_be_read_from_any_byte():
    source = encrypted(CONTENT)
    data = whole(source)
    (begin,) = source.leaf_ends
    for start in (1, begin, begin + 15, begin + 16, begin + 65_568, 2_000_000, len(data) - 1):
        assert whole(source, start) == data[start:]
    later = encrypted(CONTENT)
    assert later.restore_states(source.states(0))
    assert whole(later, 2_000_000) == data[2_000_000:]  # nothing was read before


def test_a_later_process_gives_the_same_bytes():
    source = encrypted(CONTENT)
    state = source.states(1_500_000)
    data = whole(source)
    later = encrypted(CONTENT)
    assert later.restore_states(state)
    assert (later.size, whole(later)) == (len(data), data)
    assert MINE.text.reveal().encode() not in state[0]
    assert KEYS.open(source._seal.header).reveal() not in state[0]


def test_a_source_that_has_changed_is_never_sent(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(CONTENT)
    source = encrypted(CONTENT)
    state = source.states(2_000_000)
    changed = bytearray(CONTENT)
    changed[1_000_000] ^= 1
    later = encrypted(bytes(changed))
    assert later.restore_states(state)
    sent = []
    with pytest.raises(OSError, match="was written to"):
        sent.extend(later.chunks())
    assert whole(source).startswith(b"".join(sent))


def test_a_state_is_used_with_the_same_recipients_and_a_key_only():
    state = encrypted(CONTENT).states(100)
    assert not encrypted(CONTENT, Keyring([MINE.recipient], [MINE])).restore_states(state)
    swapped = Keyring([THEIRS.recipient, MINE.recipient], [THEIRS])
    assert encrypted(CONTENT, swapped).restore_states(state)
    no_key = Keyring([THEIRS.recipient, MINE.recipient], write_only=True)
    assert not encrypted(CONTENT, no_key).restore_states(state)
    head = 32 + len(encrypted(CONTENT)._seal.head)
    cut = [state[0][:size] for size in (0, 40, head - 17, head - 16, head - 1)]
    changed = [state[0][:32] + bytes(4) + state[0][end:] for end in (32, 36)]
    for damaged in (*cut, *changed, bytes(100)):
        assert not encrypted(CONTENT).restore_states([damaged])


def test_a_state_ends_an_earlier_reading():
    """A thread of a failed attempt may still have it. It must not encrypt a wrong last chunk."""
    source = encrypted(CONTENT)
    earlier = source.chunks()
    sent = next(earlier) + next(earlier)
    source.states(2_000_000)
    assert list(earlier) == []
    data = whole(source)
    assert (data.startswith(sent), decrypted(data)) == (True, CONTENT)


def in_each_form(data, folder):
    (folder / "file").write_bytes(data)
    yield from (data, folder / "file", io.BytesIO(data), memoryview(data))
    yield (data[at : at + 1000] for at in range(0, len(data), 1000))


@pytest.mark.parametrize("profile", ["unixfs-v1-2025", "unixfs-v0-2015"])
@pytest.mark.parametrize("size", [0, 1, 70_000, len(CONTENT)])
def test_the_cid_proves_the_ciphertext(tmp_path, size, profile):
    """`verify` knows the layout in which the header is a leaf, without a key."""
    source = encrypted(CONTENT[:size])
    data = whole(source)
    cid = compute_cid(source, profile=profile)
    assert cid != compute_cid(data, profile=profile)
    for form in in_each_form(data, tmp_path):
        assert verify(form, cid)
    for form in in_each_form(data, tmp_path):
        assert verify(form, compute_cid(data, profile=profile))
    for form in in_each_form(data[:-1] + bytes([data[-1] ^ 1]), tmp_path):
        with pytest.raises(UnprovenError, match="no known layout"):
            verify(form, cid)


@pytest.mark.parametrize("has_age_file", [True, False])
def test_a_folder_is_read_twice_in_each_layout_only_if_it_has_an_age_file(tmp_path, has_age_file):
    (tmp_path / "a").write_bytes(whole(encrypted(b"secret")) if has_age_file else b"plain")
    other = compute_cid(tmp_path)
    (tmp_path / "b").write_bytes(b"more")
    ends = []
    with pytest.raises(UnprovenError, match="no known layout"):
        verify(tmp_path, other, progress=lambda done, total: ends.append(done == total))
    assert ends.count(True) == len(CANDIDATES) * (2 if has_age_file else 1)


@pytest.mark.parametrize("size", [0, 1, 1000, 65_536])
@pytest.mark.parametrize("own_layout", [True, False])
def test_content_in_memory_is_encrypted_once(size, own_layout):
    source = encrypt_at_once(CONTENT[:size], KEYS, own_layout=own_layout)
    data = whole(source)
    assert (len(data), decrypted(data)) == (source.size, CONTENT[:size])
    assert whole(source) == data == source.data  # another attempt sends the same bytes
    header = data.rindex(b"\n", 0, data.index(b"\n--- ") + 49) + 1
    assert source.leaf_ends == ((header,) if own_layout else ())
    assert (source.name, source.json, source.type) == (None, None, "application/octet-stream")
    assert source.identify() is None  # no later process continues it
    other = whole(encrypt_at_once(CONTENT[:size], KEYS, own_layout=own_layout))
    assert other[header:] != data[header:]  # each file has a key of its own
