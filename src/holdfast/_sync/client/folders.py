# WARNING: this file is generated from src/holdfast/_async/client/folders.py
# by scripts/generate_sync.py. Change the original instead.
"""The methods of a client for directories: what is in them, and copies of them on disk."""

import os
from pathlib import Path

from holdfast import arguments
from holdfast._sync.client.base import ClientBase
from holdfast._sync.folder_download.download import download_folder
from holdfast._sync.folder_download.entries import FolderOptions
from holdfast.content.reference import Reference
from holdfast.files.sources import Progress


class FolderCalls(ClientBase):
    """Looks into directories, and downloads them."""

    def download_folder(
        self,
        cid: str,
        to: str | os.PathLike[str],
        *,
        symlinks: bool = False,
        portable: bool = False,
        progress: Progress | None = None,
    ) -> Path:
        """Download the directory at `cid` to the new folder `to`, and return its path.

        The folder appears complete and verified, or not at all. After an interruption, the same
        call continues with what is verified; until then it is in a hidden folder beside `to`.

        Args:
            cid: A CID, a path under one, or a URL with ``/ipfs/`` in it.
            to: The folder to make. An empty one that is there is replaced.
            symlinks: Whether to write symbolic links, if they stay inside. Otherwise a link is an
                error.
            portable: Whether to refuse names that some other system cannot have, such as ``CON``
                or two names that differ only in case. Names that this disk cannot have are always
                refused.
            progress: Called with the bytes that are there so far, and None; at the end with the
                total.

        Example:
            >>> def example(client: Client, cid: str) -> list[str]:
            ...     folder = client.download_folder(cid, "photos")
            ...     return [path.name for path in folder.iterdir()]
        """
        self._check_open()
        arguments.check_progress(progress)
        options = FolderOptions(symlinks=symlinks, portable=portable)
        return download_folder(self._provider, Reference.parse(cid), to, options, progress)
