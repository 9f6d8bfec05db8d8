# WARNING: this file is generated from tests/_async/test_declared_sizes.py
# by scripts/generate_sync.py. Change the original instead.
"""A client meets files whose nodes declare other sizes than their children have (number 6)."""

import pytest

from holdfast import Client
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.errors import MalformedError
from holdfast.protocol.gateway import CAR_TYPE, RAW_TYPE
from holdfast.testing import Scripted, ScriptedServer
from tests.lying_dags import LIES, TRUTHS, bodies, build
from tests.support import config_for

CASES = {**LIES, **TRUTHS}


class Shelf:
    """A gateway for all cases at once. It sends `body` of those that are made of a DAG."""

    def __init__(self, refuse=(), body=0):
        self.refuse = refuse
        self.dags = {}
        self.blocks = {}
        for name, case in CASES.items():
            root, blocks, content = build(case)
            sent = bodies(root, blocks, content) if name in LIES else [content]
            self.dags[str(root)] = (root, blocks, sent[min(body, len(sent) - 1)])
            self.blocks.update(blocks)

    def __call__(self, request):
        cid = request.target.split("/")[2].partition("?")[0]
        kind = request.target.partition("format=")[2][:3] or "plain"
        if kind in self.refuse:
            return Scripted(status=406)
        if kind == "raw":
            return Scripted(body=self.blocks[CID.parse(cid)], headers={"Content-Type": RAW_TYPE})
        root, blocks, body = self.dags[cid]
        if kind == "car":
            archive = b"".join(write_car([root], blocks.items()))
            return Scripted(body=archive, headers={"Content-Type": CAR_TYPE})
        return Scripted(body=body)


def root_of(name):
    return str(build(CASES[name])[0])


WAYS = {
    "blocks": {},
    "blocks, the body in its declared length": {"body": 1},
    "archive": {"refuse": {"raw"}},
    "blocks alone": {"refuse": {"car"}},
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_lies_are_malformed_and_truths_are_read(way, tmp_path):
    with ScriptedServer(Shelf(**way)) as server:
        config = config_for(server, cache_path=tmp_path / "cache")
        with Client.init(config) as client:
            for name in LIES:
                with pytest.raises(MalformedError):
                    client.download(root_of(name), to=tmp_path / "copy")
                assert not (tmp_path / "copy").exists(), name
            for name, (_, content) in TRUTHS.items():
                assert (client.download(root_of(name))).read() == content, name


@pytest.mark.parametrize("refuse", [(), ("raw",)], ids=["blocks", "archive"])
def test_an_open_file_gives_no_byte_of_a_lie(refuse):
    with ScriptedServer(Shelf(refuse)) as server:
        with Client.init(config_for(server)) as client:
            for name in LIES:
                with pytest.raises(MalformedError):
                    with client.open(root_of(name)) as file:
                        file.read()
            for name, (_, content) in TRUTHS.items():
                with client.open(root_of(name)) as file:
                    assert file.read() == content, name


def test_a_gateway_with_wrong_bytes_is_still_the_one_to_blame():
    """The DAG is sound: whoever sent other bytes is wrong, and says so after one more block."""
    name = "leaf of type Raw"
    shelf = Shelf()
    root, blocks, _ = shelf.dags[root_of(name)]
    shelf.dags[str(root)] = (root, blocks, b"hellOworld")
    with ScriptedServer(shelf) as server:
        with Client.init(config_for(server)) as client:
            with pytest.raises(Exception, match="not what this CID names") as caught:
                client.download(str(root))
    assert caught.value.name == "VerificationError"
