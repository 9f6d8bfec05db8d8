"""A file that appears under its name whole, or not at all."""

import contextlib
import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import Self


class PendingFile:
    """A file being written beside `target`; `commit` gives it the name, `discard` removes it.

    Leaving the ``with`` block without a `commit` discards. A symbolic link at `target` is
    replaced, not followed.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "greeting.txt"
        >>> with PendingFile(target) as pending:
        ...     pending.write(b"hello")
        ...     print(target.exists())
        ...     pending.commit()
        False
        >>> target.read_bytes()
        b'hello'
    """

    def __init__(self, target: str | os.PathLike[str]) -> None:
        self.target = Path(target)
        if self.target.is_dir():
            raise IsADirectoryError(
                f"{self.target} is a directory; name the file that is to be written in it"
            )
        self._path = self.target.with_name(f".{secrets.token_hex(8)}.holdfast-part")
        # Mode 0o666 lets the umask decide, as for any file the user creates.
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        self._file = os.fdopen(os.open(self._path, flags, 0o666), "w+b")

    def write(self, data: bytes) -> None:
        """Append `data`."""
        self._file.write(data)

    def restart(self) -> None:
        """Forget what was written so far."""
        self._file.seek(0)
        self._file.truncate()

    def commit(self) -> None:
        """Make the bytes durable, then give them their name in one step."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._path.replace(self.target)
        _sync_folder(self.target.parent)

    def discard(self) -> None:
        """Remove what was written. Does nothing after `commit`."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.discard()


def _sync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable, where the system can (Windows cannot open folders)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
