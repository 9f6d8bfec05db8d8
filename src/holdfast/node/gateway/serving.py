"""Serving a request to the gateway: find its content, choose the format, build the reply."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from holdfast.content.codecs import value_codec
from holdfast.content.unixfs.data import Kind
from holdfast.errors import ClientError
from holdfast.node.gateway import files
from holdfast.node.gateway.addresses import PUBLIC, Address, ResolvedPath, resolve_path, root_of
from holdfast.node.gateway.archives import archive_reply
from holdfast.node.gateway.cached_repository import CachedRepository
from holdfast.node.gateway.content_replies import negotiate, refusal_for
from holdfast.node.gateway.directories import directory_reply
from holdfast.node.gateway.tars import tar_reply
from holdfast.node.gateway.values import value_reply
from holdfast.node.http_server.refusals import SAFETY_HEADERS, DefaultHeaders, Headers, Refusal
from holdfast.node.http_server.streamed_replies import resources_of

METHODS: Final = "GET, HEAD, OPTIONS"
# The list in the specification of path gateways, on every reply and not only on those to OPTIONS.
# The last two of the allowed headers are added here: `Cache-Control` for `only-if-cached`, and the
# header of the service for its gateway tokens.
CROSS_ORIGIN: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": METHODS,
    "Access-Control-Allow-Headers": (
        "Content-Type, Range, User-Agent, X-Requested-With, Cache-Control, X-Pinata-Gateway-Token"
    ),
    "Access-Control-Expose-Headers": (
        "Content-Length, Content-Range, X-Chunked-Output, X-Ipfs-Path, X-Ipfs-Roots, "
        "X-Stream-Output"
    ),
}
PREFLIGHT: Final = {"Access-Control-Max-Age": "86400"}


# Returns where the content at an address is, and the address for links to it; may refuse.
OpenContent: TypeAlias = Callable[[Address, QueryParams], tuple[CachedRepository, Address]]


class GatewayRoute(BaseRoute):
    """The route for everything below `place`. Each reply gets `headers`, in place of its own.

    The patterns of Starlette's own routes would split names that have ``%2F`` or ``%0A`` in them.
    """

    def __init__(
        self, open_content: OpenContent, place: str = PUBLIC, headers: Headers | None = None
    ) -> None:
        self._open_content = open_content
        self._place = place
        self._headers = headers or {}
        self._app = DefaultHeaders(self._serve, SAFETY_HEADERS | CROSS_ORIGIN)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether a request is for the gateway, with any method."""
        if scope["type"] != "http":
            return Match.NONE, {}
        path: str = scope["path"].removeprefix(root_of(scope))
        is_ours = path == self._place or path.startswith(f"{self._place}/")
        return (Match.FULL, {"endpoint": self}) if is_ours else (Match.NONE, {})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._app(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The repository blocks, so all work up to the first bytes is one job for a worker thread.
        readers = resources_of(scope).readers
        loop = asyncio.get_running_loop()
        response = await loop.run_in_executor(readers, self._answer, Request(scope))
        response.headers.update(self._headers)
        await response(scope, receive, send)

    def _answer(self, request: Request) -> Response:
        try:
            if request.method in {"GET", "HEAD"}:
                return self._read(request)
        except Refusal as refusal:
            return refusal.text_reply()
        except ClientError as error:
            return refusal_for(error).text_reply()
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=PREFLIGHT)
        return Refusal(405, "content is only read here", {"Allow": METHODS}).text_reply()

    def _read(self, request: Request) -> Response:
        address = Address.of(request.scope, self._place)
        if request.headers.get("service-worker") == "script" and not (
            address.names or address.has_slash
        ):
            # A rule for path gateways: the scope of the worker would be all content of all users.
            raise Refusal(400, f"no service worker for all of {self._place}")
        repository, address = self._open_content(address, request.query_params)
        if not repository.repository.has(address.cid):
            is_cached_only = "only-if-cached" in request.headers.get("cache-control", "").lower()
            raise Refusal(412 if is_cached_only else 404, f"{address.text} is not here")
        path = resolve_path(repository, address)
        codec = value_codec(path.cid)
        requested = negotiate(request, codec)
        if path.inside and (requested.format not in {"raw", "car"} or path.is_above_top):
            where = "/".join(path.inside)[:100]
            raise Refusal(501, f"{where!r} is a value inside the block {path.cid}; read the block")
        match requested.format:
            case "raw":
                return files.raw_block_reply(request, repository, path)
            case "car":
                return archive_reply(request, repository, path, requested)
            case "tar":
                return tar_reply(request, repository, path)
            case name if codec:
                return value_reply(request, repository, path, codec, name)
            case "json":
                return files.json_reply(request, repository, path)
            case _:
                return _deserialized(request, repository, path)


def _deserialized(request: Request, repository: CachedRepository, path: ResolvedPath) -> Response:
    block = repository.block(path.cid)
    match repository.kind(path.cid):
        case Kind.DIRECTORY | Kind.SHARD:
            return directory_reply(request, repository, path)
        case Kind.FILE | Kind.RAW if path.address.has_slash:
            return files.redirect_to(request, path.address, path.address.here)
        case Kind.FILE | Kind.RAW:
            name = path.address.names[-1] if path.address.names else ""
            return files.file_reply(request, repository, path, path.cid, name)
        case Kind.SYMLINK:
            return files.symlink_reply(request, path, block)
        case _:
            raise Refusal(
                406, f"{path.cid} is not a file or directory; read its block with ?format=raw"
            )
