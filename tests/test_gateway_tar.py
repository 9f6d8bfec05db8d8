"""Tar archives of the gateway, read back by Python's tarfile and by tar."""

import http.client
import io
import logging
import shutil
import subprocess
import tarfile
from contextlib import closing

import pytest

from holdfast.content import dag_pb
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.dag_pb import Link
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V1_2025
from holdfast.content.unixfs import data
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import Part
from holdfast.node.memory import Cache
from holdfast.sources.importing import import_content
from tests.content import DATA, MIB, Blocks, stream
from tests.gateway_node import running_gateway
from tests.support import HELLO_CID

SHARDED = "bafybeidbclfqleg2uojchspzd4bob56dqetqjsj27gy2cq3klkkgxtpn4i"
DIRECTORY = data.DIRECTORY
TAR = "application/x-tar"


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    # With a small cache, so that what is held besides it can be seen.
    with running_gateway(tmp_path_factory.mktemp("repository"), Cache(MIB)) as node:
        archive = DATA / "single-layer-hamt-with-multi-block-files.car"
        node.repository.import_car([archive.read_bytes()])
        node.add(b"hello")
        yield node


def members(body):
    """All that an archive holds: the type, target or content, of each name; in its order."""
    listed = []
    with tarfile.open(fileobj=io.BytesIO(body), mode="r:") as archive:
        for entry in archive:
            assert (entry.uid, entry.gid, entry.mtime, entry.uname) == (0, 0, 0, "")
            assert entry.mode == (0o644 if entry.isfile() else 0o755)
            if entry.isfile():
                content = archive.extractfile(entry).read()
            else:
                assert entry.isdir() or entry.issym()
                content = "dir" if entry.isdir() else f"-> {entry.linkname}"
            listed.append((entry.name, content))
    return listed


def directory(node, *links):
    """Store a directory with these names, whatever they are; its CID."""
    return node.put(DAG_PB, dag_pb.encode([Link(cid, name, 0) for name, cid in links], DIRECTORY))


@pytest.mark.parametrize(("query", "accept"), [("?format=tar", "*/*"), ("", TAR)])
def test_a_file_comes_as_an_archive_of_one_entry_named_by_its_cid(node, query, accept):
    reply = node.get(f"/ipfs/{HELLO_CID}{query}", Accept=accept)
    assert reply.status == 200
    assert members(reply.body) == [(HELLO_CID, b"hello")]
    assert len(reply.body) == 512 + 512 + 1024
    said = {name.lower(): value for name, value in reply.headers.items()}
    expected = {
        "content-type": TAR,
        "content-disposition": f'attachment; filename="{HELLO_CID}.tar"',
        "etag": f'W/"{HELLO_CID}.x-tar"',
        "cache-control": "public, max-age=29030400, immutable",
        "accept-ranges": "none",
        "x-ipfs-path": f"/ipfs/{HELLO_CID}",
        "x-ipfs-roots": HELLO_CID,
        "vary": "Accept",
        "x-content-type-options": "nosniff",
        "content-security-policy": "sandbox",
        "transfer-encoding": "chunked",
    }
    if not query:
        expected["content-location"] = f"/ipfs/{HELLO_CID}?format=tar"
    others = {name for name in said if name.startswith("access-control-")} | {"date", "server"}
    assert {name: said[name] for name in said if name not in others} == expected
    named = f"/ipfs/{HELLO_CID}?filename=test%D1%82.tar&format=tar"
    assert node.get(named).headers["content-disposition"] == (
        "attachment; filename=\"test_.tar\"; filename*=UTF-8''test%D1%82.tar"
    )


