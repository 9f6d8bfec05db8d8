"""Tar archives of the gateway, read back by Python's tarfile and by tar."""

import http.client
import io
import logging
import shutil
import subprocess
import tarfile

import pytest

from holdfast.content import dag_pb
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.dag_pb import Link
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V1_2025
from holdfast.content.unixfs import data
from holdfast.content.unixfs.directories import build_directory, build_symlink
from holdfast.node.memory import Cache
from holdfast.repository import Repository
from holdfast.sources.importing import import_content
from tests.content import DATA, MIB, Blocks, stream
from tests.gateway_node import Node
from tests.support import HELLO_CID

SHARDED = "bafybeidbclfqleg2uojchspzd4bob56dqetqjsj27gy2cq3klkkgxtpn4i"
DIRECTORY = data.DIRECTORY
TAR = "application/x-tar"


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Repository(tmp_path_factory.mktemp("repository")) as repository:
        repository.import_car(
            [(DATA / "single-layer-hamt-with-multi-block-files.car").read_bytes()]
        )
        # With a small cache, so that what is held besides it can be seen.
        node = Node(repository, Cache(MIB))
        node.add(b"hello")
        try:
            yield node
        finally:
            node.close()


def members(body):
    """All that an archive holds: the type, target or content, of each name; in its order."""
    found = []
    with tarfile.open(fileobj=io.BytesIO(body), mode="r:") as archive:
        for each in archive:
            assert (each.uid, each.gid, each.mtime, each.uname) == (0, 0, 0, "")
            if each.isfile():
                assert each.mode == 0o644
                found.append((each.name, archive.extractfile(each).read()))
            else:
                assert each.isdir() or each.issym()
                assert each.mode == 0o755
                found.append((each.name, "dir" if each.isdir() else f"-> {each.linkname}"))
    return found


