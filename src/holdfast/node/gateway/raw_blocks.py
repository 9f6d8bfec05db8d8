"""Single blocks (application/vnd.ipld.raw): their bytes as they are, for the client to verify."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from holdfast.node.gateway.addresses import ResolvedPath
from holdfast.node.gateway.cached_repository import BlockPieces, CachedRepository
from holdfast.node.gateway.content_replies import (
    Content,
    content_headers,
    content_reply,
    strong_etag,
)
from holdfast.protocol.gateway import RAW_TYPE


def raw_block_reply(
    request: Request, repository: CachedRepository, found: ResolvedPath
) -> Response:
    """Return the block at the end of the path.

    The specification of trustless gateways only has blocks of roots; paths are allowed here too.
    """
    size = len(repository.block(found.cid))
    name = f"{found.cid}.bin"
    headers = content_headers(request, found, name, RAW_TYPE, attach=True, query="format=raw")
    content = Content(size, partial(BlockPieces, repository, found.cid))
    return content_reply(request, content, strong_etag(found.cid, ".raw"), headers)
