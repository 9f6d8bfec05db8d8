"""Folders up: the same CIDs through every provider, and errors before anything is sent."""

import logging
import os
import re
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast import AsyncClient, ClientConfig, arguments, compute_cid, verify
from holdfast.content.cid import CID
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V1_2025
from holdfast.errors import UnprovenError, UnsupportedError, VerificationError
from holdfast.sources import folder_source
from holdfast.sources.folder_source import FolderSource
from holdfast.sources.importing import import_content
from tests.content import VECTORS, make_directory, make_folder
from tests.support import EMPTY_DIRECTORY_V0, HELLO_CID, config_for, pinned
from tests.wrapping import PrefixedSource, size_of

PROFILES = {0: "unixfs-v0-2015", 1: "unixfs-v1-2025"}
AGAIN = {"attempts": 3, "base": 0.01, "cap": 0.02}


@pytest.fixture
async def local(memory_folder):
    async with await AsyncClient.init(path=memory_folder / "store") as client:
        yield client


@pytest.fixture
def folder(tmp_path):
    """Three files of 9 bytes and more, in two folders."""
    contents = {"b.txt": b"b", "2024/a.txt": b"hello", "2024/c.bin": b"xyz"}
    return make_folder(tmp_path / "photos", contents)


def filenames(request):
    return re.findall(r'filename="([^"]*)"', request.body.decode("latin-1"))


def open_files():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def open_below(folder):
    paths = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # another thread has just closed it
            paths.append(str(link.readlink()))
    return [path for path in paths if path.startswith(str(folder))]


# The CIDs


def vectors():
    for vector in VECTORS["directories"]:
        large = vector["name"].startswith(("generated-", "threshold-"))  # thousands of files
        yield pytest.param(vector, id=vector["name"], marks=[pytest.mark.slow] if large else [])


def has_empty_folder(vector):
    return vector.get("entries") == [] or any(
        entry.get("dir") for entry in vector.get("entries", ())
    )


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("vector", list(vectors()))
async def test_the_cids_of_folders_are_those_of_other_implementations(
    node, memory_folder, vector, version
):
    root = make_directory(memory_folder / "root", vector)
    expected = vector["cids"][PROFILES[version]]
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    assert compute_cid(root, profile=PROFILES[version]) == expected
    async with await AsyncClient.init(path=memory_folder / "store", cid_version=version) as client:
        record = await client.upload(root)
        assert (record.cid, record.size, record.duplicate) == (expected, size, False)
        assert (await client.upload(root)).duplicate is True
    async with await AsyncClient.init(node.config, cid_version=version) as client:
        if has_empty_folder(vector):
            with pytest.raises(UnsupportedError, match="an empty folder"):
                await client.upload(root)
            return
        record = await client.upload(root)
        assert (record.cid, record.size) == (expected, size)
        assert (await client.upload(root)).duplicate is True


async def test_links_and_empty_folders_are_stored_as_they_are(local, folder):
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("b.txt")
    (folder / "itself").symlink_to(folder)
    (folder / "broken").symlink_to("../nowhere")
    record = await local.upload(folder)
    assert record.cid == compute_cid(folder)
    assert record.size == 9
    names = {entry.name for entry in local.provider.repository.entries(CID.parse(record.cid))}
    assert names == {"2024", "b.txt", "empty", "link", "itself", "broken"}


async def test_an_empty_folder(local, node, tmp_path):
    steps = []
    record = await local.upload(tmp_path, progress=lambda *step: steps.append(step))
    assert (record.cid, record.size) == (compute_cid(tmp_path), 0)
    assert steps == [(0, 0)]
    async with await AsyncClient.init(node.config) as client:
        with pytest.raises(UnsupportedError, match=r"an empty folder; add a file to it$"):
            await client.upload(tmp_path)
        (tmp_path / ".hidden").write_bytes(b"x")
        with pytest.raises(UnsupportedError, match="an empty folder") as caught:
            await client.upload(tmp_path)
        note = "hidden names were left out: 1; include_hidden=True uploads them"
        assert caught.value.__notes__ == [note]