def test_a_directory_is_read_back_whole_by_tarfile_and_by_tar(node, tmp_path):
    large = b"".join(stream("in a tar", 700_000))
    part = Part(CID.parse(node.add(large, KUBO_LEGACY_CIDV1)), len(large), len(large))
    deep = node.add_directory({"n" * 120: node.add_directory({"ę" * 100 + ".txt": b"deep"})})
    content = {
        "empty": b"",
        "exact": b"x" * 512,
        "file-źł.txt": b"I am a file",
        "large.bin": large,
        "line\nbreak": b"odd",
    }
    root = node.add_directory(
        content
        | {"large.bin": part, "none": node.add_directory({}), "z": deep}
        | {"link": node.add_symlink("file-źł.txt".encode()), "up": node.add_symlink(b"z/../exact")}
    )
    reply = node.get(f"/ipfs/{root.cid}/?format=tar")
    top, inner = str(root.cid), f"{root.cid}/z/{'n' * 120}"
    files = {f"{top}/{name}": data for name, data in content.items()}
    files[f"{inner}/{'ę' * 100}.txt"] = b"deep"
    folders = dict.fromkeys((top, f"{top}/none", f"{top}/z", inner), "dir")
    links = {f"{top}/link": "-> file-źł.txt", f"{top}/up": "-> z/../exact"}
    listed = members(reply.body)
    assert dict(listed) == files | folders | links
    assert (listed[0], dict(listed[-2:])) == ((top, "dir"), links)
    with tarfile.open(fileobj=io.BytesIO(reply.body)) as archive:
        archive.extractall(tmp_path / "python", filter="data")
    assert (tmp_path / "python" / top / "link").read_bytes() == b"I am a file"
    if (tar := shutil.which("tar")) is None:
        pytest.skip("there is no tar on this machine")
    subprocess.run([tar, "-xf", "-"], input=reply.body, cwd=tmp_path, check=True)  # noqa: S603
    assert {path: (tmp_path / path).read_bytes() for path in files} == files
    assert (tmp_path / top / "up").read_bytes() == b"x" * 512
    assert (tmp_path / top / "link").is_symlink()


def test_a_name_that_is_no_utf_8_comes_back_to_the_byte(node):
    root = node.add_directory({b"\xff\xfe name": b"x", "plain": node.add_symlink(b"\xff")}).cid
    top, file, link = members(node.get(f"/ipfs/{root}?format=tar").body)
    assert top == (str(root), "dir")
    assert file == (f"{root}/\udcff\udcfe name", b"x")
    assert link == (f"{root}/plain", "-> \udcff")


def test_a_sharded_directory_a_directory_on_a_path_and_a_link_come_as_archives(node):
    _, blocks = Blocks.of_car("single-layer-hamt-with-multi-block-files.car")
    entries = blocks.list(CID.parse(SHARDED))
    expected = {f"{SHARDED}/{entry.name}": blocks.read(entry.cid) for entry in entries}
    listed = members(node.get(f"/ipfs/{SHARDED}?format=tar").body)
    assert dict(listed) == expected | {SHARDED: "dir"}
    inner, link = node.add_directory({"a": b"1"}), node.add_symlink(b"somewhere")
    outer = node.add_directory({"in": inner})
    reply = node.get(f"/ipfs/{outer.cid}/in?format=tar")
    assert members(reply.body) == [(str(inner.cid), "dir"), (f"{inner.cid}/a", b"1")]
    reply = node.get(f"/ipfs/{link.cid}?format=tar")
    assert members(reply.body) == [(str(link.cid), "-> somewhere")]


def test_an_archive_has_a_head_and_no_ranges(node):
    target, etag = f"/ipfs/{HELLO_CID}?format=tar", f'W/"{HELLO_CID}.x-tar"'
    head, whole = node.head(target), node.get(target)
    for name in ("content-type", "content-disposition", "etag"):
        assert head.headers[name] == whole.headers[name]
    with_range = node.get(target, Range="bytes=0-1,4-5", If_Range=etag)
    assert (with_range.status, with_range.body) == (200, whole.body)


# Hostile content


def test_links_come_last_so_that_nothing_is_written_through_them(node):
    """On a file system that takes ``a`` for ``A``, the link would stand where the files go."""
    inner = node.add_directory({"passwd": b"mine"})
    link = node.add_symlink(b"/etc")
    root = directory(node, (b"A", link.cid), (b"a", inner.cid), (b"b", CID.parse(HELLO_CID)))
    assert members(node.get(f"/ipfs/{root}?format=tar").body) == [
        (str(root), "dir"),
        (f"{root}/a", "dir"),
        (f"{root}/b", b"hello"),
        (f"{root}/a/passwd", b"mine"),
        (f"{root}/A", "-> /etc"),
    ]


