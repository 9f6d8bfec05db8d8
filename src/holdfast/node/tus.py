"""Uploads in several requests (tus 1.0): on disk below the store, limited in number and age."""

import asyncio
import base64
import binascii
import hashlib
import json
import os
import re
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from email.utils import formatdate
from pathlib import Path
from typing import IO, Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from holdfast.content.profiles import Profile, profile_named
from holdfast.content.unixfs.files import leaf_part
from holdfast.disk.atomic import PendingFile
from holdfast.disk.folders import Folder
from holdfast.disk.locks import try_lock
from holdfast.errors import ClientError
from holdfast.node import v3_uploads
from holdfast.node.api_calls import ApiCalls
from holdfast.node.client_values import whole_number
from holdfast.node.form_upload import MAX_SMALL, feed_all, too_large
from holdfast.node.http_server.http_connection import CONNECTION
from holdfast.node.http_server.refusals import Refusal, bad_request, logger
from holdfast.node.service import Network, Service
from holdfast.node.v3_uploads import UploadOptions
from holdfast.repository.adding import Adding, FileAdding

# One resumable upload, which survives the end of the process.
#
# Its bytes become blocks of the store as they arrive, so none is written twice. The folder of the
# upload has what is needed to go on::
#
#     state.json   what the client said about the upload; written once
#     leaves       the digests of the leaves that are in the store; only appended to
#     progress     how many of the leaves count, and the bytes after them; replaced in one step
#     done.json    the file, once all bytes are there
#
# The offset is what `progress` says. Leaves that were appended after it was written do not count.
#
# A disk may damage each of them, so all but the leaves begin with a digest of the rest. Without a
# sound ``state.json`` there is no upload, and its folder is removed when it is old. Without a
# sound ``done.json`` the file is found by its id. In all other cases the upload starts again, at
# 0.


COUNT_SIZE: Final = 8  # bytes of the number of leaves in `progress`, after the digest of the rest
DIGEST_SIZE: Final = 32  # of sha2-256, which all layouts use
MAX_STATE: Final = 1 << 20
STATE: Final = "state.json"
LEAVES: Final = "leaves"
PROGRESS: Final = "progress"
DONE: Final = "done.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadState:
    """What is fixed when an upload is made.

    Attributes:
        id: The id that the file will have.
        secret: The last part of its address.
        length: The bytes of the file.
        profile: The name of its layout, because the node may be started with another one.
        options: What the client said about it.
        type: The media type that the client said.
        metadata: The header of the client, which HEAD returns.
        is_signed: Whether a signed address allowed it. Then no token is needed.
    """

    id: str
    secret: str
    length: int
    profile: str
    options: UploadOptions
    type: str
    metadata: str
    is_signed: bool