async def test_hidden_names_are_left_out_unless_they_are_asked_for(local, node, folder):
    plain = compute_cid(folder)
    make_folder(folder, {".git/config": b"1", ".git/head": b"2", "2024/.thumbs": b"3"})
    source = FolderSource.of(folder)
    assert (source.hidden, source.files, source.size) == (2, 3, 9)
    assert compute_cid(folder) == plain
    whole = compute_cid(folder, include_hidden=True)
    assert FolderSource.of(folder, include_hidden=True).hidden == 0
    async with await AsyncClient.init(node.config) as client:
        for uploader in (local, client):
            assert (await uploader.upload(folder)).cid == plain
            record = await uploader.upload(folder, include_hidden=True)
            assert (record.cid, record.size) == (whole, 12)
    assert verify(folder, whole, include_hidden=True)
    assert verify(folder, plain)
    with pytest.raises(UnprovenError):
        verify(folder, whole)


async def test_patterns_leave_names_out_and_the_record_counts_them(local, node, folder):
    plain = compute_cid(folder)
    unwanted = {"x.tmp": b"1", "2024/y.tmp": b"2", "node_modules/a": b"3", "node_modules/b": b"4"}
    whole = compute_cid(make_folder(folder, unwanted))
    patterns = ("*.tmp", "node_modules/")
    async with await AsyncClient.init(node.config) as client:
        for uploader in (local, client):
            record = await uploader.upload(folder, exclude=patterns)
            assert (record.cid, record.size, record.excluded) == (plain, 9, 3)
            assert record.to_dict().keys() == {"cid", "timestamp", "size"}
            async for outcome in uploader.upload_many([folder, ("x", folder)], exclude=patterns):
                assert (outcome.result().cid, outcome.result().excluded) == (plain, 3)
        (folder / ".ipfsignore").write_text("*.tmp\nnode_modules/\n")
        for uploader in (local, client):
            record = await uploader.upload(folder)
            assert (record.cid, record.excluded) == (plain, 3)
            assert (await uploader.upload(folder, ignore_file=None)).cid == whole
            with pytest.raises(ValueError, match="can match nothing"):
                await uploader.upload(folder, exclude=["["])
    async for outcome in local.upload_many([folder], ignore_file=None):
        assert (outcome.result().cid, outcome.result().excluded) == (whole, 0)
    assert verify(folder, plain)
    assert verify(folder, whole, ignore_file=None)
    assert verify(folder, whole, exclude=["!*"])  # it comes after the patterns of the file
    with pytest.raises(UnprovenError):
        verify(folder, whole)


async def test_a_folder_of_which_patterns_leave_nothing_is_empty(local, node, folder):
    record = await local.upload(folder, exclude=["*"])
    assert (record.cid, record.excluded) == (compute_cid(folder, exclude=["*"]), 2)
    assert await local.entries(record.cid) == []
    async with await AsyncClient.init(node.config) as client:
        with pytest.raises(UnsupportedError, match="'2024', an empty folder") as caught:
            await client.upload(folder, exclude=["2024/*"])
        note = (
            "names were left out by patterns: 2; a pattern for the folder itself leaves it out too"
        )
        assert caught.value.__notes__ == [note]
        assert (await client.upload(folder, exclude=["2024/"])).excluded == 1


async def test_names_that_are_not_utf_8_are_stored_as_bytes_and_fit_no_form(local, node, folder):
    (folder / os.fsdecode(b"caf\xe9")).write_bytes(b"x")
    record = await local.upload(folder)
    assert record.cid == compute_cid(folder)
    entries = local.provider.repository.entries(CID.parse(record.cid))
    assert os.fsdecode(b"caf\xe9") in {entry.name for entry in entries}
    async with await AsyncClient.init(node.config) as client:
        with pytest.raises(UnsupportedError, match=r"'caf\\udce9', which is not UTF-8"):
            await client.upload(folder)


# The name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("photos", "photos"),
        ("photos/", "photos"),
        (".", "top"),
        ("photos/..", "top"),
        ("../link", "link"),
    ],
)
async def test_the_name_is_that_of_the_folder(local, folder, monkeypatch, path, name):
    top = folder.parent / "top"
    top.mkdir()
    folder.rename(top / "photos")
    (top.parent / "link").symlink_to("top/photos")  # beside it: a link that is uploaded is followed
    monkeypatch.chdir(top)
    record = await local.upload(path)
    pin = local.provider.repository.find_pin(CID.parse(record.cid))
    assert (pin.name, pin.type, pin.files) == (name, "directory", 3)


async def test_the_root_of_a_file_system_gets_a_name():
    assert folder_source._own_name(Path("/")) is None
    assert arguments.folder_info(None, None, None).name == "client-folder"


