"""Values (dag-cbor, dag-json, cbor, json): their block as it is, or a page that shows it.

A block is never converted: a client that wants another form reads the block and makes it itself.
"""

from collections.abc import Iterator
from functools import partial
from html import escape
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from holdfast.content import dag_json
from holdfast.content.cid import CID
from holdfast.content.codecs import read_value
from holdfast.errors import MalformedError
from holdfast.node.gateway import content_replies
from holdfast.node.gateway.addresses import Address, ResolvedPath, is_plain
from holdfast.node.gateway.cached_repository import CachedRepository, block_pieces
from holdfast.node.gateway.directories import page_reply, readable, table_page
from holdfast.node.gateway.files import JSON_LIMIT

SHOWN_TEXT: Final = 1000  # characters of one value on a page


def value_reply(
    request: Request, repository: CachedRepository, path: ResolvedPath, codec: str, asked: str
) -> Response:
    """Return the block at the end of the path, whose codec is `codec`, in the format `asked`.

    That is a name of the same form, a page, or "" for what the codec is.
    """
    if asked == content_replies.HTML:
        return page_reply(request, repository, path, "Dag", partial(_page, repository, path, codec))
    name = asked or codec
    ending = name.removeprefix("dag-")
    headers = content_replies.content_headers(
        request,
        path,
        f"{path.cid}.{ending}",
        content_replies.VALUE_TYPES[name],
        disposition="inline" if ending == "json" else "attachment",
        query=f"format={name}" if asked else "",
    )
    size = len(repository.block(path.cid))
    content = content_replies.Content(size, partial(block_pieces, repository, path.cid))
    return content_replies.content_reply(request, content, f'"{path.cid}.{name}"', headers)


def _page(repository: CachedRepository, path: ResolvedPath, codec: str) -> bytes:
    """Return the page of a value: a row for everything in it that is no list and no map."""
    address, block = path.address, repository.block(path.cid)
    sign = "&" if address.query else "?"
    link = escape(f"{address.here}{address.query}{sign}format=raw")
    top = [f'<tr><td><a href="{link}">{codec}, {len(block):,} bytes</a></td><td></td></tr>']
    rows: Iterator[str] = iter(())
    if len(block) > JSON_LIMIT:
        top.append("<tr><td>The block is too large to be shown here.</td><td></td></tr>")
    else:
        try:
            rows = _rows(address, read_value(path.cid, block))
        except MalformedError as error:
            why = escape(readable(error.message))
            top.append(f"<tr><td>The block has no value: {why}.</td><td></td></tr>")
    return table_page(address, codec, "values", rows, top=top)


def _rows(address: Address, value: Any) -> Iterator[str]:
    """Yield the row of each value: the names that lead to it, and the value; a link to follow.

    Only one name of each level is held, whatever the value has.
    """
    names: list[str] = []
    levels: list[Iterator[tuple[Any, Any]]] = [iter([("", value)])]
    while levels:
        name, item = next(levels[-1], (None, None))
        if name is None:
            levels.pop()
            del names[-1:]
            continue
        names.append(str(name))
        if item and isinstance(item, dict | list):
            levels.append(iter(item.items() if isinstance(item, dict) else enumerate(item)))
            continue
        yield _row(address, names[1:], item)
        names.pop()


def _row(address: Address, names: list[str], item: Any) -> str:
    text = f'"{item}"' if isinstance(item, str) else dag_json.encode(item).decode()
    shown = escape(text[:SHOWN_TEXT] + "…" * (len(text) > SHOWN_TEXT))
    if isinstance(item, CID):
        shown = escape(str(item))
        if names and all(map(is_plain, names)):
            way = "/".join(quote(name, "", errors="surrogatepass") for name in names)
            href = escape(f"{address.here}/{way}{address.query}")
            shown = f'<a class="ipfs-hash" href="{href}">{shown}</a>'
    return f"<tr><td>{escape('/'.join(names))}</td><td>{shown}</td></tr>"
