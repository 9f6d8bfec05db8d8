"""Tar archives (application/x-tar): a file, a symbolic link, or a directory with all below it.

The name of the top entry is its CID. The order of the others needs little memory, and makes the
archive safe to extract::

    CID/              a directory comes before its entries
    CID/report.txt    files are sent in the order of the directory
    CID/docs/         a subdirectory is listed when its parent is complete
    CID/docs/a.txt
    CID/latest        symbolic links come last, so that no file can be written through one

The last rule protects file systems for which ``a`` and ``A`` are the same name. A directory with
equal names is refused. A file may have a relative name, such as ``../notes.txt``, if it leads to a
place below the top entry, and is sent with the path of that place. Directories and links have plain
names only, so that the rule holds for links below links too.
"""

import tarfile
from collections.abc import Iterator
from posixpath import normpath
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from holdfast.content import dag_pb
from holdfast.content.blocks import malformed
from holdfast.content.cid import CID
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.directory_nodes import UNSAFE_NAME, DirectoryEntry
from holdfast.content.unixfs.walks import DirectoryWalk
from holdfast.errors import MalformedError
from holdfast.node.gateway import content_replies
from holdfast.node.gateway.addresses import ResolvedPath, is_plain
from holdfast.node.gateway.cached_repository import LINK_WEIGHT, CachedRepository
from holdfast.node.gateway.files import symlink_target
from holdfast.node.http_server.refusals import Refusal

MAX_NAME: Final = 255  # bytes; NAME_MAX of the usual file systems
MAX_PATH: Final = 4096  # bytes; PATH_MAX of Linux, for paths in the archive and targets of links
MAX_PENDING: Final = 16 << 20  # bytes, for directories that are not yet entered and for links
RECORD: Final = 250  # bytes that such a directory or link takes besides its names

_END: Final = bytes(2 * tarfile.BLOCKSIZE)
_KINDS: Final = frozenset({Kind.FILE, Kind.RAW, Kind.DIRECTORY, Kind.SHARD, Kind.SYMLINK})


class _Place(NamedTuple):
    """A path in the archive. Entries of one directory share the text of its path."""

    parent: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.parent}/{self.name}" if self.parent else self.name


def tar_reply(request: Request, repository: CachedRepository, path: ResolvedPath) -> Response:
    """Return the archive as a stream. It breaks off at an error."""
    if repository.kind(path.cid) not in _KINDS:
        raise _not_possible(f"{path.cid} is not a file, directory or symbolic link")
    name = f"{path.cid}.tar"
    headers = content_replies.content_headers(
        request, path, name, content_replies.TAR_TYPE, disposition="attachment", query="format=tar"
    )
    pieces = TarPieces(repository, path.cid)
    return content_replies.stream_reply(request, pieces, f'W/"{path.cid}.x-tar"', headers)