class TusUpload:
    """An upload whose folder exists. Only one thread may use it at a time.

    Attributes:
        path: The folder.
        state: What is fixed.
        offset: How many bytes have arrived.
        cid: The CID of the file when the upload is complete; else None.
        is_busy: Whether a request is sending bytes.
        interrupt: Ends that request.
    """

    def __init__(self, folder: Folder, state: UploadState, network: Network) -> None:
        self._folder = folder
        self.path: Path = folder.path
        self.state = state
        self._network = network
        self._profile = profile_named(state.profile)
        self._lock: IO[bytes] | None = None  # held while the upload is open
        self._adding: Adding | None = None
        self._file: FileAdding | None = None
        self._count = 0  # leaves in the file `leaves`
        self._fresh: list[bytes] = []  # digests of leaves that are not in it yet
        self.offset: int = 0
        self.cid: str | None = None
        self.is_busy = False
        self.interrupt: Callable[[], None] | None = None

    @property
    def memory_used(self) -> int:
        """The approximate bytes of memory that the upload holds."""
        small = 0 if self._adding is None else self._adding.small_bytes
        return small + (0 if self._file is None else self._file.leaf_bytes)

    def open(self) -> None:
        """Read what is in the folder, and keep the blocks of the upload from being removed.

        If all bytes have arrived, but the process ended before the file was pinned, pin it now.
        Raise a `Refusal` with status 410 if blocks are missing.
        """
        self.cid = read_object(self._folder, DONE).get("cid") or self._find_done()
        if self.cid is not None:
            self.offset = self.state.length
            return
        self._lock = os.fdopen(self._folder.open(STATE), "rb")
        with suppress(OSError):  # a file system without locks
            if not try_lock(self._lock.fileno()):
                raise Refusal(423, "Another node has the upload open", {"Retry-After": "1"})
        self._adding = self._network.repository.adding()
        self._adding.max_small_bytes = MAX_SMALL
        self._file = FileAdding(
            self._adding, self._profile, lambda leaf: self._fresh.append(leaf.cid.digest)
        )
        self._fresh = []
        self._resume(self._adding, self._file)
        if self.offset == self.state.length:
            self.finish()

    def _find_done(self) -> str | None:
        """Return the CID of a damaged ``done.json``: the pin with the id of the upload has it."""
        if not self._folder.is_file(DONE):
            return None
        pin = self._network.find(self.state.id)
        if pin is None:  # the content had a file before, with another id
            self._log_damage(DONE)
        return None if pin is None else pin.cid

    def _resume(self, adding: Adding, file: FileAdding) -> None:
        self._count, rest = self._read_progress()
        digests = self._folder.read(LEAVES, self._count * DIGEST_SIZE) or b""
        if len(digests) < self._count * DIGEST_SIZE:
            self._log_damage(LEAVES)
            self._count, rest = 0, b""
        starts = range(0, self._count * DIGEST_SIZE, DIGEST_SIZE)
        chunk_size = self._profile.chunk_size
        leaves = [
            leaf_part(self._profile, digests[start : start + DIGEST_SIZE], chunk_size)
            for start in starts
        ]
        if leaves and not adding.lease(leaf.cid for leaf in leaves):
            raise Refusal(410, "The upload is gone: its blocks were removed as garbage")
        file.resume(leaves, rest)
        self.offset = self._count * chunk_size + len(rest)

    def _read_progress(self) -> tuple[int, bytes]:
        """Return how many leaves count, and the bytes after them; none if that is damaged."""
        content = read_sealed(self._folder, PROGRESS, COUNT_SIZE + self._profile.chunk_size)
        if not content and self._folder.is_file(PROGRESS):
            self._log_damage(PROGRESS)
        return int.from_bytes(content[:COUNT_SIZE], "big"), content[COUNT_SIZE:]

    def _log_damage(self, name: str) -> None:
        logger.warning("the upload %s starts again: %s is damaged", self.state.id, name)

    def feed(self, piece: bytes) -> None:
        """Add the next bytes."""
        if self._file is None:
            raise Refusal(409, "The upload is complete")
        self._file.update(piece)
        self.offset += len(piece)

    def settle(self) -> None:
        """Make all bytes so far durable."""
        if self._file is None or self._adding is None:
            return
        rest = self._file.settle()
        if self._fresh:
            self._adding.flush()
            self._append(b"".join(self._fresh))
            self._count += len(self._fresh)
            self._fresh = []
        content = self._count.to_bytes(COUNT_SIZE, "big") + rest
        write_sealed(self._folder, PROGRESS, content)

    def _append(self, digests: bytes) -> None:
        descriptor = self._folder.open(LEAVES, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            file.seek(self._count * DIGEST_SIZE)
            file.truncate()
            file.write(digests)
            file.flush()
            os.fsync(file.fileno())

    def finish(self) -> None:
        """Pin the file, of which all bytes have arrived."""
        if self._file is None or self._adding is None:
            return
        self.settle()
        part = self._file.finish()
        state, options = self.state, self.state.options
        file = v3_uploads.pin_upload(
            self._network, self._adding, part, options, id=state.id, type=state.type
        )
        write_object(self._folder, DONE, {"cid": file.pin.cid, "id": file.pin.id})
        self.cid = file.pin.cid
        self._file = self._adding = None
        self.close()
        for name in (PROGRESS, LEAVES):
            self._folder.remove(name)

    def close(self) -> None:
        """End the use of the upload. What was not made durable is lost."""
        for part in (self._file, self._adding, self._lock):
            if part is not None:
                part.close()
        self._file = self._adding = self._lock = None

    def discard(self) -> None:
        """Remove the upload and its blocks."""
        adding, self._adding = self._adding, None
        self.close()
        if adding is not None:
            with suppress(ClientError, OSError):  # else a collection of garbage removes them
                adding.discard()
        remove_folder(self._folder)


def write_sealed(folder: Folder, name: str, content: bytes) -> None:
    """Replace a file of an upload in one step. It begins with the digest of its content."""
    with PendingFile(folder.path / name) as pending:
        pending.write(hashlib.sha256(content).digest() + content)
        pending.commit()


def read_sealed(folder: Folder, name: str, limit: int = MAX_STATE) -> bytes:
    """Return what `write_sealed` has written; empty if it is missing or damaged."""
    data = folder.read(name, DIGEST_SIZE + limit) or b""
    digest, content = data[:DIGEST_SIZE], data[DIGEST_SIZE:]
    return content if hashlib.sha256(content).digest() == digest else b""


def write_object(folder: Folder, name: str, value: dict[str, Any]) -> None:
    """Write a JSON object to a file of an upload."""
    write_sealed(folder, name, json.dumps(value).encode())


def read_object(folder: Folder, name: str) -> dict[str, Any]:
    """Return what `write_object` has written; an empty object if it is missing or damaged."""
    value: dict[str, Any] = json.loads(read_sealed(folder, name) or b"{}")
    return value


def remove_folder(folder: Folder) -> None:
    """Remove the folder of an upload, its state first: without it, it is no upload."""
    for name in (STATE, *(name for name in folder.entries().files if name != STATE)):
        folder.remove(name)
    with suppress(OSError):
        folder.path.rmdir()


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

    def __init__(self, service: Service, profile: Profile) -> None:
        self._service = service
        self._profile = profile
        self._folder = Folder(service.public.repository.path.absolute(), FOLDER)
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
            profile=options.profile(self._profile).name,
            options=options,
            type=type,
            metadata=metadata,
            is_signed=is_signed,
        )
        if len(self._open) >= MAX_UPLOADS:
            self.sweep()
        network = self._service.network(options.network)
        network.check_group(options.group_id)
        with self._lock:
            if len(self._open) >= MAX_UPLOADS:
                raise Refusal(
                    503,
                    f"The node has {MAX_UPLOADS} unfinished uploads: finish or delete one, "
                    "or try again later",
                    {"Retry-After": "60"},
                )
            folder = self._folder.below(state.id)
            self._folder.make(0o700)
            folder.make(0o700)
            write_object(folder, STATE, asdict(state))
            self._folder.sync()
            upload = TusUpload(folder, state, network)
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
        id_: str | None = read_object(self._folder.below(id), DONE).get("id")
        return id_

    def _read(self, id: str) -> TusUpload | None:
        """Return the upload in the folder `id`, which is not open yet; None if there is none."""
        folder = self._folder.below(id)
        fields = read_object(folder, STATE) if ID.fullmatch(id) else {}
        if not fields or is_old(folder.path):
            return None
        try:
            state = UploadState(**{**fields, "options": UploadOptions(**fields["options"])})
        except (TypeError, KeyError):  # of another version of Holdfast
            return None
        return TusUpload(folder, state, self._service.network(state.options.network))

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
        with self._lock:
            for id_, folder in self._folders():
                upload = self._open.get(id_)
                if not is_old(folder.path):
                    continue
                if upload is None:
                    remove_folder(folder)
                elif not upload.is_busy:
                    del self._open[id_]
                    upload.discard()

    def resume(self) -> None:
        """Open the unfinished uploads again, to keep their blocks from being removed."""
        self.sweep()
        for id_, folder in self._folders():
            with self._lock, suppress(Refusal, ClientError, OSError):
                if id_ not in self._open and not folder.is_file(DONE):
                    upload = self._read(id_)
                    if upload is not None:
                        self._start(upload)

    def _folders(self) -> list[tuple[str, Folder]]:
        names = self._folder.entries().folders if self._folder.exists() else []
        return [(name, self._folder.below(name)) for name in names if ID.fullmatch(name)]

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
    times = []
    for name in (STATE, PROGRESS, DONE):
        with suppress(OSError):
            times.append((path / name).lstat().st_mtime)
    if not times:  # another node may be making it just now
        with suppress(OSError):
            times.append(path.lstat().st_mtime)
    return max(times, default=0.0) + KEPT_SECONDS


