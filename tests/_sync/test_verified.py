# WARNING: this file is generated from tests/_async/test_verified.py
# by scripts/generate_sync.py. Change the original instead.
"""Reads are verified, whichever gateway answers, in whichever way it can.

The tests against Kubo's own gateway are in `test_kubo_gateways.py`.
"""

import errno
import hashlib
import os
import threading
import time
from dataclasses import replace
from functools import partial
from itertools import groupby

import pytest

from holdfast import Client, errors
from holdfast._sync.reads.state import Output
from holdfast.content.cid import CID, DAG_PB, IDENTITY, RAW
from holdfast.content.hashes import FUNCTIONS, SHA2_256
from holdfast.content.profiles import CANDIDATES, KUBO_LEGACY_CIDV1, UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.files import dag_pb_frame
from holdfast.sinks.sinks import MemorySink, SpoolSink
from holdfast.testing import Scripted, ScriptedServer
from tests._sync.reading import client_of
from tests.content import Blocks
from tests.dags import MIB, Dag, archive_gateway, block_gateway
from tests.gateways import ODD_LAYOUT, cut_at, gateway, kind_of, kinds, one_file, pin, pin_tree
from tests.support import EMPTY_FILE_V0, HELLO_CID, raw_cid

DATA = os.urandom(3_500_000)
LAYOUTS = [*CANDIDATES, ODD_LAYOUT]
SMALL_CHUNKS = replace(KUBO_LEGACY_CIDV1, chunk_size=1 << 16)
TWO_LEVELS = 11_500_000  # bytes: more than the links of one node of this layout hold
AGAIN = {"attempts": 4, "base": 0.001, "cap": 0.05}
MISSING = Scripted(status=404)


def layouts(profiles):
    return pytest.mark.parametrize("profile", profiles, ids=lambda profile: profile.name)


def only_block(cid):
    """A change of replies: of all blocks, only one is given, as if only that were pinned."""

    def change(kind, request, reply):
        if kind == "raw" and cid not in request.target:
            return replace(reply, status=403, body=b"", headers={})
        return reply

    return change


