"""Content under a mask: a random prefix for each file, then its bytes, XOR with prefix and key."""

import os

from holdfast.sinks.sinks import Finish
from tests.wrapping import PREFIX, xor

KEY = b"key of the tests"
PIECE = 1 << 20


def masked(content, key=KEY):
    """What is stored of `content`."""
    prefix = os.urandom(PREFIX)
    return prefix + xor(content, xor(prefix, key, 0), 0)


def unmask(file, key=KEY):
    """Yield the content of what is stored."""
    prefix = file.read(PREFIX)
    if len(prefix) < PREFIX:
        raise ValueError("this is not masked")
    mask = xor(prefix, key, 0)
    position = 0
    while piece := file.read(PIECE):
        yield xor(piece, mask, position)
        position += len(piece)


def unmasked_size(size):
    """The bytes of the content of what is stored."""
    return max(0, size - PREFIX)


FINISH = Finish(unmask, unmasked_size)
