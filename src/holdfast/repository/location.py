"""Where a repository stands when nobody says where."""

import os
import sys
from pathlib import Path


def default_path() -> Path:
    """The folder for user data of this platform, and ours in it."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "holdfast"
