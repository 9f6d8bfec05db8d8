"""The client that applications use: checks arguments, calls the provider, and returns records."""

from holdfast._async.client.copies import AsyncCopyCalls
from holdfast._async.client.folders import AsyncFolderCalls
from holdfast._async.client.links import AsyncLinkCalls


class AsyncClient(AsyncCopyCalls, AsyncFolderCalls, AsyncLinkCalls):
    """Stores JSON, files and messages by content, and reads them back.

    Make one with `init`, use it from any number of tasks, and close it, best with ``async with``.
    A client from ``AsyncClient(provider=…)`` does not close the provider: do that yourself.

    Example:
        >>> async with AsyncClient.init() as client:
        ...     record = await client.store({"hello": "world"})
        ...     print(await client.retrieve(record.cid))
        {'hello': 'world'}
    """
