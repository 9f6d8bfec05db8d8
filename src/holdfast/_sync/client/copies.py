# WARNING: this file is generated from src/holdfast/_async/client/copies.py
# by scripts/generate_sync.py. Change the original instead.
"""The methods of a client that copy content to another provider, under the same CIDs."""

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from holdfast import arguments
from holdfast._sync.client.base import ClientBase
from holdfast._sync.client.many import ManyCalls
from holdfast._sync.runtime import run_blocking
from holdfast._sync.workers import Outcomes
from holdfast.content.reference import Reference
from holdfast.files.sources import Progress
from holdfast.records import Copied, Pin

# Imported in the methods: most programs copy nothing, and should not wait for the modules.
if TYPE_CHECKING:
    from holdfast._sync.copying.copier import Copier
    from holdfast._sync.folder_download.tally import Tally

PIN_WAIT: Final = 60.0  # seconds for a target to fetch content by its CID


class CopyCalls(ManyCalls):
    """Copies content to other providers."""

    def copy(
        self,
        cid: str,
        *,
        to: ClientBase,
        pin_by_cid: bool | None = None,
        wait: float = PIN_WAIT,
        progress: Progress | None = None,
    ) -> Copied:
        """Copy everything under `cid` to the provider of the client `to`, under the same CID.

        The name and the key-values of the pin come along. If the target has the content already,
        only these are set. A target that takes archives (`local`, `kubo`, `cluster`) gets the
        blocks, each verified, all of them or none. Another one gets an upload if a known layout
        gives the same CID, else it is asked to fetch the content by its CID. If nothing works,
        raise UnsupportedError.

        Args:
            cid: The content to copy, with everything below it.
            to: A client for the target.
            pin_by_cid: Whether the target may fetch by its CID what it cannot be sent. By default
                it may, if this provider is a service with a public gateway, or a node that is not
                used offline.
            wait: The seconds to wait until the target has fetched it.
            progress: Called with the bytes that were sent so far, and the size if it is known.

        Example:
            >>> record = client.upload(b"hello")
            >>> with Client.init(path="other-store") as other:
            ...     copied = client.copy(record.cid, to=other)
            >>> copied.how
            'archive'
        """
        from holdfast._sync.copying.places import find_pin  # noqa: PLC0415
        from holdfast._sync.providers.imports import ignore  # noqa: PLC0415

        self._check_open()
        arguments.check_progress(progress)
        copier = self._copier(to, pin_by_cid=pin_by_cid, wait=wait)
        text = Reference.parse_cid(cid)
        pin = find_pin(self._provider, text) or Pin(id="", cid=text, size=None)
        return copier.copy(pin, progress or ignore)

    def copy_pins(
        self,
        *,
        to: ClientBase,
        journal: str | os.PathLike[str] | None = None,
        concurrency: int = 8,
        pin_by_cid: bool | None = None,
        wait: float = PIN_WAIT,
        progress: Progress | None = None,
        name: str | None = None,
        cid: str | None = None,
        keyvalues: Mapping[str, Any] | None = None,
        since: datetime | int | None = None,
        until: datetime | int | None = None,
        limit: int | None = None,
    ) -> Outcomes[Pin, Copied]:
        """Copy many pins, each as `copy` does, and yield an `Outcome` for each when it is done.

        Pins that the target has are not sent again, so a copy that was interrupted continues if
        you call it again. The target is asked for every pin, also with a `journal`, which says
        what an earlier call copied. Only if the target cannot be asked, the journal is believed:
        then `checked` is False.

        Args:
            to: A client for the target.
            journal: The path of a file that notes what is copied. It belongs to this source and
                this target: the id of a local store, or an address. One call at a time can use
                it. Remove it when all is copied.
            concurrency: How many are copied at the same time, from 1 to 100.
            pin_by_cid: As for `copy`.
            wait: As for `copy`.
            progress: Called with the bytes of all pins that were sent so far, and None.
            name: Only pins whose name contains this text. This and what follows is as for
                `iter_pins`.
            cid: Only pins of this CID.
            keyvalues: Only pins that have all of these key-values.
            since: Only pins made at this time or later.
            until: Only pins made at this time or earlier.
            limit: The largest number of pins; None for all.

        Example:
            >>> record = client.store([1, 2], name="tides")
            >>> with Client.init(path="other-store") as other:
            ...     for outcome in client.copy_pins(to=other, journal="copy.journal"):
            ...         print(outcome.item.name, outcome.error)
            tides None
        """
        from holdfast._sync.folder_download.tally import Tally  # noqa: PLC0415
        from holdfast.files.copy_journal import CopyJournal  # noqa: PLC0415

        arguments.check_progress(progress)
        wanted = {"name": name, "cid": cid, "keyvalues": keyvalues, "since": since, "until": until}
        pins = self.iter_pins(**wanted, limit=limit)  # type: ignore[arg-type]
        copier = self._copier(to, pin_by_cid=pin_by_cid, wait=wait)
        function = partial(_copy_one, copier, Tally(progress))
        if journal is None:
            return self._many(function, pins, "copy", concurrency)
        copier.journal = CopyJournal(journal)
        items = _journaled(copier, pins)
        return self._many(function, items, "copy", concurrency, copier.journal.close)

    def _copier(self, to: ClientBase, *, pin_by_cid: bool | None, wait: float) -> "Copier":
        from holdfast._sync.copying.copier import Copier  # noqa: PLC0415

        if not isinstance(to, ClientBase):
            raise TypeError(f"to must be a client of the same kind, not {type(to).__name__}")
        arguments.check_wait(wait)
        to._check_open()  # noqa: SLF001 - our own
        target = to._provider  # noqa: SLF001
        return Copier(self._provider, target, pin_by_cid=pin_by_cid, wait=wait)


def _copy_one(copier: "Copier", tally: "Tally", pin: Pin) -> Copied:
    return copier.copy(pin, tally.of_file())


def _journaled(copier: "Copier", pins: Iterator[Pin]) -> Iterator[Pin]:
    """Open the journal, then yield the pins."""
    try:
        run_blocking(copier.open_journal)
        for pin in pins:
            yield pin
    finally:
        if hasattr(pins, "close"):
            pins.close()
