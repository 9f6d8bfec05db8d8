"""The v3 API: files, groups and pins by CID; its routes, and what runs beside the requests."""

import asyncio
import base64
import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, Final

from starlette.concurrency import run_in_threadpool
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from holdfast.content.cid import CID
from holdfast.content.profiles import profile_named
from holdfast.errors import ClientError
from holdfast.node.api_calls import BodyReader, Endpoint, QueryRunner
from holdfast.node.client_values import (
    MAX_KEYVALUES,
    MAX_TEXT,
    PinMetadata,
    iso_time,
    merge_keyvalues,
    read_cid,
    read_keyvalues,
    whole_number,
)
from holdfast.node.form_upload import receive_form
from holdfast.node.http_server.refusals import DefaultHeaders, Refusal, bad_request
from holdfast.node.pin_jobs import PinJob, PinJobs, start_in_group
from holdfast.node.pinning_api import PinningEndpoints
from holdfast.node.service import PRIVATE, PUBLIC, File, Network, Networks
from holdfast.node.settings import NodeSettings
from holdfast.node.tables import Details, Group
from holdfast.node.tus import TusEndpoints, TusUploads
from holdfast.node.v3_links import LinkEndpoints, PrivateContent, Signer, open_grant
from holdfast.node.v3_uploads import (
    V3FormUpload,
    data_reply,
    read_expiry,
    read_flag,
    read_name,
    size_limit,
    unwrapped,
    v3_call,
)
from holdfast.records import Pin, PinFilter
from holdfast.repository import PinQuery, Repository
from holdfast.repository.pin_queries import Stopped

# Read the query parameters of lists, and make the tokens of their pages.

DEFAULT_PAGE: Final = 10
MAX_PAGE: Final = 1000
# Both spellings: the official SDK sends the first, its documentation has the second.
KEYVALUE: Final = re.compile(r"(?:keyvalues|metadata)\[(.*)\]", re.DOTALL)
NO_GROUP: Final = "null"


def read_file_query(parameters: QueryParams, network: Network) -> PinQuery:
    """Return the query for one page of files, and one file more. Use it on a worker thread."""
    wanted = {}
    for key, value in parameters.multi_items():
        if len(value) > MAX_TEXT:
            raise bad_request(f"{key[:40]} may have at most {MAX_TEXT} characters")
        if match := KEYVALUE.fullmatch(key):
            wanted[match[1]] = value
    if len(wanted) > MAX_KEYVALUES:
        raise bad_request(f"A query may have at most {MAX_KEYVALUES} key-values")
    order = parameters.get("order", "DESC").upper()
    if order not in {"ASC", "DESC"}:
        raise bad_request("order must be ASC or DESC")
    query = PinQuery(
        cid=parameters.get("cid") or None,
        name_contains=parameters.get("name") or None,
        type=parameters.get("mimeType") or None,
        after=_read_token(parameters),
        matches=PinFilter(keyvalues=wanted).fits if wanted else None,
        descending=order == "DESC",
        limit=page_limit(parameters) + 1,
    )
    group = parameters.get("group")
    if parameters.get("cidPending") == "true":
        return replace(query, ids="[]")  # the CID of every file here is known
    if group == NO_GROUP:
        return replace(query, other_ids=json.dumps(network.details.ids_in_group(None)))
    if group:
        return replace(query, ids=json.dumps(network.details.ids_in_group(group)))
    return query


def page_limit(parameters: QueryParams) -> int:
    """Return how many items a page has."""
    text = parameters.get("limit") or str(DEFAULT_PAGE)
    limit = whole_number(text, "limit", most=MAX_PAGE)
    if not limit:
        raise bad_request("limit must be 1 or more")
    return limit


def page_token(pin: Pin) -> str:
    """Return the token of the page after `pin`."""
    return base64.urlsafe_b64encode(f"{pin.created}.{pin.id}".encode()).decode()


def _read_token(parameters: QueryParams) -> tuple[int, str] | None:
    token = parameters.get("pageToken")
    if not token:
        return None
    try:
        created, _, id_ = base64.urlsafe_b64decode(token).decode().partition(".")
    except ValueError:
        created, id_ = "", ""
    if not created.isdecimal() or len(created) > 15 or not id_:
        raise bad_request("pageToken is not one that the node made")
    return int(created), id_


# Files, groups and jobs as the JSON of the service.


