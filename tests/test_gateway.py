"""The gateway of the local node, over real sockets: what it serves, and what it refuses."""

import html
import http.client
import logging
import re
import socket
from contextlib import ExitStack
from dataclasses import replace

import pytest
import urllib3

from holdfast.content import dag_pb
from holdfast.content.car import CarReader
from holdfast.content.cid import CID, DAG_PB, IDENTITY, RAW
from holdfast.content.dag_pb import Link
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V1_2025
from holdfast.content.unixfs import data
from holdfast.content.unixfs.files import Part
from holdfast.node.gateway import directories
from holdfast.node.gateway.content_replies import asked_range
from holdfast.node.http_server.refusals import Refusal
from tests.content import DATA, MIB, Blocks, stream
from tests.gateway_node import cid_of, running_gateway
from tests.support import HELLO_CID

TEXT = b"the quick brown fox jumps over it"
TEXT_CID = str(CID.of_raw(TEXT))
IMMUTABLE = "public, max-age=29030400, immutable"
CAR = "application/vnd.ipld.car"
CAR_TYPE = f"{CAR}; version=1; order=dfs; dups=n"
RAW_TYPE = "application/vnd.ipld.raw"
DIRECTORY = "bafybeihchr7vmgjaasntayyatmp5sv6xza57iy2h4xj7g46bpjij6yhrmy"
SHARDED = "bafybeidbclfqleg2uojchspzd4bob56dqetqjsj27gy2cq3klkkgxtpn4i"
NESTED = "bafybeidh6k2vzukelqtrjsmd4p52cpmltd2ufqrdtdg6yigi73in672fwu"
SYMLINK = "QmWvY6FaqFMS89YAQ9NAPjVP4WZKA1qbHbicc9HeSKQTgt"
GAPPY = "QmYhmPjhFjYFyaoiuNzYv8WGavpSRDwdHWe5B4M5du5Rtk"
# The blocks of multiblock.txt, as the conformance suite has them: 4 of 256 bytes, one of 2.
MULTIBLOCK = [
    "bafkreie5noke3mb7hqxukzcy73nl23k6lxszxi5w3dtmuwz62wnvkpsscm",
    "bafkreih4ephajybraj6wnxsbwjwa77fukurtpl7oj7t7pfq545duhot7cq",
    "bafkreigu7buvm3cfunb35766dn7tmqyh2um62zcio63en2btvxuybgcpue",
    "bafkreicll3huefkc3qnrzeony7zcfo7cr3nbx64hnxrqzsixpceg332fhe",
    "bafkreifst3pqztuvj57lycamoi7z34b4emf7gawxs74nwrc2c7jncmpaqm",
]


CROSS_ORIGIN = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, HEAD, OPTIONS",
    "access-control-allow-headers": (
        "Content-Type, Range, User-Agent, X-Requested-With, Cache-Control, X-Pinata-Gateway-Token"
    ),
    "access-control-expose-headers": (
        "Content-Length, Content-Range, X-Chunked-Output, X-Ipfs-Path, X-Ipfs-Roots, "
        "X-Stream-Output"
    ),
}
SAFE = {"x-content-type-options": "nosniff", "content-security-policy": "sandbox"}
PLAIN = "text/plain; charset=utf-8"


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with running_gateway(tmp_path_factory.mktemp("repository")) as node:
        for path in DATA.glob("*.car"):
            if "missing" not in path.name:
                node.repository.import_car([path.read_bytes()])
        node.put_all(Blocks.of_car("file-3k-and-3-blocks-missing-block.car")[1].items())
        node.put_all([CONTRADICTION])
        node.add(b"hello")
        node.add(TEXT)
        yield node


def multiblock():
    root, blocks = Blocks.of_car("dir-with-files.car")
    cid = blocks.find(root, "multiblock.txt")
    return str(cid), blocks.read(cid)


def said(reply):
    """All that a reply says, without what changes by itself."""
    headers = {name.lower(): value for name, value in reply.headers.items()}
    assert len(headers) == len(reply.headers)
    return {name: headers[name] for name in headers if name not in {"date", "server"}}


def file_headers(path, *roots, etag, media_type, size):
    """The headers of a whole file, for caches and clients."""
    return {
        "content-type": media_type,
        "content-length": str(size),
        "accept-ranges": "bytes",
        "etag": etag,
        "cache-control": IMMUTABLE,
        "x-ipfs-path": path,
        "x-ipfs-roots": ",".join(map(str, roots)),
        "vary": "Accept",
        **SAFE,
        **CROSS_ORIGIN,
    }


def archived(reply):
    """The blocks of an archive, in their order, each one checked; and its roots."""
    reader = CarReader()
    blocks = list(reader.update(reply.body))
    reader.finish()
    return blocks, reader.roots


def cids(reply):
    return [str(cid) for cid, _ in archived(reply)[0]]


# Files


def test_a_file_comes_with_all_that_caches_and_clients_want_to_know(node):
    path = f"/ipfs/{DIRECTORY}/multiblock.txt"
    reply, head = node.get(path), node.head(path)
    cid, content = multiblock()
    assert (reply.status, head.status, reply.body) == (200, 200, content)
    etag = f'"{cid}"'
    expected = file_headers(path, DIRECTORY, cid, etag=etag, media_type=PLAIN, size=1026)
    assert said(reply) == said(head) == expected


def test_any_text_form_of_a_cid_and_a_token_are_taken(node):
    upper = "B" + HELLO_CID[1:].upper()
    token = f"{HELLO_CID}?pinataGatewayToken=x"
    for text in (HELLO_CID, upper, HELLO_CID.replace("b", "%62", 1), token):
        reply = node.get(f"/ipfs/{text}", x_pinata_gateway_token="y")
        assert (reply.status, reply.body, reply.headers["etag"]) == (
            *(200, b"hello"),
            f'"{HELLO_CID}"',
        )
    assert node.get(f"/ipfs/{upper}").headers["x-ipfs-path"] == f"/ipfs/{upper}"


