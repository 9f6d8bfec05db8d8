"""Directories: their index.html where they have one, else a page that lists what is in them."""

from html import escape
from itertools import islice
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from holdfast.content.cid import CID
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.walks import Entry, kind_of
from holdfast.errors import NotFoundError
from holdfast.node.gateway.addresses import Found, quoted
from holdfast.node.gateway.files import file_reply, redirect_to
from holdfast.node.gateway.replies import Content, content_reply
from holdfast.repository.store import Repository

INDEX: Final = "index.html"
LISTED: Final = 10_000  # names on a page; a directory may have millions
LISTING_VERSION: Final = 1  # part of the ETag: to be raised when the page changes
# Kubo's, for pages that it makes: the entries stay the same for ever, the page may not.
LISTING_CACHED: Final = "public, max-age=604800, stale-while-revalidate=2678400"

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
</style>
</head>
<body>
<h1>Index of {path}</h1>
<table>
{rows}
</table>
{note}
</body>
</html>
"""
NOTE: Final = f"<p>Only {LISTED} entries are shown; there are more.</p>"


def directory_reply(request: Request, repository: Repository, found: Found) -> Response:
    """The directory's index page, written by its author or by us."""
    if not found.address.has_slash:
        # Links on the page are relative to it.
        return redirect_to(request, found.address, found.address.target + "/")
    index = _index(repository, found.cid)
    if index is not None:
        return file_reply(request, repository, found, index, INDEX)
    page = _page(repository, found)
    headers = {
        **found.headers(),
        "Content-Type": "text/html; charset=utf-8",
        "Cache-Control": LISTING_CACHED,
    }
    etag = f'W/"DirIndex-{LISTING_VERSION}_CID-{found.cid}"'
    return content_reply(request, Content.of(page), etag, headers)


def _index(repository: Repository, cid: CID) -> CID | None:
    try:
        index = repository.resolve(cid, [INDEX])
    except NotFoundError:
        return None
    is_file = kind_of(index, repository.block(index)) in {Kind.FILE, Kind.RAW}
    return index if is_file else None


def _page(repository: Repository, found: Found) -> bytes:
    entries, is_cut = listed(repository, found.cid)
    rows = [_row(entry) for entry in entries]
    if found.address.names:
        rows.insert(0, '<tr><td><a href="../">..</a></td><td></td></tr>')
    path = "/".join(["/ipfs", found.address.text, *found.address.names, ""])
    page = PAGE.format(
        path=escape(readable(path)), rows="\n".join(rows), note=NOTE if is_cut else ""
    )
    return page.encode()


def listed(repository: Repository, cid: CID) -> tuple[list[Entry], bool]:
    """The entries of a directory by name, as many as are shown; and whether there are more."""
    entries = list(islice(repository.entries(cid), LISTED + 1))
    return sorted(entries[:LISTED]), len(entries) > LISTED


def _row(entry: Entry) -> str:
    # "./" keeps a name with a colon from being read as a scheme.
    link = f'<a href="./{quoted(entry.name)}">{escape(readable(entry.name))}</a>'
    return f"<tr><td>{link}</td><td>{_amount(entry.size)}</td></tr>"


def readable(name: str) -> str:
    """A name for people: bytes in it that are no UTF-8 are shown as such."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _amount(size: int) -> str:
    """A size for people: 3 digits are enough for them."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.{3 if amount < 1000 else 4}g} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