def file_record(file: File) -> dict[str, Any]:
    """Return a file as lists have it."""
    pin, details = file.pin, file.details
    record = {
        "id": pin.id,
        "name": pin.name or None,
        "cid": pin.cid,
        "size": pin.size,
        "number_of_files": pin.files,
        "mime_type": pin.type,
        "group_id": details.group_id,
        "keyvalues": dict(pin.keyvalues),
        "created_at": iso_time(pin.created or 0),
    }
    if details.expires is not None:
        record["expires_at"] = details.expires
    return record


def upload_record(file: File) -> dict[str, Any]:
    """Return a file as the reply to its upload has it."""
    record = {**file_record(file), "vectorized": False, "network": file.network}
    return {**record, "is_duplicate": True} if file.is_duplicate else record


def group_record(group: Group) -> dict[str, Any]:
    """Return a group."""
    created = iso_time(group.created)
    return {
        "id": group.id,
        "name": group.name,
        "is_public": group.is_public,
        "created_at": created,
        "createdAt": created,  # as the types of the official SDK have it
    }


def job_record(job: PinJob) -> dict[str, Any]:
    """Return a CID that is being pinned."""
    return {
        "id": job.id,
        "cid": job.cid,
        "name": job.metadata.name or None,
        "status": job.status,
        "date_queued": iso_time(job.queued),
        "keyvalues": dict(job.metadata.keyvalues),
        "host_nodes": None,
        "group_id": job.group_id,
    }


# The calls that pin existing content by its CID, in the background.


class PinEndpoints:
    """The calls about the jobs of a node, which it shares with the pinning API."""

    def __init__(self, network: Network, jobs: PinJobs, bodies: BodyReader) -> None:
        self._network = network
        self._jobs = jobs
        self._bodies = bodies

    async def add(self, request: Request) -> Response:
        """Start a job that pins a CID."""
        body = await self._bodies.json_object(request)
        cid = read_cid(body.get("cid"))
        keyvalues = read_keyvalues(body.get("keyvalues"))
        metadata = PinMetadata(read_name(body.get("name")) or "", keyvalues)
        group = body.get("group_id")
        if not isinstance(group, str | None):
            raise bad_request("group_id must be a string")
        job = PinJob(cid=str(cid), metadata=metadata, group_id=group or None)
        await run_in_threadpool(start_in_group, self._network, self._jobs, job)
        return data_reply(job_record(job))

    async def list(self, request: Request) -> Response:
        """List one page of the jobs that are under way or have failed, the oldest first."""
        query = request.query_params
        cid = query.get("cid")
        jobs = self._jobs.find(
            status=query.get("status") or None,
            cid=read_cid(cid) if cid else None,
            newest_first=(query.get("order") or query.get("sort") or "").upper() == "DESC",
        )
        if query.get("pageToken"):
            ids = [job.id for job in jobs]
            if query["pageToken"] in ids:
                jobs = jobs[ids.index(query["pageToken"]) + 1 :]
        limit = page_limit(query)
        token = jobs[limit - 1].id if len(jobs) > limit else None
        records = [job_record(job) for job in jobs[:limit]]
        return data_reply({"jobs": records, "next_page_token": token})

    async def cancel(self, request: Request) -> Response:
        """Cancel a job."""
        id_ = request.path_params["id"]
        if not self._jobs.cancel(id_):
            raise Refusal(404, f"There is no job with the id {id_[:100]}")
        return data_reply(None)


