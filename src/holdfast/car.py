"""Archives (CAR) without a store: `pack` writes one; a client with ``provider="car"`` reads it."""

import os
from contextlib import ExitStack, closing
from typing import Any, BinaryIO, Unpack

from holdfast.content.profiles import profile_named
from holdfast.disk.atomic import PendingFile
from holdfast.sinks.sinks import spool
from holdfast.sources.archive_sources import BuiltArchive
from holdfast.sources.folder_source import FolderSelection, FolderSource, open_file_or_folder
from holdfast.sources.importing import ContentImporter
from holdfast.sources.sources import Progress, Source, Uploadable, no_progress


def pack(
    source: "Uploadable | FolderSource",
    target: str | os.PathLike[str] | BinaryIO,
    *,
    profile: str = "unixfs-v1-2025",
    progress: Progress | None = None,
    **selection: Unpack[FolderSelection],
) -> str:
    """Write an archive (CAR version 1) of a file or directory; return its only root.

    The root is the CID that `compute_cid` returns. It is in front of the blocks, so the content is
    read twice: content that changes in between is an OSError. What can be read only once is copied
    to a temporary file first. Each block is in the archive once, and comes before the blocks that
    link to it; the root is the last.

    Args:
        source: A path of a file or directory, bytes, a binary file, or an iterable of bytes.
        target: A path, where the archive appears complete or not at all; or a binary file.
        profile: How the content is cut into blocks, as for `compute_cid`.
        progress: Called as ``progress(done_bytes, total_bytes_or_None)``. The bytes of both
            readings are counted.
        selection: What of a directory is packed: `include_hidden`, `exclude` and `ignore_file`, as
            for `compute_cid`.

    Example:
        >>> from holdfast import Client
        >>> root = pack(b"hello", "hello.car")
        >>> with Client.init(provider="car", path="hello.car") as client:
        ...     client.download(root).read()
        b'hello'
    """
    layout = profile_named(profile)
    report = progress or no_progress
    with ExitStack() as stack:
        content = open_file_or_folder(source, **selection)
        stack.enter_context(closing(content))
        out: Any = target
        if isinstance(target, str | os.PathLike):
            if isinstance(content, FolderSource):
                path = os.path.relpath(os.path.realpath(target), os.path.realpath(content.path))
                if path in (entry.path for entry in content.entries):
                    raise OSError(f"{target} is in the folder itself: write it elsewhere")
            out = stack.enter_context(PendingFile(target))
        if isinstance(content, Source) and not content.rewindable:
            content = stack.enter_context(spool(content))
        size, total = content.size or 0, None if content.size is None else 2 * content.size
        with closing(ContentImporter(content, layout)) as importer:
            while importer.advance():
                report(importer.done, total)
            root = importer.result().cid
        archive = BuiltArchive(content, layout, root)
        for piece in archive.chunks():
            out.write(piece)
            report(size + archive.done, total)
        if isinstance(out, PendingFile):
            out.commit()
    return str(root)
