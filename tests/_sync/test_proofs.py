# WARNING: this file is generated from tests/_async/test_proofs.py
# by scripts/generate_sync.py. Change the original instead.
"""Copies that are proven: blocks come from the target itself, or the copy is only claimed."""

from contextlib import suppress

import pytest

from holdfast import Client, ClientConfig
from holdfast._sync.copying import Copier
from holdfast._sync.proving import WELL_KNOWN, CopyProof, Prover, dag_cids, gateway_mark
from holdfast.content.cid import CID
from holdfast.content.sampling import Sample
from holdfast.errors import ProviderError, UnprovenError
from holdfast.providers import PinProvider
from holdfast.records import Copied, Verdict
from holdfast.sources.sources import no_progress
from holdfast.testing import ScriptedServer, running_node
from holdfast.testing.scripted_server import Scripted
from tests.content import stream
from tests.support import GATEWAY_TOKEN, TOKEN, query_of

LARGE = b"".join(stream("proofs", 6_000_000))
BLOCK = CID.of_raw(b"block")
RAW = {"content-type": "application/vnd.ipld.raw"}


def remove_blocks(client, cids):
    """Delete blocks of a local store; its pins stay."""
    with client.provider.repository._database.writing() as connection:
        for cid in cids:
            connection.execute("DELETE FROM blocks WHERE key = ?", (cid.key,))


def blocks_of(client, cid):
    return [block for page in dag_cids(client.provider, CID.parse(cid)) for block, _ in page]


# Two stores


def test_all_blocks_are_named_once_and_leaves_are_not_read(source, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / name).write_bytes(LARGE)
    (folder / "c").write_bytes(b"c")
    cid = (source.upload(folder)).cid
    repository = source.provider.repository
    blocks = {block for block, _ in repository._below(CID.parse(cid))}
    leaves = [block for block in blocks if block.codec == 0x55]
    assert len(leaves) == 7
    remove_blocks(source, leaves)
    names = blocks_of(source, cid)
    assert len(names) == len(blocks)
    assert set(names) == blocks


def test_without_proof_a_copy_is_claimed_and_with_it_proven(source, target):
    cid = (source.upload(LARGE)).cid
    copied = source.copy(cid, to=target)
    assert (copied.proof, copied.duplicate, copied.how) == ("claimed", False, "archive")
    assert source.copy(cid, to=target) == Copied(cid=cid, name=copied.name, duplicate=True)
    copied = source.copy(cid, to=target, proof=True)
    assert (copied.proof, copied.proof_note, copied.duplicate) == ("proven", "", True)


def test_blocks_that_are_missing_although_a_pin_exists_are_sent_again(source, target):
    cid = (source.upload(LARGE, name="mine", keyvalues={"a": 1})).cid
    source.copy(cid, to=target)
    target.update(cid, name="theirs")
    remove_blocks(target, blocks_of(source, cid))
    assert (source.copy(cid, to=target)).duplicate  # the list is believed
    copied = source.copy(cid, to=target, proof=True)
    assert copied.size > len(LARGE)
    assert copied == Copied(
        cid=cid, name="mine", how="archive", size=copied.size, proof="proven", repaired=True
    )
    assert (target.download(cid)).read() == LARGE
    (pin,) = target.pins()
    assert (pin.name, pin.keyvalues) == ("mine", {"a": 1})


def test_a_file_of_the_store_that_is_gone_or_damaged_is_missing(source, target, tmp_path):
    cid = (source.upload(LARGE)).cid
    source.copy(cid, to=target)
    gone, damaged, *_ = sorted(
        path for path in (tmp_path / "target").rglob("*") if path.stat().st_size == 1 << 20
    )
    gone.unlink()
    damaged.write_bytes(bytes(1 << 20))
    proof = Prover(target.provider).prove(blocks_of(source, cid))
    assert (proof.asked, proof.missing, proof.state) == (7, 2, "missing")
    copied = source.copy(cid, to=target, proof=True, sample="1/1")
    assert (copied.proof, copied.repaired) == ("proven", True)
    assert (target.download(cid)).read() == LARGE


