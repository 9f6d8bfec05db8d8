"""Whether a file on disk has the content of a CID, found out without any request."""

from collections.abc import Iterator
from typing import BinaryIO, Final

from holdfast.content.cid import CID
from holdfast.content.codecs import is_one_block
from holdfast.content.hashes import FUNCTIONS, IDENTITY
from holdfast.content.profiles import candidates_for
from holdfast.content.unixfs.layouts import Layouts

PIECE: Final = 1 << 20


def has_content(file: BinaryIO, cid: CID) -> bool:
    """Return whether the bytes of `file` are the content of `cid`.

    A raw block is hashed. Any other file is imported again in the known layouts; False may also
    mean that it was cut in another way.

    Example:
        >>> import io
        >>> has_content(io.BytesIO(b"hello"), CID.of_raw(b"hello"))
        True
    """
    if not is_one_block(cid):
        layouts = Layouts(candidates_for(cid))
        for piece in _pieces(file):
            layouts.update(piece)
        return cid in layouts.roots().values()
    if cid.hash_code == IDENTITY:
        return file.read(len(cid.digest) + 1) == cid.digest
    function = FUNCTIONS.get(cid.hash_code)
    if function is None:
        return False
    digest = function.new(b"")
    for piece in _pieces(file):
        digest.update(piece)
    return bool(digest.digest() == cid.digest)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.read(PIECE), b"")
