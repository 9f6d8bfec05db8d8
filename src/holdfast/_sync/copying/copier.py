# WARNING: this file is generated from src/holdfast/_async/copying/copier.py
# by scripts/generate_sync.py. Change the original instead.
"""One copy: the target is asked first, then the content is sent by the best method."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from holdfast._sync.copying.uploading import (
    Uploading,
    addresses_of,
    find_pin,
    has_content,
    needs_name,
)
from holdfast._sync.pin_waiting import wait_for_pin
from holdfast._sync.providers.base import BaseProvider
from holdfast._sync.runtime import run_blocking
from holdfast.content.cid import CID
from holdfast.disk.copy_journal import CopyJournal, JournalLine
from holdfast.errors import ProviderError, UnsupportedError, VerificationError
from holdfast.hints import advise
from holdfast.records import Added, Copied, Pin, PinInfo, same_value
from holdfast.sources.sources import Progress

KEYVALUES: Final = ("keyvalues",)
NAME: Final = ("name",)


class Copier:
    """Copies pins from `source` to `target`, both providers, as their content is stored.

    Args:
        source: Has the content.
        target: Gets it.
        pin_by_cid: Whether the target may fetch by its CID what cannot be sent. None if it may
            when other nodes can fetch from the source.
        wait: The seconds to wait for that.

    Attributes:
        journal: Notes what is copied; None for no journal.
    """

    def __init__(
        self,
        source: BaseProvider,
        target: BaseProvider,
        *,
        pin_by_cid: bool | None = None,
        wait: float = 0.0,
    ) -> None:
        self._source = source = source.stored
        self._target = target = target.stored
        self._may_pin = source.is_on_network() if pin_by_cid is None else pin_by_cid
        self._wait = wait
        self.journal: CopyJournal | None = None
        self._keeps_keyvalues = True  # until the target says otherwise
        self._uploading = Uploading(source, target)
        self._origins: list[str] | None = None  # until they are needed

    def open_journal(self) -> None:
        """Open the journal for the places of both providers."""
        if self.journal is not None:
            self.journal.open(self._source.place(), self._target.place())

    def copy(self, pin: Pin, progress: Progress) -> Copied:
        """Copy the content of `pin`, and note that in the journal."""
        CID.parse(pin.cid)  # a source can list any text, and this one is sent to the target
        journal = self.journal
        if journal is None:
            return self._copy(pin, None, progress)
        line = _line_of(pin)
        copied = self._copy(pin, run_blocking(journal.find, line), progress)
        if copied.state == "pinned" and not copied.earlier:
            run_blocking(journal.add, line, copied)
        return copied

    def _copy(self, pin: Pin, noted: JournalLine | None, progress: Progress) -> Copied:
        """Copy the content of `pin`, unless the target has it now.

        `noted` is what a journal says. It is believed only if the target cannot be asked.
        """
        if noted is not None and not self._target.supports("find_pins"):
            return Copied(cid=pin.cid, name=pin.name, earlier=True, checked=False, **asdict(noted))
        found = find_pin(self._target, pin.cid)
        if found is not None and has_content(found):
            copied = self._renamed(pin, found)
            if noted is None:
                return copied
            return replace(
                copied, how=noted.how, duplicate=noted.duplicate, size=noted.size, earlier=True
            )
        if self._target.supports("import_archive"):
            return self._by_archive(pin, progress)
        return self._without_archives(pin, progress)

    # A pin that the target has

    def _renamed(self, pin: Pin, found: Pin) -> Copied:
        """Give a pin at the target the name and the key-values of `pin`."""
        name = pin.name if pin.name and pin.name != found.name else None
        changed = {
            key: value
            for key, value in pin.keyvalues.items()
            if key not in found.keyvalues or not same_value(found.keyvalues[key], value)
        }
        dropped: tuple[str, ...] = ()
        if changed and not self._keeps_keyvalues:
            changed, dropped = {}, KEYVALUES
        if name is not None or changed:
            dropped += self._update(pin.cid, name, changed)
        return Copied(
            cid=pin.cid,
            name=pin.name or found.name,
            duplicate=True,
            dropped=dropped,
            state=found.state,
        )

    def _update(self, cid: str, name: str | None, keyvalues: Mapping[str, Any]) -> tuple[str, ...]:
        """Change a pin at the target; return what it does not keep."""
        if not self._target.supports("update_pin"):
            return (() if name is None else NAME) + (KEYVALUES if keyvalues else ())
        try:
            self._target.update_pin(cid, name=name, keyvalues=keyvalues or None)
        except UnsupportedError:
            if not keyvalues:
                return NAME
            dropped = () if name is None else self._update(cid, name, {})
            self._keeps_keyvalues = bool(dropped)
            return KEYVALUES + dropped
        return ()

    # The three methods

    def _by_archive(self, pin: Pin, progress: Progress) -> Copied:
        self._source.require("export_archive")
        info, dropped = self._info(pin)
        pieces = _Counted(self._source.export_archive(pin.cid), progress, pin.size)
        try:
            added = self._target.import_archive(pin.cid, pieces, info)
        except UnsupportedError:
            if pieces.size or not info.is_explicit:
                raise
            return self._with_less(pin, info, progress)
        finally:
            pieces.close()
        _check(added, pin)
        return Copied(
            cid=pin.cid,
            name=pin.name,
            how="archive",
            size=pieces.size,
            dropped=dropped,
            duplicate=bool(added.duplicate),
        )

    def _with_less(self, pin: Pin, info: PinInfo, progress: Progress) -> Copied:
        """Copy a pin without its key-values, then also without its name, if that helps."""
        if not info.keyvalues:
            copied = self._by_archive(replace(pin, name=""), progress)
            return replace(copied, dropped=NAME + copied.dropped)
        copied = self._by_archive(replace(pin, keyvalues={}), progress)
        # If it helped to leave out the name too, the key-values may not have been at fault.
        self._keeps_keyvalues = bool(copied.dropped)
        return replace(copied, dropped=KEYVALUES + copied.dropped)

    def _without_archives(self, pin: Pin, progress: Progress) -> Copied:
        info, dropped = self._info(pin)
        cid = CID.parse(pin.cid)
        uploaded = None
        if self._target.supports("put_file"):
            uploaded = self._uploading.upload(cid, info, progress)
        if uploaded is not None:
            _, size = uploaded
            if needs_name(cid, pin.name):
                dropped += self._update(pin.cid, pin.name, {})
            return Copied(cid=pin.cid, name=pin.name, how="upload", size=size, dropped=dropped)
        target = self._target
        if not self._may_pin or not target.supports("pin"):
            raise self._no_method(pin)
        try:
            new = wait_for_pin(target, self._pin(pin.cid, info), self._wait)
        except ProviderError as error:
            error.add_note(f"it was asked to fetch it: {_not_sent(target, pin)}")
            raise
        return Copied(cid=pin.cid, name=pin.name, how="pin", dropped=dropped, state=new.state)

    def _pin(self, cid: str, info: PinInfo) -> Pin:
        """Let the target pin `cid`. Tell it the addresses of the source, if that is possible."""
        if not self._target.supports("pin_from"):
            return self._target.pin(cid, info)
        if self._origins is None:
            self._origins = addresses_of(self._source)
        return self._target.pin_from(cid, info, self._origins)

    def _info(self, pin: Pin) -> tuple[PinInfo, tuple[str, ...]]:
        """Return what is stored with the new pin, and what the target does not keep."""
        keeps = self._keeps_keyvalues
        keyvalues = pin.keyvalues if keeps else {}
        dropped = () if keeps or not pin.keyvalues else KEYVALUES
        return PinInfo(name=pin.name, keyvalues=keyvalues, given=bool(pin.name)), dropped

    def _no_method(self, pin: Pin) -> UnsupportedError:
        source, why = self._source.title, _not_sent(self._target, pin)
        if self._target.supports("pin"):
            error = UnsupportedError(
                f"{why}; and {source} is not on the network, from which it could fetch it by its "
                "CID: copy to a provider that takes archives, such as kubo"
            )
            note = "if it can fetch it all the same, {} {}"
            return advise(
                error, note.format("pass", "pin_by_cid=True"), note.format("add", "--pin-by-cid")
            )
        return UnsupportedError(f"{why}; copy to a provider that takes archives, such as kubo")


class _Counted(Iterator[bytes]):
    """The pieces of an archive, whose bytes are counted."""

    def __init__(self, pieces: Iterator[bytes], progress: Progress, total: int | None) -> None:
        self._pieces = pieces
        self._progress = progress
        self._total = total
        self.size = 0

    def __next__(self) -> bytes:
        piece = next(self._pieces)
        self.size += len(piece)
        self._progress(self.size, self._total)
        return piece

    def close(self) -> None:
        """Close the archive."""
        pieces: Any = self._pieces
        if hasattr(pieces, "close"):
            pieces.close()


def _check(added: Added, pin: Pin) -> None:
    if CID.parse(added.cid) != CID.parse(pin.cid):
        raise VerificationError(f"the target stored {pin.cid} as {added.cid}", cid=pin.cid)


def _not_sent(target: BaseProvider, pin: Pin) -> str:
    if not target.supports("put_file"):
        return f"{target.title} stores nothing itself, it only fetches {pin.cid} by its CID"
    return f"{target.title} takes no archives, and would store {pin.cid} under another CID"


def _line_of(pin: Pin) -> str:
    """Return what a journal calls a pin. It is short, whatever the name and the key-values are."""
    about = repr([pin.name, sorted(pin.keyvalues.items())])
    return f"{pin.cid} {hashlib.sha256(about.encode()).hexdigest()[:16]}"
