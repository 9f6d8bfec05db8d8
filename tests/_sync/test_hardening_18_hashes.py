# WARNING: this file is generated from tests/_async/test_hardening_18_hashes.py
# by scripts/generate_sync.py. Change the original instead.
"""A client reads content under other hash functions than SHA-256 (number 18)."""

import hashlib

import pytest

from holdfast import Client
from holdfast.content.car import write_car
from holdfast.content.cid import CID, RAW
from holdfast.content.hashes import FUNCTIONS, SHA2_256
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V0_2015
from holdfast.errors import UnprovenError, VerificationError
from holdfast.protocol.gateway import CAR_TYPE, RAW_TYPE
from holdfast.testing import Scripted, ScriptedServer
from tests.content import Blocks
from tests.support import config_for

CONTENT = hashlib.shake_128(b"other hashes").digest(600_000)
OTHERS = {each.name: code for code, each in FUNCTIONS.items() if code != SHA2_256}
each_hash = pytest.mark.parametrize("code", OTHERS.values(), ids=OTHERS)


def gateway(root, blocks, body, refuse=()):
    """A gateway with one file."""

    def answer(request):
        kind = request.target.partition("format=")[2][:3] or "plain"
        if kind in refuse:
            return Scripted(status=406)
        if kind == "raw":
            cid = CID.parse(request.target.split("/")[2].partition("?")[0])
            return Scripted(body=blocks[cid], headers={"Content-Type": RAW_TYPE})
        if kind == "car":
            archive = b"".join(write_car([root], blocks.items()))
            return Scripted(body=archive, headers={"Content-Type": CAR_TYPE})
        return Scripted(body=body)

    return ScriptedServer(answer)


@each_hash
def test_a_single_block_is_verified_as_it_streams(code):
    cid = CID(1, RAW, code, FUNCTIONS[code].new(CONTENT).digest())
    for body in (CONTENT, CONTENT[:-1] + b"\0", CONTENT[:-1], CONTENT + b"\0"):
        with gateway(cid, {cid: body}, body) as server:
            with Client.init(config_for(server)) as client:
                if body == CONTENT:
                    assert (client.download(str(cid))).read() == CONTENT
                    continue
                with pytest.raises(VerificationError) as caught:
                    client.download(str(cid))
                assert type(caught.value) is VerificationError


@pytest.mark.parametrize("refuse", [(), ("raw",), ("raw", "car")], ids=["blocks", "CAR", "layout"])
@each_hash
def test_a_tree_is_verified_by_every_strategy(code, refuse):
    for profile in (UNIXFS_V0_2015, KUBO_LEGACY_CIDV1):
        root, blocks = Blocks.of_file(CONTENT, profile.with_hash(code))
        with gateway(root, blocks, CONTENT, refuse) as server:
            with Client.init(config_for(server)) as client:
                assert (client.download(str(root))).read() == CONTENT
        wrong = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
        damaged = Blocks({**blocks, list(blocks)[2]: b"another block"})
        with gateway(root, damaged, wrong, refuse) as server:
            with Client.init(config_for(server)) as client:
                with pytest.raises(VerificationError):
                    client.download(str(root))


@pytest.mark.parametrize(
    ("name", "code", "size"), [("sha1", 0x11, 20), ("md5", 0xD5, 16), ("blake3", 0x1E, 32)]
)
def test_broken_and_unknown_hashes_are_unproven_before_any_request(name, code, size):
    cid = CID(1, RAW, code, bytes(size))
    with gateway(cid, {cid: CONTENT}, CONTENT) as server:
        with Client.init(config_for(server)) as client:
            with pytest.raises(UnprovenError, match=name):
                client.download(str(cid))
        assert server.requests == []


def test_the_node_serves_such_content(node):
    for code in OTHERS.values():
        root, blocks = Blocks.of_file(CONTENT, KUBO_LEGACY_CIDV1.with_hash(code))
        node.repository.import_car(write_car([root], blocks.items()))
        with ScriptedServer() as api:
            config = config_for(api, gateway_url=node.gateway_url)
            with Client.init(config) as client:
                assert (client.download(str(root))).read() == CONTENT
                with client.open(str(root)) as file:
                    file.seek(300_000)
                    assert file.read(10) == CONTENT[300_000:300_010]
