"""The header of a file: a line with the version, a stanza for each reader, and a MAC.

    age-encryption.org/v1
    -> X25519 XEl0dJ6y3C7KZkgmgWUicg63EyXJiwBJW8PdYJ/cYBE
    qRS0AMjdjPvZ/WT08U2KL4G+PIooA3hy38SvLpvaC1E
    --- HK2NmOBN9Dpq0Gw6xMCuhFcQlQLvZ/wQUi/2scLG75s

Whoever has the file key can add readers: their stanzas are appended, and the MAC is made again.
"""

import hmac
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.content.age.keys import HYBRID, SCRYPT, X25519, FileKey, Unwrapper, Wrapper
from holdfast.content.age.stanzas import Stanza, decode_base64, encode_base64
from holdfast.content.media_types import AGE_MARK
from holdfast.errors import (
    ConfigError,
    DecryptionError,
    MalformedError,
    NoKeyError,
    NotEncryptedError,
)
from holdfast.hints import advise

VERSION_LINE: Final = AGE_MARK + b"v1\n"
MAC_MARK: Final = b"---"
MAC_LINE_SIZE: Final = 48  # the mark, a space, 43 characters of base64, and a line feed
READ_SIZE: Final = 4 << 10  # bytes: the header for two post-quantum readers
MAX_HEADER: Final = 64 << 10  # bytes: some 40 post-quantum readers
MAX_STANZAS: Final = 512  # each may be tried with each identity
KINDS: Final = (HYBRID, X25519, SCRYPT)
NOT_ENCRYPTED: Final = "the content is not encrypted: it is not a binary age v1 file"

_MAC_LINE: Final = re.compile(rb"--- ([A-Za-z0-9+/]{43})\n")


@dataclass(frozen=True, slots=True)
class Header:
    """A header, byte for byte as it is in the file.

    Attributes:
        raw: Its bytes.
        stanzas: Its stanzas.
        mac: The MAC of all before it.

    Example:
        >>> from holdfast.content.age.keys import Identity
        >>> identity, file_key = Identity.generate(classic=True), FileKey.generate()
        >>> header = Header.make(file_key, [identity.recipient])
        >>> header.readers()
        {'X25519': 1}
        >>> header.unwrap([identity]).reveal() == file_key.reveal()
        True
    """

    raw: bytes
    stanzas: tuple[Stanza, ...]
    mac: bytes

    def with_recipients_added(self, file_key: FileKey, recipients: Sequence[Wrapper]) -> "Header":
        """Return a header that these recipients open too. The present stanzas stay as they are.

        Args:
            file_key: The key that `unwrap` returned.
            recipients: The new readers, of the kind of the present ones.
        """
        return self.make(file_key, recipients, self.stanzas)

    @classmethod
    def make(
        cls, file_key: FileKey, recipients: Sequence[Wrapper], present: tuple[Stanza, ...] = ()
    ) -> "Header":
        """Return the header of a new file; raise `ConfigError` if the recipients do not fit.

        The stanzas in `present` come before those of the recipients.
        """
        if not recipients:
            raise ConfigError("there is no recipient: name at least one, such as your own")
        kinds = [stanza.kind for stanza in present if stanza.kind in KINDS]
        kinds += [recipient.kind for recipient in recipients]
        if SCRYPT in kinds and len(kinds) > 1:
            raise ConfigError("a passphrase must be the only way to open a file")
        if len(set(kinds)) > 1:
            wrong = ConfigError("post-quantum readers (age1pq1…) and others cannot share a file")
            fit, other = ("a classic", "an age1pq1…")[:: 1 if kinds[0] == X25519 else -1]
            words = f"ask the reader for {fit} key, or upload again with {other} key of your own"
            raise advise(wrong, words)
        stanzas = (*present, *(recipient.wrap(file_key) for recipient in recipients))
        body = VERSION_LINE + b"".join(map(bytes, stanzas)) + MAC_MARK
        mac = _mac(file_key, body)
        raw = body + f" {encode_base64(mac)}\n".encode("ascii")
        if len(stanzas) > MAX_STANZAS or len(raw) > MAX_HEADER:
            raise ConfigError(f"{len(stanzas)} readers are too many for one file: use fewer")
        return cls(raw, stanzas, mac)

    @classmethod
    def parse(cls, raw: bytes) -> "Header":
        """Return the header whose bytes are `raw`; raise `MalformedError` if they are none."""
        stanzas: list[Stanza] = []
        position = len(VERSION_LINE)
        while not raw.startswith(MAC_MARK, position):
            stanza, position = Stanza.read(raw, position)
            stanzas.append(stanza)
        if not 0 < len(stanzas) <= MAX_STANZAS:
            raise MalformedError(f"age: the header must have 1 to {MAX_STANZAS} stanzas")
        if len(stanzas) > 1 and any(stanza.kind == SCRYPT for stanza in stanzas):
            raise MalformedError("age: a header with a passphrase must have no other stanza")
        last_line = _MAC_LINE.fullmatch(raw, position)
        if last_line is None:
            raise MalformedError("age: the last line of the header is malformed")
        return cls(raw, tuple(stanzas), decode_base64(last_line[1].decode("ascii")))

    def unwrap(self, identities: Iterable[Unwrapper]) -> FileKey:
        """Return the file key, from the first stanza that one of the identities opens.

        Raises:
            NoKeyError: None of them opens one.
            DecryptionError: The MAC is wrong: the header was changed.
            MalformedError: A stanza of the kind of an identity is malformed.
        """
        for identity in identities:
            for stanza in self.stanzas:
                if stanza.kind != identity.kind or (file_key := identity.unwrap(stanza)) is None:
                    continue
                body = self.raw[: len(MAC_MARK) - MAC_LINE_SIZE]
                if not hmac.compare_digest(self.mac, _mac(file_key, body)):
                    raise DecryptionError("age: the header was changed after it was made")
                return file_key
        if self.stanzas[0].kind == SCRYPT:
            raise NoKeyError("this file opens with a passphrase, not with an identity")
        raise NoKeyError("none of your identities opens this content: it is for other readers")

    def readers(self) -> dict[str, int]:
        """Return the number of stanzas of each kind. Kinds that we do not know are ``other``."""
        return dict(Counter(s.kind if s.kind in KINDS else "other" for s in self.stanzas))


