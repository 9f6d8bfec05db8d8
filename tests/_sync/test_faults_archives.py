# WARNING: this file is generated from tests/_async/test_faults_archives.py
# by scripts/generate_sync.py. Change the original instead.
"""Archives and directories that lie, served by a gateway (T8 and T10 of the list of faults).

The decoders' own tests are in `test_bad_content.py`. Here a whole client meets them.
"""

import hashlib
import time
from dataclasses import replace

import pytest

from holdfast import Client
from holdfast.content import dag_pb, varint
from holdfast.content.car import MAX_SECTION, write_car
from holdfast.content.cid import CID, DAG_PB, IDENTITY, RAW, SHA2_256
from holdfast.content.dag_pb import Link
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs import data
from holdfast.errors import (
    InvalidCIDError,
    MalformedError,
    NotAFileError,
    NotFoundError,
    UnprovenError,
    VerificationError,
)
from holdfast.protocol.gateway import CAR_TYPE, RAW_TYPE
from holdfast.testing import Scripted, ScriptedServer
from tests.content import Blocks
from tests.dags import section
from tests.faulty import assert_shows_no_token, patient_config
from tests.support import GATEWAY_TOKEN, config_for

# No known layout cuts a file like this, so its plain body proves nothing.
ODD_CHUNKS = replace(UNIXFS_V1_2025, chunk_size=100_000)
CONTENT = hashlib.shake_128(b"odd").digest(250_000)
ROOT, BLOCKS = Blocks.of_file(CONTENT, ODD_CHUNKS)
LEAVES = [cid for cid in BLOCKS if cid != ROOT]

GOOD = b"".join(write_car([ROOT], [(cid, BLOCKS[cid]) for cid in (ROOT, *LEAVES)]))
HEADER, SECTIONS = GOOD[: GOOD[0] + 1], GOOD[GOOD[0] + 1 :]
CUT_ROOT = bytes(ROOT)[:-1]


def archive_of(*cids):
    return b"".join(write_car([ROOT], [(cid, BLOCKS[cid]) for cid in cids]))


def version_2(inner):
    """`inner` in the wrapping of the second version."""
    place = (51).to_bytes(8, "little") + len(inner).to_bytes(8, "little") + bytes(8)
    return bytes.fromhex("0aa16776657273696f6e02") + bytes(16) + place + inner


TINY = section(bytes(CID(1, RAW, IDENTITY, b"x")) + b"x") * 20_000
SHA1 = CID(1, RAW, 0x11, hashlib.sha1(CONTENT, usedforsecurity=False).digest())
BLAKE3 = CID(1, RAW, 0x1E, bytes(32))
INLINE_LIE = section(bytes(CID(1, RAW, IDENTITY, b"abc")) + b"abd")

BAD_ARCHIVES = {
    "header of 4 GiB": (varint.encode(1 << 32) + GOOD, MalformedError),
    "header of 0": (b"\0" + GOOD, MalformedError),
    "bad version": (section(b"\xa2\x65roots\x80\x67version\x03") + SECTIONS, MalformedError),
    "version 2 cut off": (version_2(GOOD)[:-1], MalformedError),
    "varint of more than ten bytes": (HEADER + b"\xff" * 11 + SECTIONS, MalformedError),
    "non-minimal varint": (HEADER + b"\xa9\x00" + SECTIONS, MalformedError),
    "section over the cap": (HEADER + varint.encode(MAX_SECTION + 1) + SECTIONS, MalformedError),
    "section cut off": (GOOD[:-1], MalformedError),
    "CID cut off": (HEADER + section(CUT_ROOT) + SECTIONS, MalformedError),
    "digest's length lies": (
        HEADER + section(bytes([1, DAG_PB, SHA2_256, 33]) + bytes(33)) + SECTIONS,
        MalformedError,
    ),
    "identity that lies": (HEADER + INLINE_LIE + SECTIONS, VerificationError),
    "block is another": (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), VerificationError),
    "root missing": (archive_of(*LEAVES), UnprovenError),
    "child missing": (archive_of(ROOT, *LEAVES[1:]), UnprovenError),
    "many tiny blocks and nothing else": (HEADER + TINY, UnprovenError),
    "trailing bytes": (GOOD + b"trailing", MalformedError),
    "no archive at all": (b"<html>sorry</html>", MalformedError),
    "empty": (b"", MalformedError),
}

