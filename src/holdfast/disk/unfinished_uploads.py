"""What is saved on disk about uploads, so that a later process can continue them.

Each upload has a journal, ``KEY.json``, which is locked by the process that sends the upload. It is
one line: where the upload is at the service, and of which file. It has no token. Only its user can
read it.
"""

import base64
import contextlib
import functools
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from holdfast.config.locations import data_folder
from holdfast.disk.closing import on_error
from holdfast.disk.folders import Folder
from holdfast.disk.journal import Journal
from holdfast.errors import ConfigError
from holdfast.events import logger

FOLDER: Final = "unfinished-uploads"  # in the data folder
KIND: Final = "holdfast upload 1"
SUFFIX: Final = ".json"
MAX_STATE: Final = 16 << 20  # bytes; an encrypting wrapper saves 16 for each 64 KiB
NAME: Final = re.compile(r"([0-9a-f]{40})\.json")
FORGOTTEN_AFTER: Final = 7 * 24 * 3600.0  # seconds since the last write
MAX_NUMBER: Final = 1e18  # a larger number in a state means that the state is damaged

Identity = Mapping[str, Any] | None  # which file is sent; see `identify`


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedUpload:
    """An upload that was begun at a service.

    Attributes:
        endpoint: The address at which it was begun.
        location: Its own address. Whoever has it and the token can add bytes.
        name: The name of the file that it becomes.
        size: The bytes of the file.
        source: Which file it is; see `Source.identify`.
        created: When it was begun, in seconds.
        offset: How many bytes the service had when it was last heard of. It may have more.
        expires: When the service will forget it, in seconds; None if it does not say.
        states: The states of the wrappers of the source, in base64; see `Source.states`.
    """

    endpoint: str
    location: str = field(repr=False)
    name: str
    size: int
    source: Identity
    created: float
    offset: int = 0
    expires: float | None = None
    states: list[str] = field(default_factory=list, repr=False)

    @property
    def has_expired(self) -> bool:
        """Whether the service has forgotten it."""
        return self.expires is not None and self.expires < time.time()

    def wrapper_states(self) -> list[bytes]:
        """Return the states of the wrappers of the source."""
        return [base64.b64decode(state) for state in self.states]

    @classmethod
    def of_line(cls, line: Mapping[str, Any]) -> "UnfinishedUpload | None":
        """Return the state that `SavedUpload.save` has written; None for anything else."""
        with contextlib.suppress(TypeError, ValueError):
            state = cls(**{name: value for name, value in line.items() if name != "kind"})
            expires = 0 if state.expires is None else state.expires
            numbers = (state.size, state.offset, state.created, expires)
            texts = (state.endpoint, state.location, state.name)
            if (
                all(0 <= number < MAX_NUMBER for number in numbers)
                and all(isinstance(text, str) for text in texts)
                and isinstance(state.source, dict | None)
                and encode_states(state.wrapper_states()) == state.states
            ):
                return state
        return None


class SavedUpload:
    """The state of one upload, in a journal that is locked; or in memory only, without a journal.

    Attributes:
        state: The state, or None if the upload is not begun.
        is_on_disk: Whether a later process can continue the upload.
    """

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal
        self.state: UnfinishedUpload | None = None if journal is None else read_state(journal)
        self.is_on_disk: bool = self.state is not None

    def save(self, state: UnfinishedUpload) -> None:
        """Save the state, durably. If that is impossible, the upload itself still works."""
        before, self.state = self.state, state
        journal = self._journal
        if journal is not None:
            try:
                journal.compact([{"kind": KIND, **asdict(state)}])
                self.is_on_disk = True
            except OSError as error:
                logger.warning("the upload cannot be continued by a later process: %s", error)
                if before is not None and before.states != state.states:
                    # With the old state, a later process would send other bytes.
                    self._journal, self.is_on_disk = None, False
                    journal.close(remove=True)

    def remove(self) -> None:
        """Remove the state, and release the lock: the upload is complete, or is to begin anew."""
        self.state, self.is_on_disk = None, False
        self.close()

    def close(self) -> None:
        """Release the lock. A second call has no effect."""
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close(remove=self.state is None)


