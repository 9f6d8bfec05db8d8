"""Directories that try to escape from the target, or to exhaust the machine.

Each is downloaded from a gateway into a folder beside files of the user's, which must stay as they
are. A directory that is refused leaves nothing under the target's name.
"""

import contextlib
import errno
import os
import shutil
import subprocess
import unicodedata
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.content import dag_pb
from holdfast.content.cid import CID, DAG_PB, IDENTITY, RAW
from holdfast.content.dag_pb import Link
from holdfast.content.reference import Reference
from holdfast.content.unixfs import data
from holdfast.errors import ClientError, MalformedError
from holdfast.sinks import entries as limits
from holdfast.sinks import work_folder
from holdfast.sinks.names import folded, why_not_portable
from holdfast.sinks.work_folder import WorkFolder
from holdfast.testing import ScriptedServer
from tests import folder_dags
from tests._sync.masking import unmasking
from tests.disks import mount
from tests.folder_dags import FolderDag, on_disk, serving
from tests.masks import masked
from tests.plaintext import files_with_plaintext, killed, marked
from tests.support import config_for

HELLO = b"hello"
PRECIOUS = b"of the user"


def named(name):
    """A directory with one file of this name, after one that is fine."""
    return lambda dag: dag.folder(("a", dag.file(b"a")), (name, dag.file(HELLO)))


def deep(name):
    """The same, two folders below the root, in shards."""

    def build(dag):
        shard = dag.shard(("a", dag.file(b"a")), (name, dag.file(HELLO)))
        return dag.folder(("x", dag.folder(("y", shard))))

    return build


def linked(text, *names):
    """A directory with a symbolic link, below folders of these names."""

    def build(dag):
        cid = dag.folder(("link", dag.link(text)), ("target", dag.file(b"a")))
        for name in reversed(names):
            cid = dag.folder((name, cid))
        return cid

    return build


def doubled(*pairs, build=None):
    def make(dag):
        links = [(name, what(dag)) for name, what in pairs]
        return (build or FolderDag.folder)(dag, *links)

    return make


def a_file(dag):
    return dag.file(HELLO)


def a_folder(dag):
    return dag.folder(("escaped", dag.file(HELLO)))


def a_link(text):
    return lambda dag: dag.link(text)


# Refused on every system, whatever the options. T10.1 to T10.9 and more.
NEVER = {
    "dot dot": named(".."),
    "dot dot in a shard": deep(".."),
    "dot": named("."),
    "empty": named(""),
    "up": named("../escaped"),
    "absolute": named("/tmp/escaped"),  # noqa: S108 - never written
    "two names in one": named("a/b"),
    "NUL": named("b\0"),
    "256 bytes": named("n" * 256),
    "256 bytes of few characters": named("ä" * 128),
    "one name twice": doubled(("b", a_file), ("b", a_file)),
    "a file and a folder": doubled(("b", a_file), ("b", a_folder)),
    "a link and a folder": doubled(("b", a_link("..")), ("b", a_folder)),
    "a codec that is no UnixFS": lambda dag: dag.folder(("b", dag.put(b"{}", codec=0x78))),
    "no UnixFS in it": lambda dag: dag.folder(("b", dag.put(dag_pb.encode([], b"")))),
    "metadata": lambda dag: dag.folder(("b", dag.put(dag_pb.encode([], b"\x08\x03")))),
    "an unknown kind": lambda dag: dag.folder(("b", dag.put(dag_pb.encode([], b"\x08\x09")))),
    "a file among shards": lambda dag: _shard_over(dag, dag.file(HELLO)),
    "a shard in itself": lambda dag: _shard_over(dag, dag.shard(("b", dag.file(HELLO)))),
    "a bitfield that lies": lambda dag: dag.put(
        dag_pb.encode([Link(dag.file(HELLO), b"00b", 5)], data.shard_data(6, 256, 0x22))
    ),
    "a wrong slot": lambda dag: dag.put(
        dag_pb.encode([Link(dag.file(HELLO), b"01b", 5)], data.shard_data(2, 256, 0x22))
    ),
    "a fanout of 2^31": lambda dag: dag.put(dag_pb.encode([], data.shard_data(0, 1 << 31, 0x22))),
    "129 levels": lambda dag: dag.nested(129, dag.file(HELLO)),
    "a path of 5,000 bytes": lambda dag: _long_path(dag, 20),
    "a file of 4 EiB": lambda dag: dag.folder(("b", _huge_file(dag, 62))),
    "a file that says it is small": lambda dag: dag.folder(("b", _lying_file(dag))),
}