GOOD_ARCHIVES = {
    "as it should be": GOOD,
    "version 2": version_2(GOOD),
    "every block three times": GOOD + SECTIONS * 2,
    "children before their parent": archive_of(*LEAVES, ROOT),
    "many tiny blocks before": HEADER + TINY + SECTIONS,
    "a block that is not needed, of an unknown hash": (
        HEADER + section(bytes(BLAKE3) + b"x") + SECTIONS
    ),
    "a block that is not needed, of sha1": HEADER + section(bytes(SHA1) + CONTENT) + SECTIONS,
}


def gateway_of(archive):
    """A gateway that has the right bytes, gives no blocks, and has this for an archive."""

    def answer(request):
        if "format=raw" in request.target:
            return Scripted(status=406)
        if "format=car" in request.target:
            return Scripted(body=archive, headers={"Content-Type": CAR_TYPE})
        return Scripted(body=CONTENT)

    return ScriptedServer(answer)


def failed_download(server, reference, folder):
    """The error that a download ends with, having left nothing at its target or on its way."""
    (folder / "target").mkdir()
    config = patient_config(server, gateway_token=GATEWAY_TOKEN, cache_path=folder / "cache")
    start = time.monotonic()
    with Client.init(config) as client:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the caller looks at it
            client.download(reference, to=folder / "target" / "file")
    assert time.monotonic() - start < 50
    assert list((folder / "target").iterdir()) == []
    assert list((folder / "cache").rglob("*.part")) == []
    assert_shows_no_token(caught.value)
    return caught.value


@pytest.mark.parametrize(("archive", "kind"), BAD_ARCHIVES.values(), ids=BAD_ARCHIVES)
def test_a_bad_archive_ends_a_download_and_leaves_nothing(tmp_path, archive, kind):
    with gateway_of(archive) as server:
        error = failed_download(server, str(ROOT), tmp_path)
    assert type(error) is kind
    # The plain body, a block and the archive, each once: what is wrong stays wrong.
    forms = [request.target.partition("format=")[2][:3] for request in server.requests]
    assert forms == ["", "raw", "car"]


@pytest.mark.parametrize("archive", GOOD_ARCHIVES.values(), ids=GOOD_ARCHIVES)
def test_an_unusual_archive_is_read(tmp_path, archive):
    with gateway_of(archive) as server:
        with Client.init(patient_config(server)) as client:
            client.download(str(ROOT), to=tmp_path / "file")
        assert len(server.requests) == 3
    assert (tmp_path / "file").read_bytes() == CONTENT


# T10: what stands under a name of a directory. This version writes single files, under names
# that the caller gives; so all that a directory can do is to lead astray.

LEAF = CID.of_raw(b"hello")


class Directory:
    """A DAG in the making, and a gateway that gives its blocks."""

    def __init__(self):
        self.blocks = Blocks({LEAF: b"hello"})

    def node(self, links, message):
        block = dag_pb.encode(links, message)
        cid = CID(1, DAG_PB, SHA2_256, hashlib.sha256(block).digest())
        self.blocks[cid] = block
        return cid

    def of(self, *entries):
        """The CID of a directory of these (name, CID)."""
        return self.node([Link(cid, name, 5) for name, cid in entries], data.DIRECTORY)

    def symlink(self, target):
        return self.node([], data.symlink_data(target))

    def serve(self):
        def answer(request):
            if "format=raw" in request.target:
                cid = CID.parse(request.target.rpartition("/")[2].partition("?")[0])
                return Scripted(body=self.blocks[cid], headers={"Content-Type": RAW_TYPE})
            if "format=car" in request.target:
                return Scripted(status=406)
            return Scripted(body=b"hello")

        return ScriptedServer(answer)


