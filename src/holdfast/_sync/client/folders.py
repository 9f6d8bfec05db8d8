# WARNING: this file is generated from src/holdfast/_async/client/folders.py
# by scripts/generate_sync.py. Change the original instead.
"""The methods of a client for directories: what is in them, and copies of them on disk."""

from holdfast._sync.client.base import ClientBase


class FolderCalls(ClientBase):
    """Looks into directories, and downloads them."""