CONTENTS = {
    "application/json": (b'{"a": [1, 2]}', b" [1]\n", b'"text"'),
    PLAIN: (
        *(b"{not json}", b"[" * 4000, b"NaN", b"", "Grüße".encode(), b"<!---->" * 500 + b"<p>"),
        b"x" * 4095 + "ü".encode(),
    ),
    "application/octet-stream": ("Grüße".encode("latin-1"), b"a\0b"),
    "image/png": (b"\x89PNG\r\n\x1a\n\0\0",),
    "image/jpeg": (b"\xff\xd8\xff\xe0\0\x10JFIF",),
    "image/gif": (b"GIF89a\1\0",),
    "image/webp": (b"RIFF\x24\0\0\0WEBPVP8 ",),
    "application/pdf": (b"%PDF-1.7\n",),
    "image/svg+xml": (b'<?xml version="1.0"?>\n<!-- x --><svg xmlns="x"/>',),
    "text/html; charset=utf-8": (b"\n<!DOCTYPE html><title>x</title>",),
}


@pytest.mark.parametrize("media_type", CONTENTS)
def test_content_without_a_name_is_looked_at(node, media_type):
    for content in CONTENTS[media_type]:
        reply = node.get(f"/ipfs/{node.add(content)}")
        assert (reply.status, reply.body) == (200, content)
        assert reply.headers["content-type"] == media_type, content[:20]


def test_a_name_says_the_type_before_the_content_does(node):
    types = {
        "page.HTML": "text/html; charset=utf-8",
        "a.json": "application/json",
        "b.webp": "image/webp",
        "c.unknown": PLAIN,
        "d.gz": "application/gzip",
    }
    root = node.add_directory(dict.fromkeys(types, b"x")).cid
    types["a.json?filename=a.css"] = "text/css; charset=utf-8"
    for name, media_type in types.items():
        assert node.head(f"/ipfs/{root}/{name}").headers["content-type"] == media_type


def test_the_type_that_a_pin_was_given_counts(node):
    cid = node.add(b"one, two", type="text/csv")
    assert node.get(f"/ipfs/{cid}").headers["content-type"] == "text/csv"
    odd = node.add(b"three", type="text/csv\r\nX-Evil: 1")
    reply = node.get(f"/ipfs/{odd}")
    assert reply.headers["content-type"] == PLAIN
    assert "x-evil" not in reply.headers


@pytest.mark.parametrize(
    ("query", "disposition"),
    [
        ("", None),
        ("?download=false", None),
        ("?download=true", f'attachment; filename="{HELLO_CID}"'),
        ("?filename=a.txt", 'inline; filename="a.txt"'),
        ("?filename=a.txt&download=true", 'attachment; filename="a.txt"'),
        (
            "?filename=test%D1%82.pdf",
            "inline; filename=\"test_.pdf\"; filename*=UTF-8''test%D1%82.pdf",
        ),
        (
            "?filename=a%22%0D%0Ab%2Fc",
            "inline; filename=\"a___b_c\"; filename*=UTF-8''a%22%0D%0Ab_c",
        ),
    ],
)
def test_the_name_to_save_under(node, query, disposition):
    assert node.get(f"/ipfs/{HELLO_CID}{query}").headers["content-disposition"] == disposition


# Ranges and conditions


RANGES = {  # by what they mean for a file of 33 bytes
    (0, 1): ("bytes=0-0", "BYTES=0-0,0-0,0-0"),
    (20, 31): ("bytes=20-30",),
    (30, 33): ("bytes=30-", "bytes=30-99999"),
    (28, 33): ("bytes=-5",),
    (0, 33): ("bytes=-99999", "Bytes=0-32"),
    # Of several, the first that is there.
    (6, 17): ("bytes=6-16,0-4", "bytes=6-16 ,\t0-4", "bytes=900-,6-16"),
    (5, 33): ("bytes=-0,100-200,5-",),
    (1, 3): ("bytes=,,1-2,", "bytes=" + ",".join(["1-2"] * 5000)),
    Refusal: (
        *("bytes=33-", "bytes=50-60", "bytes=-0", f"bytes={10**50}-"),
        *("bytes=33-,900-901", "bytes=-0,-0"),
    ),
    # One that is not valid gives the whole.
    None: (
        *("bytes=5-2", "bytes=-", "bytes=a-b", "items=0-1", "x", "", "bytes=0-" + "9" * 999),
        *("bytes=0-1,5-2", "bytes=0-1,x", "bytes=,", "bytes=0-1;2-3", "bytes=0-1,items=2-3"),
    ),
}


@pytest.mark.parametrize("expected", RANGES, ids=str)
def test_the_range_of_a_header(expected):
    for header in RANGES[expected]:
        if expected is Refusal:
            with pytest.raises(Refusal):
                asked_range(header, 33)
        else:
            assert asked_range(header, 33) == expected, header
        assert asked_range(header, 0) is None  # of nothing, the nothing


