"""What is saved on disk about uploads, so that a later process can continue them.

Each upload has two files, whose names are made from a key::

    KEY.json   where the upload is at the service, and of which file; replaced in one step
    KEY.lock   locked by the process that sends the upload

They hold no token. Only their user can read them.
"""

import base64
import contextlib
import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

from holdfast.config.locations import data_folder
from holdfast.errors import ConfigError
from holdfast.files.atomic import PendingFile
from holdfast.files.folders import Folder
from holdfast.files.locks import try_lock

logger: Final = logging.getLogger("holdfast")

FOLDER: Final = "unfinished-uploads"  # in the data folder
VERSION: Final = 1
STATE: Final = ".json"
LOCK: Final = ".lock"
NAME: Final = re.compile(r"([0-9a-f]{40})\.(?:json|lock)")
MAX_STATE: Final = 16 << 20  # bytes; an encrypting wrapper saves 16 for each 64 KiB
FORGOTTEN_AFTER: Final = 7 * 24 * 3600.0  # seconds since the last write
MAX_NUMBER: Final = 1e18  # a larger number in a state means that the state is damaged
TRIES: Final = 10  # to lock a file that others remove at the same time


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
    source: Mapping[str, Any] | None
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
        return [base64.b64decode(each) for each in self.states]

    def at(self, offset: int, expires: float | None) -> "UnfinishedUpload":
        """Return the state when the service has `offset` bytes."""
        return replace(self, offset=offset, expires=expires)

    @classmethod
    def of_text(cls, text: bytes) -> "UnfinishedUpload | None":
        """Return the state that `to_text` has written; None for anything else."""
        try:
            value = json.loads(text)
            if value.pop("version") != VERSION:
                return None
            state = cls(**value)
            expires = 0 if state.expires is None else state.expires
            numbers = (state.size, state.offset, state.created, expires)
            texts = (state.endpoint, state.location, state.name)
            is_right = (
                all(0 <= each < MAX_NUMBER for each in numbers)
                and all(isinstance(each, str) for each in texts)
                and isinstance(state.source, dict | None)
                and encode_states(state.wrapper_states()) == state.states
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        return state if is_right else None

    def to_text(self) -> bytes:
        """Return the content of the file."""
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1).encode()


