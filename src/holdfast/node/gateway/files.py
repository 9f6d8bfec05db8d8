"""The replies for files, raw blocks, JSON and links, and the media types of files."""

import codecs
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from holdfast.content import dag_pb
from holdfast.content.cid import CID
from holdfast.content.media_types import OCTETS, named_type
from holdfast.content.unixfs import data
from holdfast.content.unixfs.data import Kind
from holdfast.errors import SerializationError, UnprovenError
from holdfast.node.gateway.addresses import Address, ResolvedPath
from holdfast.node.gateway.cached_repository import BytesPieces, CachedRepository, block_pieces
from holdfast.node.gateway.content_replies import (
    IMMUTABLE,
    JSON_TYPE,
    Content,
    content_headers,
    content_reply,
)
from holdfast.node.http_server.refusals import Refusal
from holdfast.protocol import json_text
from holdfast.protocol.gateway import RAW_TYPE

# Detect the media type of content whose name has no type: from its pin, else from its bytes.

HEAD: Final = 4096  # bytes at the start that are examined
JSON_LIMIT: Final = 1 << 20  # bytes; JSON must be read whole, so larger content is not examined
TEXT: Final = "text/plain; charset=utf-8"

_SIGNATURES: Final = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"%PDF-"), "application/pdf"),
)
# With atomic groups the search does not backtrack into comments, so no text takes long to match.
_TEXT_SIGNATURES: Final = (
    (
        re.compile(
            rb"(?is)(?><\?xml.*?\?>\s*)?+(?><!--.*?-->\s*)*+(?><!doctype svg.*?>\s*)?+<svg[\s>]"
        ),
        "image/svg+xml",
    ),
    (
        re.compile(rb"(?is)(?><!--.*?-->\s*)*+<(?:!doctype html|html|head|body)[\s>]"),
        "text/html; charset=utf-8",
    ),
)
_JSON_STARTS: Final = frozenset(b'{["-0123456789tfn')
_BINARY: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")  # WHATWG's binary data bytes
_MEDIA_TYPE: Final = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:; ?[\w-]+=[\w.+-]+)*", re.ASCII)


def sniffed_type(size: int, read: Callable[[int, int], bytes]) -> str:
    """Return the media type that content of `size` bytes seems to have."""
    head = read(0, min(size, HEAD))
    for signature, media_type in _SIGNATURES:
        if signature.match(head):
            return media_type
    if not _is_text(head, whole=len(head) == size):
        return OCTETS
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    for start, media_type in _TEXT_SIGNATURES:
        if start.match(text):
            return media_type
    if text and text[0] in _JSON_STARTS and holds_json(size, read):
        return "application/json"
    return TEXT


def holds_json(size: int, read: Callable[[int, int], bytes]) -> bool:
    """Return whether content of `size` bytes is JSON; False above `JSON_LIMIT`."""
    if size > JSON_LIMIT:
        return False
    try:
        json_text.from_text(read(0, size))
    except SerializationError:
        return False
    return True


def _is_text(head: bytes, *, whole: bool) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=whole)
    except UnicodeDecodeError:
        return False
    return not _BINARY.search(head)


# Replies with the bytes of files, of JSON and of blocks, or with the targets of symbolic links.

# JSON (``?format=json``): a file that holds JSON, sent as application/json. Nothing is converted.


def json_reply(request: Request, repository: CachedRepository, path: ResolvedPath) -> Response:
    """Return the file at the end of the path, or raise `Refusal` (406) if it is not JSON."""
    if repository.kind(path.cid) not in {Kind.FILE, Kind.RAW}:
        raise Refusal(406, f"{path.cid} is not a file, so it cannot be read as JSON")
    content = file_content(repository, path.cid)
    if not _is_json(repository, path, content):
        raise Refusal(406, f"{path.cid} does not hold JSON; read it without ?format=")
    headers = content_headers(request, path, f"{path.cid}.json", JSON_TYPE)
    return content_reply(request, content, f'"{path.cid}.json"', headers)


def _is_json(repository: CachedRepository, path: ResolvedPath, content: Content) -> bool:
    """Return whether a file holds JSON; for a large one, ask its name or its pin only."""
    if content.size <= JSON_LIMIT:
        return holds_json(content.size, lambda *ends: b"".join(content.read(*ends)))
    return file_type(repository, path.cid, path.address.names[-1:], content) == JSON_TYPE


# Single blocks (application/vnd.ipld.raw): their bytes as they are, for the client to verify.


def raw_block_reply(request: Request, repository: CachedRepository, path: ResolvedPath) -> Response:
    """Return the block at the end of the path.

    The specification of trustless gateways only has blocks of roots; paths are allowed here too.
    """
    size = len(repository.block(path.cid))
    name = f"{path.cid}.bin"
    headers = content_headers(
        request, path, name, RAW_TYPE, disposition="attachment", query="format=raw"
    )
    content = Content(size, partial(block_pieces, repository, path.cid))
    return content_reply(request, content, f'"{path.cid}.raw"', headers)


SYMLINK_TYPE = "inode/symlink"  # as Kubo has it


def file_reply(
    request: Request, repository: CachedRepository, path: ResolvedPath, cid: CID, name: str
) -> Response:
    """Return the file at `cid`, whose name is `name`, as a whole or in part.

    `cid` is not what the address names where a directory is served by its index.html. The ETag is
    then the directory's, as in Kubo: it follows from the address and changes with it.
    """
    content = file_content(repository, cid)
    names = (request.query_params.get("filename", ""), name)
    media_type = file_type(repository, cid, names, content)
    headers = content_headers(request, path, name or str(cid), media_type)
    return content_reply(request, content, f'"{path.cid}"', headers)


def file_content(repository: CachedRepository, cid: CID) -> Content:
    """Return the bytes of the file at `cid`."""
    size = repository.file_node(cid).size
    return Content(size, lambda start, stop: repository.read(cid, start, stop))


def file_type(
    repository: CachedRepository, cid: CID, names: Iterable[str], content: Content
) -> str:
    """Return the media type of a file: by one of its names, its pin, or its first bytes."""
    by_name = next(filter(None, map(named_type, names)), None)
    if by_name is not None:
        return by_name
    pin = repository.repository.find_pin(cid)
    # Clients can set the type of a pin to any text.
    if pin is not None and _MEDIA_TYPE.fullmatch(pin.type) and pin.type != OCTETS:
        return pin.type
    try:
        return sniffed_type(content.size, lambda *ends: b"".join(content.read(*ends)))
    except UnprovenError:
        return OCTETS  # its first bytes are missing, but the range that was asked for may be here


def symlink_reply(request: Request, path: ResolvedPath, block: bytes) -> Response:
    """Return the target of a symbolic link as text: the client decides whether to follow it."""
    headers = content_headers(request, path, str(path.cid), SYMLINK_TYPE)
    target = symlink_target(block)
    content = Content(len(target), partial(BytesPieces, lambda: target, lambda: target))
    return content_reply(request, content, f'"{path.cid}"', headers)


def symlink_target(block: bytes) -> bytes:
    """Return the path in the block of a symbolic link."""
    return data.decode(dag_pb.decode(block).data).data


def redirect_to(request: Request, address: Address, target: str) -> Response:
    """Return a redirect to the same content at `target`, with the same query."""
    query = request.scope["query_string"].decode("latin-1")
    location = f"{target}?{query}" if query else target
    headers = {"Location": location, "X-Ipfs-Path": address.path, "Cache-Control": IMMUTABLE}
    return PlainTextResponse(f"Moved Permanently: the content is at {target}.\n", 301, headers)