class FileEndpoints:
    """The calls about the files of both networks."""

    def __init__(
        self, networks: Networks, uploads: TusUploads, bodies: BodyReader, queries: QueryRunner
    ) -> None:
        self._networks = networks
        self._uploads = uploads
        self._bodies = bodies
        self._queries = queries

    async def list(self, request: Request) -> Response:
        """List one page of the files that match."""

        def find(stopped: Stopped) -> tuple[list[File], str | None]:
            network = self._networks.named(request.path_params["network"])
            network.remove_expired(int(time.time()))
            query = read_file_query(request.query_params, network)
            pins = network.repository.pins(query, stopped)
            limit = (query.limit or 1) - 1
            token = page_token(pins[limit - 1]) if len(pins) > limit else None
            return network.files(pins[:limit]), token

        files, token = await self._queries.run(request, find)
        records = [file_record(file) for file in files]
        return data_reply({"files": records, "next_page_token": token})

    async def get(self, request: Request) -> Response:
        """Reply with a file."""

        def find(stopped: Stopped) -> File:
            network, pin = self._find(request, stopped)
            return network.file(pin)

        return data_reply(file_record(await self._queries.run(request, find)))

    async def update(self, request: Request) -> Response:
        """Change a file. A key with the value null is removed."""
        body = await self._bodies.json_object(request)
        name = read_name(body.get("name")) or None
        keyvalues = unwrapped(body.get("keyvalues"))
        expires = read_expiry(body.get("expires_at"))
        if not name and not keyvalues and "expires_at" not in body:
            raise bad_request("At least one of name, keyvalues and expires_at must be given")

        def change(before: Mapping[str, Any]) -> Mapping[str, Any]:
            return merge_keyvalues(before, keyvalues)

        def update(stopped: Stopped) -> File:
            network, pin = self._find(request, stopped)
            if "expires_at" in body:
                details = network.details.of([pin.id]).get(pin.id, Details())
                network.details.put(pin.id, pin.cid, details._replace(expires=expires))
            changed = network.repository.update_pin(CID.parse(pin.cid), name=name, change=change)
            if changed is None or changed.id != pin.id:
                raise Refusal(404, "The file was deleted meanwhile")
            return network.file(changed)

        return data_reply(file_record(await self._queries.run(request, update)))

    async def delete(self, request: Request) -> Response:
        """Delete a file. Its content stays on the disk until garbage is collected."""

        def delete(stopped: Stopped) -> None:
            network, pin = self._find(request, stopped)
            network.remove(pin)

        await self._queries.run(request, delete)
        return data_reply(None)

    def _find(self, request: Request, stopped: Stopped) -> tuple[Network, Pin]:
        """Return the pin of the file that a request names; also by the id of its upload."""
        network = self._networks.named(request.path_params["network"])
        network.remove_expired(int(time.time()))
        id_ = request.path_params["id"]
        pin = network.find(id_, stopped) or network.find(self._uploads.file_id(id_) or "", stopped)
        if pin is None:
            raise Refusal(404, f"There is no {network.name} file with the id {id_[:100]}")
        return network, pin


# The calls about groups of files.


class GroupEndpoints:
    """The calls about the groups of both networks."""

    def __init__(self, networks: Networks, bodies: BodyReader) -> None:
        self._networks = networks
        self._bodies = bodies

    async def _network(self, request: Request) -> Network:
        name = request.path_params["network"]
        return await run_in_threadpool(self._networks.named, name)

    async def create(self, request: Request) -> Response:
        """Make a group."""
        name, is_public = _read_group(await self._bodies.json_object(request))
        if not name:
            raise bad_request("A group needs a name")
        network = await self._network(request)
        group = await run_in_threadpool(network.details.add_group, name, is_public=bool(is_public))
        return data_reply(group_record(group))

    async def list(self, request: Request) -> Response:
        """List one page of groups, the newest first."""
        query = request.query_params
        limit = page_limit(query)
        conditions, values = ["1"], []
        for condition, value in (
            ("instr(fold(name), fold(?)) > 0", query.get("name")),
            ("is_public = ?", _read_public(query.get("isPublic", ""))),
            ("id < ?", _read_group_token(query.get("pageToken", ""))),
        ):
            if value not in {None, ""}:
                conditions.append(condition)
                values.append(value)
        network = await self._network(request)
        where = " AND ".join(conditions)
        groups = await run_in_threadpool(
            lambda: network.details.groups(where, *values, limit=limit + 1)
        )
        token = str(groups[limit - 1].number) if len(groups) > limit else None
        records = [group_record(group) for group in groups[:limit]]
        return data_reply({"groups": records, "next_page_token": token})

    async def get(self, request: Request) -> Response:
        """Reply with a group."""
        network = await self._network(request)
        id_ = request.path_params["id"]
        group = await run_in_threadpool(network.details.group, id_)
        return data_reply(group_record(_found(group, id_)))

    async def update(self, request: Request) -> Response:
        """Change the name of a group, or whether it is public."""
        name, is_public = _read_group(await self._bodies.json_object(request))
        network = await self._network(request)
        id_ = request.path_params["id"]
        group = await run_in_threadpool(network.details.update_group, id_, name, is_public)
        return data_reply(group_record(_found(group, id_)))

    async def delete(self, request: Request) -> Response:
        """Delete a group. Its files stay."""
        network = await self._network(request)
        id_ = request.path_params["id"]
        if not await run_in_threadpool(network.details.remove_group, id_):
            raise _missing(id_)
        return data_reply(None)

    async def add_file(self, request: Request) -> Response:
        """Put a file into a group; it is in one group at most."""
        await self._set_group(request, request.path_params["id"])
        return data_reply(None)

    async def remove_file(self, request: Request) -> Response:
        """Take a file out of a group."""
        await self._set_group(request, None)
        return data_reply(None)

    async def _set_group(self, request: Request, group: str | None) -> None:
        network = await self._network(request)
        group_id, file_id = request.path_params["id"], request.path_params["file_id"]

        def change() -> None:
            network.check_group(group_id)
            pin = network.find(file_id)
            if pin is None:
                raise Refusal(404, f"There is no file with the id {file_id[:100]}")
            before = network.details.of([pin.id]).get(pin.id, Details())
            if group is not None or before.group_id == group_id:
                network.details.put(pin.id, pin.cid, before._replace(group_id=group))

        await run_in_threadpool(change)


