"""Number 19: what the conformance suite of the IPFS project asks of a gateway."""

import html
import re
import socket

import pytest
import urllib3

from holdfast.content import dag_pb
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.dag_pb import Link
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V1_2025
from holdfast.content.unixfs.directories import build_symlink
from holdfast.node.gateway import directories
from holdfast.repository import Repository
from holdfast.testing import running_node
from tests.gateway_node import Node
from tests.support import HELLO_CID

TEXT = b"the quick brown fox jumps over it"
TEXT_CID = str(CID.of_raw(TEXT))
IMMUTABLE = "public, max-age=29030400, immutable"
RAW_TYPE = "application/vnd.ipld.raw"
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


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Repository(tmp_path_factory.mktemp("repository")) as repository:
        node = Node(repository)
        node.add(b"hello")
        node.add(TEXT)
        try:
            yield node
        finally:
            node.close()


def said(reply):
    """All that a reply says, without what changes by itself."""
    headers = {name.lower(): value for name, value in reply.headers.items()}
    assert len(headers) == len(reply.headers)
    return {name: headers[name] for name in headers if name not in {"date", "server"}}


# Several ranges


@pytest.mark.parametrize(
    ("ranges", "start", "stop"),
    [
        ("bytes=6-16,0-4", 6, 17),
        ("bytes=6-16 ,\t0-4", 6, 17),
        ("bytes=900-,-3", 30, 33),
        ("bytes=-0,100-200,5-", 5, 33),
        ("bytes=,,1-2,", 1, 3),
        ("BYTES=0-0,0-0,0-0", 0, 1),
        ("bytes=" + ",".join(["1-2"] * 5000), 1, 3),
    ],
)
def test_of_several_ranges_the_first_that_is_there_is_sent(node, ranges, start, stop):
    for query, media_type, etag in [
        ("", "text/plain; charset=utf-8", f'"{TEXT_CID}"'),
        ("?format=raw", RAW_TYPE, f'"{TEXT_CID}.raw"'),
    ]:
        reply = node.get(f"/ipfs/{TEXT_CID}{query}", Range=ranges)
        assert (reply.status, reply.body) == (206, TEXT[start:stop])
        headers = said(reply)
        assert headers["content-range"] == f"bytes {start}-{stop - 1}/{len(TEXT)}"
        assert headers["content-length"] == str(stop - start)
        assert (headers["content-type"], headers["etag"]) == (media_type, etag)


@pytest.mark.parametrize("ranges", ["bytes=33-,900-901", "bytes=-0,-0", "bytes=33-33"])
def test_ranges_none_of_which_is_there_are_416(node, ranges):
    reply = node.get(f"/ipfs/{TEXT_CID}", Range=ranges)
    assert (reply.status, reply.headers["content-range"]) == (416, "bytes */33")
    assert (reply.headers["etag"], reply.headers["cache-control"]) == (None, "no-store")


@pytest.mark.parametrize(
    "ranges", ["bytes=0-1,5-2", "bytes=0-1,x", "bytes=,", "bytes=0-1;2-3", "bytes=0-1,items=2-3"]
)
def test_several_ranges_of_which_one_is_not_valid_give_the_whole(node, ranges):
    reply = node.get(f"/ipfs/{TEXT_CID}", Range=ranges)
    assert (reply.status, reply.body) == (200, TEXT)
    assert reply.headers["content-range"] is None


def test_several_ranges_obey_the_conditions(node):
    target, ranges = f"/ipfs/{TEXT_CID}", "bytes=6-16,0-4"
    etag = f'"{TEXT_CID}"'
    assert node.get(target, Range=ranges, If_Range=etag).body == TEXT[6:17]
    for other in ('"x"', f"W/{etag}", "Sun, 15 Nov 2026 12:00:00 GMT"):
        reply = node.get(target, Range=ranges, If_Range=other)
        assert (reply.status, reply.body) == (200, TEXT)
    assert node.get(target, Range=ranges, If_None_Match=etag).status == 304
    head = node.head(target, Range=ranges)
    assert (head.status, head.headers["content-length"]) == (200, "33")


