"""What signed addresses of the node open: what was signed, however a request spells its target."""

import html
import re
import socket
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from holdfast.content import dag_cbor
from holdfast.content.car import write_car
from holdfast.content.cid import CID, DAG_CBOR
from holdfast.node.application import create_app
from holdfast.node.gateway.addresses import Address
from holdfast.node.settings import NodeSettings, NodeToken
from holdfast.repository import Repository
from holdfast.testing import running_node
from tests.disks import in_memory
from tests.gateway_node import cid_of
from tests.v3_caller import V3Caller

# {a} is the path that was signed, after /files/, and {q} its signature; {b} is the path of another
# private file. The first targets are those of the file itself.
PLAIN = ["/files/{a}?{q}", "//files/{a}?{q}", "http://host/files/{a}?{q}"]
SPELLINGS = [
    *PLAIN,
    # the other path after the signed one
    *("/files/{a}/ipfs/{b}?{q}", "/files/{a}/files/{b}?{q}", "/files/{a}/{b}?{q}"),
    *("/files/{a}//{b}?{q}", "/files/ipfs/{b}/files/{a}?{q}", "/files/{b}/ipfs/{a}?{q}"),
    *("/files/{b}/files/{a}?{q}", "/ipfs/{b}/files/{a}?{q}", "/ipfs/{a}/files/{b}?{q}"),
    # encoded slashes
    *("/files%2F{a}/ipfs/{b}?{q}", "/files%2f{a}/ipfs/{b}?{q}", "/files%252F{a}/ipfs/{b}?{q}"),
    *("/files%2F{a}/files/{b}?{q}", "/files%2F{a}%2Fipfs%2F{b}?{q}", "/files/{a}%2Fipfs%2F{b}?{q}"),
    *("/files/{a}%2F..%2F{b}?{q}", "/files/{b}%2F..%2F{a}?{q}", "%2Ffiles/{a}/ipfs/{b}?{q}"),
    *("/%2Ffiles/{a}/ipfs/{b}?{q}", "/x%2F..%2Ffiles/{b}?{q}", "/files/{a}%c0%af{b}?{q}"),
    *("/files/{a}%ef%bc%8f{b}?{q}", "/files/{a}%u002f{b}?{q}"),
    # the absolute form
    *("HTTP://host:80/files/{a}?{q}", "https://user@host/files/{a}?{q}"),
    *("http://[::1]:5080/files/{a}?{q}", "http://host//files/{a}?{q}"),
    *("http://host/files%2F{a}/ipfs/{b}?{q}", "http://host%2Ffiles%2F{a}/ipfs/{b}?{q}"),
    *("http://host/files/{a}/../{b}?{q}", "http://files/{a}/ipfs/{b}?{q}"),
    *("http://host/files/{a}#/files/{b}?{q}", "http://host#/files/{b}?{q}"),
    *("http:///files/{b}?{q}", "http:/files/{b}?{q}", "http:files/{b}?{q}", "ipfs://{b}?{q}"),
    "files/{b}?{q}",
    # dots
    *("/files/{a}/../{b}?{q}", "/files/{a}/%2e%2e/{b}?{q}", "/files/{a}/.%2E/{b}?{q}"),
    *("/files/{a}/%252e%252e/{b}?{q}", "/files/{a}/..;/{b}?{q}", "/files/{b}/../{a}?{q}"),
    *("/files/./{a}?{q}", "/files/{a}/.?{q}", "/files/../ipfs/{b}?{q}", "/ipfs/../files/{b}?{q}"),
    "/v3/files/../../files/{b}?{q}",
    # slashes, backslashes and case
    *("/files//{a}?{q}", "/files/{a}/?{q}", "/files/{a}//?{q}", "/files\\{a}?{q}"),
    *("/files/{a}\\..\\{b}?{q}", "/files/{a}%5C..%5C{b}?{q}", "/FILES/{a}?{q}", "/%66iles/{a}?{q}"),
    "/%66iles/{a}/ipfs/{b}?{q}",
    # characters that some parsers end a path with
    *("/files/{a}#/ipfs/{b}?{q}", "/files/{a}%23{b}?{q}", "/files/{a};/ipfs/{b}?{q}"),
    *("/files;{a}/{b}?{q}", "/files/{a}%00?{q}", "/files/{a}%00/ipfs/{b}?{q}"),
    *("/files/{a}\0/ipfs/{b}?{q}", "/files/{a}%0A?{q}", "/files/{a}%0D%0A/ipfs/{b}?{q}"),
    *("/files/{a}%20?{q}", "/files/{a}+?{q}", "/files/{a}\t/ipfs/{b}?{q}"),
    *("/files/{a}\xff/ipfs/{b}?{q}", "/files/{a}%ff?{q}"),
    # the query
    *("/files/{b}?{q}", "/files/{b}?/files/{a}?{q}", "/files/{b}%3F/files/{a}?{q}"),
    *("/files/{b}?x=/files/{a}&{q}", "/files/{b}?{q}#/files/{a}", "/files/{a}?{q}?/files/{b}"),
    *("/files/{a}?{q}&cid={b}&path=/ipfs/{b}", "/files/{a}?{q}&{q}"),
    *("/files/{a}?{q}&X-Signature=0", "/files/{a}?X-Signature=0&{q}", "/files/{a}?{q}&X-Date=1"),
    *("/files/{a}?{q}&X-Expires=9999999999", "/files/{a}?{q}&X-Method=PUT"),
    *("/files/{b}?{q}&X-Depth=0", "/files/{b}?{q}&X-Depth=1"),
    *("/files/{a}/../{b}?{q}&X-Depth=99999", "/files/{b}?{q}&X-Depth=-1"),
    *("/files/{b}?{q}&X-Depth=%D9%A1", "/ipfs/{a}?{q}", "/ipfs/{b}?{q}"),
]
FORMATS = ["", "raw", "car", "tar"]
REFUSED = {400, 403, 404}


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def send(address, target, method="GET", *, host="host", headers=(), body=b""):
    """Send a request to the letter, on a connection of its own."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    with socket.create_connection(address, timeout=30) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        with connection.makefile("rb") as file:
            data = file.read()
    head, _, content = data.partition(b"\r\n\r\n")
    status, *fields = head.decode("latin-1").split("\r\n")
    pairs = (field.split(": ", 1) for field in fields)
    return Reply(int(status.split()[1]), {name.lower(): value for name, value in pairs}, content)


def follow(address, target, **more):
    """Send a request, and follow redirects as a browser does."""
    for _ in range(3):
        reply = send(address, target, **more)
        if reply.status not in {301, 307}:
            return reply
        location = reply.headers["location"]
        target = location.removeprefix("http://host")
        assert target.startswith(("/files/", "/v3/", "/psa/")), location
    raise AssertionError(location)


def sign_upload(call):
    """Return an address for uploads to the private network."""
    body = {"date": int(time.time()), "expires": 60, "network": "private", "filename": "granted"}
    return call.data("POST", "/v3/files/sign", json=body)


def add_folder(call, address, files):
    """Upload a private folder to a signed address; return its CID."""
    fields = [("file", (f"top/{path}", content)) for path, content in files.items()]
    response = call("POST", address, token="", fields=fields)
    assert response.status == 200, response.data
    return response.json()["data"]["cid"]


class PrivateNode:
    """A node with private files and folders, one of them deleted. Each content is `secret …`."""

    def __init__(self, node):
        self.node = node
        self.call = call = V3Caller(node)
        host, _, port = urlsplit(node.api_url).netloc.partition(":")
        self.address = host, int(port)
        files = {name: call.stored(f"secret {name}.".encode(), network="private") for name in "abc"}
        self.a, self.b, self.deleted = (file["cid"] for file in files.values())
        self.id = files["a"]["id"]
        call.data("DELETE", f"/v3/files/private/{files['c']['id']}")
        names = {"sub/deep.txt": "deep", "sub/more/x.txt": "more", "other.txt": "other"}
        contents = {path: f"secret {name}.".encode() for path, name in names.items()}
        self.folder = add_folder(call, sign_upload(call), contents)
        self.site = add_folder(call, sign_upload(call), {"index.html": b"secret site."})
        file, folder, sub = map(self.query, (self.a, self.folder, f"{self.folder}/sub"))
        deep = f"{self.folder}/sub/deep.txt"
        # The signed path, its signature, its content, and another path that it must not open.
        self.cases = [
            (self.a, file, b"secret a.", self.b),
            (self.a, file, b"secret a.", self.deleted),
            (self.a, file, b"secret a.", deep),
            (deep, folder, b"secret deep.", self.b),
            (deep, folder, b"secret deep.", f"{self.site}/index.html"),
            (deep, sub, b"secret deep.", f"{self.folder}/other.txt"),
        ]

    def query(self, path, **grant):
        """Sign a link to a path; return its query."""
        return urlsplit(self.call.link(path, **grant)).query

    def page(self, target):
        reply = follow(self.address, target)
        assert reply.status == 200, (target, reply)
        return reply


@pytest.fixture(scope="module")
def private():
    with in_memory() as folder, running_node(folder) as node:
        yield PrivateNode(node)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_link_opens_what_was_signed_however_the_target_is_spelled(private, spelling):
    for number, (a, query, content, b) in enumerate(private.cases):
        for form in FORMATS[: 1 if number else None]:
            signature = f"format={form}&{query}" if form else query
            target = spelling.format(a=a, b=b, q=signature)
            reply = follow(private.address, target)
            secrets = set(re.findall(rb"secret [a-z]+\.", reply.body))
            assert (reply.status, secrets) == (200, {content}) or (
                reply.status in REFUSED and not secrets
            ), (target, reply)
            assert "x-signature" not in reply.headers.get("location", "").lower()
            if spelling in PLAIN:
                assert reply.status == 200, (target, reply)


@pytest.mark.parametrize("host", ["x/files/{a}?", "x/files/{a}#", "x/ipfs/{b}", "{a}", ""])
def test_no_host_makes_a_link_open_another_file(private, host):
    for a, query, _, b in private.cases:
        reply = send(private.address, f"/files/{b}?{query}", host=host.format(a=a, b=b))
        assert reply.status in REFUSED


@pytest.mark.parametrize("raw", [b"/files/%s", b"/files/x/ipfs/%s", b"/%s", None])
def test_a_raw_path_counts_only_if_it_spells_the_path_of_the_route(raw):
    """A middleware may have changed the path, by which the route was chosen, and not the other."""
    one, other = str(CID.of_raw(b"1")), str(CID.of_raw(b"2"))
    scope = {"path": f"/files/{one}", "raw_path": raw and raw % other.encode()}
    assert str(Address.of(scope, "/files").cid) == one


# Other spellings of the path of a call; the last ones are other paths.
TEMPLATES = [
    *("{}", "/{}", "http://host{}", "http://host/{}", "/ipfs/..{}", "/ipfs%2F..{}", "/psa/..{}"),
    *("/page/..{}", "/v3/files/public/..{}", "/v3/files/public%2F..{}"),
    *("{}/", "{}%00", "{}%0A", "{};x", "{}#x", "{}?x=/files/public", "{}/..", "{}/../../private"),
    *("{}?network=public&network=private", "{}%2F..%2F..%2Fprivate", "{}%20"),
    "{}/%2e%2e/%2e%2e/private",
]
SLASHES = ["%2F", "//", "/./", "/%2e/", "/x/../", "\\"]
PATHS = [
    *(template.format for template in TEMPLATES),
    *(lambda path, slash=slash: path.replace("/", slash) for slash in SLASHES),
    lambda path: path.replace("/", "%2f").replace("%2f", "/", 1),
    lambda path: path.replace("/", "%252F").replace("%252F", "/", 1),
    lambda path: path[::-1].replace("/", "F2%", 1)[::-1],
    lambda path: f"http://host{path.replace('/', '%2F')}",
    str.upper,
    lambda path: path.replace("f", "%66"),
]
FORM = (
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="u.txt"\r\n\r\nuploaded\r\n'
    b"--x--\r\n"
)


@pytest.mark.parametrize("spell", PATHS, ids=range(len(PATHS)))
def test_calls_about_private_files_need_the_token_however_they_are_spelled(private, spell):
    token = f"Authorization: Bearer {private.node.token}"
    calls = [
        ("/v3/files/private", b'"files"'),
        (f"/v3/files/private/{private.id}", b'"id"'),
    ]
    for path, word in calls:
        for method in ("GET", "DELETE", "PUT"):
            reply = follow(private.address, spell(path), method=method)
            assert reply.status in {*REFUSED, 401, 405}, (path, reply)
            assert private.a.encode() not in reply.body
        reply = follow(private.address, spell(path), headers=[token])
        is_it = reply.status == 200 and word in reply.body and private.a.encode() in reply.body
        assert is_it or reply.status in {*REFUSED, 405}, (path, reply)


@pytest.mark.parametrize("spell", PATHS, ids=range(len(PATHS)))
def test_private_content_is_not_at_the_public_gateway_however_it_is_spelled(private, spell):
    query = private.query(private.a)
    for cid in (private.a, private.deleted, private.folder):
        for more in ("", f"?{query}", "?format=car"):
            target = spell(f"/ipfs/{cid}")
            reply = follow(
                private.address, target + more.replace("?", "&" if "?" in target else "?")
            )
            assert reply.status in REFUSED, (target, reply)
            assert b"secret " not in reply.body


@pytest.mark.parametrize("spell", PATHS, ids=range(len(PATHS)))
def test_an_address_for_uploads_takes_uploads_only_however_it_is_spelled(private, spell):
    call = private.call
    signed = urlsplit(sign_upload(call)).path
    kind = "Content-Type: multipart/form-data; boundary=x"
    reply = follow(private.address, spell(signed), method="POST", headers=[kind], body=FORM)
    if reply.status == 200:
        assert b'"name":"granted"' in reply.body
        assert b'"network":"private"' in reply.body
    else:
        assert reply.status in {*REFUSED, 401, 405}, reply
    own = urlsplit(call.create(10, network="private").headers["Location"]).path
    by_link = urlsplit(call.create(10, path=signed, token="").headers["Location"]).path
    for path, allowed in ((own, {401}), (by_link, {200})):
        reply = follow(private.address, spell(path), method="HEAD")
        assert reply.status in {*REFUSED, 405, *allowed}, reply
        assert call("DELETE", path).status == 204


def test_only_what_was_signed_is_signed(private):
    """The address that is signed is parsed as strictly as the one that is read."""
    for path in (
        *("/files/x", "/files", "/ipfs/{a}", "/files//{a}", "/files%2F{a}", "/files/{a}/../{b}"),
        *("/files/{a}/%2e%2e", "/files/{a}#x", "/fi\nles/{a}", "/files/{a}/a%2Fb"),
        "/x%2F/files/{a}",
    ):
        url = private.node.api_url + path.format(a=private.a, b=private.b)
        body = {"url": url, "date": 1, "expires": 1}
        reply = private.call("POST", "/v3/files/private/download_link", json=body)
        assert reply.status == 400, (path, reply.data)


# Folders


def links_of(page):
    return [html.unescape(link) for link in re.findall(r'href="([^"]*)"', page.decode())]


def browse(private, start):
    """Follow all links of a listing and of those below; return the pages and contents."""
    pages, waiting = {}, [start]
    while waiting:
        target = waiting.pop()
        head, _, tail = target.partition("?")
        target = f"{head.removesuffix('/..')}?{tail}"
        if target not in pages:
            pages[target] = reply = private.page(target)
            assert reply.headers["referrer-policy"] == "no-referrer"
            assert reply.headers["cache-control"] == "private, no-store"
            if reply.headers["content-type"].startswith("text/html"):
                waiting += links_of(reply.body)
    return pages


@pytest.mark.parametrize("top", ["", "/sub"])
def test_a_private_folder_is_browsed_by_its_link(private, top):
    path, query = f"/files/{private.folder}{top}", private.query(f"{private.folder}{top}")
    pages = browse(private, f"{path}?{query}")
    below = ("", "/other.txt", "/sub", "/sub/deep.txt", "/sub/more", "/sub/more/x.txt")
    expected = {f"/files/{private.folder}{path}" for path in below if path.startswith(top)}
    assert {target.partition("?")[0] for target in pages} == expected
    assert {target.partition("?")[2] for target in pages} == {query}
    for target, reply in pages.items():
        if target.partition("?")[0].endswith(".txt"):
            assert reply.body.startswith(b"secret ")


def test_a_link_to_a_subfolder_opens_nothing_above_it(private):
    query = private.query(f"{private.folder}/sub")
    for above in ("", "/", "/other.txt", "/sub2", "/su"):
        reply = send(private.address, f"/files/{private.folder}{above}?{query}")
        assert reply.status == 403, reply
    archive = private.page(f"/files/{private.folder}/sub?{query}&format=car").body
    assert b"deep.txt" in archive
    assert b"other.txt" not in archive  # the block of the folder above is not in it


def test_a_link_to_a_value_inside_a_block_does_not_open_the_block(private):
    block = dag_cbor.encode({"a": {"b": "open"}, "c": "secret c.", "file": CID.parse(private.a)})
    cid = cid_of(DAG_CBOR, block)
    with Repository(private.node.repository.path / "private") as repository:
        leaf = repository.block(CID.parse(private.a))
        repository.import_car(write_car([cid], [(cid, block), (CID.parse(private.a), leaf)]))
    whole, value = private.query(str(cid)), private.query(f"{cid}/a")
    for form in ("", "raw", "car", "dag-cbor"):
        reply = send(private.address, f"/files/{cid}/a?{value}&format={form}")
        assert (reply.status, b"secret" in reply.body) == (501, False), form
    assert send(private.address, f"/files/{cid}/a/b?{whole}&format=raw").body == block
    page = send(private.address, f"/files/{cid}?{whole}", headers=["Accept: text/html"])
    *_, raw, file = map(html.unescape, re.findall(r'href="([^"]*)"', page.body.decode()))
    assert (send(private.address, raw).body, send(private.address, file).body) == (
        block,
        b"secret a.",
    )


def test_a_link_of_one_folder_opens_no_other_and_expires(private):
    query, old = private.query(private.folder), private.query(private.folder, date=1)
    for target in (
        *(f"{path}?{query}" for path in (private.site, f"{private.site}/index.html", private.a)),
        f"{private.folder}/other.txt?{old}",
    ):
        assert send(private.address, f"/files/{target}").status == 403


@pytest.mark.parametrize("path", ["", "/", "/other.txt", "/none", "/sub"])
def test_no_credential_leaves_the_private_gateway(private, path):
    query = private.query(private.folder)
    reply = send(private.address, f"/files/{private.folder}{path}?{query}")
    assert reply.headers["referrer-policy"] == "no-referrer"
    assert reply.headers["cache-control"] == "private, no-store"
    # A page could set a policy of its own for referrers, so it loads nothing from elsewhere.
    policy = reply.headers["content-security-policy"]
    assert policy == "sandbox; default-src 'self' data: 'unsafe-inline'"
    assert reply.headers.get("location", "/files/").startswith("/files/")
    for target in links_of(reply.body):
        assert target.startswith(f"/files/{private.folder}")


def test_a_page_of_the_author_is_the_page_of_a_private_folder(private):
    page = private.page(f"/files/{private.site}?{private.query(private.site)}")
    assert page.body == b"secret site."


# Below a root path


@contextmanager
def serving(repository, root, *, is_mounted):
    """Serve a node below `root` with uvicorn; yield what calls its API.

    It is mounted in another application, or behind a proxy that removes the root path.
    """
    token = NodeToken(token="mounted-0123456789")
    app = create_app(repository, NodeSettings(tokens=(token,)))
    if is_mounted:
        app = Starlette(routes=[Mount(root, app)])
    options = {} if is_mounted else {"root_path": root}
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", **options))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}{quote(root) if is_mounted else ''}"
        try:
            yield V3Caller(SimpleNamespace(api_url=url, token=token.token))
        finally:
            server.should_exit = True
            thread.join()


@pytest.mark.parametrize("root", ["/files", "/a b/ipfs"])
@pytest.mark.parametrize("is_mounted", [True, False])
@pytest.mark.slow
def test_links_work_below_a_root_path(tmp_path, root, is_mounted):
    with (
        Repository(tmp_path / "store") as repository,
        serving(repository, root, is_mounted=is_mounted) as call,
    ):
        a, b = (call.stored(text, network="private")["cid"] for text in (b"aa", b"bb"))
        public = call.stored(b"public")["cid"]
        assert call("GET", f"/ipfs/{public}", token="").data == b"public"
        link = call.link(a)
        assert call("GET", link, token="").data == b"aa"
        assert call("GET", link.replace(a, b), token="").status == 403
        query = urlsplit(link).query
        for path in (f"/files%2F{a}/ipfs/{b}", f"/files/{a}/ipfs/{b}"):
            assert call("GET", f"{path}?{query}", token="").status in REFUSED
        address = sign_upload(call)
        assert urlsplit(address).path.startswith(f"{quote(root)}/v3/files/signed/")
        address = address if is_mounted else address.replace(quote(root), "", 1)
        folder = add_folder(call, address, {"sub/x.txt": b"xx"})
        query = urlsplit(call.link(folder)).query
        moved = call("GET", f"/files/{folder}?{query}", token="", redirect=False)
        assert moved.headers["Location"] == f"{quote(root)}/files/{folder}/?{query}"
        page = call("GET", f"/files/{folder}/sub/?{query}", token="")
        (to_file,) = (link for link in links_of(page.data) if "x.txt" in link)
        assert to_file == f"{quote(root)}/files/{folder}/sub/x.txt?{query}"
