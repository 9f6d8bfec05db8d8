"""Uploads in several requests: the tus protocol, version 1.0.0, with three of its extensions."""

import asyncio
import base64
import binascii
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any, Final

from anyio import CapacityLimiter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from holdfast.node.http_server.http_connection import CONNECTION
from holdfast.node.http_server.refusals import Refusal, bad_request
from holdfast.node.pinning_api.authorization import Authorization
from holdfast.node.pinning_api.body_reader import BodyReader
from holdfast.node.pinning_api.form_upload import feed_all
from holdfast.node.pinning_api.pin_list_query import whole_number
from holdfast.node.v3_api.tus_uploads import TusUpload, TusUploads, expiry
from holdfast.node.v3_api.upload_options import (
    CID_VERSION,
    check_type,
    read_upload_options,
    size_limit,
    too_large,
)
from holdfast.node.v3_api.v3_calls import base_url, error_reply

VERSION: Final = "1.0.0"
EXTENSIONS: Final = "creation,expiration,termination"
BODY_TYPE: Final = "application/offset+octet-stream"
INTERRUPT_SECONDS: Final = 10.0  # to wait for the end of a request that was interrupted
PAUSE: Final = 0.02  # seconds between two looks at it
ALWAYS: Final = {"Tus-Resumable": VERSION, "Cache-Control": "no-store"}


class TusEndpoints:
    """The requests of a resumable upload."""

    def __init__(
        self,
        uploads: TusUploads,
        authorization: Authorization,
        bodies: BodyReader,
        uploaders: CapacityLimiter,
        *,
        limit: int,
    ) -> None:
        self._uploads = uploads
        self._authorization = authorization
        self._bodies = bodies
        self._uploaders = uploaders
        self._limit = limit

    async def options(self, _: Request) -> Response:
        """Reply with what the node can do."""
        headers = {
            **ALWAYS,
            "Tus-Version": VERSION,
            "Tus-Extension": EXTENSIONS,
            "Tus-Max-Size": str(self._limit),
        }
        return Response(status_code=204, headers=headers)

    async def create(self, request: Request, grant: Mapping[str, Any] | None = None) -> Response:
        """Make an upload; the header Location of the reply is its address."""
        _check_version(request)
        header = request.headers.get("upload-metadata", "")
        fields = _read_metadata(header)
        if CID_VERSION in request.query_params:
            fields["cid_version"] = request.query_params[CID_VERSION]
        if "upload-length" not in request.headers:
            raise bad_request("Upload-Length is missing; the node has no Upload-Defer-Length")
        length = whole_number(request.headers["upload-length"], "Upload-Length")
        limit = size_limit(grant, self._limit)
        if length > limit:
            raise too_large(limit)
        media_type = fields.pop("filetype", "")
        check_type(grant, media_type)
        fields["name"] = fields.pop("filename", fields.get("name", ""))
        upload = await run_in_threadpool(
            self._uploads.create,
            read_upload_options(fields, grant),
            length=length,
            type=media_type,
            metadata=header,
            is_signed=grant is not None,
        )
        state = upload.state
        location = f"{base_url(request)}/v3/files/{state.id}/{state.secret}"
        return Response(status_code=201, headers={"Location": location, **_progress(upload)})

    async def serve(self, request: Request) -> Response:
        """Serve a request to the address of an upload."""
        method = request.method
        if method == "POST":
            method = request.headers.get("x-http-method-override", "POST").upper()
        try:
            _check_version(request)
            parts = request.path_params["id"], request.path_params["secret"]
            upload = await run_in_threadpool(self._uploads.find, *parts)
            if not upload.state.is_signed:
                self._authorization.check(request, "org:files:write")
            if method == "PATCH":
                return await self._add(request, upload)
            if upload.is_busy:
                await _interrupt(upload)
                upload = await run_in_threadpool(self._uploads.find, *parts)
            if method == "HEAD":
                return self._head(upload)
            if method == "DELETE":
                return await self._remove(upload)
        except Refusal as refusal:
            return error_reply(refusal, ALWAYS)
        return error_reply(Refusal(405, "An upload takes HEAD, PATCH and DELETE"), ALWAYS)

    def _head(self, upload: TusUpload) -> Response:
        headers = {"Upload-Length": str(upload.state.length), **_progress(upload)}
        if upload.state.metadata:
            headers["Upload-Metadata"] = upload.state.metadata
        return Response(status_code=200, headers=headers)

    async def _remove(self, upload: TusUpload) -> Response:
        await run_in_threadpool(self._uploads.remove, upload)
        return Response(status_code=204, headers=ALWAYS)

    async def _add(self, request: Request, upload: TusUpload) -> Response:
        """Add the bytes of a PATCH. What arrived before an interruption counts."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != BODY_TYPE:
            raise Refusal(415, f"The Content-Type of PATCH is {BODY_TYPE}")
        if upload.is_busy:
            raise _locked()
        offset = whole_number(request.headers.get("upload-offset", ""), "Upload-Offset")
        if offset != upload.offset:
            raise Refusal(
                409,
                f"Upload-Offset is {offset}, and the upload is at {upload.offset}: ask with HEAD",
                {"Upload-Offset": str(upload.offset)},
            )
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
            with self._bodies.reading(request, left) as body:
                await feed_all(upload, body, self._uploaders)
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
