"""Small content, such as a key file, that is encrypted and decrypted in memory."""

from collections.abc import Iterable, Sequence

from holdfast.content.age.header import HeaderReader
from holdfast.content.age.keyring import Seal
from holdfast.content.age.keys import Unwrapper, Wrapper
from holdfast.content.age.stream import decrypt_payload


def encrypt(content: bytes, recipients: Sequence[Wrapper]) -> bytes:
    """Return `content`, which has at most one chunk, as an age file.

    Example:
        >>> from holdfast.content.age.keys import Identity
        >>> identity = Identity.generate()
        >>> decrypt(encrypt(b"hello", [identity.recipient]), [identity])
        b'hello'
    """
    return Seal.new(recipients).encrypt(content)


def decrypt(file: bytes, identities: Iterable[Unwrapper]) -> bytes:
    """Return the content of an age file; raise unless it is intact and one of the keys opens it."""
    reader = HeaderReader()
    payload = reader.update(file)
    file_key = reader.finish().unwrap(identities)
    return b"".join(decrypt_payload(file_key, payload, lambda _: b""))
