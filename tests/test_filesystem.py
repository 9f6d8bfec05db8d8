"""The file system for fsspec: looking, reading, writing, errors, instances and secrets."""

import asyncio
import gc
import io
import os
import pickle
import random
import subprocess
import sys
import threading
import traceback
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import fsspec
import pytest
from fsspec.asyn import sync
from fsspec.implementations.local import make_path_posix
from fsspec.registry import _registry
from fsspec.tests import abstract

from holdfast import Client, ClientConfig, compute_cid
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.errors import ConfigError, NetworkError, UnsupportedError, VerificationError
from holdfast.filesystem import HoldfastFileSystem, IPFSFileSystem, register_ipfs
from holdfast.filesystem.staging import Staging
from tests.gateways import gateway, kind_of, kinds, pin
from tests.support import TOKEN, closed_port_url, raw_cid

LARGE = random.Random(3).randbytes(5_300_000)  # noqa: S311
FILES = {
    "a.csv": b"x,y\n1,2\n3,4\n",
    "empty": b"",
    "large.bin": LARGE,
    "more/b.csv": b"5,6\n",
    "more/deep/ü #1?.csv": b"7,8\n",
    "more/.hidden": b"seen",
}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch, tmp_path):
    """No variable of ours, no folder of the user, and no instance of another test."""
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "user-data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    HoldfastFileSystem.clear_instance_cache()
    yield
    HoldfastFileSystem.clear_instance_cache()
    gc.collect()


def options_for(node, url=None, **changes):
    """The storage options for a node, whose gateway may be at another address."""
    config = node.config
    return {
        "provider": "pinning",
        "provider_token": config.provider_token,
        "pin_api_url": config.pin_api_url,
        "gateway_url": url or config.gateway_url,
        "retries": {"attempts": 1},
        **changes,
    }


@pytest.fixture(params=["local", "pinning"])
def fs(request, tmp_path):
    if request.param == "local":
        return HoldfastFileSystem(path=tmp_path / "store")
    return HoldfastFileSystem(**options_for(request.getfixturevalue("node")))


def put(fs, folder):
    """Store all that is in a folder; return the file system, whose `cid` is that of it."""
    fs.put(f"{folder}/", "", recursive=True)
    return fs


@pytest.fixture
def folder(tmp_path):
    for path, data in FILES.items():
        target = tmp_path / "folder" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return tmp_path / "folder"


@pytest.fixture
def root(fs, folder):
    """The CID of the folder, which is stored."""
    return put(fs, folder).cid


# Looking


def test_what_is_in_a_folder(fs, root, folder):
    assert root == compute_cid(folder, include_hidden=True)
    infos = {info["name"].partition("/")[2]: info for info in fs.ls(root)}
    assert {name: (info["type"], info["size"]) for name, info in infos.items()} == {
        "a.csv": ("file", 12),
        "empty": ("file", 0),
        "large.bin": ("file", len(LARGE)),
        "more": ("directory", 0),
    }
    assert infos["a.csv"]["cid"] == raw_cid(FILES["a.csv"])
    assert infos["a.csv"] == fs.info(f"{root}/a.csv")
    assert sorted(fs.ls(root, detail=False)) == sorted(info["name"] for info in fs.ls(root))
    assert fs.ls(f"{root}/a.csv") == [infos["a.csv"]]
    assert fs.ls(f"{root}/a.csv", detail=False) == [f"{root}/a.csv"]
    assert fs.info(root) == {"name": root, "size": 0, "type": "directory", "cid": root}
    assert fs.find(root) == sorted(f"{root}/{path}" for path in FILES)
    assert fs.glob(f"{root}/**/*.csv") == [
        f"{root}/{path}" for path in sorted(FILES) if path.endswith(".csv")
    ]
    assert fs.glob(f"holdfast://{root}/*.csv") == [f"{root}/a.csv"]
    assert list(fs.walk(f"{root}/more")) == [
        (f"{root}/more", ["deep"], [".hidden", "b.csv"]),
        (f"{root}/more/deep", [], ["ü #1?.csv"]),
    ]
    assert fs.du(root) == sum(map(len, FILES.values()))
    assert fs.isdir(f"{root}/more")
    for call in (fs.cat_file, fs.open):
        with pytest.raises(IsADirectoryError):
            call(f"{root}/more")


@pytest.mark.parametrize(
    "form", ["holdfast://{}", "holdfast:///ipfs/{}", "/ipfs/{}/", "ipfs://{}", "{}"]
)
def test_the_forms_of_a_path(form):
    path = f"{raw_cid(b'x')}/a/b"
    assert HoldfastFileSystem._strip_protocol(form.format(path)) == path
    assert HoldfastFileSystem._strip_protocol(["holdfast://a", "/b/"]) == ["a", "b"]
    assert HoldfastFileSystem._parent("holdfast://CID/a/b") == "CID/a"
    assert HoldfastFileSystem._parent("holdfast://CID") == ""
    assert HoldfastFileSystem(path="x").unstrip_protocol("CID/a") == "holdfast://CID/a"


