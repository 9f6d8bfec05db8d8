"""Describe the file or directory at a path, for the page."""

from http import HTTPStatus
from typing import Any, Final

from holdfast.content.codecs import is_one_block, kind_of
from holdfast.content.media_types import named_type
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.directory_nodes import DirectoryEntry
from holdfast.errors import ClientError
from holdfast.node.gateway.addresses import Address, ResolvedPath, quoted, resolve_path
from holdfast.node.gateway.directories import listed, readable
from holdfast.node.gateway.files import SYMLINK_TYPE, file_content, file_type, symlink_target
from holdfast.node.http_server.refusals import Refusal
from holdfast.repository import Repository

READ_BLOCKS: Final = 1000  # of the entries of a directory, to know which of them are directories
READ_BYTES: Final = 16 << 20  # the same, as their size


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
    types = EntryTypes(repository)
    rows = [
        {
            "name": readable(entry.name),
            "quoted": quoted(entry.name),
            "size": entry.size,
            "type": types.type_of(entry),
        }
        for entry in entries
    ]
    return {"kind": "directory", "entries": rows, "more": is_cut}


class EntryTypes:
    """The types of the entries of a directory.

    A directory's block does not say which of its entries are directories: their blocks do. Only
    some of them are read, and the other entries are taken for files.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._blocks = READ_BLOCKS
        self._bytes = READ_BYTES

    def type_of(self, entry: DirectoryEntry) -> str:
        """Return ``directory``, or the media type for the name; empty if that is not known."""
        return "directory" if self._is_directory(entry) else named_type(entry.name) or ""

    def _is_directory(self, entry: DirectoryEntry) -> bool:
        if is_one_block(entry.cid) or self._blocks <= 0 or self._bytes <= 0:
            return False
        try:
            block = self._repository.block(entry.cid)
            self._blocks -= 1
            self._bytes -= len(block)
            return kind_of(entry.cid, block) in {Kind.DIRECTORY, Kind.SHARD}
        except ClientError:
            return False  # it is missing or damaged; the page says so when it is opened


def _file(repository: Repository, found: ResolvedPath) -> dict[str, Any]:
    content = file_content(repository, found.cid)
    media_type = file_type(repository, found.cid, found.address.names[-1:], content)
    return {"kind": "file", "type": media_type, "size": content.size}
