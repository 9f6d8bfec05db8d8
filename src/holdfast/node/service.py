"""The two networks of the v3 API, public and private. Each has a store of its own.

Content is private if only private files hold it. This follows from the stores: the gateway and the
pinning API read the public one alone, so they cannot return a block that is in no public file,
in whatever form they are asked for it. Content that is uploaded to both networks is in both stores.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final

from holdfast.content.cid import CID
from holdfast.disk.folders import Folder
from holdfast.node.http_server.refusals import Refusal
from holdfast.node.tables import Details, FileDetails
from holdfast.records import Pin
from holdfast.repository import PinQuery, Repository
from holdfast.repository.pin_queries import Stopped

PUBLIC: Final = "public"
PRIVATE: Final = "private"
FOLDER: Final = "private"  # of the second store, in the folder of the first


@dataclass(frozen=True, slots=True)
class File:
    """A file of the v3 API: a pin, and its details."""

    pin: Pin
    details: Details
    network: str
    is_duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Network:
    """One network: its store, and the details of its files."""

    name: str
    repository: Repository
    details: FileDetails

    def find(self, id: str, stopped: Stopped | None = None) -> Pin | None:
        """Return the pin of the file `id`; None if there is none."""
        pins = self.repository.pins(PinQuery(id=id, limit=1), stopped)
        return pins[0] if pins else None

    def file(self, pin: Pin, *, is_duplicate: bool = False) -> File:
        """Return the file of a pin."""
        return self.files([pin], is_duplicate=is_duplicate)[0]

    def files(self, pins: list[Pin], *, is_duplicate: bool = False) -> list[File]:
        """Return the files of pins."""
        details = self.details.of([pin.id for pin in pins])
        none = Details()
        return [File(pin, details.get(pin.id, none), self.name, is_duplicate) for pin in pins]

    def check_group(self, id: str | None) -> None:
        """Raise a `Refusal` unless there is a group `id`; None is no group."""
        if id is not None and self.details.group(id) is None:
            raise Refusal(404, f"There is no {self.name} group with the id {id[:100]}")

    @contextmanager
    def described(self, id: str, cid: CID, details: Details) -> Iterator[None]:
        """Set the details of a new file before the block pins it; remove them if it fails.

        So no file is ever without its details, even if the process is killed in between.
        """
        if details == Details():
            yield
            return
        self.check_group(details.group_id)
        self.details.put(id, str(cid), details)
        try:
            yield
        except BaseException:
            self.details.put(id, str(cid), Details())
            raise

    # For the pinning API

    def grouped(self, id: str, cid: CID, group: str | None) -> AbstractContextManager[None]:
        """Put a new file into a group before the block pins it; take it out if that fails."""
        return self.described(id, cid, Details(group))

    def ungroup(self, id: str, cid: CID) -> None:
        """Take a file out of its group."""
        self.details.put(id, str(cid), Details())

    def group_of(self, pin: Pin) -> str | None:
        """Return the group of a file."""
        return self.file(pin).details.group_id

    def ids_in_group(self, group: str) -> list[str]:
        """Return the ids of the files in a group."""
        return self.details.ids_in_group(group)

    # Removing

    def remove(self, pin: Pin) -> None:
        """Remove a file."""
        self.repository.unpin(CID.parse(pin.cid))
        if self.details.of([pin.id]):
            self.details.put(pin.id, pin.cid, Details())

    def remove_expired(self, now: int) -> None:
        """Remove the files that have expired."""
        while expired := self.details.expired(now):
            for id_, cid in expired:
                pin = self.repository.find_pin(CID.parse(cid))
                if pin is not None and pin.id == id_:
                    self.repository.unpin(CID.parse(cid))
                self.details.put(id_, cid, Details())


class Networks:
    """Both networks of a node. The private store is opened when it is first needed."""

    def __init__(self, repository: Repository) -> None:
        self.public: Network = self._network(PUBLIC, repository)
        self._private: Network | None = None
        self._lock = threading.Lock()

    @property
    def private(self) -> Network:
        """The private network. It may have to be opened, so use a worker thread."""
        with self._lock:
            if self._private is None:
                folder = Folder(self.public.repository.path.absolute(), FOLDER)
                folder.make(0o700)  # refuses a symbolic link
                self._private = self._network(PRIVATE, Repository(folder.path))
            return self._private

    def named(self, name: str) -> Network:
        """Return a network by its name."""
        return self.private if name == PRIVATE else self.public

    def remove_expired(self, now: int) -> None:
        """Remove the files of both networks that have expired."""
        self.public.remove_expired(now)
        if (self.public.repository.path / FOLDER).is_dir():
            self.private.remove_expired(now)

    @staticmethod
    def _network(name: str, repository: Repository) -> Network:
        path = repository.path.absolute()
        return Network(name, repository, FileDetails(path, read_only=repository.read_only))

    def close(self) -> None:
        """Close what was opened here. The public store belongs to the caller."""
        self.public.details.close()
        with self._lock:
            private, self._private = self._private, None
        if private is not None:
            private.details.close()
            private.repository.close()