class TarPieces(content_replies.JoinedPieces):
    """The archive of `root`, in pieces. Between two pieces no block of a file is held."""

    def __init__(self, repository: CachedRepository, root: CID) -> None:
        super().__init__(self._write(root))
        self._repository = repository
        self._directories: list[tuple[_Place, CID]] = []
        self._links: list[tuple[_Place, bytes]] = []
        self._pending = 0  # bytes that the directories and links take
        self._entries = 0  # entries of the directory block in use

    @property
    def memory_used(self) -> int:
        """How many bytes of memory the archive holds, about."""
        return self._pending + self._entries * LINK_WEIGHT

    def _write(self, root: CID) -> Iterator[bytes]:
        yield from self._member(_Place("", str(root)), root)
        while self._directories:
            place, cid = self._directories.pop()
            self._hold(place, -1)
            path = place.path
            for entry in self._list(cid):
                if is_plain(entry.name):
                    yield from self._member(_Place(path, entry.name), entry.cid)
                elif self._repository.kind(entry.cid) in {Kind.FILE, Kind.RAW}:
                    yield from self._member(_placed(str(root), path, entry.name), entry.cid)
                else:
                    raise _not_possible(f"only the name of a file may be {entry.name[:100]!a}")
        for place, target in self._links:
            yield _header(place, tarfile.SYMTYPE, target=target)
        yield _END

    def _list(self, cid: CID) -> Iterator[DirectoryEntry]:
        try:
            for entries in self._batches(cid):
                self._entries = len(entries)
                yield from entries
        except MalformedError as error:
            raise _not_possible(error.message) from None
        self._entries = 0

    def _batches(self, cid: CID) -> Iterator[list[DirectoryEntry]]:
        if self._repository.kind(cid) is Kind.DIRECTORY:
            try:
                entries = self._repository.plain_entries(cid)
            except MalformedError:  # a name is not plain
                entries = _relative_entries(cid, self._repository.block(cid))
            yield entries
            return
        walk = DirectoryWalk(cid)
        while (needed := walk.need) is not None:
            yield walk.feed(self._repository.block(needed), verified=True)

    def _member(self, place: _Place, cid: CID) -> Iterator[bytes]:
        """Yield a file or the header of a directory; keep a symbolic link for the end."""
        _check_name(place)
        match self._repository.kind(cid):
            case Kind.DIRECTORY | Kind.SHARD:
                self._hold(place, 1)
                self._directories.append((place, cid))
                yield _header(place, tarfile.DIRTYPE)
            case Kind.FILE | Kind.RAW:
                size = self._repository.file_node(cid).size
                yield _header(place, tarfile.REGTYPE, size=size)
                yield from self._file(cid, size)
            case Kind.SYMLINK:
                target = symlink_target(self._repository.block(cid))
                _check_target(place, target)
                self._hold(place, 1, extra=len(place.parent) + len(target))
                self._links.append((place, target))
            case _:
                raise _not_possible(f"{cid} is not a file, directory or symbolic link")

    def _file(self, cid: CID, size: int) -> Iterator[bytes]:
        written = 0
        for piece in self._repository.read(cid):
            written += len(piece)
            yield piece
        if written != size:
            # The rest of the archive would be read wrongly.
            raise MalformedError(f"{cid} has {written} bytes and declares {size}", cid=str(cid))
        yield bytes(-size % tarfile.BLOCKSIZE)

    def _hold(self, place: _Place, count: int, *, extra: int = 0) -> None:
        """Count the memory of `count` directories or links; raise `Refusal` above the limit."""
        self._pending += count * (RECORD + len(place.name) + extra)
        if self._pending > MAX_PENDING:
            raise _not_possible("it has too many directories or symbolic links")


def _header(place: _Place, kind: bytes, *, size: int = 0, target: bytes = b"") -> bytes:
    """Return the header of an entry: ustar, with pax records where a name or size needs them.

    What UnixFS does not have is the same for each entry: the owner is 0, the time is 0.
    """
    info = tarfile.TarInfo(place.path)
    info.type = kind
    info.size = size
    info.mode = 0o644 if kind == tarfile.REGTYPE else 0o755
    info.linkname = target.decode("utf-8", "surrogateescape")
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _relative_entries(cid: CID, block: bytes) -> list[DirectoryEntry]:
    """Return the entries of a plain directory, with names that may be relative, each once."""
    entries = [
        DirectoryEntry(link.name.decode("utf-8", "surrogateescape"), link.cid, link.size)
        for link in dag_pb.decode(block).links
    ]
    if len({normpath(entry.name) for entry in entries}) < len(entries):
        raise malformed(cid, UNSAFE_NAME)
    return entries


def _placed(top: str, parent: str, name: str) -> _Place:
    """Return the place to which a relative name leads; raise `Refusal` if it is not below `top`."""
    path = normpath(f"{parent}/{name}")
    is_below = path.startswith(f"{top}/") and not name.startswith("/")
    if not is_below or not is_plain(name.rpartition("/")[2]) or "\0" in name:
        # Kubo's words, which clients look for to know why there is no archive.
        raise _not_possible("relative UnixFS paths outside the root are not allowed")
    for part in path.split("/"):
        _check_name(_Place("", part))
    return _Place(*path.rsplit("/", 1))


def _check_name(place: _Place) -> None:
    """Raise `Refusal` for a name that cannot be extracted, or leaves the folder on Windows."""
    name = place.name.encode("utf-8", "surrogateescape")
    length = len(place.parent.encode("utf-8", "surrogateescape")) + 1 + len(name)
    if len(name) > MAX_NAME or length > MAX_PATH:
        raise _not_possible(
            f"it has a name of more than {MAX_NAME} bytes, or a path of more than {MAX_PATH}"
        )
    if name.startswith(b"\\") or b".." in name.split(b"\\"):
        raise _not_possible("it has a name that leads elsewhere where \\ separates names")


def _check_target(place: _Place, target: bytes) -> None:
    if not target or b"\0" in target or len(target) > MAX_PATH:
        raise _not_possible(f"the target of the symbolic link {place.name!a} is not valid")


def _not_possible(why: str) -> Refusal:
    return Refusal(406, f"no tar archive can be made: {why}; read it with ?format=car")
