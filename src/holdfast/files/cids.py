"""`compute_cid` and `verify`: real IPFS CIDs, without asking anyone."""

import hashlib
import os

from holdfast.content.cid import DAG_PB, SHA2_256, raw_text
from holdfast.content.profiles import CANDIDATES, profile_named
from holdfast.content.proof import block_proof
from holdfast.content.reference import Reference
from holdfast.content.unixfs.files import FileImporter
from holdfast.errors import UnprovenError
from holdfast.files.importing import Importable, chunks_of, import_content


def compute_cid(source: Importable, *, profile: str = "unixfs-v1-2025") -> str:
    """The CID that an IPFS node gives to `source` under `profile`. Nothing is stored or sent.

    Args:
        source: A path of a file or directory, bytes, a binary file, or an iterable of bytes.
        profile: How the content is cut: ``unixfs-v1-2025``, ``unixfs-v0-2015`` (CIDv0, Kubo's
            old default) or ``kubo-legacy-cidv1`` (Kubo's old ``--cid-version=1``).

    Example:
        >>> compute_cid(b"hello")
        'bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq'
        >>> compute_cid(b"hello", profile="unixfs-v0-2015")
        'QmWfVY9y3xjsixTgbd9AorQxH7VtMpzfx2HaWtsoUYecaX'
    """
    layout = profile_named(profile)
    if isinstance(source, bytes) and layout.raw_leaves and len(source) <= layout.chunk_size:
        return raw_text(hashlib.sha256(source).digest())
    return str(import_content(source, layout).cid)


def verify(source: Importable, cid: str) -> bool:
    """True, if `source` is proven to be what `cid` names; anything else is an error.

    A CID of one raw block is proven or disproven by its hash. Another names a tree of blocks, whose
    shape depends on how the content was cut: all known ways are tried, and where none fits, that
    proves nothing.

    Raises:
        VerificationError: The content is not what the CID names.
        UnprovenError: No known layout gives this CID, or its hash function is not supported.

    Example:
        >>> verify(b"hello", "bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq")
        True
    """
    reference = Reference.parse(Reference.parse_cid(cid))
    if reference.cid.codec == DAG_PB and reference.cid.hash_code == SHA2_256:
        return _verify_tree(source, reference)
    proof = block_proof(reference)
    for chunk in chunks_of(source):
        proof.update(chunk)
    proof.finish()
    return True


def _verify_tree(source: Importable, reference: Reference) -> bool:
    """Whether a known layout gives the CID; `UnprovenError` where none does."""
    if isinstance(source, str | os.PathLike):
        # One after the other, each at the speed of the disk; most likely the first one fits.
        found = any(import_content(source, each).cid == reference.cid for each in CANDIDATES)
    else:
        importers = [FileImporter(each) for each in CANDIDATES]
        for chunk in chunks_of(source):
            for importer in importers:
                importer.update(chunk)
        found = any(importer.finish().cid == reference.cid for importer in importers)
    if not found:
        raise UnprovenError(
            f"no known layout of this content gives {reference}: it is another content, "
            "or was cut in another way",
            cid=str(reference),
        )
    return True
