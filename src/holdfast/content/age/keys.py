"""Recipients, identities and passphrases: they wrap the key of a file, and unwrap it.

    mlkem768x25519   age1pq1…   AGE-SECRET-KEY-PQ-1…   the default: safe from quantum computers too
    X25519           age1…      AGE-SECRET-KEY-1…      classic
    scrypt           a passphrase, for key files only

Parse a key once and use it often. No secret is in a repr or a pickle, nor in a variable of a frame
that an error can pass through: it is revealed only inside the expression that uses it.
"""

import os
import re
from contextlib import suppress
from hashlib import shake_256
from typing import ClassVar, Final, NoReturn, TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from holdfast.config.secret import MASK, Secret
from holdfast.content.age import bech32
from holdfast.content.age.stanzas import Stanza, encode_base64
from holdfast.errors import ConfigError, MalformedError
from holdfast.hints import advise
from holdfast.readable_size import readable_size

X25519: Final = "X25519"
HYBRID: Final = "mlkem768x25519"
SCRYPT: Final = "scrypt"

SEED_SIZE: Final = 32
ML_KEM_SEED_SIZE: Final = 64
ML_KEM_PUBLIC_SIZE: Final = 1184
X25519_SIZE: Final = 32
NONCE: Final = bytes(12)  # always the same, because each wrapping key is used once
X25519_INFO: Final = b"age-encryption.org/v1/X25519"
HYBRID_INFO: Final = b"age-encryption.org/mlkem768x25519"
HYBRID_SUITE: Final = hpke.Suite(
    hpke.KEM.MLKEM768_X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.CHACHA20_POLY1305
)
SCRYPT_SALT: Final = b"age-encryption.org/v1/scrypt"
SCRYPT_SALT_SIZE: Final = 16
WORK_FACTOR: Final = 18  # the base-two logarithm of scrypt's N: 256 MiB, and about a second
MAX_WORK_FACTOR: Final = 22  # as in the command age: 4 GiB
_WORK_FACTOR: Final = re.compile("[1-9][0-9]?")


class FileKey:
    """The 16 random bytes that encrypt one file. No other file may have the same.

    Example:
        >>> FileKey.generate()
        FileKey(********)
    """

    __slots__ = ("__value",)

    def __init__(self, value: bytes) -> None:
        self.__value = value

    @classmethod
    def generate(cls) -> "FileKey":
        """Return a new key."""
        return cls(os.urandom(16))

    def reveal(self) -> bytes:
        """Return the key. Do not assign it to a local variable: tracebacks show those."""
        return self.__value

    def derive(self, salt: bytes, info: bytes) -> bytes:
        """Return the key for one purpose, by HKDF."""
        return _hkdf(self.__value, salt, info)

    def __repr__(self) -> str:
        return f"FileKey({MASK})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a file key cannot be pickled")


