# WARNING: this file is generated from src/holdfast/_async/folder_download/download.py
# by scripts/generate_sync.py. Change the original instead.
"""The whole download of a directory, from the check of the target to its new name."""

import os
from pathlib import Path

from holdfast._sync.folder_download.directories import FolderFetcher
from holdfast._sync.folder_download.entries import FOLDERS, Entries, FolderOptions
from holdfast._sync.folder_download.source import FolderSource
from holdfast._sync.folder_download.tally import Tally
from holdfast._sync.providers.base import BaseProvider
from holdfast._sync.runtime import run_blocking
from holdfast.calls import Call
from holdfast.content.codecs import kind_of
from holdfast.content.reference import Reference
from holdfast.content.unixfs.directory_nodes import not_a_directory
from holdfast.errors import MalformedError, TooLargeError
from holdfast.files.folder_target.names import is_refusal
from holdfast.files.folder_target.work_folder import WorkFolder
from holdfast.files.sources import Progress


def download_folder(
    provider: BaseProvider,
    reference: Reference,
    to: str | os.PathLike[str],
    options: FolderOptions,
    progress: Progress | None,
) -> Path:
    """Download the directory at `reference`; return the path of the new folder."""
    reader = provider.reader
    tally = Tally(progress)
    work = WorkFolder(Path(to), reference, provider.reader.form)
    with provider.call("download_folder", str(reference), total=False) as call:
        source = FolderSource(reader, reference, call)
        run_blocking(work.open)
        keep = True
        try:
            _tell_saved(work, call)
            _fill(source, work, options, tally)
            keep = False
        except BaseException as error:
            keep = not _is_final(error)
            if keep and run_blocking(work.has_progress):
                error.add_note(f"call again to continue; what is verified is kept in {work.path}")
            raise
        finally:
            run_blocking(work.close, keep=keep)
    tally.finish()
    return Path(to)


def _tell_saved(work: WorkFolder, call: Call) -> None:
    """Report how many bytes an earlier download has left, if anybody listens to events."""
    saved = run_blocking(work.saved_bytes) if call.is_heard() else 0
    if saved:
        call.tell("resume", "download continues after %d bytes", saved, position=saved)


def _fill(source: FolderSource, work: WorkFolder, options: FolderOptions, tally: Tally) -> None:
    """Fetch everything, and give it its name."""
    cid = source.root()
    entries = Entries(source, work, options, tally)
    rules = run_blocking(work.rules, portable=options.portable)
    block = entries.directory_block(cid) or source.block(cid, ())
    if kind_of(cid, block) not in FOLDERS:
        raise not_a_directory(cid)
    entries.save(cid, block)
    FolderFetcher(source, work, entries, rules).fetch((), cid)
    run_blocking(work.commit, entries.usage.entries)


def _is_final(error: BaseException) -> bool:
    """Return whether the same call would be refused again, so that nothing is worth keeping."""
    is_refused = isinstance(error, OSError) and is_refusal(error)
    return is_refused or isinstance(error, MalformedError | TooLargeError)
