"""The resumable uploads of a node: below the folder of its store, and limited in number and age."""

import re
import secrets
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

from holdfast.content.profiles import Profile
from holdfast.errors import ClientError
from holdfast.files.folders import Folder
from holdfast.node.http_server.refusals import Refusal
from holdfast.node.v3_api.networks import Networks
from holdfast.node.v3_api.tus_upload import (
    DONE,
    PROGRESS,
    STATE,
    TusUpload,
    UploadState,
    read_object,
    remove_folder,
    write_object,
)
from holdfast.node.v3_api.upload_options import UploadOptions

FOLDER: Final = "uploads"
ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MAX_UPLOADS: Final = 64  # that are not complete: each holds a part of a leaf in memory
KEPT_SECONDS: Final = 24 * 3600.0  # after the last bytes, or after the upload is complete
SECRET_BYTES: Final = 16
STARTED: Final = time.time() - time.monotonic()  # what a clock that is never set adds to the other


class TusUploads:
    """Finds, makes and removes uploads. Safe for several threads.

    Unfinished uploads stay open, so that no collection of garbage removes their blocks.
    """

    def __init__(self, networks: Networks, profile: Profile) -> None:
        self._networks = networks
        self._profile = profile
        self._root = networks.public.repository.path.absolute()
        self._lock = threading.Lock()
        self._open: dict[str, TusUpload] = {}

    def create(
        self, options: UploadOptions, *, length: int, type: str, metadata: str, is_signed: bool
    ) -> TusUpload:
        """Make an upload; raise a `Refusal` if there are too many."""
        state = UploadState(
            id=str(uuid.uuid4()),
            secret=secrets.token_hex(SECRET_BYTES),
            length=length,
            options=options,
            type=type,
            metadata=metadata,
            is_signed=is_signed,
        )
        if len(self._open) >= MAX_UPLOADS:
            self.sweep()
        network = self._networks.named(options.network)
        network.check_group(options.group_id)
        with self._lock:
            if len(self._open) >= MAX_UPLOADS:
                raise Refusal(
                    503,
                    f"The node has {MAX_UPLOADS} unfinished uploads: finish or delete one, "
                    "or try again later",
                    {"Retry-After": "60"},
                )
            folder = Folder(self._root, FOLDER, state.id)
            Folder(self._root, FOLDER).make(0o700)
            folder.make(0o700)
            write_object(folder, STATE, asdict(state))
            Folder(self._root, FOLDER).sync()
            upload = TusUpload(folder, state, network, self._profile)
            self._start(upload)
        return upload

    def find(self, id: str, secret: str) -> TusUpload:
        """Return an upload by the two parts of its address.

        Raise a `Refusal` with status 404 if it is unknown, and 410 if its blocks are gone.
        """
        with self._lock:
            upload = self._open.get(id) or self._read(id)
            if upload is None or not secrets.compare_digest(
                upload.state.secret.encode(), secret.encode("utf-8", "replace")
            ):
                raise Refusal(404, "There is no such upload: it may have expired")
            if id not in self._open:
                self._start(upload)
            return upload

    def file_id(self, id: str) -> str | None:
        """Return the id of the file that an upload has become; None if it is not complete."""
        if not ID.fullmatch(id):
            return None
        id_: str | None = read_object(Folder(self._root, FOLDER, id), DONE).get("id")
        return id_

    def _read(self, id: str) -> TusUpload | None:
        """Return the upload in the folder `id`, which is not open yet; None if there is none."""
        folder = Folder(self._root, FOLDER, id)
        state = _read_state(folder) if ID.fullmatch(id) else None
        if state is None or is_old(folder.path):
            return None
        network = self._networks.named(state.options.network)
        return TusUpload(folder, state, network, self._profile)

    def _start(self, upload: TusUpload) -> None:
        """Open an upload, which stays open until it is complete."""
        try:
            upload.open()
        except Refusal as refusal:
            upload.close() if refusal.status == 423 else upload.discard()
            raise
        except BaseException:
            upload.close()
            raise
        if upload.cid is None:
            self._open[upload.state.id] = upload

    def forget(self, upload: TusUpload) -> None:
        """Close an upload in memory: after it is complete, or after an error.

        The next request reads it from its folder again.
        """
        with self._lock:
            self._open.pop(upload.state.id, None)
            upload.close()

    def remove(self, upload: TusUpload) -> None:
        """Remove an upload and its blocks."""
        with self._lock:
            self._open.pop(upload.state.id, None)
            upload.discard()

    def sweep(self) -> None:
        """Remove uploads to which nothing was added for `KEPT_SECONDS`."""
        folder = Folder(self._root, FOLDER)
        if not folder.exists():
            return
        with self._lock:
            for id_ in folder.entries().folders:
                upload = self._open.get(id_)
                if not ID.fullmatch(id_) or not is_old(folder.path / id_):
                    continue
                if upload is None:
                    remove_folder(folder.below(id_))
                elif not upload.is_busy:
                    del self._open[id_]
                    upload.discard()

    def resume(self) -> None:
        """Open the unfinished uploads again, to keep their blocks from being removed."""
        folder = Folder(self._root, FOLDER)
        if not folder.exists():
            return
        self.sweep()
        for id_ in folder.entries().folders:
            with self._lock, suppress(Refusal, ClientError, OSError):
                if id_ not in self._open and not folder.below(id_).is_file(DONE):
                    upload = self._read(id_)
                    if upload is not None:
                        self._start(upload)

    def close(self) -> None:
        """Close all uploads. They stay in their folders."""
        with self._lock:
            for upload in self._open.values():
                with suppress(ClientError, OSError):
                    upload.close()
            self._open.clear()


def is_old(path: Path) -> bool:
    """Return whether nothing was added to an upload for `KEPT_SECONDS`.

    A clock that is set forward, while the node runs, makes no upload older.
    """
    return min(time.time(), STARTED + time.monotonic()) > expiry(path)


def expiry(path: Path) -> float:
    """Return when the upload in the folder `path` will be removed."""
    times = [0.0]
    for name in (STATE, PROGRESS, DONE):
        with suppress(OSError):
            times.append((path / name).lstat().st_mtime)
    return max(times) + KEPT_SECONDS


def _read_state(folder: Folder) -> UploadState | None:
    """Return the state in the folder of an upload; None if it is missing or damaged."""
    value = read_object(folder, STATE)
    try:
        return UploadState(**{**value, "options": UploadOptions(**value["options"])})
    except (TypeError, KeyError):
        return None
