"""The v3 API of the pinning service, as a dialect of the node's service: files, groups, pins."""

import asyncio
import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from holdfast.content.cid import CID
from holdfast.content.profiles import profile_named
from holdfast.node import client_values as values
from holdfast.node import v3_uploads
from holdfast.node.api_calls import ApiCalls, AuthorizedEndpoint, Endpoint
from holdfast.node.form_upload import receive_form
from holdfast.node.http_server.refusals import DefaultHeaders, Refusal, bad_request
from holdfast.node.pin_jobs import PinJob
from holdfast.node.service import PRIVATE, PUBLIC, File, Network, Service, quietly
from holdfast.node.settings import NodeSettings
from holdfast.node.tables import Group
from holdfast.node.tus import TusEndpoints, TusUploads
from holdfast.node.v3_links import LinkEndpoints, PrivateContent, Signer, open_grant
from holdfast.protocol.pin_api import iso_time
from holdfast.records import Pin, PinFilter
from holdfast.repository import PinQuery
from holdfast.repository.pins import Stopped

T = TypeVar("T")

# The query parameters of lists, and the tokens of their pages.

# Both spellings: the official SDK sends the first, its documentation has the second.
KEYVALUE: Final = re.compile(r"(?:keyvalues|metadata)\[(.*)\]", re.DOTALL)
NO_GROUP: Final = "null"


def read_query(parameters: QueryParams, network: Network) -> PinQuery:
    """Return the query for one page of files, and one file more. Use it on a worker thread."""
    keyvalues = {}
    for key, value in parameters.multi_items():
        values.short_text(value, key)
        if match := KEYVALUE.fullmatch(key):
            keyvalues[match[1]] = value
    if len(keyvalues) > values.MAX_KEYVALUES:
        raise bad_request(f"A query may have at most {values.MAX_KEYVALUES} key-values")
    order = parameters.get("order", "DESC").upper()
    if order not in values.ORDERS:
        raise bad_request("order must be ASC or DESC")
    query = PinQuery(
        cid=parameters.get("cid") or None,
        name_contains=parameters.get("name") or None,
        type=parameters.get("mimeType") or None,
        after=values.read_parameter(parameters, "pageToken", _parse_token),
        matches=PinFilter(keyvalues=keyvalues).fits if keyvalues else None,
        descending=values.ORDERS[order],
        limit=values.page_limit(parameters) + 1,
    )
    group = parameters.get("group")
    if parameters.get("cidPending") == "true":
        return replace(query, ids="[]")  # the CID of every file here is known
    if group == NO_GROUP:
        return replace(query, other_ids=json.dumps(network.tables.ids_in_group(None)))
    if group:
        return replace(query, ids=json.dumps(network.tables.ids_in_group(group)))
    return query


def _parse_token(token: str, what: str) -> tuple[int, str]:
    try:
        created, _, id_ = base64.urlsafe_b64decode(token).decode().partition(".")
    except ValueError:
        created, id_ = "", ""
    if not created.isdecimal() or len(created) > 15 or not id_:
        raise bad_request(f"{what} is not one that the node made")
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
        "created_at": iso_time(pin.created_ms or 0),
    }
    return record if details.expires is None else {**record, "expires_at": details.expires}


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
        "name": job.name or None,
        "status": job.status,
        "date_queued": iso_time(job.queued),
        "keyvalues": dict(job.keyvalues),
        "host_nodes": None,
        "group_id": job.group_id,
    }


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
# What the service has and the node lacks, by a word of the path.
LACKING: Final = {
    "swap": "no swaps: a CID always has its own content",
    "signature": "no signatures of content",
    "vectorize": "no vectors",
    "x402": "no payments",
    "keys": "no keys: its tokens are set where it is started",
    "gateways": "no other gateways",
    "analytics": "no analytics",
}


class NetworkConvertor(StringConvertor):
    """The name of a network in a path."""

    regex: ClassVar[str] = f"{PUBLIC}|{PRIVATE}"


register_url_convertor("network", NetworkConvertor())


