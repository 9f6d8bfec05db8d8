"""Values (dag-cbor, dag-json, cbor, json) through the gateway: as they are, on paths, as a page."""

import html
import re
from dataclasses import replace

import pytest

from holdfast.content import dag_cbor, dag_json
from holdfast.content.car import CarReader
from holdfast.content.cid import CBOR, CID, DAG_CBOR, DAG_JSON, IDENTITY, JSON
from holdfast.errors import NotFoundError
from holdfast.node.gateway import directories
from holdfast.node.gateway.addresses import Address, resolve_path
from holdfast.node.gateway.cached_repository import CachedRepository
from holdfast.node.gateway.values import _page
from holdfast.node.http_server.refusals import Refusal
from tests.gateway_node import running_gateway
from tests.support import HELLO_CID

HELLO = CID.parse(HELLO_CID)
IMMUTABLE = "public, max-age=29030400, immutable"
PAGES_CACHED = "public, max-age=604800, stale-while-revalidate=2678400"
VALUE = {"a": [1, {"b": "text"}], "file": HELLO}
TYPES = {
    "json": "application/json",
    "cbor": "application/cbor",
    "dag-json": "application/vnd.ipld.dag-json",
    "dag-cbor": "application/vnd.ipld.dag-cbor",
}
BLOCKS = {
    "json": (JSON, b'{ "a": [1] }'),  # not as we would write it: it is sent as it is
    "cbor": (CBOR, b"\xa1\x61a\x81\x18\x01"),
    "dag-json": (DAG_JSON, b' {"z": {"/": "%s"}, "a": 1}' % HELLO_CID.encode()),
    "dag-cbor": (DAG_CBOR, dag_cbor.encode(VALUE)),
}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with running_gateway(tmp_path_factory.mktemp("repository")) as node:
        node.add(b"hello")
        yield node


def put(node, value):
    """Store a value as dag-cbor; its CID."""
    return node.put(DAG_CBOR, dag_cbor.encode(value))


# As they are


@pytest.mark.parametrize("codec", BLOCKS)
def test_a_value_comes_as_its_block_is(node, codec):
    cid, block = node.put(*BLOCKS[codec]), BLOCKS[codec][1]
    plain = codec.removeprefix("dag-")
    kind = "inline" if plain == "json" else "attachment"
    for query, accept, name in [
        ("", "*/*", codec),
        ("", "text/plain", codec),
        ("/", "application/json;q=0, */*;q=0.1", codec),
        ("", TYPES[codec], codec),
        ("", TYPES[plain], plain),
        (f"?format={codec}", "application/vnd.ipld.raw", codec),
        (f"?format={plain}", "text/html", plain),
    ]:
        target, headers = f"/ipfs/{cid}{query}", {"Accept": accept}
        reply, head = node.get(target, **headers), node.head(target, **headers)
        assert (reply.status, head.status, reply.body) == (200, 200, block)
        chosen = "" if query != "" or accept in {"*/*", "text/plain"} else f"?format={name}"
        expected = {
            "content-type": TYPES[name],
            "content-length": str(len(block)),
            "content-disposition": f'{kind}; filename="{cid}.{plain}"',
            "etag": f'"{cid}.{name}"',
            "cache-control": IMMUTABLE,
            "accept-ranges": "bytes",
            "vary": "Accept",
            "x-ipfs-path": f"/ipfs/{cid}{query.partition('?')[0]}",
            "x-ipfs-roots": str(cid),
            "content-location": chosen and f"/ipfs/{cid}{chosen}",
            "x-content-type-options": "nosniff",
            "content-security-policy": "sandbox",
        }
        for said in (reply, head):
            assert {key: said.headers.get(key, "") for key in expected} == expected, query
        part = node.get(target, Range="bytes=2-4, 0-0", **headers)
        assert (part.status, part.body) == (206, block[2:5])
        assert part.headers["content-range"] == f"bytes 2-4/{len(block)}"
        assert node.get(target, If_None_Match=f'"{cid}.{name}"', **headers).status == 304
        assert node.get(target, If_None_Match=f'"{cid}.raw"', **headers).status == 200
    named = node.get(f"/ipfs/{cid}?filename=a.b").headers["content-disposition"]
    assert named == f'{kind}; filename="a.b"'
    saved = node.get(f"/ipfs/{cid}?download=true", Accept="text/html")
    assert saved.headers["content-disposition"] == f'attachment; filename="{cid}.{plain}"'
    assert saved.body == block


