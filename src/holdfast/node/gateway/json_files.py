"""JSON (``?format=json``): a file that holds JSON, sent as application/json.

Nothing is converted. In the specification of path gateways this format is also for blocks of the
codecs json and dag-json, which are not supported here.
"""

from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from holdfast.content.unixfs.data import Kind
from holdfast.node.gateway.addresses import ResolvedPath
from holdfast.node.gateway.cached_repository import CachedRepository
from holdfast.node.gateway.content_replies import (
    Content,
    content_headers,
    content_reply,
    strong_etag,
)
from holdfast.node.gateway.files import file_content, file_type
from holdfast.node.gateway.type_detection import JSON_LIMIT, holds_json
from holdfast.node.http_server.refusals import Refusal

JSON_TYPE: Final = "application/json"


def json_reply(request: Request, repository: CachedRepository, found: ResolvedPath) -> Response:
    """Return the file at the end of the path, or raise `Refusal` (406) if it is not JSON."""
    if repository.kind(found.cid) not in {Kind.FILE, Kind.RAW}:
        raise Refusal(
            HTTPStatus.NOT_ACCEPTABLE, f"{found.cid} is not a file, so it cannot be read as JSON"
        )
    content = file_content(repository, found.cid)
    if not _is_json(repository, found, content):
        raise Refusal(
            HTTPStatus.NOT_ACCEPTABLE, f"{found.cid} does not hold JSON; read it without ?format="
        )
    headers = content_headers(request, found, f"{found.cid}.json", JSON_TYPE)
    return content_reply(request, content, strong_etag(found.cid, ".json"), headers)


def _is_json(repository: CachedRepository, found: ResolvedPath, content: Content) -> bool:
    """Return whether a file holds JSON; for a large one, ask its name or its pin only."""
    if content.size <= JSON_LIMIT:
        return holds_json(content.size, lambda *ends: b"".join(content.read(*ends)))
    return file_type(repository, found.cid, found.address.names[-1:], content) == JSON_TYPE