def test_a_pin_without_a_name_keeps_the_one_that_the_target_has(source, target):
    cid = source.provider.repository.add(LARGE, source.provider.profile, name="")[0].cid
    source.copy(cid, to=target)
    target.update(cid, name="theirs")
    remove_blocks(target, blocks_of(source, cid))
    copied = source.copy(cid, to=target, proof=True)
    assert (copied.name, copied.repaired) == ("theirs", True)
    assert [pin.name for pin in target.pins()] == ["theirs"]


def test_a_noted_line_is_no_proof(source, target, tmp_path):
    cids = [(source.upload(LARGE[start:], name=str(start))).cid for start in (1, 2, 3)]
    how = {"to": target, "journal": tmp_path / "journal"}
    for outcome in source.copy_pins(**how):
        assert outcome.record.proof == "claimed"
    remove_blocks(target, blocks_of(source, cids[1]))
    states = {}
    for outcome in source.copy_pins(**how, proof=True):
        copied = outcome.result()
        states[copied.cid] = (copied.proof, copied.earlier, copied.repaired)
    usual = ("proven", True, False)
    assert states == {cids[0]: usual, cids[1]: ("proven", False, True), cids[2]: usual}
    assert (target.download(cids[1])).read() == LARGE[2:]


def test_everything_in_the_cid_is_proven_and_a_part_without_blocks_is_not(source, target):
    prover = Prover(target.provider)
    proof = prover.prove_dag(source.provider, CID.parse("bafkqaaa"))
    assert (proof.state, proof.note) == ("proven", "")
    cid = (source.store([1])).cid
    parts = [source.copy(cid, to=target, proof=True, sample=f"{n}/3") for n in (1, 2, 3)]
    assert sorted(copied.proof for copied in parts) == ["claimed", "claimed", "proven"]
    assert {copied.proof_note for copied in parts} == {"", "no block of it is in the sample"}


@pytest.mark.parametrize(("sample", "error"), [("x", ValueError), (2, TypeError)])
def test_a_wrong_sample_is_an_error_before_anything_is_sent(source, target, sample, error):
    cid = (source.store([1])).cid
    with pytest.raises(error, match="sample"):
        source.copy(cid, to=target, proof=True, sample=sample)
    assert target.pins() == []


# A service with a gateway


class Service:
    """A pinning service of one site with its gateway. `blocks` are those that it has."""

    def __init__(self, blocks=(), listed=()):
        self.blocks = {CID.of_raw(data): data for data in blocks}
        self.listed = [str(CID.of_raw(data)) for data in listed]
        self.claims_all = False
        self.fetches_from = None
        self.status = 412
        self.headers = {}

    def __call__(self, request):
        if request.target.startswith("/data/pinList"):
            rows = [row(cid) for cid in self.listed if cid in request.target]
            if self.claims_all:
                rows = [row(query_of(request)["cid"])]
            return Scripted(body={"count": len(rows), "rows": rows})
        assert request.target.startswith("/ipfs/")
        cid = CID.parse(request.target[6:].partition("?")[0])
        if cid not in self.blocks and self.fetches_from is not None:
            with suppress(UnprovenError):
                self.blocks[cid] = self.fetches_from.block(cid)
        if cid not in self.blocks:
            return Scripted(status=self.status, body=b"not here", headers=self.headers)
        return Scripted(body=self.blocks[cid], headers=RAW | self.headers)


def row(cid):
    return {"id": "1", "ipfs_pin_hash": cid, "size": 1, "date_pinned": "2026-01-01T00:00:00Z"} | {
        "date_unpinned": None,
        "metadata": {"name": "x", "keyvalues": None},
    }


@pytest.fixture
def service():
    return Service([b"block", b"other"])


@pytest.fixture
def server(service):
    with ScriptedServer(service) as server:
        yield server


@pytest.fixture
def provider(server):
    config = ClientConfig(
        provider="pinning",
        provider_token=TOKEN,
        pin_api_url=server.url,
        gateway_url=server.url,
        retries={"attempts": 2, "base": 0.001},
    )
    provider = PinProvider(config)
    yield provider
    provider.close()


def asked_at(server):
    return [request for request in server.requests if request.target.startswith("/ipfs/")]