def _read_group(body: dict[str, Any]) -> tuple[str | None, bool | None]:
    """Return the name of a group, and whether it is public; None for what is not given."""
    name, is_public = read_name(body.get("name")), body.get("is_public")
    return name, None if is_public is None else read_flag("is_public", is_public)


def _read_public(text: str) -> bool | None:
    return read_flag("isPublic", text) if text else None


def _read_group_token(text: str) -> int | None:
    return whole_number(text, "pageToken") if text else None


def _found(group: Group | None, id: str) -> Group:
    if group is None:
        raise _missing(id)
    return group


def _missing(id: str) -> Refusal:
    return Refusal(404, f"There is no group with the id {id[:100]}")


FORM_MARGIN: Final = 1 << 20  # bytes of a form besides its files
SWEEP_SECONDS: Final = 60.0  # between two looks for what has expired
READ, WRITE = "org:files:read", "org:files:write"
READ_GROUPS, WRITE_GROUPS = "org:groups:read", "org:groups:write"
# A signed address has no token, so pages of any origin may use it.
CROSS_ORIGIN: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "POST, HEAD, PATCH, DELETE, OPTIONS",
    "Access-Control-Allow-Headers": (
        "Authorization, Content-Type, Source, Tus-Resumable, Upload-Length, Upload-Metadata, "
        "Upload-Offset, X-HTTP-Method-Override"
    ),
    "Access-Control-Expose-Headers": (
        "Location, Tus-Resumable, Upload-Cid, Upload-Expires, Upload-Length, Upload-Offset"
    ),
}
# What the service has and the node lacks, by a part of the path.
LACKING: Final = {
    "swap": "no swaps: a CID always has its own content",
    "signature": "no signatures of content",
    "vectorize": "no vectors",
    "x402": "no payments",
    "keys": "no keys: its tokens are set where it is started",
    "api_keys": "no keys: its tokens are set where it is started",
    "gateways": "no other gateways",
    "analytics": "no analytics",
    "gateway_analytics_top": "no analytics",
    "gateway_analytics_time_series": "no analytics",
}


class NetworkConvertor(StringConvertor):
    """The name of a network in a path."""

    regex: ClassVar[str] = f"{PUBLIC}|{PRIVATE}"


register_url_convertor("network", NetworkConvertor())


