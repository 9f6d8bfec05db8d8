"""Importing files and folders into blocks, for providers that store blocks."""

from abc import abstractmethod
from typing import TypeAlias

from holdfast._async.runtime import compute, run_blocking, run_interruptible
from holdfast.config import ClientConfig
from holdfast.content.blocks import Emit
from holdfast.content.profiles import Profile, profile_for
from holdfast.content.unixfs.files import FileImporter, Part
from holdfast.files.folder_source import FolderSource
from holdfast.files.importing import ContentImporter, import_content
from holdfast.files.sources import Progress, Source

Content: TypeAlias = Source | FolderSource


class AsyncImports:
    """Cuts content into blocks by the configured profile."""

    @property
    @abstractmethod
    def config(self) -> ClientConfig:
        """The configuration of the provider."""

    @property
    def _profile(self) -> Profile:
        return profile_for(self.config.profile, self.config.cid_version)

    async def import_content(
        self, content: Content, put_block: Emit | None, progress: Progress
    ) -> Part:
        """Cut a file or folder into blocks by the configured profile; return the root.

        Every block is passed to `put_block`, on a worker thread; None only computes the CID.
        `progress` counts the bytes of all files.
        """
        if isinstance(content, FolderSource):
            return await self.import_folder(content, put_block, progress)
        if content.json is not None and put_block is None:
            return await compute(len(content.json), import_content, content.json, self._profile)
        return await self.import_file(content, put_block, progress)

    async def import_file(self, source: Source, put_block: Emit | None, progress: Progress) -> Part:
        """Cut the bytes of `source` into blocks by the configured profile; return the root.

        Every block is passed to `put_block`, on a worker thread; None only computes the CID.
        """
        importer = FileImporter(self._profile, put_block, source.leaf_ends)
        chunks = source.chunks()
        done = 0
        while chunk := await run_interruptible(next, chunks, b""):
            await run_blocking(importer.update, chunk)
            done += len(chunk)
            progress(done, source.size)
        part = await run_blocking(importer.finish)
        if not done:
            progress(0, 0)
        return part

    async def import_folder(
        self, folder: FolderSource, put_block: Emit | None, progress: Progress
    ) -> Part:
        """Cut the files of `folder` into blocks, and build its directories; return the root.

        Every block is passed to `put_block`, on a worker thread; None only computes the CID.
        `progress` counts the bytes of all files.
        """
        importer = ContentImporter(folder, self._profile, put_block)
        try:
            while await run_blocking(importer.advance):
                progress(importer.done, folder.size)
            progress(importer.done, folder.size)
        finally:
            await run_blocking(importer.close)
        return importer.result()


def ignore(_done: int, _total: int | None) -> None:
    """Do nothing: the caller passed no progress callback."""