def test_what_is_not_there(fs, root):
    for path in (
        f"{root}/none",
        f"{root}/a.csv/inside",
        f"{root}/more/none/b",
        "none",
        f"{root}/../x",
    ):
        assert (fs.exists(path), fs.isdir(path), fs.isfile(path)) == (False, False, False)
        for call in (fs.info, fs.ls, fs.cat_file, fs.open):
            with pytest.raises(FileNotFoundError):
                call(path)
        assert fs.find(path) == []


def test_the_top_level_has_no_list(fs, root):
    """The pins of an account are not a folder, and `find` would read all of them."""
    for path in ("", "/", "holdfast://"):
        for call in (fs.ls, fs.info, fs.find, fs.du, lambda path: list(fs.walk(path))):
            with pytest.raises(FileNotFoundError, match=r"begin with a CID .*pins"):
                call(path)
        assert not fs.exists(path)
    for pattern in ("*", "*.csv", "holdfast://**"):
        with pytest.raises(FileNotFoundError, match="begin with a CID"):
            fs.glob(pattern)


def test_times_and_checksums(fs, root):
    """Content never changes: its time is always the same, and its number is that of its CID."""
    path = f"{root}/a.csv"
    for call in (fs.modified, fs.created):
        assert call(path) == call(root) == datetime(1970, 1, 1, tzinfo=UTC)
    assert fs.checksum(path) == fs.checksum(raw_cid(FILES["a.csv"]))
    assert fs.checksum(path) != fs.checksum(f"{root}/more/b.csv")
    assert fs.ukey(path) == fs.ukey(f"holdfast://{path}")
    for call in (fs.modified, fs.created, fs.checksum):
        with pytest.raises(FileNotFoundError):
            call(f"{root}/none")
    before = datetime.now(UTC).replace(microsecond=0)
    with fs.transaction:
        fs.pipe("a.txt", b"one")
        assert before <= fs.modified("a.txt") <= datetime.now(UTC)
        assert before <= fs.created("a.txt") <= datetime.now(UTC)
        first = fs.checksum("a.txt"), fs.ukey("a.txt")
        os.utime(fs._staging.path_of("a.txt"), (0, 0))
        assert first != (fs.checksum("a.txt"), fs.ukey("a.txt"))


def test_sign_returns_an_address_that_others_can_read(node, folder, tmp_path):
    fs = put(HoldfastFileSystem(**options_for(node)), folder)
    for path in ("a.csv", "more/deep/ü #1?.csv"):
        url = fs.sign(f"holdfast://{fs.cid}/{path}", expiration=60)
        with urllib.request.urlopen(url, timeout=20) as reply:  # noqa: S310 - HTTP
            assert reply.read() == FILES[path]
    with pytest.raises(FileNotFoundError, match="must begin with a CID"):
        fs.sign("a.csv")
    store = HoldfastFileSystem(path=tmp_path / "store")
    with pytest.raises(NotImplementedError, match="set gateway_url"):
        store.sign(f"{fs.cid}/a.csv")


def test_sign_of_private_content(node):
    """The service signs it; the link works without the token, until it expires."""
    private = options_for(node, provider="pinata", provider_options={"network": "private"})
    fs = HoldfastFileSystem(**private)
    with Client.init(**private) as client:
        cid = client.upload(b"only for us", name="a.txt").cid
    with urllib.request.urlopen(fs.sign(cid, expiration=60), timeout=20) as reply:  # noqa: S310
        assert reply.read() == b"only for us"


def test_a_failure_is_not_an_empty_folder(node, tmp_path, folder):
    """A copy must not be incomplete because a gateway failed."""
    fs = put(HoldfastFileSystem(**options_for(node)), folder)
    deep = fs.info(f"{fs.cid}/more/deep")["cid"]

    def script(kind, request, reply):
        return type(reply)(status=500) if deep in request.target else reply

    with gateway(node, script) as server:
        broken = HoldfastFileSystem(**options_for(node, server.url))
        with pytest.raises(Exception, match="500"):
            broken.get(fs.cid, str(tmp_path / "copy"), recursive=True)
        with pytest.raises(Exception, match="500"):
            broken.find(fs.cid)
    away = HoldfastFileSystem(**options_for(node, closed_port_url()))
    for call in (away.exists, away.isdir, away.isfile, away.info, away.ls, away.find):
        with pytest.raises(NetworkError):
            call(fs.cid)


# Reading


def test_an_open_file_is_as_one_in_memory(fs, root):
    with fs.open(f"{root}/large.bin", block_size=1 << 20) as file:
        assert (file.size, file.readable(), file.seekable()) == (len(LARGE), True, True)
        for place, size in ((4_000_000, 999), (17, 1), (2_000_000, 400_000), (len(LARGE) + 5, 9)):
            assert file.seek(place) == place
            assert file.read(size) == LARGE[place : place + size]
        assert file.seek(-7, io.SEEK_END) == len(LARGE) - 7
        assert file.read() == LARGE[-7:]
    with pytest.raises(ValueError, match="closed"):
        file.read()
    with fs.open(f"{root}/a.csv", "rt") as text:
        assert list(text) == ["x,y\n", "1,2\n", "3,4\n"]
    with fs.open(f"{root}/large.bin", cache_type="none") as file:
        assert file.read() == LARGE