async def test_name_and_key_values_reach_the_provider(local, node, folder):
    cid = CID.parse((await local.upload(folder, name="album", keyvalues={"year": 2024})).cid)
    pin = local.provider.repository.find_pin(cid)
    assert (pin.name, pin.keyvalues) == ("album", {"year": 2024})
    make_folder(folder, {"other": b"for the node"})
    async with await AsyncClient.init(node.config) as client:
        cid = CID.parse((await client.upload(folder, name="album", keyvalues={"n": "1"})).cid)
    pin = node.repository.find_pin(cid)
    assert (pin.name, pin.keyvalues, pin.type) == ("album", {"n": "1"}, "directory")
    assert pin.files == 4
    with pytest.raises(ValueError, match="must be a file name"):
        await local.upload(folder, name="a/b")


# What is sent


async def test_a_form_has_one_part_for_each_file_in_order(server, client, folder):
    server.reply(200, pinned(compute_cid(folder)))
    record = await client.upload(folder)
    (request,) = server.requests
    assert request.target == "/pinning/pinFileToIPFS"
    assert filenames(request) == ["photos/2024/a.txt", "photos/2024/c.bin", "photos/b.txt"]
    assert request.headers["content-length"] == str(len(request.body))
    assert b"Metadata" not in request.body
    assert (record.cid, record.size) == (compute_cid(folder), 9)


async def test_every_attempt_sends_the_same_mapped_files(server, folder):
    mapped = FolderSource.of(folder).map(PrefixedSource, size_of)
    seen = []
    server.reply(503)
    server.reply(hang_up=True)
    server.reply(200, pinned(str(import_content(mapped, UNIXFS_V1_2025).cid)))
    async with await AsyncClient.init(config_for(server, retries=AGAIN)) as client:
        record = await client.upload(mapped, progress=lambda *step: seen.append(step))
    assert record.size == 9 + 3 * 16
    assert seen[-1] == (record.size, record.size)
    bodies = [request.body for request in server.requests]
    assert len(bodies) == 3
    assert len(set(bodies)) == 1
    assert b"hello" not in bodies[0]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts files by /proc")
async def test_few_files_are_open_at_a_time(node, memory_folder):
    root = make_folder(memory_folder / "r", {f"{n:04}": b"%d" % n for n in range(500)})
    counts = []

    def progress(_done, _total):
        counts.append(open_files())

    async with await AsyncClient.init(node.config) as client:
        before = open_files()
        await client.upload(root, progress=progress)
    assert counts
    assert max(counts) < before + 50


# Refusals


def link(path):
    path.symlink_to("elsewhere")


@pytest.mark.parametrize(
    ("name", "make", "words"),
    [
        ("2024/k", link, "cannot carry '2024/k', a link"),
        ("2024/k", Path.mkdir, "cannot carry '2024/k', an empty folder"),
        ('quo"te', Path.touch, "the name 'quo\"te' would change"),
        ("back\\slash", Path.touch, "would change; rename it"),
        ("line\nbreak", Path.touch, r"'line\\nbreak' would change"),
        ("100%22", Path.touch, "would change"),
    ],
    ids=["link", "empty folder", "quote", "backslash", "line break", "escape"],
)
async def test_what_a_form_cannot_carry_is_refused_before_anything_is_sent(  # noqa: PLR0917
    server, client, folder, name, make, words
):
    make(folder / name)
    with pytest.raises(UnsupportedError, match=f"PinProvider sends a form, .*{words}"):
        await client.upload(folder)
    assert server.requests == []


