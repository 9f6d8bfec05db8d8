"""Default folders for data, configuration and cache."""

import errno
import os
import sys
from pathlib import Path


def data_folder() -> Path:
    """Return the default folder for data; raise `OSError` if the user has no home directory."""
    folder = _folder("XDG_DATA_HOME", ".local/share", "Application Support")
    if folder is None:
        message = "this user has no home directory: name a folder"
        raise FileNotFoundError(errno.ENOENT, message, "path")
    return folder


def store_folder(path: str | os.PathLike[str] | None) -> Path:
    """Return the folder of a store: `path`, or the default if it is empty."""
    return Path(path or data_folder()).expanduser()


def config_folder() -> Path | None:
    """Return the default folder for configuration; None if the user has no home directory."""
    return _folder("XDG_CONFIG_HOME", ".config", "Application Support")


def cache_folder(chosen: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the folder for the cache: `chosen`, or the default one.

    None if the user has no home directory.
    """
    return _folder("XDG_CACHE_HOME", ".cache", "Caches") if chosen is None else Path(chosen)


def _folder(variable: str, usual: str, library: str) -> Path | None:
    """Return our folder on this platform: on Linux from `variable`, on macOS in ``Library``."""
    try:
        if sys.platform == "darwin":
            return Path.home() / "Library" / library / "holdfast"
        return Path(os.environ.get(variable) or Path.home() / usual) / "holdfast"
    except RuntimeError:  # this user has no home directory
        return None