class HeaderReader:
    """Finds the header of a file that arrives in pieces of any size.

    Attributes:
        header: The header, as soon as all of it has arrived.

    Example:
        >>> from holdfast.content.age.keys import Identity
        >>> sent = Header.make(FileKey.generate(), [Identity.generate().recipient])
        >>> reader = HeaderReader()
        >>> reader.update(sent.raw + b"payload")
        b'payload'
        >>> reader.header == sent
        True
    """

    def __init__(self) -> None:
        self.header: Header | None = None
        self._buffer = bytearray()
        self._mark = -1  # where the last line begins

    @property
    def need(self) -> int:
        """How many bytes to pass next: exactly the rest, once that is known. 0 at the end."""
        if self.header is not None:
            return 0
        return READ_SIZE if self._mark < 0 else self._mark + MAC_LINE_SIZE - len(self._buffer)

    def update(self, data: bytes) -> bytes:
        """Take the next bytes, and return those of them that come after the header.

        Raises:
            NotEncryptedError: The file is not an age file.
            MalformedError: The header is malformed, or larger than `MAX_HEADER`.
        """
        if self.header is not None:
            return data
        start = len(self._buffer)
        self._buffer += data[: MAX_HEADER - start]
        if not self._buffer.startswith(VERSION_LINE[: len(self._buffer)]):
            raise NotEncryptedError(NOT_ENCRYPTED)
        if self._mark < 0:
            searched = max(0, start - len(MAC_MARK))
            self._mark = self._buffer.find(b"\n" + MAC_MARK, searched) + 1 or -1
        end = self._mark + MAC_LINE_SIZE
        if self._mark >= 0 and len(self._buffer) >= end:
            self.header = Header.parse(bytes(self._buffer[:end]))
            return data[end - start :]
        if len(self._buffer) == MAX_HEADER:
            raise MalformedError(f"age: the header is larger than {MAX_HEADER >> 10} KiB")
        return b""

    def finish(self) -> Header:
        """Return the header of a file that has ended; raise if it is not complete."""
        if len(self._buffer) < len(VERSION_LINE):
            raise NotEncryptedError(NOT_ENCRYPTED)
        if self.header is None:
            raise MalformedError("age: the file ends within its header")
        return self.header


def _mac(file_key: FileKey, body: bytes) -> bytes:
    return hmac.digest(file_key.derive(b"", b"header"), body, "sha256")
