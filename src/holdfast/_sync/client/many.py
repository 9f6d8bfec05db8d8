# WARNING: this file is generated from src/holdfast/_async/client/many.py
# by scripts/generate_sync.py. Change the original instead.
"""The methods of a client for many values or files, several at a time."""

from collections.abc import Callable
from typing import Any, TypeVar

from holdfast import arguments
from holdfast._sync.client.content import ContentCalls
from holdfast._sync.client.pins import PinCalls
from holdfast._sync.upload_sources import Uploadable
from holdfast._sync.workers import Items, Outcomes, WorkGroup
from holdfast.records import ClientRecord

T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")
File = TypeVar("File", bound="Uploadable | tuple[str, Uploadable]")


class ManyCalls(ContentCalls, PinCalls):
    """Stores, uploads and revokes many, several at a time."""

    def store_many(self, values: Items[T], *, concurrency: int = 8) -> Outcomes[T, ClientRecord[T]]:
        """Store many JSON values, and yield an `Outcome` for each as soon as it is stored.

        Args:
            values: The values. They are taken as they are needed, so there may be any number.
            concurrency: How many are stored at the same time, from 1 to 100.

        Example:
            >>> cids = {}
            >>> for outcome in client.store_many([{"id": 1}, {"id": 2}]):
            ...     cids[outcome.index] = outcome.result().cid
            >>> sorted(cids)
            [0, 1]
        """
        return self._many(self.store, values, "store", concurrency)

    def upload_many(
        self, files: Items[File], *, concurrency: int = 8
    ) -> Outcomes[File, ClientRecord[None]]:
        """Upload many files, and yield an `Outcome` for each as soon as it is uploaded.

        One that fails does not stop the others: its outcome has the error.

        Args:
            files: The files, each as for `upload`, or pairs of a name and a file. They are taken as
                they are needed, so there may be any number.
            concurrency: How many are uploaded at the same time, from 1 to 100.

        Example:
            >>> from pathlib import Path
            >>> with client.upload_many(Path("photos").glob("*.png")) as outcomes:
            ...     for outcome in outcomes:
            ...         print(outcome.item.name, outcome.error or outcome.result().size)
            kelp.png 7
        """
        return self._many(self._upload_item, files, "upload", concurrency)

    def revoke_many(self, cids: Items[str], *, concurrency: int = 8) -> Outcomes[str, bool]:
        """Unpin many CIDs, and yield an `Outcome` for each as soon as it is unpinned.

        Args:
            cids: The CIDs. They are taken as they are needed.
            concurrency: How many are unpinned at the same time, from 1 to 100.

        Example:
            >>> record = client.store([1, 2])
            >>> for outcome in client.revoke_many([record.cid]):
            ...     print(outcome.error or "revoked")
            revoked
        """
        return self._many(self.revoke, cids, "revoke", concurrency)

    def _upload_item(self, item: Any) -> ClientRecord[None]:
        name, file = arguments.name_and_file(item)
        return self.upload(file, name=name)

    def _many(
        self,
        function: Callable[[Item], Result],
        items: Items[Item],
        single: str,
        concurrency: int,
        on_end: Callable[[], object] | None = None,
    ) -> Outcomes[Item, Result]:
        self._check_open()
        arguments.check_several(items, single)
        arguments.check_concurrency(concurrency)
        group = WorkGroup(function, items, concurrency)
        self._groups.add(group)
        return Outcomes(group, on_end)
