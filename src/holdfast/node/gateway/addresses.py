"""From the target of a request to what it names: the CID, the names below it, and where they lead.

Taken from the target as it came: decoded as a whole, a name with ``%2F`` in it would be two.
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
from holdfast.node.gateway.replies import Refusal
from holdfast.repository.store import Repository

PREFIX: Final = "/ipfs"


@dataclass(frozen=True, slots=True)
class Address:
    """What is asked for.

    Attributes:
        target: The path of the request, as it came, still quoted.
        text: The CID as it was spelled.
        cid: The CID.
        names: The path below it; bytes that are no UTF-8 are kept as surrogates.
        has_slash: Whether it ends like a directory's address.
    """

    target: str
    text: str
    cid: CID
    names: tuple[str, ...]
    has_slash: bool

    @classmethod
    def of(cls, scope: Scope) -> "Address":
        """The address in a request's scope; a `Refusal` where it is none."""
        return cls.parse(scope.get("raw_path") or quote(scope["path"]).encode())

    @classmethod
    def parse(cls, raw: bytes) -> "Address":
        """The address that the path of a request spells; a `Refusal` where it is none."""
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
        """The content path: what the target says, quoted in one way."""
        return "/".join([PREFIX, self.text, *map(quoted, self.names)]) + "/" * self.has_slash

    @property
    def prefix(self) -> str:
        """The address below which all content is: ``/ipfs``, after that of the application."""
        return self.target.partition(f"{PREFIX}/")[0] + PREFIX

    def link(self, depth: int) -> str:
        """Return the address of what the first `depth` names lead to."""
        return "/".join([self.prefix, quoted(self.text), *map(quoted, self.names[:depth])])


def quoted(name: str) -> str:
    """A name of an entry as a part of an address."""
    return quote(name.encode("utf-8", "surrogateescape"), safe="")


def _name(part: str) -> str:
    name = unquote(part, errors="surrogateescape")
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise Refusal(HTTPStatus.BAD_REQUEST, "a part of the path is no name of an entry")
    return name


@dataclass(frozen=True, slots=True)
class Found:
    """Where an address leads.

    Attributes:
        address: The address.
        roots: The CID at each name of the path, from the root's to the one that was asked for.
        way: The blocks that were read to get there: directories, and shards of them.
    """

    address: Address
    roots: tuple[CID, ...]
    way: tuple[CID, ...]

    @property
    def cid(self) -> CID:
        """What the address names."""
        return self.roots[-1]

    def headers(self) -> dict[str, str]:
        """What is said of the way in every reply that has content."""
        return {
            "X-Ipfs-Path": self.address.path,
            "X-Ipfs-Roots": ",".join(map(str, self.roots)),
            "Vary": "Accept",
        }


def find(repository: Repository, address: Address) -> Found:
    """Follow the names; `NotFoundError` where one is not there, `UnprovenError` where a block."""
    roots = [address.cid]
    way: list[CID] = []
    for name in address.names:
        walk = PathWalk(roots[-1], [name])
        while (needed := walk.need) is not None:
            walk.feed(repository.block(needed), verified=True)
            way.append(needed)
        if walk.found is not None:
            roots.append(walk.found)
    return Found(address, tuple(roots), tuple(way))
