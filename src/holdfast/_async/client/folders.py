"""The methods of a client for directories: what is in them, and copies of them on disk."""

from holdfast._async.client.base import AsyncClientBase


class AsyncFolderCalls(AsyncClientBase):
    """Looks into directories, and downloads them."""