# Links: refused with and without `symlinks`.
ESCAPING_LINKS = {
    "absolute": linked("/etc/passwd"),
    "up": linked(".."),
    "up and down again": linked("../photos/target"),
    "up from below": linked("../../precious.txt", "x"),
    "up after a name": linked("target/../../precious.txt"),
    "through another link": lambda dag: dag.folder(
        ("d", dag.folder(("e", dag.link("..")))), ("f", dag.link("d/e/.."))
    ),
    "up behind two slashes": linked("x//../../precious.txt"),
    "a drive": linked("C:\\Windows\\System32"),
    "backslashes": linked("..\\..\\precious.txt"),
    "empty": linked(""),
    "NUL": linked("target\0/../.."),
    "5,000 bytes": linked("t" * 5000),
}

# Refused only where the file system has trouble with them, and with `portable`. T10.4, 5, 10 to 14.
UNUSUAL = {
    "drive": named("C:\\x"),
    "backslash": deep("..\\..\\x"),
    "device": named("CON"),
    "device in a shard": deep("PRN.tar.gz"),
    "stream": named("b:hidden"),
    "dot at the end": named("b."),
    "line break": named("b\nc"),
    "wildcard": named("*"),
    "not UTF-8": named(b"b\xff"),
    "case": doubled(("readme", a_file), ("README", a_file)),
    "case in shards": doubled(("readme", a_file), ("README", a_file), build=FolderDag.shard),
    "case of a folder": doubled(("Docs", a_folder), ("docs", a_file)),
    "case of a link and a folder": doubled(("A", a_link("target")), ("a", a_folder)),
    "case of sharp s": doubled(("straße", a_file), ("STRASSE", a_file)),
    "forms": doubled(("café", a_file), (unicodedata.normalize("NFD", "café"), a_file)),
    "invisible": doubled((".git", a_file), (".g\u200cit", a_file)),
}


def _shard_over(dag, cid):
    """A shard whose first slot has `cid`, as a shard."""
    return dag.put(dag_pb.encode([Link(cid, b"00", 5)], data.shard_data(1, 256, 0x22)))


def _long_path(dag, levels, name="n" * 250):
    cid = dag.file(HELLO)
    for _ in range(levels):
        cid = dag.folder((name, cid))
    return cid


def _huge_file(dag, bits):
    """A file of 2^bits bytes: of one small block, with very many links to it."""
    cid, size = CID.of_raw(b"x" * 1024), 10
    dag[cid] = b"x" * 1024
    while size < bits:
        step = min(8, bits - size)
        links = [Link(cid, b"", 1)] * (1 << step)
        size += step
        sizes = [1 << (size - step)] * (1 << step)
        cid = dag.put(dag_pb.encode(links, data.file_data(1 << size, sizes)))
    return cid


def _lying_file(dag):
    leaf = dag.put(HELLO, codec=RAW)
    return dag.put(dag_pb.encode([Link(leaf, b"", 1)], data.file_data(4, [4])))