def test_parts_of_files(fs, root):
    path = f"{root}/large.bin"
    for start, end in [(None, None), (10, 20), (-10, None), (None, -5), (9, 3), (5_299_999, 9**9)]:
        assert fs.cat_file(path, start, end) == LARGE[start:end]
    starts = [0, 1_000_000, 5_000_000, 17]
    ends = [10, 3_000_000, None, 18]
    parts = fs.cat_ranges([path] * 4, starts, ends)
    assert parts == [LARGE[start:end] for start, end in zip(starts, ends, strict=True)]
    missing = fs.cat_ranges([path, f"{root}/none"], [0, 0], [3, 3])
    assert missing[0] == LARGE[:3]
    assert isinstance(missing[1], FileNotFoundError)
    both = [f"{root}/a.csv", f"{root}/more/b.csv"]
    assert fs.cat(both) == {both[0]: FILES["a.csv"], both[1]: b"5,6\n"}
    assert fs.head(path, 5) == LARGE[:5]
    assert fs.tail(path, 5) == LARGE[-5:]


def test_only_what_is_needed_is_fetched(node, folder):
    fs = put(HoldfastFileSystem(**options_for(node)), folder)
    sent = []

    def count(kind, request, reply):
        sent.append(len(reply.body))
        return reply

    with gateway(node, count) as server:
        counted = HoldfastFileSystem(**options_for(node, server.url))
        part = counted.cat_file(f"{fs.cid}/large.bin", 4_000_000, 4_000_010)
        assert part == LARGE[4_000_000:4_000_010]
        assert sum(sent) < 1_100_000  # a block of 1 MiB, and the blocks on the way to it
        before = len(server.requests)
        counted.cat_ranges([f"{fs.cid}/large.bin"] * 3, [1, 2_000_000, 5_000_000], 5_000_100)
        assert "plain" in kinds(server)[before:]
        assert len(kinds(server)[before:]) == 3  # what leads to the file is known


def test_a_lie_is_not_read(node):
    cid = pin(node, LARGE, UNIXFS_V1_2025)

    def lie(kind, request, reply):
        if kind_of(request) == "plain":
            return type(reply)(status=reply.status, headers=reply.headers, body=reply.body[::-1])
        return reply

    with gateway(node, lie, refuse=("car",)) as server:
        fs = HoldfastFileSystem(**options_for(node, server.url))
        with pytest.raises(VerificationError), fs.open(cid) as file:
            file.read()


# Writing


def test_a_transaction_makes_a_directory(fs):
    assert fs.cid is None
    with fs.transaction:
        fs.pipe("a.txt", b"one")
        with fs.open("inner/b.txt", "w") as file:
            file.write("two")
        with fs.open("inner/b.txt", "ab") as file:
            file.write(b" more")
        unclosed = fs.open("c.txt", "wb")
        unclosed.write(b"three")
        fs.mkdir("gone")
        fs.rm("gone", recursive=True)
        fs.touch("d.txt")
        fs.mv("d.txt", "e.txt")
        assert fs.find("") == ["a.txt", "c.txt", "e.txt", "inner/b.txt"]
        assert fs.cat_file("inner/b.txt", 1, -1) == b"wo mor"
        assert fs.isdir("inner")
        assert fs.isdir("")
    assert {path.partition("/")[2]: fs.cat_file(path) for path in fs.find(fs.cid)} == {
        "a.txt": b"one",
        "c.txt": b"three",
        "e.txt": b"",
        "inner/b.txt": b"two more",
    }
    assert not fs.exists("a.txt")


