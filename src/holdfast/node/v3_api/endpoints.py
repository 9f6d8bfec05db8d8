"""The v3 API: its routes, its uploads, and what runs beside the requests."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final

from starlette.concurrency import run_in_threadpool
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from holdfast.content.profiles import profile_named
from holdfast.errors import ClientError
from holdfast.node.http_server.default_headers import DefaultHeaders
from holdfast.node.http_server.refusals import Refusal
from holdfast.node.pinning_api.authorization import Endpoint
from holdfast.node.pinning_api.endpoints import PinningEndpoints
from holdfast.node.pinning_api.form_upload import receive_form
from holdfast.node.settings import NodeSettings
from holdfast.node.v3_api.file_endpoints import (
    FileEndpoints,
    GroupEndpoints,
    PinEndpoints,
    upload_record,
)
from holdfast.node.v3_api.link_endpoints import LinkEndpoints, PrivateContent, Signer, open_grant
from holdfast.node.v3_api.networks import PRIVATE, PUBLIC, Networks
from holdfast.node.v3_api.tus_uploads import TusEndpoints, TusUploads
from holdfast.node.v3_api.upload_options import size_limit
from holdfast.node.v3_api.v3_calls import data_reply, v3_call
from holdfast.node.v3_api.v3_form_upload import V3FormUpload
from holdfast.repository import Repository

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
