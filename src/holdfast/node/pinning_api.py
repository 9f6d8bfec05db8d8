"""The endpoints of the pinning API: each reads its request, uses the repository, and replies."""

import asyncio
import json
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from anyio import CapacityLimiter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from holdfast.content.cid import CID
from holdfast.content.profiles import Profile
from holdfast.node.api_calls import (
    INLINE_JSON,
    Authorization,
    AuthorizedEndpoint,
    BodyReader,
    Endpoint,
    QueryRunner,
)
from holdfast.node.client_values import (
    PinOptions,
    iso_time,
    merge_keyvalues,
    parse_json,
    read_cid,
    read_metadata,
    read_options,
    read_query,
    whole_number,
    with_numbers,
    write_json,
)
from holdfast.node.form_upload import FormUpload, receive_form
from holdfast.node.http_server.refusals import Refusal, bad_request
from holdfast.node.memory import HeldMemory
from holdfast.node.pin_jobs import Groups, PinJob, PinJobs, Pinned, pin_in_group, start_in_group
from holdfast.node.settings import NodeSettings
from holdfast.records import Pin
from holdfast.repository import Repository
from holdfast.repository.adding import NewPin, pin_together
from holdfast.repository.pin_queries import Stopped
from holdfast.sources.importing import import_content

# The content in the body of ``pinJSONToIPFS``.

CONTENT_NAMES: Final = ("pinataContent", "pinContent")


def read_content(body: Any) -> tuple[bytes, PinOptions, dict[str, Any]]:
    """Return the content in a parsed body, its options, and the fields of its pin.

    The body is an object with content, metadata and options, or the content alone.
    """
    content, metadata, options = body, read_metadata(None), read_options(None)
    name = next((n for n in CONTENT_NAMES if isinstance(body, dict) and n in body), None)
    if name is not None:
        content = body[name]
        metadata = read_metadata(with_numbers(body.get("pinataMetadata")))
        options = read_options(with_numbers(body.get("pinataOptions")))
    elif not isinstance(body, dict | list):
        raise bad_request("The body must be a JSON object")
    about = {
        "name": metadata.name,
        "keyvalues": metadata.keyvalues,
        "type": "application/json",
    }
    return write_json(content).encode(), options, about


# Pins and jobs as the JSON of the service.

REGIONS: Final[list[dict[str, Any]]] = [
    {"regionId": "LOCAL", "currentReplicationCount": 1, "desiredReplicationCount": 1}
]


def pinned_record(pinned: Pinned) -> dict[str, Any]:
    """Return the reply to a pin, with the members of all versions of the service."""
    pin = pinned.pin
    reply: dict[str, Any] = {
        "IpfsHash": pin.cid,
        "PinSize": pin.size,
        "Timestamp": iso_time(pin.created or 0),
        "ID": pin.id,
        "Name": pin.name,
        "NumberOfFiles": pin.files,
        "MimeType": pin.type,
        "GroupId": pinned.group,
        "Keyvalues": dict(pin.keyvalues) or None,
    }
    if pinned.existed:
        reply["isDuplicate"] = True
    return reply


def pin_row(pin: Pin) -> dict[str, Any]:
    """Return a pin as lists have it."""
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


def job_row(job: PinJob) -> dict[str, Any]:
    """Return a job as lists have it."""
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


# Small stores that wait for the disk together.

BATCH: Final = 64  # stores in one transaction


class _Store(NamedTuple):
    """A store that waits, and the future that its request awaits."""

    data: bytes
    profile: Profile
    about: Mapping[str, Any]
    done: asyncio.Future[tuple[Pin, bool]]


