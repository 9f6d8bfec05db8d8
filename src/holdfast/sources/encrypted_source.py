"""A source whose bytes are an age file made from those of another one.

No key ever encrypts two contents of one chunk: header, nonce and file key are chosen once, and the
tag of each chunk is noted when the chunk is first encrypted. If a chunk gets another tag later, the
source has changed, and the chunk is not sent.
"""

import secrets
from collections.abc import Iterator
from functools import partial
from typing import Final

from holdfast.content.age.keyring import Keyring, Seal
from holdfast.content.age.stream import CHUNK_SIZE, ENCRYPTED_CHUNK_SIZE, TAG_SIZE, payload_size
from holdfast.sources.sources import PiecesFile, Source, WrappingSource, changed_while_read

BATCH: Final = 16  # chunks encrypted at a time: 1 MiB, as most leaves and sources have
PIECE: Final = BATCH * CHUNK_SIZE  # bytes
TYPE: Final = "application/octet-stream"


def random_name() -> str:
    """Return a name for an age file that says nothing of its content."""
    return f"{secrets.token_hex(8)}.age"


def encrypt_at_once(data: bytes, keys: Keyring, *, own_layout: bool) -> Source:
    """Return the age file of `data`, which is small. It is encrypted only once."""
    seal = keys.new_seal()
    source = Source.of_bytes(seal.encrypt(data), TYPE)
    source.leaf_ends = (len(seal.header.raw),) if own_layout else ()
    return source


class EncryptedSource(WrappingSource):
    """The age file of `inner` for the recipients of `keys`.

    Args:
        inner: The source to encrypt.
        keys: The recipients, and the identities that open the state of an earlier process.
        seals: The seals of sources in this process, by their heads: no identity is needed to use
            the state of one of them.
        own_layout: Whether the header gets a leaf of its own, so that readers can be added later.
    """

    def __init__(
        self, inner: Source, keys: Keyring, seals: dict[bytes, Seal], *, own_layout: bool
    ) -> None:
        self._keys = keys
        self._seals = seals
        self._use(keys.new_seal(), b"")
        size = None if inner.size is None else len(self._seal.header.raw) + payload_size(inner.size)
        super().__init__(inner, size=size)
        self.leaf_ends: tuple[int, ...] = (len(self._seal.header.raw),) if own_layout else ()
        self.name: str | None = random_name()
        self.type = TYPE

    def _use(self, seal: Seal, tags: bytes) -> None:
        self._seal = self._seals[seal.head] = seal
        self._tags = bytearray(tags)

    def wrap(self, start: int) -> Iterator[bytes]:
        """Yield the age file from `start` on; raise OSError if the source has changed."""
        file = PiecesFile(self._encrypted(start))
        # The pieces end where most leaves do, so that these are hashed without a copy.
        yield file.read((sum(self.leaf_ends) - start) % PIECE)
        yield from iter(partial(file.read, PIECE), b"")

    def _encrypted(self, start: int) -> Iterator[bytes | memoryview]:
        """Yield the age file from `start` on. A piece is valid until the next one."""
        head = self._seal.head
        yield head[start:]
        # A chunk whose tag is not noted yet must not be skipped.
        index = min(max(0, start - len(head)) // ENCRYPTED_CHUNK_SIZE, self._noted)
        plain = PiecesFile(self.inner.chunks(index * CHUNK_SIZE))
        ahead = plain.read(PIECE)
        buffer = bytearray(payload_size(len(ahead)))
        is_last = False
        while not is_last:
            batch, ahead = ahead, plain.read(PIECE)
            is_last = not ahead
            position = len(head) + index * ENCRYPTED_CHUNK_SIZE
            sealed = self._seal.cipher.encrypt(index, batch, last=is_last, buffer=buffer)
            self._compare_tags(sealed, index)
            yield sealed[max(0, start - position) :]
            index += BATCH

    @property
    def _noted(self) -> int:
        return len(self._tags) // TAG_SIZE

    def _compare_tags(self, sealed: memoryview, index: int) -> None:
        """Note the tags of new chunks; raise OSError if an earlier one has another tag."""
        ends = (*range(ENCRYPTED_CHUNK_SIZE, len(sealed), ENCRYPTED_CHUNK_SIZE), len(sealed))
        tags = b"".join(sealed[end - TAG_SIZE : end] for end in ends)
        begin = index * TAG_SIZE
        noted = self._tags[begin : begin + len(tags)]
        if not tags.startswith(noted):
            raise changed_while_read(self.inner.name, "was written to")
        self._tags += tags[len(noted) :]

    def state(self, end: int) -> bytes:
        """Return header, nonce and tags, for the same recipients only; no key is in it."""
        begin = len(self._seal.head)
        # A new reading ends an earlier one, with which a thread may still be busy.
        pieces = self.chunks(begin + self._noted * ENCRYPTED_CHUNK_SIZE)
        while begin + self._noted * ENCRYPTED_CHUNK_SIZE < end:
            next(pieces)
        return self._keys.recipients_digest + self._seal.head + self._tags

    def restore(self, state: bytes) -> bool:
        """Use the seal of an earlier source; return False if it is not for the same recipients."""
        digest = self._keys.recipients_digest
        end = len(digest) + len(self._seal.head)  # the same for the same recipients
        head = state[len(digest) : end]
        seal = self._seals.get(head) or self._keys.seal_of(head)
        if seal is None or not state.startswith(digest):
            return False
        self._use(seal, state[end:])
        return True
