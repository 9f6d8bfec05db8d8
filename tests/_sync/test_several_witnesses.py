# WARNING: this file is generated from tests/_async/test_several_witnesses.py
# by scripts/generate_sync.py. Change the original instead.
"""A member with several gateways, such as a cluster: who has a block, and who only may have it."""

import pytest

from holdfast import Client
from holdfast._sync.proving import Prover, gateway_mark
from holdfast.content.cid import CID
from holdfast.errors import NetworkError
from holdfast.protocol.gateway import RAW_TYPE
from holdfast.records import Verdict
from holdfast.testing import Scripted, ScriptedServer
from tests.support import config_for

BLOCK = b"a block that one of the peers has"
ROOT = CID.of_raw(BLOCK)
HEADERS = {"Content-Type": RAW_TYPE}
REPLIES = {
    "there": Scripted(body=BLOCK, headers=HEADERS),
    "gone": Scripted(status=412, body=b"not here"),
    "wrong": Scripted(body=b"other bytes", headers=HEADERS),
    "cached": Scripted(body=BLOCK, headers={**HEADERS, "Age": "3"}),
    "down": Scripted(hang_up=True),
}


def prove_at(*replies):
    """Prove a block at a provider with gateways of which each has one reply."""
    servers = [ScriptedServer(lambda _, reply=reply: REPLIES[reply]) for reply in replies]
    try:
        urls = [f"{server.url}/ipfs" for server in servers]
        with Client.init(config_for(servers[0], gateway_url=urls)) as client:
            verdict = Verdict(is_good=True, gateway=" ".join(map(gateway_mark, urls)))
            proof = Prover(client.provider, verdict=verdict).prove([ROOT])
        return proof.state, proof.asked, [len(server.requests) for server in servers]
    finally:
        for server in servers:
            server.close()


@pytest.mark.parametrize("first", ["gone", "wrong", "cached", "down"])
def test_a_block_is_there_if_one_of_the_gateways_has_it(first):
    assert prove_at(first, "there") == ("proven", 1, [1, 1])


def test_the_others_are_not_asked_for_a_block_that_came():
    assert prove_at("there", "gone") == ("proven", 1, [1, 0])


@pytest.mark.parametrize("replies", [("gone", "gone"), ("wrong", "gone"), ("gone", "wrong")])
def test_a_block_is_missing_if_no_gateway_has_it(replies):
    assert prove_at(*replies) == ("missing", 1, [1, 1])


def test_a_block_may_be_there_if_a_gateway_has_answered_from_a_cache():
    assert prove_at("gone", "cached") == ("claimed", 0, [1, 1])


@pytest.mark.parametrize("replies", [("gone", "down"), ("down", "wrong")])
def test_a_block_may_be_at_a_gateway_that_is_down(replies):
    with pytest.raises(NetworkError):
        prove_at(*replies)


def test_every_gateway_is_tested_and_only_those_that_pass_are_asked():
    with (
        ScriptedServer(lambda _: REPLIES["gone"]) as witness,
        ScriptedServer(lambda _: REPLIES["there"]) as fetching,
        ScriptedServer(lambda _: Scripted(body={"rows": []})) as api,
    ):
        urls = [f"{server.url}/ipfs" for server in (fetching, witness)]
        with (
            Client.init(config_for(api, gateway_url=urls)) as client,
            Client.init(path="other") as other,
        ):
            other.upload(BLOCK)
            verdict = Prover(client.provider).find_verdict([other.provider])
    assert (verdict.is_good, verdict.gateway) == (True, gateway_mark(urls[1]))


def test_a_provider_is_tested_also_while_another_one_is_down():
    with (
        ScriptedServer(lambda _: REPLIES["gone"]) as witness,
        ScriptedServer(lambda _: REPLIES["down"]) as down,
        ScriptedServer(lambda _: Scripted(body={"rows": []})) as api,
    ):
        config = config_for(api, gateway_url=f"{witness.url}/ipfs")
        with (
            Client.init(config) as client,
            Client.init(config_for(down)) as other,
            Client.init(path="third") as third,
        ):
            third.upload(BLOCK)
            others = [other.provider, third.provider]
            verdict = Prover(client.provider).find_verdict(others)
        assert verdict.is_good
        assert f"/ipfs/{ROOT}?format=raw" in {request.target for request in witness.requests}


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
