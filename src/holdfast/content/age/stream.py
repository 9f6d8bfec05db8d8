"""The payload of a file: a nonce, then chunks of 64 KiB, each encrypted and authenticated alone.

The nonce of a chunk is its number and whether it is the last one. So no chunk can be moved, left
out or added, and any chunk can be read without the others. Only the last chunk may be shorter, and
it is empty only if the whole file is.
"""

from typing import Final, TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from holdfast.content.age.keys import FileKey
from holdfast.errors import DecryptionError

NONCE_SIZE: Final = 16
CHUNK_SIZE: Final = 64 << 10
TAG_SIZE: Final = 16
ENCRYPTED_CHUNK_SIZE: Final = CHUNK_SIZE + TAG_SIZE
COUNTER_SIZE: Final = 11

Buffer: TypeAlias = bytes | bytearray | memoryview


def payload_size(size: int) -> int:
    """Return the size of a payload: `size` bytes of content, the nonce, and a tag for each chunk.

    Example:
        >>> payload_size(0), payload_size(65_536), payload_size(65_537)
        (32, 65568, 65585)
    """
    chunks = max(1, -(-size // CHUNK_SIZE))
    return NONCE_SIZE + size + chunks * TAG_SIZE


def plain_size(payload: int) -> int:
    """Return the size of the content in a payload; raise `DecryptionError` if none has this size.

    The size is only proven when the last chunk has been decrypted as the last one.

    Example:
        >>> plain_size(32), plain_size(65_568), plain_size(65_585)
        (0, 65536, 65537)
    """
    chunks = -(-(payload - NONCE_SIZE) // ENCRYPTED_CHUNK_SIZE)
    size = payload - NONCE_SIZE - chunks * TAG_SIZE
    if size < 0 or payload_size(size) != payload:
        raise DecryptionError(f"age: no payload has {payload} bytes: it was cut off or changed")
    return size


def chunk_offset(index: int) -> int:
    """Return where a chunk begins in the payload."""
    return NONCE_SIZE + index * ENCRYPTED_CHUNK_SIZE


class ChunkCipher:
    """Encrypts and decrypts the chunks of one payload, in any order, also in several threads.

    A chunk number is encrypted with one content only: two contents under one key, nonce and number
    would show each other.

    Example:
        >>> cipher = ChunkCipher(FileKey.generate(), bytes(NONCE_SIZE))
        >>> cipher.decrypt_chunk(0, cipher.encrypt_chunk(0, b"hello", last=True), last=True)
        b'hello'
    """

    __slots__ = ("_aead",)

    def __init__(self, file_key: FileKey, nonce: bytes) -> None:
        if len(nonce) != NONCE_SIZE:
            raise ValueError(f"the nonce must have {NONCE_SIZE} bytes, not {len(nonce)}")
        self._aead = ChaCha20Poly1305(file_key.derive(nonce, b"payload"))

    def encrypt_chunk(self, index: int, data: Buffer, *, last: bool) -> bytes:
        """Return a chunk with its tag."""
        if not _is_chunk(index, len(data), last=last):
            raise ValueError(f"chunk {index} cannot have {len(data)} bytes")
        return self._aead.encrypt(_chunk_nonce(index, last=last), data, None)

    def decrypt_chunk(self, index: int, data: Buffer, *, last: bool) -> bytes:
        """Return the content of a chunk; raise `DecryptionError` unless it is exactly this one."""
        if _is_chunk(index, len(data) - TAG_SIZE, last=last):
            try:
                return self._aead.decrypt(_chunk_nonce(index, last=last), data, None)
            except InvalidTag:
                pass
        raise DecryptionError(f"age: the content was changed or cut off in chunk {index}")


class PayloadReader:
    """Decrypts a payload that arrives in pieces of any size, from its nonce on.

    It returns only what is authenticated. That it is all of the content is known when `finish` has
    returned: before that, the rest may have been cut off.

    Example:
        >>> file_key, nonce = FileKey.generate(), bytes(NONCE_SIZE)
        >>> chunk = ChunkCipher(file_key, nonce).encrypt_chunk(0, b"hello", last=True)
        >>> reader = PayloadReader(file_key)
        >>> reader.update(nonce + chunk), reader.finish()
        (b'', b'hello')
    """

    def __init__(self, file_key: FileKey) -> None:
        self._file_key = file_key
        self._cipher: ChunkCipher | None = None
        self._buffer = bytearray()
        self._index = 0

    def update(self, data: bytes) -> bytes:
        """Take the next bytes, and return the content of the chunks that others follow.

        After an error there are only errors: no chunk that follows has the expected number.
        """
        self._buffer += data
        if self._cipher is None:
            if len(self._buffer) < NONCE_SIZE:
                return b""
            self._cipher = ChunkCipher(self._file_key, bytes(self._buffer[:NONCE_SIZE]))
            del self._buffer[:NONCE_SIZE]
        parts = []
        size = max(0, len(self._buffer) - 1) // ENCRYPTED_CHUNK_SIZE * ENCRYPTED_CHUNK_SIZE
        for start in range(0, size, ENCRYPTED_CHUNK_SIZE):
            chunk = self._buffer[start : start + ENCRYPTED_CHUNK_SIZE]
            parts.append(self._cipher.decrypt_chunk(self._index, chunk, last=False))
            self._index += 1
        del self._buffer[:size]
        return b"".join(parts)

    def finish(self) -> bytes:
        """Return the content of the last chunk; raise `DecryptionError` if it is not the last."""
        if self._cipher is None:
            raise DecryptionError("age: the file ends before its encrypted content")
        return self._cipher.decrypt_chunk(self._index, self._buffer, last=True)


def _is_chunk(index: int, size: int, *, last: bool) -> bool:
    """Return whether a chunk with this number can have `size` bytes of content."""
    return size == CHUNK_SIZE or (last and (0 < size < CHUNK_SIZE or size == index == 0))


def _chunk_nonce(index: int, *, last: bool) -> bytes:
    return index.to_bytes(COUNTER_SIZE, "big") + (b"\1" if last else b"\0")