class Recipient:
    """A public key, to which files are encrypted.

    Attributes:
        text: Its text form, ``age1pq1…`` or ``age1…``.

    Example:
        >>> Recipient.parse("age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj")
        Recipient(age1zvkyg2lqzraa…)
    """

    __slots__ = ("text",)
    kind: ClassVar[str]
    prefix: ClassVar[str]
    key_size: ClassVar[int]
    share_size: ClassVar[int]

    def __init__(self, key: bytes) -> None:
        self.text: str = bech32.encode(self.prefix, key)

    @staticmethod
    def parse(text: str) -> "Recipient":
        """Return the recipient with this text; raise `ConfigError` if it is none.

        The error does not show the text, which may be an identity by mistake.
        """
        prefix, key = bech32.decode(text) or ("", b"")
        for kind in (HybridRecipient, X25519Recipient):
            if prefix == kind.prefix and len(key) == kind.key_size and text.islower():
                with suppress(ValueError):  # not a key of ML-KEM
                    return kind(key)
        del text, key
        wrong = ConfigError("a recipient must be the text age1pq1… or age1…: copy it again")
        raise advise(wrong, "copy all of it", "copy all of it; `holdfast keys` lists your own")

    def wrap(self, file_key: FileKey) -> Stanza:
        """Return `file_key`, wrapped for this recipient."""
        try:
            sealed = self._seal(file_key)
        except ValueError:  # a point of low order
            raise ConfigError(f"{self} is not a safe key: ask its owner for a new one") from None
        share, body = sealed[: self.share_size], sealed[self.share_size :]
        return Stanza(self.kind, (encode_base64(share),), body)

    def _seal(self, file_key: FileKey) -> bytes:
        """Return the share, and the wrapped key."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"Recipient({self.text[:16]}…)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recipient) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


class X25519Recipient(Recipient):
    """A classic recipient, ``age1…``."""

    __slots__ = ("_key",)
    kind = X25519
    prefix = "age"
    key_size = share_size = X25519_SIZE

    def __init__(self, key: bytes) -> None:
        super().__init__(key)
        self._key = X25519PublicKey.from_public_bytes(key)

    def _seal(self, file_key: FileKey) -> bytes:
        ephemeral = X25519PrivateKey.generate()
        share = ephemeral.public_key().public_bytes_raw()
        cipher = _x25519_cipher(ephemeral, self._key, share + self._key.public_bytes_raw())
        return share + cipher.encrypt(NONCE, file_key.reveal(), None)


class HybridRecipient(Recipient):
    """A post-quantum recipient, ``age1pq1…``: ML-KEM-768 and X25519 together."""

    __slots__ = ("_key",)
    kind = HYBRID
    prefix = "age1pq"
    key_size = ML_KEM_PUBLIC_SIZE + X25519_SIZE
    share_size = 1120

    def __init__(self, key: bytes) -> None:
        super().__init__(key)
        self._key = hpke.MLKEM768X25519PublicKey(
            MLKEM768PublicKey.from_public_bytes(key[:ML_KEM_PUBLIC_SIZE]),
            X25519PublicKey.from_public_bytes(key[ML_KEM_PUBLIC_SIZE:]),
        )

    def _seal(self, file_key: FileKey) -> bytes:
        return HYBRID_SUITE.encrypt(file_key.reveal(), self._key, HYBRID_INFO)


class Identity:
    """A private key, which opens what was encrypted to its recipient.

    Attributes:
        text: Its text form, ``AGE-SECRET-KEY-PQ-1…`` or ``AGE-SECRET-KEY-1…``.
        recipient: The public key.
        kind: The kind of the stanzas that it opens.

    Example:
        >>> identity = Identity.generate()
        >>> Identity.parse(identity.text).recipient == identity.recipient
        True
    """

    __slots__ = ("kind", "recipient", "text")
    prefix: ClassVar[str]

    def __init__(self, seed: bytes, recipient: Recipient) -> None:
        self.text: Secret = Secret(bech32.encode(self.prefix, seed).upper())
        self.recipient: Recipient = recipient
        self.kind: str = recipient.kind

    @staticmethod
    def generate(*, classic: bool = False) -> "Identity":
        """Return a new identity: post-quantum, unless `classic` is set."""
        return (X25519Identity if classic else HybridIdentity)(os.urandom(SEED_SIZE))

    @staticmethod
    def parse(text: Secret) -> "Identity":
        """Return the identity with this text; raise `ConfigError` if it is none."""
        prefix, seed = bech32.decode(text.reveal()) or ("", b"")
        for kind in (HybridIdentity, X25519Identity):
            if prefix == kind.prefix and len(seed) == SEED_SIZE and text.reveal().isupper():
                return kind(seed)
        del seed
        raise ConfigError("an identity must be the text AGE-SECRET-KEY-…1…: copy it again")

    def unwrap(self, stanza: Stanza) -> FileKey | None:
        """Return the file key, or None if the stanza, which is of our kind, is not for us."""
        (share,) = stanza.check(self.recipient.share_size)
        try:
            return FileKey(self._open(share, stanza.body))
        except InvalidTag:
            return None
        except ValueError:
            raise MalformedError(f"age: the share in a stanza of {self.kind} is zero") from None

    def _open(self, share: bytes, body: bytes) -> bytes:
        """Return the file key; raise `InvalidTag` if it is wrapped for somebody else."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"Identity(of {self.recipient})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an identity cannot be pickled: pass it again where it is needed")