class StoreQueue:
    """Adds small contents to `repository`. All that wait at a time share one transaction.

    While a worker thread commits one transaction, the next stores collect, and it goes on with
    them. So many stores at once need few hops to a thread and few synchronisations, and a single
    one does not wait. Use it in the event loop only.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._waiting: deque[_Store] = deque()
        self._task: asyncio.Task[None] | None = None

    async def add(self, data: bytes, profile: Profile, **about: Any) -> tuple[Pin, bool]:
        """Do what `Repository.add` does; return when the content is durable."""
        store = _Store(data, profile, about, asyncio.get_running_loop().create_future())
        self._waiting.append(store)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return await store.done

    async def _work(self) -> None:
        """Add what waits, until nothing does."""
        try:
            while self._waiting:  # the thread may have ended just before another store came
                await run_in_threadpool(self._add_batches, asyncio.get_running_loop())
        finally:
            self._task = None

    def _add_batches(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do the same on a worker thread, so that no batch waits for the event loop."""
        while batch := self._next_batch():
            try:
                outcomes = self._commit(batch)
            except Exception as error:  # noqa: BLE001 - each request raises it
                outcomes = [error] * len(batch)
            loop.call_soon_threadsafe(_finish, batch, outcomes)

    def _next_batch(self) -> list[_Store]:
        batch: list[_Store] = []
        while self._waiting and len(batch) < BATCH:
            store = self._waiting.popleft()
            if not store.done.cancelled():
                batch.append(store)
        return batch

    def _commit(self, batch: Sequence[_Store]) -> Sequence[tuple[Pin, bool] | Exception]:
        pins = []
        for store in batch:
            adding = self._repository.adding()
            part = import_content(store.data, store.profile, adding.put)
            pins.append(NewPin(adding, part.cid, {"size": part.dag_size, **store.about}))
        return pin_together(pins)


def _finish(batch: Sequence[_Store], outcomes: Sequence[tuple[Pin, bool] | Exception]) -> None:
    for store, outcome in zip(batch, outcomes, strict=True):
        if store.done.done():  # its request was cancelled
            continue
        if isinstance(outcome, Exception):
            store.done.set_exception(outcome)
        else:
            store.done.set_result(outcome)


WELCOME = "Congratulations! You are communicating with the Pinata API!"
UPLOADS_AT_ONCE = 8  # worker threads that parse uploads
# What the service has or had and the node lacks, by path.
LACKING = {
    "/pinning/addHashToPinQueue": "pinByHash in the place of this call",
    "/pinning/hashPinPolicy": "no regions: it keeps each pin once",
    "/pinning/userPinPolicy": "no regions: it keeps each pin once",
    "/users/{path:path}": "no keys: its tokens are set where it is started",
    "/groups": "its groups under /v3/groups",
    "/groups/{path:path}": "its groups under /v3/groups",
}


