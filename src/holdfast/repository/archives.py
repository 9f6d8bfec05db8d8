"""Reading an archive (CAR) into an add."""

from collections.abc import Iterable

from holdfast.content.car import CarReader
from holdfast.content.cid import CID
from holdfast.errors import MalformedError
from holdfast.repository.adding import Adding


def put_archive(adding: Adding, pieces: Iterable[bytes]) -> tuple[list[CID], int]:
    """Put the blocks of an archive into `adding`; return its roots and the number of blocks."""
    reader = CarReader()
    count = 0
    for piece in pieces:
        for cid, data in reader.update(piece):
            adding.put(cid, data)
            count += 1
    reader.finish()
    adding.flush()
    if not reader.roots:
        raise MalformedError("CAR: the archive names no root, so there is nothing to pin")
    return list(dict.fromkeys(reader.roots)), count
