"""The methods of a client for many values or files, several at a time."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdfast import arguments
from holdfast._async.client.content import AsyncContentCalls
from holdfast._async.client.pins import AsyncPinCalls
from holdfast._async.upload_sources import AsyncUploadable
from holdfast._async.workers import AsyncItems, AsyncOutcomes, AsyncWorkGroup
from holdfast.records import ClientRecord

T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")
File = TypeVar("File", bound="AsyncUploadable | tuple[str, AsyncUploadable]")


class AsyncManyCalls(AsyncContentCalls, AsyncPinCalls):
    """Stores, uploads and revokes many, several at a time."""

    def store_many(
        self, values: AsyncItems[T], *, concurrency: int = 8
    ) -> AsyncOutcomes[T, ClientRecord[T]]:
        """Store many JSON values, and yield an `Outcome` for each as soon as it is stored.

        Args:
            values: The values. They are taken as they are needed, so there may be any number.
            concurrency: How many are stored at the same time, from 1 to 100.

        Example:
            >>> cids = {}
            >>> async for outcome in client.store_many([{"id": 1}, {"id": 2}]):
            ...     cids[outcome.index] = outcome.result().cid
            >>> sorted(cids)
            [0, 1]
        """
        return self._many(self.store, values, "store", concurrency)

    def upload_many(
        self, files: AsyncItems[File], *, concurrency: int = 8
    ) -> AsyncOutcomes[File, ClientRecord[None]]:
        """Upload many files, and yield an `Outcome` for each as soon as it is uploaded.

        One that fails does not stop the others: its outcome has the error.

        Args:
            files: The files, each as for `upload`, or pairs of a name and a file. They are taken as
                they are needed, so there may be any number.
            concurrency: How many are uploaded at the same time, from 1 to 100.

        Example:
            >>> from pathlib import Path
            >>> async with client.upload_many(Path("photos").glob("*.png")) as outcomes:
            ...     async for outcome in outcomes:
            ...         print(outcome.item.name, outcome.error or outcome.result().size)
            kelp.png 7
        """
        return self._many(self._upload_item, files, "upload", concurrency)

    def revoke_many(
        self, cids: AsyncItems[str], *, concurrency: int = 8
    ) -> AsyncOutcomes[str, bool]:
        """Unpin many CIDs, and yield an `Outcome` for each as soon as it is unpinned.

        Args:
            cids: The CIDs. They are taken as they are needed.
            concurrency: How many are unpinned at the same time, from 1 to 100.

        Example:
            >>> record = await client.store([1, 2])
            >>> async for outcome in client.revoke_many([record.cid]):
            ...     print(outcome.error or "revoked")
            revoked
        """
        return self._many(self.revoke, cids, "revoke", concurrency)

    async def _upload_item(self, item: Any) -> ClientRecord[None]:
        name, file = arguments.name_and_file(item)
        return await self.upload(file, name=name)

    def _many(
        self,
        function: Callable[[Item], Awaitable[Result]],
        items: AsyncItems[Item],
        single: str,
        concurrency: int,
        on_end: Callable[[], object] | None = None,
    ) -> AsyncOutcomes[Item, Result]:
        self._check_open()
        arguments.check_several(items, single)
        arguments.check_concurrency(concurrency)
        group = AsyncWorkGroup(function, items, concurrency)
        self._groups.add(group)
        return AsyncOutcomes(group, on_end)
