"""`compute_cid` and `verify`: the CIDs of local content. Nothing is sent."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Unpack, cast

from holdfast.content.blocks import check_provable, inline_block, missing_block
from holdfast.content.cid import CID, raw_text
from holdfast.content.codecs import is_one_block, require_codec
from holdfast.content.profiles import candidates_for, profile_named
from holdfast.content.proof import HashProof, Proof, wrong_bytes
from holdfast.content.reference import Reference
from holdfast.content.unixfs import layouts
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.files import Tree
from holdfast.errors import InvalidCIDError
from holdfast.sources.blob import Blob
from holdfast.sources.folder_source import (
    IGNORE_FILE,
    FolderSelection,
    FolderSource,
    open_file_or_folder,
)
from holdfast.sources.importing import import_content, leaves_on_disk
from holdfast.sources.sources import Progress, Source, Uploadable, no_progress


def compute_cid(
    source: Uploadable,
    *,
    profile: str = "unixfs-v1-2025",
    include_hidden: bool = False,
    exclude: Sequence[str] = (),
    ignore_file: str | None = IGNORE_FILE,
    progress: Progress | None = None,
) -> str:
    """Return the CID that an IPFS node gives to `source`. Nothing is stored or sent.

    Args:
        source: A path of a file or directory, bytes, a binary file, or an iterable of bytes.
        profile: How the content is cut into blocks: ``unixfs-v1-2025``, ``unixfs-v0-2015`` (CIDv0,
            Kubo's old default) or ``kubo-legacy-cidv1`` (Kubo's old ``--cid-version=1``).
        include_hidden: Whether names in a directory that begin with a dot are part of it.
        exclude: Patterns of names in a directory to leave out, as for `Client.upload`.
        ignore_file: The file in the directory with more such patterns; None for none.
        progress: Called as ``progress(done_bytes, total_bytes_or_None)`` during reading.

    Example:
        >>> compute_cid(b"hello")
        'bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq'
        >>> compute_cid(b"hello", profile="unixfs-v0-2015")
        'QmWfVY9y3xjsixTgbd9AorQxH7VtMpzfx2HaWtsoUYecaX'
    """
    layout = profile_named(profile)
    if isinstance(source, bytes | bytearray | memoryview):
        size = memoryview(source).nbytes
        (progress or no_progress)(size, size)
        if layout.raw_leaves and len(source) <= layout.chunk_size and isinstance(source, bytes):
            return raw_text(hashlib.sha256(source).digest())
        return str(import_content(source, layout).cid)
    report = _reported(source, progress)
    with closing(
        _open(source, include_hidden=include_hidden, exclude=exclude, ignore_file=ignore_file)
    ) as content:
        return str(import_content(content, layout, progress=report).cid)


def verify(
    source: Uploadable,
    cid: str,
    *,
    include_hidden: bool = False,
    exclude: Sequence[str] = (),
    ignore_file: str | None = IGNORE_FILE,
    progress: Progress | None = None,
) -> bool:
    """Return True if `source` is the content that `cid` names; raise an error if not.

    The CID of one raw block is its hash, so the answer is certain. Other CIDs name a tree of blocks
    whose shape depends on how the content was cut. All known layouts are tried. If none gives the
    CID, the content may still be right. `include_hidden`, `exclude` and `ignore_file` are as for
    `compute_cid`; what they leave out is not verified. `progress` is called as by `compute_cid`,
    from the start for each layout.

    Raises:
        VerificationError: The content is not the one that the CID names.
        UnprovenError: No known layout gives this CID, or its hash function is not supported.

    Example:
        >>> verify(b"hello", "bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq")
        True
    """
    reference = Reference.parse(cid)
    if reference.path:
        reason = "a path inside a CID cannot be verified, only a CID"
        raise InvalidCIDError(reason=reason, value=reference)
    require_codec(reference.cid)
    report = _reported(source, progress)
    with closing(
        _open(source, include_hidden=include_hidden, exclude=exclude, ignore_file=ignore_file)
    ) as content:
        if is_one_block(reference.cid):
            _verify_block(content, reference, report)
        elif inline_block(reference.cid) is not None:
            _verify_inline(content, reference, report)
        else:
            check_provable(reference.cid)
            if reference.cid not in _roots(content, reference.cid, report):
                raise layouts.no_layout_fits(reference.cid)
    return True


def _open(source: Uploadable, **selection: Unpack[FolderSelection]) -> Source | FolderSource:
    if isinstance(source, bytes | bytearray | memoryview):
        source = cast("list[bytes]", [source])  # the source of a single buffer would copy it
    return open_file_or_folder(source, **selection)


def _reported(source: Uploadable, progress: Progress | None) -> Progress:
    """Return `progress`, without the total for an open file: it may be a stream that grows."""
    if progress is None or isinstance(source, Blob) or not hasattr(source, "read"):
        return progress or no_progress
    return lambda done, _total: progress(done, None)


def _feed(source: Source, proof: Proof, progress: Progress) -> None:
    """Pass all bytes of `source` to `proof`; raise an error if they need another block."""
    for chunk in source.chunks():
        progress(source.bytes_read, source.size)
        proof.update(chunk)
        if proof.need is not None:
            raise missing_block(proof.need)


def _verify_block(content: Source | FolderSource, reference: Reference, progress: Progress) -> None:
    proof = HashProof(reference)
    if isinstance(content, FolderSource):
        raise wrong_bytes(reference)
    _feed(content, proof, progress)
    proof.finish()


def _verify_inline(
    content: Source | FolderSource, reference: Reference, progress: Progress
) -> None:
    """Verify `content` against a dag-pb node that is inside the CID itself."""
    if isinstance(content, FolderSource):
        raise IsADirectoryError(f"{content.path} is a directory, not a file")
    proof = BodyProof(reference.cid)
    proof.feed_block(reference.cid.digest)
    _feed(content, proof, progress)
    proof.finish()


def _roots(content: Source | FolderSource, root: CID, progress: Progress) -> Iterator[CID]:
    """Yield the roots of `content` in the known layouts that may give `root`."""
    profiles = candidates_for(root)
    if isinstance(content, FolderSource):
        yield from (import_content(content, profile, progress=progress).cid for profile in profiles)
        if _has_age_file(content):
            content = content.map(_with_header_leaf, int)
            for profile in profiles:
                yield import_content(content, profile, progress=progress).cid
    elif content.file is None or content.leaf_ends or _with_header_leaf(content).leaf_ends:
        # In one pass: it may not be readable twice.
        proof = layouts.LayoutProof(root, content.leaf_ends)
        _feed(content, proof, progress)
        yield from proof.roots()
    else:  # once for each kind of leaves, with several threads
        for group in layouts.by_leaves(profiles):
            trees, done = [Tree(profile) for profile in group], 0
            for leaf in leaves_on_disk(content, group[0]):
                done += leaf.size
                progress(done, content.size)
                for tree in trees:
                    tree.add(leaf)
            yield from (tree.root().cid for tree in trees)


def _has_age_file(folder: FolderSource) -> bool:
    for entry in folder.entries:
        if entry.kind == "file":
            with folder.open(entry) as source:
                if _with_header_leaf(source).leaf_ends:
                    return True
    return False


def _with_header_leaf(source: Source) -> Source:
    """Give the header of an age file on disk a leaf of its own, as encrypted views do."""
    if source.file is not None:
        beginning = os.pread(source.file.fileno(), layouts.MAX_AGE_HEADER, 0)
        source.leaf_ends = layouts.header_ends(beginning)
    return source