@pytest.mark.parametrize(
    "names",
    [
        *([name] for name in (b"..", b".", b"", b"../../file", b"/etc/passwd", b"a/..", b"a\0b")),
        *([name] for name in (b"a/", b"./", b"a/b\0c", b"../../../x", b"a/../../../x")),
        *([name] for name in (b"..\\..\\file", b"\\file", b"a\\..\\..\\b", b"n" * 256)),
        *([name] for name in (b"..\\..\\x/file", b"./\\file", b"n" * 256 + b"/file")),
        *([b"same", other] for other in (b"same", b"./same", b"a/../same")),
    ],
)
def test_there_is_no_archive_with_a_name_that_leads_elsewhere(node, names):
    hostile = directory(node, *((name, CID.parse(HELLO_CID)) for name in names))
    for root in (hostile, directory(node, (b"sub", hostile))):
        reply = node.get(f"/ipfs/{root}?format=tar")
        assert reply.status == 406
        text = reply.body.decode()
        assert text.startswith("Not Acceptable: no tar archive can be made: ")
        assert text.endswith("; read it with ?format=car.\n")
        is_outside = names[0].startswith(b"../")
        assert is_outside <= ("relative UnixFS paths outside the root are not allowed" in text)
        assert reply.headers["cache-control"] == "no-store"
    assert node.get(f"/ipfs/{root}?format=car").status == 200


def test_a_relative_name_that_stays_inside_is_cleaned_for_a_file(node, tmp_path):
    """`download_folder` refuses such a name: see the tests of folders."""
    hello = CID.parse(HELLO_CID)
    inner = directory(node, (b"../file", hello), (b"./plain", hello), (b"new/x/../deep", hello))
    root = directory(node, (b"sub", directory(node, (b"dir", inner))), (b"a/b", hello))
    reply = node.get(f"/ipfs/{root}?format=tar")
    folders, files = (
        ("", "/sub", "/sub/dir"),
        ("a/b", "sub/file", "sub/dir/plain", "sub/dir/new/deep"),
    )
    assert dict(members(reply.body)) == {f"{root}{name}": "dir" for name in folders} | {
        f"{root}/{name}": b"hello" for name in files
    }
    with tarfile.open(fileobj=io.BytesIO(reply.body)) as archive:
        archive.extractall(tmp_path, filter="data")
    assert {
        str(path.relative_to(tmp_path / str(root)))
        for path in tmp_path.rglob("*")
        if path.is_file()
    } == {*files}
    assert node.get(f"/ipfs/{root}/").status == 404  # the list of its names refuses them


@pytest.mark.parametrize("name", [b"../sub/x", b"./x", b"x/y"])
def test_a_relative_name_is_for_files_only(node, name):
    """A link ``d`` with a link ``d/x`` after it would be written through."""
    for part in (node.add_symlink(b"/etc"), node.add_directory({"passwd": b"mine"})):
        root = directory(node, (b"sub", directory(node, (name, part.cid))))
        reply = node.get(f"/ipfs/{root}?format=tar")
        why = f"no tar archive can be made: only the name of a file may be {name.decode()!a}"
        text = f"Not Acceptable: {why}; read it with ?format=car.\n"
        assert (reply.status, reply.body.decode()) == (406, text)


@pytest.mark.parametrize("target", [b"", b"a\0b", b"x" * 4097])
def test_there_is_no_archive_with_a_link_that_no_system_takes(node, target):
    link = node.put(DAG_PB, dag_pb.encode([], data.symlink_data(target)))
    assert node.get(f"/ipfs/{directory(node, (b'link', link))}?format=tar").status == 406


def test_a_path_longer_than_systems_take_breaks_the_archive_off(node, caplog):
    with node.repository.adding() as adding:
        part = import_content(b"deep", UNIXFS_V1_2025, adding.put)
        levels = []
        for _ in range(21):
            part = build_directory([(b"n" * 200, part)], UNIXFS_V1_2025, adding.put)
            levels.append(part.cid)
        adding.flush()
    assert len(members(node.get(f"/ipfs/{levels[-2]}?format=tar").body)) == 21
    with caplog.at_level(logging.CRITICAL + 1), pytest.raises(http.client.IncompleteRead) as caught:
        node.get(f"/ipfs/{levels[-1]}?format=tar")
    assert b"deep" not in caught.value.partial