class SavedUpload:
    """The state of one upload, under its lock; or in memory only, without a folder.

    Attributes:
        state: The state, or None if the upload is not begun.
        is_on_disk: Whether a later process can continue the upload.
    """

    def __init__(self, folder: Folder | None = None, key: str = "") -> None:
        self._folder = folder
        self._key = key
        self._lock: BinaryIO | None = None
        self.is_on_disk: bool = False
        self.state: UnfinishedUpload | None = None

    def open(self) -> bool:
        """Lock the upload and read its state; return False if another process or call has it."""
        if self._folder is None:
            return True
        for _ in range(TRIES):
            flags = os.O_RDWR | os.O_CREAT
            file = os.fdopen(self._folder.open(self._key + LOCK, flags, 0o600), "r+b")
            try:
                if not try_lock(file.fileno()):
                    return False
                named = self._folder.status(self._key + LOCK)
                # The process that had the lock before may have removed the file meanwhile.
                if named is not None and named.st_ino == os.fstat(file.fileno()).st_ino:
                    self._lock = file
                    break
            finally:
                if self._lock is None:
                    file.close()
        self.state = read_state(self._folder, self._key)
        self.is_on_disk = self.state is not None
        return self._lock is not None

    def save(self, state: UnfinishedUpload) -> None:
        """Replace the state, durably. If that is impossible, the upload itself still works."""
        self.state = state
        if self._folder is None:
            return
        try:
            with PendingFile(self._folder.path / f"{self._key}{STATE}", mode=0o600) as pending:
                pending.write(state.to_text())
                pending.commit()
            self.is_on_disk = True
        except OSError as error:
            logger.warning("the upload cannot be continued by a later process: %s", error)

    def remove(self) -> None:
        """Remove the state: the upload is complete, or is to begin anew."""
        self.state, self.is_on_disk = None, False
        if self._folder is not None:
            self._folder.remove(self._key + STATE)

    def close(self) -> None:
        """Release the lock. A second time does nothing."""
        if self._lock is None or self._folder is None:
            return
        with contextlib.suppress(OSError):  # Windows removes no open file: it is swept later
            if self.state is None:
                self._folder.remove(self._key + LOCK)
        self._lock.close()
        self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class UnfinishedUploads:
    """All saved uploads of a user.

    Example:
        >>> import tempfile
        >>> uploads = UnfinishedUploads(Path(tempfile.mkdtemp()))
        >>> upload = {"endpoint": "", "account": "", "source": {"ino": 5}, "about": {}}
        >>> with uploads.open(**upload, restore=any) as saved:
        ...     saved.state is None
        True
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = root

    def open(
        self,
        *,
        endpoint: str,
        account: str,
        source: Mapping[str, Any] | None,
        about: Mapping[str, str],
        restore: Callable[[list[bytes]], bool],
    ) -> SavedUpload:
        """Return the saved upload of a file, locked; its state is None if it is not begun.

        `restore` is called with the states of its wrappers. If it returns False, or the file has
        changed since, what was saved is removed. Nothing is saved on disk if the file
        cannot be identified, the folder cannot be used, or another process sends the same file.
        """
        if source is None:
            return SavedUpload()
        key = _key([endpoint, account, source.get("dev"), source.get("ino"), dict(about)])
        try:
            folder = self._folder()
            folder.make(0o700)
            self.sweep()
            saved = SavedUpload(folder, key)
            if not saved.open():
                return SavedUpload()
        except (OSError, ConfigError):
            # No home directory, a full disk, or a file system without locks.
            return SavedUpload()
        state = saved.state
        if state is not None and (
            state.source != source or state.has_expired or not restore(state.wrapper_states())
        ):
            saved.remove()
        return saved

    def listed(self) -> list[tuple[str, UnfinishedUpload]]:
        """Return the keys and states of all uploads that can be continued, oldest first."""
        self.sweep()
        found = []
        for key in self._keys():
            state = read_state(self._folder(), key)
            if state is not None:
                found.append((key, state))
        return sorted(found, key=lambda each: each[1].created)

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

    def sweep(self) -> None:
        """Remove uploads that the service has forgotten, or that nobody continued for a week."""
        folder = self._folder()
        for key in self._keys():
            times = [folder.status(key + suffix) for suffix in (STATE, LOCK)]
            last = max((each.st_mtime for each in times if each is not None), default=0.0)
            state = read_state(folder, key)
            if (state is not None and state.has_expired) or last < time.time() - FORGOTTEN_AFTER:
                self.forget(key)

    @contextlib.contextmanager
    def locked(self, key: str) -> Iterator[SavedUpload | None]:
        """Lock a saved upload; yield None if a process sends it now, or its lock is not ours."""
        with SavedUpload(self._folder(), key) as saved:
            try:
                is_free = saved.open()
            except (OSError, ConfigError):
                is_free = False
            yield saved if is_free else None

    def _keys(self) -> list[str]:
        folder = self._folder()
        if not folder.exists():
            return []
        matches = map(NAME.fullmatch, folder.entries().files)
        return sorted({match[1] for match in matches if match is not None})

    def _folder(self) -> Folder:
        return Folder(data_folder() if self._root is None else self._root, FOLDER)


def read_state(folder: Folder, key: str) -> UnfinishedUpload | None:
    """Return what is saved about an upload; None if there is nothing, or nothing of use.

    A file that is damaged, a link, or not ours to read must not stop the other uploads.
    """
    try:
        text = folder.read(key + STATE, MAX_STATE)
    except (OSError, ConfigError):
        return None
    return None if text is None else UnfinishedUpload.of_text(text)


def encode_states(states: Iterable[bytes]) -> list[str]:
    """Return the states of wrappers as texts, to save them."""
    return [base64.b64encode(state).decode() for state in states]


def _key(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:40]