class V3Endpoints:
    """The v3 API over the repository of a node. It shares limits and jobs with `api`."""

    def __init__(
        self, repository: Repository, settings: NodeSettings, api: PinningEndpoints
    ) -> None:
        self._api = api
        self._limit = settings.max_upload
        self._profile = profile_named(settings.v3_profile)
        self._networks = Networks(repository)
        api.groups = self._networks.public
        self._signer = Signer(repository.path.absolute())
        self._uploads = TusUploads(self._networks, self._profile)
        self._tus = TusEndpoints(
            self._uploads, api.authorization, api.bodies, api.uploaders, limit=settings.max_upload
        )

    def routes(self) -> list[BaseRoute]:
        """Return the routes of ``/v3``, and of ``/files`` for private files.

        The last one matches all paths below ``/v3``, so they come after those of the pinning API.
        """
        links = LinkEndpoints(self._signer, self._api.bodies)
        return [
            self._route("POST", "/v3/files", self.upload, WRITE),
            Route("/v3/files", v3_call(self._tus.options), methods=["OPTIONS"]),
            self._route("POST", "/v3/files/sign", links.sign, WRITE),
            self._route("POST", "/v3/files/private/download_link", links.download_link, READ),
            Route("/v3/files/signed/{token}", _for_pages(self.upload_signed)),
            *self._pin_routes(),
            *self._file_routes(),
            *self._group_routes(),
            Route("/v3/files/{id}/{secret}", _for_pages(self.serve_upload)),
            PrivateContent(self._networks, self._signer).route(),
            Route("/v3/{path:path}", v3_call(_lacking)),
        ]

    def _route(self, method: str, path: str, endpoint: Endpoint, scope: str) -> Route:
        return Route(path, v3_call(endpoint, self._api.authorization, scope), methods=[method])

    def _pin_routes(self) -> list[Route]:
        pins = PinEndpoints(self._networks.public, self._api.jobs, self._api.bodies)
        path = "/v3/files/public/pin_by_cid"
        return [
            self._route("POST", path, pins.add, WRITE),
            self._route("GET", path, pins.list, READ),
            self._route("DELETE", f"{path}/{{id}}", pins.cancel, WRITE),
        ]

    def _file_routes(self) -> list[Route]:
        files = FileEndpoints(self._networks, self._uploads, self._api.bodies, self._api.queries)
        path = "/v3/files/{network:network}"
        return [
            self._route("GET", path, files.list, READ),
            self._route("GET", f"{path}/{{id}}", files.get, READ),
            self._route("PUT", f"{path}/{{id}}", files.update, WRITE),
            self._route("DELETE", f"{path}/{{id}}", files.delete, WRITE),
        ]

    def _group_routes(self) -> list[Route]:
        groups = GroupEndpoints(self._networks, self._api.bodies)
        path = "/v3/groups/{network:network}"
        return [
            self._route("POST", path, groups.create, WRITE_GROUPS),
            self._route("GET", path, groups.list, READ_GROUPS),
            self._route("GET", f"{path}/{{id}}", groups.get, READ_GROUPS),
            self._route("PUT", f"{path}/{{id}}", groups.update, WRITE_GROUPS),
            self._route("DELETE", f"{path}/{{id}}", groups.delete, WRITE_GROUPS),
            self._route("PUT", f"{path}/{{id}}/ids/{{file_id}}", groups.add_file, WRITE_GROUPS),
            self._route(
                "DELETE", f"{path}/{{id}}/ids/{{file_id}}", groups.remove_file, WRITE_GROUPS
            ),
        ]

    # Uploads

    async def upload(self, request: Request) -> Response:
        """Store a file from a form, or begin a resumable upload."""
        return await self._upload(request, None)

    async def upload_signed(self, request: Request) -> Response:
        """Do the same at a signed address, without a token."""
        if request.method == "OPTIONS":
            return await self._tus.options(request)
        if request.method != "POST":
            raise Refusal(405, "A signed address takes POST")
        token = request.path_params["token"]
        grant = await run_in_threadpool(open_grant, self._signer, token)
        return await self._upload(request, grant)

    async def serve_upload(self, request: Request) -> Response:
        """Serve a request to a resumable upload."""
        if request.method == "OPTIONS":
            return await self._tus.options(request)
        return await self._tus.serve(request)

    async def _upload(self, request: Request, grant: Mapping[str, Any] | None) -> Response:
        if "upload-length" in request.headers or "tus-resumable" in request.headers:
            return await self._tus.create(request, grant)
        limit = size_limit(grant, self._limit)
        form = await run_in_threadpool(
            lambda: V3FormUpload(
                self._networks,
                request.headers.get("content-type", ""),
                profile=self._profile,
                grant=grant,
                limit=limit,
            )
        )
        uploaded = await receive_form(
            form, request, self._api.bodies, self._api.uploaders, limit=limit + FORM_MARGIN
        )
        return data_reply(upload_record(uploaded))

    # Beside the requests

    async def run_beside(self) -> None:
        """Open unfinished uploads again; then remove what has expired, now and then."""
        await run_in_threadpool(self._quietly, self._uploads.resume)
        while True:
            await run_in_threadpool(self._quietly, self._remove_expired)
            await asyncio.sleep(SWEEP_SECONDS)

    def _remove_expired(self) -> None:
        self._networks.remove_expired(int(time.time()))
        self._uploads.sweep()

    @staticmethod
    def _quietly(job: Any) -> None:
        with suppress(ClientError, OSError):  # the next request says what is wrong with the store
            job()

    def close(self) -> None:
        """Close what was opened besides the repository."""
        self._uploads.close()
        self._networks.close()


def _for_pages(endpoint: Endpoint) -> ASGIApp:
    return DefaultHeaders(v3_call(endpoint), CROSS_ORIGIN)


async def _lacking(request: Request) -> Response:
    """Reply to calls that the node does not have."""
    for part in request.path_params["path"].split("/"):
        if part in LACKING:
            raise Refusal(501, f"The local node has {LACKING[part]}")
    raise Refusal(404, "There is nothing at this address")