def test_a_range_is_sent_as_such_if_it_is_there(node):
    for query, media_type, etag in [
        ("", PLAIN, f'"{TEXT_CID}"'),
        ("?format=raw", RAW_TYPE, f'"{TEXT_CID}.raw"'),
    ]:
        reply = node.get(f"/ipfs/{TEXT_CID}{query}", Range="bytes=6-16 ,\t0-4")
        assert (reply.status, reply.body) == (206, TEXT[6:17])
        headers = said(reply)
        assert headers["content-range"] == "bytes 6-16/33"
        assert headers["content-length"] == "11"
        assert (headers["content-type"], headers["etag"]) == (media_type, etag)
    reply = node.get(f"/ipfs/{TEXT_CID}", Range="bytes=33-,900-901")
    assert (reply.status, reply.headers["content-range"]) == (416, "bytes */33")
    assert (reply.headers["etag"], reply.headers["cache-control"]) == (None, "no-store")
    for target, ranges, body in (
        (f"/ipfs/{TEXT_CID}", "bytes=0-1,5-2", TEXT),
        (f"/ipfs/{node.add(b'')}", "bytes=0-0,3-4", b""),
    ):
        reply = node.get(target, Range=ranges)
        assert (reply.status, reply.body, reply.headers["content-range"]) == (200, body, None)
        assert reply.headers["content-length"] == str(len(body))


def test_ranges_obey_the_conditions(node):
    target, ranges = f"/ipfs/{TEXT_CID}", "bytes=6-16,0-4"
    etag = f'"{TEXT_CID}"'
    assert node.get(target, Range=ranges, If_Range=etag).body == TEXT[6:17]
    for other in ('"x"', f"W/{etag}", "Sun, 15 Nov 2026 12:00:00 GMT"):
        reply = node.get(target, Range=ranges, If_Range=other)
        assert (reply.status, reply.body) == (200, TEXT)
    assert node.get(target, Range=ranges, If_None_Match=etag).status == 304
    head = node.head(target, Range=ranges)
    assert (head.status, head.headers["content-length"]) == (200, "33")


def test_very_many_ranges_get_one_part_or_a_refusal_from_a_node(empty_node):
    empty_node.repository.add(TEXT, UNIXFS_V1_2025)
    ranges = "bytes=" + ",".join(["0-0"] * 10_000)
    for count, statuses in ((10_000, {206, 400, 431}), (5_000, {206})):
        headers = {"Range": ranges[: 5 + 4 * count]}
        reply = urllib3.request("GET", f"{empty_node.gateway_url}/{TEXT_CID}", headers=headers)
        assert reply.status in statuses
        assert reply.data == TEXT[:1] or reply.status != 206


def test_a_range_needs_only_its_own_blocks_and_a_head_only_the_root(node):
    for ranges, status, size in (
        ("bytes=0-999", 206, 1000),
        ("bytes=2048-", 206, 1024),
        ("bytes=1000-2000", 404, None),
        ("", 404, None),
    ):
        reply = node.get(f"/ipfs/{GAPPY}", Range=ranges)
        assert reply.status == status
        assert size in {None, len(reply.body)}
    assert node.head(f"/ipfs/{GAPPY}").headers["content-length"] == "3072"


def test_what_the_client_has_is_not_sent_again(node):
    page = node.add_directory({"index.html": b"<p>"}).cid
    for path, etag in (
        (HELLO_CID, f'"{HELLO_CID}"'),
        (f"{HELLO_CID}?format=raw", f'"{HELLO_CID}.raw"'),
        (f"{HELLO_CID}?format=tar", f'W/"{HELLO_CID}.x-tar"'),
        (f"{HELLO_CID}?format=car&dag-scope=block", f'W/"{HELLO_CID}.car.block.n"'),
        (f"{node.put(RAW, b'[1]')}?format=json", f'"{CID.of_raw(b"[1]")}.json"'),
        (f"{DIRECTORY}/", f'"DirIndex-3_CID-{DIRECTORY}"'),
        (f"{page}/", f'"{page}"'),
        (f"{page}/index.html", f'"{CID.of_raw(b"<p>")}"'),
    ):
        strong = etag.removeprefix("W/")
        for form in (strong, f"W/{strong}", f'"x", {strong}', f'W/"x",W/{strong} , "y"', "*"):
            for method in ("GET", "HEAD"):
                reply = node.get(f"/ipfs/{path}", method, If_None_Match=form)
                assert (reply.status, reply.body, reply.headers["etag"]) == (304, b"", etag)
        for other in ('"x"', HELLO_CID, '"x*"', f'"{CID.of_raw(b"other")}"'):
            assert node.head(f"/ipfs/{path}", If_None_Match=other).status == 200


# Directories


@pytest.mark.parametrize("query", ["", "?a=b&pinataGatewayToken=x%20y"])
@pytest.mark.parametrize(
    ("path", "location"),
    [
        (f"{NESTED}/subdir", f"{NESTED}/subdir/"),
        (NESTED, f"{NESTED}/"),
        (f"{HELLO_CID}/", HELLO_CID),
    ],
)
def test_a_directory_is_at_an_address_with_a_slash_and_a_file_without(node, path, location, query):
    reply = node.get(f"/ipfs/{path}{query}")
    assert (reply.status, reply.headers["location"]) == (301, f"/ipfs/{location}{query}")


def test_an_index_that_is_a_directory_is_only_listed(node):
    inner = node.add_directory({"x": b""})
    root = node.add_directory({"index.html": inner})
    assert f'href="/ipfs/{root.cid}/index.html"' in node.get(f"/ipfs/{root.cid}/").body.decode()


ODD_NAMES = [
    b"<script>alert(1)",
    b"a\"b'&c",
    b"javascript:alert(1)",
    b"100%25?#;",
    "größe 🌊".encode(),
    b"line\nbreak",
    b"\xff\xfe not utf-8",
]


def test_every_link_of_a_listing_leads_to_its_file(node):
    root = node.add_directory({name: name for name in ODD_NAMES})
    page = node.get(f"/ipfs/{root.cid}/").body.decode()
    assert "<script" not in page
    links = [html.unescape(link) for link in re.findall(r'<td><a href="([^"]*)"', page)]
    assert sorted(node.get(link).body for link in links) == sorted(ODD_NAMES)