# Uploads in several requests: the tus protocol, version 1.0.0, with three of its extensions.

VERSION: Final = "1.0.0"
EXTENSIONS: Final = "creation,expiration,termination"
BODY_TYPE: Final = "application/offset+octet-stream"
INTERRUPT_SECONDS: Final = 10.0  # to wait for the end of a request that was interrupted
PAUSE: Final = 0.02  # seconds between two looks at it
ALWAYS: Final = {"Tus-Resumable": VERSION, "Cache-Control": "no-store"}
ABILITIES: Final = {**ALWAYS, "Tus-Version": VERSION, "Tus-Extension": EXTENSIONS}


class TusEndpoints:
    """The requests of a resumable upload."""

    def __init__(self, uploads: TusUploads, calls: ApiCalls, *, limit: int) -> None:
        self._uploads = uploads
        self._calls = calls
        self._limit = limit

    async def options(self, _: Request) -> Response:
        """Reply with what the node can do."""
        headers = {**ABILITIES, "Tus-Max-Size": str(self._limit)}
        return Response(status_code=204, headers=headers)

    async def create(self, request: Request, grant: Mapping[str, Any] | None = None) -> Response:
        """Make an upload; the header Location of the reply is its address."""
        _check_version(request)
        header = request.headers.get("upload-metadata", "")
        fields = _read_metadata(header)
        if v3_uploads.CID_VERSION in request.query_params:
            fields["cid_version"] = request.query_params[v3_uploads.CID_VERSION]
        if "upload-length" not in request.headers:
            raise bad_request("Upload-Length is missing; the node lacks Upload-Defer-Length")
        length = whole_number(request.headers["upload-length"], "Upload-Length")
        limit = v3_uploads.size_limit(grant, self._limit)
        if length > limit:
            raise too_large(limit)
        media_type = fields.pop("filetype", "")
        v3_uploads.check_type(grant, media_type)
        fields["name"] = fields.pop("filename", fields.get("name", ""))
        upload = await run_in_threadpool(
            self._uploads.create,
            v3_uploads.read_upload_options(fields, grant),
            length=length,
            type=media_type,
            metadata=header,
            is_signed=grant is not None,
        )
        state = upload.state
        location = f"{v3_uploads.base_url(request)}/v3/files/{state.id}/{state.secret}"
        return Response(status_code=201, headers={"Location": location, **_progress(upload)})

    async def serve(self, request: Request) -> Response:
        """Serve a request to the address of an upload."""
        method = request.method
        if method == "OPTIONS":
            return await self.options(request)
        if method == "POST":
            method = request.headers.get("x-http-method-override", "POST").upper()
        try:
            _check_version(request)
            parts = request.path_params["id"], request.path_params["secret"]
            upload = await run_in_threadpool(self._uploads.find, *parts)
            if not upload.state.is_signed:
                self._calls.authorization.check(request, "org:files:write")
            if method == "PATCH":
                return await self._add(request, upload)
            if upload.is_busy:
                await _interrupt(upload)
                upload = await run_in_threadpool(self._uploads.find, *parts)
            if method == "HEAD":
                headers = {"Upload-Length": str(upload.state.length), **_progress(upload)}
                if upload.state.metadata:
                    headers["Upload-Metadata"] = upload.state.metadata
                return Response(status_code=200, headers=headers)
            if method == "DELETE":
                await run_in_threadpool(self._uploads.remove, upload)
                return Response(status_code=204, headers=ALWAYS)
        except Refusal as refusal:
            return v3_uploads.error_reply(refusal, ALWAYS)
        wrong = Refusal(405, "An upload accepts HEAD, PATCH and DELETE")
        return v3_uploads.error_reply(wrong, ALWAYS)

    async def _add(self, request: Request, upload: TusUpload) -> Response:
        """Add the bytes of a PATCH. What arrived before an interruption counts."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != BODY_TYPE:
            raise Refusal(415, f"The Content-Type of PATCH is {BODY_TYPE}")
        if upload.is_busy:
            raise _locked()
        offset = whole_number(request.headers.get("upload-offset", ""), "Upload-Offset")
        if offset != upload.offset:
            text = f"Upload-Offset is {offset}, and the upload is at {upload.offset}: ask with HEAD"
            raise Refusal(409, text, {"Upload-Offset": str(upload.offset)})
        upload.is_busy = True
        connection = request.scope.get("extensions", {}).get(CONNECTION)
        upload.interrupt = None if connection is None else connection.abort
        try:
            await self._feed(request, upload)
            if upload.offset == upload.state.length:
                await self._finish(upload)
        except Refusal:
            raise
        except BaseException:
            # Not all that was fed is known to be stored: go on from what is durable.
            await run_in_threadpool(self._uploads.forget, upload)
            raise
        finally:
            upload.is_busy, upload.interrupt = False, None
        if upload.cid is not None:
            await run_in_threadpool(self._uploads.forget, upload)
        return Response(status_code=204, headers=_progress(upload))

    async def _finish(self, upload: TusUpload) -> None:
        """Pin the file; remove an upload that cannot become one, such as a broken archive."""
        try:
            await run_in_threadpool(upload.finish)
        except Refusal:
            await run_in_threadpool(self._uploads.remove, upload)
            raise

    async def _feed(self, request: Request, upload: TusUpload) -> None:
        left = upload.state.length - upload.offset
        try:
            with self._calls.bodies.reading(request, left) as body:
                await feed_all(upload, body, self._calls)
        finally:
            await run_in_threadpool(upload.settle)


def _progress(upload: TusUpload) -> dict[str, str]:
    headers = {**ALWAYS, "Upload-Offset": str(upload.offset)}
    if upload.cid is not None:
        headers["upload-cid"] = upload.cid
    headers["Upload-Expires"] = formatdate(expiry(upload.path), usegmt=True)
    return headers


async def _interrupt(upload: TusUpload) -> None:
    """End a request that still sends bytes: a client that asks for the offset has lost it."""
    if upload.interrupt is not None:
        upload.interrupt()
    for _ in range(round(INTERRUPT_SECONDS / PAUSE)):
        if not upload.is_busy:
            return
        await asyncio.sleep(PAUSE)
    raise _locked()


def _locked() -> Refusal:
    return Refusal(423, "Another request is sending this upload", {"Retry-After": "1"})


def _check_version(request: Request) -> None:
    """Refuse another version. The official SDK sends none."""
    if request.headers.get("tus-resumable", VERSION) != VERSION:
        raise Refusal(412, f"The node speaks tus {VERSION}", {"Tus-Version": VERSION})


def _read_metadata(header: str) -> dict[str, str]:
    """Return the pairs of the header Upload-Metadata: a key, and its value in base64."""
    fields: dict[str, str] = {}
    for pair in header.split(","):
        key, _, value = pair.strip().partition(" ")
        try:
            raw = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise bad_request(f"The value of {key[:40]} in Upload-Metadata is not base64") from None
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = raw.decode("latin-1")  # the official SDK encodes each character as one byte
        if key in fields:
            raise bad_request(f"{key[:40]} is in Upload-Metadata twice")
        if key:
            fields[key] = text
    return fields
