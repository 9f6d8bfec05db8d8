"""The file format age v1 (https://c2sp.org/age): what encrypted content is.

A file has a header, which wraps its file key for each reader, and a payload, in chunks that are
encrypted with that key. Pure: it takes bytes and returns bytes. Its random numbers are keys, which
nobody may choose: they are those of the operating system.

    bech32    the text form of keys
    stanzas   one part of a header: the file key, wrapped for one reader
    keys      recipients, identities and passphrases, which wrap and unwrap a file key
    header    all stanzas and their MAC
    stream    the payload: chunks that can be read in any order, and a reader of all of them
    keyring   the keys of an encrypted view
    whole     small content that is encrypted and decrypted in memory

Armor, plugins, SSH keys and tagged recipients are not supported.
"""

try:
    from cryptography.hazmat.primitives.hpke import MLKEM768X25519PrivateKey  # noqa: F401
except ImportError:
    raise ModuleNotFoundError(
        "encryption needs cryptography 48 or newer: pip install 'holdfast[encryption]'",
        name="cryptography",
    ) from None