def bind(path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@pytest.mark.parametrize(
    ("make", "what"),
    [(os.mkfifo, "a named pipe"), (bind, "a socket")],
    ids=["pipe", "socket"],
)
async def test_what_is_no_file_is_refused_before_anything_is_sent(  # noqa: PLR0917
    server, client, local, memory_folder, make, what
):
    root = make_folder(memory_folder / "r", {"a": b"x"})
    make(root / "special")
    for upload in (client.upload, local.upload):
        with pytest.raises(OSError, match=f"special is {what}, not a file"):
            await upload(root)
    assert server.requests == []
    assert local.provider.repository.pins() == []


async def test_a_device_is_refused(local):
    with pytest.raises(OSError, match="is a device"):
        await local.upload("/dev")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
@pytest.mark.parametrize("name", ["b.txt", "2024"])
async def test_what_cannot_be_read_is_refused_before_anything_is_sent(
    server, client, public_folder, name
):
    root = make_folder(public_folder / "r", {"a.txt": b"a", "b.txt": b"b", "2024/c": b"c"})
    (root / name).chmod(0)
    os.seteuid(65534)
    try:
        with pytest.raises(PermissionError, match=name):
            await client.upload(root)
        assert compute_cid(root, exclude=[name])
    finally:
        os.seteuid(0)
    assert server.requests == []


# Changes meanwhile


def replaced_by_a_link(path):
    path.unlink()
    path.symlink_to("/etc/hostname")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: os.truncate(path, 1), "was written to"),
        (lambda path: path.write_bytes(b"z" * 2_000_000), "was written to"),
        (lambda path: path.write_bytes(b"y" * 1_000_000), "was written to"),
        (replaced_by_a_link, "became a link"),
        (Path.unlink, "No such file"),
    ],
    ids=["shrinks", "grows", "keeps its size", "a link", "gone"],
)
async def test_a_file_that_changes_meanwhile_is_an_error(node, local, tmp_path, change, words):
    before = len(node.repository.pins())
    async with await AsyncClient.init(node.config) as client:
        for number, uploader in enumerate((client, local)):
            root = make_folder(
                tmp_path / str(number), {"a": b"x" * 3_000_000, "z": b"z" * 1_000_000}
            )
            changed = []

            def progress(_done, _total, root=root, changed=changed):
                if not changed:
                    change(root / "z")
                    changed.append(True)

            with pytest.raises(OSError, match=words):
                await uploader.upload(root, progress=progress)
    assert len(node.repository.pins()) == before
    assert local.provider.repository.pins() == []


# The comparison of the CIDs


async def test_another_layout_of_the_service_is_found_and_remembered(
    server, client, tmp_path, caplog
):
    root = make_folder(tmp_path / "r", {"a": b"x" * 700_000, "b": b"y"})
    theirs = str(import_content(root, KUBO_LEGACY_CIDV1).cid)
    assert theirs != compute_cid(root)
    with caplog.at_level(logging.INFO, "holdfast"):
        for _ in range(2):
            server.reply(200, pinned(theirs))
            assert (await client.upload(root)).cid == theirs
        assert "no known layout" not in caplog.text
        assert client.provider._layout._guess == KUBO_LEGACY_CIDV1
        other = compute_cid(make_folder(tmp_path / "other", {"a": b"x"}))
        server.reply(200, pinned(other))
        assert (await client.upload(root)).cid == other
        assert f"stored the upload as {other}, which no known layout gives" in caplog.text


@pytest.mark.parametrize("depth", [1, 3])
async def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(
    node, memory_folder, tmp_path, depth
):
    """Otherwise, files from elsewhere would be published."""
    secret = make_folder(tmp_path / "secret", {f"{'d/' * (depth - 1)}c": b"a secret!!"})
    for config in (node.config, ClientConfig(path=memory_folder / "store")):
        inner = f"sub/{'d/' * (depth - 1)}c"
        root = make_folder(tmp_path / config.provider, {"a": bytes(3 << 20), inner: b"0123456789"})

        def swap(_done, _total, root=root):
            if not (root / "sub").is_symlink():
                (root / "sub").rename(tmp_path / f"{root.name}-away")
                (root / "sub").symlink_to(secret)

        async with await AsyncClient.init(config) as client:
            with pytest.raises(OSError, match=r"sub.* was replaced while it was read"):
                await client.upload(root, progress=swap)
        assert open_below(tmp_path) == []


@pytest.mark.parametrize(
    "cid",
    [
        HELLO_CID,  # a raw block
        EMPTY_DIRECTORY_V0,
        "bafybeiczsscdsbs7ffqz55asqdf3smv6klcw3gofszvwlyarci47bgf354",  # the same as version 1
        "bafyreigbtj4x7ip5legnfznufuopl4sg4knzc2cof6duas4b3q2fy6swua",  # dag-cbor
    ],
)
async def test_a_cid_that_no_such_folder_can_have_is_an_error(server, client, folder, cid):
    for _ in range(2):
        server.reply(200, pinned(cid))
    with pytest.raises(VerificationError, match="which is not what was sent"):
        await client.upload(folder)
    assert (await client.with_options(verify=False).upload(folder)).cid == cid