def test_a_sharded_directory_is_walked_and_listed(node):
    assert node.get(f"/ipfs/{SHARDED}/1.txt").status == 200
    page = node.get(f"/ipfs/{SHARDED}/").body.decode()
    _, blocks = Blocks.of_car("single-layer-hamt-with-multi-block-files.car")
    names = [entry.name for entry in blocks.list(CID.parse(SHARDED))]
    assert re.findall(rf'href="/ipfs/{SHARDED}/([^"]*)"', page) == sorted(names)


def test_a_listing_has_an_end(node, monkeypatch):
    monkeypatch.setattr("holdfast.node.gateway.directories.LISTED", 10)
    root = node.add_directory({f"{at:02}": b"" for at in range(11)})
    page = node.get(f"/ipfs/{root.cid}/").body
    assert page.count(b"<tr>") == 10
    assert b"there are more" in page


# Raw blocks


@pytest.mark.parametrize(("query", "accept"), [("?format=raw", "*/*"), ("", RAW_TYPE)])
def test_a_raw_block_is_served_as_it_is(node, query, accept):
    cid, _ = multiblock()
    block = node.repository.block(CID.parse(cid))
    reply = node.get(f"/ipfs/{cid}{query}", Accept=accept)
    assert (reply.status, reply.body) == (200, block)
    path, etag, size = f"/ipfs/{cid}", f'"{cid}.raw"', len(block)
    expected = file_headers(path, cid, etag=etag, media_type=RAW_TYPE, size=size)
    expected["content-disposition"] = f'attachment; filename="{cid}.bin"'
    if not query:
        expected["content-location"] = f"/ipfs/{cid}?format=raw"
    assert said(reply) == said(node.head(f"/ipfs/{cid}{query}", Accept=accept)) == expected
    part = node.get(f"/ipfs/{DIRECTORY}/multiblock.txt?format=raw", Range="bytes=2-9")
    assert (part.status, part.body) == (206, block[2:10])


def test_a_raw_block_of_any_codec_is_served(node):
    cid = node.put(0x78, b"\xa0")
    assert node.get(f"/ipfs/{cid}?format=raw").body == b"\xa0"
    assert cids(node.get(f"/ipfs/{cid}?format=car")) == [str(cid)]
    reply = node.get(f"/ipfs/{cid}")
    assert reply.status == 406
    assert b"?format=raw" in reply.body


@pytest.mark.parametrize("query", ["?format=raw", ""])
def test_the_probe_is_answered(node, query):
    for method in ("GET", "HEAD"):
        reply = node.get(f"/ipfs/bafkqaaa{query}", method)
        assert (reply.status, reply.body, reply.headers["content-length"]) == (200, b"", "0")
    archive = node.get("/ipfs/bafkqaaa?format=car")
    assert archived(archive) == ([], [CID.parse("bafkqaaa")])


# Archives


def test_an_archive_comes_with_all_that_clients_want_to_know(node):
    target = f"/ipfs/{DIRECTORY}?format=car"
    reply, head = node.get(target), node.head(target)
    assert (reply.status, archived(reply)[1]) == (200, [CID.parse(DIRECTORY)])
    media_type, etag = f"{CAR}; version=1; order=dfs; dups=n", f'W/"{DIRECTORY}.car.all.n"'
    path = f"/ipfs/{DIRECTORY}"
    expected = file_headers(path, DIRECTORY, etag=etag, media_type=media_type, size=0) | {
        "accept-ranges": "none",
        "content-disposition": f'attachment; filename="{DIRECTORY}.car"',
        "transfer-encoding": "chunked",
    }
    del expected["content-length"]
    assert said(reply) == expected
    assert head.headers["content-type"] == media_type
    with_range = node.get(target, Range="bytes=0-1")
    assert (with_range.status, with_range.body) == (200, reply.body)


def test_an_archive_is_depth_first_with_or_without_what_comes_twice(node):
    _, blocks = Blocks.of_car("dir-with-files.car")
    ascii_text, hello, multi = (
        str(blocks.find(CID.parse(DIRECTORY), f"{name}.txt"))
        for name in ("ascii", "hello", "multiblock")
    )
    once = [DIRECTORY, ascii_text, hello, multi, *MULTIBLOCK]
    twice = [DIRECTORY, ascii_text, ascii_text, hello, multi, *MULTIBLOCK]
    for target, accept, expected in [
        (f"/ipfs/{DIRECTORY}?format=car", "*/*", once),
        (f"/ipfs/{DIRECTORY}?format=car&car-dups=y", "*/*", twice),
        (f"/ipfs/{DIRECTORY}", f"{CAR}; version=1; order=dfs; dups=y", twice),
        (f"/ipfs/{DIRECTORY}", f"{CAR};order=unk;dups=n", once),
        (f"/ipfs/{DIRECTORY}?format=car", f"{CAR}; dups=y", twice),
        (f"/ipfs/{DIRECTORY}?format=car&car-dups=n", f"{CAR}; dups=y", once),
    ]:
        reply = node.get(target, Accept=accept)
        assert cids(reply) == expected, (target, accept)
        dups = "y" if expected is twice else "n"
        assert reply.headers["content-type"] == f"{CAR}; version=1; order=dfs; dups={dups}"


def test_the_address_of_an_archive_that_accept_chose_is_told(node):
    reply = node.get(f"/ipfs/{NESTED}/subdir?dag-scope=entity&x=y", Accept=f"{CAR};dups=y")
    location = reply.headers["content-location"]
    assert location == (
        f"/ipfs/{NESTED}/subdir?format=car&car-version=1&car-order=dfs&car-dups=y&dag-scope=entity"
    )
    assert node.get(location).body == reply.body


