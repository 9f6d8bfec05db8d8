"""Which gateways of real members are witnesses, and what counts as proof."""

import json

import pytest

from holdfast import Client
from holdfast._sync.proving import Prover
from holdfast.content.cid import CID
from tests import fleet as faults
from tests.engines import Kubo, running_kubo
from tests.fleet import running_fleet
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with running_fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def neighbour(fleet, tmp_path_factory):
    """A Kubo that is no member, and from which those of the cluster fetch what they are asked."""

    def listen(settings):
        settings["Addresses"]["Swarm"] = ["/ip4/127.0.0.1/tcp/0"]

    folder = tmp_path_factory.mktemp("neighbour") / "kubo"
    with running_kubo(folder, is_online=True, change=listen) as kubo:
        for peer in fleet["cluster"].cluster.peers:
            connect(peer.kubo, kubo)
        yield kubo


def connect(kubo: Kubo, other: Kubo) -> None:
    addresses = json.loads(other.call("id"))["Addresses"]
    kubo.call("swarm/connect", arg=next(text for text in addresses if "/127.0.0.1/" in text))


def test_a_gateway_that_fetches_is_no_witness(fleet, neighbour):
    member = fleet["cluster"]
    with Client.init(member.config()) as client, Client.init(neighbour.provider_config()) as other:
        for number in range(5):
            other.upload(b"the neighbour has this: %d" % number)
        others = [other.provider]
        verdict = Prover(client.provider).find_verdict(others)
        assert (verdict.is_good, verdict.reason) == (True, "")
        with member.faulty(faults.without_cache_control):
            verdict = Prover(client.provider).find_verdict(others)
        assert not verdict.is_good
        assert "may fetch what it lacks" in verdict.reason


@pytest.mark.parametrize("name", ["kubo-a", "cluster", "v3", "older", "psa"])
def test_every_member_proves_what_it_has_and_nothing_else(fleet, name):
    member = fleet[name]
    data = b"proven at %s" % name.encode() * 60_000
    source = fleet["kubo-b"]
    with Client.init(member.config()) as client, Client.init(source.config()) as origin:
        root = CID.parse(origin.upload(data).cid)
        prover = Prover(client.provider)
        assert prover.find_verdict([origin.provider]).is_good
        proof = prover.prove_dag(origin.provider, root)
        assert (proof.state, proof.missing) == ("missing", proof.asked)
        with member.faulty(faults.claim_all):
            assert prover.prove_dag(origin.provider, root).state == "missing"
        with member.faulty(faults.wrong_bytes):
            assert prover.prove_dag(origin.provider, root).state == "missing"
        if name == "psa":
            kubo = fleet["kubo-a"].config()
            with Client.init(kubo) as other:
                other.upload(data)
            client.pin(str(root), wait=30)
        else:
            origin.copy(str(root), to=client)
        wait_until(lambda: member.has(str(root)))
        proof = prover.prove_dag(origin.provider, root)
        assert (proof.state, proof.missing, proof.reason) == ("proven", 0, "")
        with member.faulty(faults.wrong_bytes):
            assert prover.prove_dag(origin.provider, root).state == "missing"
        member.empty()
        assert prover.prove_dag(origin.provider, root).state == "missing"


@pytest.mark.parametrize("name", ["cluster", "v3", "older", "psa"])
def test_a_reply_from_a_cache_proves_nothing(fleet, name):
    member = fleet[name]
    with Client.init(member.config()) as client, Client.init(fleet["kubo-b"].config()) as origin:
        data = b"cached before %s" % name.encode()
        if name == "psa":
            with Client.init(fleet["kubo-a"].config()) as other:
                root = CID.parse(other.upload(data).cid)
            client.pin(str(root), wait=30)
        else:
            root = CID.parse(client.upload(data).cid)
        wait_until(lambda: member.has(str(root)))
        prover = Prover(client.provider)
        assert prover.find_verdict([origin.provider]).is_good
        with member.faulty(faults.Cache()):
            assert prover.prove([root]).state == "proven"
            member.empty()
            again = prover.prove([root])
            assert (again.state, again.asked) == ("claimed", 0)
            assert again.reason
        assert prover.prove([root]).state == "missing"
