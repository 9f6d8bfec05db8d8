"""The payload of a file: a nonce, then chunks of 64 KiB, each encrypted and authenticated alone.

The nonce of a chunk is its number and whether it is the last one. So no chunk can be moved, left
out or added, and any chunk can be read without the others. Only the last chunk may be shorter, and
it is empty only if the whole file is.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
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
SMALL_BATCH: Final = 4  # chunks decrypted at a time, between which other threads can run

Buffer: TypeAlias = bytes | bytearray | memoryview


def payload_size(size: int) -> int:
    """Return the size of a payload: `size` bytes of content, the nonce, and a tag for each chunk.

    Example:
        >>> payload_size(0), payload_size(65_536), payload_size(65_537)
        (32, 65568, 65585)
    """
    chunks = max(1, -(-size // CHUNK_SIZE))
    return NONCE_SIZE + size + chunks * TAG_SIZE


def content_in(payload: int) -> int:
    """Return how much content the first `payload` bytes of any payload have."""
    body = max(0, payload - NONCE_SIZE)
    chunks = -(-body // ENCRYPTED_CHUNK_SIZE)
    return max(0, body - chunks * TAG_SIZE)


def plain_size(payload: int) -> int:
    """Return the size of the content in a payload; raise `DecryptionError` if none has this size.

    The size is only proven when the last chunk has been decrypted as the last one.

    Example:
        >>> plain_size(32), plain_size(65_568), plain_size(65_585)
        (0, 65536, 65537)
    """
    size = content_in(payload)
    if payload_size(size) != payload:
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
        >>> bytes(cipher.decrypt(0, cipher.encrypt(0, b"hello", last=True), last=True))
        b'hello'
    """

    __slots__ = ("_aead",)

    def __init__(self, file_key: FileKey, nonce: bytes) -> None:
        if len(nonce) != NONCE_SIZE:
            raise ValueError(f"the nonce must have {NONCE_SIZE} bytes, not {len(nonce)}")
        self._aead = ChaCha20Poly1305(file_key.derive(nonce, b"payload"))

    def encrypt(
        self, first: int, data: Buffer, *, last: bool, buffer: bytearray | None = None
    ) -> memoryview:
        """Return the chunks of `data`, of which the first is number `first`, with their tags.

        `last` says whether the payload ends with them. The result is in `buffer`, if there is one,
        which must be large enough: to use it again is much faster than new memory for each MiB.
        """
        size, sizes = payload_size(len(data)) - NONCE_SIZE, (CHUNK_SIZE, ENCRYPTED_CHUNK_SIZE)
        sealed = memoryview(buffer or bytearray(size))[:size]
        for index, is_last, chunk, place in _chunks(first, data, sealed, sizes, last=last):
            if not _is_chunk(index, len(chunk), last=is_last):
                raise ValueError(f"chunk {index} cannot have {len(chunk)} bytes")
            self._aead.encrypt_into(_chunk_nonce(index, last=is_last), chunk, None, place)
        return sealed

    def decrypt(
        self, first: int, data: Buffer, *, last: bool, buffer: bytearray | None = None
    ) -> memoryview:
        """Return the content of chunks; raise `DecryptionError` unless they are exactly these."""
        sizes = ENCRYPTED_CHUNK_SIZE, CHUNK_SIZE
        size = max(0, len(data) - -(-len(data) // ENCRYPTED_CHUNK_SIZE) * TAG_SIZE)
        content = memoryview(buffer or bytearray(size))[:size]
        for index, is_last, chunk, place in _chunks(first, data, content, sizes, last=last):
            with suppress(InvalidTag):
                if _is_chunk(index, len(chunk) - TAG_SIZE, last=is_last):
                    self._aead.decrypt_into(_chunk_nonce(index, last=is_last), chunk, None, place)
                    continue
            content[:] = bytes(size)  # some of it may not be authenticated
            raise DecryptionError(f"age: the content was changed or cut off in chunk {index}")
        return content


def decrypt_payload(
    file_key: FileKey, begin: bytes, read: Callable[[int], bytes], chunks: int = SMALL_BATCH
) -> Iterator[memoryview]:
    """Yield the content of a payload, so many chunks at a time, when they are authenticated.

    What is yielded is valid until the next piece.

    `begin` has the first bytes of the payload. `read` returns the next ones, as many as it is asked
    for, fewer at the end. That the content is complete is known at its end: before that, the rest
    may have been cut off.

    Example:
        >>> file_key, nonce = FileKey.generate(), bytes(NONCE_SIZE)
        >>> chunk = ChunkCipher(file_key, nonce).encrypt(0, b"hello", last=True)
        >>> b"".join(decrypt_payload(file_key, nonce + chunk, lambda _: b""))
        b'hello'
    """
    size = chunks * ENCRYPTED_CHUNK_SIZE
    begin += read(max(0, NONCE_SIZE + size - len(begin)))
    if len(begin) < NONCE_SIZE:
        raise DecryptionError("age: the file ends before its encrypted content")
    cipher = ChunkCipher(file_key, begin[:NONCE_SIZE])
    batch, first, buffer = begin[NONCE_SIZE:], 0, bytearray(len(begin))
    while batch or first == 0:  # an empty file has an empty chunk
        ahead = read(size)
        yield cipher.decrypt(first, batch, last=not ahead, buffer=buffer)
        batch, first = ahead, first + chunks


def _chunks(
    first: int, data: Buffer, result: memoryview, sizes: tuple[int, int], *, last: bool
) -> Iterator[tuple[int, bool, memoryview, memoryview]]:
    """Yield the number of each chunk, whether it is the last one, its bytes, and its result."""
    view, (size, new_size) = memoryview(data), sizes
    for number, start in enumerate(range(0, max(1, len(view)), size)):
        place = result[number * new_size : (number + 1) * new_size]
        is_last = last and start + size >= len(view)
        yield first + number, is_last, view[start : start + size], place


def _is_chunk(index: int, size: int, *, last: bool) -> bool:
    """Return whether a chunk with this number can have `size` bytes of content."""
    return size == CHUNK_SIZE or (last and (0 < size < CHUNK_SIZE or size == index == 0))


def _chunk_nonce(index: int, *, last: bool) -> bytes:
    return index.to_bytes(COUNTER_SIZE, "big") + (b"\1" if last else b"\0")