@pytest.mark.parametrize("scope", ["block", "entity", "all"])
def test_an_archive_of_a_path_begins_with_the_way_there(node, scope):
    root, blocks = Blocks.of_car("subdir-with-mixed-block-files.car")
    subdir, file = blocks.find(root, "subdir"), blocks.find(root, "subdir", "multiblock.txt")
    reply = node.get(f"/ipfs/{NESTED}/subdir/multiblock.txt?format=car&dag-scope={scope}")
    parts = [] if scope == "block" else MULTIBLOCK
    assert cids(reply) == [str(root), str(subdir), str(file), *parts]
    assert archived(reply)[1] == [file]
    assert reply.headers["x-ipfs-roots"] == f"{root},{subdir},{file}"


def test_the_way_through_a_sharded_directory_is_its_shards(node):
    _, blocks = Blocks.of_car("single-layer-hamt-with-multi-block-files.car")
    reply = node.get(f"/ipfs/{SHARDED}/1.txt?format=car&dag-scope=block")
    sent, _ = archived(reply)
    assert Blocks(sent).find(CID.parse(SHARDED), "1.txt") == sent[-1][0]
    assert len(sent) < len(blocks) / 10
    roots = reply.headers["x-ipfs-roots"].split(",")
    assert roots == [SHARDED, str(sent[-1][0])]


def test_the_entity_of_a_directory_is_what_lists_it(node):
    assert cids(node.get(f"/ipfs/{DIRECTORY}?format=car&dag-scope=entity")) == [DIRECTORY]
    for query in ("entity-bytes=0:*", "dag-scope=entity&entity-bytes=5:6"):
        sent, _ = archived(node.get(f"/ipfs/{SHARDED}?format=car&{query}"))
        assert len(Blocks(sent).list(CID.parse(SHARDED))) == 1000
        assert all(cid.codec == DAG_PB for cid, _ in sent)
        with pytest.raises(Exception, match="missing"):
            Blocks(sent).read(Blocks(sent).find(CID.parse(SHARDED), "1.txt"))


@pytest.mark.parametrize(
    ("span", "ends", "parts"),
    [
        ("0:*", (0, 1026), MULTIBLOCK),
        ("512:*", (512, 1026), MULTIBLOCK[2:]),
        ("512:1023", (512, 1024), MULTIBLOCK[2:4]),
        ("512:-256", (512, 771), MULTIBLOCK[2:4]),
        ("-5:*", (1021, 1026), MULTIBLOCK[3:]),
        ("-9999:*", (0, 1026), MULTIBLOCK),
        ("-9999:-3", (0, 1024), MULTIBLOCK[:4]),
        ("0:0", (0, 1), MULTIBLOCK[:1]),
        ("1000:99999", (1000, 1026), MULTIBLOCK[3:]),
        ("255:256", (255, 257), MULTIBLOCK[:2]),
        ("20:10", (0, 0), []),
    ],
)
@pytest.mark.parametrize("dups", ["y", "n"])
def test_entity_bytes_gives_the_blocks_of_a_range_and_no_others(node, span, ends, parts, dups):
    cid, content = multiblock()
    reply = node.get(f"/ipfs/{cid}?format=car&car-dups={dups}&entity-bytes={span}")
    assert cids(reply) == [cid, *parts]
    assert reply.headers["etag"] == f'W/"{cid}.car.entity.{span}.{dups}"'
    if parts:
        sent = Blocks(archived(reply)[0])
        assert sent.read(CID.parse(cid), *ends) == content[slice(*ends)]


def test_entity_bytes_in_a_deep_file(node):
    content = b"".join(stream("deep", 100 * 256))
    profile = replace(UNIXFS_V1_2025, chunk_size=256, width=5)  # three levels
    root, blocks = Blocks.of_file(content, profile)
    node.put_all(blocks.items())
    size = len(content)
    for start, stop in [(0, 1), (255, 257), (7000, 20_000), (size - 1, size), (0, size)]:
        reply = node.get(f"/ipfs/{root}?format=car&entity-bytes={start}:{stop - 1}")
        sent = Blocks(archived(reply)[0])
        assert sent.read(root, start, stop) == content[start:stop]
        for left_out in sent:
            fewer = Blocks({cid: block for cid, block in sent.items() if cid != left_out})
            with pytest.raises(Exception, match="missing"):
                fewer.read(root, start, stop)


@pytest.mark.parametrize("span", ["1026:*", "5000:6000", "0:-2000"])
def test_entity_bytes_outside_of_the_file_is_400(node, span):
    cid, _ = multiblock()
    assert node.get(f"/ipfs/{cid}?format=car&entity-bytes={span}").status == 400


def test_an_archive_of_a_range_needs_no_other_blocks_to_be_here(node):
    first = "QmPKt7ptM2ZYSGPUc8PmPT2VBkLDK3iqpG9TBJY7PCE9rF"
    last = "QmWXY482zQdwecnfBsj78poUUuPXvyw2JAFAEMw4tzTavV"
    target = f"/ipfs/{GAPPY}?format=car&dag-scope=entity"
    assert cids(node.get(f"{target}&entity-bytes=0:1000")) == [GAPPY, first]
    assert cids(node.get(f"{target}&entity-bytes=2200:*")) == [GAPPY, last]
    assert node.get(target).status == 404


def test_blocks_that_are_in_their_links_are_left_out(node):
    inline = CID(1, RAW, IDENTITY, b"short")
    root = node.add_directory({"a": Part(inline, 5, 5), "b": b"text"})
    for dups in "yn":
        reply = node.get(f"/ipfs/{root.cid}?format=car&car-dups={dups}")
        assert cids(reply) == [str(root.cid), str(CID.of_raw(b"text"))]
    assert node.get(f"/ipfs/{root.cid}/a").body == b"short"
    assert cids(node.get(f"/ipfs/{root.cid}/a?format=car")) == [str(root.cid)]


