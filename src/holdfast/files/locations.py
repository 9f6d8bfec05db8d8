"""Where things of ours stand when nobody says where."""

import errno
import os
import sys
from pathlib import Path


def data_folder() -> Path:
    """The folder for user data of this platform, and ours in it; `OSError` where there is none."""
    try:
        return _folder("XDG_DATA_HOME", ".local/share", "Application Support") / "holdfast"
    except RuntimeError:
        raise FileNotFoundError(
            errno.ENOENT, "this user has no home directory: name a folder", "path"
        ) from None


def config_folder() -> Path | None:
    """The folder for settings of this platform, and ours in it; None where the user has no home."""
    try:
        return _folder("XDG_CONFIG_HOME", ".config", "Application Support") / "holdfast"
    except RuntimeError:
        return None


def cache_folder() -> Path | None:
    """The folder for caches of this platform, and ours in it; None where the user has no home."""
    try:
        base = _folder("XDG_CACHE_HOME", ".cache", "Caches") / "holdfast"
    except RuntimeError:
        return None
    return base / "cache" if sys.platform == "win32" else base


def _folder(variable: str, usual: str, library: str) -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / library
    return Path(os.environ.get(variable) or Path.home() / usual)