@layouts(LAYOUTS)
def test_any_layout_is_proven_by_its_blocks(node, profile, tmp_path):
    cid = pin(node, DATA, profile)
    with client_of(gateway(node)) as (client, server):
        client.download(cid, to=tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == DATA
    assert set(kinds(server)) == {"plain", "raw"}
    assert server.requests[1].target == f"/ipfs/{cid}?format=raw"
    assert server.requests[1].headers["accept"] == "application/vnd.ipld.raw"


@pytest.mark.parametrize("size", [0, 1, 1000, 262_144])
@layouts(CANDIDATES)
def test_a_file_of_one_block_costs_no_further_request(node, profile, size):
    cid = pin(node, DATA[:size], profile)
    with client_of(gateway(node)) as (client, server):
        assert (client.download(cid)).read() == DATA[:size]
    assert kinds(server) == ["plain"]


@pytest.mark.parametrize("how", ["refuse", "ignore"])
@layouts(LAYOUTS)
def test_without_blocks_the_body_is_imported_again(node, profile, how):
    cid = pin(node, DATA, profile)
    with client_of(gateway(node, **{how: {"raw"}})) as (client, server):
        assert (client.download(cid)).read() == DATA
    # In an odd layout, only the archive proves it.
    assert kinds(server) == ["plain", "raw", *["car"] * (profile is ODD_LAYOUT)]


@pytest.mark.parametrize("how", ["refuse", "ignore"])
def test_what_cannot_be_proven_is_not_returned(node, how, tmp_path):
    cid = pin(node, DATA, ODD_LAYOUT)
    with client_of(gateway(node, **{how: {"raw", "car"}})) as (client, _):
        with pytest.raises(errors.UnprovenError, match="no known layout") as caught:
            client.download(cid, to=tmp_path / "copy")
        assert caught.value.cid == cid
        assert (client.with_options(verify=False).download(cid)).read() == DATA
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("refuse", [(), ("car",)], ids=["archive", "layout"])
def test_a_gateway_that_gives_the_root_but_no_further_blocks(node, refuse):
    """As a gateway may that serves only what is pinned at it. A known layout proves itself."""
    profile, size = (KUBO_LEGACY_CIDV1, 46_000_000) if refuse else (ODD_LAYOUT, len(DATA))
    data = bytes(size) if refuse else DATA
    cid = pin(node, data, profile)
    with client_of(gateway(node, only_block(cid), refuse=refuse)) as (client, server):
        assert (client.download(cid)).read() == data
    asked = [kind for kind, _ in groupby(kinds(server))]
    assert asked == ["plain", "raw", "car", *["plain"] * len(refuse)]
    assert kinds(server).count("plain") == 1 + len(refuse)


@pytest.fixture
def tree(tmp_path):
    """A directory with a small and a large file, a directory in it, and a symbolic link."""
    root = tmp_path / "tree"
    (root / "sub dir").mkdir(parents=True)
    (root / "sub dir" / "ü?.json").write_bytes(b'{"deep":true}')
    (root / "large.bin").write_bytes(DATA)
    (root / "link").symlink_to("large.bin")
    return root


@pytest.mark.parametrize("refuse", [(), ("raw",)], ids=["blocks", "archive"])
@layouts([UNIXFS_V1_2025, UNIXFS_V0_2015])
def test_files_in_directories_are_proven_from_the_root_on(node, tree, profile, refuse):
    cid = pin_tree(node, tree, profile)
    with client_of(gateway(node, refuse=refuse)) as (client, _):
        assert client.retrieve(f"{cid}/sub dir/ü%3F.json") == {"deep": True}
        blob = client.download(f"/ipfs/{cid}/large.bin")
        assert (blob.read(), blob.name) == (DATA, "large.bin")


def test_another_file_of_the_directory_is_not_taken_for_the_one_asked_for(node, tree):
    (tree / "other.bin").write_bytes(DATA[::-1])
    cid = pin_tree(node, tree, UNIXFS_V1_2025)

    def other_name(kind, request, reply):
        return replace(reply, body=DATA[::-1]) if kind == "plain" else reply

    with client_of(gateway(node, other_name)) as (client, _):
        with pytest.raises(errors.VerificationError):
            client.download(f"{cid}/large.bin")


def test_a_path_cannot_be_proven_without_blocks_or_archive(node, tree):
    cid = pin_tree(node, tree, UNIXFS_V1_2025)
    with client_of(gateway(node, refuse={"raw", "car"})) as (client, _):
        with pytest.raises(errors.UnprovenError, match="gives neither its blocks nor an archive"):
            client.download(f"{cid}/large.bin")


def test_a_path_to_nothing_and_a_path_to_a_directory(node, tree):
    """A gateway may answer with an HTML page where a directory stands."""
    cid = pin_tree(node, tree, UNIXFS_V1_2025)

    def listing(kind, request, reply):
        page = replace(reply, status=200, headers={}, body=b"<html>index</html>")
        return page if kind == "plain" else reply

    for change in ({}, {"change": listing}):
        with client_of(gateway(node, **change)) as (client, _):
            with pytest.raises(errors.NotFoundError):
                client.download(f"{cid}/missing.bin")
            for path in (f"{cid}/sub dir", cid):
                with pytest.raises(errors.NotAFileError, match="is a directory"):
                    client.download(path)


def test_the_next_gateway_goes_on_where_the_last_one_broke_off(node, tmp_path):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    calls = []
    gateways = gateway(node, cut_at(2_500_000)), gateway(node)
    with client_of(*gateways) as (client, _, good):
        client.download(cid, to=tmp_path / "copy", progress=lambda *call: calls.append(call))
    assert (tmp_path / "copy").read_bytes() == DATA
    assert kinds(good) == ["plain"]
    assert good.requests[0].headers["range"] == "bytes=2097152-"
    assert calls == sorted(calls)
    assert calls[-1] == (len(DATA), len(DATA))


def test_one_gateway_that_breaks_off_again_and_again_is_enough(node):
    """Every attempt proves some more, and then counts again."""
    data = os.urandom(12_000_000)
    cid = pin(node, data, UNIXFS_V1_2025)
    retries = {"attempts": 2, "base": 0.001}
    with client_of(gateway(node, cut_at(1_200_000)), retries=retries) as (client, server):
        assert (client.download(cid)).read() == data
    assert kinds(server).count("plain") == 12


@pytest.mark.slow
def test_bytes_that_are_proven_again_are_no_progress(node):
    """Else a gateway that always breaks off at the same place would be asked for ever."""
    cid = pin(node, os.urandom(TWO_LEVELS), SMALL_CHUNKS)

    def die(kind, request, reply):
        return cut_at(1_250_000)(kind, request, only_block(cid)(kind, request, reply))

    stuck = gateway(node, die, refuse={"car"})
    with client_of(stuck, retries=AGAIN) as (client, server):
        with pytest.raises((errors.NetworkError, errors.ProviderError, errors.VerificationError)):
            client.download(cid)
    assert kinds(server).count("plain") <= 12


def test_a_refused_block_is_not_the_end_but_a_broken_one_is(node):
    """A failure of the moment is retried in the same way; it does not make the proof weaker."""
    cid = pin(node, DATA, UNIXFS_V1_2025)
    failures = [503, 503]

    def unwell(kind, request, reply):
        if kind == "raw" and failures:
            return replace(reply, status=failures.pop(), body=b"")
        return reply

    with client_of(gateway(node, unwell), retries=AGAIN) as (client, server):
        assert (client.download(cid)).read() == DATA
    assert kinds(server) == ["plain", "raw"] * 3


def test_a_gateway_with_archives_only_may_win_nothing_and_still_serve(node):
    cid = pin(node, os.urandom(TWO_LEVELS), SMALL_CHUNKS)
    gateways = gateway(node, only_block(cid)), ScriptedServer(lambda _: MISSING)
    with client_of(*gateways, hedge_after=0.2) as (client, *_):
        assert (client.download(cid)).size == TWO_LEVELS


def test_a_race_counts_as_an_attempt():
    busy = [ScriptedServer(lambda _: Scripted(status=503)) for _ in range(2)]
    with client_of(*busy, hedge_after=0.01) as (client, *servers):
        with pytest.raises(errors.ProviderError):
            client.download(HELLO_CID)
    assert [len(server.requests) for server in servers] == [1, 1]


def test_after_a_failed_write_nothing_more_is_written():
    """Half a piece may be on the disk: what came behind it would be in the wrong place."""

    class FullOnce(MemorySink):
        def write(self, data):
            if len(self.data) == 5 and data == b"second":
                self.data += b"sec"
                raise OSError(errno.ENOSPC, "No space left on device")
            super().write(data)

    output = Output(FullOnce())
    output.take([b"first"], verified=True)
    with pytest.raises(OSError, match="No space"):
        output.take([b"second"], verified=True)
    for go_on in (partial(output.take, [b"third"], verified=True), partial(output.restart, 5)):
        with pytest.raises(OSError, match="No space"):
            go_on()
    assert output.sink.verified == 5


# Gateways that answer only trustless requests: blocks and archives, and no plain content

KINDS = pytest.mark.parametrize("refuse", [(), ("raw",), ("car",)], ids=["all", "car", "raw"])


def trustless(node, refuse=(), status=406, change=lambda kind, request, reply: reply):
    def answer(kind, request, reply):
        if kind == "plain":
            return Scripted(status=status, body=b"only trustless requests")
        return change(kind, request, reply)

    return gateway(node, answer, refuse=refuse)


def test_a_small_file_in_a_folder_is_read_with_archives_alone(node, tmp_path):
    (tmp_path / "a.json").write_bytes(b"[1,2]")
    root = node.repository.add(tmp_path, UNIXFS_V1_2025)[0].cid
    with client_of(trustless(node, refuse=("raw",))) as (client, _):
        with client.open(f"{root}/a.json") as file:
            assert file.read() == b"[1,2]"
        assert client.retrieve(f"{root}/a.json") == [1, 2]
        for call in (client.retrieve, client.open):
            with pytest.raises(errors.NotFoundError):
                call(f"{root}/b.json")


@KINDS
@layouts([UNIXFS_V1_2025, UNIXFS_V0_2015])
@pytest.mark.parametrize("size", [0, 5, 3_000_000])
def test_files_are_downloaded_and_opened(node, tmp_path, profile, refuse, size):
    data = DATA[:size]
    cid = pin(node, data, profile)
    with client_of(trustless(node, refuse)) as (client, _):
        assert (client.download(cid)).read() == data
        client.download(cid, to=tmp_path / "copy")
        with client.open(cid) as file:
            file.seek(size // 2)
            assert file.read(100_000) == data[size // 2 : size // 2 + 100_000]
    assert (tmp_path / "copy").read_bytes() == data


@KINDS
def test_a_path_is_followed(node, tree, refuse):
    cid = pin_tree(node, tree, UNIXFS_V1_2025)
    with client_of(trustless(node, refuse)) as (client, _):
        assert client.retrieve(f"{cid}/sub dir/ü%3F.json") == {"deep": True}
        assert (client.download(f"{cid}/large.bin")).read() == DATA
        with pytest.raises(errors.NotFoundError):
            client.download(f"{cid}/missing")


@pytest.mark.parametrize("status", [406, 501])
def test_plain_content_is_asked_for_once_and_then_no_more(node, status):
    block, tree = pin(node, b"[1]", UNIXFS_V1_2025), pin(node, DATA, UNIXFS_V1_2025)
    with client_of(trustless(node, status=status)) as (client, server):
        for _ in range(2):
            assert client.retrieve(block) == [1]
            assert (client.download(tree)).read() == DATA
    assert kinds(server) == ["plain", "raw", "car", "raw", "car"]


def test_a_broken_download_goes_on_where_it_was(node, tmp_path):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    cache = {"cache_path": tmp_path / "cache"}
    dying = trustless(node, change=cut_at(2_500_000, "car"))
    with client_of(dying, **cache) as (client, _):
        with pytest.raises(errors.NetworkError):
            client.download(cid, to=tmp_path / "copy")
    (saved,) = [path.stat().st_size for path in (tmp_path / "cache" / "partial").iterdir()]
    assert saved in {1 << 20, 2 << 20}
    with client_of(trustless(node), **cache) as (client, server):
        client.download(cid, to=tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == DATA
    (car,) = [request.target for request in server.requests if kind_of(request) == "car"]
    assert f"entity-bytes={saved}:*" in car


def test_what_the_gateway_does_not_have_is_not_found(empty_node):
    with client_of(trustless(empty_node)) as (client, _):
        for cid in (EMPTY_FILE_V0, raw_cid(b"nowhere")):
            with pytest.raises(errors.NotFoundError):
                client.download(cid)


def test_a_gateway_that_refuses_everything_says_why(node):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    with client_of(trustless(node, refuse={"raw", "car"})) as (client, _):
        with pytest.raises(errors.ProviderError) as caught:
            client.download(cid)
    assert caught.value.status == 406


@pytest.mark.parametrize(
    "option", [{"verify": False}, {"hedge_after": 0.01}], ids=["plain", "race"]
)
def test_without_verify_and_in_a_race_it_is_read_too(node, option):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    with client_of(trustless(node), trustless(node), **option) as (client, *_):
        assert (client.download(cid)).read() == DATA


# Other hash functions than SHA-256

CONTENT = hashlib.shake_128(b"other hashes").digest(600_000)
OTHERS = {function.name: code for code, function in FUNCTIONS.items() if code != SHA2_256}
each_hash = pytest.mark.parametrize("code", OTHERS.values(), ids=OTHERS)


@each_hash
def test_a_single_block_is_verified_as_it_streams(code):
    cid = CID(1, RAW, code, FUNCTIONS[code].new(CONTENT).digest())
    with client_of(one_file(cid, {}, CONTENT)) as (client, _):
        assert (client.download(str(cid))).read() == CONTENT
    for body in (CONTENT[:-1] + b"\0", CONTENT[:-1], CONTENT + b"\0"):
        with client_of(one_file(cid, {}, body)) as (client, _):
            with pytest.raises(errors.VerificationError) as caught:
                client.download(str(cid))
            assert type(caught.value) is errors.VerificationError


@pytest.mark.parametrize("refuse", [(), ("raw",), ("raw", "car")], ids=["blocks", "CAR", "layout"])
@each_hash
def test_a_tree_is_verified_by_every_strategy(code, refuse):
    wrong = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    for profile in (UNIXFS_V0_2015, KUBO_LEGACY_CIDV1):
        root, blocks = Blocks.of_file(CONTENT, profile.with_hash(code))
        with client_of(one_file(root, blocks, CONTENT, refuse)) as (client, _):
            assert (client.download(str(root))).read() == CONTENT
        damaged = Blocks({**blocks, list(blocks)[2]: b"another block"})
        with client_of(one_file(root, damaged, wrong, refuse)) as (client, _):
            with pytest.raises(errors.VerificationError):
                client.download(str(root))


@pytest.mark.parametrize(
    ("cid", "words"),
    [
        (CID(1, RAW, 0x11, bytes(20)), "sha1.*verify=False"),
        (CID(1, RAW, 0xD5, bytes(16)), "md5"),
        (CID(1, 0x78, SHA2_256, bytes(32)), "codec is 0x78"),
    ],
    ids=["sha1", "md5", "git-raw"],
)
def test_what_can_never_be_proven_is_not_asked_for(cid, words):
    with client_of(one_file(cid, {}, CONTENT)) as (client, server):
        with pytest.raises(errors.UnprovenError, match=words):
            client.download(str(cid))
    assert server.requests == []


def test_an_identity_cid_of_a_tree_is_not_proven_by_a_hash():
    evil = b"not what the CID carries"
    head, tail = dag_pb_frame(Kind.FILE, len(evil))
    cid = str(CID(1, DAG_PB, IDENTITY, hashlib.sha256(head + evil + tail).digest()))
    with client_of(ScriptedServer(lambda _: Scripted(body=evil))) as (client, _):
        with pytest.raises(errors.VerificationError):
            client.download(cid)


# Limits hold in every strategy, for DAGs and bodies that are larger than they look


@pytest.mark.slow
def test_an_endless_body_for_one_block_is_cut_off():
    liar = ScriptedServer(lambda _: Scripted(body=bytes(70 << 20), chunked=True))
    with client_of(liar) as (client, server):
        with pytest.raises(errors.VerificationError, match="is larger than 67108864 bytes"):
            client.download(raw_cid(b"small"))
    assert len(server.requests) == 1


def bomb(kind, size, *widths):
    dag = Dag()
    leaf = (dag.raw if kind == "raw" else dag.leaf)(b" " * size)
    return dag, str(dag.repeated(leaf, size, *widths)[0])


def body_gateway(dag):
    """Plain bodies without an end in sight, and blocks."""

    def answer(request):
        if kind_of(request) == "plain":
            return Scripted(body=b" " * 3 * MIB, chunked=True)
        return Scripted(status=406) if kind_of(request) == "car" else blocks(request)

    blocks = block_gateway(dag.blocks)
    return answer


GATEWAYS = {
    "archive": (lambda dag: archive_gateway(dag.archive()), ["plain", "car"]),
    "blocks": (lambda dag: block_gateway(dag.blocks), ["plain", "car", "raw"]),
    "body": (body_gateway, ["plain", "raw"]),
}


@pytest.mark.parametrize("kind", ["raw", "dag-pb"])
@pytest.mark.parametrize(("make", "asked"), GATEWAYS.values(), ids=GATEWAYS)
def test_a_document_that_is_too_large_is_refused_by_its_root(make, asked, kind):
    dag, root = bomb(kind, MIB, 2000, 2000)
    with client_of(ScriptedServer(make(dag)), max_json_bytes=2 * MIB) as (client, server):
        with pytest.raises(errors.SerializationError, match="max_json_bytes"):
            client.retrieve(root)
    # Nothing but the root was needed to know.
    assert kinds(server) == asked


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["raw", "dag-pb"])
@pytest.mark.parametrize("name", ["archive", "blocks"])
def test_a_bomb_ends_with_the_total(kind, name):
    dag, root = bomb(kind, 1000, 5000, 5000)
    limits = {"max_json_bytes": 1 << 50, "timeouts": {"total": 0.2}}
    begun = time.monotonic()
    with client_of(ScriptedServer(GATEWAYS[name][0](dag)), **limits) as (client, _):
        with pytest.raises(errors.RequestTimeoutError):
            client.retrieve(root)
    assert time.monotonic() - begun < 20  # without it, hours


# Files in very many small pieces, as by Kubo's chunker size-1 (number 7)

SMALL_CONTENT = hashlib.shake_128(b"small pieces").digest(5_000)
ONE_BYTE_PROFILES = {p.name: replace(p, chunk_size=1) for p in (KUBO_LEGACY_CIDV1, UNIXFS_V0_2015)}
AT_ONCE = 8


class CountingBlocks(dict):
    """Blocks that take a while until four are asked for at the same time, which are counted."""

    def __init__(self, blocks):
        super().__init__(blocks)
        self.in_flight = self.most = self.asked = 0
        self.lock = threading.Lock()
        self.several = threading.Event()

    def get(self, cid):
        with self.lock:
            self.asked += 1
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
        if self.most > 3:
            self.several.set()
        self.several.wait(0.5)
        with self.lock:
            self.in_flight -= 1
        return super().get(cid)


@pytest.fixture
def written(monkeypatch):
    """The sizes of all pieces that are written to a sink."""
    sizes = []
    write = SpoolSink.write

    def counting(self, data):
        sizes.append(len(data))
        write(self, data)

    monkeypatch.setattr(SpoolSink, "write", counting)
    return sizes


@pytest.mark.parametrize("profile", ONE_BYTE_PROFILES.values(), ids=ONE_BYTE_PROFILES)
def test_inner_nodes_are_fetched_several_at_a_time(profile, written):
    root, blocks = Blocks.of_file(SMALL_CONTENT, profile)
    counting = CountingBlocks(blocks)
    with client_of(one_file(root, counting, SMALL_CONTENT)) as (client, _):
        assert (client.download(str(root))).read() == SMALL_CONTENT
    inner = sum(1 for block in blocks.values() if len(block) > 100)
    assert counting.asked == inner  # each once, and no leaf
    assert 3 < counting.most <= AT_ONCE
    assert len(written) <= inner + 2


@pytest.mark.parametrize(
    ("refuse", "most"), [({"raw"}, 50), ({"plain", "car"}, 300)], ids=["archive", "blocks"]
)
@pytest.mark.parametrize("profile", ONE_BYTE_PROFILES.values(), ids=ONE_BYTE_PROFILES)
def test_small_pieces_are_written_together(profile, written, refuse, most):
    """There are 256 different leaves: what is fetched already comes without a step of its own."""
    root, blocks = Blocks.of_file(SMALL_CONTENT, profile)
    with client_of(one_file(root, blocks, SMALL_CONTENT, refuse)) as (client, _):
        assert (client.download(str(root))).read() == SMALL_CONTENT
    assert len(written) < most


def test_a_wrong_body_makes_nobody_fetch_more_than_a_few_blocks():
    root, blocks = Blocks.of_file(SMALL_CONTENT, ONE_BYTE_PROFILES["kubo-legacy-cidv1"])
    with client_of(one_file(root, blocks, SMALL_CONTENT[::-1])) as (client, server):
        with pytest.raises(Exception, match="does not match the CID"):
            client.download(str(root))
    assert kinds(server).count("raw") <= 2 + 2 * AT_ONCE


@pytest.mark.parametrize("profile", ONE_BYTE_PROFILES.values(), ids=ONE_BYTE_PROFILES)
def test_the_store_is_looked_into_once_for_many_pieces(tmp_path, profile):
    with Client.init(path=tmp_path) as client:
        repository = client.provider.repository
        pin, _ = repository.add(SMALL_CONTENT, profile, name="")
        looks = []
        reading = repository._database.reading

        def counting():
            looks.append(1)
            return reading()

        repository._database.reading = counting
        pieces = list(repository.read(CID.parse(pin.cid)))
        assert b"".join(pieces) == SMALL_CONTENT
        assert len(pieces) <= 3
        assert len(looks) <= 3
        assert (client.download(pin.cid)).read() == SMALL_CONTENT
        with client.open(pin.cid) as file:
            file.seek(4500)
            assert file.read(10) == SMALL_CONTENT[4500:4510]
        assert len(looks) < 30
