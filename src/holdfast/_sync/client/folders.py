# WARNING: this file is generated from src/holdfast/_async/client/folders.py
# by scripts/generate_sync.py. Change the original instead.
"""The methods of a client for directories: what is in them, and copies of them on disk."""

import os
from collections.abc import Iterator
from pathlib import Path

from holdfast import arguments
from holdfast._sync.client.base import ClientBase
from holdfast.content.reference import Reference
from holdfast.files.sources import Progress
from holdfast.records import Entry


class FolderCalls(ClientBase):
    """Looks into directories, and downloads them."""

    def entries(self, cid: str, *, details: bool = False) -> list[Entry]:
        """Return the entries of the directory at `cid`, in the directory's order.

        Args:
            cid: A CID, a path under one, or a URL with ``/ipfs/`` in it.
            details: Whether to read the root of each entry, several at a time, for its kind and
                size. Without, both are None, except for files of one raw block.

        Example:
            >>> record = client.upload("photos")
            >>> [entry.name for entry in client.entries(record.cid)]
            ['kelp.png']
        """
        return [entry for entry in self.iter_entries(cid, details=details)]

    def iter_entries(self, cid: str, *, details: bool = False) -> Iterator[Entry]:
        """Yield the entries of the directory at `cid` as its blocks arrive.

        A directory of a million entries takes little memory. The arguments are those of `entries`.

        Example:
            >>> record = client.upload("photos")
            >>> for entry in client.iter_entries(record.cid, details=True):
            ...     print(entry.name, entry.size)
            kelp.png 7
        """
        self._check_open()
        provider = self._provider.require("iter_entries")
        return provider.iter_entries(Reference.parse(cid), details=details)

    def stat(self, cid: str) -> Entry:
        """Return the kind and the size of the content at `cid`; only its root is read.

        The size is the bytes of a file, or of the target of a symbolic link; None for a directory.

        Example:
            >>> record = client.upload("photos")
            >>> (client.stat(record.cid)).kind
            'directory'
        """
        self._check_open()
        return self._provider.require("stat").stat(Reference.parse(cid))

    def download_folder(
        self,
        cid: str,
        to: str | os.PathLike[str],
        *,
        symlinks: bool = False,
        portable: bool = False,
        progress: Progress | None = None,
        max_bytes: int | None = None,
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
            max_bytes: The largest number of bytes of all files; more are a TooLargeError. A folder
                that the disk has no space for is an `OSError` in any case.

        Example:
            >>> record = client.upload("photos")
            >>> folder = client.download_folder(record.cid, "copy")
            >>> [path.name for path in folder.iterdir()]
            ['kelp.png']
        """
        self._check_open()
        arguments.check_progress(progress)
        arguments.check_max_bytes(max_bytes)
        # Few programs need them, and should not wait for the modules.
        from holdfast._sync.folder_download.download import download_folder  # noqa: PLC0415
        from holdfast._sync.folder_download.entries import FolderOptions  # noqa: PLC0415

        options = FolderOptions(symlinks=symlinks, portable=portable, max_bytes=max_bytes)
        return download_folder(self._provider, Reference.parse(cid), to, options, progress)