@pytest.mark.parametrize("status", [404, 410, 412])
def test_a_gateway_is_asked_to_fetch_nothing_and_gets_no_token(provider, server, service, status):
    service.status = status
    absent = CID.of_raw(b"absent")
    proof = Prover(provider).prove([BLOCK, absent])
    assert proof == CopyProof(asked=2, missing=1)
    assert proof.note == "1 of 2 blocks are missing: unpin it there and send it again"
    requests = asked_at(server)
    assert {request.target for request in requests} == {
        f"/ipfs/{cid}?format=raw" for cid in (BLOCK, absent, *WELL_KNOWN)
    }
    assert {request.headers["cache-control"] for request in requests} == {"only-if-cached"}
    assert not any(TOKEN.encode() in request.raw for request in requests)


def test_wrong_bytes_are_missing_and_that_is_said(provider, service):
    service.blocks[BLOCK] = b"other bytes"
    proof = Prover(provider).prove([BLOCK])
    assert (proof.state, proof.asked, proof.missing) == ("missing", 1, 1)
    assert str(BLOCK) in proof.reason


@pytest.mark.parametrize(
    "headers",
    [
        {"age": "7"},
        {"cf-cache-status": "HIT"},
        {"x-cache": "Hit from cloudfront"},
        {"x-cache": "MISS, HIT"},
        {"x-proxy-cache": "HIT"},
        {"x-cache-hits": "0, 1"},
        {"x-ipfs-cache": "hit"},
        {"cache-status": "edge; hit; ttl=30"},
    ],
)
def test_a_reply_from_a_cache_proves_nothing(provider, service, headers):
    service.headers = headers
    proof = Prover(provider).prove([BLOCK])
    assert (proof.state, proof.asked) == ("claimed", 0)
    assert "cache" in proof.note


@pytest.mark.parametrize(
    "headers",
    [
        {"age": "0"},
        {"cache-control": "public, max-age=29030400, immutable"},
        {"cf-cache-status": "MISS"},
        {"x-cache": "Miss from cloudfront"},
        {"x-cache-hits": "0"},
        {"cache-status": "edge; fwd=miss; fwd-status=200"},
    ],
)
def test_a_reply_past_a_cache_proves_something(provider, service, headers):
    service.headers = headers
    assert (Prover(provider).prove([BLOCK])).state == "proven"


@pytest.mark.parametrize("headers", [{"age": "7"}, {"cf-cache-status": "HIT"}])
@pytest.mark.parametrize("status", [404, 412])
def test_a_cache_that_says_that_a_block_is_not_there_proves_nothing_either(
    provider, service, status, headers
):
    service.status, service.headers = status, headers
    prover = Prover(provider)
    proof = prover.prove([CID.of_raw(b"absent")])
    assert (proof.state, proof.asked) == ("claimed", 0)
    assert "a cache before" in proof.note
    assert prover.verdict.is_good  # it has sent nothing that it cannot have


def test_a_gateway_that_refuses_blocks_proves_nothing(provider, service):
    service.status = 403
    proof = Prover(provider).prove([BLOCK])
    assert (proof.state, proof.asked) == ("claimed", 0)
    assert "cannot be asked for blocks: HTTP error 403" in proof.reason


def test_a_gateway_that_searches_the_network_proves_nothing(provider, server, service):
    service.status = 504
    proof = Prover(provider).prove([])
    assert f"does not refuse {WELL_KNOWN[0]}, which" in proof.reason
    assert len(asked_at(server)) == 1  # a search is not repeated


def test_a_service_that_does_not_answer_is_an_error_and_no_verdict(provider, server, service):
    service.status = 503
    prover = Prover(provider)
    with pytest.raises(ProviderError):
        prover.prove([BLOCK])
    assert prover.verdict is None
    assert len(asked_at(server)) == 2  # it was tried again


def test_a_gateway_that_has_what_its_service_does_not_list_is_no_witness(
    provider, server, service, source
):
    source.store("theirs")
    cid = CID.parse((source.pins())[0].cid)
    assert (Prover(provider).find_verdict([source.provider])).is_good
    service.blocks[cid] = b'"theirs"'
    prover = Prover(provider)
    verdict = prover.find_verdict([source.provider])
    assert not verdict.is_good
    assert f"does not refuse {cid}, which" in verdict.reason
    proof = prover.prove([BLOCK])
    assert (proof.state, proof.reason) == ("claimed", verdict.reason)
    service.listed = [str(cid)]
    assert (prover.find_verdict([source.provider])).is_good