class V3Calls:
    """The calls of the v3 API."""

    def __init__(self, service: Service, calls: ApiCalls, settings: NodeSettings) -> None:
        self._service = service
        self._calls = calls
        self._limit = settings.max_upload
        self._profile = profile_named(settings.v3_profile)
        self._signer = Signer(service.public.repository.path.absolute())
        self._uploads = TusUploads(service, self._profile)
        self._tus = TusEndpoints(self._uploads, calls, limit=settings.max_upload)

    def routes(self) -> list[BaseRoute]:
        """Return the routes of ``/v3``, and of ``/files`` for private files.

        The last one matches all paths below ``/v3``, so they come after those of the older API.
        """
        links = LinkEndpoints(self._signer, self._calls.bodies)
        pins = "/v3/files/public/pin_by_cid"
        files, groups = "/v3/files/{network:network}", "/v3/groups/{network:network}"
        member = f"{groups}/{{id}}/ids/{{file_id}}"
        calls: list[tuple[str, str, Endpoint, str | None]] = [
            ("POST", "/v3/files", self.upload, WRITE),
            ("POST", "/v3/files/sign", links.sign, WRITE),
            ("POST", "/v3/files/private/download_link", links.download_link, READ),
            ("POST", pins, self.pin_by_cid, WRITE),
            ("GET", pins, self.list_jobs, READ),
            ("DELETE", f"{pins}/{{id}}", self.cancel_job, WRITE),
            ("GET", files, self.list_files, READ),
            ("GET", f"{files}/{{id}}", self.get_file, READ),
            ("PUT", f"{files}/{{id}}", self.update_file, WRITE),
            ("DELETE", f"{files}/{{id}}", self.delete_file, WRITE),
            ("POST", groups, self.create_group, WRITE_GROUPS),
            ("GET", groups, self.list_groups, READ_GROUPS),
            ("GET", f"{groups}/{{id}}", self.get_group, READ_GROUPS),
            ("PUT", f"{groups}/{{id}}", self.update_group, WRITE_GROUPS),
            ("DELETE", f"{groups}/{{id}}", self.delete_group, WRITE_GROUPS),
            ("PUT", member, self.change_member, WRITE_GROUPS),
            ("DELETE", member, self.change_member, WRITE_GROUPS),
        ]
        return [
            Route("/v3/files", _open(self._tus.options), methods=["OPTIONS"]),
            Route("/v3/files/signed/{token}", _for_pages(self.upload_signed)),
            *self._calls.routes(calls, v3_uploads.error_reply),
            Route("/v3/files/{id}/{secret}", _for_pages(self._tus.serve)),
            PrivateContent(self._service, self._signer).route(),
            Route("/v3/{path:path}", _open(_lacking)),
        ]

    async def _run(self, request: Request, work: Callable[[Network, Stopped], T]) -> T:
        """Return what `work` does with the network that a request names, on a worker thread."""
        name = request.path_params["network"]
        return await self._calls.queries.run(
            request, lambda stopped: work(self._service.network(name), stopped)
        )

    # Uploads

    async def upload_signed(self, request: Request) -> Response:
        """Do the same as `upload` at a signed address, without a token."""
        if request.method == "OPTIONS":
            return await self._tus.options(request)
        if request.method != "POST":
            raise Refusal(405, "A signed address accepts POST")
        grant = await run_in_threadpool(open_grant, self._signer, request.path_params["token"])
        return await self.upload(request, grant)

    async def upload(self, request: Request, grant: Mapping[str, Any] | None = None) -> Response:
        """Store a file from a form, or begin a resumable upload."""
        if "upload-length" in request.headers or "tus-resumable" in request.headers:
            return await self._tus.create(request, grant)
        limit = v3_uploads.size_limit(grant, self._limit)
        content_type = request.headers.get("content-type", "")
        make = partial(v3_uploads.V3Form, self._service, content_type, profile=self._profile)
        form = await run_in_threadpool(make, grant=grant, limit=limit)
        file = await receive_form(form, request, self._calls, limit=limit + FORM_MARGIN)
        return v3_uploads.data_reply(upload_record(file))

    # Pins by CID, in the background

    async def pin_by_cid(self, request: Request) -> Response:
        """Start a job that pins a CID."""
        body = await self._calls.bodies.json_object(request)
        group = body.get("group_id")
        if not isinstance(group, str | None):
            raise bad_request("group_id must be a string")
        job = PinJob(
            cid=str(values.read_cid(body.get("cid"))),
            name=values.read_name(body.get("name")) or "",
            keyvalues=values.read_keyvalues(body.get("keyvalues")),
            group_id=group or None,
        )
        await run_in_threadpool(self._service.start_job, job)
        return v3_uploads.data_reply(job_record(job))

    async def list_jobs(self, request: Request) -> Response:
        """List one page of the jobs that are under way or have failed, the oldest first."""
        query = request.query_params
        order = query.get("order") or query.get("sort")
        find = self._service.jobs.find
        jobs = find(status=query.get("status"), cid=query.get("cid"), order=order)
        ids = [job.id for job in jobs]
        if query.get("pageToken") in ids:
            jobs = jobs[ids.index(query["pageToken"]) + 1 :]
        limit = values.page_limit(query)
        token = jobs[limit - 1].id if len(jobs) > limit else None
        records = [job_record(job) for job in jobs[:limit]]
        return v3_uploads.data_reply({"jobs": records, "next_page_token": token})

    async def cancel_job(self, request: Request) -> Response:
        """Cancel a job."""
        id_ = request.path_params["id"]
        if not self._service.jobs.cancel(id_):
            raise Refusal(404, f"There is no job with the id {id_[:100]}")
        return v3_uploads.data_reply(None)

    # Files

    async def list_files(self, request: Request) -> Response:
        """List one page of the files that match."""

        def find(network: Network, stopped: Stopped) -> dict[str, Any]:
            network.remove_expired()
            query = read_query(request.query_params, network)
            pins, _ = network.list(query, stopped)
            limit = (query.limit or 1) - 1
            last = pins[limit - 1] if len(pins) > limit else None
            at = last and f"{last.created_ms}.{last.id}"
            token = at and base64.urlsafe_b64encode(at.encode()).decode()
            records = [file_record(file) for file in network.files(pins[:limit])]
            return {"files": records, "next_page_token": token}

        return v3_uploads.data_reply(await self._run(request, find))

    async def get_file(self, request: Request) -> Response:
        """Reply with a file."""
        file = await self._run_on_file(request, Network.file)
        return v3_uploads.data_reply(file_record(file))

    async def update_file(self, request: Request) -> Response:
        """Change a file. A key with the value null is removed."""
        body = await self._calls.bodies.json_object(request)
        name = values.read_name(body.get("name")) or None
        keyvalues = v3_uploads.unwrapped(body.get("keyvalues"))
        expires = v3_uploads.read_expiry(body.get("expires_at"))
        if not name and not keyvalues and "expires_at" not in body:
            raise bad_request("At least one of name, keyvalues and expires_at must be given")

        def update(network: Network, pin: Pin) -> File:
            if "expires_at" in body:
                network.set_details(pin, expires=expires)
            changed = network.change(CID.parse(pin.cid), name, keyvalues)
            if changed is None or changed.id != pin.id:
                raise Refusal(404, "The file was deleted during the request")
            return network.file(changed)

        return v3_uploads.data_reply(file_record(await self._run_on_file(request, update)))

    async def delete_file(self, request: Request) -> Response:
        """Delete a file. Its content stays on the disk until garbage is collected."""
        await self._run_on_file(request, Network.remove)
        return v3_uploads.data_reply(None)

    async def _run_on_file(self, request: Request, work: Callable[[Network, Pin], T]) -> T:
        """Return what `work` does with the file that a request names; also by its upload's id."""
        id_ = request.path_params["id"]

        def find(network: Network, stopped: Stopped) -> T:
            network.remove_expired()
            pin = network.find(id_, stopped)
            pin = pin or network.find(self._uploads.file_id(id_) or "", stopped)
            if pin is None:
                raise Refusal(404, f"There is no {network.name} file with the id {id_[:100]}")
            return work(network, pin)

        return await self._run(request, find)

    # Groups

    async def create_group(self, request: Request) -> Response:
        """Make a group."""
        name, is_public = _read_group(await self._calls.bodies.json_object(request))
        if not name:
            raise bad_request("A group needs a name")
        group = await self._run(
            request, lambda network, _: network.tables.add_group(name, is_public=bool(is_public))
        )
        return v3_uploads.data_reply(group_record(group))

    async def list_groups(self, request: Request) -> Response:
        """List one page of groups, the newest first."""
        query = request.query_params
        limit = values.page_limit(query)
        conditions = {
            "instr(fold(name), fold(?)) > 0": query.get("name"),
            "is_public = ?": values.read_parameter(query, "isPublic", v3_uploads.read_flag),
            "id < ?": values.read_parameter(query, "pageToken", values.whole_number),
        }
        groups = await self._run(
            request, lambda network, _: network.tables.groups(conditions, limit=limit + 1)
        )
        token = str(groups[limit - 1].number) if len(groups) > limit else None
        records = [group_record(group) for group in groups[:limit]]
        return v3_uploads.data_reply({"groups": records, "next_page_token": token})

    async def get_group(self, request: Request) -> Response:
        """Reply with a group."""
        id_ = request.path_params["id"]
        group = await self._run(request, lambda network, _: network.tables.group(id_))
        return _group_reply(group, id_)

    async def update_group(self, request: Request) -> Response:
        """Change the name of a group, or whether it is public."""
        change = _read_group(await self._calls.bodies.json_object(request))
        id_ = request.path_params["id"]
        group = await self._run(
            request, lambda network, _: network.tables.update_group(id_, *change)
        )
        return _group_reply(group, id_)

    async def delete_group(self, request: Request) -> Response:
        """Delete a group. Its files stay."""
        id_ = request.path_params["id"]
        if not await self._run(request, lambda network, _: network.tables.remove_group(id_)):
            raise _no_group(id_)
        return v3_uploads.data_reply(None)

    async def change_member(self, request: Request) -> Response:
        """Put a file into a group (PUT), or take it out; it is in one group at most."""
        group, file_id = request.path_params["id"], request.path_params["file_id"]

        def change(network: Network, stopped: Stopped) -> None:
            network.check_group(group)
            pin = network.find(file_id, stopped)
            if pin is None:
                raise Refusal(404, f"There is no file with the id {file_id[:100]}")
            if request.method == "PUT":
                network.set_details(pin, group_id=group)
            elif network.file(pin).details.group_id == group:
                network.set_details(pin, group_id=None)

        await self._run(request, change)
        return v3_uploads.data_reply(None)

    # Beside the requests

    async def run_beside(self) -> None:
        """Open unfinished uploads again; then remove what has expired, now and then."""
        await run_in_threadpool(quietly, self._uploads.resume)
        while True:
            await run_in_threadpool(quietly, self._service.remove_expired)
            await run_in_threadpool(quietly, self._uploads.sweep)
            await asyncio.sleep(SWEEP_SECONDS)

    def close(self) -> None:
        """Close the unfinished uploads."""
        self._uploads.close()


def _open(endpoint: Endpoint) -> ASGIApp:
    """Return a call that needs no token."""
    return AuthorizedEndpoint(endpoint, error_reply=v3_uploads.error_reply)


def _for_pages(endpoint: Endpoint) -> ASGIApp:
    return DefaultHeaders(_open(endpoint), CROSS_ORIGIN)


async def _lacking(request: Request) -> Response:
    """Reply to calls that the node does not have."""
    for word in re.split("[/_]", request.path_params["path"]):
        if word in LACKING:
            raise Refusal(501, f"The local node has {LACKING[word]}")
    raise Refusal(404, "There is nothing at this address")


def _read_group(body: Mapping[str, Any]) -> tuple[str | None, bool | None]:
    """Return the name of a group, and whether it is public; None for what is not given."""
    name, is_public = values.read_name(body.get("name")), body.get("is_public")
    return name, None if is_public is None else v3_uploads.read_flag(is_public, "is_public")


def _group_reply(group: Group | None, id: str) -> Response:
    if group is None:
        raise _no_group(id)
    return v3_uploads.data_reply(group_record(group))


def _no_group(id: str) -> Refusal:
    return Refusal(404, f"There is no group with the id {id[:100]}")
