"""Where things of ours stand when nobody says where."""

import os
import sys
from pathlib import Path


def data_folder() -> Path:
    """The folder for user data of this platform, and ours in it."""
    return _folder("XDG_DATA_HOME", ".local/share", "Application Support") / "holdfast"


def cache_folder() -> Path:
    """The folder for caches of this platform, and ours in it."""
    base = _folder("XDG_CACHE_HOME", ".cache", "Caches") / "holdfast"
    return base / "cache" if sys.platform == "win32" else base


def _folder(variable: str, usual: str, library: str) -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / library
    return Path(os.environ.get(variable) or Path.home() / usual)
