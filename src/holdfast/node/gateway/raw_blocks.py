"""Single blocks (application/vnd.ipld.raw): their bytes as they are, for the client to prove."""

from starlette.requests import Request
from starlette.responses import Response

from holdfast.node.gateway.addresses import Found
from holdfast.node.gateway.negotiation import RAW_TYPE
from holdfast.node.gateway.replies import (
    IMMUTABLE,
    Content,
    content_reply,
    disposition,
    strong_etag,
)
from holdfast.repository.store import Repository


def raw_block_reply(request: Request, repository: Repository, found: Found) -> Response:
    """The block at the end of the path. The trustless gateway asks for roots only; paths do."""
    block = repository.block(found.cid)
    headers = {
        **found.headers(),
        **disposition(request, f"{found.cid}.bin", attach=True),
        "Content-Type": RAW_TYPE,
        "Cache-Control": IMMUTABLE,
    }
    if "format" not in request.query_params:
        headers["Content-Location"] = f"{found.address.path}?format=raw"
    return content_reply(request, Content.of(block), strong_etag(found.cid, ".raw"), headers)