@pytest.mark.slow
def test_a_small_dag_with_endless_paths_through_it_is_no_endless_work(node):
    cid, size = cid_of(RAW, b"x"), 1
    blocks = {cid: b"x"}
    for _ in range(24):
        block = dag_pb.encode([Link(cid, b"", size)] * 2, data.file_data(2 * size, [size] * 2))
        cid, size = cid_of(DAG_PB, block), 2 * size
        blocks[cid] = block
    node.put_all(blocks.items())
    for query in ("dag-scope=all", "dag-scope=entity", "entity-bytes=12345:-12345"):
        assert len(archived(node.get(f"/ipfs/{cid}?format=car&{query}"))[0]) == 25
    assert node.head(f"/ipfs/{cid}").headers["content-length"] == str(2**24)
    assert node.get(f"/ipfs/{cid}", Range="bytes=-3").body == b"xxx"


# Negotiation


@pytest.mark.parametrize(
    ("query", "accept", "expected"),
    [
        ("", "*/*", PLAIN),
        ("", "", PLAIN),
        ("", "text/html,application/xml;q=0.9,*/*;q=0.8", PLAIN),
        ("", RAW_TYPE.upper(), RAW_TYPE),
        ("", f"*/*, {RAW_TYPE}", RAW_TYPE),
        ("", f"text/html, {RAW_TYPE};q=0.5", PLAIN),
        ("", f"text/html;q=0.1, {RAW_TYPE};q=0.5", RAW_TYPE),
        ("", f"{RAW_TYPE};q=0, */*", PLAIN),
        ("", f"{CAR};version=2, {RAW_TYPE}", RAW_TYPE),
        ("", f'{CAR};order=foo, {CAR};order="dfs";dups=y;q=0.5', CAR_TYPE.replace("=n", "=y")),
        ("?format=raw", CAR, RAW_TYPE),
        ("?format=car", RAW_TYPE, CAR_TYPE),
        ("?format=car&car-version=1", f"{CAR};version=2", CAR_TYPE),
        ("?format=nonsense", RAW_TYPE, 406),
        ("", f"{CAR}; version=2", 406),
        ("", f"{CAR}; order=bfs", 406),
        ("", f"{RAW_TYPE};q=0", 406),
        ("?format=car&car-version=2", "*/*", 406),
        ("?format=car&car-order=bfs", "*/*", 406),
        ("?format=car&car-dups=maybe", "*/*", 406),
        ("?format=car&dag-scope=some", "*/*", 400),
        ("?format=car&entity-bytes=5", "*/*", 400),
        ("?format=car&entity-bytes=*:5", "*/*", 400),
        ("?format=car&entity-bytes=0:" + "9" * 5000, "*/*", 400),
    ],
)
def test_the_query_and_accept_choose_the_format(node, query, accept, expected):
    reply = node.get(f"/ipfs/{HELLO_CID}{query}", Accept=accept)
    if reply.status == 200:
        assert reply.headers["content-type"] == expected
    else:
        assert reply.status == expected


# Refusals

# A file whose sizes contradict each other.
BLOCK = dag_pb.encode([Link(CID.of_raw(b"hello"), b"", 5)], data.file_data(9, [9]))
CONTRADICTION = (cid_of(DAG_PB, BLOCK), BLOCK)


REFUSED = {
    400: (
        *("", "/", "//", "/nonsense", "/" + "b" * 5000, "/%FF%00", f"/{HELLO_CID}x"),
        f"/{DIRECTORY}/../{HELLO_CID}",
        *(f"/{DIRECTORY}/{path}" for path in ("%2e%2E/x", ".", "/ascii.txt", "ascii.txt//")),
        *(f"/{DIRECTORY}/{path}" for path in ("a%00b", "a%2Fb")),
    ),
    404: (
        *(f"/{DIRECTORY}/{path}" for path in ("none", "n%0Ane", "%FF", "ascii.txt/none")),
        *(f"/{DIRECTORY}/none?format={name}" for name in ("car", "raw")),
        *(f"/{cid}/none" for cid in (HELLO_CID, SHARDED, f"{SYMLINK}/bar")),
        *(f"/{CID.of_raw(b'not here')}{query}" for query in ("", "?format=raw", "?format=car")),
        f"/{CONTRADICTION[0]}",
    ),
}


@pytest.mark.parametrize("status", REFUSED)
def test_a_refusal_is_a_sentence_with_the_headers_of_every_reply(node, status):
    for path in REFUSED[status]:
        reply, head = node.get(f"/ipfs{path}"), node.head(f"/ipfs{path}")
        assert reply.status == head.status == status, path
        text = reply.body.decode()
        assert re.fullmatch(r"(Bad Request|Not Found): .+\.\n", text)
        assert len(text) < 300
        expected = SAFE | CROSS_ORIGIN | {"content-type": PLAIN, "cache-control": "no-store"}
        assert said(reply) == said(head) == expected | {"content-length": str(len(text.encode()))}


def test_only_if_cached_is_412_for_what_is_not_here(node):
    only = {"Cache_Control": "no-transform, only-if-cached"}
    for cid, status in ((CID.of_raw(b"not here"), 412), (HELLO_CID, 200)):
        for method in ("GET", "HEAD"):
            for query in ("", "?format=raw", "?format=car"):
                assert node.get(f"/ipfs/{cid}{query}", method, **only).status == status


def test_no_service_worker_may_reach_beyond_its_content(node):
    assert node.get(f"/ipfs/{HELLO_CID}", Service_Worker="script").status == 400
    target = f"/ipfs/{DIRECTORY}/ascii.txt"
    assert node.get(target, Service_Worker="script").status == 200


