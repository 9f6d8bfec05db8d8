"""The whole download of a directory, from the check of the target to its new name."""

import os
from pathlib import Path

from holdfast._async.folder_download.directories import AsyncFolderFetcher
from holdfast._async.folder_download.entries import FOLDERS, AsyncEntries, FolderOptions
from holdfast._async.folder_download.source import AsyncFolderSource
from holdfast._async.folder_download.tally import Tally
from holdfast._async.providers.base import AsyncBaseProvider
from holdfast._async.runtime import run_blocking
from holdfast.calls import Call
from holdfast.content.codecs import kind_of
from holdfast.content.reference import Reference
from holdfast.content.unixfs.directory_nodes import not_a_directory
from holdfast.errors import MalformedError, TooLargeError
from holdfast.files.folder_target.names import is_refusal
from holdfast.files.folder_target.work_folder import WorkFolder
from holdfast.files.sources import Progress


async def download_folder(
    provider: AsyncBaseProvider,
    reference: Reference,
    to: str | os.PathLike[str],
    options: FolderOptions,
    progress: Progress | None,
) -> Path:
    """Download the directory at `reference`; return the path of the new folder."""
    reader = provider.reader
    tally = Tally(progress)
    work = WorkFolder(Path(to), reference, provider.reader.form)
    async with provider.call("download_folder", str(reference), total=False) as call:
        source = AsyncFolderSource(reader, reference, call)
        await run_blocking(work.open)
        keep = True
        try:
            await _tell_saved(work, call)
            await _fill(source, work, options, tally)
            keep = False
        except BaseException as error:
            keep = not _is_final(error)
            if keep and await run_blocking(work.has_progress):
                error.add_note(f"call again to continue; what is verified is kept in {work.path}")
            raise
        finally:
            await run_blocking(work.close, keep=keep)
    tally.finish()
    return Path(to)


async def _tell_saved(work: WorkFolder, call: Call) -> None:
    """Report how many bytes an earlier download has left, if anybody listens to events."""
    saved = await run_blocking(work.saved_bytes) if call.is_heard() else 0
    if saved:
        call.tell("resume", "download continues after %d bytes", saved, position=saved)


async def _fill(
    source: AsyncFolderSource, work: WorkFolder, options: FolderOptions, tally: Tally
) -> None:
    """Fetch everything, and give it its name."""
    cid = await source.root()
    entries = AsyncEntries(source, work, options, tally)
    rules = await run_blocking(work.rules, portable=options.portable)
    block = await entries.directory_block(cid) or await source.block(cid, ())
    if kind_of(cid, block) not in FOLDERS:
        raise not_a_directory(cid)
    await entries.save(cid, block)
    await AsyncFolderFetcher(source, work, entries, rules).fetch((), cid)
    await run_blocking(work.commit, entries.usage.entries)


def _is_final(error: BaseException) -> bool:
    """Return whether the same call would be refused again, so that nothing is worth keeping."""
    is_refused = isinstance(error, OSError) and is_refusal(error)
    return is_refused or isinstance(error, MalformedError | TooLargeError)