@pytest.fixture
def home(tmp_path):
    """A folder of the user's, with files that an escape would meet."""
    home = tmp_path / "home"
    for name in ("precious.txt", "target", "escaped/b", "x/target"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(PRECIOUS)
    return home


@contextlib.contextmanager
def client_of(dag, **options):
    """A client of a gateway that serves `dag`, and the gateway."""
    with (
        ScriptedServer(serving(dag, **options)) as server,
        Client.init(config_for(server)) as client,
    ):
        yield client, server


def try_download(build, home, served=("raw", "car", "plain"), **options):
    """Download a directory to `home/photos`; its DAG, root, and the error, if any.

    Everything else in `home` is as before.
    """
    dag = FolderDag()
    root = build(dag)
    before = others(home)
    error = None
    with client_of(dag, kinds=served) as (client, _):
        try:
            client.download_folder(str(root), home / "photos", **options)
        except (OSError, ClientError) as caught:
            error = caught
    assert others(home) == before
    return dag, root, error


def others(home):
    """Everything around a target, without what a download may write."""
    own = f"{home.name}/photos", f"{home.name}/.photos.holdfast-"
    return {name: what for name, what in on_disk(home.parent).items() if not name.startswith(own)}


@pytest.mark.parametrize("case", NEVER)
def test_what_is_never_written(case, home):
    _, _, error = try_download(NEVER[case], home, symlinks=True)
    assert error is not None
    assert not (home / "photos").exists()


@pytest.mark.parametrize("case", ESCAPING_LINKS)
@pytest.mark.parametrize("symlinks", [False, True])
def test_links_that_lead_outside_are_never_written(case, symlinks, home):
    _, _, error = try_download(ESCAPING_LINKS[case], home, symlinks=symlinks)
    assert isinstance(error, OSError)
    assert "symbolic link" in str(error)
    assert "link" in str(error.filename) or error.filename == "f"
    assert ("pass symlinks=True" in error.__notes__[0]) is not symlinks
    assert not (home / "photos").exists()


@pytest.mark.parametrize("case", UNUSUAL)
def test_unusual_names_are_written_where_the_disk_can_have_them(case, home):
    """All of these are ordinary names on the file systems of Linux."""
    dag, root, error = try_download(UNUSUAL[case], home, symlinks=True)
    assert error is None
    assert on_disk(home / "photos") == dag.tree(root)


@pytest.mark.parametrize("case", UNUSUAL)
def test_with_portable_unusual_names_are_refused_everywhere(case, home):
    _, _, error = try_download(UNUSUAL[case], home, portable=True, symlinks=True)
    assert isinstance(error, OSError)
    assert "the entry is refused" in str(error)
    assert not (home / "photos").exists()


def test_nothing_of_a_directory_is_written_before_its_last_name_is_checked(home):
    dag = FolderDag()
    names = [(f"{n}", dag.file(b"%d" % n)) for n in range(1000)]
    for root in (
        dag.folder(*names, ("n" * 256, dag.file(b""))),
        dag.shard(*names, ("..", dag.file(b""))),
    ):
        with client_of(dag) as (client, server):
            with pytest.raises((OSError, MalformedError)):
                client.download_folder(str(root), home / "photos")
            targets = [request.target for request in server.requests]
        assert not any("dag-scope=all" in target or "format" not in target for target in targets)
        assert [name for name in on_disk(home) if ".holdfast-" in name] == []


@pytest.mark.parametrize("planted", ["files", "parts", "blocks", "probe", "lock", "files/a"])
def test_a_prepared_work_folder_leads_nowhere(planted, home):
    """Somebody else, an archive for example, has put a link where a download writes."""
    dag = FolderDag()
    root = dag.folder(("a", dag.folder(("escaped", dag.file(HELLO)))), ("b", dag.file(b"b")))
    work = work_folder_of(root, home)
    link = work / planted
    link.parent.mkdir(parents=True)
    link.symlink_to(home if planted != "lock" else home / "precious.txt")
    before = on_disk(home)
    with client_of(dag) as (client, _), contextlib.suppress(OSError):  # which is right, or it works
        client.download_folder(str(root), home / "photos")
        assert on_disk(home / "photos") == dag.tree(root)
    after = on_disk(home)
    outside = {name for name in before if not name.startswith(work.name)}
    assert {name: after[name] for name in outside} == {name: before[name] for name in outside}
    assert {name for name in after if not name.startswith((work.name, "photos"))} == outside


def test_a_work_folder_that_is_a_link_is_not_used(home):
    dag = FolderDag()
    root = dag.folder(("a", dag.file(b"a")))
    work = work_folder_of(root, home)
    work.symlink_to(home / "escaped")
    before = on_disk(home)
    with client_of(dag) as (client, server), pytest.raises(OSError, match="remove it"):
        client.download_folder(str(root), home / "photos")
    assert on_disk(home) == before
    assert server.requests == []


def work_folder_of(root, home):
    return WorkFolder(home / "photos", Reference.parse(str(root))).path


# Exhaustion


def wide_bomb(dag, levels, width):
    """A few kilobytes for very many folders: each level has many links to the one below."""
    cid = dag.folder(("leaf", dag.file(b"x")))
    for _ in range(levels):
        cid = dag.folder(*((f"{n}", cid) for n in range(width)))
    return cid


@pytest.mark.parametrize("kinds", [("raw",), ("raw", "car", "plain")], ids=["blocks", "archives"])
@pytest.mark.parametrize("width", [2, 16, 300])
def test_folders_in_folders_are_summed_before_they_are_written(home, width, kinds, monkeypatch):
    """Each has many links to the next: 2^40 entries, or many more, of which few are made."""
    monkeypatch.setattr(folder_dags, "MOST_BLOCKS", 200)
    made = []
    make = WorkFolder.make_folder
    monkeypatch.setattr(
        WorkFolder, "make_folder", lambda self, path: (made.append(path), make(self, path))
    )
    dag = FolderDag()
    root = wide_bomb(dag, levels=40, width=width)
    words = "^the directory has more than 1000000 entries; download parts of it$"
    with client_of(dag, kinds=kinds) as (client, server):
        with pytest.raises(MalformedError, match=words):
            client.download_folder(str(root), home / "photos")
        assert len(server.requests) < 60
    assert len(made) <= 21
    assert not list(home.glob("*photos*"))


def test_folders_that_differ_in_a_name_are_summed_once_for_each_cid(home, monkeypatch):
    monkeypatch.setattr(limits, "MAX_ENTRIES", 3_000)

    def build(dag):
        cid = dag.folder(("leaf", dag.file(b"x")))
        for number in range(30):
            halves = [dag.folder((name, cid), (f"{number}", cid)) for name in ("a", "b")]
            cid = dag.folder(("left", halves[0]), ("right", halves[1]))
        return cid

    _, _, error = try_download(build, home)
    assert "more than 3000 entries" in str(error)


def test_folders_that_are_the_same_count_at_each_place(home, monkeypatch):
    def build(dag):
        leaf = dag.folder(("a", dag.file(b"a")), ("b", dag.file(b"b")))
        pair = dag.folder(("one", leaf), ("two", leaf), ("three", dag.folder()))
        return dag.folder(("x", pair), ("y", dag.folder(("z", pair), ("leaf", leaf))), ("l", leaf))

    dag = FolderDag()
    entries = len(dag.tree(build(dag)))
    for served in (("raw",), ("raw", "car", "plain")):
        monkeypatch.setattr(limits, "MAX_ENTRIES", entries - 1)
        _, _, error = try_download(build, home, served)
        assert f"more than {entries - 1} entries" in str(error)
        monkeypatch.setattr(limits, "MAX_ENTRIES", entries)
        dag, root, error = try_download(build, home, served)
        assert error is None
        assert on_disk(home / "photos") == dag.tree(root)
        shutil.rmtree(home / "photos")


def test_a_directory_of_very_many_entries_ends_at_the_limit_before_any_is_fetched(
    home, monkeypatch
):
    monkeypatch.setattr(limits, "MAX_ENTRIES", 2_000)
    dag = FolderDag()
    root = dag.shard(*((f"{n}", dag.file(HELLO)) for n in range(3_000)))
    with client_of(dag) as (client, server):
        with pytest.raises(MalformedError, match="more than 2000 entries"):
            client.download_folder(str(root), home / "photos")
        assert all("format=" in request.target for request in server.requests)


def test_files_of_more_bytes_than_the_limit(home, monkeypatch):
    monkeypatch.setattr(limits, "MAX_BYTES", 1_000_000)
    large = ((f"{number}", lambda dag: dag.file(b"x" * 300_000)) for number in range(4))
    _, _, error = try_download(doubled(*large), home)
    assert "more than 1000000 bytes" in str(error)


def test_identity_cids_are_no_way_around_the_checks(home):
    inline = CID(1, RAW, IDENTITY, HELLO)
    link = CID(1, DAG_PB, IDENTITY, dag_pb.encode([], data.symlink_data(b"/etc")))
    folder = CID(1, DAG_PB, IDENTITY, dag_pb.encode([Link(inline, b"..", 5)], data.DIRECTORY))
    for name, cid in {"link": link, "folder": folder}.items():
        _, _, error = try_download(lambda dag: dag.folder((name, cid)), home, symlinks=True)  # noqa: B023
        assert error is not None
    fine = CID(1, DAG_PB, IDENTITY, dag_pb.encode([Link(inline, b"b", 5)], data.DIRECTORY))
    _, _, error = try_download(lambda dag: dag.folder(("f", fine), ("i", inline)), home)
    assert error is None
    assert on_disk(home / "photos") == {"f": None, "f/b": HELLO, "i": HELLO}


def run(*command):
    """Run a tool of the system; its output."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603


def test_a_full_disk_is_an_error_and_the_work_is_kept(small_disk):
    dag = FolderDag()
    files = {f"{n}": dag.file(b"%d" % n * 1_000_000) for n in range(10)}
    # Without the sizes of its files, for which it would be refused before the first one.
    links = [Link(cid, name.encode(), 0) for name, cid in files.items()]
    root = dag.put(dag_pb.encode(links, data.DIRECTORY))
    with client_of(dag) as (client, server):
        with pytest.raises(OSError, match="free some space") as caught:
            client.download_folder(str(root), small_disk / "photos")
        assert caught.value.errno == errno.ENOSPC
        assert [path for path in small_disk.iterdir() if path.name[0] != "."] == []
        mount(small_disk, "-o", "remount,size=40m")
        before = len(server.requests)
        client.download_folder(str(root), small_disk / "photos")
        assert len(server.requests) - before < 8
    assert on_disk(small_disk) == {"photos": None} | {
        f"photos/{name}": content for name, content in dag.tree(root).items()
    }


def test_a_file_that_the_disk_has_no_space_for_is_not_begun(small_disk):
    dag = FolderDag()
    root = dag.folder(("large", dag.file(bytes(20 << 20))))
    with client_of(dag) as (client, server):
        with pytest.raises(OSError, match="are free"):
            client.download_folder(str(root), small_disk / "photos")
        assert all("format=raw" in request.target for request in server.requests)
    assert list(small_disk.iterdir()) == []


def test_on_a_system_that_cannot_sync_a_whole_disk_each_file_is_synced(home, monkeypatch):
    monkeypatch.setattr(work_folder, "sync_file_system", lambda _: False)
    synced = []

    def fsync(descriptor, sync=os.fsync):
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)

    def build(dag):
        return dag.folder(("a", dag.folder(("b", dag.file(b"b")), ("l", dag.link("b")))))

    dag, root, error = try_download(build, home, symlinks=True)
    assert error is None
    assert on_disk(home / "photos") == dag.tree(root)
    assert sorted(synced) == ["a", "b", "files", "home"]


# Names alone


ORDINARY = ["a", "a b", ".hidden", "con2", "nulls", "ä", "💾", "a.b.c", "~1"]
TROUBLE = [
    "b\\c",
    "nul",
    "Aux.txt",
    "com1 .txt",
    "LPT²",
    "b::$DATA",
    "b ",
    "b...",
    "...",
    "\x1b[31mb",
]
TROUBLE += ['"b"', "b?", "b|c", "<", ">"]


@pytest.mark.parametrize("name", ORDINARY + TROUBLE)
def test_ordinary_names_are_portable(name):
    assert (why_not_portable(name) is None) == (name in ORDINARY)


def test_names_that_are_one_in_some_form():
    assert folded("É", case=False, forms=True) == folded("E\u0301", case=False, forms=True)
    assert folded("É", case=False, forms=False) != folded("E\u0301", case=False, forms=False)
    assert folded("ΣΑΣ", case=True, forms=False) == folded("σας", case=True, forms=False)
    assert folded("É", case=True, forms=True) == folded("e\u0301", case=True, forms=True)


# A file system that merges names


@pytest.fixture(scope="module")
def merging_disk(tmp_path_factory):
    """An exFAT file system: no difference of case, and many forbidden names."""
    tools = [shutil.which(name) for name in ("mkfs.exfat", "mount.exfat-fuse", "losetup", "umount")]
    if None in tools or os.geteuid() != 0 or not Path("/dev/fuse").exists():
        pytest.skip("needs root, mkfs.exfat and exfat-fuse")
    folder = tmp_path_factory.mktemp("exfat")
    image, place = folder / "image", folder / "disk"
    with image.open("wb") as file:
        file.truncate(32 << 20)
    place.mkdir()
    make, mount, loop, unmount = tools
    run(make, image)
    try:
        device = run(loop, "--find", "--show", image).strip()
    except subprocess.CalledProcessError:
        pytest.skip("there is no loop device")
    try:
        run(mount, device, place)
        yield place
        run(unmount, place)
    except subprocess.CalledProcessError:
        pytest.skip("exFAT cannot be mounted here")
    finally:
        run(loop, "--detach", device)


@pytest.mark.parametrize("case", UNUSUAL)
def test_on_a_disk_that_merges_names_nothing_is_lost_or_merged(case, merging_disk):
    home = merging_disk / case.replace(" ", "-")
    home.mkdir()
    dag, root, error = try_download(UNUSUAL[case], home)
    if error is None:
        assert on_disk(home / "photos") == dag.tree(root)
    else:
        assert "refused" in str(error) or "symbolic link" in str(error)
        assert not (home / "photos").exists()
    if case.startswith(("case", "backslash", "stream", "wildcard")) and "sharp" not in case:
        assert error is not None


def test_an_ordinary_directory_on_such_a_disk(merging_disk):
    home = merging_disk / "ordinary"
    (home / "photos").mkdir(parents=True)
    names = [(f"{n}.txt", f"{n}".encode()) for n in range(100)]
    build = lambda dag: dag.folder(*((name, dag.file(text)) for name, text in names))  # noqa: E731
    dag, root, error = try_download(build, home)
    assert error is None
    assert on_disk(home / "photos") == dag.tree(root)
    assert [path.name for path in home.iterdir()] == ["photos"]


def test_plaintext_on_a_disk_where_every_file_has_a_name(merging_disk):
    home = merging_disk / "plaintext"
    home.mkdir()
    files = {"a.txt": marked(1000), "b.txt": marked(100_000)}
    dag = FolderDag()
    root = dag.folder(*((name, dag.file(masked(text))) for name, text in files.items()))
    with ScriptedServer(serving(dag)) as server, Client.init(config_for(server)) as client:
        unmasking(client)
        for target in (home / "b.txt", home / "b.txt"):  # a new file, and one that is replaced
            killed(target)
            (left,) = files_with_plaintext(home) - {target}
            client.download(f"{root}/b.txt", to=target)
            assert files_with_plaintext(home) == {target}
            assert not left.exists()
        (home / "photos").mkdir()
        client.download_folder(str(root), home / "photos")
    assert on_disk(home / "photos") == files
    assert sorted(path.name for path in home.iterdir()) == ["b.txt", "photos"]