def test_a_range_of_nothing_gives_the_nothing(node):
    empty = node.add(b"")
    for ranges in ("bytes=0-", "bytes=-5", "bytes=0-0,3-4"):
        reply = node.get(f"/ipfs/{empty}", Range=ranges)
        assert (reply.status, reply.body, reply.headers["content-length"]) == (200, b"", "0")


def test_ten_thousand_ranges_get_one_part_or_a_refusal_from_a_node(node):
    with running_node() as running:
        running.repository.add(TEXT, UNIXFS_V1_2025)
        ranges = "bytes=" + ",".join(["0-0"] * 10_000)
        for count, statuses in ((10_000, {206, 400, 431}), (5_000, {206})):
            headers = {"Range": ranges[: 5 + 4 * count]}
            with urllib3.PoolManager() as pool:
                url = f"{running.gateway_url}/{TEXT_CID}"
                reply = pool.request("GET", url, headers=headers)
            assert reply.status in statuses
            assert reply.data == TEXT[:1] or reply.status != 206


# Directories with an index page


def test_the_etag_of_an_index_page_is_that_of_its_directory(node):
    page = b"<h1>Hello</h1>"
    part = node.add_directory({"index.html": page})
    target, etag = f"/ipfs/{part.cid}/", f'"{part.cid}"'
    reply = node.get(target)
    assert (reply.status, reply.body) == (200, page)
    assert said(reply) == {
        "content-type": "text/html; charset=utf-8",
        "content-length": "14",
        "accept-ranges": "bytes",
        "etag": etag,
        "cache-control": IMMUTABLE,
        "x-ipfs-path": target,
        "x-ipfs-roots": str(part.cid),
        "vary": "Accept",
        **SAFE,
        **CROSS_ORIGIN,
    }
    for known in (etag, f"W/{etag}", f'"x", {etag}', "*"):
        for method in ("GET", "HEAD"):
            assert node.get(target, method, If_None_Match=known).status == 304
    assert node.get(target, If_None_Match=f'"{CID.of_raw(page)}"').status == 200
    assert node.get(target, Range="bytes=4-8", If_Range=etag).body == b"Hello"
    assert node.get(f"{target}index.html").headers["etag"] == f'"{CID.of_raw(page)}"'


# Listings


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


def test_the_listing_of_a_root_has_no_way_up(node):
    root = node.add_directory({"a": b""})
    page = node.get(f"/ipfs/{root.cid}/").body.decode()
    assert f'<h1>Index of /ipfs/<a href="/ipfs/{root.cid}">{root.cid}</a></h1>' in page
    assert ">..<" not in page


def test_the_etag_of_a_listing_is_strong_and_known_again_in_each_form(node):
    root = node.add_directory({"a": b""})
    target = f"/ipfs/{root.cid}/"
    reply = node.get(target)
    etag = reply.headers["etag"]
    assert etag == f'"DirIndex-3_CID-{root.cid}"'
    for known in (etag, f"W/{etag}", f'"x",{etag}'):
        assert node.get(target, If_None_Match=known).status == 304
        assert node.head(target, If_None_Match=known).status == 304
    part = node.get(target, Range="bytes=0-14,20-30", If_Range=etag)
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

    def page(repository, found):
        made.append(found.cid)
        return directories_page(repository, found)

    directories_page = directories._page
    monkeypatch.setattr(directories, "_page", page)
    root = node.add_directory({f"{at:04}": b"" for at in range(1000)})
    asked = f"GET /ipfs/{root.cid}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    peers = [socket.create_connection(("127.0.0.1", node.port)) for _ in range(30)]
    try:
        for peer in peers:
            peer.sendall(asked)
        bodies = {node.get(f"/ipfs/{root.cid}/").body for _ in range(3)}
        assert node.get(f"/ipfs/{TEXT_CID}").body == TEXT
        assert [peer.recv(15) for peer in peers] == [b"HTTP/1.1 200 OK"] * 30
    finally:
        for peer in peers:
            peer.close()
    assert made == [root.cid]
    assert len(bodies) == 1


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
        aged = reply.headers["access-control-max-age"]
        assert aged == ("86400" if method == "OPTIONS" else None)


