# WARNING: this file is generated from src/holdfast/_async/client/__init__.py
# by scripts/generate_sync.py. Change the original instead.
"""The client that applications use: checks arguments, calls the provider, and returns records."""

from holdfast._sync.client.copies import CopyCalls
from holdfast._sync.client.folders import FolderCalls
from holdfast._sync.client.links import LinkCalls


class Client(CopyCalls, FolderCalls, LinkCalls):
    """Stores JSON, files and messages by content, and reads them back.

    Make one with `init`, use it from any number of threads, and close it, best with ``with``.
    A client from ``Client(provider=…)`` does not close the provider: do that yourself.

    Example:
        >>> with Client.init() as client:
        ...     record = client.store({"hello": "world"})
        ...     print(client.retrieve(record.cid))
        {'hello': 'world'}
    """