def symlink(node, target):
    with node.repository.adding() as adding:
        link = build_symlink(target, UNIXFS_V1_2025, adding.put)
        adding.flush()
    return link


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
    wanted = {
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
        wanted["content-location"] = f"/ipfs/{HELLO_CID}?format=tar"
    others = {name for name in said if name.startswith("access-control-")} | {"date", "server"}
    assert {name: said[name] for name in said if name not in others} == wanted


def test_a_directory_is_read_back_whole_by_tarfile_and_by_tar(node, tmp_path):
    large = b"".join(stream("in a tar", 700_000))
    with node.repository.adding() as adding:
        parts = import_content(large, KUBO_LEGACY_CIDV1, adding.put)
        adding.flush()
    deep = node.add_directory({"n" * 120: node.add_directory({"ę" * 100 + ".txt": b"deep"})})
    content = {
        "empty": b"",
        "exact": b"x" * 512,
        "file-źł.txt": b"I am a file",
        "large.bin": parts,
        "line\nbreak": b"odd",
        "z": deep,
    }
    links = {
        "link": symlink(node, b"file-\xc5\xba\xc5\x82.txt"),
        "up": symlink(node, b"z/../exact"),
    }
    root = node.add_directory(content | links)
    reply = node.get(f"/ipfs/{root.cid}/?format=tar")
    top, inner = str(root.cid), f"{root.cid}/z/{'n' * 120}"
    assert members(reply.body) == [
        (top, "dir"),
        (f"{top}/empty", b""),
        (f"{top}/exact", b"x" * 512),
        (f"{top}/file-źł.txt", b"I am a file"),
        (f"{top}/large.bin", large),
        (f"{top}/line\nbreak", b"odd"),
        (f"{top}/z", "dir"),
        (inner, "dir"),
        (f"{inner}/{'ę' * 100}.txt", b"deep"),
        (f"{top}/link", "-> file-źł.txt"),
        (f"{top}/up", "-> z/../exact"),
    ]
    with tarfile.open(fileobj=io.BytesIO(reply.body)) as archive:
        archive.extractall(tmp_path / "python", filter="data")
    assert (tmp_path / "python" / top / "link").read_bytes() == b"I am a file"
    if (tar := shutil.which("tar")) is None:
        pytest.skip("there is no tar on this machine")
    subprocess.run([tar, "-xf", "-"], input=reply.body, cwd=tmp_path, check=True)  # noqa: S603
    out = tmp_path / top
    for name in ("empty", "exact", "file-źł.txt", "large.bin", "line\nbreak", "link", "up"):
        expected = content.get(name, b"I am a file" if name == "link" else b"x" * 512)
        assert (out / name).read_bytes() == (large if name == "large.bin" else expected)
    assert (out / "z" / ("n" * 120) / f"{'ę' * 100}.txt").read_bytes() == b"deep"
    assert (out / "link").is_symlink()


def test_a_name_that_is_no_utf_8_comes_back_to_the_byte(node):
    name = b"\xff\xfe name"
    root = node.add_directory({name: b"x", "plain": symlink(node, b"\xff")})
    found = members(node.get(f"/ipfs/{root.cid}?format=tar").body)
    names = [each.encode("utf-8", "surrogateescape") for each, _ in found]
    assert names[1:] == [b"%s/%s" % (str(root.cid).encode(), each) for each in (name, b"plain")]
    assert found[2][1].encode("utf-8", "surrogateescape") == b"-> \xff"


def test_a_sharded_directory_and_a_directory_on_a_path_come_as_archives(node):
    _, blocks = Blocks.of_car("single-layer-hamt-with-multi-block-files.car")
    root = CID.parse(SHARDED)
    found = dict(members(node.get(f"/ipfs/{SHARDED}?format=tar").body))
    expected = {f"{SHARDED}/{each.name}": blocks.read(each.cid) for each in blocks.list(root)}
    assert found == expected | {SHARDED: "dir"}
    outer = node.add_directory({"in": node.add_directory({"a": b"1"})})
    reply = node.get(f"/ipfs/{outer.cid}/in?format=tar")
    cid = reply.headers["x-ipfs-roots"].split(",")[1]
    assert members(reply.body) == [(cid, "dir"), (f"{cid}/a", b"1")]


def test_a_symbolic_link_and_an_empty_directory_come_as_archives(node):
    link = symlink(node, b"somewhere")
    found = members(node.get(f"/ipfs/{link.cid}?format=tar").body)
    assert found == [(str(link.cid), "-> somewhere")]
    empty = node.add_directory({})
    assert members(node.get(f"/ipfs/{empty.cid}?format=tar").body) == [(str(empty.cid), "dir")]


def test_the_name_of_an_archive_can_be_chosen(node):
    target = f"/ipfs/{HELLO_CID}?filename=test%D1%82%D0%B5%D1%81%D1%82.tar&format=tar"
    assert node.get(target).headers["content-disposition"] == (
        "attachment; filename=\"test____.tar\"; filename*=UTF-8''test%D1%82%D0%B5%D1%81%D1%82.tar"
    )


def test_conditions_and_head_of_an_archive(node):
    target, etag = f"/ipfs/{HELLO_CID}?format=tar", f'W/"{HELLO_CID}.x-tar"'
    for known in (etag, etag.removeprefix("W/"), f'"x", {etag}', "*"):
        for method in ("GET", "HEAD"):
            reply = node.get(target, method, If_None_Match=known)
            assert (reply.status, reply.body, reply.headers["etag"]) == (304, b"", etag)
    assert node.get(target, If_None_Match=f'"{HELLO_CID}"').status == 200
    head, whole = node.head(target), node.get(target)
    assert (head.status, head.headers["content-type"]) == (200, TAR)
    assert head.headers["content-disposition"] == whole.headers["content-disposition"]
    with_range = node.get(target, Range="bytes=0-1,4-5", If_Range=etag)
    assert (with_range.status, with_range.body) == (200, whole.body)


# Hostile content


def test_links_come_last_so_that_nothing_is_written_through_them(node):
    """On a file system that takes ``a`` for ``A``, the link would stand where the files go."""
    inner = node.add_directory({"passwd": b"mine"})
    link = symlink(node, b"/etc")
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
        [b".."],
        [b"."],
        [b""],
        [b"../../file"],
        [b"/etc/passwd"],
        [b"a/b"],
        [b"a\0b"],
        [b"same", b"same"],
        [b"..\\..\\file"],
        [b"\\file"],
        [b"a\\..\\..\\b"],
        [b"n" * 256],
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
        assert reply.headers["cache-control"] == "no-store"
    assert node.get(f"/ipfs/{root}?format=car").status == 200


def test_the_refusal_of_a_path_outside_has_the_words_of_kubo(node):
    root = directory(node, (b"../../file", CID.parse(HELLO_CID)))
    text = node.get(f"/ipfs/{root}?format=tar").body.decode()
    assert "relative UnixFS paths outside the root are not allowed" in text


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
    for cid in (node.put(0x71, b"\xa0"), node.put(DAG_PB, dag_pb.encode([], b""))):
        for root in (cid, directory(node, (b"a", cid))):
            reply = node.get(f"/ipfs/{root}?format=tar")
            why = f"{cid} is not a file, directory or symbolic link"
            assert (reply.status, reply.body.decode()) == (
                406,
                f"Not Acceptable: no tar archive can be made: {why}; read it with ?format=car.\n",
            )


def test_too_many_directories_or_links_at_a_time_end_the_archive(node, monkeypatch):
    monkeypatch.setattr("holdfast.node.gateway.tars.MAX_PENDING", 20_000)
    empty, link = node.add_directory({}), symlink(node, b"x")
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
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=120)
    try:
        connection.request("GET", f"/ipfs/{cid}?format=tar")
        with tarfile.open(fileobj=connection.getresponse(), mode="r|", bufsize=512) as archive:
            first = archive.next()
            assert (first.name, first.size) == (str(cid), 2**34)
            assert archive.extractfile(first).read(1000) == b"x" * 1000
    finally:
        connection.close()


# How much is held


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
@pytest.mark.timeout(600)
def test_an_archive_of_a_hundred_thousand_files_takes_little_memory(node):
    with node.repository.adding() as adding:
        leaf = import_content(b"leaf", UNIXFS_V1_2025, adding.put)
        names = [(b"file-%06d.txt" % at, leaf) for at in range(100_000)]
        root = build_directory(names, UNIXFS_V1_2025, adding.put)
        adding.flush()
    read, peak = node.read_and_peak(f"/ipfs/{root.cid}?format=tar")
    assert read == 512 + 100_000 * 1024 + 1024
    assert peak < 32 * MIB