@pytest.mark.parametrize("block", [b"", dag_pb.encode([], b""), dag_pb.encode([], b"\x08\x09")])
def test_dag_pb_that_is_no_unixfs_is_not_deserialized(node, block):
    cid = node.put(DAG_PB, block)
    assert node.get(f"/ipfs/{cid}").status == 406
    assert node.get(f"/ipfs/{cid}/name").status == 404
    assert node.get(f"/ipfs/{cid}?format=raw").body == block
    for scope in ("block", "entity", "all"):
        assert cids(node.get(f"/ipfs/{cid}?format=car&dag-scope={scope}")) == [str(cid)]


def test_a_damaged_block_is_the_servers_fault(node):
    content = b"".join(stream("damaged", 20_000))
    cid = CID.parse(node.add(content))
    path = node.repository._files.path(cid.key)
    path.write_bytes(b"!" + content[1:])
    for query in ("", "?format=raw", "?format=car"):
        reply = node.get(f"/ipfs/{cid}{query}")
        assert (reply.status, reply.headers["content-security-policy"]) == (500, "sandbox")


# What goes wrong on the way, and how much of it is held


@pytest.mark.parametrize("query", ["", "?format=car"])
def test_a_block_that_is_missing_on_the_way_breaks_the_connection(node, query, caplog):
    content = b"".join(stream(f"broken{query}", 4 * MIB))
    root, blocks = Blocks.of_file(content, KUBO_LEGACY_CIDV1)
    lost = CID.of_raw(content[2 * MIB : 2 * MIB + (256 << 10)])
    node.put_all((cid, block) for cid, block in blocks.items() if cid != lost)
    with caplog.at_level(logging.CRITICAL + 1), pytest.raises(http.client.IncompleteRead) as caught:
        node.get(f"/ipfs/{root}{query}")
    came = caught.value.partial
    if query:
        received = dict(CarReader().update(came))
        assert received
        assert received.items() <= blocks.items()
    else:
        assert came
        assert content.startswith(came)
    assert node.get(f"/ipfs/{HELLO_CID}").status == 200
    assert node.get(f"/ipfs/{root}", Range="bytes=-100").body == content[-100:]


def test_a_symlink_in_a_directory_of_ours(node):
    root = node.add_directory({"link.html": node.add_symlink(b"../elsewhere")})
    reply = node.get(f"/ipfs/{root.cid}/link.html")
    assert (reply.body, reply.headers["content-type"]) == (b"../elsewhere", "inode/symlink")


# Index pages and listings


def test_the_etag_of_an_index_page_is_that_of_its_directory(node):
    page = b"<h1>Hello</h1>"
    cid = node.add_directory({"index.html": page}).cid
    target, etag = f"/ipfs/{cid}/", f'"{cid}"'
    reply = node.get(target)
    assert (reply.status, reply.body) == (200, page)
    html_type = "text/html; charset=utf-8"
    assert said(reply) == file_headers(target, cid, etag=etag, media_type=html_type, size=14)
    assert node.get(target, Range="bytes=4-8", If_Range=etag).body == b"Hello"


def test_a_listing_links_to_every_directory_on_its_path_and_to_each_entry(node):
    inner = node.add_directory({"file-źł.txt": TEXT, "sub dir": b"hello"})
    root = node.add_directory({"ą": node.add_directory({"<ę>": inner})})
    target = f"/ipfs/{root.cid}/%C4%85/%3C%C4%99%3E"
    page = node.get(f"{target}/").body.decode()
    heading = re.search(r"<h1>(.*)</h1>", page)[1]
    assert heading == (
        f'Index of /ipfs/<a href="/ipfs/{root.cid}">{root.cid}</a>'
        f'/<a href="/ipfs/{root.cid}/%C4%85">ą</a>/<a href="{target}">&lt;ę&gt;</a>'
    )
    by_cid = '<a class="ipfs-hash" translate="no" href="/ipfs/'
    assert re.findall(r"<tr><td>(.*)</td><td>(.*)</td><td>(.*)</td></tr>", page) == [
        (f'<a href="{target}/..">..</a>', "", ""),
        (
            f'<a href="{target}/file-%C5%BA%C5%82.txt">file-źł.txt</a>',
            # The name in the link by CID is escaped twice, as in Kubo.
            f'{by_cid}{TEXT_CID}?filename=file-%25C5%25BA%25C5%2582.txt">bafk…{TEXT_CID[-4:]}</a>',
            "33 B",
        ),
        (
            f'<a href="{target}/sub%20dir">sub dir</a>',
            f'{by_cid}{HELLO_CID}?filename=sub%2520dir">bafk…{HELLO_CID[-4:]}</a>',
            "5 B",
        ),
    ]
    for link in map(html.unescape, re.findall(r'href="([^"]*)"', page)):
        assert node.get(link.removesuffix("/..")).status in {200, 301}
    top = node.get(f"/ipfs/{root.cid}/").body.decode()
    assert f'<h1>Index of /ipfs/<a href="/ipfs/{root.cid}">{root.cid}</a></h1>' in top
    assert ">..<" not in top


def test_the_etag_of_a_listing_is_strong(node):
    target = f"/ipfs/{node.add_directory({'a': b''}).cid}/"
    reply, head = node.get(target), node.head(target)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "immutable" not in reply.headers["cache-control"]
    assert head.headers["content-length"] == str(len(reply.body))
    assert not re.search(r"<script|src=|https?:|@import|url\(", reply.body.decode())
    part = node.get(target, Range="bytes=0-14,20-30", If_Range=reply.headers["etag"])
    assert (part.status, part.body) == (206, reply.body[:15])


