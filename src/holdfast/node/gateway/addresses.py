"""Parse the path of a request into a CID and names, and resolve the names in the repository.

Each name is decoded alone: in a path that was decoded as a whole, ``%2F`` would separate names.
"""

import string
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, unquote

from starlette.types import Scope

from holdfast.content.cid import CID
from holdfast.content.unixfs.walks import PathWalk
from holdfast.errors import InvalidCIDError
from holdfast.node.http_server.refusals import Refusal
from holdfast.repository.store import Repository

PREFIX: Final = "/ipfs"


@dataclass(frozen=True, slots=True)
class Address:
    """The parsed path of a request.

    Attributes:
        target: The path of the request, still quoted.
        text: The CID as the client wrote it.
        cid: The CID.
        names: The names after the CID; bytes that are not UTF-8 are kept as surrogates.
        has_slash: Whether the path ends with a slash, as the path of a directory.
    """

    target: str
    text: str
    cid: CID
    names: tuple[str, ...]
    has_slash: bool

    @classmethod
    def of(cls, scope: Scope) -> "Address":
        """Return the address of a request; raise a `Refusal` if it is invalid."""
        return cls.parse(scope.get("raw_path") or quote(scope["path"]).encode())

    @classmethod
    def parse(cls, raw: bytes) -> "Address":
        """Return the address in the path `raw`; raise a `Refusal` if it is invalid."""
        target = quote(raw, safe=string.punctuation)
        text, *names = target.partition(f"{PREFIX}/")[2].split("/")
        has_slash = bool(names) and not names[-1]
        if has_slash:
            names.pop()
        try:
            cid = CID.parse(text := unquote(text))
        except InvalidCIDError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"invalid CID: {error.reason}") from None
        return cls(target, text, cid, tuple(map(_name, names)), has_slash)

    @property
    def path(self) -> str:
        """The content path, with uniform quoting."""
        return "/".join([PREFIX, self.text, *map(quoted, self.names)]) + "/" * self.has_slash

    @property
    def prefix(self) -> str:
        """The path of all content: ``/ipfs`` after the root path of the application."""
        return self.target.partition(f"{PREFIX}/")[0] + PREFIX

    def link(self, depth: int) -> str:
        """Return the path with only the first `depth` names."""
        return "/".join([self.prefix, quoted(self.text), *map(quoted, self.names[:depth])])


def quoted(name: str) -> str:
    """Return the name of an entry, quoted for a path."""
    return quote(name.encode("utf-8", "surrogateescape"), safe="")


def _name(part: str) -> str:
    name = unquote(part, errors="surrogateescape")
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"{part[:40]!r} is not a valid path segment")
    return name


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """An address whose names were resolved to CIDs.

    Attributes:
        address: The address.
        roots: The root CID, then the CID of each name of the path.
        path_blocks: The blocks of directories and shards that were read to resolve the path.
    """

    address: Address
    roots: tuple[CID, ...]
    path_blocks: tuple[CID, ...]

    @property
    def cid(self) -> CID:
        """The CID of the requested content."""
        return self.roots[-1]

    def headers(self) -> dict[str, str]:
        """Return the header fields about the path, for every reply that has content."""
        return {
            "X-Ipfs-Path": self.address.path,
            "X-Ipfs-Roots": ",".join(map(str, self.roots)),
            "Vary": "Accept",
        }


def resolve_path(repository: Repository, address: Address) -> ResolvedPath:
    """Resolve the names of `address`.

    Raise `NotFoundError` if a name does not exist, and `UnprovenError` if a block is missing.
    """
    roots = [address.cid]
    path_blocks: list[CID] = []
    for name in address.names:
        walk = PathWalk(roots[-1], [name])
        while (needed := walk.need) is not None:
            walk.feed(repository.block(needed), verified=True)
            path_blocks.append(needed)
        if walk.found is not None:
            roots.append(walk.found)
    return ResolvedPath(address, tuple(roots), tuple(path_blocks))
