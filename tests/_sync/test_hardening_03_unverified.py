# WARNING: this file is generated from tests/_async/test_hardening_03_unverified.py
# by scripts/generate_sync.py. Change the original instead.
"""Bodies that can only be verified at their end have a limit, which no gateway can raise."""

import time
from dataclasses import replace

import pytest

from holdfast import Client
from holdfast.content.profiles import UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.errors import UnprovenError, VerificationError
from holdfast.testing import Scripted, ScriptedServer
from tests.attackers import Attacker
from tests.content import Blocks
from tests.dags import MIB
from tests.faulty import gateway_of
from tests.support import config_for, raw_cid

LIMIT = 3 * MIB
TREE = str(Blocks.of_file(b"{}", UNIXFS_V0_2015)[0])
NAMES = pytest.mark.parametrize("cid", [raw_cid(b"{}"), TREE], ids=["block", "tree"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where temporary and partial files would be."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def only_plain(reply):
    """A gateway that gives neither blocks nor archives."""
    return ScriptedServer(
        lambda request: Scripted(status=406) if "format=" in request.target else reply
    )


def files_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


@NAMES
@pytest.mark.parametrize("to_file", [False, True], ids=["spooled", "to a file"])
def test_an_endless_body_is_cut_off_at_the_limit(folder, cid, to_file):
    def endless():
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        while True:
            yield b"x" * 65536

    def refused():
        yield b"HTTP/1.1 406 No\r\nContent-Length: 0\r\n\r\n"

    # The plain body first; then a block, and an archive.
    attacks = [endless, refused, refused]

    def attack():
        yield from attacks.pop(0)()

    with Attacker(attack) as attacker:
        config = config_for(
            attacker,
            max_unverified_bytes=LIMIT,
            cache_path=folder / "cache",
            retries={"attempts": 4},
        )
        with Client.init(config) as client:
            with pytest.raises(UnprovenError, match=rf"max_unverified_bytes \({LIMIT}\)"):
                client.download(cid, to=folder / "file" if to_file else None)
        assert attacker.sent < LIMIT + 16 * MIB  # buffers of the sockets, too
    assert files_in(folder) == []


@NAMES
def test_a_length_above_the_limit_is_refused_before_the_body(folder, cid):
    reply = Scripted(headers={"Content-Length": str(LIMIT + 1)}, body=b"x", cut=1, ending="stall")
    with only_plain(reply) as server:
        config = config_for(server, max_unverified_bytes=LIMIT, cache_path=folder)
        begun = time.monotonic()
        with Client.init(config) as client:
            with pytest.raises(UnprovenError, match="max_unverified_bytes"):
                client.download(cid)
        assert time.monotonic() - begun < 10


def test_a_body_within_the_limit_is_read(folder):
    data = bytes(LIMIT)
    cid = str(Blocks.of_file(data, UNIXFS_V1_2025)[0])
    with only_plain(Scripted(body=data, chunked=True)) as server:
        config = config_for(server, max_unverified_bytes=LIMIT)
        with Client.init(config) as client:
            assert (client.download(cid)).read() == data


def test_the_size_that_a_verified_root_tells_is_the_limit():
    """Its children are refused, so that the rest can only be verified at its end."""
    odd = replace(UNIXFS_V1_2025, chunk_size=1000, width=3)
    root, blocks = Blocks.of_file(bytes(range(200)) * 50, odd)
    plain = lambda _: Scripted(body=bytes(range(200)) * 50 + bytes(4 * MIB))  # noqa: E731
    with_root = gateway_of({root: blocks[root]}, plain)

    def answer(request):
        other = "format=raw" in request.target and str(root) not in request.target
        return Scripted(status=403) if other else with_root(request)

    with ScriptedServer(answer) as server:
        with Client.init(config_for(server)) as client:
            with pytest.raises(VerificationError) as caught:
                client.download(str(root))
    assert not isinstance(caught.value, UnprovenError)
    assert str(caught.value) == f"the bytes that came for {root} are not what this CID names"


def test_without_verify_the_length_of_the_gateway_counts_and_else_the_limit():
    data = bytes(LIMIT + 1)
    config = {"max_unverified_bytes": LIMIT, "verify": False}
    with only_plain(Scripted(body=data)) as server:
        with Client.init(config_for(server, **config)) as client:
            assert (client.download(TREE)).size == len(data)
    with only_plain(Scripted(body=data, chunked=True)) as server:
        with Client.init(config_for(server, **config)) as client:
            with pytest.raises(UnprovenError, match="max_unverified_bytes"):
                client.download(TREE)