def test_a_long_path_does_not_make_a_large_page_of_a_small_directory(node, monkeypatch):
    monkeypatch.setattr("holdfast.node.gateway.directories.MAX_BREADCRUMBS", 5)
    part = node.add_directory({f"{at:04}": b"" for at in range(1000)})
    names = [f"{at:02}" + "n" * 250 for at in range(60)]
    for name in reversed(names):
        part = node.add_directory({name: part})
    reply = node.get("/".join(["/ipfs", str(part.cid), *names, ""]))
    page = reply.body.decode()
    assert reply.status == 200
    assert len(page) < 5 << 20  # the 1000 rows, each with the path in it, would be 15 MB
    assert re.findall(r"Only 2\d\d entries are shown; there are more", page)
    crumbs = re.findall(r'<a href="([^"]*)">', re.search(r"<h1>(.*)</h1>", page)[1])
    assert crumbs == ["/".join(["/ipfs", str(part.cid), *names[:at]]) for at in range(6)]


def test_a_listing_is_made_once_for_all_who_ask_for_it_and_do_not_read(node, monkeypatch):
    made = []
    make_page = directories._page
    monkeypatch.setattr(
        directories, "_page", lambda *arguments: (made.append(arguments), make_page(*arguments))[1]
    )
    target = f"/ipfs/{node.add_directory({f'{at:04}': b'' for at in range(1000)}).cid}/"
    with ExitStack() as stack:
        address = ("127.0.0.1", node.port)
        peers = [stack.enter_context(socket.create_connection(address)) for _ in range(30)]
        for peer in peers:
            peer.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert len({node.get(target).body for _ in range(3)}) == 1
        assert node.get(f"/ipfs/{TEXT_CID}").body == TEXT
        assert [peer.recv(15) for peer in peers] == [b"HTTP/1.1 200 OK"] * 30
    assert len(made) == 1


# Other origins


def test_every_reply_tells_browsers_what_other_origins_may_do(node):
    directory = node.add_directory({"a": b""})
    for method, target, status, headers in [
        ("GET", f"/ipfs/{TEXT_CID}", 200, {}),
        ("HEAD", f"/ipfs/{TEXT_CID}", 200, {}),
        ("GET", f"/ipfs/{TEXT_CID}", 206, {"Range": "bytes=0-0,1-1"}),
        ("GET", f"/ipfs/{TEXT_CID}", 304, {"If_None_Match": "*"}),
        ("GET", f"/ipfs/{TEXT_CID}", 416, {"Range": "bytes=99-"}),
        ("GET", f"/ipfs/{TEXT_CID}?format=car", 200, {}),
        ("GET", f"/ipfs/{TEXT_CID}?format=tar", 200, {}),
        ("GET", f"/ipfs/{TEXT_CID}?format=dag-json", 406, {}),
        ("GET", f"/ipfs/{directory.cid}", 301, {}),
        ("GET", f"/ipfs/{directory.cid}/none", 404, {}),
        ("POST", f"/ipfs/{TEXT_CID}", 405, {}),
        ("OPTIONS", f"/ipfs/{TEXT_CID}", 204, {}),
    ]:
        reply = node.get(target, method, **headers)
        assert reply.status == status
        assert (CROSS_ORIGIN | SAFE).items() <= said(reply).items(), target
        assert reply.headers["allow"] == ("GET, HEAD, OPTIONS" if method == "POST" else None)
        aged = reply.headers["access-control-max-age"]
        assert aged == ("86400" if method == "OPTIONS" else None)


# Files that hold JSON


def test_json_in_a_raw_block_is_served_as_json_by_format(node):
    document = b'{"test": "t.json"}\n'
    cid = str(node.put(RAW, document))
    target, etag, json_type = f"/ipfs/{cid}?format=json", f'"{cid}.json"', "application/json"
    reply = node.get(target, Accept=RAW_TYPE)
    assert (reply.status, reply.body) == (200, document)
    expected = file_headers(f"/ipfs/{cid}", cid, etag=etag, media_type=json_type, size=19)
    assert said(reply) == said(node.head(target)) == expected
    assert node.get(target, Range="bytes=1-6,0-0").body == b'"test"'
    attached = node.get(f"{target}&download=true").headers["content-disposition"]
    assert attached == f'attachment; filename="{cid}.json"'


def test_json_in_several_blocks_and_under_a_name_is_served_as_json_by_format(node):
    document = b"[" + b"1," * 200_000 + b"1]"
    cid = node.add(document, KUBO_LEGACY_CIDV1)
    assert node.head(f"/ipfs/{cid}").headers["content-type"] == "application/json"
    assert node.get(f"/ipfs/{cid}?format=json").body == document
    root = node.add_directory({"notes.txt": b"[1]", "page": b"<p>"})
    assert node.get(f"/ipfs/{root.cid}/notes.txt?format=json").body == b"[1]"
    assert node.get(f"/ipfs/{root.cid}/page?format=json").status == 406


def test_json_that_is_too_large_to_look_at_is_known_by_its_name_or_not_at_all(node):
    document = b"[" + b"1," * 600_000 + b"1]"
    cid = CID.parse(node.add(document))
    block = dag_pb.encode([Link(cid, b"large.json", 1), Link(cid, b"large", 1)], b"\x08\x01")
    root = node.put(DAG_PB, block)
    named = node.get(f"/ipfs/{root}/large.json?format=json")
    assert (named.status, named.body) == (200, document)
    assert named.headers["content-type"] == "application/json"
    assert node.get(f"/ipfs/{root}/large?format=json").status == 406


def test_what_is_not_json_is_406_with_one_sentence(node):
    link = node.add_symlink(b"elsewhere")
    root = node.add_directory({"link": link, "text.json": b"no json", "empty": b""})
    targets = [f"/ipfs/{root.cid}", f"/ipfs/{root.cid}/", f"/ipfs/{TEXT_CID}"]
    targets += [f"/ipfs/{root.cid}/{name}" for name in ("link", "text.json", "empty")]
    for target in targets:
        reply = node.get(f"{target}?format=json")
        assert reply.status == 406
        assert re.fullmatch(r"Not Acceptable: [^.]+ JSON[^.]*\.\n", reply.body.decode()), reply
