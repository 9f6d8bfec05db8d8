"""Files, and what is read like one: the bytes of raw blocks, the targets of symbolic links."""

from collections.abc import Iterable
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from holdfast.content import dag_pb
from holdfast.content.cid import CID
from holdfast.content.media_types import OCTETS, named_type
from holdfast.content.unixfs import data
from holdfast.content.unixfs.file_nodes import file_node
from holdfast.errors import UnprovenError
from holdfast.node.gateway.addresses import Address, ResolvedPath
from holdfast.node.gateway.content_replies import (
    IMMUTABLE,
    Content,
    content_reply,
    disposition,
    strong_etag,
)
from holdfast.node.gateway.type_detection import sniffed_type, stored_type
from holdfast.repository.store import Repository

SYMLINK_TYPE = "inode/symlink"  # as Kubo has it


def file_reply(
    request: Request, repository: Repository, found: ResolvedPath, cid: CID, name: str
) -> Response:
    """Return the file at `cid`, which is called `name`, as a whole or in part.

    `cid` is not what the address names where a directory is served by its index.html. The ETag is
    then the directory's, as in Kubo: it follows from the address and changes with it.
    """
    content = file_content(repository, cid)
    names = (request.query_params.get("filename", ""), name)
    headers = {
        **found.headers(),
        **disposition(request, name or str(cid)),
        "Content-Type": file_type(repository, cid, names, content),
        "Cache-Control": IMMUTABLE,
    }
    return content_reply(request, content, strong_etag(found.cid), headers)


def file_content(repository: Repository, cid: CID) -> Content:
    """The bytes of the file at `cid`."""
    node = file_node(cid, repository.block(cid))
    return Content(node.size, lambda start, stop: repository.read(cid, start, stop))


def file_type(repository: Repository, cid: CID, names: Iterable[str], content: Content) -> str:
    """The media type of a file: by the first of its names that tells, its pin, or its beginning."""
    by_name = next(filter(None, map(named_type, names)), None)
    if by_name is not None:
        return by_name
    pin = repository.find_pin(cid)
    by_pin = stored_type(pin.type) if pin is not None else None
    if by_pin is not None:
        return by_pin
    try:
        return sniffed_type(content.size, lambda *ends: b"".join(content.read(*ends)))
    except UnprovenError:
        return OCTETS  # its beginning is not here, but the range that was asked for may be


def symlink_reply(request: Request, found: ResolvedPath, block: bytes) -> Response:
    """Where a symbolic link leads, as text: to follow it is the client's choice."""
    headers = {
        **found.headers(),
        **disposition(request, str(found.cid)),
        "Content-Type": SYMLINK_TYPE,
        "Cache-Control": IMMUTABLE,
    }
    return content_reply(
        request, Content.of(symlink_target(block)), strong_etag(found.cid), headers
    )


def symlink_target(block: bytes) -> bytes:
    """The path that a symbolic link holds."""
    return data.decode(dag_pb.decode(block).data).data


def redirect_to(request: Request, address: Address, target: str) -> Response:
    """The same content at `target`, with the same query."""
    query = request.scope["query_string"].decode("latin-1")
    location = f"{target}?{query}" if query else target
    headers = {"Location": location, "X-Ipfs-Path": address.path, "Cache-Control": IMMUTABLE}
    text = f"Moved Permanently: the content is at {target}.\n"
    return PlainTextResponse(text, HTTPStatus.MOVED_PERMANENTLY, headers)
