"""Content under a mask: a random prefix for each file, then its bytes, XOR with prefix and key."""

import hashlib
import os

from holdfast.files.sinks import Finish

KEY = b"key of the tests"
PREFIX = 16
PIECE = 1 << 20


def _xor(data, mask):
    stream = mask * -(-len(data) // len(mask))
    number = int.from_bytes(data, "big") ^ int.from_bytes(stream[: len(data)], "big")
    return number.to_bytes(len(data), "big")


def masked(content, key=KEY):
    """What is stored of `content`."""
    prefix = os.urandom(PREFIX)
    return prefix + _xor(content, _xor(prefix, key))


def unmask(file, key=KEY):
    """Yield the content of what is stored."""
    prefix = file.read(PREFIX)
    if len(prefix) < PREFIX:
        raise ValueError("this is not masked")
    mask = _xor(prefix, key)
    while piece := file.read(PIECE):
        yield _xor(piece, mask)


def unmasked_size(size):
    """The bytes of the content of what is stored."""
    return max(0, size - PREFIX)


FINISH = Finish(unmask, unmasked_size)
FORM = f"mask {hashlib.sha256(KEY).hexdigest()[:16]};"