def test_a_transaction_that_fails_stores_nothing(fs, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()

    with pytest.raises(KeyError), fs.transaction:  # noqa: PT012 - the block fails at its end
        fs.pipe("a.txt", b"one")
        assert list((tmp_path / "temporary").iterdir()) != []
        raise KeyError
    assert fs.cid is None
    assert list((tmp_path / "temporary").iterdir()) == []
    with pytest.raises(PermissionError):
        fs.pipe("a.txt", b"one")
    with fs.transaction:
        assert fs.ls("") == []  # nothing is written, so nothing is stored
    assert fs.cid is None
    fs.start_transaction()
    fs.pipe("a.txt", b"one")
    fs.end_transaction()
    assert fs.cat(f"{fs.cid}/a.txt") == b"one"
    assert list((tmp_path / "temporary").iterdir()) == []


def test_an_empty_folder_is_dropped(fs, folder):
    """A form cannot carry it, and the whole transaction was lost."""
    with fs.transaction:
        fs.pipe("a.txt", b"one")
        fs.mkdir("empty")
        fs.makedirs("some/deep/folders")
    assert fs.find(fs.cid, withdirs=True) == [fs.cid, f"{fs.cid}/a.txt"]
    root = fs.cid
    with fs.transaction:
        fs.mkdir("empty")
    assert fs.cid == root  # nothing is written, so nothing is stored
    (folder / "more/empty").mkdir()
    put(fs, folder)
    (folder / "more/empty").rmdir()
    assert fs.cid == compute_cid(folder, include_hidden=True)


def test_a_file_of_patterns_is_a_file_like_any_other(fs):
    with fs.transaction:
        fs.pipe({".ipfsignore": b"*", "a.txt": b"one"})
    assert fs.find(fs.cid) == [f"{fs.cid}/.ipfsignore", f"{fs.cid}/a.txt"]


@pytest.mark.parametrize("is_async", [False, True])
def test_the_files_of_a_failed_commit_stay(node, tmp_path, monkeypatch, is_async):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    away = {"pin_api_url": closed_port_url(), "asynchronous": is_async}
    fs = HoldfastFileSystem(**options_for(node, **away))

    def write():
        with fs.transaction:
            fs.pipe("more/a.txt", b"hours of work")

    async def write_async():
        async with fs.transaction:
            await fs._pipe_file("more/a.txt", b"hours of work")
        await fs.aclose()

    with pytest.raises(NetworkError) as caught:
        asyncio.run(write_async()) if is_async else write()
    (left,) = tmp_path.glob("holdfast-*/data")
    assert any(str(left) in note for note in caught.value.__notes__)
    assert fs.cid is None
    assert (left / "more/a.txt").read_bytes() == b"hours of work"
    again = HoldfastFileSystem(**options_for(node))
    put(again, left)  # as the note says
    assert again.cat_file(f"{again.cid}/more/a.txt") == b"hours of work"
    with pytest.raises(NetworkError) as caught:
        put(HoldfastFileSystem(**options_for(node, pin_api_url=closed_port_url())), left)
    assert "holdfast-" not in str(getattr(caught.value, "__notes__", ""))  # nothing is lost
    assert list(tmp_path.glob("holdfast-*/data")) == [left]


def test_text_and_compressed_files_that_are_left_open_are_complete(fs):
    with fs.transaction:
        text = fs.open("a.txt", "w")
        text.write("hello")
        packed = fs.open("b.gz", "wb", compression="gzip")
        packed.write(b"hello")
    assert fs.cat_file(f"{fs.cid}/a.txt") == b"hello"
    with fs.open(f"{fs.cid}/b.gz", compression="gzip") as file:
        assert file.read() == b"hello"


def test_one_transaction_at_a_time(fs):
    with fs.transaction:
        fs.pipe("a.txt", b"one")
        for start in (fs.transaction.start, fs.start_transaction):
            with pytest.raises(RuntimeError, match="skip_instance_cache"):
                start()
        fs.pipe("b.txt", b"two")
    assert len(fs.find(fs.cid)) == 2
    fs.end_transaction()  # none is open
    with fs.transaction:
        fs.pipe("a.txt", b"three")
    assert fs.cat_file(f"{fs.cid}/a.txt") == b"three"


@pytest.mark.slow
def test_many_threads_write_in_one_transaction(fs):
    def write(number):
        with fs.open(f"{number % 7}/{number}.txt", "w") as file:
            file.write(str(number))

    with fs.transaction, ThreadPoolExecutor(16) as threads:
        list(threads.map(write, range(100)))
    assert {path.partition("/")[2]: fs.cat_file(path) for path in fs.find(fs.cid)} == {
        f"{number % 7}/{number}.txt": str(number).encode() for number in range(100)
    }


def test_threads_that_put_do_not_mix_their_files(tmp_path):
    fs = HoldfastFileSystem(path=tmp_path / "store")
    roots = []
    for number in range(12):
        for name in "abc":
            path = tmp_path / f"{number}/{name}"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{number}{name}")
        roots.append(compute_cid(tmp_path / str(number)))
    with ThreadPoolExecutor(12) as threads:
        list(threads.map(lambda number: put(fs, tmp_path / str(number)), range(12)))
    with Client.init(path=tmp_path / "store") as client:
        assert sorted(pin.cid for pin in client.pins()) == sorted(roots)


def test_names_with_special_characters(fs, tmp_path):
    names = ["ü #1?.csv", "100%.txt", "a%2Fb", "~x", "'quote'", "dots...", "emoji 🦭", "a&b=c;d"]
    with fs.transaction:
        for name in names:
            fs.pipe_file(f"inner/{name}", name.encode())
            assert fs.cat_file(f"inner/{name}") == name.encode()
    assert sorted(fs.find(fs.cid)) == sorted(f"{fs.cid}/inner/{name}" for name in names)
    for name in names:
        path = f"holdfast://{fs.cid}/inner/{name}"
        assert fs.cat_file(path) == name.encode()
        fs.get_file(path, str(tmp_path / "copy"))
        assert (tmp_path / "copy").read_bytes() == name.encode()
        assert fs.checksum(path) == fs.checksum(raw_cid(name.encode()))


def test_nothing_is_written_outside_of_a_transaction_or_under_a_cid(fs, root):
    def calls(path):
        return [
            lambda: fs.pipe(path, b"x"),
            lambda: fs.open(path, "wb"),
            lambda: fs.open(path, "ab"),
            lambda: fs.mkdir(path),
            lambda: fs.makedirs(path, exist_ok=True),
            lambda: fs.rm_file(path),
            lambda: fs.cp_file(f"{root}/a.csv", path),
            lambda: fs.put_file(__file__, path),
        ]

    for call in calls("new.txt"):
        with pytest.raises(PermissionError, match="in a transaction"):
            call()
    with fs.transaction:
        for call in calls(f"{root}/new.txt"):
            with pytest.raises(PermissionError, match="cannot be changed"):
                call()
    assert fs.cid == root


@pytest.mark.parametrize("path", ["../out.txt", "a/../../out.txt", "a/./b", "/../out.txt", ".."])
def test_no_path_leads_out_of_the_transaction(fs, tmp_path, path):
    with fs.transaction:
        for call in (
            lambda: fs.pipe(path, b"x"),
            lambda: fs.open(path, "wb"),
            lambda: fs.put_file(__file__, path),
            lambda: fs.mkdir(path),
            lambda: fs.cat_file(path),
        ):
            with pytest.raises(FileNotFoundError):
                call()


def test_content_is_copied_into_a_transaction(fs, root):
    with fs.transaction:
        fs.cp(f"{root}/more", "copied", recursive=True)
        fs.cp(f"{root}/a.csv", "a.csv")
    assert fs.info(f"{fs.cid}/copied")["cid"] == fs.info(f"{root}/more")["cid"]
    assert fs.cat(f"{fs.cid}/a.csv") == FILES["a.csv"]


@pytest.fixture
def linked(folder, tmp_path):
    """The folder with links: out of it, to a folder, in a circle, and to nothing."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.txt").write_bytes(b"not to be published")
    (folder / "file").symlink_to(tmp_path / "outside/secret.txt")
    (folder / "more/outside").symlink_to(tmp_path / "outside")
    (folder / "more/circle").symlink_to("..")
    (folder / "broken").symlink_to("nowhere")
    return folder


@pytest.mark.parametrize("form", ["{}/", "{}/*"])
def test_put_stores_links_as_upload_does(tmp_path, linked, form):
    fs = HoldfastFileSystem(path=tmp_path / "store")
    (linked / "more/.hidden").unlink()  # a pattern leaves it out
    fs.put(form.format(linked), "", recursive=True)
    with Client.init(path=tmp_path / "other") as client:
        assert fs.cid == client.upload(linked).cid
    assert fs.info(f"{fs.cid}/file")["type"] == "link"
    with pytest.raises(IsADirectoryError, match="symbolic link"):
        fs.cat_file(f"{fs.cid}/file")


def test_put_refuses_links_where_upload_does(node, linked):
    fs = HoldfastFileSystem(**options_for(node))
    with pytest.raises(UnsupportedError, match="cannot carry 'broken', a link"):
        put(fs, linked)
    assert fs.cid is None


def test_a_pattern_does_not_lead_through_a_link(tmp_path, linked):
    fs = HoldfastFileSystem(path=tmp_path / "store")
    for pattern in ("more/*/secret.txt", "**/secret.txt"):
        with pytest.raises(FileNotFoundError):
            fs.put(f"{linked}/{pattern}", "", recursive=True)
    fs.put(f"{linked}/**", "all", recursive=True)
    assert not [path for path in fs.find(fs.cid) if path.endswith("secret.txt")]


def test_a_link_that_is_named_is_followed(fs, linked, folder, tmp_path):
    (tmp_path / "name").symlink_to(folder / "more/deep")
    (folder / "more/deep/inner").write_bytes(b"in")
    fs.put(str(tmp_path / "name"), "renamed", recursive=True)
    assert fs.cat_file(f"{fs.cid}/renamed/inner") == b"in"
    fs.put([str(linked / "file")], "into/")
    assert fs.cat_file(f"{fs.cid}/into/file") == b"not to be published"
    fs.put(str(linked / "file"), "copy.txt")
    assert fs.cat_file(f"{fs.cid}/copy.txt") == b"not to be published"


def test_no_link_leads_out_of_a_transaction(tmp_path, linked):
    fs = HoldfastFileSystem(path=tmp_path / "store")
    secret = tmp_path / "outside/secret.txt"
    with fs.transaction:
        put(fs, linked)
        assert fs.info("file")["destination"] == str(secret)
        assert fs.isdir("more/outside") is False
        for call in (fs.cat_file, fs.open, lambda path: fs.get(path, str(tmp_path / "copy"))):
            with pytest.raises(IsADirectoryError, match="symbolic link"):
                call("file")
        fs.cp("more", "copied", recursive=True)
        fs.mv("broken", "moved")
        fs.rm("more/circle")
        fs.pipe("file", b"mine")
        fs.pipe("more/outside/new.txt", b"mine")
    assert secret.read_bytes() == b"not to be published"
    assert list(secret.parent.iterdir()) == [secret]
    types = {info["name"].partition("/")[2]: info["type"] for info in
             fs.find(fs.cid, detail=True).values()}  # fmt: skip
    assert {path for path, kind in types.items() if kind == "link"} == {
        "copied/circle", "copied/outside", "moved",
    }  # fmt: skip
    assert types["file"] == types["more/outside/new.txt"] == "file"


def test_a_folder_that_becomes_a_link_is_not_followed(tmp_path, linked, monkeypatch):
    """Between the listing and the copy, somebody replaces a folder, or a file."""
    fs = HoldfastFileSystem(path=tmp_path / "store")
    copy_in, folder_is_copied = Staging.copy_in, threading.Event()

    def replace(self, path, source, *args, **options):
        if path == "more/deep/ü #1?.csv" and not (linked / "more/deep").is_symlink():
            assert folder_is_copied.wait(60)
            (linked / "more/deep").rename(tmp_path / "away")
            (linked / "more/deep").symlink_to(tmp_path / "away")
        copy_in(self, path, source, *args, **options)
        if path == "more/deep":
            folder_is_copied.set()

    monkeypatch.setattr(Staging, "copy_in", replace)
    with pytest.raises(OSError, match="was replaced while it was read"):
        put(fs, linked)
    assert fs.cid is None


def test_a_named_pipe_is_refused(fs, folder):
    os.mkfifo(folder / "more/pipe")
    with pytest.raises(OSError, match="is a named pipe"):
        put(fs, folder)
    assert fs.cid is None


# Instances and secrets


def test_the_protocol_is_registered(tmp_path):
    assert fsspec.get_filesystem_class("holdfast") is HoldfastFileSystem
    assert HoldfastFileSystem().config == ClientConfig()
    with pytest.raises(ConfigError, match="did you mean 'gateway_url'"):
        HoldfastFileSystem(gateway_ur="https://example.com")
    fs = fsspec.filesystem("holdfast", path=tmp_path)
    assert fs is fsspec.filesystem("holdfast", path=tmp_path)
    assert fs is not fsspec.filesystem("holdfast", path=tmp_path / "other")
    with fs.transaction:
        fs.pipe("a.txt", b"hello")
    with fsspec.open(f"holdfast://{fs.cid}/a.txt", "rt", path=tmp_path) as file:
        assert file.read() == "hello"


def test_the_environment_gives_the_options(tmp_path, monkeypatch):
    with Client.init(path=tmp_path / "one") as client:
        cid = client.upload(b"hello").cid
    monkeypatch.setenv("HOLDFAST_PATH", str(tmp_path / "one"))
    assert fsspec.filesystem("holdfast").cat_file(cid) == b"hello"
    monkeypatch.setenv("HOLDFAST_PATH", str(tmp_path / "two"))
    with pytest.raises(FileNotFoundError):
        fsspec.filesystem("holdfast").cat_file(cid)
    assert fsspec.filesystem("holdfast", path=tmp_path / "one").cat_file(cid) == b"hello"


def test_a_secret_is_not_shown_shared_with_others_or_pickled(node, monkeypatch):
    options = options_for(node, provider_token=TOKEN)
    fs = HoldfastFileSystem(**options)
    other = HoldfastFileSystem(**{**options, "provider_token": TOKEN + "x"})
    assert fs is not other
    assert fs != other
    assert fs._fs_token != other._fs_token
    assert fs.config.provider_token.reveal() == TOKEN
    for text in (repr(fs), str(vars(fs)), str(fs.storage_options), str(fsspec.open("x", fs=fs)),
                 str(HoldfastFileSystem._cache)):  # fmt: skip
        assert TOKEN not in text
    assert TOKEN.encode() not in pickle.dumps(fs)
    for write in (fs.to_json, fs.to_dict, lambda: fs.to_json(include_password=False)):
        with pytest.raises(TypeError, match="HOLDFAST_PROVIDER_TOKEN") as caught:
            write()
        assert TOKEN not in str(caught.value)
    for name in ("provider_tokn", "proxy"):
        with pytest.raises(ConfigError) as caught:
            HoldfastFileSystem(**{name: TOKEN, "provider": "pinning", "timeouts": 5})
        stack = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
        ours = [frame for frame in stack.stack if "/holdfast/" in frame.filename]
        assert ours
        assert not [frame for frame in ours if TOKEN in str(frame.locals)]
    monkeypatch.setitem(fsspec.config.conf, "holdfast", {"provider_token": TOKEN})
    assert TOKEN not in str(vars(HoldfastFileSystem(provider="pinning")))


def test_the_same_secret_gives_the_same_instance(node):
    """So a tool that is given the same options writes in the transaction that is open."""
    options = options_for(node, gateway_token="g" * 20)
    fs = fsspec.filesystem("holdfast", **options)
    assert fs is fsspec.filesystem("holdfast", **dict(reversed(options.items())))
    assert fs is fsspec.open("holdfast://a.txt", **options).fs
    for name in ("provider_token", "gateway_token"):
        assert fs is not fsspec.filesystem("holdfast", **{**options, name: "other-" + TOKEN})
    assert fs is not fsspec.filesystem("holdfast", **options, skip_instance_cache=True)
    with fs.transaction, fsspec.open("holdfast://a.txt", "w", **options) as file:
        file.write("hello")
    assert fs.cat_file(f"{fs.cid}/a.txt") == b"hello"


def run_python(code, *arguments, stdin=b"", **variables):
    """The finished process of a script, to which warnings are errors."""
    return subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-W", "error", "-c", code, *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        env={**os.environ, **variables},
    )


def unpickle(data, path, **variables):
    code = (
        "import pickle, sys; fs = pickle.load(sys.stdin.buffer); "
        "sys.stdout.buffer.write(fs.cat_file(sys.argv[1]) + fs.open(sys.argv[1]).read())"
    )
    return run_python(code, path, stdin=data, **variables)


@pytest.mark.slow
def test_a_pickle_has_no_secret_and_needs_the_environment(node):
    fs = HoldfastFileSystem(**options_for(node, provider_token=TOKEN))
    cid = pin(node, b"hello", UNIXFS_V1_2025)
    data = pickle.dumps(fs)
    assert data == pickle.dumps(fs)
    assert pickle.loads(data) is fs  # noqa: S301
    assert pickle.loads(pickle.dumps(fs.open(cid))).read() == b"hello"  # noqa: S301
    loaded = unpickle(data, cid, HOLDFAST_PROVIDER_TOKEN=TOKEN)
    assert (loaded.stdout, loaded.stderr) == (b"hellohello", b"")  # it ends without a word
    refused = unpickle(data, cid)
    assert refused.returncode == 1
    assert b"ConfigError: a token is never pickled: set HOLDFAST_PROVIDER_TOKEN" in refused.stderr
    alone = HoldfastFileSystem(**options_for(node, provider_token=TOKEN), skip_instance_cache=True)
    assert pickle.loads(pickle.dumps(alone)) is fs  # noqa: S301


@pytest.mark.slow
def test_a_forked_process_does_not_remove_the_files_of_a_transaction(tmp_path):
    code = (
        "import os, sys\n"
        "from holdfast.filesystem import HoldfastFileSystem\n"
        "fs = HoldfastFileSystem(path=sys.argv[1])\n"
        "with fs.transaction:\n"
        "    fs.pipe('a.txt', b'hello')\n"
        "    if not (child := os.fork()):\n"
        "        import atexit\n"
        "        atexit._run_exitfuncs()\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
        "print(fs.cat_file(f'{fs.cid}/a.txt'), flush=True)\n"
    )
    assert run_python(code, tmp_path / "store").stdout == b"b'hello'\n"


@pytest.mark.slow
def test_a_forked_process_gets_an_instance_of_its_own(node):
    cid = pin(node, b"hello", UNIXFS_V1_2025)
    code = (
        "import os, pickle, sys\n"
        "from holdfast.filesystem import HoldfastFileSystem\n"
        "fs = HoldfastFileSystem(provider='pinning', provider_token='t' * 20, "
        "gateway_url=sys.argv[1])\n"
        "fs.cat_file(sys.argv[2])\n"
        "data = pickle.dumps(fs)\n"
        "if child := os.fork():\n"
        "    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "print(pickle.loads(data).cat_file(sys.argv[2]), flush=True)\n"
        "os._exit(0)\n"
    )
    assert run_python(code, node.gateway_url, cid).stdout == b"b'hello'\n"


def test_the_client_is_closed_when_the_file_system_is_collected(node):
    fs = HoldfastFileSystem(**options_for(node), skip_instance_cache=True)
    cid = pin(node, b"hello", UNIXFS_V1_2025)
    assert fs.cat_file(cid) == b"hello"
    client = fs._client
    del fs
    gc.collect()
    with pytest.raises(RuntimeError, match="closed"):
        sync(fsspec.asyn.get_loop(), client.retrieve, cid)


# Awaited


async def test_an_asynchronous_file_system(node, folder):
    fs = HoldfastFileSystem(**options_for(node), asynchronous=True)
    async with fs.transaction:
        await fs._put(f"{folder}/", "", recursive=True)
    root = fs.cid
    assert root == compute_cid(folder, include_hidden=True)
    assert await fs._cat_file(f"{root}/more/b.csv") == b"5,6\n"
    assert len(await fs._find(root)) == len(FILES)
    file = await fs.open_async(f"{root}/large.bin")
    assert await file.read(10) == LARGE[:10]
    assert file.seek(1_000_000) == 1_000_000
    assert await file.read() == LARGE[1_000_000:]
    await file.close()
    assert await fs._modified(f"{root}/a.csv") == datetime(1970, 1, 1, tzinfo=UTC)
    assert await fs._checksum(f"{root}/a.csv") == await fs._checksum(raw_cid(FILES["a.csv"]))
    assert (await fs._sign(f"{root}/a.csv")).startswith("http")
    with pytest.raises(PermissionError):
        await fs.open_async("x", "wb")
    with pytest.raises(PermissionError, match="async with"):
        await fs._pipe_file("x", b"")
    with pytest.raises(RuntimeError, match="async with"), fs.transaction:
        await fs._pipe_file("a", b"")
    await fs.aclose()


def test_one_instance_in_two_event_loops(tmp_path):
    fs = HoldfastFileSystem(path=tmp_path, asynchronous=True)

    async def work():
        async with fs.transaction:
            await fs._pipe_file("a.txt", b"hello")
        return await fs._cat_file(f"{fs.cid}/a.txt")

    assert asyncio.run(work()) == b"hello"
    assert asyncio.run(work()) == b"hello"


def test_a_folder_behind_kubo(kubo, folder, tmp_path):
    """Another engine's directories and gateway; the second time, nothing is asked for."""
    with Client.init(path=tmp_path / "store") as client:
        root = client.upload(folder, include_hidden=True).cid
        kubo.import_car(b"".join(client.provider.export_car(root)))
    with gateway(kubo) as server:
        cache = {"cache_path": tmp_path / "cache", "cache_bytes": 64 << 20}
        config = kubo.config(gateway_url=f"{server.url}/ipfs", **cache)
        for turn in range(2):
            before = len(server.requests)
            fs = HoldfastFileSystem(**config.to_dict())
            assert fs.find(root) == sorted(f"{root}/{path}" for path in FILES)
            for path, data in FILES.items():
                assert fs.cat_file(f"{root}/{path}") == data
                with fs.open(f"{root}/{path}") as file:
                    assert file.read() == data
            assert (kinds(server)[before:] == []) == bool(turn)


# The tests of fsspec itself: a transaction is open, except where content is read


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, tmp_path):
        fs = HoldfastFileSystem(path=tmp_path / "store", skip_instance_cache=True)
        with fs.transaction:
            yield fs

    @pytest.fixture(params=["work", pytest.param("", marks=pytest.mark.slow, id="top")])
    def fs_path(self, request):
        return request.param

    @pytest.fixture
    def local_path(self, tmp_path):
        (tmp_path / "here").mkdir()
        return make_path_posix(str(tmp_path / "here"))

    @pytest.fixture
    def supports_empty_directories(self):
        return True