class PinningEndpoints:
    """The endpoints of the pinning API over one repository.

    Attributes:
        groups: The groups of its pins. The v3 API, which keeps them, sets it.
    """

    groups: Groups

    def __init__(self, repository: Repository, settings: NodeSettings, memory: HeldMemory) -> None:
        self._repository = repository
        self._settings = settings
        self.bodies: BodyReader = BodyReader(memory, idle_seconds=settings.idle_seconds)
        self.authorization: Authorization = Authorization(settings)
        self.uploaders: CapacityLimiter = CapacityLimiter(UPLOADS_AT_ONCE)
        self._stores = StoreQueue(repository)
        self.queries: QueryRunner = QueryRunner()
        self.jobs: PinJobs = PinJobs(repository, settings.gateways, max_bytes=settings.max_upload)

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
            *(
                Route(
                    path, AuthorizedEndpoint(endpoint, self.authorization, scope), methods=[method]
                )
                for method, path, endpoint, scope in endpoints
            ),
            *(Route(path, _Lacking(text)) for path, text in LACKING.items()),
        ]

    async def greet(self, _: Request) -> Response:
        """Reply with the service's greeting, which needs a token and no scope."""
        return JSONResponse({"message": WELCOME})

    async def pin_json(self, request: Request) -> Response:
        """Pin JSON: an object with content, metadata and options, or the content alone."""
        with self.bodies.reading(request, self._settings.max_json) as body:
            text = await body.read()
            if len(text) <= INLINE_JSON:
                pinned = await self._store(*read_content(parse_json(text)))
            else:
                pinned = await self.bodies.on_thread(body, text, self._add_json)
        return JSONResponse(pinned_record(pinned))

    async def _store(self, content: bytes, options: PinOptions, about: dict[str, Any]) -> Pinned:
        if options.group_id is not None:
            return await run_in_threadpool(self._add, content, options, about)
        pin, existed = await self._stores.add(content, options.profile, **about)
        group = await run_in_threadpool(self.groups.group_of, pin) if existed else None
        return Pinned(pin, existed, group)

    def _add_json(self, body: Any) -> Pinned:
        return self._add(*read_content(body))

    def _add(self, content: bytes, options: PinOptions, about: dict[str, Any]) -> Pinned:
        with self._repository.adding() as adding:
            part = import_content(content, options.profile, adding.put)
            about = {"size": part.dag_size, **about}
            return pin_in_group(self.groups, options.group_id, adding, part.cid, **about)

    async def pin_file(self, request: Request) -> Response:
        """Pin a file or a directory from a form."""
        content_type = request.headers.get("content-type", "")
        upload = FormUpload(self._repository, self.groups, content_type)
        limit = self._settings.max_upload
        pinned = await receive_form(upload, request, self.bodies, self.uploaders, limit=limit)
        return JSONResponse(pinned_record(pinned))

    async def pin_by_hash(self, request: Request) -> Response:
        """Start a job that pins a CID."""
        body = await self.bodies.json_object(request)
        cid = read_cid(body.get("hashToPin"))
        metadata = read_metadata(body.get("pinataMetadata"))
        group = read_options(body.get("pinataOptions")).group_id
        job = PinJob(cid=str(cid), metadata=metadata, group_id=group)
        await run_in_threadpool(start_in_group, self.groups, self.jobs, job)
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
        cid = query.get("ipfs_pin_hash")
        jobs = self.jobs.find(
            status=query.get("status") or None,
            cid=read_cid(cid) if cid else None,
            newest_first=query.get("sort", "").upper() == "DESC",
        )
        limit = whole_number(query.get("limit", "5"), "limit", most=1000)
        offset = whole_number(query.get("offset", "0"), "offset")
        rows = [job_row(job) for job in jobs[offset : offset + limit]]
        return JSONResponse({"count": len(jobs), "rows": rows})

    async def hash_metadata(self, request: Request) -> Response:
        """Change the name or the key-values of a pin; a key with the value null is removed."""
        body = await self.bodies.json_object(request)
        cid = read_cid(body.get("ipfsPinHash"))
        given = {key: body[key] for key in ("name", "keyvalues") if key in body}
        metadata = read_metadata(given)
        name = metadata.name if given.get("name") is not None else None

        def change(before: Mapping[str, Any]) -> Mapping[str, Any]:
            return merge_keyvalues(before, metadata.keyvalues)

        pin = await run_in_threadpool(self._repository.update_pin, cid, name=name, change=change)
        if pin is None:
            raise _not_pinned(str(body["ipfsPinHash"]))
        return PlainTextResponse("OK")

    async def unpin(self, request: Request) -> Response:
        """Remove a pin."""
        given = request.path_params["cid"]
        if not await run_in_threadpool(self._unpin, read_cid(given)):
            raise _not_pinned(given)
        return PlainTextResponse("OK")

    def _unpin(self, cid: CID) -> bool:
        pin = self._repository.find_pin(cid)
        if pin is None or not self._repository.unpin(cid):
            return False
        self.groups.ungroup(pin.id, cid)
        return True

    async def pin_list(self, request: Request) -> Response:
        """List one page of the pins that match the service's filters.

        The ETag is the state of the store, read before the pins. So a client that asks again learns
        cheaply that nothing has changed. Groups are not part of that state.
        """
        wanted, with_count = read_query(request.query_params)
        group = request.query_params.get("groupId")
        known = request.headers.get("if-none-match")

        def find(stopped: Stopped) -> tuple[str, list[Pin] | None, int | None]:
            state = "" if group else self._repository.state()
            if state and known == f'"{state}"':
                return state, None, None
            query = wanted
            if group:
                query = replace(wanted, ids=json.dumps(self.groups.ids_in_group(group)))
            count = self._repository.count_pins(query, stopped) if with_count else None
            return state, self._repository.pins(query, stopped), count

        state, pins, count = await self.queries.run(request, find)
        headers = {"ETag": f'"{state}"'} if state else {}
        if pins is None:
            return Response(status_code=304, headers=headers)
        reply: dict[str, Any] = {} if count is None else {"count": count}
        return JSONResponse({**reply, "rows": [pin_row(pin) for pin in pins]}, headers=headers)

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


class _Lacking:
    """An endpoint that the node does not have."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reply with what the node has instead."""
        refusal = Refusal(501, f"The local node has {self._text}", reason="NOT_IMPLEMENTED")
        await refusal.json_reply()(scope, receive, send)


def _not_pinned(cid: str) -> Refusal:
    return Refusal(
        400,
        f"The current user has not pinned the cid: {cid}",
        reason="CURRENT_USER_HAS_NOT_PINNED_CID",
    )
