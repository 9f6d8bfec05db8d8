"""A source that changes content on its way: XOR with a key, after a random prefix."""

import hashlib
import secrets

from holdfast.sources.sources import WrappingSource

PREFIX = 16


def xor(data, key, position):
    pad = key * (len(data) // len(key) + 2)
    start = position % len(key)
    number = int.from_bytes(data, "big") ^ int.from_bytes(pad[start : start + len(data)], "big")
    return number.to_bytes(len(data), "big")


class PrefixedSource(WrappingSource):
    """The wrapped bytes, XOR `key`, after 16 random bytes that are the same in every reading."""

    def __init__(self, inner, key=b"key", leaf_ends=()):
        super().__init__(inner, size=None if inner.size is None else PREFIX + inner.size)
        self._key = key
        self.prefix = secrets.token_bytes(PREFIX)
        self.leaf_ends = leaf_ends
        self.asked = []

    def wrap(self, start):
        yield self.prefix[start:]
        position = max(0, start - PREFIX)
        for chunk in self.inner.chunks(position):
            yield xor(chunk, self._key, position)
            position += len(chunk)

    def state(self, end):
        self.asked.append(end)
        return self.prefix + hashlib.sha256(self._key).digest()

    def restore(self, state):
        is_ours = state[PREFIX:] == hashlib.sha256(self._key).digest()
        if is_ours:
            self.prefix = state[:PREFIX]
        return is_ours


def size_of(size):
    return PREFIX + size


def unwrapped(data, key=b"key"):
    return xor(data[PREFIX:], key, 0)
