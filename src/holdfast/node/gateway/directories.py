"""Directories: their index.html if they have one, else a page that lists their entries."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from html import escape
from itertools import islice
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from holdfast.content.cid import CID
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.directory_nodes import DirectoryEntry
from holdfast.errors import NotFoundError
from holdfast.node.gateway.addresses import Address, ResolvedPath, quoted
from holdfast.node.gateway.cached_repository import BytesPieces, CachedRepository
from holdfast.node.gateway.content_replies import Content, content_reply
from holdfast.node.gateway.files import file_reply, redirect_to
from holdfast.readable_size import readable_size

INDEX: Final = "index.html"
LISTED: Final = 10_000  # names on a page; a directory may have millions
MAX_ROWS: Final = 4 << 20  # characters of them; each row repeats the path, which may be long
MAX_BREADCRUMBS: Final = 100  # names of the path that are links; each link repeats the path so far
LISTING_VERSION: Final = 3  # part of the ETag: add 1 when the page changes
# As in Kubo: the entries never change, but the page around them may.
LISTING_CACHED: Final = "public, max-age=604800, stale-while-revalidate=2678400"
PAGE_HEADERS: Final = {"Content-Type": "text/html; charset=utf-8", "Cache-Control": LISTING_CACHED}

PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{path}</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem }}
h1 {{ font-size: 1rem; overflow-wrap: anywhere }}
table {{ border-collapse: collapse; width: 100% }}
td {{ border-top: 1px solid #8884; overflow-wrap: anywhere; padding: .25rem }}
td + td {{ text-align: right; white-space: nowrap }}
.ipfs-hash {{ font-family: ui-monospace, monospace }}
</style>
</head>
<body>
<h1>{title} {breadcrumbs}</h1>
<table>
{rows}
</table>
{note}
</body>
</html>
"""
NOTE: Final = "<p>Only {shown} {things} are shown; there are more.</p>"


def directory_reply(request: Request, repository: CachedRepository, path: ResolvedPath) -> Response:
    """Return the index.html of a directory, or a generated page that lists it."""
    if not path.address.has_slash:
        # The links on the page are relative to its address.
        return redirect_to(request, path.address, f"{path.address.here}/")
    index = _index(repository, path.cid)
    if index is not None:
        return file_reply(request, repository, path, index, INDEX)
    return page_reply(request, repository, path, "Dir", lambda: _page(repository, path))


def page_reply(
    request: Request,
    repository: CachedRepository,
    path: ResolvedPath,
    mark: str,
    make: Callable[[], bytes],
) -> Response:
    """Return the page that `make` makes, from the cache or made again.

    `mark` is the word for such pages in the ETag, as Kubo has it.
    """
    headers = path.headers() | PAGE_HEADERS
    address = path.address
    key = ("listing", address.prefix, address.text, address.names, address.query, address.top)
    page = partial(repository.computed, key, make)
    content = Content(len(page()), partial(BytesPieces, page, partial(repository.cached, key)))
    etag = f'"{mark}Index-{LISTING_VERSION}_CID-{path.cid}"'
    return content_reply(request, content, etag, headers)


def _index(repository: CachedRepository, cid: CID) -> CID | None:
    """Return the CID of the directory's index page, or None where it has none."""

    def resolve() -> tuple[CID | None]:
        try:
            return (repository.repository.resolve(cid, [INDEX]),)
        except NotFoundError:
            return (None,)

    index = repository.computed(("index", cid), resolve)[0]
    is_file = index is not None and repository.kind(index) in {Kind.FILE, Kind.RAW}
    return index if is_file else None


def _page(repository: CachedRepository, path: ResolvedPath) -> bytes:
    entries, is_cut = listed(repository, path.cid)
    address = path.address
    here, query = escape(address.here), escape(address.query)
    prefix = "" if query else escape(address.prefix)
    top = []
    if len(address.names) > address.top:
        top.append(f'<tr><td><a href="{here}/..{query}">..</a></td><td></td><td></td></tr>')
    rows = (_row(entry, here, query, prefix) for entry in entries)
    return table_page(address, "Index of", "entries", rows, top=top, is_cut=is_cut)


def table_page(
    address: Address,
    title: str,
    things: str,
    rows: Iterable[str],
    *,
    top: Sequence[str] = (),
    is_cut: bool = False,
) -> bytes:
    """Return a page with a table of `rows`, as many as it may have.

    `title` stands before the path, and `things` are what the rows show. The rows of `top` come
    first. With `is_cut`, there are more things than rows.
    """
    shown: list[str] = []
    size = 0
    for row in rows:
        size += len(row)
        if size > MAX_ROWS or len(shown) == LISTED:
            is_cut = True
            break
        shown.append(row)
    page = PAGE.format(
        path=escape(readable("/".join([address.place, address.text, *address.names, ""]))),
        title=title,
        breadcrumbs="/".join([address.place, *_breadcrumbs(address)]),
        rows="\n".join([*top, *shown]),
        note=NOTE.format(shown=len(shown), things=things) if is_cut else "",
    )
    return page.encode(errors="replace")


def _breadcrumbs(address: Address) -> Iterator[str]:
    """Yield each name of the path; as a link to its content, where a link may lead there."""
    query = escape(address.query)
    for depth, name in enumerate([address.text, *address.names]):
        text = escape(readable(name))
        if address.top <= depth <= MAX_BREADCRUMBS:
            text = f'<a href="{escape(address.link(depth))}{query}">{text}</a>'
        yield text


def listed(repository: CachedRepository, cid: CID) -> tuple[list[DirectoryEntry], bool]:
    """Return the entries to show, sorted by name, and whether there are more."""
    entries = list(islice(repository.repository.entries(cid), LISTED + 1))
    return sorted(entries[:LISTED]), len(entries) > LISTED


def _row(entry: DirectoryEntry, here: str, query: str, prefix: str) -> str:
    """Return the row of an entry: its name as a link, its CID, and its size.

    The CID is a link below `prefix`, if there is one. A signature covers no address by CID.
    """
    name, cid = quoted(entry.name), str(entry.cid)
    by_name = f'<a href="{here}/{name}{query}">{escape(readable(entry.name))}</a>'
    by_cid = f"{cid[:4]}…{cid[-4:]}"
    if prefix:
        # Escaped twice, as in Kubo's listings: the conformance suite compares this link exactly.
        href = f"{prefix}/{cid}?filename={quoted(name)}"
        by_cid = f'<a class="ipfs-hash" translate="no" href="{href}">{by_cid}</a>'
    return f"<tr><td>{by_name}</td><td>{by_cid}</td><td>{readable_size(entry.size)}</td></tr>"


def readable(name: str) -> str:
    """Return a name to show: bytes that are not UTF-8 become replacement characters."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