def test_nothing_is_converted(node):
    served = {"json": {"json"}, "cbor": {"cbor"}}
    served |= {f"dag-{plain}": {plain, f"dag-{plain}"} for plain in ("json", "cbor")}
    cids = {name: node.put(*BLOCKS[name]) for name in BLOCKS}
    for codec, cid in (cids | {"UnixFS": HELLO_CID}).items():
        for name in TYPES.keys() - served.get(codec, {"json"}):
            by_query = node.get(f"/ipfs/{cid}?format={name}", Accept="*/*")
            why = f"the content is {codec}, which is not converted to {name}"
            assert (by_query.status, by_query.body.decode()) == (
                406,
                f"Not Acceptable: {why}; read its block with ?format=raw.\n",
            )
            by_accept = node.get(f"/ipfs/{cid}", Accept=TYPES[name])
            assert by_accept.status == 406
            assert re.fullmatch(r"Not Acceptable: [^.]+\.\n", by_accept.body.decode())
            other = node.get(f"/ipfs/{cid}", Accept=f"{TYPES[name]}, */*;q=0.1")
            assert other.headers["content-type"] == TYPES.get(codec, "text/plain; charset=utf-8")
    assert node.get(f"/ipfs/{HELLO_CID}", Accept="application/json").body == b"hello"


# On paths


def test_a_path_goes_through_values_and_on_into_files(node):
    folder = node.add_directory({"notes.txt": b"hello"}).cid
    inner = node.put(DAG_JSON, dag_json.encode({"list": ["x", {"to": folder}]}))
    root = put(node, {"link": {"in": inner}, "self": {"text": "t"}})
    target = f"/ipfs/{root}/link/in/list/1/to/notes.txt"
    reply = node.get(target)
    assert (reply.status, reply.body) == (200, b"hello")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert reply.headers["x-ipfs-roots"] == ",".join(map(str, (root, inner, folder, HELLO_CID)))
    archive = CarReader().update(node.get(f"{target}?format=car&car-dups=y").body)
    assert [cid for cid, _ in archive] == [root, inner, folder, HELLO]
    assert node.get(f"/ipfs/{root}/link/in/").headers["content-type"] == TYPES["dag-json"]
    for missing in ("none", "link/in/list/2", "link/in/list/01", "self/text/0", "link/in/none"):
        assert node.get(f"/ipfs/{root}/{missing}").status == 404
    assert node.get(f"/ipfs/{CID(1, DAG_CBOR, IDENTITY, b'no')}/name").status == 404


def test_a_path_that_ends_inside_a_block_is_501_and_the_block_can_be_read(node):
    block = dag_cbor.encode({"a": {"b": [HELLO]}})
    inner = node.put(DAG_CBOR, block)
    root = put(node, {"in": inner})
    target = f"/ipfs/{root}/in/a/b"
    for query in ("", "?format=dag-cbor", "?format=tar"):
        reply = node.get(f"{target}{query}")
        why = f"'a/b' is a value inside the block {inner}; read the block"
        assert (reply.status, reply.body.decode()) == (501, f"Not Implemented: {why}.\n")
    assert node.get(f"{target}?format=raw").body == block
    archive = CarReader().update(node.get(f"{target}?format=car&dag-scope=block&car-dups=y").body)
    assert [cid for cid, _ in archive] == [root, inner]


def test_the_signature_for_a_value_does_not_open_the_rest_of_its_block(node):
    root = put(node, {"a": {"b": 1}, "secret": 2, "file": HELLO})
    repository = CachedRepository(node.repository)

    def resolved(path, top):
        return resolve_path(
            repository, replace(Address.parse(f"/ipfs/{root}{path}".encode()), top=top)
        )

    assert [resolved("/a/b", top).is_above_top for top in (0, 1)] == [False, True]
    assert not resolved("/a/b", 0).path_blocks
    assert resolved("/file", 1).path_blocks == ()
    assert resolved("/file", 0).path_blocks == (root,)
    with pytest.raises(NotFoundError):
        resolved("/file/x", 0)


# As a page


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


def rows(page):
    """The names and values of a page, as text."""
    cells = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td></tr>", page.decode(), re.DOTALL)
    return [tuple(html.unescape(re.sub(r"</?a[^>]*>", "", cell)) for cell in row) for row in cells]


def links(page):
    return [html.unescape(href) for href in re.findall(r'href="([^"]*)"', page.decode())]


@pytest.mark.parametrize("codec", ["dag-cbor", "dag-json"])
def test_people_see_a_page_with_links_to_follow(node, codec):
    encode = {"dag-cbor": dag_cbor.encode, "dag-json": dag_json.encode}[codec]
    value = {"a": [1.5, {"ü é": "text"}, []], "data": b"hi", "file": HELLO, "no": None, "m": {}}
    block = encode(value)
    cid = node.put(BLOCKS[codec][0], block)
    for slash in ("", "/"):
        reply = node.get(f"/ipfs/{cid}{slash}", Accept=BROWSER)
        expected = {
            "content-type": "text/html; charset=utf-8",
            "cache-control": PAGES_CACHED,
            "etag": f'"DagIndex-{directories.LISTING_VERSION}_CID-{cid}"',
            "content-disposition": "",
            "content-security-policy": "sandbox",
            "vary": "Accept",
        }
        assert {key: reply.headers.get(key, "") for key in expected} == expected
    assert sorted(rows(reply.body)) == sorted(
        [
            (f"{codec}, {len(block)} bytes", ""),
            ("a/0", "1.5"),
            ("a/1/ü é", '"text"'),
            ("a/2", "[]"),
            ("data", '{"/":{"bytes":"aGk"}}'),
            ("file", HELLO_CID),
            ("m", "{}"),
            ("no", "null"),
        ]
    )
    crumb, raw, link = links(reply.body)
    assert (crumb, raw, link) == (f"/ipfs/{cid}", f"/ipfs/{cid}?format=raw", f"/ipfs/{cid}/file")
    assert node.get(raw).body == block
    assert node.get(link, Accept=BROWSER).body == b"hello"
    assert node.head(f"/ipfs/{cid}", Accept=BROWSER).headers["content-length"] == str(
        len(reply.body)
    )
    assert node.get(f"/ipfs/{cid}", Accept=BROWSER, If_None_Match=expected["etag"]).status == 304


