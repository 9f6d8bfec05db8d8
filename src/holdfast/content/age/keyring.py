"""The keys of an encrypted view: who can read what it writes, and what opens what it reads."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence

from holdfast.content.age.header import Header, HeaderReader
from holdfast.content.age.keys import FileKey, Identity, Recipient, Wrapper
from holdfast.content.age.stream import NONCE_SIZE, ChunkCipher, decrypt_payload
from holdfast.errors import ConfigError, NoKeyError, VerificationError
from holdfast.hints import advise


class Seal:
    """What one file is encrypted with.

    Attributes:
        header: Its header.
        cipher: Encrypts its chunks, and decrypts them.
        head: Everything before the first chunk.
    """

    __slots__ = ("cipher", "head", "header")

    def __init__(self, header: Header, nonce: bytes, file_key: FileKey) -> None:
        self.header: Header = header
        self.cipher: ChunkCipher = ChunkCipher(file_key, nonce)
        self.head: bytes = header.raw + nonce

    @classmethod
    def new(cls, recipients: Sequence[Wrapper]) -> "Seal":
        """Return a new key for one file, wrapped for all recipients."""
        file_key = FileKey.generate()
        return cls(Header.make(file_key, recipients), os.urandom(NONCE_SIZE), file_key)

    def encrypt(self, content: bytes) -> bytes:
        """Return all of `content` as an age file. Call it only once."""
        return self.head + self.cipher.encrypt(0, content, last=True)


class Keyring:
    """The recipients and identities of a view.

    Args:
        recipients: Who can read what is written; by default, the identities themselves.
        identities: What opens content that is read.
        write_only: Whether none of the identities needs to open what is written.

    Example:
        >>> mine, theirs = Identity.generate(), Identity.generate()
        >>> Keyring([mine.recipient, theirs.recipient], [mine]).new_seal().header.readers()
        {'mlkem768x25519': 2}
    """

    def __init__(
        self,
        recipients: Sequence[Recipient] = (),
        identities: Sequence[Identity] = (),
        *,
        write_only: bool = False,
    ) -> None:
        own = [identity.recipient for identity in identities]
        self._recipients = tuple(dict.fromkeys(recipients or own))
        self._identities = tuple(identities)
        if not self._recipients:
            wrong = ConfigError("encryption needs keys")
            raise advise(wrong, "make one with `holdfast keygen`; to read, use the key of a reader")
        if not write_only and not {*self._recipients} & {*own}:
            raise ConfigError(
                "none of your identities could open what you write: add the recipient of one of "
                "them, or set write_only=True"
            )
        texts = sorted(recipient.text for recipient in self._recipients)
        self.recipients_digest: bytes = hashlib.sha256("\n".join(texts).encode()).digest()

    def new_seal(self) -> Seal:
        """Return a new key for one file, wrapped for all recipients."""
        return Seal.new(self._recipients)

    def seal_of(self, head: bytes) -> Seal | None:
        """Return the seal of a file that this view has begun; None if no identity opens it."""
        try:
            header = Header.parse(head[:-NONCE_SIZE])
            return Seal(header, head[-NONCE_SIZE:], self.open(header))
        except (NoKeyError, VerificationError):
            return None

    def open(self, header: Header) -> FileKey:
        """Return the key of a file; raise NoKeyError if no identity opens it."""
        return header.unwrap(self._identities)

    def decrypt(self, read: Callable[[int], bytes]) -> Iterator[memoryview]:
        """Return the content of an age file, in pieces that are authenticated.

        `read` returns the next bytes of the file, as many as it is asked for, fewer at the end.
        """
        reader = HeaderReader()
        rest = b""
        while reader.need and (piece := read(reader.need)):
            rest = reader.update(piece)
        return decrypt_payload(self.open(reader.finish()), rest, read)
