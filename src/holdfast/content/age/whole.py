"""Small content, such as a key file, that is encrypted and decrypted in memory."""

import os
from collections.abc import Iterable, Sequence

from holdfast.content.age.header import Header, HeaderReader
from holdfast.content.age.keys import FileKey, Unwrapper, Wrapper
from holdfast.content.age.stream import NONCE_SIZE, ChunkCipher, PayloadReader


def encrypt(content: bytes, recipients: Sequence[Wrapper]) -> bytes:
    """Return `content`, which has at most one chunk, as an age file.

    Example:
        >>> from holdfast.content.age.keys import Identity
        >>> identity = Identity.generate()
        >>> decrypt(encrypt(b"hello", [identity.recipient]), [identity])
        b'hello'
    """
    file_key, nonce = FileKey.generate(), os.urandom(NONCE_SIZE)
    chunk = ChunkCipher(file_key, nonce).encrypt_chunk(0, content, last=True)
    return Header.make(file_key, recipients).raw + nonce + chunk


def decrypt(file: bytes, identities: Iterable[Unwrapper]) -> bytes:
    """Return the content of an age file; raise unless it is intact and one of the keys opens it."""
    reader = HeaderReader()
    payload = reader.update(file)
    content = PayloadReader(reader.finish().unwrap(identities))
    return content.update(payload) + content.finish()