class X25519Identity(Identity):
    """A classic identity, ``AGE-SECRET-KEY-1…``."""

    __slots__ = ("_key", "_public")
    prefix = "age-secret-key-"

    def __init__(self, seed: bytes) -> None:
        self._key = X25519PrivateKey.from_private_bytes(seed)
        self._public = self._key.public_key().public_bytes_raw()
        super().__init__(seed, X25519Recipient(self._public))

    def _open(self, share: bytes, body: bytes) -> bytes:
        public = X25519PublicKey.from_public_bytes(share)
        return _x25519_cipher(self._key, public, share + self._public).decrypt(NONCE, body, None)


class HybridIdentity(Identity):
    """A post-quantum identity, ``AGE-SECRET-KEY-PQ-1…``."""

    __slots__ = ("_key",)
    prefix = "age-secret-key-pq-"

    def __init__(self, seed: bytes) -> None:
        expanded = shake_256(seed).digest(ML_KEM_SEED_SIZE + X25519_SIZE)
        ml_kem = MLKEM768PrivateKey.from_seed_bytes(expanded[:ML_KEM_SEED_SIZE])
        x25519 = X25519PrivateKey.from_private_bytes(expanded[ML_KEM_SEED_SIZE:])
        self._key = hpke.MLKEM768X25519PrivateKey(ml_kem, x25519)
        public = (key.public_key().public_bytes_raw() for key in (ml_kem, x25519))
        super().__init__(seed, HybridRecipient(b"".join(public)))

    def _open(self, share: bytes, body: bytes) -> bytes:
        return HYBRID_SUITE.decrypt(share + body, self._key, HYBRID_INFO)


class Passphrase:
    """A passphrase, which locks a key file. It is never used for content, which anybody can fetch.

    Example:
        >>> Passphrase(Secret("correct horse"))
        Passphrase(********)
    """

    __slots__ = ("_secret", "_work_factor")
    kind = SCRYPT

    def __init__(self, secret: Secret, *, work_factor: int = WORK_FACTOR) -> None:
        self._secret = secret
        self._work_factor = work_factor

    def wrap(self, file_key: FileKey) -> Stanza:
        """Return `file_key`, locked with the passphrase."""
        salt = os.urandom(SCRYPT_SALT_SIZE)
        body = self._cipher(salt, self._work_factor).encrypt(NONCE, file_key.reveal(), None)
        return Stanza(self.kind, (encode_base64(salt), str(self._work_factor)), body)

    def unwrap(self, stanza: Stanza) -> FileKey | None:
        """Return the file key, or None if another passphrase locked it."""
        *first, factor = stanza.arguments or ("",)
        (salt,) = Stanza(self.kind, tuple(first), stanza.body).check(SCRYPT_SALT_SIZE)
        if not _WORK_FACTOR.fullmatch(factor) or int(factor) > MAX_WORK_FACTOR:
            raise MalformedError(f"age: the work factor must be from 1 to {MAX_WORK_FACTOR}")
        try:
            return FileKey(self._cipher(salt, int(factor)).decrypt(NONCE, stanza.body, None))
        except InvalidTag:
            return None

    def _cipher(self, salt: bytes, work_factor: int) -> ChaCha20Poly1305:
        scrypt = Scrypt(SCRYPT_SALT + salt, 32, 1 << work_factor, 8, 1)
        try:
            return ChaCha20Poly1305(scrypt.derive(_encoded(self._secret)))
        except MemoryError:
            memory = readable_size(1024 << work_factor)  # 128 bytes, by 8, by N
            words = f"the passphrase of this key file needs {memory} of memory"
            raise ConfigError(f"{words}, which is not available: use a larger machine") from None

    def __repr__(self) -> str:
        return f"Passphrase({MASK})"


Wrapper: TypeAlias = Recipient | Passphrase
"""What a file can be encrypted to."""

Unwrapper: TypeAlias = Identity | Passphrase
"""What may open a file."""


def _encoded(passphrase: Secret) -> bytes:
    return passphrase.reveal().encode("utf-8", "surrogatepass")  # never an error, which shows it


def _hkdf(key: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(SHA256(), 32, salt, info).derive(key)


def _x25519_cipher(
    private: X25519PrivateKey, public: X25519PublicKey, salt: bytes
) -> ChaCha20Poly1305:
    """Return the cipher of the secret that both keys share; raise `ValueError` if that is zero."""
    return ChaCha20Poly1305(_hkdf(private.exchange(public), salt, X25519_INFO))
