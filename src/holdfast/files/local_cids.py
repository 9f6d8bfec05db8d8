"""`compute_cid` and `verify`: the CIDs of local content. Nothing is sent."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.content.blocks import check_provable, inline_block, missing_block
from holdfast.content.cid import CID, raw_text
from holdfast.content.codecs import is_one_block, require_codec
from holdfast.content.profiles import Profile, candidates_for, profile_named
from holdfast.content.proof import block_proof, wrong_bytes
from holdfast.content.reference import Reference
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.files import Tree
from holdfast.content.unixfs.layouts import Layouts, by_leaves, no_layout_fits
from holdfast.errors import InvalidCIDError
from holdfast.files.blob import Blob
from holdfast.files.folder_source import FolderSource
from holdfast.files.importing import Seen, chunks_of, import_content, import_folder, leaves_of
from holdfast.files.sources import Progress, Uploadable, existing_path


def compute_cid(
    source: Uploadable,
    *,
    profile: str = "unixfs-v1-2025",
    include_hidden: bool = False,
    progress: Progress | None = None,
) -> str:
    """Return the CID that an IPFS node gives to `source`. Nothing is stored or sent.

    Args:
        source: A path of a file or directory, bytes, a binary file, or an iterable of bytes.
        profile: How the content is cut into blocks: ``unixfs-v1-2025``, ``unixfs-v0-2015`` (CIDv0,
            Kubo's old default) or ``kubo-legacy-cidv1`` (Kubo's old ``--cid-version=1``).
        include_hidden: Whether names in a directory that begin with a dot are part of it.
        progress: Called as ``progress(done_bytes, total_bytes_or_None)`` during reading.

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
    given = _scanned(source, include_hidden=include_hidden)
    seen = _counter(given, progress)
    if isinstance(given, FolderSource):
        return str(import_folder(given, layout, seen=seen).cid)
    return str(import_content(given, layout, seen=seen).cid)


def verify(
    source: Uploadable, cid: str, *, include_hidden: bool = False, progress: Progress | None = None
) -> bool:
    """Return True if `source` is the content that `cid` names; raise an error if not.

    The CID of one raw block is its hash, so the answer is certain. Other CIDs name a tree of blocks
    whose shape depends on how the content was cut. All known layouts are tried. If none gives the
    CID, the content may still be right. `include_hidden` is as for `compute_cid`. `progress` is
    called as by `compute_cid`, from the start for each layout.

    Raises:
        VerificationError: The content is not the one that the CID names.
        UnprovenError: No known layout gives this CID, or its hash function is not supported.

    Example:
        >>> verify(b"hello", "bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq")
        True
    """
    reference = Reference.parse(cid)
    if reference.path:
        raise InvalidCIDError(reason="a path inside a CID cannot be verified, only a CID")
    require_codec(reference.cid)
    if is_one_block(reference.cid):
        _verify_block(source, reference, _counter(source, progress))
    elif inline_block(reference.cid) is not None:
        _verify_inline(source, reference, _counter(source, progress))
    else:
        check_provable(reference.cid)
        given = _scanned(source, include_hidden=include_hidden)
        _verify_tree(given, reference, progress)
    return True


def _scanned(source: Uploadable, *, include_hidden: bool) -> "Uploadable | FolderSource":
    """Return `source`, or what is in it if it is the path of a directory."""
    if isinstance(source, str | os.PathLike) and existing_path(source).is_dir():
        return FolderSource.of(source, include_hidden=include_hidden)
    return source


def _counter(source: "Uploadable | FolderSource", progress: Progress | None) -> Seen | None:
    """Return a function that counts the bytes of one reading of `source` for `progress`."""
    if progress is None:
        return None
    total = _size(source)
    done = 0

    def seen(count: int) -> None:
        nonlocal done
        done += count
        progress(done, total)

    return seen


def _size(source: "Uploadable | FolderSource") -> int | None:
    """Return how many bytes `source` has; None if only reading shows it."""
    if isinstance(source, FolderSource):
        return source.size
    if isinstance(source, bytes | bytearray | memoryview):
        return memoryview(source).nbytes
    if isinstance(source, Blob):
        return source.size
    path = existing_path(source) if isinstance(source, str | os.PathLike) else None
    # Some files of the system report a size of 0 and have content.
    return path.stat().st_size or None if path is not None and path.is_file() else None


def _verify_block(source: Uploadable, reference: Reference, seen: Seen | None) -> None:
    proof = block_proof(reference)
    if isinstance(source, str | os.PathLike) and existing_path(source).is_dir():
        raise wrong_bytes(reference)
    for chunk in chunks_of(source, seen):
        proof.update(chunk)
    proof.finish()


def _verify_inline(source: Uploadable, reference: Reference, seen: Seen | None) -> None:
    """Verify `source` against a dag-pb node that is inside the CID itself."""
    proof = BodyProof(reference.cid)
    proof.feed_block(reference.cid.digest)
    for chunk in chunks_of(source, seen):
        proof.update(chunk)
        if proof.need is not None:
            raise missing_block(proof.need)
    proof.finish()


def _verify_tree(
    source: "Uploadable | FolderSource", reference: Reference, progress: Progress | None
) -> None:
    """Raise `UnprovenError` unless a known layout gives the CID."""
    layouts = candidates_for(reference.cid)
    if not any(root == reference.cid for root in _roots(source, layouts, progress)):
        raise no_layout_fits(reference.cid)


def _roots(
    source: "Uploadable | FolderSource", profiles: tuple[Profile, ...], progress: Progress | None
) -> Iterator[CID]:
    """Yield the root of `source` in each of `profiles`."""
    if isinstance(source, FolderSource):
        for each in profiles:
            yield import_folder(source, each, seen=_counter(source, progress)).cid
        return
    path = existing_path(source) if isinstance(source, str | os.PathLike) else None
    if path is not None and path.is_file():
        yield from _roots_of_file(path, profiles, progress)
    else:
        layouts = Layouts(profiles)  # in one pass: it may not be readable twice
        for chunk in chunks_of(source, _counter(source, progress)):
            layouts.update(chunk)
        yield from layouts.roots().values()


def _roots_of_file(
    path: Path, profiles: tuple[Profile, ...], progress: Progress | None
) -> Iterator[CID]:
    """Yield the root in each of `profiles`; read the file once for each kind of leaves."""
    for group in by_leaves(profiles):
        trees = [Tree(profile) for profile in group]
        for leaf in leaves_of(path, group[0], seen=_counter(path, progress)):
            for tree in trees:
                tree.add(leaf)
        yield from (tree.root().cid for tree in trees)