NAMES = {
    "backslashes": rb"..\x",
    "drive": rb"C:\x",
    "256 bytes": b"n" * 256,
    "device": b"CON",
    "trailing dot": b"x.",
    "trailing space": b"x ",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_name_that_some_system_has_trouble_with_does_not_choose_the_target(tmp_path, name):
    directory = Directory()
    root = directory.of((name, LEAF))
    quoted = "".join(f"%{byte:02x}" for byte in name)
    with directory.serve() as server:
        config = patient_config(server, cache_path=tmp_path / "cache")
        with Client.init(config) as client:
            client.download(f"{root}/{quoted}", to=tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"hello"
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert left == {"target", "cache", "cache/partial"}


@pytest.mark.parametrize(
    "name",
    ["..", "%2e%2e", "..%2fx", "%2fabs", "%2f%2func", "a%00b", ".", "%2e", "a%0ab"],
)
def test_a_path_cannot_ask_for_an_unsafe_name(tmp_path, name):
    directory = Directory()
    root = directory.of((b"..", LEAF))
    with directory.serve() as server:
        (tmp_path / "target").mkdir()
        with Client.init(patient_config(server)) as client:
            with pytest.raises(InvalidCIDError, match=r"^Invalid CID$"):
                client.download(f"{root}/{name}/x", to=tmp_path / "target" / "file")
        assert server.requests == []
    assert list((tmp_path / "target").iterdir()) == []


LOOKALIKES = {
    "case": (b"File", b"file"),
    "NFC and NFD": ("é".encode(), "e\u0301".encode()),
}


@pytest.mark.parametrize("names", LOOKALIKES.values(), ids=LOOKALIKES)
def test_names_that_look_alike_are_two_names(tmp_path, names):
    directory = Directory()
    other = CID.of_raw(b"other")
    directory.blocks[other] = b"other"
    root = directory.of((names[0], other), (names[1], LEAF))
    with directory.serve() as server:
        with Client.init(patient_config(server)) as client:
            client.download(f"{root}/{names[1].decode()}", to=tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"hello"
    assert [entry.cid for entry in directory.blocks.list(root)] == [other, LEAF]


def test_a_file_and_a_directory_of_one_name_are_refused(tmp_path):
    directory = Directory()
    root = directory.of((b"a", LEAF), (b"a", directory.of((b"b", LEAF))))
    with directory.serve() as server:
        error = failed_download(server, f"{root}/a/b", tmp_path)
    assert type(error) is MalformedError
    assert "doubled name" in str(error)


@pytest.mark.parametrize("target", [b"/etc/passwd", b"../../etc/passwd", b"dir"], ids=bytes.decode)
def test_a_symbolic_link_is_not_followed(tmp_path, target):
    directory = Directory()
    link = directory.symlink(target)
    root = directory.of((b"dir", directory.of((b"x", LEAF))), (b"link", link))
    with directory.serve() as server:
        error = failed_download(server, f"{root}/link", tmp_path)
        assert type(error) is NotAFileError
        assert str(error) == f"{link} is a symbolic link, not a file"


@pytest.mark.parametrize("target", [b"/etc", b"dir"], ids=bytes.decode)
def test_no_path_leads_through_a_symbolic_link(tmp_path, target):
    directory = Directory()
    link = directory.symlink(target)
    root = directory.of((b"dir", directory.of((b"x", LEAF))), (b"link", link))
    with directory.serve() as server:
        error = failed_download(server, f"{root}/link/x", tmp_path)
    assert type(error) is NotFoundError
    assert str(error) == f"{link} is not a directory"


@pytest.mark.parametrize("cached", [True, False], ids=["by the cache", "beside the target"])
@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing"])
def test_a_symbolic_link_at_the_target_is_replaced_and_not_followed(
    server, tmp_path, cached, there
):
    victim, target = tmp_path / "victim", tmp_path / "target"
    if there:
        victim.write_bytes(b"precious")
    target.symlink_to(victim)
    # A file where the cache folder should be: then the download lies beside its target.
    (tmp_path / "no folder").write_bytes(b"")
    cache = tmp_path / ("cache" if cached else "no folder")
    server.reply(200, b"hello")
    with Client.init(config_for(server, cache_path=cache)) as client:
        client.download(str(LEAF), to=target)
    assert not target.is_symlink()
    assert target.read_bytes() == b"hello"
    assert victim.exists() is there
    if there:
        assert victim.read_bytes() == b"precious"