def test_plain_json_and_cbor_have_no_page(node):
    for codec in ("json", "cbor"):
        reply = node.get(f"/ipfs/{node.put(*BLOCKS[codec])}", Accept=BROWSER)
        assert reply.headers["content-type"] == TYPES[codec]


def test_the_links_of_a_page_have_the_signature_of_its_address(node):
    root = put(node, {"a b": HELLO})
    repository = CachedRepository(node.repository)
    address = replace(Address.parse(f"/files/{root}".encode(), "/files"), query="?X-Sig=1&y=<2>")
    page = _page(repository, resolve_path(repository, address), "dag-cbor")
    assert links(page)[1:] == [
        f"/files/{root}?X-Sig=1&y=<2>&format=raw",
        f"/files/{root}/a%20b?X-Sig=1&y=<2>",
    ]


# Hostile values

SCRIPT = "<img src=x onerror=alert(1)>\"'&"


def deep(levels):
    value = HELLO
    for _ in range(levels):
        value = [value]
    return value


def test_a_page_shows_hostile_texts_and_runs_none(node):
    value = {SCRIPT: SCRIPT, "x": {SCRIPT: HELLO}, "bytes": SCRIPT.encode()}
    page = node.get(f"/ipfs/{put(node, value)}/", Accept="text/html").body
    assert b"<img" not in page
    assert (SCRIPT, f'"{SCRIPT}"') in rows(page)
    assert node.get(links(page)[-1]).body == b"hello"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b"])
def test_a_name_that_no_path_can_have_is_shown_without_a_link(node, name):
    page = node.get(f"/ipfs/{put(node, {'x': {name: HELLO}})}/", Accept="text/html").body
    assert rows(page)[1:] == [(f"x/{name}", HELLO_CID)]
    assert len(links(page)) == 2


def test_a_page_has_an_end_whatever_the_value_is(node, monkeypatch):
    def page(value):
        return node.get(f"/ipfs/{put(node, value)}", Accept="text/html").body

    many = page([*range(10_001)])
    assert (len(rows(many)), len(many) < 1 << 20) == (10_001, True)
    assert b"<p>Only 10000 values are shown; there are more.</p>" in many
    assert rows(page("x" * 5000))[1:] == [("", '"' + "x" * 999 + "…")]
    assert rows(page(HELLO))[1:] == [("", HELLO_CID)]
    assert rows(page(deep(1024)))[1:] == [("/".join(["0"] * 1024), HELLO_CID)]
    monkeypatch.setattr(directories, "MAX_ROWS", 2000)
    assert rows(page(["y" * 900] * 9))[1:] == [(str(at), '"' + "y" * 900 + '"') for at in (0, 1)]


def test_one_path_at_a_time_leads_through_a_large_value(node):
    repository = CachedRepository(node.repository)
    small, large = (put(node, {"file": HELLO, "rest": bytes(size)}) for size in (1 << 16, 1 << 18))

    def resolved(cid):
        return resolve_path(repository, Address.parse(f"/ipfs/{cid}/file".encode())).cid

    with repository._decoding:
        assert resolved(small) == HELLO
        with pytest.raises(Refusal, match="large value") as caught:
            resolved(large)
    assert (caught.value.status, caught.value.headers) == (503, {"Retry-After": "5"})
    with pytest.raises(NotFoundError):
        resolve_path(repository, Address.parse(f"/ipfs/{large}/none".encode()))
    assert resolved(large) == HELLO


def test_a_block_that_is_no_value_or_is_too_large_has_a_page_that_says_so(node):
    def page(cid):
        reply = node.get(f"/ipfs/{cid}", Accept="text/html")
        assert reply.status == 200
        return rows(reply.body)[1:]

    # The store takes no such block; a CID can have it inside.
    assert "The block has no value: JSON: " in page(CID(1, DAG_JSON, IDENTITY, b'{"<b>": }'))[0][0]
    large = put(node, b"x" * (1 << 20))
    assert page(large) == [("The block is too large to be shown here.", "")]