# JSON, and the codecs that are not here


def test_json_in_a_raw_block_is_served_as_json_by_format(node):
    document = b'{"test": "t.json"}\n'
    cid = str(node.put(RAW, document))
    reply = node.get(f"/ipfs/{cid}?format=json", Accept=RAW_TYPE)
    assert (reply.status, reply.body) == (200, document)
    assert said(reply) == {
        "content-type": "application/json",
        "content-length": "19",
        "accept-ranges": "bytes",
        "etag": f'"{cid}.json"',
        "cache-control": IMMUTABLE,
        "x-ipfs-path": f"/ipfs/{cid}",
        "x-ipfs-roots": cid,
        "vary": "Accept",
        **SAFE,
        **CROSS_ORIGIN,
    }
    target = f"/ipfs/{cid}?format=json"
    assert said(node.head(target)) == said(reply)
    assert node.get(target, If_None_Match=f'W/"{cid}.json"').status == 304
    assert node.get(target, If_None_Match=f'"{cid}"').status == 200
    assert node.get(target, Range="bytes=1-6,0-0").body == b'"test"'
    attached = node.get(f"{target}&download=true").headers["content-disposition"]
    assert attached == f'attachment; filename="{cid}.json"'


def test_json_in_several_blocks_and_under_a_name_is_served_as_json_by_format(node):
    document = b"[" + b"1," * 200_000 + b"1]"
    assert node.get(f"/ipfs/{node.add(document, KUBO_LEGACY_CIDV1)}?format=json").body == document
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
    with node.repository.adding() as adding:
        link = build_symlink(b"elsewhere", UNIXFS_V1_2025, adding.put)
        adding.flush()
    root = node.add_directory({"link": link, "text.json": b"no json", "empty": b""})
    targets = [f"/ipfs/{root.cid}", f"/ipfs/{root.cid}/", f"/ipfs/{TEXT_CID}"]
    targets += [f"/ipfs/{root.cid}/{name}" for name in ("link", "text.json", "empty")]
    targets += [f"/ipfs/{node.put(codec, b'{}')}" for codec in (0x0200, 0x0129, 0x51, 0x71)]
    for target in targets:
        reply = node.get(f"{target}?format=json")
        assert reply.status == 406
        assert re.fullmatch(r"Not Acceptable: [^.]+ JSON[^.]*\.\n", reply.body.decode()), reply


@pytest.mark.parametrize("name", ["dag-json", "dag-cbor", "cbor"])
def test_the_codecs_that_are_not_here_are_406_with_one_sentence(node, name):
    codecs = {"dag-json": 0x0129, "dag-cbor": 0x71, "cbor": 0x51}
    media_type = "application/cbor" if name == "cbor" else f"application/vnd.ipld.{name}"
    for cid in (HELLO_CID, node.put(codecs[name], b"{}")):
        by_query = node.get(f"/ipfs/{cid}?format={name}", Accept="*/*")
        assert (by_query.status, by_query.body.decode()) == (
            406,
            f"Not Acceptable: format '{name}' is not served; use raw, car, tar, json.\n",
        )
        by_accept = node.get(f"/ipfs/{cid}", Accept=media_type)
        assert by_accept.status == 406
        assert re.fullmatch(r"Not Acceptable: [^.]+\.\n", by_accept.body.decode())
    assert node.get(f"/ipfs/{HELLO_CID}", Accept=f"{media_type}, */*;q=0.1").body == b"hello"