for long in (
    abstract.AbstractCopyTests.test_copy_glob_edge_cases,
    abstract.AbstractPutTests.test_put_glob_edge_cases,
    abstract.AbstractGetTests.test_get_glob_edge_cases,
):
    pytest.mark.slow(long)


class TestWrites(
    abstract.AbstractCopyTests,
    abstract.AbstractPutTests,
    abstract.AbstractPipeTests,
    abstract.AbstractOpenTests,
    Fixtures,
):
    pass


def stored_scenario(name):
    """A fixture: the path under its CID of what fsspec's scenario writes in a transaction."""

    def scenario(self, fs, fs_join, fs_path):
        with fs.transaction:
            source = getattr(self, f"_{name}")(fs, fs_join, fs_path)
        return f"{fs.cid}/{source}"

    return pytest.fixture(scenario)


NO_FOLDER_ABOVE = (
    "`other_paths` of fsspec removes the folder above the source, and here is none: "
    "a second `get` of `src` into `target` goes to `target`, and not to `target/src`"
)


class TestGet(abstract.AbstractGetTests, Fixtures):
    """These read what is stored under a CID."""

    @pytest.fixture
    def fs(self, tmp_path):
        return HoldfastFileSystem(path=tmp_path / "store", skip_instance_cache=True)

    fs_bulk_operations_scenario_0 = stored_scenario("bulk_operations_scenario_0")
    fs_glob_edge_cases_files = stored_scenario("glob_edge_cases_files")
    fs_dir_and_file_with_same_name_prefix = stored_scenario("dir_and_file_with_same_name_prefix")
    fs_10_files_with_hashed_names = stored_scenario("10_files_with_hashed_names")

    @pytest.fixture(autouse=True)
    def in_a_transaction(self, request, fs):
        """One of them writes by itself."""
        if request.node.originalname != "test_get_directory_recursive":
            yield
            return
        if "top" in request.node.name:
            request.applymarker(pytest.mark.xfail(reason=NO_FOLDER_ABOVE))
        with fs.transaction:
            yield


