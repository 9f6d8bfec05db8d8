"""The page at the root of the node, which lists, shows, adds and removes pins.

Its files are served as they are in this folder, without a build. The page has the same origin as
all content, so its Content-Security-Policy allows only these files, each marked with a nonce. No
pinned script and no file from elsewhere can run in it.
"""

import secrets
from collections.abc import Iterable
from contextlib import suppress
from importlib.resources import files
from itertools import islice
from pathlib import PurePath
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.content.cid import CID
from holdfast.content.codecs import is_one_block, kind_of
from holdfast.content.media_types import named_type
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.directory_nodes import DirectoryEntry
from holdfast.content.unixfs.file_nodes import file_node
from holdfast.errors import ClientError
from holdfast.node.gateway.addresses import Address, ResolvedPath, quoted, resolve_path
from holdfast.node.gateway.cached_repository import CachedRepository
from holdfast.node.gateway.content_replies import refusal_for
from holdfast.node.gateway.directories import listed, readable
from holdfast.node.gateway.files import SYMLINK_TYPE, file_content, file_type, symlink_target
from holdfast.node.http_server.refusals import Refusal

# Describe the file or directory at a path, for the page.

READ_BLOCKS: Final = 1000  # of the entries of a directory, to know what they are
READ_BYTES: Final = 16 << 20  # the same, as their size

Facts = dict[str, Any]  # of a file or directory, as JSON


def describe(repository: CachedRepository, path: str) -> Facts:
    """Return a file with its type and size, or a directory with its entries.

    `path` is a path of the gateway, still quoted. Raise a `Refusal` or a `ClientError` if there is
    nothing at it.
    """
    resolved = resolve_path(repository, Address.parse(path.encode("utf-8", "replace")))
    record: Facts = {"cid": str(resolved.cid)}
    block = repository.block(resolved.cid)
    match kind_of(resolved.cid, block):
        case Kind.DIRECTORY | Kind.SHARD:
            return record | _directory(repository, resolved)
        case Kind.FILE | Kind.RAW:
            return record | _file(repository, resolved)
        case Kind.SYMLINK:
            size = len(symlink_target(block))
            return record | {"kind": "file", "type": SYMLINK_TYPE, "size": size}
    raise Refusal(406, f"{resolved.cid} is not a file or directory")


def _directory(repository: CachedRepository, resolved: ResolvedPath) -> Facts:
    entries, is_cut = listed(repository, resolved.cid)
    facts = _nodes(repository, entries)
    rows = [
        {
            "name": readable(entry.name),
            "quoted": quoted(entry.name),
            "size": entry.size,
            "type": named_type(entry.name) or "",
            **facts.get(entry.cid, {}),
        }
        for entry in entries
    ]
    return {"kind": "directory", "entries": rows, "more": is_cut}


def _nodes(repository: CachedRepository, entries: Iterable[DirectoryEntry]) -> dict[CID, Facts]:
    """Return the types of directories and links among the entries, and the sizes of files.

    A directory's block does not say which entries are directories, and the sizes in it include the
    blocks that hold a file together. The blocks of the entries are exact, but only some are read.
    The other entries are shown as files, with the sizes in the directory's block.
    """
    facts: dict[CID, Facts] = {}
    size = 0
    for entry in islice((entry for entry in entries if not is_one_block(entry.cid)), READ_BLOCKS):
        with suppress(ClientError):  # missing or damaged; the page says so when it is opened
            block = repository.block(entry.cid)
            size += len(block)
            match kind_of(entry.cid, block):
                case Kind.DIRECTORY | Kind.SHARD:
                    facts[entry.cid] = {"type": "directory"}
                case Kind.FILE:
                    facts[entry.cid] = {"size": file_node(entry.cid, block).size}
                case Kind.SYMLINK:
                    facts[entry.cid] = {"type": SYMLINK_TYPE, "size": len(symlink_target(block))}
        if size >= READ_BYTES:
            break
    return facts


def _file(repository: CachedRepository, resolved: ResolvedPath) -> Facts:
    content = file_content(repository, resolved.cid)
    media_type = file_type(repository, resolved.cid, resolved.address.names[-1:], content)
    return {"kind": "file", "type": media_type, "size": content.size}


TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY: Final = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
    "connect-src 'self'; img-src 'self'; media-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final = {
    "Cache-Control": "no-cache",  # the page changes when the package is upgraded
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


class Page:
    """The page over one repository. Changes go through the pinning API, with the user's token."""

    def __init__(self, repository: CachedRepository) -> None:
        self._repository = repository
        folder = files(__name__)
        self._index = folder.joinpath("index.html").read_text(encoding="utf-8")
        assets = [file for file in folder.iterdir() if PurePath(file.name).suffix in TYPES]
        self._assets = {file.name: file.read_bytes() for file in assets}

    def routes(self) -> list[BaseRoute]:
        """Return the routes of the page."""
        routes = {"/": self.index, "/page/item": self.item, "/page/{name}": self.asset}
        return [Route(path, endpoint) for path, endpoint in routes.items()]

    async def index(self, _: Request) -> Response:
        """Serve the page, with a new nonce."""
        nonce = secrets.token_urlsafe(16)
        headers = {**HEADERS, "Content-Security-Policy": POLICY.format(nonce=nonce)}
        return HTMLResponse(self._index.replace("NONCE", nonce), headers=headers)

    async def asset(self, request: Request) -> Response:
        """Serve a script, the style sheet or the icon of the page."""
        name = request.path_params["name"]
        if name not in self._assets:
            raise HTTPException(404)
        media_type = TYPES[PurePath(name).suffix]
        return Response(self._assets[name], headers=HEADERS, media_type=media_type)

    async def item(self, request: Request) -> Response:
        """Describe the file or directory at a path, as JSON."""
        path = request.query_params.get("path", "")
        try:
            item: Facts = await run_in_threadpool(describe, self._repository, path)
        except (Refusal, ClientError) as error:
            refusal = error if isinstance(error, Refusal) else refusal_for(error)
            raise Refusal(refusal.status, refusal.sentence) from None
        return JSONResponse(item, headers=HEADERS)