@pytest.fixture
def other_node():
    with running_node() as node:
        yield node


@pytest.fixture
def other(other_node):
    """A provider on the network, which has the block `BLOCK`."""
    with Client.init(other_node.config.with_options(gateway_url=None)) as client:
        assert client.provider.is_on_network()
        assert (client.upload(b"block")).cid == str(BLOCK)
        yield client


@pytest.mark.parametrize("claims_all", [False, True])
def test_a_root_that_is_garbage_or_a_part_of_something_else_is_no_objection(
    provider, service, other, other_node, claims_all
):
    """A new block decides, which is stored for the test and removed again."""
    service.claims_all = claims_all
    verdict = Prover(provider).find_verdict([other.provider])
    assert (verdict.is_good, verdict.reason) == (True, "")
    assert [pin.cid for pin in other_node.repository.pins()] == [str(BLOCK)]


@pytest.mark.parametrize("claims_all", [False, True])
def test_a_gateway_that_fetches_is_no_witness_whatever_its_service_lists(
    provider, service, other, other_node, claims_all
):
    service.claims_all = claims_all
    service.fetches_from = other_node.repository
    verdict = Prover(provider).find_verdict([other.provider])
    assert not verdict.is_good
    assert "it may fetch what it lacks" in verdict.reason
    assert str(BLOCK) not in verdict.reason  # the new block has decided
    assert [pin.cid for pin in other_node.repository.pins()] == [str(BLOCK)]


def test_a_new_block_decides_if_everything_is_listed(provider, service, other, other_node):
    service.listed = [str(BLOCK)]
    assert (Prover(provider).find_verdict([other.provider])).is_good
    service.fetches_from = other_node.repository
    assert not (Prover(provider).find_verdict([other.provider])).is_good


def test_without_a_new_block_a_list_that_claims_everything_says_nothing(provider, service, source):
    """The store is not on the network, so the root decides."""
    source.upload(b"block")
    service.listed = [str(BLOCK)]
    assert (Prover(provider).find_verdict([source.provider])).is_good
    service.claims_all = True
    assert not (Prover(provider).find_verdict([source.provider])).is_good


def test_a_new_block_that_cannot_be_removed_does_not_end_the_test(
    provider, other, other_node, caplog
):
    other_node.fail_next(status=403, method="DELETE", times=9)
    assert (Prover(provider).find_verdict([other.provider])).is_good
    assert "keeps" in caplog.text


def test_a_gateway_with_content_of_the_world_is_no_witness(provider, service):
    service.blocks[WELL_KNOWN[1]] = b"made up"
    assert (Prover(provider).find_verdict()).is_good  # only made up
    service.headers = {"age": "1"}
    assert not (Prover(provider).find_verdict()).is_good
    service.listed = [str(WELL_KNOWN[1])]
    assert (Prover(provider).find_verdict()).is_good


def test_a_verdict_is_used_again_unless_the_gateway_is_another(provider, server):
    verdict = Verdict(is_good=True, gateway=gateway_mark(f"{server.url}/ipfs"))
    assert (Prover(provider, verdict=verdict).prove([BLOCK])).state == "proven"
    assert len(asked_at(server)) == 1
    elsewhere = verdict._replace(gateway=gateway_mark("https://example.com/ipfs"))
    assert Prover(provider, verdict=elsewhere).verdict is None


def test_a_bad_verdict_ends_when_another_gateway_is_named(provider, server, service):
    service.status = 403
    verdict = Prover(provider).find_verdict()
    assert (verdict.is_good, verdict.gateway) == (False, gateway_mark(f"{server.url}/ipfs"))
    assert Prover(provider, verdict=verdict).verdict == verdict
    other = PinProvider(provider.config.with_options(witness="http://127.0.0.1:1"))
    assert Prover(other, verdict=verdict).verdict is None
    other.close()