# Public content, as ipfs://


@pytest.fixture
def ipfs_name():
    """The name ipfs is free before and after the test; others in this process may have taken it."""
    _registry.pop("ipfs", None)
    yield
    _registry.pop("ipfs", None)
    IPFSFileSystem.clear_instance_cache()


def test_public_content_is_read_by_ipfs_urls_on_request(node, ipfs_name, monkeypatch):
    cid = pin(node, b"x,y\n1,2\n", UNIXFS_V1_2025)
    # What is in the environment for a service is not for a gateway.
    monkeypatch.setenv("HOLDFAST_PROVIDER", "cluster")
    monkeypatch.setenv("HOLDFAST_PROVIDER_TOKEN", TOKEN)
    monkeypatch.setenv("HOLDFAST_PIN_API_URL", "https://a.example,https://b.example")
    with pytest.raises((ValueError, ImportError)):
        fsspec.open(f"ipfs://{cid}")
    register_ipfs()
    register_ipfs()
    with fsspec.open(f"ipfs://{cid}", gateway_url=node.gateway_url) as file:
        assert file.read() == b"x,y\n1,2\n"
    monkeypatch.setenv("HOLDFAST_GATEWAY_URL", node.gateway_url)
    fs, path = fsspec.url_to_fs(f"ipfs://{cid}")
    assert (fs.config.provider, fs.config.provider_token, path) == ("gateway", None, cid)
    assert fs.config.gateway_url == (node.gateway_url,)
    assert fs.unstrip_protocol(path) == f"ipfs://{cid}"
    assert pickle.loads(pickle.dumps(fs)).cat_file(cid) == b"x,y\n1,2\n"  # noqa: S301
    with pytest.raises(UnsupportedError), fs.transaction:
        fs.pipe_file("a", b"1")
    other = fsspec.filesystem("ipfs", provider="pinning", pin_api_url="https://a.example")
    assert other.config.provider_token == TOKEN  # another provider has its own rules


def test_a_lying_gateway_of_ipfs_urls_is_caught(node, ipfs_name):
    cid = pin(node, b"x,y\n1,2\n", UNIXFS_V1_2025)
    register_ipfs()
    with gateway(node, lambda kind, request, reply: replace(reply, body=b"x,y\n1,3\n")) as liar:
        options = {"gateway_url": f"{liar.url}/ipfs", "retries": {"attempts": 1}}
        with pytest.raises(VerificationError), fsspec.open(f"ipfs://{cid}", **options) as file:
            file.read()
