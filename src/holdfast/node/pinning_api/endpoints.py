"""The endpoints of the pinning API: each reads its request, uses the repository, and replies."""

import shutil
from collections.abc import Mapping
from typing import Any

from anyio import CapacityLimiter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError
from holdfast.node.http_server.refusals import Refusal
from holdfast.node.memory import HeldMemory
from holdfast.node.pinning_api.authorization import Authorization, AuthorizedEndpoint, Endpoint
from holdfast.node.pinning_api.body_reader import INLINE_JSON, BodyReader
from holdfast.node.pinning_api.form_parser import feed_all
from holdfast.node.pinning_api.form_upload import FormUpload
from holdfast.node.pinning_api.json_content import read_content
from holdfast.node.pinning_api.json_values import parse_json
from holdfast.node.pinning_api.metadata import check_count, iso_time, read_metadata
from holdfast.node.pinning_api.pin_jobs import PinJob, PinJobs
from holdfast.node.pinning_api.pin_list_query import read_query, whole_number
from holdfast.node.pinning_api.query_runner import QueryRunner
from holdfast.node.pinning_api.store_queue import StoreQueue
from holdfast.node.settings import NodeSettings
from holdfast.records import Pin
from holdfast.repository import Repository
from holdfast.repository.pin_queries import Stopped

WELCOME = "Congratulations! You are communicating with the Pinata API!"
UPLOADS_AT_ONCE = 8  # worker threads that parse uploads
REGIONS = [{"regionId": "LOCAL", "currentReplicationCount": 1, "desiredReplicationCount": 1}]


class PinningEndpoints:
    """The endpoints of the pinning API over one repository."""

    def __init__(self, repository: Repository, settings: NodeSettings, memory: HeldMemory) -> None:
        self._repository = repository
        self._settings = settings
        self.bodies = BodyReader(memory, idle_seconds=settings.idle_seconds)
        self.authorization = Authorization(settings)
        self.uploaders = CapacityLimiter(UPLOADS_AT_ONCE)
        self._stores = StoreQueue(repository)
        self.queries = QueryRunner()
        self.jobs = PinJobs(repository, settings.gateways, max_bytes=settings.max_upload)

    def routes(self) -> list[BaseRoute]:
        """Return the routes. Those of ``/data`` exist under ``/v3`` too, for some clients."""
        endpoints: list[tuple[str, str, Endpoint, str | None]] = [
            ("POST", "/pinning/pinJSONToIPFS", self.pin_json, "pinJSONToIPFS"),
            ("POST", "/pinning/pinFileToIPFS", self.pin_file, "pinFileToIPFS"),
            ("POST", "/pinning/pinByHash", self.pin_by_hash, "pinByHash"),
            ("GET", "/pinning/pinJobs", self.pin_jobs, "pinJobs"),
            ("PUT", "/pinning/hashMetadata", self.hash_metadata, "hashMetadata"),
            ("DELETE", "/pinning/unpin/{cid:path}", self.unpin, "unpin"),
        ]
        for prefix in ("", "/v3"):
            data = f"{prefix}/data"
            endpoints += [
                ("GET", f"{data}/testAuthentication", self.greet, None),
                ("GET", f"{data}/pinList", self.pin_list, "pinList"),
                ("GET", f"{data}/userPinnedDataTotal", self.totals, "userPinnedDataTotal"),
            ]
        return [
            Route(path, self._authorized(endpoint, scope), methods=[method])
            for method, path, endpoint, scope in endpoints
        ]

    def _authorized(self, endpoint: Endpoint, scope: str | None) -> ASGIApp:
        return AuthorizedEndpoint(self.authorization, endpoint, scope)

    async def greet(self, _: Request) -> Response:
        """Reply with the service's greeting, which needs a token and no scope."""
        return JSONResponse({"message": WELCOME})

    async def pin_json(self, request: Request) -> Response:
        """Pin JSON: an object with content, metadata and options, or the content alone."""
        with self.bodies.reading(request, self._settings.max_json) as body:
            text = await body.read()
            if len(text) <= INLINE_JSON:
                content, profile, about = read_content(parse_json(text))
                pin, existed = await self._stores.add(content, profile, **about)
            else:
                pin, existed = await self.bodies.on_thread(body, text, self._add_json)
        return JSONResponse(_pinned(pin, existed))

    def _add_json(self, body: Any) -> tuple[Pin, bool]:
        content, profile, about = read_content(body)
        return self._repository.add(content, profile, **about)

    async def pin_file(self, request: Request) -> Response:
        """Pin a file or a directory from a form."""
        upload = FormUpload(self._repository, request.headers.get("content-type", ""))
        try:
            with self.bodies.reading(request, self._settings.max_upload) as body:
                await feed_all(upload, body, self.uploaders)
            return JSONResponse(_pinned(*await run_in_threadpool(upload.finish)))
        finally:
            await run_in_threadpool(upload.close)
            self.bodies.memory.give_back()

    async def pin_by_hash(self, request: Request) -> Response:
        """Start a job that pins a CID."""
        body = await self.bodies.json_object(request)
        cid = _cid(body.get("hashToPin"))
        job = self.jobs.add(cid, read_metadata(body.get("pinataMetadata")))
        reply = {
            "id": job.id,
            "ipfsHash": job.cid,
            "status": "prechecking",
            "name": job.metadata.name or None,
        }
        return JSONResponse(reply)

    async def pin_jobs(self, request: Request) -> Response:
        """List the jobs that are under way or have failed."""
        query = request.query_params
        jobs = self.jobs.all()
        if query.get("status"):
            jobs = [job for job in jobs if job.status == query["status"]]
        if query.get("ipfs_pin_hash"):
            wanted = _cid(query["ipfs_pin_hash"])
            jobs = [job for job in jobs if CID.parse(job.cid) == wanted]
        if query.get("sort", "ASC").upper() == "DESC":
            jobs.reverse()
        limit = whole_number(query.get("limit", "5"), "limit", most=1000)
        offset = whole_number(query.get("offset", "0"), "offset")
        rows = [_job_row(job) for job in jobs[offset : offset + limit]]
        return JSONResponse({"count": len(jobs), "rows": rows})

    async def hash_metadata(self, request: Request) -> Response:
        """Change the name or the key-values of a pin; a key with the value null is removed."""
        body = await self.bodies.json_object(request)
        cid = _cid(body.get("ipfsPinHash"))
        given = {key: body[key] for key in ("name", "keyvalues") if key in body}
        metadata = read_metadata(given)
        name = metadata.name if given.get("name") is not None else None

        def change(before: Mapping[str, Any]) -> Mapping[str, Any]:
            merged = {**before, **metadata.keyvalues}
            left = {key: value for key, value in merged.items() if value is not None}
            check_count(left)
            return left

        pin = await run_in_threadpool(self._repository.update_pin, cid, name=name, change=change)
        if pin is None:
            raise _not_pinned(str(body["ipfsPinHash"]))
        return PlainTextResponse("OK")

    async def unpin(self, request: Request) -> Response:
        """Remove a pin."""
        given = request.path_params["cid"]
        if not await run_in_threadpool(self._repository.unpin, _cid(given)):
            raise _not_pinned(given)
        return PlainTextResponse("OK")

    async def pin_list(self, request: Request) -> Response:
        """List one page of the pins that match the service's filters.

        The ETag is the state of the store, read before the pins. So a client that asks again learns
        cheaply that nothing has changed.
        """
        query, with_count = read_query(request.query_params)
        known = request.headers.get("if-none-match")

        def find(stopped: Stopped) -> tuple[str, list[Pin] | None, int | None]:
            etag = f'"{self._repository.state()}"'
            if etag == known and known != '""':
                return etag, None, None
            count = self._repository.count_pins(query, stopped) if with_count else None
            return etag, self._repository.pins(query, stopped), count

        etag, pins, count = await self.queries.run(request, find)
        headers = {"ETag": etag} if etag != '""' else {}
        if pins is None:
            return Response(status_code=304, headers=headers)
        reply: dict[str, Any] = {} if count is None else {"count": count}
        return JSONResponse({**reply, "rows": [_pin_row(pin) for pin in pins]}, headers=headers)

    async def totals(self, request: Request) -> Response:
        """Reply with the number and the total size of the pins; with `disk`, its space too."""
        pins, size = await self.queries.run(request, self._repository.totals)
        reply = {
            "pin_count": pins,
            "pin_size_total": size,
            "pin_size_with_replications_total": size,
        }
        if request.query_params.get("disk") == "true":
            space = await run_in_threadpool(shutil.disk_usage, self._repository.path)
            reply |= {"disk_total": space.total, "disk_free": space.free}
        return JSONResponse(reply)


