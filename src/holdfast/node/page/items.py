"""Describe the file or directory at a path, for the page."""

from http import HTTPStatus
from typing import Any

from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.file_nodes import kind_of
from holdfast.node.gateway.addresses import Address, ResolvedPath, quoted, resolve_path
from holdfast.node.gateway.directories import listed, readable
from holdfast.node.gateway.files import SYMLINK_TYPE, file_content, file_type, symlink_target
from holdfast.node.http_server.refusals import Refusal
from holdfast.repository import Repository


def describe(repository: Repository, path: str) -> dict[str, Any]:
    """Return a file with its type and size, or a directory with its entries.

    `path` is a path of the gateway, still quoted. Raise a `Refusal` or a `ClientError` if there is
    nothing at it.
    """
    found = resolve_path(repository, Address.parse(path.encode("utf-8", "replace")))
    about: dict[str, Any] = {"cid": str(found.cid)}
    block = repository.block(found.cid)
    match kind_of(found.cid, block):
        case Kind.DIRECTORY | Kind.SHARD:
            return about | _directory(repository, found)
        case Kind.FILE | Kind.RAW:
            return about | _file(repository, found)
        case Kind.SYMLINK:
            size = len(symlink_target(block))
            return about | {"kind": "file", "type": SYMLINK_TYPE, "size": size}
        case _:
            raise Refusal(HTTPStatus.NOT_ACCEPTABLE, f"{found.cid} is not a file or directory")


def _directory(repository: Repository, found: ResolvedPath) -> dict[str, Any]:
    entries, is_cut = listed(repository, found.cid)
    rows = [
        {"name": readable(entry.name), "quoted": quoted(entry.name), "size": entry.size}
        for entry in entries
    ]
    return {"kind": "directory", "entries": rows, "more": is_cut}


def _file(repository: Repository, found: ResolvedPath) -> dict[str, Any]:
    content = file_content(repository, found.cid)
    media_type = file_type(repository, found.cid, found.address.names[-1:], content)
    return {"kind": "file", "type": media_type, "size": content.size}
