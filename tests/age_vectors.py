"""The test vectors of age, and age files of any size for tests."""

import os
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.config.secret import Secret
from holdfast.content.age.header import Header
from holdfast.content.age.keys import FileKey, Identity, Passphrase
from holdfast.content.age.stream import CHUNK_SIZE, NONCE_SIZE, ChunkCipher

FOLDER = Path(__file__).parent / "data" / "age"


@dataclass
class Vector:
    """A file of the testkit."""

    expect: str = ""
    payload: str = ""
    file_key: bytes = b""
    keys: list = field(default_factory=list)
    is_armored: bool = False
    file: bytes = b""


def read_vector(name):
    """Return the vector in the file `name`."""
    head, _, file = (FOLDER / name).read_bytes().partition(b"\n\n")
    vector = Vector(file=file)
    for line in head.decode().splitlines():
        key, _, value = line.partition(": ")
        match key:
            case "expect" | "payload":
                setattr(vector, key, value)
            case "file key":
                vector.file_key = bytes.fromhex(value)
            case "identity":
                vector.keys.append(Identity.parse(Secret(value)))
            case "passphrase":
                vector.keys.append(Passphrase(Secret(value)))
            case "armored":
                vector.is_armored = True
            case "compressed":
                vector.file = zlib.decompress(file)
            case _:
                assert key == "comment"
    return vector


def names(prefix=""):
    """Return the names of the vectors that begin with `prefix`."""
    return sorted(path.name for path in FOLDER.iterdir() if path.name.startswith(prefix))


def encrypted(content, recipients):
    """Return content of any size as an age file."""
    file_key, nonce = FileKey.generate(), os.urandom(NONCE_SIZE)
    cipher = ChunkCipher(file_key, nonce)
    starts = range(0, max(1, len(content)), CHUNK_SIZE)
    chunks = (
        cipher.encrypt(
            start // CHUNK_SIZE, content[start : start + CHUNK_SIZE], last=start == starts[-1]
        )
        for start in starts
    )
    return b"".join([Header.make(file_key, recipients).raw, nonce, *chunks])