class UnfinishedUploads:
    """All saved uploads of a user.

    Example:
        >>> import tempfile
        >>> uploads = UnfinishedUploads(Path(tempfile.mkdtemp()))
        >>> upload = {"endpoint": "", "account": "", "source": {"ino": 5}, "metadata": {}}
        >>> saved = uploads.open(**upload, restore=any)
        >>> saved.state is None
        True
        >>> saved.close()
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = root

    def open(
        self,
        *,
        endpoint: str,
        account: str,
        source: Identity,
        metadata: Mapping[str, str],
        restore: Callable[[list[bytes]], bool],
    ) -> SavedUpload:
        """Return the saved upload of a file, locked; its state is None if it is not begun.

        `restore` is called with the states of its wrappers. If it returns False, or the file has
        changed since, what was saved is not used. Nothing is saved on disk if the file
        cannot be identified, the folder cannot be used, or another process sends the same file.
        """
        if source is None:
            return SavedUpload()
        parts = [endpoint, account, source.get("dev"), source.get("ino"), dict(metadata)]
        key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:40]
        try:
            self._folder().make(0o700)
            self.listed()
        except (OSError, ConfigError):  # no home directory, or a full disk
            return SavedUpload()
        saved = self._lock(key) or SavedUpload()
        state = saved.state
        with on_error(saved.close):
            if state is not None and (
                state.source != source or state.has_expired or not restore(state.wrapper_states())
            ):
                saved.state, saved.is_on_disk = None, False
        return saved

    def listed(self) -> list[tuple[str, UnfinishedUpload]]:
        """Return the keys and states of all uploads that can be continued, oldest first.

        Remove those that the service has forgotten, or that nobody continued for a week.
        """
        folder = self._folder()
        names = sorted(folder.entries().files) if folder.exists() else []
        rows = []
        for key in [name.removesuffix(SUFFIX) for name in names if NAME.fullmatch(name)]:
            status, state = folder.status(key + SUFFIX), read_state(self._journal(key))
            is_old = status is None or status.st_mtime < time.time() - FORGOTTEN_AFTER
            if is_old or (state is not None and state.has_expired):
                self.forget(key)
            elif state is not None:
                rows.append((key, state))
        return sorted(rows, key=lambda row: row[1].created)

    def is_busy(self, key: str) -> bool:
        """Return whether a process sends the upload now."""
        with self.locked(key) as saved:
            return saved is None

    def forget(self, key: str) -> bool:
        """Remove what is saved about an upload; return False if a process sends it now."""
        with self.locked(key) as saved:
            if saved is not None:
                saved.remove()
            return saved is not None

    @contextlib.contextmanager
    def locked(self, key: str) -> Iterator[SavedUpload | None]:
        """Lock a saved upload; yield None if a process sends it now, or its lock is not ours."""
        saved = self._lock(key)
        with contextlib.closing(saved or SavedUpload()):
            yield saved

    def _lock(self, key: str) -> SavedUpload | None:
        journal = self._journal(key)
        with contextlib.suppress(OSError, ConfigError):  # no locks here, or not our file
            return SavedUpload(journal) if journal.open() else None
        return None

    def _journal(self, key: str) -> Journal:
        folder, name = self._folder(), key + SUFFIX
        opener = functools.partial(folder.open, name)
        return Journal(KIND, folder.path / name, opener, longest=MAX_STATE)

    def _folder(self) -> Folder:
        return Folder(data_folder() if self._root is None else self._root, FOLDER)


def read_state(journal: Journal) -> UnfinishedUpload | None:
    """Return what is saved about an upload; None if there is nothing, or nothing of use.

    A file that is damaged, a link, or not ours to read must not stop the other uploads.
    """
    try:
        lines = [line for _, line in journal.replay()]
    except (OSError, ConfigError):
        return None
    return UnfinishedUpload.of_line(lines[-1] or {}) if lines else None


def encode_states(states: Iterable[bytes]) -> list[str]:
    """Return the states of wrappers as texts, to save them."""
    return [base64.b64encode(state).decode() for state in states]