def test_the_token_of_a_gateway_goes_to_that_gateway_alone(provider, server):
    with ScriptedServer(Service([b"block"])) as witness:
        options = {"gateway_token": GATEWAY_TOKEN, "witness": witness.url}
        other = PinProvider(provider.config.with_options(**options))
        try:
            proof = Prover(other).prove([BLOCK])
            assert proof.state == "proven"
            other.gateway_block(BLOCK, f"{server.url}/ipfs")
        finally:
            other.close()
    assert not any(GATEWAY_TOKEN.encode() in request.raw for request in witness.requests)
    assert not any(TOKEN.encode() in request.raw for request in witness.requests)
    assert GATEWAY_TOKEN.encode() in asked_at(server)[-1].raw


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gateway_url": "https://example.org"},  # another site
        {"witness": "https://gateway.pinata.cloud"},
        {"witness": "https://ipfs.io"},
        {"gateway_url": "https://gateway.pinata.cloud"},
    ],
)
def test_public_gateways_and_other_sites_are_never_asked(options):
    provider = PinProvider(ClientConfig(provider="pinning", provider_token="x", **options))
    try:
        proof = Prover(provider).prove([BLOCK])
    finally:
        provider.close()
    assert proof.state == "claimed"
    assert "name one that fetches nothing as `witness`" in proof.reason


def test_no_block_is_asked_for_twice_while_others_remain(source, other_node):
    cid = (source.upload(LARGE)).cid
    with Client.init(other_node.config) as target:
        source.copy(cid, to=target)
        prover = Prover(target.provider)
        before = len(other_node.requests)
        for _ in range(2):
            assert (prover.prove_dag(source.provider, CID.parse(cid))).asked == 4
    blocks = {str(block) for block in blocks_of(source, cid)}
    asked = [line for line in other_node.requests[before:] if any(cid in line for cid in blocks)]
    assert len(asked) == 8
    assert len(set(asked)) == len(blocks) == 7


def test_a_service_that_only_pins_by_cid_gets_a_copy_from_another_one_and_proves_it(
    other_node,
):
    """It cannot be sent anything: it fetches from the source, which has it."""
    with running_node(gateways=(other_node.gateway_url,)) as node:
        config = node.config.with_options(provider="psa", pin_api_url=f"{node.api_url}/psa")
        with Client.init(config) as target, Client.init(other_node.config) as other:
            cid = (other.upload(LARGE[:2_500_000], name="mine", keyvalues={"sea": "north"})).cid
            (pin,) = other.pins(cid=cid)
            copier = Copier(other.provider, target.provider, pin_by_cid=True, wait=30)
            copied = copier.send(pin, no_progress)
            assert (copied.how, copied.state, copied.dropped) == ("pin", "pinned", ())
            prover = Prover(target.provider)
            assert (prover.find_verdict([other.provider])).is_good
            root = CID.parse(cid)
            proof = prover.prove_dag(other.provider, root, Sample.parse("1/1"))
            assert (proof.state, proof.asked) == ("proven", 4)
            assert copier.update(cid, "theirs", {"n": "1"}) == ()
            (pin,) = target.pins()
            assert (pin.name, pin.keyvalues) == ("theirs", {"sea": "north", "n": "1"})
            with node.repository._database.writing() as connection:
                connection.execute("DELETE FROM blocks")
            assert (prover.prove_dag(other.provider, root)).state == "missing"
            target.revoke(cid)  # without that, the service would do nothing
            copied = copier.send(pin, no_progress, is_repair=True)
            assert (copied.how, copied.state) == ("pin", "pinned")
            assert (prover.prove_dag(other.provider, root)).state == "proven"


def test_the_node_is_a_witness_and_what_it_loses_is_sent_again(source):
    cid = (source.upload(LARGE[:700_000])).cid
    with running_node() as node:
        with Client.init(node.config) as target:
            copied = source.copy(cid, to=target, proof=True)
            assert (copied.proof, copied.how) == ("proven", "upload")
            with node.repository._database.writing() as connection:
                connection.execute("DELETE FROM blocks")
            assert (source.copy(cid, to=target)).duplicate
            copied = source.copy(cid, to=target, proof=True)
            assert (copied.proof, copied.repaired) == ("proven", True)
            assert (target.download(cid)).read() == LARGE[:700_000]
