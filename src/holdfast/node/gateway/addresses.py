"""Parse the path of a request into a CID and names, and resolve the names in the repository.

The path is parsed once, into an `Address`. Access is checked for that value, and that value is
served: only this file reads ``raw_path``. Each name is decoded alone: in a path that was decoded as
a whole, ``%2F`` would separate names.
"""

import string
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from starlette.types import Scope

from holdfast.content.cid import CID
from holdfast.content.unixfs.walks import PathWalk
from holdfast.errors import InvalidCIDError
from holdfast.node.gateway.cached_repository import CachedRepository
from holdfast.node.http_server.refusals import Refusal

PUBLIC: Final = "/ipfs"  # where the public content is; private content is below ``/files``


@dataclass(frozen=True, slots=True)
class Address:
    """The parsed path of a request.

    Attributes:
        root: The path below which the application is mounted; empty for none.
        place: Where the content is below it: ``/ipfs`` or ``/files``.
        text: The CID as the client wrote it.
        cid: The CID.
        names: The names after the CID; bytes that are not UTF-8 are kept as surrogates.
        has_slash: Whether the path ends with a slash, as the path of a directory.
        query: The query that links to this content need, with its question mark: the signature of
            a private link.
        top: How many of the names lead to the folder that the signature is for. No link leads
            above it.
    """

    root: str
    place: str
    text: str
    cid: CID
    names: tuple[str, ...]
    has_slash: bool
    query: str = ""
    top: int = 0

    @classmethod
    def of(cls, scope: Scope, place: str = PUBLIC) -> "Address":
        """Return the address of a request; raise a `Refusal` if it is invalid.

        The route was chosen by ``path``. If ``raw_path`` is missing or spells another path, as
        after a middleware that changes one of them, it does not count.
        """
        path: str = scope["path"]
        raw: bytes = scope.get("raw_path") or b""
        if unquote(raw.decode("latin-1")) != path:
            raw = quote(path).encode()
        return cls.parse(raw, place, root_of(scope))

    @classmethod
    def parse(cls, raw: bytes, place: str = PUBLIC, root: str = "") -> "Address":
        """Return the address in the path `raw`; raise a `Refusal` if it is invalid."""
        parts = quote(raw, safe=string.punctuation).split("/")
        start = f"{root}{place}".split("/")
        if [unquote(part) for part in parts[: len(start)]] != start:
            why = f"the address must begin with {root}{place}/, without encoded slashes"
            raise Refusal(400, why)
        text, *names = parts[len(start) :] or [""]
        has_slash = bool(names) and not names[-1]
        if has_slash:
            names.pop()
        try:
            cid = CID.parse(text := unquote(text))
        except InvalidCIDError as error:
            raise Refusal(400, f"invalid CID: {error.reason}") from None
        return cls(root, place, text, cid, tuple(map(_name, names)), has_slash)

    @property
    def path(self) -> str:
        """The content path, with uniform quoting: ``/ipfs/…`` for private content too."""
        return "/".join([PUBLIC, self.text, *map(quoted, self.names)]) + "/" * self.has_slash

    @property
    def prefix(self) -> str:
        """The path of all content: its place after the root path of the application."""
        return quote(self.root) + self.place

    @property
    def here(self) -> str:
        """The path of the request without a slash at its end, with uniform quoting."""
        return self.link(len(self.names))

    def link(self, depth: int) -> str:
        """Return the path with only the first `depth` names."""
        return "/".join([self.prefix, quoted(self.text), *map(quoted, self.names[:depth])])


def root_of(scope: Scope) -> str:
    """Return the path below which the application is mounted, if the request's path has it."""
    root: str = scope.get("root_path", "")
    return root if scope["path"].startswith(f"{root}/") else ""


def quoted(name: str) -> str:
    """Return the name of an entry, quoted for a path."""
    return quote(name.encode("utf-8", "surrogateescape"), safe="")


def is_plain(name: str) -> bool:
    """Return whether `name` can be one name of a path: it leads neither up nor further down."""
    return name not in {"", ".", ".."} and "/" not in name and "\0" not in name


def _name(part: str) -> str:
    name = unquote(part, errors="surrogateescape")
    if not is_plain(name):
        raise Refusal(400, f"{part[:40]!r} is not a valid path segment")
    return name


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """An address whose names were resolved to CIDs.

    Attributes:
        address: The address.
        roots: The root CID, then the CID of each name of the path that leads to a block.
        path_blocks: The blocks of directories, shards and values that were read to resolve the
            path. Those above the folder that a signature is for are left out.
        inside: The names that lead to a value inside the last block; none for all of it.
    """

    address: Address
    roots: tuple[CID, ...]
    path_blocks: tuple[CID, ...]
    inside: tuple[str, ...] = ()

    @property
    def cid(self) -> CID:
        """The CID of the requested content."""
        return self.roots[-1]

    @property
    def is_above_top(self) -> bool:
        """Whether the block has more than the value that a signature is for."""
        return len(self.address.names) - len(self.inside) < self.address.top

    def headers(self) -> dict[str, str]:
        """Return the header fields about the path, for every reply that has content."""
        return {
            "X-Ipfs-Path": self.address.path,
            "X-Ipfs-Roots": ",".join(map(str, self.roots)),
            "Vary": "Accept",
        }


def resolve_path(repository: CachedRepository, address: Address) -> ResolvedPath:
    """Resolve the names of `address`.

    Raise `NotFoundError` if a name does not exist, and `UnprovenError` if a block is missing.
    """
    roots = [address.cid]
    path_blocks: list[CID] = []
    walk = PathWalk(address.cid, address.names)
    while (needed := walk.need) is not None:
        left = walk.names_left
        repository.follow(walk, needed)
        if walk.inside:
            break
        if len(address.names) - left >= address.top:
            path_blocks.append(needed)
        if walk.names_left < left and (cid := walk.need or walk.target) is not None:
            roots.append(cid)
    return ResolvedPath(address, tuple(roots), tuple(path_blocks), tuple(walk.inside))
