"""Default folders for data, configuration and cache."""

import errno
import os
import sys
from pathlib import Path


def data_folder() -> Path:
    """Return the default folder for data; raise `OSError` if the user has no home directory."""
    try:
        return _folder("XDG_DATA_HOME", ".local/share", "Application Support") / "holdfast"
    except RuntimeError:
        raise FileNotFoundError(
            errno.ENOENT, "this user has no home directory: name a folder", "path"
        ) from None


def store_folder(path: str | os.PathLike[str] | None) -> Path:
    """Return the folder of a store: `path`, or the default if it is empty."""
    return Path(path or data_folder()).expanduser()


def config_folder() -> Path | None:
    """Return the default folder for configuration; None if the user has no home directory."""
    try:
        return _folder("XDG_CONFIG_HOME", ".config", "Application Support") / "holdfast"
    except RuntimeError:
        return None


def cache_folder(chosen: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the folder for the cache: `chosen`, or the default one.

    None if the user has no home directory.
    """
    if chosen is not None:
        return Path(chosen)
    try:
        return _folder("XDG_CACHE_HOME", ".cache", "Caches") / "holdfast"
    except RuntimeError:
        return None


def _folder(variable: str, usual: str, library: str) -> Path:
    """Return the folder of this platform: on Linux from `variable`, on macOS in ``Library``."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / library
    return Path(os.environ.get(variable) or Path.home() / usual)