def _pinned(pin: Pin, duplicate: bool) -> dict[str, Any]:  # noqa: FBT001 - as the repository returns it
    """Return the reply to a pin, with the members of all versions of the service."""
    reply: dict[str, Any] = {
        "IpfsHash": pin.cid,
        "PinSize": pin.size,
        "Timestamp": iso_time(pin.created or 0),
        "ID": pin.id,
        "Name": pin.name,
        "NumberOfFiles": pin.files,
        "MimeType": pin.type,
        "GroupId": None,
        "Keyvalues": dict(pin.keyvalues) or None,
    }
    if duplicate:
        reply["isDuplicate"] = True
    return reply


def _pin_row(pin: Pin) -> dict[str, Any]:
    return {
        "id": pin.id,
        "ipfs_pin_hash": pin.cid,
        "size": pin.size,
        "user_id": "local",
        "date_pinned": iso_time(pin.created or 0),
        "date_unpinned": None if pin.removed is None else iso_time(pin.removed),
        "metadata": {"name": pin.name or None, "keyvalues": dict(pin.keyvalues) or None},
        "regions": REGIONS,
        "mime_type": pin.type,
        "number_of_files": pin.files,
    }


def _job_row(job: PinJob) -> dict[str, Any]:
    return {
        "id": job.id,
        "ipfs_pin_hash": job.cid,
        "date_queued": iso_time(job.queued),
        "name": job.metadata.name or None,
        "status": job.status,
        "keyvalues": dict(job.metadata.keyvalues) or None,
        "host_nodes": None,
        "pin_policy": {"regions": [{"id": "LOCAL", "desiredReplicationCount": 1}], "version": 1},
    }


def _not_pinned(cid: str) -> Refusal:
    return Refusal(
        400,
        f"The current user has not pinned the cid: {cid}",
        reason="CURRENT_USER_HAS_NOT_PINNED_CID",
    )


def _cid(given: Any) -> CID:
    try:
        return CID.parse(given if isinstance(given, str) else "")
    except InvalidCIDError as error:
        raise Refusal(400, f"Invalid CID: {error.reason}", reason="INVALID_CID") from None