def test_what_is_no_unixfs_has_no_archive(node):
    for cid in (node.put(0x78, b"\xa0"), node.put(DAG_PB, dag_pb.encode([], b""))):
        for root in (cid, directory(node, (b"a", cid))):
            reply = node.get(f"/ipfs/{root}?format=tar")
            why = f"{cid} is not a file, directory or symbolic link"
            assert (reply.status, reply.body.decode()) == (
                406,
                f"Not Acceptable: no tar archive can be made: {why}; read it with ?format=car.\n",
            )


def test_too_many_directories_or_links_at_a_time_end_the_archive(node, monkeypatch):
    monkeypatch.setattr("holdfast.node.gateway.tars.MAX_PENDING", 20_000)
    empty, link = node.add_directory({}), node.add_symlink(b"x")
    for part, count in ((empty, 70), (link, 50)):
        some = directory(node, *((b"%04d" % at, part.cid) for at in range(count)))
        more = directory(node, *((b"%04d" % at, part.cid) for at in range(2 * count)))
        assert len(members(node.get(f"/ipfs/{some}?format=tar").body)) == count + 1
        assert node.get(f"/ipfs/{more}?format=tar").status == 406
    # One after the other they may be as many as there are.
    chain = directory(node, (b"a", some), (b"b", node.add_directory({}).cid))
    assert node.get(f"/ipfs/{chain}?format=tar").status == 200


def test_a_missing_or_malformed_file_is_an_error_and_never_a_part_of_an_archive(node, caplog):
    missing = CID.of_raw(b"not here")
    wrong = node.put(
        DAG_PB,
        dag_pb.encode([Link(CID.parse(HELLO_CID), b"", 5)], data.file_data(9, [9])),
    )
    for cid in (missing, wrong):
        assert node.get(f"/ipfs/{directory(node, (b'a', cid))}?format=tar").status == 404
    large = CID.parse(node.add(stream("before the gap", 300_000), KUBO_LEGACY_CIDV1))
    root = directory(node, (b"a", large), (b"b", missing))
    with caplog.at_level(logging.CRITICAL + 1), pytest.raises(http.client.IncompleteRead) as caught:
        node.get(f"/ipfs/{root}?format=tar")
    assert bytes(1024) not in caught.value.partial  # the end of an archive
    assert node.get(f"/ipfs/{HELLO_CID}").status == 200


def test_a_small_dag_of_very_many_bytes_has_its_size_in_the_header(node):
    cid, size = node.put(RAW, b"x" * 1024), 1024
    while size < 2**34:
        block = dag_pb.encode([Link(cid, b"", size)] * 8, data.file_data(8 * size, [size] * 8))
        cid, size = node.put(DAG_PB, block), 8 * size
    with closing(http.client.HTTPConnection("127.0.0.1", node.port, timeout=120)) as connection:
        connection.request("GET", f"/ipfs/{cid}?format=tar")
        with tarfile.open(fileobj=connection.getresponse(), mode="r|", bufsize=512) as archive:
            first = archive.next()
            assert (first.name, first.size) == (str(cid), 2**34)
            assert archive.extractfile(first).read(1000) == b"x" * 1000


# How much is held


@pytest.mark.slow
def test_an_archive_is_never_held_as_a_whole(node):
    with node.repository.adding() as adding:
        large = import_content(stream("large in a tar", 16 * MIB), UNIXFS_V1_2025, adding.put)
        leaf = import_content(b"leaf", UNIXFS_V1_2025, adding.put)
        names = [(b"%05d" % at, leaf) for at in range(1000)]
        root = build_directory([*names, (b"large", large)], UNIXFS_V1_2025, adding.put)
        adding.flush()
    read, peak = node.read_and_peak(f"/ipfs/{root.cid}?format=tar")
    assert read == 512 + 1000 * 1024 + 512 + 16 * MIB + 1024
    assert peak < 12 * MIB


@pytest.mark.slow
@pytest.mark.timeout(1800)  # on a busy machine
def test_an_archive_of_a_hundred_thousand_files_takes_little_memory(node):
    with node.repository.adding() as adding:
        leaf = import_content(b"leaf", UNIXFS_V1_2025, adding.put)
        names = [(b"file-%06d.txt" % at, leaf) for at in range(100_000)]
        root = build_directory(names, UNIXFS_V1_2025, adding.put)
        adding.flush()
    read, peak = node.read_and_peak(f"/ipfs/{root.cid}?format=tar")
    assert read == 512 + 100_000 * 1024 + 1024
    assert peak < 32 * MIB
