"""`compute_cid` and `verify`: real IPFS CIDs, without asking anyone."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.content.blocks import missing_block, unsupported_hash
from holdfast.content.cid import CID, DAG_PB, RAW, raw_text
from holdfast.content.hashes import FUNCTIONS, IDENTITY
from holdfast.content.profiles import Profile, candidates_for, profile_named
from holdfast.content.proof import block_proof, wrong_bytes
from holdfast.content.reference import Reference
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.file_nodes import not_unixfs
from holdfast.content.unixfs.files import Tree
from holdfast.content.unixfs.layouts import Layouts, by_leaves, no_layout_fits
from holdfast.errors import InvalidCIDError
from holdfast.files.blob import Blob
from holdfast.files.importing import Seen, chunks_of, import_content, leaves_of
from holdfast.files.sources import Progress, Uploadable, existing_path


def compute_cid(
    source: Uploadable, *, profile: str = "unixfs-v1-2025", progress: Progress | None = None
) -> str:
    """The CID that an IPFS node gives to `source` under `profile`. Nothing is stored or sent.

    Args:
        source: A path of a file or directory, bytes, a binary file, or an iterable of bytes.
        profile: How the content is cut: ``unixfs-v1-2025``, ``unixfs-v0-2015`` (CIDv0, Kubo's
            old default) or ``kubo-legacy-cidv1`` (Kubo's old ``--cid-version=1``).
        progress: Called as ``progress(done_bytes, total_bytes_or_None)`` while it is read.

    Example:
        >>> compute_cid(b"hello")
        'bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq'
        >>> compute_cid(b"hello", profile="unixfs-v0-2015")
        'QmWfVY9y3xjsixTgbd9AorQxH7VtMpzfx2HaWtsoUYecaX'
    """
    layout = profile_named(profile)
    if isinstance(source, bytes) and layout.raw_leaves and len(source) <= layout.chunk_size:
        if progress is not None:
            progress(len(source), len(source))
        return raw_text(hashlib.sha256(source).digest())
    return str(import_content(source, layout, seen=_counter(source, progress)).cid)


def verify(source: Uploadable, cid: str, *, progress: Progress | None = None) -> bool:
    """True, if `source` is proven to be what `cid` names; anything else is an error.

    A CID of one raw block is proven or disproven by its hash. Another names a tree of blocks, whose
    shape depends on how the content was cut: all known ways are tried, and where none fits, that
    proves nothing. `progress` is called as by `compute_cid`, from the start for each way.

    Raises:
        VerificationError: The content is not what the CID names.
        UnprovenError: No known layout gives this CID, or its hash function is not supported.

    Example:
        >>> verify(b"hello", "bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq")
        True
    """
    reference = Reference.parse(cid)
    if reference.path:
        raise InvalidCIDError(reason="a path inside a CID cannot be verified, only a CID")
    match reference.cid.codec, reference.cid.hash_code:
        case codec, code if codec == DAG_PB and code in FUNCTIONS:
            _verify_tree(source, reference, progress)
        case codec, code if codec == DAG_PB and code == IDENTITY:
            _verify_inline(source, reference, _counter(source, progress))
        case codec, _ if codec == RAW:
            _verify_block(source, reference, _counter(source, progress))
        case codec, _ if codec == DAG_PB:
            raise unsupported_hash(reference.cid)
        case _:
            raise not_unixfs(reference.cid)
    return True


def _counter(source: Uploadable, progress: Progress | None) -> Seen | None:
    """`progress` for one reading of `source`."""
    if progress is None:
        return None
    total = _size(source)
    done = 0

    def seen(count: int) -> None:
        nonlocal done
        done += count
        progress(done, total)

    return seen


def _size(source: Uploadable) -> int | None:
    """How many bytes there are to read, where that can be told beforehand."""
    if isinstance(source, bytes | bytearray | memoryview):
        return memoryview(source).nbytes
    if isinstance(source, Blob):
        return source.size
    path = existing_path(source) if isinstance(source, str | os.PathLike) else None
    # Some files of the system say that they have no bytes, and have some.
    return path.stat().st_size or None if path is not None and path.is_file() else None


def _verify_block(source: Uploadable, reference: Reference, seen: Seen | None) -> None:
    proof = block_proof(reference)
    if isinstance(source, str | os.PathLike) and existing_path(source).is_dir():
        raise wrong_bytes(reference)
    for chunk in chunks_of(source, seen):
        proof.update(chunk)
    proof.finish()


def _verify_inline(source: Uploadable, reference: Reference, seen: Seen | None) -> None:
    """For a dag-pb node that the CID itself carries."""
    proof = BodyProof(reference.cid)
    proof.feed_block(reference.cid.digest)
    for chunk in chunks_of(source, seen):
        proof.update(chunk)
        if proof.need is not None:
            raise missing_block(proof.need)
    proof.finish()


def _verify_tree(source: Uploadable, reference: Reference, progress: Progress | None) -> None:
    """Nothing, if a known layout gives the CID; `UnprovenError` where none does."""
    layouts = candidates_for(reference.cid)
    if not any(root == reference.cid for root in _roots(source, layouts, progress)):
        raise no_layout_fits(reference.cid)


def _roots(
    source: Uploadable, profiles: tuple[Profile, ...], progress: Progress | None
) -> Iterator[CID]:
    """Yield the root of `source` under each of `profiles`."""
    path = existing_path(source) if isinstance(source, str | os.PathLike) else None
    if path is not None and path.is_dir():
        for each in profiles:
            yield import_content(path, each, seen=_counter(path, progress)).cid
    elif path is not None and path.is_file():
        yield from _roots_of_file(path, profiles, progress)
    else:
        layouts = Layouts(profiles)  # in one pass: there may be no second
        for chunk in chunks_of(source, _counter(source, progress)):
            layouts.update(chunk)
        yield from layouts.roots().values()


def _roots_of_file(
    path: Path, profiles: tuple[Profile, ...], progress: Progress | None
) -> Iterator[CID]:
    """Yield the root under each layout, with one pass over the file for each kind of leaves."""
    for group in by_leaves(profiles):
        trees = [Tree(profile) for profile in group]
        for leaf in leaves_of(path, group[0], seen=_counter(path, progress)):
            for tree in trees:
                tree.add(leaf)
        yield from (tree.root().cid for tree in trees)
